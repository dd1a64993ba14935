"""gpupools knows every kind of resource that may create nodes."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpupools.common.errors import shown
from gpupools.policies.classify import Unclassified
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import DEDICATED

_MAX_KIND_LENGTH = 200
"""Characters of a kind that a finding shows; a reason in the configuration names the whole kind."""


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Find what may bring nodes and is not understood; what does not look like it is advice, once for each kind."""
    reasons = {kind: why for kind, why in RULE.option(context, "reasons").items() if why.strip()}

    def reason(kind: str) -> str:
        return next((why for pattern, why in reasons.items() if fnmatchcase(kind, pattern)), "")

    for gap in stack.gaps:
        why = reason(gap.name)
        what = f"{gap.what}{f'; left so: {why}' if why else ''}"
        yield "", Finding(what=what, fix=gap.fix, unverified=True, advice=bool(why))
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
                what=f"{kind} is not understood here, so whether it brings nodes with GPUs that no taint "
                f"keeps free cannot be verified: {unread.why}",
                fix="judge what it creates, or give the reason in the policy's configuration: {reasons: "
                f"{{{kind}: …}}}}",
                source=unread.source,
                unverified=True,
            ),
        )
    for (kind, why), found in alike.items():
        urn, unread = found[0]
        more = f", {len(found)} times" if len(found) > 1 else ""
        ends = f"; left so: {why}" if why else "" if unread.elsewhere else ", and does not look as if it brought nodes"
        fix = "nothing to do" if why else "judge what it creates, if that has nodes"
        fix = "judge both together" if unread.elsewhere and not why else fix
        what = f"{shown(kind, most=_MAX_KIND_LENGTH)} is not understood here{more}: {unread.why}{ends}"
        yield urn, Finding(what=what, fix=fix, source=unread.source, advice=True)


RULE = Rule(
    name="node-pools-understood",
    order=160,
    level=Level.MANDATORY,
    severity="high",
    why="A resource of an unknown kind may create GPU nodes that no rule has judged.",
    fix="Judge what it creates (terraform show -json, helm template, az deployment what-if, a change set), or name its "
    "kind with a reason in the configuration.",
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
    framework=DEDICATED,
    config={
        **unknown_at_preview(),
        "reasons": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": r"\S"},
            "default": {},
            "description": "Unknown kinds that are accepted, with the reason: a kind as findings name it, as a"
            " pattern with * and ?, to a sentence. They are advice then.",
        },
    },
    stack=_judge,
)
