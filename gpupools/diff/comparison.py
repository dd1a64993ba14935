"""Two stack files compared: all there is to say of an edit, for every command that says it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpupools.diff.guard import Forbidden, forbidden, forbidden_software, idle_switch, unknown_names
from gpupools.diff.pool_diff import PoolChange, diff
from gpupools.diff.software_diff import SoftwareChange, diff_software
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect
from gpupools.stackfile.check import CheckedFile
from gpupools.stackfile.stack import Stack, StackPlan


class Comparison(NamedTuple):
    """What an edit does."""

    pools: Sequence[PoolChange]
    software: Sequence[SoftwareChange]
    refused: Mapping[str, Forbidden]
    """Why `pulumi up` would refuse what becomes of a pool, by its key, or of software, by the cluster's."""
    warnings: Sequence[str]

    def refusals_in_words(self) -> Iterator[tuple[PoolChange | SoftwareChange, str | None]]:
        """Return every change that is told, and behind it why it is refused; of a cluster's software at its end."""
        for change in self.pools:
            yield change, self._words(change.key)
        for index, each in enumerate(self.software):
            is_last = all(other.cluster != each.cluster for other in self.software[index + 1 :])
            yield each, self._words(each.cluster) if is_last else None

    def _words(self, key: str) -> str | None:
        found = self.refused.get(key)
        return None if found is None else f"{key} {found.reason}; {found.fix}"

    @property
    def destroys(self) -> bool:
        """Say whether a pool or software is replaced or deleted, or may be."""
        return any(each.destroys for each in self.pools) or any(each.destroys for each in self.software)


def compare_files(old: CheckedFile | None, new: CheckedFile, clouds: Mapping[str, Cloud]) -> Comparison:
    """Say what becomes of every pool and of each cluster's software; without an old file everything is new."""
    before = old.plan if old is not None else StackPlan(Stack({}, {}), (), ())
    changes = diff(before, new.plan, clouds)
    software = diff_software(before, new.plan, changes)
    stack = new.plan.stack
    unknown = [f"pulumi up refuses this: {problem}" for problem in unknown_names(changes, stack, software)]
    notes = [each.file.note for each in (old, new) if each is not None and each.file.note]
    return Comparison(
        changes,
        software,
        forbidden(changes, stack.allow_destroy) | forbidden_software(software, stack.allow_destroy),
        [*dict.fromkeys(notes), *unknown, *idle_switch(changes, stack, software)],
    )


FATES = {
    "destroyed": "destroyed",
    "moved": "moved to new nodes",
    "refused": "refused by the cloud",
    "unknown": "for pulumi preview to tell",
    "drained": "drained node by node",
    "created": "created",
    "in_place": "changed in place",
    "unchanged": "without a change for the nodes",
}
"""What can become of a pool, the worst first, and how it is said after a number."""

_OF_EFFECT = {
    EditEffect.REPLACE: "moved",
    EditEffect.REFUSED: "refused",
    EditEffect.UNKNOWN: "unknown",
    EditEffect.ROLLING: "drained",
    EditEffect.IN_PLACE: "in_place",
    EditEffect.NONE: "unchanged",
}


def fate(change: PoolChange) -> str:
    """Return what becomes of a pool, one of `FATES`."""
    return {"created": "created", "deleted": "destroyed"}.get(change.change) or _OF_EFFECT[change.effect]


def counted(changes: Sequence[PoolChange]) -> dict[str, int]:
    """Count the pools by what becomes of them, in the order of `FATES`."""
    fates = [fate(change) for change in changes]
    return {each: fates.count(each) for each in FATES}


def in_words(counts: Mapping[str, int]) -> str:
    """Write the counts as one phrase: `1 destroyed, 2 created`."""
    return ", ".join(f"{number} {FATES[each]}" for each, number in counts.items() if number) or "no pools"
