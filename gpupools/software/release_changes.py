"""What a change of a Helm release does to the pods that run: two plans of one cluster's software compared. Pure.

Which value of which chart does what is a row of `data/release_edits.csv`, each with its source.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Release, RuntimePlan
from gpupools.software.charts import is_older, known_versions, value_paths, value_seen, versions_installed
from gpupools.spec.models import has_control_daemon


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


@dataclass(frozen=True)
class ReleaseChange:
    """What becomes of one Helm release that is there before and after an edit."""

    cluster: str
    chart: str
    versions: tuple[str, str]
    """Of the chart, before and after."""
    installs: Mapping[str, tuple[str | None, str | None]]
    """Component to its version before and after, where they differ; None where it is not there."""
    values: tuple[str, ...]
    """Paths of the values that differ."""
    pools: tuple[str, ...]
    """The pools whose nodes it serves before and after: those with pods that run."""
    effect: PodEffect
    details: tuple[str, ...]
    """What happens, of the strongest effect, in words."""

    def as_json(self) -> JsonDict:
        """Return the change in JSON types."""
        return {
            "cluster": self.cluster,
            "chart": self.chart,
            "version": {"old": self.versions[0], "new": self.versions[1]},
            "installs": {name: {"old": old, "new": new} for name, (old, new) in self.installs.items()},
            "values": list(self.values),
            "pools": list(self.pools),
            "effect": self.effect.value,
            "details": list(self.details),
        }

    def __str__(self) -> str:
        old, new = self.versions
        what = f"{old} → {new}" if old != new else f"{', '.join(self.values)}"
        pieces = ", ".join(f"{name} {was or 'none'} → {now or 'none'}" for name, (was, now) in self.installs.items())
        what += f" ({pieces})" if pieces else ""
        on = f" on {', '.join(self.pools)}" if self.pools else ""
        words = {
            PodEffect.NONE: "no change for pods",
            PodEffect.DAEMONS: f"pods keep running{on}",
            PodEffect.UNKNOWN: f"nobody can say here what this does to pods{on}",
            PodEffect.MPS_PODS: f"pods that share by MPS fail{on}",
            PodEffect.GPU_PODS: f"ends pods that have a GPU{on}",
        }
        return "; ".join((f"{self.cluster}: {self.chart} {what}: {words[self.effect]}", *self.details))


def release_changes(
    old: Iterable[RuntimePlan], new: Iterable[RuntimePlan], pools: Iterable[PoolPlan]
) -> tuple[ReleaseChange, ...]:
    """Say what becomes of every release that is in both plans and differs; `pools` are those before."""
    before = {(plan.cluster, release.name): release for plan in old for release in plan.releases}
    mps = {(pool.cluster, pool.name) for pool in pools if has_control_daemon(pool.sharing_kind)}
    found = []
    for plan in new:
        for release in plan.releases:
            was = before.get((plan.cluster, release.name))
            change = _changed(plan.cluster, was, release, mps) if was is not None else None
            found += [change] if change is not None else []
    return tuple(found)


def _changed(cluster: str, old: Release, new: Release, mps: set[tuple[str, str]]) -> ReleaseChange | None:
    before, after = dict(value_paths(old.values)), dict(value_paths(new.values))
    paths = tuple(path for path in {**before, **after} if before.get(path) != after.get(path))
    if not paths and old.version == new.version:
        return None
    stay = tuple(pool for pool in old.pools if pool in new.pools)
    unknown = [each for each in (old.version, new.version) if each not in known_versions(old.chart)]
    conditions = {"", *_driver(old, new), *(("mps",) if any((cluster, pool) in mps for pool in stay) else ())}
    edits = [_edit(old.chart, path, conditions) for path in (*(("version",) * (old.version != new.version)), *paths)]
    if unknown and old.version != new.version:
        what = f"what {' and '.join(unknown)} installs is not known to this release"
        edits.append(ReleaseEdit(old.chart, "version", "", PodEffect.UNKNOWN, what, ""))
    effect = max((edit.effect for edit in edits), key=_STRENGTH.__getitem__)
    there, then = (versions_installed(each.chart, each.version, each.values) for each in (old, new))
    told = (
        {}
        if unknown
        else {
            name: (there.get(name), then.get(name)) for name in {**there, **then} if there.get(name) != then.get(name)
        }
    )
    return ReleaseChange(
        cluster=cluster,
        chart=old.chart,
        versions=(old.version, new.version),
        installs=told,
        values=paths,
        pools=stay,
        effect=effect,
        details=tuple(dict.fromkeys(edit.detail for edit in edits if edit.effect is effect and edit.detail)),
    )


def _driver(old: Release, new: Release) -> Iterator[str]:
    """Give the conditions that hold for the driver's owner."""
    if old.chart != "gpu-operator":
        return
    here, there = (value_seen(each.chart, each.values, "driver.enabled", each.version) for each in (old, new))
    if here and there:
        by_itself = value_seen(new.chart, new.values, "driver.upgradePolicy.autoUpgrade", new.version)
        yield "driver" if by_itself else "driver-by-hand"
        if by_itself and any(is_older(each.version, "v26.7.0") for each in (old, new)):
            yield "old-driver"


def _edit(chart: str, path: str, conditions: set[str]) -> ReleaseEdit:
    for row in release_edits():
        if row.chart == chart and row.when in conditions and _covers(row.path, path):
            return row
    return ReleaseEdit(chart, path, "", PodEffect.UNKNOWN, f"no table knows what {path} does", "")


def _covers(start: str, path: str) -> bool:
    return start in ("", path) or path.startswith(f"{start}.")
