"""Compare two stack files: the one result that every command reports. Pure."""

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
    """The effects of an edit."""

    pools: Sequence[PoolChange]
    software: Sequence[SoftwareChange]
    refused: Mapping[str, Forbidden]
    """Why `pulumi up` would reject the change, by key of the pool or of the cluster whose software changes."""
    warnings: Sequence[str]

    def refusals_in_words(self) -> Iterator[tuple[PoolChange | SoftwareChange, str | None]]:
        """Yield each change with the reason why it is rejected; for software, with the last change of its cluster."""
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
        """Return whether a pool or software is replaced or deleted, or may be."""
        return any(each.destroys for each in self.pools) or any(each.destroys for each in self.software)


def compare_files(old: CheckedFile | None, new: CheckedFile, clouds: Mapping[str, Cloud]) -> Comparison:
    """Return the effects on every pool and on each cluster's software; without an old file, everything is new."""
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
    "unknown": "with an effect that only pulumi preview shows",
    "drained": "drained node by node",
    "created": "created",
    "in_place": "changed in place",
    "unchanged": "unchanged",
}
"""What can happen to a pool, worst first, with the words after a count."""

_OF_EFFECT = {
    EditEffect.REPLACE: "moved",
    EditEffect.REFUSED: "refused",
    EditEffect.UNKNOWN: "unknown",
    EditEffect.ROLLING: "drained",
    EditEffect.IN_PLACE: "in_place",
    EditEffect.NONE: "unchanged",
}


def fate(change: PoolChange) -> str:
    """Return what happens to a pool, one of `FATES`."""
    return {"created": "created", "deleted": "destroyed"}.get(change.change) or _OF_EFFECT[change.effect]


def counted(changes: Sequence[PoolChange]) -> dict[str, int]:
    """Count the pools by what happens to them, in the order of `FATES`."""
    fates = [fate(change) for change in changes]
    return {each: fates.count(each) for each in FATES}


def in_words(counts: Mapping[str, int]) -> str:
    """Format the counts as one phrase: `1 destroyed, 2 created`."""
    return ", ".join(f"{number} {FATES[each]}" for each, number in counts.items() if number) or "no pools"
