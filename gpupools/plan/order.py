"""Pools with several steps that are tried in their order: what the steps give to pods that use any of them. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpupools.plan.pool_plan import GROUP_LABEL, PoolPlan, gpus_as_json

MOST_STEPS = 10
"""Maximum steps of a pool."""


def groups_of(pools: Iterable[PoolPlan]) -> dict[str, list[PoolPlan]]:
    """Return the pools of one cluster that are steps: key of the pool in the file to its steps, in their order."""
    found: dict[str, list[PoolPlan]] = {}
    for pool in pools:
        if pool.group:
            found.setdefault(pool.group, []).append(pool)
    return found


def placed_together(pools: Iterable[PoolPlan]) -> dict[str, list[PoolPlan]]:
    """Return the pools of one cluster by their keys in the file, as schedulers see them that know no steps."""
    found: dict[str, list[PoolPlan]] = {}
    for pool in pools:
        found.setdefault(pool.group or pool.name, []).append(pool)
    return found


def group_plans(pools: Iterable[PoolPlan]) -> Iterator[tuple[PoolPlan, Sequence[PoolPlan]]]:
    """Yield the pools with several steps of all clusters, as `group_plan` returns them, with the plans of the steps."""
    by_cluster: dict[str, list[PoolPlan]] = {}
    for pool in pools:
        by_cluster.setdefault(pool.cluster, []).append(pool)
    for own in by_cluster.values():
        for steps in groups_of(own).values():
            yield group_plan(steps), steps


def group_plan(steps: Sequence[PoolPlan]) -> PoolPlan:
    """Return what pods that use any of these steps need, as the plan of one pool under the key in the file.

    It selects the label of the group, tolerates the taints of every step, and asks for what every step has: no
    interfaces and no NVLink domain where the steps differ in them. Nothing is declared from it.
    """
    first = steps[0]
    whole = first._replace(
        name=first.group,
        selector=GROUP_LABEL,
        min_nodes=sum(step.min_nodes for step in steps),
        max_nodes=sum(step.max_nodes for step in steps),
        taints=tuple(dict.fromkeys(taint for step in steps for taint in step.taints)),
        labels=dict(set.intersection(*(set(step.labels.items()) for step in steps))),
    )
    if all(_offer(step) == _offer(first) for step in steps):
        return whole
    return whole._replace(provider_plan=replace(whole.provider_plan, fabric=None), compute_domains=False)


def kept_free(pools: Sequence[PoolPlan]) -> Iterator[tuple[PoolPlan, Sequence[PoolPlan]]]:
    """Yield each pool or group of one cluster that keeps spare nodes, as pods select it, with its steps."""
    groups = groups_of(pools)
    for pool in pools:
        steps = groups.get(pool.group, [pool])
        if pool.spare and pool is steps[0]:
            yield (group_plan(steps) if pool.group else pool), steps


def idle_nodes(pools: Sequence[PoolPlan]) -> dict[str, int]:
    """Return how many nodes of each pool of one cluster run while nothing uses them: pool to `min` or `spare`.

    Spare nodes of a pool with several steps count for its first, beyond the `min` of all of them.
    """
    least = {pool.name: pool.min_nodes for pool in pools}
    for whole, (first, *others) in kept_free(pools):
        least[first.name] = max(first.min_nodes, whole.spare - sum(step.min_nodes for step in others))
    return least


def differences(steps: Sequence[PoolPlan], *, mixed: bool) -> Iterator[tuple[PoolPlan, str]]:
    """Yield the steps whose pods would get something else than those of the first, with what differs.

    Args:
        steps: The steps of a pool on one cluster.
        mixed: Whether pods may get another GPU, as long as they can ask for it in the same way.
    """
    first, whole = steps[0], group_plan(steps)
    for step in steps[1:]:
        own, other = _offer(step), _offer(first)
        key = next((key for key in {**other, **own} if own.get(key) != other.get(key)), "")
        if key and not mixed:
            what = f"{step.instance.name} differs from the first step, {first.instance.name}, in {key}"
            yield step, f"{what}: {own.get(key, 0)}, not {other.get(key, 0)}"
        elif _like(step, whole).pod() != whole.pod():
            yield step, f"pods cannot ask for {step.instance.name} and {first.instance.name} in the same way"


def _like(step: PoolPlan, whole: PoolPlan) -> PoolPlan:
    """Return a step as its own group would be, with what the whole group has for pods."""
    fabric = step.provider_plan.fabric if whole.provider_plan.fabric is not None else None
    own = step._replace(name=whole.name, selector=whole.selector, taints=whole.taints)
    own = own._replace(scheduler_name=whole.scheduler_name)  # shares of single steps are judged with the teams
    return own._replace(provider_plan=replace(step.provider_plan, fabric=fabric))


def _offer(step: PoolPlan) -> Mapping[str, Any]:
    """Return what a node of a step has for pods, in words for people."""
    fabric = step.provider_plan.fabric
    return {
        "GPUs per node": gpus_as_json(step.instance.gpus),
        "GiB per GPU": int(step.instance.gpu_memory_gib),
        **{f"{resource} per node": count for resource, count in sorted(step.countable.items())},
        "RDMA interfaces": fabric.devices if fabric is not None else 0,
        "MiB of huge pages": fabric.huge_pages_mib if fabric is not None else 0,
    }
