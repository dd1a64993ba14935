"""GPU daemons tolerate the taint of GPU pools."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.gpus_per_node != 0 and pool.accelerator != "other" and pool.only_no_execute:
        yield Finding(
            what="only a NoExecute taint keeps other pods off, and GPU daemons do not tolerate it by default",
            property=pool.where,
            fix=f"add {pool.missing_taint.text} to {pool.where}, or add the toleration to every GPU chart",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    pool=_findings,
)
