"""Waivers are complete, needed and not expired."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date

from gpupools.common.errors import shown
from gpupools.policies import waivers
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, Framework, Level, Rule
from gpupools.policies.rules._modules import RULE_NAMES
from gpupools.policies.waivers import Waiver, scope


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Judge the waivers in the context's configuration and in annotations of objects."""
    given = list(context.waivers)
    for resource in stack.resources:
        if resource.pools or resource.software or resource.template or resource.unread:
            annotated, problems = waivers.annotated(
                resource.urn, resource.type, resource.inputs, RULE_NAMES, resource.comments
            )
            given += annotated
            for problem in problems:
                if problem.startswith("annotation"):
                    fix = "write {reason: …, owner: …, expires: YYYY-MM-DD}"
                    yield resource.urn, Finding(what=problem, property="metadata.annotations", found="set", fix=fix)
                else:
                    fix = 'write # gpupools:ignore RULE until=YYYY-MM-DD owner=… reason="…"'
                    yield resource.urn, Finding(what=problem, fix=fix)
    scopes = {waivers.scope(resource.urn) for resource in stack.resources}
    yield from outdated_waivers(given, context.waived, scopes, context.today)


def outdated_waivers(
    given: Iterable[Waiver], used: Collection[Waiver], scopes: Collection[str], today: date
) -> Iterator[tuple[str, Finding]]:
    """Report waivers of these scopes that are expired or match no finding, with the address of their resource."""
    for each in dict.fromkeys(given):
        if scope(each.resource) not in scopes:
            continue
        pool = f", pool {shown(each.pool)}" if each.pool else ""
        about = f"the waiver of {each.rule} for {shown(each.resource)}{pool} ({each.owner}: {each.reason})"
        place = (
            "its annotation or comment"
            if each.annotated
            else f"{each.rule}.{waivers.KEY} of the policy's configuration"
        )
        if today > each.expires:
            fix = f"fix the resource, or renew the waiver in {place}"
            yield each.resource, Finding(what=f"{about} expired on {each.expires}", fix=fix)
        elif each not in used and not any(_is_same_comment(each, one) for one in used):
            fix = f"remove it from {place}, or use the address that reports show"
            yield each.resource, Finding(what=f"{about} matches no finding of the rule", fix=fix)


def _is_same_comment(waiver: Waiver, other: Waiver) -> bool:
    """Say whether both come from one comment, at a Terraform resource that `for_each` makes several times."""
    of_one = waiver.resource.partition("[")[0] == other.resource.partition("[")[0]
    return of_one and "[" in waiver.resource and replace(other, resource=waiver.resource) == waiver


RULE = Rule(
    name=WAIVERS_CURRENT,
    order=220,
    level=Level.MANDATORY,
    severity="medium",
    why="An expired or unused waiver hides the next violation.",
    fix="Remove the waiver, correct it, or renew it with a reason.",
    url="https://csrc.nist.gov/pubs/sp/800/53/r5/upd1/final",
    framework=Framework(
        "NIST SP 800-53", "Rev. 5", "CA-5, plan of action and milestones", "exceptions have an owner and an end"
    ),
    stack=_judge,
)
