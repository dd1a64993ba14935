"""GPU pools, and all of a stack together, stay within the limits of nodes, GPUs and cost of their environment."""

from collections.abc import Iterator
from decimal import Decimal

from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.plan.prices import list_price, per_hour
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, choice, unknown_at_preview, whole_number
from gpupools.policies.rules._pools import in_zones
from gpupools.policies.rules._table import described
from gpupools.providers import clouds


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    most = RULE.option(context, "maxNodesPerPool")
    if most is None or not pool.has_gpus:
        return
    fix = f"set a maximum of {int(most)} nodes or fewer, or raise maxNodesPerPool in the policy configuration"
    if pool.max_nodes is None:
        late = [name for name in pool.unknown if _is_size(name)]
        yield Finding(
            what="has no maximum size that gpupools can read, and the limit is "
            f"{int(most)} nodes{': ' + ', '.join(late) + ' not known yet' if late else ''}",
            fix=fix,
            pool=pool.pool,
            unverified=bool(late),
        )
    elif (largest := pool.max_nodes * pool.zones_counted) > most:
        yield Finding(
            what=f"may grow to {largest} GPU nodes{in_zones(pool)}, and the limit is {int(most)}",
            fix=fix,
            pool=pool.pool,
            unverified=pool.zones_unknown and pool.max_nodes <= most,
        )


def _is_size(unknown: str) -> bool:
    return any(word in unknown.lower() for word in ("scaling", "size", "count", "limits"))


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    limits = {word: RULE.option(context, key) for word, key in (("nodes", "maxNodes"), ("GPUs", "maxGpus"))}
    if any(limit is not None for limit in limits.values()):
        yield from _of_sizes(stack, limits, is_judged_alone=RULE.option(context, "maxNodesPerPool") is not None)
    if RULE.option(context, "perHour") is not None:
        yield from _of_costs(stack, context)


def _of_sizes(
    stack: DeclaredStack, limits: dict[str, int | None], *, is_judged_alone: bool
) -> Iterator[tuple[str, Finding]]:
    sizes = [(declared, pool, pool.most_nodes or 0) for declared, pool in stack.gpu_pools]
    # Counted with one zone where it is not known yet how many a pool has.
    sure = [(pool.max_nodes or 0 if pool.zones_unknown else most, pool) for _, pool, most in sizes]
    by_size = sorted(sizes, key=lambda size: size[2], reverse=True)
    largest = ", ".join(f"{resource.name} {most}{in_zones(pool)}" for resource, pool, most in by_size[:3])
    for word, limit in limits.items():
        total, known = (
            sum(most * (1 if word == "nodes" else pool.gpus_per_node or 1) for most, pool in listed)
            for listed in ([(most, pool) for _, pool, most in sizes], sure)
        )
        if limit is not None and total > limit:
            counted = int(total) if total == int(total) else float(total)
            what = f"the GPU pools of this stack can grow to {counted} {word} together, and the limit is {int(limit)}"
            what += f"; largest pools, in nodes: {largest}"
            yield "", Finding(what=what, fix="lower the maximum of some pools", unverified=known <= limit)
    for resource, pool, _ in sizes:
        is_said = is_judged_alone and any(own.has_gpus and own.pool == pool.pool for own in resource.pools)
        if pool.max_nodes is None and not is_said:
            what = "has no maximum size that gpupools can read, so the stack has none"
            late = UNKNOWN in resource.inputs.values()
            yield resource.urn, Finding(what=what, fix="set a maximum number of nodes", pool=pool.pool, unverified=late)


def _of_costs(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    limit = RULE.option(context, "perHour")
    costs = [(declared, pool, _cost(pool, stack.region(declared, pool))) for declared, pool in stack.gpu_pools]
    known = [(cost, resource.name) for resource, _, cost in costs if cost is not None]
    total = sum((cost for cost, _ in known), Decimal(0))
    if total > limit:
        dearest, name = max(known)
        atleast = "at least " if len(known) < len(costs) else ""
        what = f"the GPU pools of this stack cost {atleast}{per_hour(total, 'USD')} with all nodes, and the budget is"
        what = f"{what} {per_hour(Decimal(str(limit)), 'USD')}; the dearest is {name} ({per_hour(dearest, 'USD')})"
        yield "", Finding(what=what, fix="lower the maximum of some pools")
    elif RULE.option(context, "unpriced") == "violation":
        for resource, pool, cost in costs:
            if cost is None:
                what = "has no known price or no maximum size, so the budget of the stack cannot be checked"
                fix = "set the region and a maximum size, or unpriced: allow to leave such pools out"
                yield resource.urn, Finding(what=what, fix=fix, pool=pool.pool)


def _cost(pool: PoolFacts, region: str) -> Decimal | None:
    """Return what all nodes of a pool cost per hour, on the dearest of its machines."""
    cloud = clouds().get(pool.cloud)
    if cloud is None or pool.most_nodes is None or not pool.instance_types or pool.zones_unknown:
        return None
    found = [list_price(cloud, type_, region, is_spot=pool.is_spot) for type_ in pool.instance_types]
    prices = [decimal for decimal in found if decimal is not None]
    return max(prices) * pool.most_nodes if len(prices) == len(found) else None


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview(),
        "maxNodesPerPool": whole_number("Maximum number of nodes of one GPU pool."),
        "maxNodes": whole_number("Maximum number of GPU nodes of a stack."),
        "maxGpus": whole_number("Maximum number of GPUs of a stack."),
        "perHour": whole_number("Maximum list price of all GPU nodes of a stack, in US dollars per hour."),
        "unpriced": choice("violation", "allow", of="`allow` leaves pools without a known price out of the sum."),
    },
    pool=_findings,
    stack=_judge_stack,
)
