"""Nodes of GPU pools that scale offer the resource by which the autoscaler tells that they are ready."""

from collections.abc import Iterator

from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._pools import lacks_gpu_resource
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    least, most = pool.min_nodes, pool.max_nodes
    found = lacks_gpu_resource(pool) if pool.has_gpus and most is not None and (least or 0) < most else None
    if found is not None:
        why, instead = found
        yield Finding(
            what=f"scales from {least or 0} to {most} nodes that do not offer {GPU_RESOURCE}, because {why}: the"
            " autoscaler treats them as not ready, removes busy ones, and may stop scaling the whole cluster",
            fix=f"set a fixed number of nodes{instead}; a minimum of 1 does not help",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    pool=_findings,
)
