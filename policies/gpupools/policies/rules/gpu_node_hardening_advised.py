"""GPU nodes meet the recommended part of the hardening baseline."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule, texts
from gpupools.policies.rules._pools import hardening_findings
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    left_out = tuple(RULE.option(context, "leaveOut"))
    for finding in hardening_findings(pool, mandatory=False) if pool.has_gpus else ():
        if not finding.property.endswith(left_out):
            yield finding


RULE = Rule(
    **described(__name__),
    config={"leaveOut": texts("Inputs to ignore, as the ends of their paths.")},
    pool=_findings,
)
