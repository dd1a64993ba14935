"""GPU pools and their launch templates have no unexplained user data, identities or node settings."""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.plan.pool_facts import CUSTOMISATIONS, PoolFacts
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule, reasons, texts, unknown_at_preview
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import customization_findings


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return customization_findings(pool, RULE, context) if pool.has_gpus else iter(())


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report launch templates and node classes that GPU pools use."""
    reported: set[tuple[str, str]] = set()
    whole: set[str] = set()
    """Templates whose findings are all reported."""
    for resource, pool, other, own in stack.templates_of_gpu_pools():
        made_by = stack.component(resource)
        if other.urn in whole or (made_by is not None and other.parent == made_by.urn):
            continue  # reported before, or on the component from its own inputs
        # A template has no labels; those of its pool hold the pool's name, which reasons refer to.
        template = replace(own, labels={**own.labels, **pool.labels})
        found = list(customization_findings(template, RULE, context))
        if len(found) == len(template.node_customizations):
            whole.add(other.urn)
        for finding in found:
            if (other.urn, finding.property) not in reported:
                reported.add((other.urn, finding.property))
                yield other.urn, finding


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
        "reasons": reasons(
            "Settings to accept, with the reason: `<pool>/<kind>` as a pattern with * and ? to a sentence. "
            f"Kinds: {', '.join(CUSTOMISATIONS)}."
        ),
        "identities": texts(
            "Roles and service accounts that nodes may run as, as patterns with * and ?; [] allows any."
        ),
    },
    pool=_judge,
    stack=_judge_stack,
)
