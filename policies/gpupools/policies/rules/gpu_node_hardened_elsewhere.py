"""Launch templates of GPU pools meet the mandatory part of the hardening baseline."""

from collections.abc import Iterator

from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import HARDENING
from gpupools.policies.rules._pools import hardening_findings


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    seen: set[str] = set()
    reported: set[tuple[str, str]] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            if not pool.elsewhere or not stack.joined(resource, pool).has_gpus:
                continue
            for other in stack.referred(resource, pool):
                if other.urn in seen or any(each.has_gpus for each in other.pools):
                    continue  # a pool itself, which gpu-node-hardened judges
                seen.add(other.urn)
                for finding in hardening_findings(other.template, mandatory=True) if other.template else ():
                    if (other.urn, finding.property) not in reported:
                        reported.add((other.urn, finding.property))
                        yield other.urn, finding


RULE = Rule(
    name="gpu-node-hardened-elsewhere",
    order=180,
    level=Level.MANDATORY,
    severity="high",
    why="An insecure setting of a launch template applies to every node that is created from it.",
    fix="Set the input that the finding names to the required value in the template.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
    framework=HARDENING,
    config=unknown_at_preview("advisory"),
    stack=_judge,
)
