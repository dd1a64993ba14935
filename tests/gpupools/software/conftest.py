"""Plans of pools on the three clouds, and of the GPU software of their clusters."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.planning import plan_runtimes
from gpupools.stackfile.stack_validation import Stack, parse_stack
from tests.stack_plans import plan_stack

Pools = Mapping[str, Mapping[str, Any]]
Planner = Callable[..., RuntimePlan]


def stack_of(cloud: str, pools: Pools, runtime: Mapping[str, Any] | None = None) -> Stack:
    # GKE counts the first nodes per zone, so a pool that keeps some has to know its zones.
    where = {"node_locations": ["europe-west4-a"]} if cloud == "gcp" else {}
    cluster = {
        **clouds()[cloud].example_cluster,
        "places": "trust",
        **where,
        **({"runtime": runtime} if runtime else {}),
    }
    named = {name: {"clusters": ["c"], "nodes": {"max": 4}, **pool} for name, pool in pools.items()}
    # Kueue without teams is rejected.
    share = {"research": {"namespaces": ["research"], "limit": {next(iter(named)): 1}}} if named else {}
    teams = {"teams": share} if (runtime or {}).get("scheduler") == "kueue" else {}
    return parse_stack({"clusters": {"c": cluster}, "pools": named, **teams}, clouds())


def pools_of(cloud: str, pools: Pools) -> tuple[PoolPlan, ...]:
    return plan_stack(stack_of(cloud, pools), clouds())


@pytest.fixture
def plan() -> Planner:
    """Return a function that plans the software of one cluster with these pools."""

    def planned(cloud: str, pools: Pools, **runtime: Any) -> RuntimePlan:
        stack = stack_of(cloud, pools, runtime)
        return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]

    return planned


@pytest.fixture
def refused() -> Callable[..., list[str]]:
    """Return a function that gives every reason against a cluster with these pools."""

    def reasons(cloud: str, pools: Pools, **runtime: Any) -> list[str]:
        try:
            stack = stack_of(cloud, pools, runtime)
            plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
        except Rejected as rejected:
            return [str(problem) for problem in rejected.problems]
        return []

    return reasons
