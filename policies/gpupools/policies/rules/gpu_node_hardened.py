"""GPU nodes meet the mandatory part of the hardening baseline."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import hardening_findings


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return hardening_findings(pool, mandatory=True) if pool.has_gpus else iter(())


RULE = Rule(
    name="gpu-node-hardened",
    order=60,
    level=Level.MANDATORY,
    severity="high",
    why="GPU nodes run privileged daemons, so an attacker who reaches the node reaches everything on it.",
    fix="Set the input that the finding names to the required value.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
    framework=HARDENING,
    config=unknown_at_preview("advisory"),
    pool=_judge,
)
