"""Pods of RDMA pools and of an NVLink domain on the real scheduler: bound, and with the devices they were promised."""

import io
import os
import tarfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.fabric import compute_domain
from gpupools.plan.pool_plan import PoolPlan
from gpupools.software.charts import charts
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_apiserver import bare_node, namespace, placed, pod, unschedulable
from tests.gpupools.software.fabrics import FABRICS, pool_with

pytestmark = pytest.mark.apiserver

SPACE = "fabric"
CLASSES: Mapping[str, str] = {
    "gpu.nvidia.com": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    "mrdma.google.com": "device.driver == 'dra.net' && device.attributes['dra.net'].rdma == true",
    "netdev.google.com": "device.driver == 'dra.net' && device.attributes['dra.net'].rdma == false",
    "compute-domain-default-channel.nvidia.com": (
        "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].id == 0"
    ),
}
"""As NVIDIA's chart and GKE make them."""


def devices(plan: PoolPlan) -> Mapping[str, list[Mapping[str, Any]]]:
    """Return what the drivers of a node of the pool publish, by driver; the sizes are those of the machine."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    if plan.software == "dra-driver":
        gpu = {"gpu.nvidia.com/type": {"string": "gpu"}}
        found["gpu.nvidia.com"] = [{"name": f"gpu-{n}", "attributes": gpu} for n in range(plan.instance.devices)]
    if plan.cloud == "gcp":
        # A first gVNIC beside RDMA interfaces is no RDMA interface: k8s.io/gke-autoscaling, dranet_test.go.
        is_rdma = plan.instance.rdma == "gpudirect-rdma"
        kinds = [*([False] if is_rdma else []), *([is_rdma] * (plan.instance.rdma_interfaces or 0))]
        found["dra.net"] = [
            {"name": f"net-{n}", "attributes": {"dra.net/rdma": {"bool": kind}}} for n, kind in enumerate(kinds)
        ]
    if plan.compute_domains:
        channel = {"compute-domain.nvidia.com/id": {"int": 0}}
        found["compute-domain.nvidia.com"] = [{"name": "channel-0", "attributes": channel}]
    return found


def slice_of(node: str, driver: str, listed: list[Mapping[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = {"driver": driver, "nodeName": node, "devices": listed}
    spec["pool"] = {"name": node, "generation": 1, "resourceSliceCount": 1}
    name = f"{node}-{driver}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def node(plan: PoolPlan, name: str) -> dict[str, Any]:
    """Write a node as its kubelet would register it, with what the pool's settings promise beside GPUs."""
    taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in plan.taints]
    made = bare_node(name, {"kubernetes.io/hostname": name, **plan.labels}, taints, plan.node_resources)
    room = {**made["status"]["capacity"], "cpu": "96", **plan.provider_plan.extra_resources()}
    fabric = plan.provider_plan.fabric
    if fabric is not None and fabric.is_shared:
        room[fabric.resource] = "63"  # rdmaHcaMax of the recommended policy, whatever the number of ports
    made["status"] |= {"capacity": room, "allocatable": room}
    return made


@pytest.fixture(scope="module")
def plans(server: ControlPlane) -> Mapping[str, PoolPlan]:
    """Register two nodes of every pool with their ResourceSlices, and what the pods' namespace needs."""
    found = {name: pool_with(name) for name in FABRICS}
    server.apply(namespace(SPACE)).succeeded()
    for name, expression in CLASSES.items():
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
        server.apply(made).succeeded()
    for name, plan in found.items():
        for number in range(2):
            own = f"{name}-{number}"
            server.create(node(plan, own)).succeeded()
            for driver, listed in devices(plan).items():
                server.create(slice_of(own, driver, listed)).succeeded()
        for each in plan.namespace_objects:
            server.create(in_space(made_by_controllers(each))).succeeded()
    return found


def made_by_controllers(needed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claim template that a ComputeDomain's controller makes; anything else as it is."""
    if needed["kind"] != "ComputeDomain":
        return needed
    name = needed["spec"]["channel"]["resourceClaimTemplate"]["name"]
    exactly = {"deviceClassName": "compute-domain-default-channel.nvidia.com"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "channel", "exactly": exactly}]}}},
    }


def in_space(manifest: Mapping[str, Any]) -> dict[str, Any]:
    found = deepcopy(dict(manifest))
    found["metadata"]["namespace"] = SPACE
    return found


def start(server: ControlPlane, plan: PoolPlan, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Create a pod, and its claims as kube-controller-manager does."""
    wanted = pod(name, SPACE, spec)
    made = server.create(wanted).succeeded()
    templates = {
        each["metadata"]["name"]: each["spec"]["spec"] for each in map(made_by_controllers, plan.namespace_objects)
    }
    statuses = []
    for each in spec.get("resourceClaims", ()):
        claim = f"{name}-{each['name']}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"], "controller": True}
        metadata = {"name": claim, "namespace": SPACE, "ownerReferences": [owner]}
        asked = templates[each["resourceClaimTemplateName"]]
        manifest = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": asked}
        server.create(manifest).succeeded()
        statuses.append({"name": each["name"], "resourceClaimName": claim})
    if statuses:
        server.merge(wanted, {"status": {"resourceClaimStatuses": statuses}}, "/status").succeeded()
    return wanted


def allocated(server: ControlPlane, wanted: Mapping[str, Any]) -> dict[str, int]:
    """Return how many devices of each driver a pod's claims were given."""
    counts: dict[str, int] = {}
    for each in wanted["spec"].get("resourceClaims", ()):
        metadata = {"name": f"{wanted['metadata']['name']}-{each['name']}", "namespace": SPACE}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
        for result in server.get(claim).succeeded()["status"]["allocation"]["devices"]["results"]:
            counts[result["driver"]] = counts.get(result["driver"], 0) + 1
    return counts


EXPECTED: Mapping[str, tuple[Mapping[str, Any], Mapping[str, int]]] = {
    "efa": ({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"}, {}),
    "efa-operator": ({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"}, {}),
    "efa-bottlerocket": ({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}, {}),
    "efa-few": ({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 4, "hugepages-2Mi": "5120Mi"}, {}),
    "efa-rack": (
        {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 4, "hugepages-2Mi": "5120Mi"},
        {"compute-domain.nvidia.com": 1},
    ),
    "efa-claimed": ({"vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"}, {"gpu.nvidia.com": 8}),
    "ib": ({"nvidia.com/gpu": 8, "rdma/ib": 8}, {}),
    "ib-shared": ({"nvidia.com/gpu": 8, "rdma/shared_ib": 1}, {}),
    "roce": ({"nvidia.com/gpu": 8}, {"dra.net": 8}),
    "roce-claimed": ({}, {"gpu.nvidia.com": 8, "dra.net": 8}),
    "tcpxo": ({"nvidia.com/gpu": 8}, {"dra.net": 8}),
    "tcpx": ({"nvidia.com/gpu": 8}, {"dra.net": 4}),
    "nvl-max": ({"nvidia.com/gpu": 4}, {"dra.net": 8, "compute-domain.nvidia.com": 1}),
    "nvl": ({"nvidia.com/gpu": 4}, {"dra.net": 4, "compute-domain.nvidia.com": 1}),
}
"""What a pod of a whole node asks for, and by driver the devices it has in the end."""


@pytest.mark.parametrize("name", FABRICS)
def test_a_pod_of_a_whole_node_is_bound_with_all_its_interfaces(
    name: str, plans: Mapping[str, PoolPlan], server: ControlPlane
) -> None:
    plan = plans[name]
    limits, claimed = EXPECTED[name]
    wanted = [start(server, plan, f"{name}-whole-{number}", plan.node_pod) for number in range(3)]
    server.wait("binding of two", lambda: sum(bool(placed(server, each)) for each in wanted) == 2)
    bound = [each for each in wanted if placed(server, each)]
    (other,) = (each for each in wanted if each not in bound)
    server.wait("verdict on the third", lambda: bool(unschedulable(server, other)))
    try:
        assert {placed(server, each) for each in bound} == {f"{name}-0", f"{name}-1"}
        assert plan.node_pod["containers"][0]["resources"].get("limits", {}) == limits
        assert [allocated(server, each) for each in bound] == [claimed, claimed]
    finally:
        clear(server, wanted)


@pytest.mark.parametrize("name", FABRICS)
def test_a_node_holds_as_many_pods_as_it_has_gpus(
    name: str, plans: Mapping[str, PoolPlan], server: ControlPlane
) -> None:
    plan = plans[name]
    gpus = 2 * plan.instance.devices
    wanted = [start(server, plan, f"{name}-one-{number}", plan.pod()) for number in range(gpus + 1)]
    server.wait("binding", lambda: sum(bool(placed(server, each)) for each in wanted) == gpus)
    (other,) = (each for each in wanted if not placed(server, each))
    server.wait("verdict on one more", lambda: bool(unschedulable(server, other)))
    try:
        asks = wanted[0]["spec"]["containers"][0]["resources"]
        fabric = plan.provider_plan.fabric
        assert fabric is not None
        asked = fabric.resource in asks.get("limits", {}) or {"name": "rdma"} in asks.get("claims", ())
        assert asked == bool(fabric.share(plan.units))
        assert {"name": "compute-domain"} not in asks.get("claims", ())  # a node's channel is one pod's
    finally:
        clear(server, wanted)


def clear(server: ControlPlane, pods: list[dict[str, Any]]) -> None:
    """Take pods and their claims away; no kubelet confirms, so nothing waits for one."""
    for each in pods:
        server.delete_now(each).succeeded()
        for claim in each["spec"].get("resourceClaims", ()):
            metadata = {"name": f"{each['metadata']['name']}-{claim['name']}", "namespace": SPACE}
            server.drop({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata})


def test_a_share_of_huge_pages_alone_would_be_refused(plans: Mapping[str, PoolPlan], server: ControlPlane) -> None:
    spec = plans["efa"].pod()
    del spec["containers"][0]["resources"]["requests"]

    answer = server.create(pod("no-cpu", SPACE, spec), dry_run=True)

    assert "HugePages require cpu or memory" in answer.message


def test_the_compute_domain_is_one_that_nvidias_definition_takes(server: ControlPlane) -> None:
    folder = os.environ.get("GPUPOOLS_CHARTS")
    chart = charts()["dra-driver-nvidia-gpu"]
    file = Path(folder or "") / f"{chart.chart}-{chart.version}.tgz"
    if not folder or not file.exists():
        pytest.skip("GPUPOOLS_CHARTS names no folder with the DRA driver's chart")
    with tarfile.open(file) as packed:
        crds = [each for each in packed.getnames() if "/crds/" in each and each.endswith("computedomains.yaml")]
        (text,) = (packed.extractfile(each) or io.BytesIO() for each in crds)
        definition = yaml.safe_load(text.read())
    server.apply(definition).succeeded()
    domain = in_space(compute_domain("nvl"))
    server.apply(namespace(SPACE)).succeeded()
    server.wait("the definition", lambda: server.apply(domain, dry_run=True).status != 404)

    server.apply(domain, dry_run=True).succeeded()
