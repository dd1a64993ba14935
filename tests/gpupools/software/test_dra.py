"""NVIDIA's DRA driver where a pool chooses it: its chart, what pods write, and what it is refused."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.catalog.requirements import Requirement, requirement, requirements
from gpupools.plan.capability import Verdict
from gpupools.plan.node_labels import SOFTWARE_LABEL
from gpupools.plan.tolerations import node_affinity
from gpupools.providers import clouds
from gpupools.spec.models import SHARING_KINDS
from tests.gpupools.software.conftest import Planner, pools_of

DRA: Mapping[str, Any] = {"gpu": "T4", "software": "dra-driver", "nodes": {"min": 1, "max": 4}}
EACH = pytest.mark.parametrize("cloud", sorted(clouds()))


@EACH
def test_the_chart_serves_the_pools_that_chose_it_and_no_other_node(cloud: str, plan: Planner) -> None:
    pools = {"claimed": {**DRA, "taints": ["team=vision:NoSchedule"]}, "asked": {"gpu": "T4"}}
    made = plan(cloud, pools, digests="off")
    (release,) = (each for each in made.releases if each.chart == "dra-driver-nvidia-gpu")
    root = {"nvidiaDriverRoot": "/home/kubernetes/bin/nvidia"} if cloud == "gcp" else {}

    assert release.pools == ("claimed",)
    assert release.values == {
        "kubeletPlugin": {
            "affinity": node_affinity({"key": SOFTWARE_LABEL, "operator": "In", "values": ["dra-driver"]}),
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
            ],
        },
        "resources": {"gpus": {"enabled": True}, "computeDomains": {"enabled": False}},
        "gpuResourcesEnabledOverride": True,
        **root,
    }
    assert (release.version, release.skip_crds) == ("0.4.1", True)
    assert any("needs Kubernetes 1.34.2" in note for note in made.notes)


@EACH
def test_pods_claim_a_gpu_instead_of_asking_for_a_resource(cloud: str, plan: Planner) -> None:
    (pool,) = pools_of(cloud, {"claimed": DRA})
    made = plan(cloud, {"claimed": DRA, "asked": {"gpu": "T4"}})
    spec = pool.pod()

    assert pool.node_resources == {}
    assert pool.labels["nvidia.com/gpu.present"] == "true"
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "gpupools-claimed"}]
    assert spec["containers"] == [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}]
    assert spec["nodeSelector"] == {"gpupools/pool": "claimed"}
    assert {each["key"] for each in spec["tolerations"]} == {"nvidia.com/gpu"}
    assert set(made.claim_templates) == {"claimed"}
    request = made.as_json()["claim_templates"]["claimed"]["spec"]["spec"]["devices"]["requests"]
    assert request == [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]


def test_gke_gets_googles_driver_and_neither_its_own_nor_its_plugin(plan: Planner) -> None:
    (pool,) = pools_of("gcp", {"claimed": DRA})
    made = plan("gcp", {"claimed": DRA})

    assert pool.provider_plan.gpu_driver_version == "INSTALLATION_DISABLED"  # type: ignore[attr-defined]
    assert pool.labels["gke-no-default-nvidia-gpu-device-plugin"] == "true"
    assert made.depends["dra-driver-nvidia-gpu"] >= ("driver-installer", "namespace/dra-driver-nvidia-gpu")
    assert "quota/dra-driver-nvidia-gpu" in made.depends["dra-driver-nvidia-gpu"]


@EACH
def test_only_whole_gpus_are_claimed(cloud: str) -> None:
    cells = {kind: clouds()[cloud].capabilities["dra-driver", kind].verdict for kind in SHARING_KINDS}

    assert {kind for kind, verdict in cells.items() if verdict is not Verdict.REFUSED} == {"none"}


def test_a_gpu_whose_last_driver_is_too_old_is_refused(
    refused: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Requirement("dra-driver-nvidia-gpu", "driver", "590", "NVIDIA's DRA driver 9", "https://example.com", "")
    monkeypatch.setattr("gpupools.plan.pool_planner.requirement", lambda *_: newer)
    (problem,) = refused("azure", {"a": {**DRA, "gpu": None, "instance_type": "Standard_ND40rs_v2"}})

    assert problem == (
        "pools.a.software: NVIDIA's DRA driver 9 needs driver 590, and 580 is the last for V100-32GB; use software: "
        "device-plugin, or a newer GPU (see https://example.com)"
    )


def test_every_requirement_names_its_source() -> None:
    assert {row.needs for row in requirements()} == {"kubernetes", "driver"}
    assert [row for row in requirements() if not row.source.startswith("https://") or not row.what] == []


@pytest.mark.parametrize(
    ("version", "fails"),
    [("1.33", True), ("1.34", False), ("1.34.1", True), ("1.34.2", False), ("1.35", False), ("1.35.0", False)],
)
def test_a_version_is_compared_number_by_number(version: str, fails: bool) -> None:
    assert requirement("dra-driver-nvidia-gpu", "kubernetes").fails(version) is fails


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize(
    ("cloud", "capacity"),
    [("aws", {"mode": "capacity-block", "name": "cr-0123456789abcdef0"}), ("gcp", {"mode": "queued"})],
    ids=["a Capacity Block", "queued"],
)
def test_capacity_that_starts_from_no_node_is_no_way_to_claim(
    refused: Any, cloud: str, capacity: dict[str, Any], least: int
) -> None:
    machine = {"aws": "p4d.24xlarge", "gcp": "a2-highgpu-1g"}[cloud]
    pool = {"instance_type": machine, "software": "dra-driver", "capacity": capacity, "nodes": {"min": least, "max": 2}}
    problems = refused(cloud, {"a": pool})

    assert not any("keep at least one node" in each for each in problems)
    assert sum("use software: device-plugin or gpu-operator" in each for each in problems) == 1
