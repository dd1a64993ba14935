"""GPU nodes meet the recommended part of the hardening baseline."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule, texts
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import hardening_findings


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    left_out = tuple(RULE.option(context, "leaveOut"))
    for finding in hardening_findings(pool, mandatory=False) if pool.has_gpus else ():
        if not finding.property.endswith(left_out):
            yield finding


RULE = Rule(
    name="gpu-node-hardening-advised",
    order=70,
    level=Level.ADVISORY,
    severity="low",
    why="The hardening baseline has recommendations beside its requirements.",
    fix="Set the input that the finding names to the required value.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
    framework=HARDENING,
    config={"leaveOut": texts("Inputs to ignore, as the ends of their paths.")},
    pool=_judge,
)
