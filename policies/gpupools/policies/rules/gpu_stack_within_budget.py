"""All GPU pools of a stack together cost no more than the environment's budget."""

from collections.abc import Iterator
from decimal import Decimal

from gpupools.plan.pool_facts import PoolFacts
from gpupools.plan.prices import list_price, per_hour
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Framework, Level, Rule
from gpupools.providers import clouds


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    limit = RULE.option(context, "perHour")
    if limit is None:
        return
    costs = [(each, pool, _cost(pool, stack.region(each, pool))) for each, pool in stack.gpu_pools]
    known = [(cost, each.name) for each, _, cost in costs if cost is not None]
    total = sum((cost for cost, _ in known), Decimal(0))
    if total > limit:
        dearest, name = max(known)
        atleast = "at least " if len(known) < len(costs) else ""
        what = f"the GPU pools of this stack cost {atleast}{per_hour(total, 'USD')} with all nodes, and the budget is"
        what = f"{what} {per_hour(Decimal(str(limit)), 'USD')}; the dearest is {name} ({per_hour(dearest, 'USD')})"
        yield "", Finding(what=what, fix="lower the maximum of some pools")
    elif RULE.option(context, "unpriced") == "violation":
        for each, pool, cost in costs:
            if cost is None:
                what = "has no known price or no maximum size, so the budget of the stack cannot be checked"
                fix = "set the region and a maximum size, or unpriced: allow to leave such pools out"
                yield each.urn, Finding(what=what, fix=fix, pool=pool.pool)


def _cost(pool: PoolFacts, region: str) -> Decimal | None:
    """Return what all nodes of a pool cost per hour, on the dearest of its machines."""
    cloud = clouds().get(pool.cloud)
    if cloud is None or pool.most_nodes is None or not pool.instance_types or pool.zones_unknown:
        return None
    found = [list_price(cloud, each, region, is_spot=pool.is_spot) for each in pool.instance_types]
    prices = [each for each in found if each is not None]
    return max(prices) * pool.most_nodes if len(prices) == len(found) else None


RULE = Rule(
    name="gpu-stack-within-budget",
    order=215,
    level=Level.MANDATORY,
    severity="medium",
    why="All GPU pools of a stack can scale to their maximum sizes, and then cost that much every hour.",
    fix="Lower the maximum of some pools, or raise the budget of the environment.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=Framework(
        "AWS Well-Architected Framework", "2026", "Cost optimization", "limit the cost of scarce resources"
    ),
    config={
        "perHour": {
            "type": "integer",
            "minimum": 0,
            "description": "Maximum list price of all GPU nodes of a stack, in US dollars per hour. If not set, prices "
            "are not added up.",
        },
        "unpriced": {
            "type": "string",
            "enum": ["violation", "allow"],
            "default": "violation",
            "description": "`allow` leaves pools without a known price out of the sum.",
        },
    },
    stack=_judge,
)
