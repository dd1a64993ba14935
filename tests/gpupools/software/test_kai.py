"""What becomes of teams in KAI: a tree of queues and a scheduler for each pool."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.stackfile.stack import StackPlan
from tests.changes import diff_software
from tests.gpupools.software.test_teams import POOLS, TEAMS, plan

RUNTIME: JsonDict = {"scheduler": "kai"}
NEAR: JsonDict = {
    "instance_type": "a3-megagpu-8g",
    "nodes": {"fixed": 4},
    "zones": ["europe-west4-a"],
    "network": {"placement": "compact"},
}


def specs(made: StackPlan, kind: str) -> dict[str, Mapping[str, Any]]:
    return {each["metadata"]["name"]: each["spec"] for each in made.runtimes[0].team_objects if each["kind"] == kind}


def test_teams_have_queues_below_the_queue_of_each_pool() -> None:
    made = plan(TEAMS, runtime=RUNTIME)
    found = {
        name: (each.get("parentQueue"), *each["resources"]["gpu"].values())
        for name, each in specs(made, "Queue").items()
    }

    assert found == {
        "big": (None, 32, 32, 1),
        "small": (None, 8, 8, 1),
        "slices": (None, 14, 14, 1),
        "research.big": ("big", 16, 32, 2),
        "serving.slices": ("slices", 7, 14, 1),
        "serving.small": ("small", 0, 8, 1),
    }
    every = specs(made, "Queue").values()
    assert all(each["resources"]["cpu"] == each["resources"]["memory"] for each in every)
    assert {each["resources"]["cpu"]["quota"] for each in every} == {-1}
    assert {"kai-scheduler", "queue/big"} <= {*made.runtimes[0].depends["queue/research.big"]}


def test_each_pool_has_a_scheduler_that_fills_or_spreads() -> None:
    made = plan(TEAMS, runtime={**RUNTIME, "spread": ["slices"]})
    found = {each["partitionLabelValue"]: each["placementStrategy"] for each in specs(made, "SchedulingShard").values()}

    assert found == {
        "big": {"gpu": "binpack", "cpu": "binpack"},
        "small": {"gpu": "binpack", "cpu": "binpack"},
        "slices": {"gpu": "spread", "cpu": "spread"},
    }
    (release,) = made.runtimes[0].releases
    assert release.values["global"]["nodePoolLabelKey"] == "gpupools/pool"
    assert all(pool.labels["gpupools/pool"] == pool.name for pool in made.pools)
    labels = [
        each["metadata"]["labels"]["gpupools/pool"]
        for each in made.runtimes[0].team_objects
        if each["kind"] in ("Queue", "SchedulingShard")
    ]
    assert set(labels) == {"big", "small", "slices"}  # a scheduler sees the queues of its pool only


STEPS: JsonDict = {**POOLS["big"], "zones": ["europe-west4-a"], "capacity": [{"mode": "spot"}, {"mode": "on-demand"}]}
ORDERED: JsonDict = {"big": {**STEPS, "nodes": {"fixed": 2}}, "small": POOLS["small"]}
SHARES: JsonDict = {
    "a": {"namespaces": ["a"], "guarantee": {"big": 20, "small": 2}, "limit": {"big": 30}},
    "b": {"namespaces": ["b"], "guarantee": {"big": 12}},
}


def test_the_steps_of_a_pool_have_one_scheduler_and_one_queue_of_each_team() -> None:
    (made,) = plan(SHARES, ORDERED, {**RUNTIME, "spread": ["big"]}).runtimes
    objects = {(each["kind"], each["metadata"]["name"]): each for each in made.team_objects}
    shard, plain = objects["SchedulingShard", "gpupools-big"]["spec"], objects["SchedulingShard", "gpupools-small"]
    quotas = {
        name: (each["spec"].get("parentQueue"), *each["spec"]["resources"]["gpu"].values())
        for (kind, name), each in objects.items()
        if kind == "Queue"
    }

    assert shard == {
        "partitionLabelValue": "big",
        "args": {"nodepool-label-key": "gpupools/group"},
        "placementStrategy": {"gpu": "spread", "cpu": "spread"},
    }
    assert "args" not in plain["spec"]
    assert quotas == {
        "big": (None, 32, 32, 1),
        "small": (None, 8, 8, 1),
        "a.big": ("big", 20, 30, 1),
        "a.small": ("small", 2, 8, 1),
        "b.big": ("big", 12, 32, 1),
    }
    labels = {name: objects["Queue", name]["metadata"]["labels"].get("gpupools/group") for name in quotas}
    assert labels == {"big": "big", "a.big": "big", "b.big": "big", "small": None, "a.small": None}
    assert {"kai-scheduler", "queue/big", "pool/big-1", "pool/big-2"} <= {*made.depends["queue/a.big"]}


@pytest.mark.parametrize("sharing", [{}, {"sharing": {"mode": "fractions", "memory": "trust"}, "trust": {"team": "a"}}])
def test_a_pod_of_a_pool_with_steps_names_its_queue_and_labels(sharing: JsonDict) -> None:
    pool = {"big": {**ORDERED["big"], "software": "gpu-operator", **sharing}}
    (made,) = plan({"a": {"namespaces": ["a"], "guarantee": {"big": 16}}}, pool, RUNTIME).runtimes
    whole = made.groups["big"]

    assert (whole["pod"]["schedulerName"], whole["pod"]["nodeSelector"]["gpupools/group"]) == ("kai-scheduler", "big")
    labels = {"gpupools/pool": "big", "gpupools/group": "big", "kai.scheduler/queue": "a.big"}
    notes = {"annotations": {"gpu-fraction": "0.5"}} if sharing else {}
    assert whole["pod_metadata"] == {"labels": labels, **notes} == made.pod_metadata["big-2"]


def test_a_policy_denies_what_no_scheduler_of_steps_would_see() -> None:
    def rules(pools: JsonDict) -> list[Any]:
        (policy,) = (each for each in plan(SHARES, pools, RUNTIME).runtimes[0].objects if each.name == "team-queues")
        return [each["expression"] for each in policy.manifest["spec"]["validations"]]

    first, of_groups = rules(ORDERED)
    assert rules({**ORDERED, "big": POOLS["big"]}) == [first]
    assert '{"a.big": "big", "b.big": "big", "big": "big"}' in of_groups


def test_a_list_of_steps_says_what_happens_to_jobs() -> None:
    before, after = (plan(SHARES, {**ORDERED, "big": big}, RUNTIME) for big in (POOLS["big"], ORDERED["big"]))
    found = {each.step: str(each) for each in diff_software(before, after, ())}

    assert "its scheduler sees only jobs with the labels that the preview prints now" in found["shard/gpupools-big"]
    assert "queue/a.big" in found
    assert "shard/gpupools-small" not in found


def test_training_is_preemptible_and_notebooks_are_not() -> None:
    made = plan(TEAMS, runtime=RUNTIME).runtimes[0].team_objects
    found = {each["metadata"]["name"]: each["value"] for each in made if each["kind"] == "PriorityClass"}

    assert found["training"] < 100 <= found["interactive"]


def test_compact_pools_of_a_fixed_size_have_a_topology() -> None:
    made = plan({"a": {"namespaces": ["a"], "guarantee": {"near": 8}}}, {"near": NEAR, "big": POOLS["big"]}, RUNTIME)
    ((name, spec),) = specs(made, "Topology").items()

    assert name == "near"
    assert spec["levels"][-1] == {"nodeLabel": "kubernetes.io/hostname"}


def test_the_chart_is_pinned_with_its_images() -> None:
    made = plan(TEAMS, runtime={**RUNTIME, "registry": "mirror.example.com", "pull_secrets": ["login"]}).runtimes[0]
    (release,) = made.releases

    assert (release.chart, release.version, release.namespace) == ("kai-scheduler", "v0.17.0", "kai-scheduler")
    assert release.values["global"]["registry"] == "mirror.example.com/kai-scheduler/kai-scheduler"
    assert release.values["global"]["imagePullSecrets"] == [{"name": "login"}]
    assert "ghcr.io/kai-scheduler/kai-scheduler/scheduler:v0.17.0" in {each.image for each in made.images}


def test_kai_counts_claims_as_gpus() -> None:
    pools = {"big": {**POOLS["big"], "software": "dra-driver"}}
    made = specs(plan({"a": {"namespaces": ["a"], "guarantee": {"big": 8}}}, pools, RUNTIME), "Queue")

    assert [made[name]["resources"]["gpu"]["quota"] for name in ("big", "a.big")] == [32, 8]


def test_kai_counts_a_slice_by_its_compute_slices() -> None:
    layout = {"mode": "mig", "layout": {index: ["3g.20gb", "2g.10gb", "1g.5gb"] for index in range(8)}}
    pools = {"mixed": {**POOLS["big"], "software": "gpu-operator", "nodes": {"max": 1}, "sharing": layout}}
    share = {"3g.20gb": 2, "1g.5gb": 4}
    made = specs(plan({"a": {"namespaces": ["a"], "guarantee": {"mixed": share}}}, pools, RUNTIME), "Queue")

    assert made["mixed"]["resources"]["gpu"]["quota"] == 8 * (3 + 2 + 1)
    assert made["a.mixed"]["resources"]["gpu"] == {"quota": 2 * 3 + 4, "limit": 8 * (3 + 1), "overQuotaWeight": 1}


def test_edits_say_what_happens_to_pods() -> None:
    after = plan({"research": {**TEAMS["research"], "guarantee": {"big": 8}}}, {"big": POOLS["big"]}, RUNTIME)
    found = {each.step: str(each) for each in diff_software(plan(TEAMS, runtime=RUNTIME), after, ())}

    assert "spec.resources.gpu.quota 16 → 8" in found["queue/research.big"]
    assert "can be reclaimed by other teams" in found["queue/research.big"]
    assert "removes SchedulingShard gpupools-slices" in found["shard/gpupools-slices"]
