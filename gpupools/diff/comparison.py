"""Compare two stack files: the one result that every command reports. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from gpupools.common.errors import Path, dotted, may_hold_secret
from gpupools.common.json_types import JsonObject
from gpupools.diff.format_values import format_change
from gpupools.diff.guard import Allowed, GuardReport, earlier_of, judge
from gpupools.diff.pool_change import PoolChange
from gpupools.diff.software_diff import DONE, SoftwareChange
from gpupools.plan.cloud import Clouds
from gpupools.plan.edit_tables import EditEffect, PodImpact
from gpupools.plan.pool_plan import GROUP_LABEL
from gpupools.plan.prices import price_change
from gpupools.spec.overrides import tellable
from gpupools.stackfile.check import CheckedFile
from gpupools.stackfile.stack import StackPlan, prices_of
from gpupools.stackfile.stack_validation import Stack
from gpupools.stackfile.steps import Steps, read_steps


class Entry(NamedTuple):
    """One change as people read it."""

    headline: str
    """What happens to pods, on how many nodes at once, and what the update does."""
    lines: Sequence[str]
    """The keys as the user wrote them, then what follows from them for pods."""
    folded: Sequence[str]
    """Labels, tags and values that only follow from them."""
    severity: Literal["bad", "warn"] | None
    refusal: str | None
    allowed: Allowed | None


_Edited = Sequence[tuple[Path, str]]
_MOST_LINES = 6


class Comparison(NamedTuple):
    """The effects of an edit or an upgrade, as `judge` decides on them, and what else there is to say of it."""

    judged: GuardReport
    warnings: Sequence[str] = ()
    """Those of `judged` among others."""
    cost: str = ""
    """What the edit adds or removes per hour, in words; empty if no price changes."""
    edited: _Edited = ()
    """The keys of the stack file that differ, each with its values in words; none if there is only a state."""

    @property
    def pools(self) -> Sequence[PoolChange]:
        """What happens to each pool."""
        return self.judged.changes

    @property
    def software(self) -> Sequence[SoftwareChange]:
        """What happens to the software of each cluster."""
        return self.judged.software

    @property
    def is_refused(self) -> bool:
        """Return whether `pulumi up` would reject the edit."""
        return bool(self.judged.forbidden or self.judged.unknown)

    def entries(self) -> Iterator[Entry]:
        """Yield each change; of a cluster's software those that end or risk pods, then all others as one."""
        for pool in self.pools:
            if pool.change != "unchanged":
                reasons = pool.reasons() if pool.key not in self.judged.forbidden else []
                keys = self._edited(("pools", pool.pool), ("clusters", pool.cluster)) if pool.fields else []
                keys = keys or _first(list(map(str, pool.decisive())))
                folded = [": ".join(filter(None, (str(field), field.detail))) for field in pool.fields]
                folded = [line for line in folded if line not in keys]
                yield Entry(str(pool), [*keys, *reasons], folded, severity(pool), *self._verdict(pool.key))
        for cluster in dict.fromkeys(change.cluster for change in self.software):
            here = [change for change in self.software if change.cluster == cluster]
            groups = [[change] for change in here if severity(change)]
            quiet = [change for change in here if not severity(change)]
            queues = [("teams",)] if any("queue" in change.of for change in here) else []
            lines = self._edited(("clusters", cluster, "runtime"), *queues)
            for group in [*groups, quiet] if quiet else groups:
                named = ", ".join(change.called for change in group[:_MOST_NAMED])
                more = f" and {len(group) - _MOST_NAMED} more" if len(group) > _MOST_NAMED else ""
                done = {DONE[change.change] for change in group}
                headline = f"{cluster}: running pods keep their GPUs; "
                headline += f"{done.pop() if len(done) == 1 else 'changes'} {named}{more}"
                pods = [
                    change.pods for change in group if change.effect is not EditEffect.NONE and change.pods != _NO_PODS
                ]
                lines += _first(list(dict.fromkeys(pods)))
                headline = headline if group is quiet else group[0].headline
                verdict = self._verdict(cluster if group is (groups or [quiet])[-1] else "")
                folded = [str(change).removeprefix(f"{headline}: ") for change in group]
                yield Entry(headline, lines, folded, severity(group[0]), *verdict)
                lines = []

    def _edited(self, *starts: Path) -> list[str]:
        """Return the edited keys that begin so; what `runtime` says is of the software alone."""
        found = [
            words
            for path, words in self.edited
            if any(path[: len(start)] == start and path[len(start) : 3] != ("runtime",) for start in starts)
        ]
        return _first(found)

    def _verdict(self, key: str) -> tuple[str | None, Allowed | None]:
        found = self.judged.forbidden.get(key)
        return None if found is None else f"{key} {found.reason}; {found.fix}", self.judged.allowed.get(key)

    def harm(self) -> int:
        """Return the worst of the edit as an index into `HARMS`; -1 if pods stay."""
        return max([-1, *map(_harm, self.pools), *map(_harm, self.software)])


def compared(judged: GuardReport, notes: Iterable[str] = (), cost: str = "") -> Comparison:
    """Return a judgement with notes on how it was made before its own warnings."""
    unknown = [f"pulumi up refuses this: {problem}" for problem in judged.unknown]
    return Comparison(judged, [*dict.fromkeys(notes), *unknown, *judged.warnings], cost)


def compare_files(old: CheckedFile | None, new: CheckedFile, clouds: Clouds) -> Comparison:
    """Return the effects on every pool and on each cluster's software; without an old file, everything is new."""
    before = old.plan if old is not None else StackPlan(Stack({}, {}), (), ())
    notes = [side.file.note for side in (old, new) if side is not None and side.file.note]
    cost = price_change(prices_of(before, clouds), prices_of(new.plan, clouds))
    found = compared(judge(earlier_of(before), new.plan, clouds), notes, cost)
    return found if old is None else found._replace(edited=_edited_keys(old.file.config, new.file.config))


def _edited_keys(old: JsonObject, new: JsonObject) -> _Edited:
    """Return the keys that differ; a renamed pool is compared under its new name, and each step by itself."""
    steps = read_steps(new.get("pools") or {})
    before, pools = dict(old), dict(read_steps(old.get("pools") or {}).pools)
    for name, pool in steps.pools.items():
        if name not in pools and pool.get("renamed_from") in pools:
            pools[name] = pools.pop(pool["renamed_from"])
    edited = _differing((), {**before, "pools": pools}, {**new, "pools": steps.pools}, steps)
    return tuple(edit for edit in edited if edit[0][-1] != GROUP_LABEL)


def _differing(path: Path, old: Any, new: Any, steps: Steps) -> Iterator[tuple[Path, str]]:
    if "overrides" in path and isinstance(old or new, Mapping):
        old, new = old or {}, new or {}
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _differing((*path, key), old.get(key), new.get(key), steps)
    elif old != new:
        name, hides = dotted(steps.path(path)), "overrides" in path or may_hold_secret(path)
        yield path, format_change(name, *(tellable(name, item) if hides else item for item in (old, new)))


_MOST_NAMED = 2
_NO_PODS = "running pods are not affected"


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]


HARMS = ("drain", "evict", "replace", "delete")
"""What `--fail-on` may name, the mildest first."""


def _harm(change: PoolChange | SoftwareChange) -> int:
    if change.effect.destroys:
        return 3 if change.change == "deleted" else 2
    if isinstance(change, SoftwareChange):
        return 0 if change.effect is EditEffect.ROLLING else -1
    if change.disrupts or change.pods is PodImpact.UNKNOWN:
        return 1
    return 0 if change.pods is PodImpact.DRAINED else -1


def severity(change: PoolChange | SoftwareChange) -> Literal["bad", "warn"] | None:
    """Return how much a change of running pods stands out; None if pods stay."""
    harm = _harm(change)
    return "bad" if harm > 0 else "warn" if harm == 0 else None


FATES = {
    "destroyed": "destroyed",
    "moved": "moved to new nodes",
    "evicted": "disrupted",
    "refused": "refused by the cloud",
    "unknown": "with an unknown effect",
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
    if _harm(change) == HARMS.index("evict"):
        return "evicted" if change.disrupts else "unknown"
    return {"created": "created", "deleted": "destroyed"}.get(change.change) or _OF_EFFECT[change.effect]


def counted(changes: Sequence[PoolChange]) -> dict[str, int]:
    """Count the pools by what happens to them, in the order of `FATES`."""
    fates = [fate(change) for change in changes]
    return {kind: fates.count(kind) for kind in FATES}


def in_words(counts: Mapping[str, int]) -> str:
    """Format the counts as one phrase: `1 destroyed, 2 created`."""
    return ", ".join(f"{number} {FATES[key]}" for key, number in counts.items() if number) or "no pools"
