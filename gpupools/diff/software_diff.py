"""Report the effects of an edit on the software of clusters and on running pods. Pure.

Every step of a `RuntimePlan` (a release or an object), how a cluster's API is reached and who acts for the cluster are
compared before and after. What a difference does to pods is a row of `data/software_edits.csv`.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple, Self

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.diff.pool_diff import (
    FieldChange,
    PoolChange,
    leaves,
    same_value,
    strongest,
    whole_numbers,
    with_stack,
)
from gpupools.plan.edit_tables import EditEffect
from gpupools.plan.software_plan import KubernetesObject, Release, RuntimePlan
from gpupools.software.charts import charts
from gpupools.software.objects import SMOKE_NAMESPACE
from gpupools.software.release_changes import PodEffect, ReleaseChange, ReleaseState, release_change
from gpupools.spec.cluster_access import ACCESS_KEYS, KubeconfigFile, KubeconfigSecret
from gpupools.spec.identity import place_in_cloud
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack import Stack, StackPlan

ACCESS, IDENTITY = "access", "identity"
"""Two entries that every cluster has beside the steps of its plan: API access, and identity."""

_LONGEST = 2000
"""Longest text that is recorded as it is; longer ones are recorded as a digest."""


class SoftwareEdit(NamedTuple):
    """One row: what happens to pods when a kind of step is added, removed or changed in a field."""

    of: str
    """A chart, or the first part of an object's step; `*` for all."""
    change: str
    """`added`, `removed` or `changed`; empty for each."""
    field: str
    """A field of the step, or what it begins with up to a dot; empty for each."""
    effect: EditEffect
    pods: str
    source: str


@cache
def software_edits() -> tuple[SoftwareEdit, ...]:
    """Return the rows in the file's order; the first match applies."""
    rows = data_rows("software_edits.csv")
    return tuple(SoftwareEdit(**{**row, "effect": EditEffect(row["effect"])}) for row in rows)  # type: ignore[arg-type]


def software_edit(of: str, change: str, field: str = "") -> SoftwareEdit:
    """Return the row for a change of a step.

    Raises:
        LookupError: The table has no row; a test keeps it total.
    """
    for row in software_edits():
        if (
            row.of in (of, "*")
            and row.change in (change, "")
            and f"{field}.".startswith(f"{row.field}." if row.field else "")
        ):
            return row
    raise LookupError(f"software_edits.csv has no row for {of} {change} {field}")


@dataclass(frozen=True)
class StepRecord:
    """A recorded step of a cluster's plan, in JSON types."""

    of: str
    """As in `SoftwareEdit`."""
    called: str
    """Display name: `chart gpu-operator v26.7.0`, `Namespace gpu-operator`."""
    pools: tuple[str, ...]
    """Keys of the pools it serves."""
    protected: bool
    """Whether it was declared with `protect`."""
    values: JsonObject
    """Its values by dotted name; None if unknown."""
    known: bool = True
    """Whether `values` were recorded."""


@dataclass(frozen=True)
class SoftwareRecord:
    """The recorded software of one cluster, in JSON types."""

    cluster: str
    production: tuple[str, ...]
    """Keys of its production pools."""
    steps: Mapping[str, StepRecord]

    def as_json(self) -> JsonDict:
        """Return the record in JSON types."""
        steps = {
            name: {each.name: getattr(step, each.name) for each in fields(step) if each.name != "known"}
            | {"pools": list(step.pools), "values": {k: v for k, v in step.values.items() if v is not None}}
            for name, step in self.steps.items()
        }
        return {"cluster": self.cluster, "production": list(self.production), "steps": steps}

    @classmethod
    def from_json(cls, raw: object) -> Self | None:
        """Read what `as_json` wrote, with numbers as floats if need be; None when it is something else."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("steps"), Mapping):
            return None
        steps: dict[str, StepRecord] = {}
        for name, step in raw["steps"].items():
            kinds = {"of": str, "called": str, "pools": list, "protected": bool, "values": Mapping}
            if not isinstance(step, Mapping) or any(not isinstance(step.get(key), kind) for key, kind in kinds.items()):
                return None
            values = {str(key): whole_numbers(value) for key, value in step["values"].items()}
            pools = tuple(map(str, step["pools"]))
            steps[str(name)] = StepRecord(step["of"], step["called"], pools, step["protected"], values)
        production = raw.get("production")
        if not isinstance(raw.get("cluster"), str) or not isinstance(production, list):
            return None
        return cls(raw["cluster"], tuple(map(str, production)), steps)


def record_software(plan: RuntimePlan, stack: Stack) -> SoftwareRecord:
    """Return the record of a cluster's software for comparison with a later plan."""
    cluster = stack.clusters[plan.cluster]
    served = pools_of_steps(plan)
    protected = protected_steps(plan, stack)
    steps: dict[str, StepRecord] = {}
    everyone = tuple(plan.pods)
    steps[IDENTITY] = StepRecord(IDENTITY, "the identity for the cluster", everyone, False, _identity(cluster))
    if plan.needs_kubernetes:
        steps[ACCESS] = StepRecord(ACCESS, "access to the cluster's API", everyone, False, _access(cluster))
    for release in plan.releases:
        called = f"chart {release.chart} {release.version}"
        steps[release.name] = StepRecord(
            release.chart, called, served[release.name], release.name in protected, _of_release(release)
        )
    for each in plan.objects:
        of = _kind_of_step(each.name)
        steps[each.name] = StepRecord(
            of, _called(each), served[each.name], each.name in protected, _kept("", _by_flavor(each.manifest))
        )
    production = tuple(name for name in plan.pods if stack.is_production(name))
    return SoftwareRecord(plan.cluster, production, steps)


def _by_flavor(manifest: JsonObject) -> JsonObject:
    """Return a manifest with the quotas of Kueue's resource groups by flavor and resource, to compare single quotas."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping) or "resourceGroups" not in spec:
        return manifest
    quotas = {
        f"{flavor['name']} {each['name']}": {key: value for key, value in each.items() if key != "name"}
        for group in spec["resourceGroups"]
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }
    return {**manifest, "spec": {**spec, "resourceGroups": quotas}}


def pools_of_steps(plan: RuntimePlan) -> dict[str, tuple[str, ...]]:
    """Return the pools that each release and object serves: those it depends on, and those of its dependents."""
    releases = {release.name: set(release.pools) for release in plan.releases}
    found = {each.name: {name for step in plan.depends[each.name] if (name := _pool(step))} for each in plan.objects}
    for step in reversed(list(plan.depends)):  # what waits for a step comes behind it
        serves = {_pool(step)} if _pool(step) else releases.get(step) or found.get(step, set())
        for before in plan.depends[step]:
            if before in found:
                found[before] |= serves
    found |= releases
    return {step: tuple(name for name in plan.pods if not pools or name in pools) for step, pools in found.items()}


def _pool(step: str) -> str:
    return step.removeprefix("pool/") if step.startswith("pool/") else ""


def protected_steps(plan: RuntimePlan, stack: Stack) -> frozenset[str]:
    """Return the protected steps: those that give the pods of a protected pool their GPUs."""
    if plan.cluster in stack.allow_destroy:
        return frozenset()
    served = pools_of_steps(plan)
    releases = [each for each in plan.releases if _takes_gpus(each.chart)]
    spaces = {f"namespace/{each.namespace}" for each in releases}
    lasting = [each.name for each in releases]
    lasting += [each.name for each in plan.objects if each.name in spaces or _is_daemon(each)]
    return frozenset(step for step in lasting if any(stack.protects(plan.cluster, pool) for pool in served[step]))


def _takes_gpus(of: str) -> bool:
    """Return whether pods lose GPUs when a step of this kind is removed."""
    return software_edit(of, "removed").effect is EditEffect.REPLACE


def _is_daemon(planned: KubernetesObject) -> bool:
    """Return whether an object is a DaemonSet whose deletion takes GPUs away; no edit recreates such a DaemonSet."""
    return planned.kind == "DaemonSet" and _takes_gpus(_kind_of_step(planned.name))


def _kind_of_step(step: str) -> str:
    """Return the `of` column for an object's step."""
    return "smoke-test" if step == f"namespace/{SMOKE_NAMESPACE}" else step.partition("/")[0]


def _called(planned: KubernetesObject) -> str:
    metadata = planned.manifest["metadata"]
    space = metadata.get("namespace")
    # A ConfigMap's or Job's name changes with its content.
    name = planned.name.rpartition("/")[2] if planned.kind in ("ConfigMap", "Job") else metadata["name"]
    return f"{planned.kind} {f'{space}/' if space else ''}{name}"


def _of_release(release: Release) -> JsonDict:
    plain = {key: getattr(release, key) for key in ("version", "repository", "namespace", "timeout_s", "skip_await")}
    return plain | _kept("values", release.values)


def _identity(cluster: Cluster) -> JsonDict:
    return _kept("", {key: with_stack(getattr(cluster, key), cluster.stack) for key in cluster.identity})


def _access(cluster: Cluster) -> JsonDict:
    """Return how the API is accessed, without secret kubeconfigs."""
    found: JsonDict = {}
    for key in ACCESS_KEYS:
        value = getattr(cluster, key, None)
        if isinstance(value, KubeconfigSecret):
            value = {"secret": True, "context": value.context}
        found[key] = with_stack(value, cluster.stack)
    if isinstance(getattr(cluster, "kubeconfig", None), KubeconfigFile):
        # The path may stay when the cluster does not.
        named = {key: with_stack(getattr(cluster, key), cluster.stack) for key in type(cluster).model_fields}
        found[_PLACE] = ", ".join(f"{key} {value}" for key, value in place_in_cloud(named).items())
    return _kept("", found)


_PLACE = "cluster"
"""Of the access to a cluster by a kubeconfig's path, which cluster it is; records of older releases lack it."""


def _kept(name: str, value: Any) -> JsonDict:
    return {path: _short(each) for path, each in leaves(name, value) if each is not None}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"text {hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return [_short(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class SoftwareChange:
    """What happens to one step of one cluster."""

    cluster: str
    step: str
    of: str
    called: str
    change: str
    """`added`, `removed` or `changed`."""
    effect: EditEffect
    pods: str
    """Effect on running pods, in words."""
    fields: tuple[FieldChange, ...] = ()
    serves: tuple[str, ...] = ()
    """The remaining pools that it served."""
    production: tuple[str, ...] = ()
    """Those of them that are production pools before or after the edit."""
    protected: bool = False
    """Whether it was declared protected before the edit."""
    release: ReleaseChange | None = None
    """For a changed release: its versions, values and effects on pods."""

    @property
    def destroys(self) -> bool:
        """Return whether running or future pods lose something, or may."""
        return self.effect in (EditEffect.REPLACE, EditEffect.UNKNOWN)

    @property
    def ending(self) -> str:
        """What a release does to running pods that it ends, after `would`; empty if it ends none."""
        if self.release is None or not self.release.ends:
            return ""
        whose = "pods that share by MPS" if self.release.effect is PodEffect.MPS_PODS else "pods that have a GPU"
        return f"end {whose} on {', '.join(self.release.ends)}, node by node"

    @property
    def key(self) -> str:
        """The change's name among others: `train/gpu-operator`."""
        return f"{self.cluster}/{self.step}"

    @property
    def headline(self) -> str:
        """What happens, without the values."""
        if self.release is not None and self.effect is _OF_PODS[self.release.effect]:
            return self.release.headline
        serves = f" (for {', '.join(self.serves)})" if self.serves and self.change == "removed" else ""
        return f"{self.cluster}: {DONE[self.change]} {self.called}{serves}"

    def __str__(self) -> str:
        # Addresses may be secret.
        told = {each.field.partition(".")[0] if self.of == ACCESS else str(each): None for each in self.fields}
        return f"{self.headline}{f': {what}' if (what := ', '.join(told)) else ''}; {self.pods}"

    def as_json(self) -> JsonDict:
        """Return cluster, step, change, effect on pods, and the fields except addresses."""
        told = () if self.of == ACCESS else self.fields
        return {
            "cluster": self.cluster,
            "step": self.step,
            "called": self.called,
            "change": self.change,
            "effect": self.effect.value,
            "pods": self.pods,
            "serves": list(self.serves),
            "fields": [each.as_json() for each in told],
            "release": None if self.release is None else self.release.as_json(),
        }


DONE = {"added": "installs", "removed": "removes", "changed": "changes"}
"""What an update does to a step, by `SoftwareChange.change`."""


def moved_clusters(changes: Iterable[SoftwareChange]) -> list[str]:
    """Return the keys under which the stack file names other clusters than the last update did."""
    return [
        each.cluster for each in changes if any(field.field == _PLACE for field in each.fields if each.of == ACCESS)
    ]


_OF_PODS = {
    PodEffect.NONE: EditEffect.NONE,
    PodEffect.DAEMONS: EditEffect.IN_PLACE,
    PodEffect.UNKNOWN: EditEffect.UNKNOWN,
    PodEffect.MPS_PODS: EditEffect.ROLLING,
    PodEffect.GPU_PODS: EditEffect.ROLLING,
}


def compare_software(
    old: Iterable[SoftwareRecord],
    new: StackPlan,
    pools: Iterable[PoolChange],
    mps: Collection[tuple[str, str]] = (),
) -> list[SoftwareChange]:
    """Return what happens to all recorded software, in the order of the new plan.

    Args:
        old: The records of the clusters' software.
        new: The plan.
        pools: What happens to the pools.
        mps: The pools, by cluster and former name, whose pods shared GPUs by MPS.
    """
    before = {each.cluster: each for each in old}
    after = {each.cluster: record_software(each, new.stack) for each in new.runtimes}
    changes = list(pools)
    found: list[SoftwareChange] = []
    for key in dict.fromkeys([*after, *before]):
        none = SoftwareRecord(key, (), {})
        stay = _staying(key, changes)
        was, now = before.get(key, none), after.get(key, none)
        production = {*(stay.get(name, "") for name in was.production), *now.production}
        for change in _compared(was, now):
            serves = tuple(dict.fromkeys(stay[name] for name in change.serves if name in stay))
            change = replace(change, serves=serves, production=tuple(name for name in serves if name in production))
            if change.change == "removed" and not serves and change.of not in (ACCESS, IDENTITY):
                change = replace(change, effect=EditEffect.NONE, pods="it is removed with the pools it served")
            elif change.change == "changed":
                shared = [stay[name] for cluster, name in mps if cluster == key and name in stay]
                change = _with_release(change, was.steps[change.step], now.steps[change.step], shared)
            found.append(change)
    return found


def _with_release(change: SoftwareChange, old: StepRecord, new: StepRecord, mps: Collection[str]) -> SoftwareChange:
    """Return the change of a Helm release with what its version and values do; any other change as it is."""
    before, after = (_release_state(each, change.serves) for each in (old, new))
    release = before and after and release_change(change.cluster, before, after, mps)
    if not release:
        return change
    edits = {_VERSION: _VERSION} | {path: f"{_VALUES}.{path}" for path in release.values}
    rows = {edits[path]: row for path, row in release.edits.items()}
    fields = tuple(
        replace(each, effect=_OF_PODS[row.effect], detail=row.detail) if (row := rows.get(each.field)) else each
        for each in change.fields
    )
    others = [each for each in fields if each.field not in rows]
    effect = strongest([_OF_PODS[release.effect], *(each.effect for each in others)])
    details = [*release.details, *(each.detail for each in others if each.effect is effect)]
    pods = "; ".join(dict.fromkeys(details))
    return replace(change, effect=effect, pods=pods, fields=fields, release=release)


_VERSION, _VALUES = "version", "values"
"""Of a release's record, the chart's version, and the first part of its values."""


def _release_state(step: StepRecord, serves: Sequence[str]) -> ReleaseState | None:
    """Return a recorded release; None for an object."""
    if _VERSION not in step.values or step.of not in charts():
        return None
    start = f"{_VALUES}."
    values = {name.removeprefix(start): value for name, value in step.values.items() if name.startswith(start)}
    pools = tuple(name for name in serves if name in step.pools)
    return ReleaseState(step.of, str(step.values[_VERSION]), values, pools)


def _staying(cluster: str, changes: Collection[PoolChange]) -> dict[str, str]:
    """Return the remaining pools of a cluster by their former names."""
    here = [each for each in changes if each.cluster == cluster]
    return {each.former or each.pool: each.pool for each in here if each.change not in ("created", "deleted")}


def _compared(was: SoftwareRecord, now: SoftwareRecord) -> Iterator[SoftwareChange]:
    for step in dict.fromkeys([*now.steps, *was.steps]):
        old, new = was.steps.get(step), now.steps.get(step)
        if old is not None and new is not None:
            if old.known and (changed := tuple(_fields(old, new))):
                effect = strongest(each.effect for each in changed)
                pods = "; ".join(dict.fromkeys(each.detail for each in changed if each.effect is effect))
                found = SoftwareChange(now.cluster, step, new.of, new.called, "changed", effect, pods, changed)
                yield replace(found, serves=old.pools, protected=old.protected)
        elif step in (ACCESS, IDENTITY):
            pass  # of a cluster that is new, or that had no software, how it is reached is no edit
        elif new is not None:
            row = software_edit(new.of, "added")
            yield SoftwareChange(now.cluster, step, new.of, new.called, "added", row.effect, row.pods)
        elif old is not None:
            row = software_edit(old.of, "removed")
            gone = SoftwareChange(was.cluster, step, old.of, old.called, "removed", row.effect, row.pods)
            yield replace(gone, serves=old.pools, protected=old.protected)


def _fields(old: StepRecord, new: StepRecord) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old.values, *new.values]):
        before, after = old.values.get(name), new.values.get(name)
        if same_value(before, after) or (name == "metadata.name" and old.of in ("config", "smoke-test")):
            continue
        if new.of == ACCESS and name == _PLACE and None in (before, after):
            continue
        if new.of == ACCESS and name.startswith("kubeconfig.") and _PLACE not in old.values:
            row = software_edit(ACCESS, "changed", "kubeconfig")
            yield FieldChange(name, before, after, row.effect, row.pods)
        elif new.of in charts() and (name == _VERSION or name.startswith(f"{_VALUES}.")):
            yield FieldChange(name, before, after, EditEffect.UNKNOWN)  # see `_with_release`
        else:
            row = software_edit(new.of, "changed", name)
            yield FieldChange(name, before, after, row.effect, row.pods)
