"""One owner installs each piece of GPU software on a node."""

from collections.abc import Iterator
from itertools import chain

from gpupools.policies.declared_software import CLAIMS, PLUGIN
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described
from gpupools.policies.software_conflicts import PIECES, SoftwareConflicts, compared


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    conflicts = SoftwareConflicts(stack)
    found = chain(_conflicts_with_pools(stack, conflicts), _conflicts_between_charts(stack, conflicts))
    return compared(found, "whether a piece has two owners")


def _conflicts_with_pools(stack: DeclaredStack, software_conflicts: SoftwareConflicts) -> Iterator[tuple[str, Finding]]:
    for place, (resource, software) in enumerate(stack.software):
        for piece, _ in PIECES:
            count, first = software_conflicts.pools_with_owner(place, piece)
            if first:
                names = ", ".join(declared.name + (f" ({pool.pool})" if pool.pool else "") for declared, pool in first)
                names += f" and {count - len(first)} more" if count > len(first) else ""
                said_by = ", ".join(first[0][1].software.said_by)
                switch = software.switch(piece)
                cure = (
                    f"set values.{switch}: false" if switch else f"remove {software.kind}, or keep it off these nodes"
                )
                theirs = "one" if piece != CLAIMS else f"a {PLUGIN}"
                what = f"{software.kind} installs the {piece} on nodes that have {theirs} from the cloud: {names}"
                yield (
                    resource.urn,
                    Finding(
                        what=what + (f" ({said_by})" if said_by else ""),
                        property=f"values.{switch}" if switch else "",
                        found="on",
                        fix=f"{cure}, or disable the cloud's own",
                    ),
                )


def _conflicts_between_charts(
    stack: DeclaredStack, software_conflicts: SoftwareConflicts
) -> Iterator[tuple[str, Finding]]:
    for place, earlier_place, count, one, other in software_conflicts.software_pairs():
        (earlier, first), (later, second) = stack.software[earlier_place], stack.software[place]
        switch = second.switch(other) or first.switch(one)
        several = "one" if count == 1 else "all but one"
        cure = f"set values.{switch}: false" if switch else f"remove {several} of them or keep {second.kind} apart"
        here, there = f"{second.kind} ({later.name})", f"{first.kind} ({earlier.name})"
        there += f" and {count - 1} more" if count > 1 else ""
        what = f"{here} and {there} {'both' if count == 1 else 'all'} install the {one}"
        if one != other:
            what = f"{here} installs the {other} and {there} the {one}"
        yield later.urn, Finding(what=f"{what} on the same nodes", fix=cure)


RULE = Rule(
    **described(__name__),
    stack=_findings,
)
