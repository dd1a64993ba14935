"""Launch templates of GPU pools have no unexplained user data, identities or settings."""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import REASONS, customization_findings


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    reported: set[tuple[str, str]] = set()
    whole: set[str] = set()
    """Templates whose findings are all reported."""
    for resource in stack.resources:
        for pool in resource.pools:
            if not pool.elsewhere or not stack.joined(resource, pool).has_gpus:
                continue
            for other in stack.referred(resource, pool):
                made_by = stack.component(resource)
                if other.template is None or other.urn in whole or any(each.has_gpus for each in other.pools):
                    continue
                if made_by is not None and other.parent == made_by.urn:
                    continue  # reported on the component, from its own inputs
                # A template has no labels; those of its pool hold the pool's name, which reasons refer to.
                template = replace(other.template, labels={**other.template.labels, **pool.labels})
                found = list(customization_findings(template, RULE, context))
                if len(found) == len(template.node_customizations):
                    whole.add(other.urn)
                for finding in found:
                    if (other.urn, finding.property) not in reported:
                        reported.add((other.urn, finding.property))
                        yield other.urn, finding


RULE = Rule(
    name="gpu-node-customised-elsewhere",
    order=170,
    level=Level.ADVISORY,
    severity="high",
    why="A launch template runs its code on every node that is created from it.",
    fix="Remove it, or state the reason in the policy configuration.",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    framework=HARDENING,
    config={**unknown_at_preview("advisory"), **REASONS},
    stack=_judge,
)
