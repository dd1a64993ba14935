"""What a change of a Helm release does to the pods that run, from two plans or from two records of releases. Pure.

Which value of which chart does what is a row of `data/release_edits.csv`, each with its source.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.software.charts import (
    accepted_values,
    is_older,
    known_versions,
    nested,
    tag_of,
    value_seen,
    versions_installed,
)
from gpupools.software.images import slots


class PodEffect(StrEnum):
    """What a change of a release does to pods, the mildest first."""

    NONE = "none"
    """Nothing on the nodes restarts."""
    DAEMONS = "daemons"
    """Daemons of the software restart; pods with a GPU keep running."""
    UNKNOWN = "unknown"
    """A version of which the data does not say what it installs."""
    MPS_PODS = "mps-pods"
    """Pods that share a GPU by MPS fail; others keep running."""
    GPU_PODS = "gpu-pods"
    """Pods with a GPU are ended, node by node."""


_STRENGTH = {effect: strength for strength, effect in enumerate(PodEffect)}


class ReleaseEdit(NamedTuple):
    """One row: what a change of a value of a chart does."""

    chart: str
    path: str
    """A value path, or the start of one up to a dot; `version` for the chart's version, empty for anything."""
    when: str
    """`driver`: the release installs the driver and the operator replaces it by itself; `driver-by-hand`: it installs
    the driver, which others replace; `old-driver`: as `driver`, with a version before v26.7.0 on either side; `mps`:
    one of its pools shares by MPS; empty for always."""
    effect: PodEffect
    detail: str
    source: str


@cache
def release_edits() -> tuple[ReleaseEdit, ...]:
    """Return the rows in the file's order; of several for one path the first that counts is taken."""
    return tuple(ReleaseEdit(**{**row, "effect": PodEffect(row["effect"])}) for row in data_rows("release_edits.csv"))  # type: ignore[arg-type]


class ReleaseState(NamedTuple):
    """What decides on the effect of a change of a release, as a plan or a record of the last update has it."""

    chart: str
    version: str
    values: JsonObject
    """By path; an empty map may be left out."""
    pools: tuple[str, ...]

    def seen(self) -> JsonDict:
        """Return the values that the chart reads, nested; keys of maps, such as labels, are left out."""
        known = accepted_values(self.chart, self.version)
        return nested({path: value for path, value in self.values.items() if path in known})


@dataclass(frozen=True)
class ReleaseChange:
    """What becomes of one Helm release that is there before and after an edit."""

    cluster: str
    chart: str
    versions: tuple[str, str]
    """Of the chart, before and after."""
    installs: Mapping[str, tuple[str | None, str | None]]
    """Component to its version before and after, where they differ; None where it is not there."""
    edits: Mapping[str, ReleaseEdit]
    """The row of each value that differs, by path, and of `version`."""
    pools: tuple[str, ...]
    """The pools whose nodes it serves before and after: those with pods that run."""
    mps: tuple[str, ...]
    """Those whose pods share GPUs by MPS."""
    pins: Mapping[str, str]
    """Values that only name an image otherwise, by tag or digest, with the image: `driver manager v0.12.0`."""

    @property
    def ends(self) -> tuple[str, ...]:
        """The pools of which it ends pods."""
        return {PodEffect.GPU_PODS: self.pools, PodEffect.MPS_PODS: self.mps}.get(self.effect, ())

    @property
    def values(self) -> tuple[str, ...]:
        """The paths of the values that differ."""
        return tuple(path for path in self.edits if path != _VERSION)

    @property
    def effect(self) -> PodEffect:
        """The strongest effect of the edits."""
        return max((edit.effect for edit in self.edits.values()), key=_STRENGTH.__getitem__)

    @property
    def details(self) -> tuple[str, ...]:
        """What happens, of the strongest effect, in words."""
        found = (edit.detail for edit in self.edits.values() if edit.effect is self.effect and edit.detail)
        return tuple(dict.fromkeys(found))

    def as_json(self) -> JsonDict:
        """Return the change in JSON types."""
        return {
            "cluster": self.cluster,
            "chart": self.chart,
            "version": {"old": self.versions[0], "new": self.versions[1]},
            "installs": {name: {"old": old, "new": new} for name, (old, new) in self.installs.items()},
            "values": list(self.values),
            "pinned": list(dict.fromkeys(self.pins.values())),
            "pools": list(self.pools),
            "effect": self.effect.value,
            "details": list(self.details),
        }

    @property
    def what(self) -> str:
        """What changes, in words: versions or values, what they install, and images that are only named by digest."""
        old, new = self.versions
        others = [path for path in self.values if path not in self.pins]
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        parts = [f"{old} → {new}" if old != new else f"{', '.join(others[:3])}{more}"]
        if self.pins:
            parts.append("the same images, now by another name")
        pieces = ", ".join(f"{name} {was or 'none'} → {now or 'none'}" for name, (was, now) in self.installs.items())
        return "; ".join(filter(None, parts)) + (f" ({pieces})" if pieces else "")

    @property
    def headline(self) -> str:
        """What it does to pods, and what changes."""
        on = f" on {', '.join(self.ends or self.pools)}" if self.pools else ""
        words = {
            PodEffect.NONE: "no change for pods",
            PodEffect.DAEMONS: f"pods keep running{on}",
            PodEffect.UNKNOWN: f"nobody can say here what this does to pods{on}",
            PodEffect.MPS_PODS: f"pods that share by MPS fail{on}, node by node",
            PodEffect.GPU_PODS: f"ends pods that have a GPU{on}, node by node",
        }
        return f"{self.cluster}: {words[self.effect]}; {self.chart} {self.what}"

    def __str__(self) -> str:
        return "; ".join((self.headline, *self.details))


_VERSION = "version"
"""Stands for the chart's version among the paths of values."""


def release_change(cluster: str, old: ReleaseState, new: ReleaseState, mps: Collection[str]) -> ReleaseChange | None:
    """Return what a change of a release does to running pods; None if no value and no version differs.

    Args:
        cluster: Key of the cluster.
        old: The release before.
        new: The release after, with the pools that it serves before and after.
        mps: The pools whose pods share GPUs by MPS before.
    """
    paths = tuple(path for path in {**old.values, **new.values} if old.values.get(path) != new.values.get(path))
    if not paths and old.version == new.version:
        return None
    unknown = [version for version in (old.version, new.version) if version not in known_versions(old.chart)]
    was, now = old.seen(), new.seen()
    shared = tuple(pool for pool in new.pools if pool in mps)
    conditions = {"", *_driver(old, was, new, now), *(("mps",) if shared else ())}
    edits = {path: _edit(old.chart, path, conditions) for path in paths}
    if old.version != new.version:
        edit = _edit(old.chart, _VERSION, conditions)
        if unknown and _STRENGTH[edit.effect] < _STRENGTH[PodEffect.UNKNOWN]:
            what = f"what {' and '.join(unknown)} installs is not known to this release"
            edit = ReleaseEdit(old.chart, _VERSION, "", PodEffect.UNKNOWN, what, "")
        edits = {_VERSION: edit, **edits}
    there, then = (versions_installed(old.chart, state.version, values) for state, values in ((old, was), (new, now)))
    differ = {} if unknown else {name: (there.get(name), then.get(name)) for name in {**there, **then}}
    return ReleaseChange(
        cluster=cluster,
        chart=old.chart,
        versions=(old.version, new.version),
        installs={name: pair for name, pair in differ.items() if pair[0] != pair[1]},
        edits=edits,
        pools=new.pools,
        mps=shared,
        pins=dict(_pins(old, was, new, now)),
    )


def _pins(old: ReleaseState, was: JsonObject, new: ReleaseState, now: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the values that name an image of the same version otherwise, by tag or digest, with the image."""
    for slot in slots(old.chart) if old.version == new.version else ():
        own = "" if slot.own_tag and old.version != known_versions(old.chart)[0] else slot.own_tag or old.version
        paths = [path for path in (slot.repository, slot.image, slot.tag) if path]
        names: list[tuple[str, ...]] = []
        for values in (was, now):
            seen = {path: str(value_seen(old.chart, values, path, old.version) or "") for path in paths}
            tag = tag_of(seen[slot.tag] or own)
            repository = seen[slot.repository] or slot.own_repository
            image = seen.get(slot.image) or slot.own_image
            names.append((repository.removesuffix(_BY_DIGEST), image.removesuffix(_BY_DIGEST), tag))
        if names[0] == names[1] and names[0][-1]:
            changed = (path for path in paths if old.values.get(path) != new.values.get(path))
            yield from ((path, f"{slot.what} {names[0][-1]}") for path in changed)


_BY_DIGEST = "@sha256"


def _driver(old: ReleaseState, was: JsonObject, new: ReleaseState, now: JsonObject) -> Iterator[str]:
    """Give the conditions that hold for the driver's owner."""
    if old.chart != "gpu-operator":
        return
    sides = ((old, was), (new, now))
    if all(value_seen(side.chart, values, "driver.enabled", side.version) for side, values in sides):
        by_itself = value_seen(new.chart, now, "driver.upgradePolicy.autoUpgrade", new.version)
        yield "driver" if by_itself else "driver-by-hand"
        if by_itself and any(is_older(state.version, "v26.7.0") for state in (old, new)):
            yield "old-driver"


def _edit(chart: str, path: str, conditions: set[str]) -> ReleaseEdit:
    for row in release_edits():
        if row.chart == chart and row.when in conditions and _covers(row.path, path):
            return row
    return ReleaseEdit(chart, path, "", PodEffect.UNKNOWN, f"no table knows what {path} does", "")


def _covers(start: str, path: str) -> bool:
    return start in ("", path) or path.startswith(f"{start}.")
