"""gpupools knows every kind of resource that may create nodes."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpupools.common.errors import shown
from gpupools.policies.classify import Unclassified
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, reasons, unknown_at_preview
from gpupools.policies.rules._table import described

_MAX_KIND_LENGTH = 200
"""Characters of a kind that a finding shows; a reason in the configuration names the whole kind."""
_MAX_ADDRESS_LENGTH = 500


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report unknown resources that may create nodes, and as advice other unknown kinds, once per kind."""
    accepted = RULE.option(context, "reasons")

    def reason(kind: str) -> str:
        return next((why for pattern, why in accepted.items() if fnmatchcase(kind, pattern)), "")

    for gap in stack.gaps:
        why = reason(gap.name)
        what = f"{gap.what}{f'; accepted: {why}' if why else ''}"
        yield gap.address, Finding(what=what, fix=gap.fix, unverified=True, advice=bool(why))
    alike: dict[tuple[str, str], list[tuple[str, Unclassified]]] = {}
    for urn, unread in stack.unread.items():
        why = reason(unread.kind)
        if why or not unread.nodes:
            alike.setdefault((unread.kind, why), []).append((urn, unread))
            continue
        kind = shown(unread.kind, most=_MAX_KIND_LENGTH)
        yield (
            urn,
            Finding(
                what=f"whether {kind} creates GPU nodes without a taint cannot be verified: {unread.why}",
                fix="check what it creates, or accept this resource in the policy configuration: "
                f"{{node-pools-understood: {{waivers: [{{resource: {shown(urn, most=_MAX_ADDRESS_LENGTH)}, "
                "reason: …, owner: …, expires: …}]}}",
                source=unread.source,
                unverified=True,
                needs_fix=True,
            ),
        )
    for (kind, why), found in alike.items():
        urn, unread = found[0]
        more = f" ({len(found)} times)" if len(found) > 1 else ""
        ends = (
            f"; accepted: {why}"
            if why
            else ""
            if unread.elsewhere or unread.harmless or unread.kind.endswith("Cluster")
            else "; it does not seem to create nodes"
        )
        fix = "nothing to do" if why or unread.harmless else "check what it creates, if that includes nodes"
        fix = "judge both files together" if unread.elsewhere and not why else fix
        what = f"{shown(kind, most=_MAX_KIND_LENGTH)} was not judged{more}: {unread.why}{ends}"
        yield urn, Finding(what=what, fix=fix, source=unread.source, advice=True)


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview(),
        "reasons": reasons(
            "Unknown kinds to accept, with the reason: a kind as findings name it, as a pattern with * and ?, to a "
            "sentence. They become advice."
        ),
    },
    stack=_findings,
)
