"""GPU pools stay within the node limit of their environment."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import CAPACITY
from gpupools.policies.rules._pools import in_zones


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
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


RULE = Rule(
    name="gpu-pool-bounded",
    order=100,
    level=Level.MANDATORY,
    severity="medium",
    why="A GPU pool can scale to its maximum size at any time, and then costs that much every hour.",
    fix="Set the pool's maximum number of nodes to the limit of the environment or less.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=CAPACITY,
    config={
        **unknown_at_preview(),
        "maxNodesPerPool": {
            "type": "integer",
            "minimum": 0,
            "description": "Maximum number of nodes of one GPU pool. If not set, the rule checks nothing.",
        },
    },
    pool=_judge,
)
