"""GPU pools scale down to zero nodes."""

from collections.abc import Iterator

from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.node_labels import SOFTWARE_LABEL
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._pools import lacks_gpu_resource
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    # No autoscaler starts the first node of a pool whose GPUs pods request by ResourceClaim, and none may scale one
    # whose nodes it treats as not ready (gpu-pool-ready-for-autoscaler).
    claimed = pool.labels.get(SOFTWARE_LABEL) == DRA_DRIVER
    if pool.has_gpus and pool.min_nodes and not claimed and lacks_gpu_resource(pool) is None:
        zone = " in each zone" if pool.per_zone else ""
        yield Finding(
            what=f"keeps {pool.min_nodes} GPU node{'s' if pool.min_nodes > 1 else ''}{zone} when no pod requests a GPU",
            fix="set a minimum of 0 nodes",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    pool=_findings,
)
