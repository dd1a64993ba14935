"""Waivers are complete, needed and not expired."""

from collections.abc import Iterator

from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, choice, whole_number
from gpupools.policies.rules._table import described
from gpupools.policies.waivers import IN_FILES, LONGEST, scope


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Judge the waivers in the context's configuration and in annotations of objects."""
    given = [each.urn for each in stack.resources if each.pools or each.software or each.template or each.unread]
    for urn in given:
        for where, fix in context.waivers.problems(urn).items():
            place = "metadata.annotations" if where.startswith("annotation") else ""
            yield urn, Finding(what=f"{where} waives nothing", property=place, found="set", fix=fix)
    for urn, what, fix in context.waivers.outdated(given, {*map(scope, stack.by_urn)}):
        yield urn, Finding(what=what, fix=fix)


RULE = Rule(
    **described(__name__),
    config={
        IN_FILES: choice(
            "advisory-rules",
            "allowed",
            "none",
            of="Which rules annotations and comments in files may waive: the advisory ones, all, or none.",
        ),
        LONGEST: whole_number("Most days from today until a waiver ends.", minimum=1),
    },
    stack=_findings,
)
