"""The real GPU Operator against nodes of the matrix stack: what it makes of labels, and where its operands go.

The program is `cmd/gpu-operator` of NVIDIA/gpu-operator at the tag of `gpupools/data/charts.csv`. Its assets and
manifests lie in /opt/gpu-operator, as in its image; the chart is rendered as in `tests/charts`.
"""

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Piece
from gpupools.software.owners import labels_left
from gpupools.spec.software_spec import RuntimeSpec
from tests.apiserver.control_plane import ControlPlane
from tests.charts.clusters import MIRROR, SECRETS, Planned, mirrored, planned
from tests.charts.nodes import labels_at_first, taints
from tests.charts.rendering import archive, containers, lands, missing, of_kind, pod_of, rendered

ASSETS = Path("/opt/gpu-operator/state-driver")
LACKS = missing() or (
    "" if shutil.which("gpu-operator") and ASSETS.is_dir() else "no gpu-operator on PATH with its assets in /opt"
)
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"the real GPU Operator: {LACKS}")]

CLUSTERS = ("train", "serve", "lab")
"""Those of the matrix stack with other software beside the operator, one of each cloud."""
PRESENT = "nvidia.com/gpu.present"
FOUND = {  # by Node Feature Discovery, on nodes its workers run on
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/kernel-version.full": "6.8.0-1015-generic",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}


class Seen(NamedTuple):
    """A cluster after the operator has been at it."""

    cluster: Planned
    labels: Mapping[str, Mapping[str, str]]
    """By pool, of its node."""
    operands: Mapping[str, Mapping[str, Any]]
    """Pod by name of the operator's DaemonSet."""


def node(pool: PoolPlan, labels: Mapping[str, str]) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "20"}
    system = {"containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.34.2", "osImage": "Ubuntu 24.04"}
    system |= dict.fromkeys(("architecture", "bootID", "kernelVersion", "kubeProxyVersion", "machineID"), "x")
    system |= {"operatingSystem": "linux", "systemUUID": "x"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": pool.name, "labels": dict(labels)},
        "spec": {"taints": taints(pool)},
        "status": {
            "capacity": room,
            "allocatable": room,
            "nodeInfo": system,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        },
    }


@pytest.fixture(scope="module", params=CLUSTERS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Run the operator against the nodes of one cluster, until it has declared all its operands."""
    yield from _seen(planned("stacks/Pulumi.matrix.yaml"), request.param, tmp_path_factory)


@pytest.fixture(scope="module", params=[False, True], ids=["tags", "digests"])
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Run the operator in a cluster of a closed network, where it brings driver and toolkit as well."""
    clusters = mirrored("stacks/Pulumi.matrix.yaml", by_digest=request.param)
    yield from _seen(clusters, "serve", tmp_path_factory)


def _seen(clusters: Iterable[Planned], name: str, folders: pytest.TempPathFactory) -> Iterator[Seen]:
    (cluster,) = (each for each in clusters if each.runtime.cluster == name)
    with ControlPlane(folders.mktemp("operator")) as plane:
        yield _run(plane, cluster)


def _run(plane: ControlPlane, cluster: Planned) -> Seen:
    (release,) = (each for each in cluster.runtime.releases if each.chart == "gpu-operator")
    objects = rendered(release)
    crds = subprocess.run(
        ["helm", "show", "crds", str(archive("gpu-operator"))], check=True, capture_output=True
    ).stdout
    for crd in filter(None, yaml.load_all(crds, yaml.CSafeLoader)):
        plane.create(crd).succeeded()
    own = [each.manifest for each in cluster.runtime.objects]
    for each in (*of_kind(own, "Namespace"), *of_kind(own, "ConfigMap")):
        plane.apply(each).succeeded()
    (worker,) = (each for each in of_kind(objects, "DaemonSet") if each["metadata"]["name"].endswith("-worker"))
    for pool in cluster.pools:
        labels = labels_at_first(pool)
        found = FOUND if lands(pod_of(worker), labels, taints(pool)) else {}
        plane.create(node(pool, {**labels, **found})).succeeded()
    (policy,) = of_kind(objects, "ClusterPolicy")
    plane.wait("the operator's CRDs", lambda: plane.create(policy, dry_run=True).status < 300)
    plane.create(policy).succeeded()
    environment = {"KUBECONFIG": str(plane.kubeconfig), "OPERATOR_NAMESPACE": release.namespace}
    off = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
    plane.run("gpu-operator", *off, **environment)
    sets = f"/apis/apps/v1/namespaces/{release.namespace}/daemonsets"
    plane.wait("operands", lambda: _settled(plane, sets), within_s=120)
    return Seen(
        cluster,
        {each["metadata"]["name"]: each["metadata"]["labels"] for each in plane.items("/api/v1/nodes")},
        {each["metadata"]["name"]: pod_of(each) for each in plane.items(sets)},
    )


def _settled(plane: ControlPlane, sets: str) -> bool:
    """Say whether the operator's last operand is declared and nothing has changed for a while."""
    before = _versions(plane, sets)
    if not any(name.startswith("gpu-feature-discovery") for name in before):
        return False
    time.sleep(4)
    return before == _versions(plane, sets)


def _versions(plane: ControlPlane, sets: str) -> dict[str, str]:
    items = (*plane.items(sets), *plane.items("/api/v1/nodes"))
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in items}


def test_the_operator_takes_its_label_from_the_nodes_that_are_not_its_own(seen: Seen) -> None:
    before = {pool.name: labels_at_first(pool).get(PRESENT) for pool in seen.cluster.pools}
    after = {pool.name: seen.labels[pool.name].get(PRESENT) for pool in seen.cluster.pools}
    said = {pool.name: labels_left(pool, seen.cluster.runtime.releases, RuntimeSpec()) for pool in seen.cluster.pools}

    assert {name for name, value in before.items() if value == "true"}
    for pool in seen.cluster.pools:
        own = pool.software == "gpu-operator"
        assert after[pool.name] == ("true" if own else "false" if before[pool.name] else None), pool.name
    assert after == {name: labels.get(PRESENT) for name, labels in said.items()}


def test_operands_run_on_the_operators_pools_alone(seen: Seen) -> None:
    own = {pool.name for pool in seen.cluster.pools if pool.software == "gpu-operator"}
    where = {
        name: {pool.name for pool in seen.cluster.pools if lands(pod, seen.labels[pool.name], taints(pool))}
        for name, pod in seen.operands.items()
    }

    assert where["nvidia-device-plugin-daemonset"] == own
    assert where["nvidia-operator-validator"] == own
    assert {name: there - own for name, there in where.items() if there - own} == {}


def test_every_other_pool_keeps_what_serves_it(seen: Seen) -> None:
    for release in seen.cluster.runtime.releases:
        if release.chart == "gpu-operator":
            continue
        for each in of_kind(rendered(release), "DaemonSet"):
            if "mps-control-daemon" not in each["metadata"]["name"]:
                there = {
                    pool.name
                    for pool in seen.cluster.pools
                    if lands(pod_of(each), seen.labels[pool.name], taints(pool))
                }
                assert there == set(release.pools), each["metadata"]["name"]
    served = {
        row.pool for row in seen.cluster.runtime.owners if {Piece.DEVICE_PLUGIN, Piece.DRA_DRIVER} & row.owners.keys()
    }
    assert served == {pool.name for pool in seen.cluster.pools}


def test_the_operators_pods_pull_from_the_mirror_with_the_secrets(closed: Seen) -> None:
    listed = {each.pulled for each in closed.cluster.runtime.images if not each.by_system}
    (driver,) = {each.pulled for each in closed.cluster.runtime.images if each.by_system}
    pulled = {name: [each["image"] for each in containers(pod)] for name, pod in closed.operands.items()}
    without = {name for name, pod in closed.operands.items() if pod.get("imagePullSecrets") != named(SECRETS)}
    # What the validator's own pods run is told by the environment: cmd/nvidia-validator/main.go.
    told = [
        {each["name"]: each.get("value") for each in container.get("env", ())}
        for pod in closed.operands.values()
        for container in containers(pod)
    ]
    validating = [each for each in told if "VALIDATOR_IMAGE" in each]
    others = {image for images in pulled.values() for image in images if image not in listed}

    assert len(closed.operands) > 5
    assert others
    assert all(image.startswith(driver) for image in others)  # its tag goes on with the system of the nodes
    assert {image for images in pulled.values() for image in images if not image.startswith(f"{MIRROR}/")} == set()
    assert without == set()
    assert validating
    assert {each["VALIDATOR_IMAGE"] for each in validating} <= listed
    assert {each["VALIDATOR_IMAGE_PULL_SECRETS"] for each in validating} == {",".join(SECRETS)}


def named(secrets: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": each} for each in secrets]
