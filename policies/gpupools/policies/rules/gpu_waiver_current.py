"""Waivers are complete, needed and not expired."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.policies import waivers
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, Framework, Level, Rule
from gpupools.policies.rules._modules import RULE_NAMES
from gpupools.policies.waivers import IN_FILES, LONGEST, Waiver, WaiverLimits, scope


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Judge the waivers in the context's configuration and in annotations of objects."""
    given = list(context.waivers)
    for resource in stack.resources:
        if resource.pools or resource.software or resource.template or resource.unread:
            annotated, problems = waivers.annotated(
                resource.urn, resource.type, resource.inputs, RULE_NAMES, context.limits, resource.comments
            )
            given += annotated
            for where, fix in problems.items():
                place = "metadata.annotations" if where.startswith("annotation") else ""
                yield resource.urn, Finding(what=f"{where} waives nothing", property=place, found="set", fix=fix)
    scopes = {waivers.scope(resource.urn) for resource in stack.resources}
    yield from outdated_waivers(given, context.waived, scopes, context.limits)


def outdated_waivers(
    given: Iterable[Waiver], used: Collection[Waiver], scopes: Collection[str], limits: WaiverLimits
) -> Iterator[tuple[str, Finding]]:
    """Report waivers of these scopes that are expired, too long or match no finding, with their resource's address."""
    used = set(used)
    of_loops = {_of_loop(each) for each in used if "[" in each.resource}
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
        if limits.today > each.expires:
            fix = f"fix the resource, or renew the waiver in {place}"
            yield each.resource, Finding(what=f"{about} expired on {each.expires}", fix=fix)
        elif fault := limits.fault(each):
            yield each.resource, Finding(what=f"{about} is not allowed", fix=fault)
        elif each not in used and _of_loop(each) not in of_loops:
            fix = f"remove it from {place}, or use the address that reports show"
            yield each.resource, Finding(what=f"{about} matches no finding of the rule", fix=fix)


def _of_loop(waiver: Waiver) -> Waiver:
    """Return what all waivers of one comment have in common, at a Terraform resource that `for_each` repeats."""
    return replace(waiver, resource=waiver.resource.partition("[")[0])


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
    config={
        IN_FILES: {
            "type": "string",
            "enum": ["allowed", "advisory-rules", "none"],
            "default": "advisory-rules",
            "description": "Which rules annotations and comments in files may waive: all, the advisory ones, or none.",
        },
        LONGEST: {
            "type": "integer",
            "minimum": 1,
            "description": "Most days from today until a waiver ends. If not set, any day is allowed.",
        },
    },
    stack=_judge,
)


def waiver_limits(config: JsonObject, mandatory: Iterable[str], today: date) -> WaiverLimits:
    """Return what the configuration of this rule allows, given the names of the mandatory rules."""
    context = Context(config=config)
    days = RULE.option(context, LONGEST)
    return WaiverLimits(today, RULE.option(context, IN_FILES), days and int(days), frozenset(mandatory))
