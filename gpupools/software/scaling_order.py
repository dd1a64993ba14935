"""The order in which a cluster's autoscaler tries the steps of a pool, written where it is read. Pure.

Cluster Autoscaler's expander `priority` takes, of the node groups that could run the waiting pods, those whose id
matches an expression with the highest number, and all of them if none matches
(https://github.com/kubernetes/autoscaler, cluster-autoscaler-1.36.1, expander/priority/priority.go). GKE's autoscaler
follows a ComputeClass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import yaml

from gpupools.common.errors import Problem
from gpupools.plan.cloud import LATE_DIGITS, PoolOrder
from gpupools.plan.order import MOST_STEPS, groups_of
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.draft import Draft
from gpupools.software.objects import wire_form
from gpupools.spec.models import Cluster
from gpupools.spec.software_spec import RuntimeSpec

CONFIG_MAP = "cluster-autoscaler-priority-expander"
"""A cluster has one, in the namespace of its autoscaler."""

_OTHERS = ".*"
"""Expression of the lowest number, which any step surpasses: the expander warns of groups that match none."""


def has_order(spec: RuntimeSpec, pools: Iterable[PoolPlan]) -> bool:
    """Return whether an autoscaler follows an order of steps, of these pools or of other stacks."""
    theirs = spec.existing.cluster_autoscaler
    return bool(_scaling_groups(pools) or (theirs and theirs.other_orders))


def _scaling_groups(pools: Iterable[PoolPlan]) -> Mapping[str, Sequence[PoolPlan]]:
    return groups_of(pool for pool in pools if pool.min_nodes < pool.max_nodes)


def plan_order(draft: Draft, cluster: Cluster) -> None:
    """Declare the order of the pools with several steps that scale; with `management: external` only render it."""
    if not has_order(draft.spec, draft.pools):
        return
    found = _scaling_groups(draft.pools)
    problems = [*_untried(found), *_unread(draft, cluster, found)]
    names = {pool.name: draft.cloud.node_pools.order.names(pool, cluster) for pool in draft.pools}
    problems += _unclear(draft, found, names)
    draft.problems += problems
    if problems:
        return
    draft.order_objects += [*_objects(draft, cluster, found, names)]
    if draft.spec.management == "managed":
        for planned in draft.order_objects:
            # A ComputeClass names pools that are there.
            pools = found.get(planned.name.partition("/")[2], ())
            draft.add(planned, *(f"pool/{step.name}" for step in pools))


def orders(pools: Iterable[PoolPlan], cluster: Cluster, order: PoolOrder) -> list[list[str]]:
    """Return the expressions of the pools with several steps that scale, one for each step in their order."""
    found = _scaling_groups(pools).values() if order.group_id else ()
    return [[_expression(order.group_id, order.names(step, cluster)) for step in steps] for steps in found]


def _objects(
    draft: Draft, cluster: Cluster, found: Mapping[str, Sequence[PoolPlan]], names: Mapping[str, Sequence[str]]
) -> Iterator[KubernetesObject]:
    order, theirs = draft.cloud.node_pools.order, draft.spec.existing.cluster_autoscaler
    why = "has the order in which the autoscaler tries the steps of a pool"
    if order.compute_class is not None:
        for key, steps in found.items():
            made = order.compute_class(key, [names[step.name][0] for step in steps])
            yield KubernetesObject(f"compute-class/{key}", wire_form(**made), why)
        return
    numbers: dict[int, list[str]] = {}
    for listed in (*orders(draft.pools, cluster, order), *(theirs.other_orders if theirs else ())):
        for index, expression in enumerate(listed):
            numbers.setdefault(MOST_STEPS - index, []).append(expression)
    text = yaml.safe_dump({**dict(sorted(numbers.items(), reverse=True)), 0: [_OTHERS]}, sort_keys=False)
    space = "kube-system" if order.enable or theirs is None else theirs.namespace
    manifest = wire_form("ConfigMap", CONFIG_MAP, space, data={"priorities": text})
    yield KubernetesObject(f"order/{CONFIG_MAP}", manifest, why)


def _expression(group_id: str, names: Sequence[str]) -> str:
    return group_id.format(names[0] if len(names) == 1 else f"({'|'.join(names)})")


def _untried(found: Mapping[str, Sequence[PoolPlan]]) -> Iterator[Problem]:
    """Yield the steps that no autoscaler tries."""
    for steps in found.values():
        for step in steps:
            blocker = step.provider_plan.queued_provisioning()
            if blocker is not None:
                what = f"pods start no node of this step ({blocker.what}), so it has no place in an order"
                yield Problem(("pools", step.name, "capacity"), what, "write it as a pool of its own", blocker.source)


def _unread(draft: Draft, cluster: Cluster, found: Mapping[str, Sequence[PoolPlan]]) -> Iterator[Problem]:
    """Yield why no autoscaler of this cluster reads the order."""
    order, theirs = draft.cloud.node_pools.order, draft.spec.existing.cluster_autoscaler
    at, key = (*draft.at, "existing", "cluster_autoscaler"), f"{draft.runtime}.existing.cluster_autoscaler"
    pools, karpenter = ", ".join(found) or "other stacks", draft.spec.existing.karpenter
    if order.compute_class is not None:
        return
    if karpenter is not None and (theirs is None or order.enable):
        what = f"{karpenter.name} scales only nodes that it makes itself, so nothing follows the order of {pools}"
        fix = "use nodes: {fixed: …}" if order.enable else f"run Cluster Autoscaler for them and set {key}"
        yield Problem((*draft.at, "existing", "karpenter"), what, f"{fix}, or list one step")
    elif theirs is None or theirs.expander is None:
        what = f"nothing says that the cluster's autoscaler reads an order, which {pools} needs"
        run = "run Cluster Autoscaler with --expander=priority"
        if order.enable:
            keys = {key: value if isinstance(value, str) else "…" for key, value in cluster}
            run = f"run {order.enable.format_map(keys)}"
        name = theirs.name if theirs else "kube-system/cluster-autoscaler"
        yield Problem(at, what, f"{run}, and write cluster_autoscaler: {{name: {name}, expander: priority}}")
    elif order.enable and (theirs.dynamic_resource_allocation or theirs.reads_node_groups or theirs.capacity_buffers):
        what = f"{draft.cloud.service} runs this autoscaler, so only expander and other_orders say something about it"
        yield Problem(at, what, "leave the other keys out")
    elif not order.enable and not theirs.namespace:
        what = f"{theirs.name} has no namespace, and the autoscaler reads the order in its own"
        yield Problem((*at, "name"), what, "write <namespace>/<name>, e.g. kube-system/cluster-autoscaler")


def _unclear(
    draft: Draft, found: Mapping[str, Sequence[PoolPlan]], names: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    """Yield the steps whose node pool has no sure name, or may have that of another pool or of another stack."""
    order, theirs = draft.cloud.node_pools.order, draft.spec.existing.cluster_autoscaler
    start, _, end = order.group_id.partition("{}")
    others = [expression for listed in (theirs.other_orders if theirs else ()) for expression in listed]
    tried = {step.name: step for steps in found.values() for step in steps if not step.provider_plan.adopted}
    for step in tried.values():
        own = names[step.name]
        if not own:
            what = "the order names node pools, and their names follow from a value that only an update knows"
            yield Problem(("clusters", draft.cluster, "service_account"), what, "write it as text")
        rest = [pool for pool in draft.pools if pool.name not in tried or pool.name > step.name]  # each pair once
        same = next((pool for pool in rest if _overlap(own, names[pool.name])), None)
        if same is not None:
            what = f"node groups of {step.name} and {same.name} may have the same name, so no order tells them apart"
            fix = "use a new key for the pool" if step.group == same.group else f"use another key than {same.name}"
            yield Problem(("pools", step.name), what, fix)
        for expression in others:
            theirs_names = expression.removeprefix(start).removesuffix(end).strip("()").split("|")
            if _overlap(own, theirs_names):
                what = f"{expression} matches node groups of {step.name}, a pool of this stack"
                at = (*draft.at, "existing", "cluster_autoscaler", "other_orders")
                yield Problem(at, what, "list only steps of other stacks")


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two pools may have the same name."""
    pairs = [[name.replace(LATE_DIGITS, "????") for name in pair] for pair in product(some, others)]
    return any(
        len(one) == len(other) and all(a == b or "?" in (a, b) for a, b in zip(one, other, strict=True))
        for one, other in pairs
    )
