"""GKE: what each setting of a pool becomes on the wire, what GKE does not take together, and what edits do."""

from typing import Any

import pytest

from gpupools.common.taints import GPU_TAINT, Effect, Taint
from gpupools.preview.format_preview import override_lines
from gpupools.providers.gcp.edit_effects import edit_tables, replacing_inputs
from tests.cloud_parts import edited_inputs
from tests.providers.gcp_pools import ZONES, check_pool, gke, options, plan, settings, wire

RESERVATION = {"mode": "reservation", "name": "a100-2026"}
QUEUED_TAINT = Taint("cloud.google.com/gke-queued", "true", Effect.NO_SCHEDULE)


def by_hand(**inputs: Any) -> dict[str, Any]:
    return {"overrides": {"gcp": {"NodePool": inputs}}}


# --- translation ---


def test_the_taint_that_gke_adds_to_queued_nodes_is_tolerated_but_left_to_gke() -> None:
    made = plan(capacity={"mode": "queued"}, taints=["team=vision:NoSchedule"])
    declared = wire(capacity={"mode": "queued"}, taints=["team=vision:NoSchedule"])["nodeConfig"]

    assert made.taints[:2] == (GPU_TAINT, QUEUED_TAINT)
    assert QUEUED_TAINT.key in [each["key"] for each in made.pod()["tolerations"]]
    assert [each["key"] for each in declared["taints"]] == ["nvidia.com/gpu", "team"]
    assert declared["labels"][QUEUED_TAINT.key] == "true"


def test_the_taint_that_gke_adds_to_arm_nodes_is_in_the_plan_but_left_to_gke() -> None:
    pool: dict[str, Any] = {"instance_type": "a4x-highgpu-4g", "capacity": RESERVATION, "zones": ZONES[:1]}
    arm = Taint("kubernetes.io/arch", "arm64", Effect.NO_SCHEDULE)

    assert plan(**pool).taints == (GPU_TAINT, arm)
    assert [each["key"] for each in wire(**pool)["nodeConfig"]["taints"]] == [GPU_TAINT.key]
    assert plan(instance_type="a2-highgpu-1g").taints == (GPU_TAINT,)


def test_the_operator_owns_the_driver_on_ubuntu() -> None:
    made = plan(image={"family": "ubuntu"}, software="gpu-operator")

    assert made.owners.driver == "GPU Operator"
    assert plan(software="gpu-operator").owners.driver == "Google's driver installer DaemonSet"


def test_options_follow_protection_and_time_outs() -> None:
    chosen = options(protect=True, timeouts={"create_min": 30, "update_min": 45, "delete_min": 25})

    timeouts = chosen.custom_timeouts

    assert (chosen.protect, options().protect) == (True, None)
    assert timeouts is not None
    assert (timeouts.create, timeouts.update, timeouts.delete) == ("30m", "45m", "25m")


@pytest.mark.parametrize(
    ("keys", "create_min", "update_min"),
    [
        ({"nodes": {"max": 6}}, 60, 120),
        ({"nodes": {"max": 40}}, 60, 800),
        ({"nodes": {"max": 40}, "upgrade": {"max_surge": 4, "max_unavailable": 0}}, 60, 200),
        ({"nodes": {"max": 40}, "upgrade": {"strategy": "blue-green", "max_unavailable": 5}}, 60, 160),
        ({"nodes": {"max": 10}, "upgrade": {"drain_timeout_min": 60}}, 60, 800),
        ({"nodes": {"min": 80, "max": 1000}, "zones": ZONES[:1]}, 120, 1440),
    ],
    ids=["small", "one-by-one", "surge", "blue-green", "drain", "large"],
)
def test_the_default_time_outs_follow_the_size(keys: dict[str, Any], create_min: int, update_min: int) -> None:
    chosen = settings(**keys)

    assert (chosen.create_min, chosen.update_min) == (create_min, update_min)


def test_the_plan_and_the_preview_show_what_is_set_by_hand() -> None:
    made = plan(**by_hand(version="1.34.5-gke.1153000", nodeConfig={"gvnic": None}))

    assert made.overrides == {
        "NodePool.version": "1.34.5-gke.1153000",
        "NodePool.nodeConfig.gvnic": None,
    }
    assert list(override_lines([made])) == [
        '  lab/train: NodePool.version = "1.34.5-gke.1153000"',
        "  lab/train: NodePool.nodeConfig.gvnic is removed",
    ]


# --- what GKE does not take together ---


def test_a_zonal_cluster_knows_its_zone() -> None:
    zonal = gke(location="europe-west4-b")

    assert settings(zonal, nodes={"fixed": 5}).fixed_nodes_per_zone == 5
    assert settings(zonal, network={"placement": "compact"}).compact
    assert settings(gke(node_locations=ZONES[:2]), nodes={"fixed": 4}).fixed_nodes_per_zone == 2


def test_labels_of_any_script_are_taken() -> None:
    assert dict(settings(tags={"größe": "klein", "所有者": "研究"}).resource_labels) == {
        "größe": "klein",
        "所有者": "研究",
    }


# --- edits ---


def test_the_table_of_edits_is_sorted_and_has_a_source_in_every_row() -> None:
    rows = edited_inputs("gcp").values()

    assert [*edit_tables().inputs][:-2] == sorted([*edit_tables().inputs][:-2])
    assert {row["effect"] for row in rows} <= {"in-place", "rolling", "replace", "refused"}
    assert [row["input"] for row in rows if not row["sentence"] or not row["source"].startswith("https://")] == []


def test_the_inputs_that_replace_are_found_at_any_depth() -> None:
    inputs = {
        "version": "1.34",
        "nodeConfig": {"confidentialNodes": {"enabled": True, "confidentialInstanceType": "TDX"}, "spot": True},
    }

    assert replacing_inputs(inputs) == {
        "nodeConfig.confidentialNodes.confidentialInstanceType": "TDX",
        "nodeConfig.spot": True,
    }


@pytest.mark.parametrize(
    ("machine", "keys"),
    [
        ("a3-highgpu-8g", {}),
        ("a3-ultragpu-8g", {"capacity": {"mode": "spot"}}),
        ("a4-highgpu-8g", {"capacity": {"mode": "spot"}}),
        ("a4x-highgpu-4g", {"capacity": {"mode": "reservation", "name": "r"}, "zones": ZONES[:1]}),
        ("g4-standard-48", {}),
    ],
)
def test_machines_without_virtio_need_the_image_with_gvnic(machine: str, keys: dict[str, Any]) -> None:
    (problem,) = check_pool(instance_type=machine, image={"family": "ubuntu"}, **keys)

    assert problem.path[2:] == ("image", "family")
    assert "gVNIC" in problem.what
    assert settings(instance_type=machine, image={"family": "cos"}, **keys).image_type == "COS_CONTAINERD"


@pytest.mark.parametrize("machine", ["g2-standard-4", "a2-highgpu-1g", "n1+nvidia-tesla-t4:1"])
def test_older_machines_run_ubuntu(machine: str) -> None:
    assert settings(instance_type=machine, image={"family": "ubuntu"}).image_type == "UBUNTU_CONTAINERD"


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "BLUE_GREEN", "maxSurge": None, "maxUnavailable": None},
        {"maxSurge": 3},
    ],
    ids=["taken-away", "surge"],
)
def test_upgrades_set_by_hand_that_go_together_pass(given: dict[str, Any]) -> None:
    assert plan(**by_hand(upgradeSettings=given)).overrides
