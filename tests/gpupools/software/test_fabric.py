"""RDMA interfaces and NVLink domains: who brings them, what pods ask for, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.software_plan import Piece, RuntimePlan
from gpupools.policies.declared_software import read_software
from gpupools.providers import clouds
from gpupools.software.charts import at
from gpupools.software.planning import plan_runtimes
from gpupools.stackfile.stack import _cluster_software
from tests.gpupools.software.conftest import pools_of
from tests.gpupools.software.fabrics import BLOCK, FABRICS, pool_with, stack_with
from tests.stack_plans import plan_stack

EFA_CHART, DOMAINS_CHART = "chart aws-efa-k8s-device-plugin", "chart dra-driver-nvidia-gpu"
OWNERS = {
    "efa": EFA_CHART,
    "efa-operator": EFA_CHART,
    "efa-bottlerocket": EFA_CHART,
    "efa-few": EFA_CHART,
    "efa-rack": EFA_CHART,
    "efa-claimed": EFA_CHART,
    "ib": "network-operator/sriov-device-plugin",
    "ib-shared": "network-operator/rdma-shared-device-plugin",
    "roce": "GKE (DRANET)",
    "roce-claimed": "GKE (DRANET)",
    "tcpxo": "GKE (DRANET)",
    "tcpx": "GKE (DRANET)",
    "nvl-max": "GKE (DRANET)",
    "nvl": "GKE (DRANET)",
}


def planned(name: str, runtime: Mapping[str, Any] | None = None, **keys: Any) -> RuntimePlan:
    stack = stack_with(name, runtime, **keys)
    return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]


def reasons(name: str, runtime: Mapping[str, Any] | None = None, **keys: Any) -> list[str]:
    with pytest.raises(Rejected) as caught:
        planned(name, runtime, **keys)
    return [str(problem) for problem in caught.value.problems]


# --- RDMA ---


@pytest.mark.parametrize("name", FABRICS)
def test_rdma_interfaces_have_one_owner(name: str) -> None:
    (row,) = planned(name).owners

    assert row.owners[Piece.RDMA_PLUGIN] == OWNERS[name]


@pytest.mark.parametrize("name", FABRICS)
def test_without_rdma_nobody_owns_it_and_pods_ask_for_none(name: str) -> None:
    made = planned(name, network={})
    (row,) = made.owners

    assert Piece.RDMA_PLUGIN not in row.owners
    assert not made.node_pods
    assert not made.namespace_objects
    assert "rdma" not in str(made.pods[name]).replace(name, "")


INSTALL = (
    "install a device plugin for RDMA (on AKS by NVIDIA's Network Operator, "
    "https://azure.github.io/aks-rdma-infiniband/configurations/network-operator) and name it under "
    "clusters.c.runtime.existing.rdma_plugin, or leave rdma out"
)


def test_infiniband_without_an_owner_is_refused_with_the_cure() -> None:
    assert reasons("ib", {"existing": {}}) == [
        f"pools.ib.network.rdma: nothing installs the RDMA interfaces on the nodes of this pool; {INSTALL}"
    ]


def test_efa_is_the_teams_where_software_is() -> None:
    theirs: dict[str, Any] = {"management": "external", "existing": {"device_plugin": "kube-system/plugin"}}

    assert reasons("efa", theirs) == [
        f"pools.efa.network.rdma: nothing installs the RDMA interfaces on the nodes of this pool; {INSTALL}"
    ]
    theirs["existing"]["rdma_plugin"] = {"name": "kube-system/efa", "resource": "example.com/efa"}
    made = planned("efa", theirs)
    assert made.owners[0].owners[Piece.RDMA_PLUGIN] == "kube-system/efa"
    assert made.pods["efa"]["containers"][0]["resources"]["limits"]["example.com/efa"] == 4


def test_an_efa_plugin_of_the_teams_is_used_and_ours_left_out() -> None:
    made = planned("efa", {"existing": {"rdma_plugin": "kube-system/efa"}})

    assert "aws-efa-k8s-device-plugin" not in [release.chart for release in made.releases]
    assert made.owners[0].owners[Piece.RDMA_PLUGIN] == "kube-system/efa"


def test_an_rdma_plugin_that_selects_no_pool_of_it_is_a_warning() -> None:
    away = {"name": "kube-system/efa", "node_selector": {"team": "web"}}
    network = {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}

    assert reasons("efa", {"existing": {"rdma_plugin": away}}, network=network)
    (warning,) = planned("efa", {"existing": {"rdma_plugin": away}}, network={}).warnings
    assert warning.path == ("clusters", "c", "runtime", "existing", "rdma_plugin")
    assert planned("efa", {"existing": {"rdma_plugin": "kube-system/efa"}}).warnings == ()


@pytest.mark.parametrize("name", ["efa", "efa-claimed", "roce"])
def test_a_quota_that_admits_no_pod_of_a_whole_node_is_a_warning(name: str) -> None:
    (warning,) = planned(name, trust={"namespaces": ["ml"], "quota": 7}).warnings

    assert str(warning).startswith(
        f"pools.{name}.trust.quota: got 7, but the pod that takes a whole node (node_pod) requests 8, so it is"
        " never admitted; set 8 for each whole node that a namespace may use"
    )
    assert planned(name, trust={"namespaces": ["ml"], "quota": 8}).warnings == ()
    assert planned(name, trust={"namespaces": ["ml"], "quota": 7}, network={}).warnings == ()


def test_fewer_interfaces_than_gpus_are_for_pods_of_whole_nodes() -> None:
    made = planned("efa-few")
    one, whole = (pods["efa-few"]["containers"][0]["resources"] for pods in (made.pods, made.node_pods))

    assert one == {"limits": {"nvidia.com/gpu": 1}}
    assert whole["limits"]["vpc.amazonaws.com/efa"] == 4
    assert [note for note in made.notes if "RDMA" in note] == [
        (
            "pool efa-few: a node has 4 RDMA interface(s) for 8 GPUs, so a pod with one GPU gets none and uses"
            " TCP; node_pod, which takes a whole node, gets all"
        )
    ]
    assert not [note for note in planned("efa").notes if "RDMA" in note]


def test_a_port_for_all_gpus_is_a_whole_nodes_unless_pods_share_it() -> None:
    old: dict[str, Any] = {"instance_type": "Standard_ND40rs_v2"}
    one = planned("ib", **old).pods["ib"]["containers"][0]
    shared = planned("ib-shared", **old).pods["ib-shared"]["containers"][0]

    assert "securityContext" not in one
    assert one["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert shared["resources"]["limits"] == {"nvidia.com/gpu": 1, "rdma/shared_ib": 1}


@pytest.mark.parametrize(
    ("name", "brings"),
    [
        ("tcpx", "nccl-tcpx-installer 3.1.9"),
        ("tcpxo", "nccl-tcpxo-installer"),
        ("nvl-max", "asapd-lite, which makes them and which the team installs"),
        ("roce", ""),
    ],
)
def test_it_is_said_what_interfaces_need_that_no_plan_brings(name: str, brings: str) -> None:
    said = [note for note in planned(name).notes if "its RDMA interfaces require" in note]

    assert len(said) == bool(brings)
    assert all(brings in note and note.startswith(f"pool {name}: ") for note in said)


def test_the_whole_node_of_tcpx_claims_its_four_interfaces() -> None:
    made = planned("tcpx")
    claims = {each["metadata"]["name"]: each["spec"]["spec"] for each in made.namespace_objects["tcpx"]}
    (request,) = claims["gpupools-tcpx-node-rdma"]["devices"]["requests"]

    assert set(claims) == {"gpupools-tcpx-node-rdma"}
    assert request["exactly"] == {
        "deviceClassName": "netdev.google.com",
        "allocationMode": "ExactCount",
        "count": 4,
    }
    assert "resourceClaims" not in made.pods["tcpx"]
    assert made.node_pods["tcpx"]["resourceClaims"] == [
        {"name": "rdma", "resourceClaimTemplateName": "gpupools-tcpx-node-rdma"}
    ]


def test_interfaces_that_pods_of_a_node_cannot_share_out_are_a_whole_nodes() -> None:
    made = planned("nvl-max")

    assert "resourceClaims" not in made.pods["nvl-max"]
    assert [each["name"] for each in made.node_pods["nvl-max"]["resourceClaims"]] == ["rdma", "compute-domain"]
    assert "pool nvl-max: pods of one node cannot share its RDMA interfaces, so a pod with one GPU gets none" in (
        " ".join(made.notes)
    )


@pytest.mark.parametrize("replicas", [4, 5])
def test_rdma_that_no_pod_would_ask_for_is_refused(replicas: int) -> None:
    sharing: dict[str, Any] = {"sharing": {"mode": "time-slicing", "replicas": replicas}, "trust": {"team": "vision"}}
    if replicas == 4:
        assert planned("efa", **sharing).pods["efa"]["containers"][0]["resources"]["limits"] == {
            "nvidia.com/gpu": 1,
            "vpc.amazonaws.com/efa": 1,
            "hugepages-2Mi": "160Mi",
        }
        return

    assert reasons("efa", **sharing) == [
        (
            "pools.efa.network.rdma: 40 pods share a node of p5.48xlarge, which has 32 RDMA interface(s) for them;"
            " leave it out, or leave sharing out"
        )
    ]


def test_a_smoke_test_asks_for_a_gpu_alone() -> None:
    made = planned("nvl", {"smoke_test": True})
    (job,) = (each.manifest for each in made.objects if each.kind == "Job")

    assert "resourceClaims" not in job["spec"]["template"]["spec"]


# --- NVLink domains ---

RACKS: Mapping[str, Mapping[str, Any]] = {
    "aws": {"instance_type": "p6e-gb200.36xlarge", "capacity": BLOCK, "software": "device-plugin"},
    "azure": {"instance_type": "Standard_ND128isr_NDR_GB200_v6", "software": "device-plugin"},
}
DOMAIN = {"compute_domains": True}


def rack(cloud: str, existing: Mapping[str, Any] | None = None, **keys: Any) -> RuntimePlan:
    name = "efa" if cloud == "aws" else "ib"
    pool = {**RACKS[cloud], "network": DOMAIN, **keys}
    return planned(name, {"existing": existing or {}}, **pool)


@pytest.mark.parametrize("cloud", RACKS)
def test_compute_domains_are_served_beside_a_device_plugin(cloud: str) -> None:
    made = rack(cloud)
    (row,) = made.owners
    (release,) = (each for each in made.releases if each.chart == "dra-driver-nvidia-gpu")

    assert row.owners[Piece.DEVICE_PLUGIN] == "chart nvidia-device-plugin"
    assert row.owners[Piece.COMPUTE_DOMAINS] == DOMAINS_CHART
    assert Piece.DRA_DRIVER not in row.owners
    assert at(release.values, "resources.gpus.enabled") is False
    assert at(release.values, "resources.computeDomains.enabled") is True
    assert release.skip_crds is False


def test_a_controller_that_no_release_waits_for_is_not_said_to_end_in_an_error() -> None:
    def said(**keys: Any) -> str:
        return next(note for note in rack("azure", **keys).notes if "without GPUs and taints" in note)

    assert "(their pods stay pending without one)" in said()
    assert "(the release waits for it and fails" in said(nodes={"fixed": 2})


@pytest.mark.parametrize("cloud", RACKS)
def test_the_policy_sees_no_second_owner_either(cloud: str) -> None:
    brought = {}
    for release in rack(cloud).releases:
        inputs = {"chart": release.chart, "version": release.version, "values": dict(release.values)}
        found = read_software("kubernetes:helm.sh/v3:Release", inputs)
        brought[release.chart] = found.installs if found is not None else ()

    assert brought["dra-driver-nvidia-gpu"] == ()
    assert brought["nvidia-device-plugin"] == ("device plugin",)


@pytest.mark.parametrize(
    ("serves", "ours"),
    [("compute-domains", []), ("gpus", ["dra-driver-nvidia-gpu"])],
    ids=["domains", "GPUs elsewhere"],
)
def test_a_driver_of_the_teams_is_used_for_what_it_serves(serves: str, ours: list[str]) -> None:
    theirs: dict[str, Any] = {
        "name": "nvidia/dra",
        "serves": serves,
        "node_selector": {"gpupools/compute-domains": "true"},
    }
    theirs |= {"node_selector": {"example.com/other": "yes"}} if serves == "gpus" else {}
    made = rack("aws", {"dra_driver": theirs})

    assert [release.chart for release in made.releases if release.chart.startswith("dra")] == ours


def test_a_driver_of_the_teams_that_hands_out_gpus_is_refused_with_what_to_write() -> None:
    with pytest.raises(Rejected) as caught:
        rack("aws", {"dra_driver": "nvidia/dra"})
    (problem,) = caught.value.problems

    assert "would both allocate the same GPUs" in problem.what
    assert "clusters.c.runtime.existing.dra_driver: {name: …, serves: compute-domains}" in problem.fix


def test_a_driver_that_hands_out_gpus_on_one_pool_cannot_serve_domains_alone_on_another() -> None:
    pools: dict[str, dict[str, Any]] = {
        "claimed": {"gpu": "A100-80GB", "gpus_per_node": 8, "software": "dra-driver", "nodes": {"min": 1, "max": 2}},
        "rack": {**RACKS["azure"], "network": DOMAIN},
    }
    stack = stack_with("ib")
    cluster = stack.clusters["c"]
    plans = pools_of("azure", pools)
    with pytest.raises(Rejected) as caught:
        plan_runtimes({"c": cluster}, plans, clouds())

    assert [problem.key for problem in caught.value.problems] == ["pools.rack.network.compute_domains"]
    assert "on different clusters" in caught.value.problems[0].fix


def test_the_driver_finds_what_google_installs() -> None:
    (release,) = (each for each in planned("nvl").releases if each.chart == "dra-driver-nvidia-gpu")

    assert release.values["nvidiaDriverRoot"] == "/home/kubernetes/bin/nvidia"


@pytest.mark.parametrize(
    ("name", "nodes", "said"),
    [("efa-rack", {"max": 4}, 1), ("ib", {"max": 4}, 1), ("ib", {"min": 1, "max": 4}, 0), ("nvl", {"max": 4}, 0)],
    ids=["EKS", "AKS", "AKS with a node", "GKE, whose autoscaler knows"],
)
def test_it_is_said_where_no_pod_of_a_domain_starts_the_first_node(
    name: str, nodes: Mapping[str, int], said: int
) -> None:
    pool = {} if name != "ib" else {**RACKS["azure"], "network": DOMAIN}
    notes = planned(name, {"existing": {}} if name == "ib" else None, **pool, nodes=nodes).notes

    assert len([note for note in notes if "in an NVLink domain (node_pod) does not scale it up" in note]) == said


def test_nodes_of_a_rack_that_nobody_joins_are_said() -> None:
    notes = rack("azure", network={}).notes

    assert [note for note in notes if "network.compute_domains: true" in note] == [
        (
            "pool ib: its pods use NVLink only inside a node, although the nodes of a rack share one NVLink domain; "
            "to use it, set network.compute_domains: true"
        )
    ]


def test_a_shared_gpu_is_in_no_nvlink_domain() -> None:
    sharing: dict[str, Any] = {"sharing": {"mode": "time-slicing", "replicas": 2}, "trust": {"team": "vision"}}
    with pytest.raises(Rejected) as caught:
        rack("aws", **sharing)

    assert [problem.key for problem in caught.value.problems] == ["pools.efa.network.compute_domains"]


def test_an_a4x_pool_has_the_workload_policy_of_its_rack() -> None:
    settings = pool_with("nvl").provider_plan

    assert settings.accelerator_topology == "1x72"  # type: ignore[attr-defined]


def test_where_nothing_can_be_installed_the_team_brings_these_too() -> None:
    stack = stack_with("efa", network={"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]})
    cluster = stack.clusters["c"]
    bare = type(cluster).model_validate(
        {
            key: value
            for key, value in cluster.model_dump(exclude_unset=True).items()
            if key not in ("kubeconfig", "runtime")
        }
    )
    (made,) = _cluster_software("c", bare, plan_stack(stack, clouds()), clouds())

    assert made.owners[0].owners[Piece.RDMA_PLUGIN] == "yours"


# --- labels ---


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_labels_say_what_a_node_has_before_there_is_one(cloud: str) -> None:
    shared = {"mode": "mig", "profile": "1g.10gb", "share": {"mode": "time-slicing", "replicas": 2}}
    keys = {"gpu": "A100-80GB", "gpus_per_node": 8, "sharing": shared, "trust": {"team": "vision"}}
    software = {} if cloud == "gcp" else {"software": "gpu-operator"}
    (pool,) = pools_of(cloud, {"a": {**keys, **software}})

    assert pool.min_nodes == 0
    assert {key: value for key, value in pool.labels.items() if "gpu-" in key or key == "gpupools/sharing"} == {
        "gpupools/gpu-model": "A100-80GB",
        "gpupools/gpu-count": "8",
        "gpupools/gpu-memory-gib": "80",
        "gpupools/sharing": "mig-single.time-slicing",
    }
    assert pool.labels.get("skypilot.co/accelerator") == (None if cloud == "gcp" else "a100-80gb")


def test_part_of_a_gpu_counts_as_one_with_the_parts_memory() -> None:
    (pool,) = pools_of("azure", {"a": {"instance_type": "Standard_NV6ads_A10_v5"}})

    assert (pool.labels["gpupools/gpu-count"], pool.labels["gpupools/gpu-memory-gib"]) == ("1", "4")


def test_a_skypilot_label_of_ones_own_stays() -> None:
    (pool,) = pools_of("azure", {"a": {"gpu": "T4", "labels": {"skypilot.co/accelerator": "mine"}}})

    assert pool.labels["skypilot.co/accelerator"] == "mine"


def test_gkes_autoscaler_is_told_that_an_empty_pool_has_gpus_to_claim() -> None:
    claimed = {"gpu": "T4", "software": "dra-driver"}
    (pool,) = pools_of("gcp", {"a": claimed})
    by_hand = {**claimed, "labels": {"cloud.google.com/gke-nvidia-gpu-dra-driver": "true"}}
    (same,) = pools_of("gcp", {"a": by_hand})

    assert pool.min_nodes == 0
    assert pool.labels["cloud.google.com/gke-nvidia-gpu-dra-driver"] == "true"
    assert same.labels == pool.labels
