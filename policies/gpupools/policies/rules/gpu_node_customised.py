"""GPU pools have no unexplained user data, identities or node settings."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import REASONS, customization_findings


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return customization_findings(pool, RULE, context) if pool.has_gpus else iter(())


RULE = Rule(
    name="gpu-node-customised",
    order=80,
    level=Level.ADVISORY,
    severity="high",
    why="Code that runs on nodes at boot can reach every GPU, secret and pod on them.",
    fix="Remove it, or state the reason in the policy configuration.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
    framework=HARDENING,
    config={
        **unknown_at_preview("advisory"),
        **REASONS,
        "identities": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Roles and service accounts that nodes may run as, as patterns with * and ?; [] allows any.",
        },
    },
    pool=_judge,
)
