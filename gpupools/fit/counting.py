"""How many nodes of a pool the pods of a workload need beside nothing else, with their price and quota."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal

from gpupools.common.errors import amount_of
from gpupools.common.numbers import quantity
from gpupools.fit.offers import Offer
from gpupools.fit.pod_judging import Case, Context
from gpupools.fit.requests import Amounts
from gpupools.fit.workloads import Left, Level, Need, PodTemplate, Reason, Workload
from gpupools.plan.cloud import Cloud
from gpupools.plan.dra import DEVICE_CLASS
from gpupools.plan.hami import HAMI, PODS_PER_GPU
from gpupools.plan.node_resources import FRACTION_ANNOTATIONS, GPU_RESOURCE, KAI_SCHEDULER
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice
from gpupools.plan.quotas import QuotaNeed, quota_needs
from gpupools.stackfile.stack import StackPlan, prices_of


class Costs:
    """What nodes of the pools of a stack cost, and the quotas that they take."""

    def __init__(self, plan: StackPlan, clouds: Mapping[str, Cloud]) -> None:
        self._given = plan.stack.clusters, plan.stack.pools, clouds
        self._prices = {price.key: price for price in prices_of(plan, clouds)}
        self._found: dict[tuple[tuple[str, int], ...], tuple[Sequence[PoolPrice], Sequence[QuotaNeed]]] = {}

    def of(self, *used: tuple[PoolPlan, int]) -> tuple[Sequence[PoolPrice], Sequence[QuotaNeed]]:
        """Return prices and known quotas of some nodes of some pools."""
        key = tuple((f"{pool.cluster}/{pool.name}", nodes) for pool, nodes in used)
        if key not in self._found:
            prices = [self._prices[name]._replace(max_nodes=nodes) for name, nodes in key]
            quotas = quota_needs([pool._replace(max_nodes=nodes) for pool, nodes in used], *self._given)
            self._found[key] = prices, [quota for quota in quotas if quota.code]
        return self._found[key]


def needs(workload: Workload, template: PodTemplate, offer: Offer, context: Context, costs: Costs) -> Need:
    """Return what the pods of a template need, together with all templates of the workload that fit the pool."""
    together = counted_together(Case(workload, template, offer, context))
    own = [each for each in together if template.runs_with(each.template)]
    pool, most, asked = offer.pool, offer.pool.max_nodes, [taken(case) for case in own]
    node = _node(offer, asked)
    per_node = _times(asked[0], node)
    if template.pods is None or not per_node:
        return Need(template.pods, per_node, 0, most, *costs.of((pool, 0)))
    pods = [case.template.pods or 0 for case in own]
    free, waiting = _filled(own, pods)
    number, placed = sum(pods), sum(pods) - sum(waiting)
    # Kueue counts units, not nodes, and leaves its pods to the scheduler of Kubernetes.
    gang = started_together(own, _GANGS.get(str(template.spec.get("schedulerName")), "alone"))
    nodes = len(free) + sum(-(-count // _times(each, node)) for each, count in zip(asked, waiting, strict=True))
    others = list[tuple[PoolPlan, int]]()
    for step in _other_steps(own) if any(waiting) else ():
        fitting = [count if _fits(case) else 0 for case, count in zip(step, waiting, strict=True)]
        there, rest = _filled(step, fitting)
        waiting = [count - fits + left for count, fits, left in zip(waiting, fitting, rest, strict=True)]
        others += [(step[0].pool, len(there))] if there else []
    elsewhere = number - placed - sum(waiting)
    if placed + elsewhere < gang:
        alone = f"need {amount_of(nodes, 'node')}" if gang == number else "need more nodes"
        text = f"starts {amount_of(gang, 'pod')} together, which {alone}, and nodes.max is {most}"
        text += f"; other steps of {pool.group} take {elsewhere} of them" if elsewhere else ""
        return Need(number, per_node, 0, most, *costs.of((pool, 0)), reasons=(Reason("above-max", text),))
    runs = f"{placed} of {amount_of(number, 'pod')} run"
    if elsewhere:
        runs += f" on this step at once, and {elsewhere} on others of {pool.group}"
    else:
        runs = f"{placed // gang} of {workload.groups} groups run" if workload.groups > 1 and gang > 1 else runs
        runs += f" at once on at most {amount_of(most, 'node')}"
    left = [
        Left(unit_name(name, pool), *(round(float(each), 6) for each in amounts))
        for name in (name for name in pool.countable if name in node and free)
        for amounts in [(sum(each[name] for each in free), free[-1][name], node[name] * len(free))]
    ]
    return Need(
        number,
        per_node,
        len(free),
        most,
        *costs.of((pool, len(free)), *others),
        left,
        (Reason("some-run", runs),) if placed < number else (),
        len(own) > 1,
        {step.name: count for step, count in others},
    )


_GANGS = {KAI_SCHEDULER: "kai", "volcano": "volcano"}
"""Schedulers that put pods on nodes together or not at all."""


def _other_steps(own: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Yield the cases on each other step of the pool.

    Kueue gives all pods of a template one flavor, which is one step:
    https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/.
    """
    pool, context = own[0].pool, own[0].context
    if pool.group and context.plan.stack.clusters[pool.cluster].runtime.scheduler != "kueue":
        for offer in context.offers:
            if (offer.pool.cluster, offer.pool.group) == (pool.cluster, pool.group) and offer.pool.name != pool.name:
                yield [replace(case, offer=offer) for case in own]


def started_together(own: Sequence[Case], scheduler: str) -> int:
    """Return how many pods of some templates of a workload start at once or not at all; 1 where each does by itself."""
    workload, counted = own[0].workload, [case.template for case in own]
    others = sum(one.pods or 0 for one in workload.templates if one not in counted)
    return max(1, workload.gangs.get(scheduler, 0) - others // workload.groups)


def counted_together(case: Case) -> list[Case]:
    """Return the case, and those of other templates of its workload whose pods ask for GPUs and fit the pool."""
    others = [one for one in case.workload.templates if one != case.template and one.pods and one.asks_for_gpus]
    cases = [replace(case, template=one) for one in others]
    return [case, *filter(_fits, cases)]


def taken(case: Case) -> Amounts:
    """Return what a pod takes of a node; of a GPU that it shares, what it leaves to no pod of its size."""
    offer, pool = case.offer, case.pool
    found = {name: amount for name, amount in case.template.asked.amounts.items() if name in offer.amounts}
    found |= {name: Decimal(count) for name, count in case.claims[0].items() if offer.devices[name] is not None}
    part = fraction_of(case)
    if part:
        found[GPU_RESOURCE] = 1 / (1 / part).to_integral_value(ROUND_FLOOR) if part < 1 else part
    elif pool.software == HAMI and GPU_RESOURCE in found:
        parts = {name: offer.amounts[name].most // found.pop(name) for name in _HAMI_PARTS if name in found}
        if parts.keys() <= {_HAMI_PARTS[0]}:  # which gets all memory: Project-HAMi/HAMi tag v2.10.0, docs/config.md
            parts["memory"] = Decimal(1)
        found[GPU_RESOURCE] *= PODS_PER_GPU / max(min(Decimal(PODS_PER_GPU), *parts.values()), Decimal(1))
    return {**found, **({"pods": Decimal(1)} if offer.pods is not None else {})}


_HAMI_PARTS = ("nvidia.com/gpucores", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage")


def fraction_of(case: Case) -> Decimal | None:
    """Return the GPUs that a pod gets of KAI by its annotations, of which `gpu-memory` is in MiB; None without.

    A GPU has a little less memory than its maker says, so 8 % of it are not counted on.
    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/gpu-sharing/README.md
    """
    if case.pool.sharing.fractions is None:
        return None
    given, keys = case.template.annotations, (*FRACTION_ANNOTATIONS, "gpu-fraction-num-devices")
    part, memory, count = (quantity(given.get(key)) for key in keys)
    whole = Decimal(int(case.pool.instance.gpu_memory_gib * 1024 * 0.92))
    part = part or (min(Decimal(1), memory / whole) if memory else None)
    return part * (count or 1) if part and part > 0 else None


def unit_name(name: str, pool: PoolPlan) -> str:
    """Return what people call a unit of a pool: `GPUs`, or the resource of its shares and slices."""
    is_whole = pool.sharing.kind in ("none", "fractions") and pool.software != HAMI
    return "GPUs" if is_whole and name in (GPU_RESOURCE, DEVICE_CLASS) else name


def _node(offer: Offer, asked: Sequence[Amounts]) -> Amounts:
    """Return what a node has: what is sure, or all that the machine has where a pod asks for more than that."""
    most = {name: max(each.get(name, Decimal(0)) for each in asked) for one in asked for name in one}
    has = {name: each.sure if most.get(name, 0) <= each.sure else each.most for name, each in offer.amounts.items()}
    has |= {name: Decimal(count) for name, count in {**offer.devices, "pods": offer.pods}.items() if count is not None}
    return {name: has[name] for name in most}


def _filled(own: Sequence[Case], pods: Sequence[int]) -> tuple[Sequence[Amounts], Sequence[int]]:
    """Put pods of each template on the first nodes that have room for them, the largest first.

    Returns:
        What each node that the pool starts has left over, and how many pods of each template found no room.
    """
    offer, asked, waiting, free = own[0].offer, [taken(case) for case in own], list(pods), list[Amounts]()
    node = _node(offer, asked)
    shares = [max((amount / node[name] for name, amount in each.items()), default=Decimal(0)) for each in asked]
    for template in sorted(range(len(own)), key=lambda index: -shares[index]):
        index, most = 0, offer.pool.max_nodes if _times(asked[template], node) else 0
        while waiting[template] and index < most:
            free += [node] if index == len(free) else []
            here = min(waiting[template], _times(asked[template], free[index]))
            taken_here = {name: amount * here for name, amount in asked[template].items()}
            free[index] = {name: amount - taken_here.get(name, 0) for name, amount in free[index].items()}
            waiting[template], index = waiting[template] - here, index + 1
    return free, waiting


def _fits(case: Case) -> bool:
    return all(each.level is not Level.UNFIT for each in case.reasons())


def _times(asked: Amounts, free: Amounts) -> int:
    return int(min((free[name] // amount for name, amount in asked.items()), default=Decimal(10**9)))
