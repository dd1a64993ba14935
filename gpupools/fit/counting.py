"""How many nodes of a pool the pods of a workload need beside nothing else, with their price and quota."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal

from gpupools.common.errors import amount_of
from gpupools.common.numbers import quantity
from gpupools.fit.offers import Offer
from gpupools.fit.pod_judging import Case, Context
from gpupools.fit.requests import Amounts
from gpupools.fit.workloads import Left, Level, PodTemplate, Reason, Workload
from gpupools.fit.workloads import Need as Need
from gpupools.plan.cloud import Cloud
from gpupools.plan.dra import DEVICE_CLASS
from gpupools.plan.hami import HAMI, PODS_PER_GPU
from gpupools.plan.node_resources import FRACTION_ANNOTATIONS, GPU_RESOURCE
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice
from gpupools.plan.quotas import QuotaNeed, quota_needs
from gpupools.stackfile.stack import StackPlan, prices_of


class Costs:
    """What nodes of the pools of a stack cost, and the quotas that they take."""

    def __init__(self, plan: StackPlan, clouds: Mapping[str, Cloud]) -> None:
        self._given = plan.stack.clusters, plan.stack.pools, clouds
        self._prices = {price.key: price for price in prices_of(plan, clouds)}
        self._quotas: dict[tuple[str, int], Sequence[QuotaNeed]] = {}

    def of(self, pool: PoolPlan, nodes: int) -> tuple[PoolPrice, Sequence[QuotaNeed]]:
        """Return price and known quotas of some nodes of a pool."""
        key = f"{pool.cluster}/{pool.name}"
        if (key, nodes) not in self._quotas:
            found = quota_needs([pool._replace(max_nodes=nodes)], *self._given)
            self._quotas[key, nodes] = [quota for quota in found if quota.code]
        return self._prices[key]._replace(max_nodes=nodes), self._quotas[key, nodes]


def needs(workload: Workload, template: PodTemplate, offer: Offer, context: Context, costs: Costs) -> Need:
    """Return what the pods of a template need, together with all templates of the workload that fit the pool."""
    own = counted_together(Case(workload, template, offer, context))
    pool, most, asked = offer.pool, offer.pool.max_nodes, [taken(case) for case in own]
    node = _node(offer, asked)
    per_node = _times(asked[0], node)
    if template.pods is None or not per_node:
        return Need(template.pods, per_node, 0, most, *costs.of(pool, 0))
    pods = [case.template.pods or 0 for case in own]
    wanted = [(each, count) for each, count in zip(asked, pods, strict=True) if count and _times(each, node)]
    wanted.sort(key=lambda each: -max(amount / node[name] for name, amount in each[0].items()))
    nodes, placed, last = _packed(wanted, node, most)
    left = []
    for name in (name for name in pool.countable if name in node and nodes):
        every = node[name] * nodes
        amounts = (every - sum(each.get(name, 0) * count for each, count in wanted), last[name], every)
        left.append(Left(unit_name(name, pool), *(round(float(each), 6) for each in amounts)))
    number, gang = sum(count for _, count in wanted), started_together(own)
    reasons: tuple[Reason, ...] = ()
    others = _in_other_steps(own, pods) if placed < number else 0
    if placed + others < gang:
        alone = f"need {amount_of(nodes, 'node')}" if gang == number else "need more nodes"
        text = f"starts {amount_of(gang, 'pod')} together, which {alone}, and nodes.max is {most}"
        text += f"; other steps of {pool.group} take {others} of them" if others else ""
        reasons = (Reason("above-max", text),)
    elif others:
        more = min(others, number - placed)
        text = f"{placed} of {amount_of(number, 'pod')} run on this step at once, and {more} on others of {pool.group}"
        reasons = (Reason("some-run", text),)
    elif placed < number:
        runs = f"{placed} of {amount_of(number, 'pod')} run"
        runs = f"{placed // gang} of {workload.groups} groups run" if workload.groups > 1 and gang > 1 else runs
        reasons = (Reason("some-run", f"{runs} at once on at most {amount_of(most, 'node')}"),)
    return Need(number, per_node, nodes, most, *costs.of(pool, nodes), left, reasons, len(own) > 1)


def _in_other_steps(own: Sequence[Case], pods: Sequence[int]) -> int:
    """Return how many of a workload's pods run on the other steps of the pool, of those that they fit.

    Kueue gives all pods of a template one flavor, which is one step:
    https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/.
    """
    first, pool = own[0], own[0].pool
    if not pool.group or first.context.plan.stack.clusters[pool.cluster].runtime.scheduler == "kueue":
        return 0
    total = 0
    for offer in first.context.offers:
        if (offer.pool.cluster, offer.pool.group) == (pool.cluster, pool.group) and offer.pool.name != pool.name:
            there = [replace(case, offer=offer) for case in own]
            fits = [all(each.level is not Level.UNFIT for each in case.reasons()) for case in there]
            asked = [taken(case) for case in there]
            node = _node(offer, asked)
            wanted = [
                (each, count) for each, count, fit in zip(asked, pods, fits, strict=True) if fit and _times(each, node)
            ]
            total += _packed(wanted, node, offer.pool.max_nodes)[1]
    return total


def started_together(own: Sequence[Case]) -> int:
    """Return how many pods of some templates of a workload start at once or not at all; 1 where each does by itself."""
    workload, counted = own[0].workload, [case.template for case in own]
    others = sum(one.pods or 0 for one in workload.templates if one not in counted)
    return max(1, workload.gang - others // workload.groups)


def counted_together(case: Case) -> list[Case]:
    """Return the case, and those of other templates of its workload whose pods ask for GPUs and fit the pool."""
    others = [one for one in case.workload.templates if one != case.template and one.pods and one.asks_for_gpus]
    cases = [replace(case, template=one) for one in others]
    return [case, *(one for one in cases if all(each.level is not Level.UNFIT for each in one.reasons()))]


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
    given = case.template.annotations if case.pool.sharing.fractions is not None else {}
    part, memory, count = (quantity(given.get(key)) for key in (*FRACTION_ANNOTATIONS, "gpu-fraction-num-devices"))
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


def _packed(wanted: Sequence[tuple[Amounts, int]], node: Amounts, most: int) -> tuple[int, int, Amounts]:
    """Put each pod on the first node that has room for it.

    Returns:
        Nodes for all pods, how many pods run on the nodes of the pool at once, and what the last node has left over.
    """
    nodes: list[Amounts] = []
    placed, beyond, last = 0, 0, node
    for asked, count in wanted:
        left, index = count, 0
        while left and index < most:
            nodes += [node] if index == len(nodes) else []
            here = min(left, _times(asked, nodes[index]))
            nodes[index] = _less(nodes[index], asked, here) if here else nodes[index]
            left, index = left - here, index + 1
        placed += count - left
        if left:
            each = _times(asked, node)
            beyond, last = beyond + -(-left // each), _less(node, asked, (left - 1) % each + 1)
    return len(nodes) + beyond, placed, last if beyond or not nodes else nodes[-1]


def _less(free: Amounts, asked: Amounts, pods: int) -> Amounts:
    return {name: amount - asked.get(name, 0) * pods for name, amount in free.items()}


def _times(asked: Amounts, free: Amounts) -> int:
    return int(min((free[name] // amount for name, amount in asked.items()), default=Decimal(10**9)))
