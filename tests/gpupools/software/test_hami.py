"""Pools whose GPUs HAMi divides: what is refused, and what becomes of the rest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.capability import Verdict
from gpupools.plan.software_plan import Piece
from gpupools.policies.declared_software import PLUGIN, read_software
from gpupools.providers import clouds
from gpupools.ready.promises import promises
from gpupools.spec.models import SHARING_KINDS
from gpupools.stackfile.check import check_stack_file
from tests.gpupools.software.conftest import Planner, pools_of

HAMI: Mapping[str, Any] = {"gpu": "T4", "software": "hami", "nodes": {"fixed": 2}, "trust": {"team": "vision"}}
TWO: Mapping[str, Any] = {"vgpu": HAMI, "whole": {"gpu": "T4", "software": "device-plugin"}}
EXAMPLES = Path(__file__).parents[3] / "examples" / "teams"
EACH = pytest.mark.parametrize("cloud", ["aws", "azure"])


@EACH
def test_pods_get_a_tenth_of_a_gpu_by_memory_and_cores(cloud: str) -> None:
    gpu = {"aws": {"instance_type": "g4dn.12xlarge"}, "azure": {"instance_type": "Standard_NC64as_T4_v3"}}[cloud]
    (pool,) = pools_of(cloud, {"vgpu": {**{key: each for key, each in HAMI.items() if key != "gpu"}, **gpu}})
    pod = pool.pod()

    assert pool.node_resources == {"nvidia.com/gpu": 40}
    assert pool.units == 40
    assert pod["schedulerName"] == "hami-scheduler"
    assert pod["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": 1,
        "nvidia.com/gpumem-percentage": 10,
        "nvidia.com/gpucores": 10,
    }
    assert pool.labels["gpu"] == "on"
    assert pool.labels["gpupools/sharing"] == "hami"
    assert "nvidia.com/gpu.present" not in pool.labels  # by which the team's own plugin would go
    assert pool.labels["nvidia.com/gpu.deploy.operands"] == "false"


@EACH
def test_the_chart_serves_the_pools_that_chose_it_and_no_other_node(cloud: str, plan: Planner) -> None:
    made = plan(cloud, TWO, kubernetes="1.34")
    (release,) = (each for each in made.releases if each.chart == "hami")

    assert release.pools == ("vgpu",)
    assert not release.skip_await
    assert release.values["devicePlugin"] == {
        "deviceSplitCount": 10,
        "nvidiaNodeSelector": {"gpu": "on"},
        "tolerations": [
            {"key": "gpupools/trust", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        ],
        "service": {"type": "ClusterIP"},
    }
    # HAMi's webhook would send pods of the other pool to its scheduler, which knows no node for them.
    assert release.values["scheduler"]["forceOverwriteDefaultScheduler"] is False
    assert "schedulerName" not in made.pods["whole"]
    owners = {row.pool: row.owners[Piece.DEVICE_PLUGIN] for row in made.owners}
    assert owners == {"vgpu": "chart hami", "whole": "chart nvidia-device-plugin"}


@pytest.mark.parametrize(
    ("kubernetes", "tag"), [({"kubernetes": "1.34"}, "v1.34.0"), ({"kubernetes": "1.34.2"}, "v1.34.2"), ({}, "?")]
)
def test_its_images_are_known_and_follow_the_version_of_the_cluster(
    kubernetes: Mapping[str, str], tag: str, plan: Planner
) -> None:
    made = plan("aws", {"vgpu": HAMI}, registry="mirror.example.com/gpu", pull_secrets=["login"], **kubernetes)
    images = {each.image: each.pulled for each in made.images if "chart hami" in each.by}
    (release,) = (each for each in made.releases if each.chart == "hami")

    assert images == {
        "docker.io/projecthami/hami:v2.10.0": "mirror.example.com/gpu/projecthami/hami:v2.10.0",
        f"registry.k8s.io/kube-scheduler:{tag}": f"mirror.example.com/gpu/kube-scheduler:{tag}",
        "registry.k8s.io/ingress-nginx/kube-webhook-certgen:v1.6.9": (
            "mirror.example.com/gpu/ingress-nginx/kube-webhook-certgen@sha256:"
            "01038e7de14b78d702d2849c3aad72fd25903c4765af63cf16aa3398f5d5f2dd"
        ),
    }
    assert release.values["global"]["imagePullSecrets"] == ["login"]
    assert release.values["scheduler"]["admissionWebhook"]["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("management", ["managed", "external"])
def test_hami_of_the_teams_is_used_and_what_it_needs_is_noted(management: str, plan: Planner) -> None:
    made = plan("aws", {"vgpu": HAMI}, existing={"hami": "hami/hami"}, management=management)
    (row,) = made.owners
    (needs,) = (note for note in made.notes if note.startswith("hami/hami needs"))

    assert "hami" not in {each.chart for each in made.releases}
    assert row.owners[Piece.DEVICE_PLUGIN] == "hami/hami"
    assert "devicePlugin.deviceSplitCount: 10" in needs
    assert "scheduler.forceOverwriteDefaultScheduler: false" in needs


def test_hami_of_the_teams_leaves_other_pools_alone(plan: Planner) -> None:
    made = plan("aws", TWO, existing={"hami": "hami/hami"})
    owners = {row.pool: row.owners[Piece.DEVICE_PLUGIN] for row in made.owners}

    assert owners == {"vgpu": "hami/hami", "whole": "chart nvidia-device-plugin"}


def test_ready_expects_its_device_plugin_and_all_parts_of_the_gpus() -> None:
    plan = check_stack_file(EXAMPLES / "Pulumi.hami.yaml", clouds()).plan
    (promise,) = promises(plan)

    assert promise.resources == {"nvidia.com/gpu": "10"}
    assert promise.daemons["device plugin"] == "hami"
    assert "device plugin" in promise.required


def test_the_notebook_of_the_example_gets_half_a_gpu_of_its_pool() -> None:
    (pool,) = check_stack_file(EXAMPLES / "Pulumi.hami.yaml", clouds()).plan.pools
    pod = yaml.safe_load((EXAMPLES / "hami.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]
    ours = pool.pod()
    limits = pod["containers"][0]["resources"]["limits"]

    assert {key: pod[key] for key in ("schedulerName", "nodeSelector", "tolerations")} == {
        key: ours[key] for key in ("schedulerName", "nodeSelector", "tolerations")
    }
    assert limits["nvidia.com/gpu"] == 1
    assert limits["nvidia.com/gpucores"] == 50
    assert (
        2 * limits["nvidia.com/gpumem"] <= pool.instance.gpu_memory_gib * 1024 < 2 * limits["nvidia.com/gpumem"] + 1024
    )


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_no_other_sharing_is_beside_it(cloud: str) -> None:
    cells = {kind: clouds()[cloud].capabilities["hami", kind].verdict for kind in SHARING_KINDS}

    assert {kind for kind, verdict in cells.items() if verdict is not Verdict.REFUSED} == (
        set() if cloud == "gcp" else {"none"}
    )


@pytest.mark.parametrize(
    ("values", "labels", "lands"),
    [
        ({}, {"gpu": "on"}, True),
        ({}, {"gpu": "off"}, False),
        ({"devicePlugin": {"nvidiaNodeSelector": {"gpu": "on"}}}, {"gpu": "on"}, True),
        ({"devicePlugin": {"nvidiaNodeSelector": {"team": "a"}}}, {"gpu": "on"}, False),
        ({"devicePlugin": {"enabled": False}}, {"gpu": "on"}, False),
    ],
)
def test_policies_know_the_nodes_of_a_declared_release(
    values: Mapping[str, Any], labels: Mapping[str, str], lands: bool
) -> None:
    found = read_software("kubernetes:helm.sh/v3:Release", {"chart": "hami", "version": "2.10.0", "values": values})

    assert found is not None
    assert found.lands_on(PLUGIN, labels) is lands


def test_a_pool_of_other_software_with_its_label_has_two_owners(refused: Callable[..., list[str]]) -> None:
    (problem,) = refused("aws", {**TWO, "whole": {**TWO["whole"], "labels": {"gpu": "on"}}})

    assert "pools.whole.software: the device plugin would have two owners on c nodes: " in problem
    assert "chart hami" in problem
