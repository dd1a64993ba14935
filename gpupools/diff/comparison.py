"""Compare two stack files: the one result that every command reports. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpupools.diff.guard import Allowed, Forbidden, GuardReport, earlier_of, judge
from gpupools.diff.pool_diff import PoolChange
from gpupools.diff.software_diff import SoftwareChange
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect, PodImpact
from gpupools.plan.prices import price_change
from gpupools.stackfile.check import CheckedFile
from gpupools.stackfile.stack import Stack, StackPlan, prices_of


class Comparison(NamedTuple):
    """The effects of an edit or an upgrade, as `judge` decides on them, and what else there is to say of it."""

    judged: GuardReport
    warnings: Sequence[str] = ()
    """Those of `judged` among others."""
    cost: str = ""
    """What the edit adds or removes per hour, in words; empty if no price changes."""

    @property
    def pools(self) -> Sequence[PoolChange]:
        """What happens to each pool."""
        return self.judged.changes

    @property
    def software(self) -> Sequence[SoftwareChange]:
        """What happens to the software of each cluster."""
        return self.judged.software

    @property
    def refused(self) -> Mapping[str, Forbidden]:
        """Why `pulumi up` would reject the change, by key of the pool or of the cluster whose software changes."""
        return self.judged.forbidden

    @property
    def is_refused(self) -> bool:
        """Return whether `pulumi up` would reject the edit."""
        return bool(self.judged.forbidden or self.judged.unknown)

    def verdicts(self) -> Iterator[tuple[PoolChange | SoftwareChange, str | None, Allowed | None]]:
        """Yield each change, why it is rejected, and what allows it; for software, with its cluster's last change."""
        for change in self.pools:
            yield change, self._words(change.key), self.judged.allowed.get(change.key)
        for index, each in enumerate(self.software):
            if any(other.cluster == each.cluster for other in self.software[index + 1 :]):
                yield each, None, None
            else:
                yield each, self._words(each.cluster), self.judged.allowed.get(each.cluster)

    def _words(self, key: str) -> str | None:
        found = self.refused.get(key)
        return None if found is None else f"{key} {found.reason}; {found.fix}"

    def harm(self) -> int:
        """Return the worst of the edit as an index into `HARMS`; -1 if pods stay."""
        found = [-1, *(_harm(each) for each in self.pools)]
        for each in self.software:
            found.append(2 if each.destroys else 0 if each.effect is EditEffect.ROLLING else -1)
        return max(found)

    @property
    def destroys(self) -> bool:
        """Return whether a pool or software is replaced or deleted, or may be."""
        return any(each.destroys for each in self.pools) or any(each.destroys for each in self.software)


def compared(judged: GuardReport, notes: Iterable[str] = (), cost: str = "") -> Comparison:
    """Return a judgement with notes on how it was made before its own warnings."""
    unknown = [f"pulumi up refuses this: {problem}" for problem in judged.unknown]
    return Comparison(judged, [*dict.fromkeys(notes), *unknown, *judged.warnings], cost)


def compare_files(old: CheckedFile | None, new: CheckedFile, clouds: Mapping[str, Cloud]) -> Comparison:
    """Return the effects on every pool and on each cluster's software; without an old file, everything is new."""
    before = old.plan if old is not None else StackPlan(Stack({}, {}), (), ())
    notes = [each.file.note for each in (old, new) if each is not None and each.file.note]
    cost = price_change(prices_of(before, clouds), prices_of(new.plan, clouds))
    return compared(judge(earlier_of(before), new.plan, clouds), notes, cost)


HARMS = ("drain", "evict", "replace", "delete")
"""What `--fail-on` may name, the mildest first."""


def _harm(change: PoolChange) -> int:
    if change.change in ("created", "deleted"):
        return 3 if change.change == "deleted" else -1
    if change.destroys:
        return 2
    if change.disrupts or change.pods is PodImpact.UNKNOWN:
        return 1
    return 0 if change.pods is PodImpact.DRAINED else -1


def severity(change: PoolChange | SoftwareChange) -> Literal["bad", "warn"] | None:
    """Return how much a change of running pods stands out; None if pods stay."""
    if change.destroys or (isinstance(change, PoolChange) and change.disrupts):
        return "bad"
    drains = isinstance(change, PoolChange) and change.pods is PodImpact.DRAINED
    return "warn" if drains or change.effect is EditEffect.ROLLING else None


FATES = {
    "destroyed": "destroyed",
    "moved": "moved to new nodes",
    "evicted": "disrupted",
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
    if change.disrupts and not change.destroys:
        return "evicted"
    return {"created": "created", "deleted": "destroyed"}.get(change.change) or _OF_EFFECT[change.effect]


def counted(changes: Sequence[PoolChange]) -> dict[str, int]:
    """Count the pools by what happens to them, in the order of `FATES`."""
    fates = [fate(change) for change in changes]
    return {each: fates.count(each) for each in FATES}


def in_words(counts: Mapping[str, int]) -> str:
    """Format the counts as one phrase: `1 destroyed, 2 created`."""
    return ", ".join(f"{number} {FATES[each]}" for each, number in counts.items() if number) or "no pools"
