"""The order of steps against what cluster-autoscaler 1.36.1 decided by it: recorded_orders.yaml, of 2026-11-28.

The autoscaler itself is not needed: its rule is expander/priority/priority.go of the tag cluster-autoscaler-1.36.1.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.plan.tolerations import selects, untolerated
from gpupools.providers import clouds
from gpupools.stackfile.stack import StackPlan, plan_config

HERE = Path(__file__).parent
RECORD = yaml.safe_load((HERE / "recorded_orders.yaml").read_text(encoding="utf-8"))
GROUPS: Mapping[int, str] = RECORD["groups"]
RUNS: Mapping[str, Mapping[str, Any]] = {each["run"]: each for each in RECORD["runs"]}
PLACED = [run for run, each in RUNS.items() if "pods" in each]
SPARE = [run for run, each in RUNS.items() if "spare" in each]


def planned(spare: int = 0) -> StackPlan:
    """Return the plan of the pool `big` of the example, alone in its cluster."""
    file = HERE.parents[2] / "examples" / "stacks" / "Pulumi.ordered.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    train, big = config["gpupools:clusters"]["train"], config["gpupools:pools"]["big"]
    if spare:
        autoscaler = train["runtime"]["existing"]["cluster_autoscaler"]
        train["runtime"] = {"existing": {"cluster_autoscaler": {**autoscaler, "capacity_buffers": True}}}
        big["nodes"]["spare"] = spare
    return plan_config({"clusters": {"train": train}, "pools": {"big": big}}, clouds())


def runtime(plan: StackPlan) -> RuntimePlan:
    (only,) = plan.runtimes
    return only


def taken(config_map: Mapping[str, Any], groups: Collection[str]) -> list[str]:
    """Return the node groups that the expander `priority` leaves of those that could grow."""
    priorities = yaml.safe_load(config_map["data"]["priorities"])
    numbers = {
        group: max((number for number, listed in priorities.items() if any(re.search(e, group) for e in listed)))
        for group in groups
    }
    return [group for group, number in numbers.items() if number == max(numbers.values())]


def filled(run: Mapping[str, Any], steps: list[PoolPlan]) -> dict[int, int]:
    """Return the pods of each step if every step is filled before the next; those without a place at 0."""
    left, found = run["pods"], {}
    for number, step in enumerate(steps, 1):
        nodes = min(step.max_nodes, run.get("machines", {}).get(number, step.max_nodes))
        if here := min(left, nodes * (step.units // run["gpus"])):
            found[number] = here
            left -= here
    return {**({0: left} if left else {}), **found}


def test_the_record_has_the_runs_that_it_is_said_to_have() -> None:
    assert len([run for run in RUNS if run.startswith("o")]) == 30
    assert len(SPARE) == 10


@pytest.mark.parametrize("run", RUNS)
def test_our_order_picks_the_step_that_the_autoscaler_took(run: str) -> None:
    (config_map,) = runtime(planned(RUNS[run].get("spare", 0))).order_objects

    assert RUNS[run]["decisions"]
    for decision in RUNS[run]["decisions"]:
        could, took = decision.split(">")
        assert taken(config_map, [GROUPS[int(step)] for step in could]) == [GROUPS[int(took)]]


@pytest.mark.parametrize("run", PLACED)
def test_pods_ended_in_the_step_that_the_file_says(run: str) -> None:
    each = RUNS[run]
    wanted = filled(each, list(planned().pools))

    assert wanted == each["wanted"]
    assert (wanted != each["got"]) is ("differs" in each)


def test_the_recorded_names_are_those_of_the_plan() -> None:
    plan = planned()
    names = [clouds()["aws"].node_pools.order.names(pool, plan.stack.clusters["train"]) for pool in plan.pools]

    for (name,), group in zip(names, GROUPS.values(), strict=True):
        assert re.fullmatch(rf"eks-{name}-[0-9a-f]{{7}}-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}", group)


def test_the_exported_part_fits_a_node_of_each_step() -> None:
    plan = planned()
    pod = runtime(plan).groups["big"]["pod"]

    for pool in plan.pools:
        assert selects(pod["nodeSelector"], {}, pool.labels)
        assert untolerated(pod["tolerations"], pool.taints) == []


@pytest.mark.parametrize("run", SPARE)
def test_a_buffer_is_what_the_autoscaler_kept_free(run: str) -> None:
    plan = planned(RUNS[run]["spare"])
    made = {each.kind: each.manifest for each in runtime(plan).objects}
    pod, part = made["PodTemplate"]["template"]["spec"], runtime(plan).groups["big"]["pod"]

    assert made["CapacityBuffer"]["spec"]["replicas"] == RUNS[run]["spare"] * plan.pools[0].units
    assert (pod["nodeSelector"], pod["tolerations"]) == (part["nodeSelector"], part["tolerations"])
    assert RUNS[run]["got"] == RUNS[run]["wanted"]
