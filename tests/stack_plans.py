"""Plans the pools of a stack without its software."""

from collections.abc import Mapping

from gpupools.common.errors import Problem, Rejected
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.stackfile.stack import _pool_on
from gpupools.stackfile.stack_validation import Stack


def plan_stack(stack: Stack, clouds: Mapping[str, Cloud]) -> tuple[PoolPlan, ...]:
    """Return one plan per pool and cluster in the order of the file; reject all problems, each once."""
    plans: list[PoolPlan] = []
    problems: dict[Problem, None] = {}
    for key, cluster in stack.clusters.items():
        for name, pool in stack.pools.items():
            if key in pool.clusters:
                try:
                    plans.append(plan_pool(name, _pool_on(stack, key, name), key, cluster, clouds[cluster.cloud]))
                except Rejected as rejected:
                    problems |= dict.fromkeys(rejected.problems)
    if problems:
        raise Rejected(problems)
    return tuple(plans)
