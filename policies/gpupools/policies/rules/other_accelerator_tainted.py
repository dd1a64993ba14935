"""Pools with accelerators that are no GPUs have a taint."""

from collections.abc import Iterator

from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.accelerator == "other" and pool.in_cluster is not False and not repels_cpu_pods(pool.taints):
        yield Finding(
            what=f"has an accelerator that is not a GPU ({pool.other_accelerator or ', '.join(pool.instance_types)}), "
            "and no permanent taint keeps other pods off",
            property=pool.where,
            fix="add a taint with effect NoSchedule, with the resource that its pods request as the key",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    pool=_findings,
)
