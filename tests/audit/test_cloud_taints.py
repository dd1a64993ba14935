"""Taints that GKE adds by itself."""

from collections.abc import Callable
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.policies.policy_config import Config

Judge = Callable[..., FileReport]
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
NO_TAINT: dict[str, Any] = {"machine_type": "g2-standard-12", "taint": []}
EFFECTIVE = {**NO_TAINT, "effective_taints": [TAINT]}
POOL = {
    "address": "google_container_node_pool.l4",
    "mode": "managed",
    "type": "google_container_node_pool",
    "name": "l4",
}


def state(node_config: Any) -> dict[str, Any]:
    resource = {**POOL, "values": {"name": "l4", "node_config": [node_config]}}
    return {"format_version": "1.0", "values": {"root_module": {"resources": [resource]}}}


def plan(before: Any, after: Any) -> dict[str, Any]:
    change = {"actions": ["update"], "before": {"node_config": [before]}, "after": {"node_config": [after]}}
    return {"format_version": "1.2", "resource_changes": [{**POOL, "change": change}]}


def faults(report: FileReport) -> list[tuple[str, str]]:
    assert report.problems == ()
    assert report.gpu_pools == 1
    return [(each.level.value, each.message) for each in report.found if each.rule.name == "gpu-pool-tainted"]


@pytest.mark.parametrize(
    ("document", "passes"),
    [
        (state(EFFECTIVE), True),
        (state({**EFFECTIVE, "effective_taints": [{**TAINT, "effect": "PREFER_NO_SCHEDULE"}]}), False),
        (state({**EFFECTIVE, "effective_taints": "NO_SCHEDULE"}), False),
        (plan(EFFECTIVE, EFFECTIVE), True),
        (plan({**EFFECTIVE, "taint": [TAINT]}, EFFECTIVE), False),
    ],
    ids=["state", "a preference", "damaged", "unchanged", "a plan that removes the taint"],
)
def test_the_taints_that_nodes_have_count(judge: Judge, document: Any, passes: bool) -> None:
    assert (faults(judge(document)) == []) is passes


@pytest.mark.parametrize("level", ["violation", "advice"])
def test_the_level_of_a_pool_that_gke_may_taint_is_configurable(judge: Judge, level: str) -> None:
    option = {"taintByCloud": "violation" if level == "violation" else "advisory"}
    ((found, message),) = faults(judge(state(NO_TAINT), Config(options={"gpu-pool-tainted": option})))

    assert found == level
    assert "GKE adds the taint only while the cluster has a pool without GPUs; declare it" in message


def test_a_pool_of_unknown_machines_stays_unverified(judge: Judge) -> None:
    document = plan({}, {"taint": []})
    document["resource_changes"][0]["change"]["after_unknown"] = {"node_config": [{"machine_type": True}]}
    report = judge(document, Config(options={"gpu-pool-tainted": {"taintByCloud": "advisory"}}))

    assert [each.level.value for each in report.found if each.rule.name == "gpu-pool-tainted"] == ["unverified"]


@pytest.mark.parametrize(
    ("levels", "cluster", "wanted"),
    [
        ({}, None, ["advice"]),
        ({"gpu-node-hardened": "mandatory"}, None, ["violation"]),
        ({}, {"name": "c"}, ["advice"]),
        ({}, {"name": "c", "workload_identity_config": []}, ["advice"]),
        ({}, {"name": "c", "workload_identity_config": [{"workload_pool": "p.svc.id.goog"}]}, []),
        ({}, {"name": "other", "workload_identity_config": [{"workload_pool": "p.svc.id.goog"}]}, ["advice"]),
    ],
)
def test_hardening_of_foreign_pools_is_advice_and_the_cluster_counts(
    judge: Judge, levels: Any, cluster: Any, wanted: list[str]
) -> None:
    """New pools get GKE_METADATA where the cluster has workload identity."""
    config = {"machine_type": "g2-standard-4", "taint": [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}]}
    values = {
        "google_container_node_pool": {"cluster": "c", "node_config": [config]},
        "google_container_cluster": cluster,
    }
    changes = [
        {"address": f"{kind}.x", "type": kind, "name": "x", "mode": "managed"}
        | {"change": {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}}
        for kind, after in values.items()
        if after is not None
    ]
    report = judge({"format_version": "1.2", "resource_changes": changes}, Config(levels=levels))

    hardened = [each for each in report.found if each.rule.name == "gpu-node-hardened"]
    assert [each.level.value for each in hardened if "metadata-service" in each.message] == wanted
