"""Report the effects of an edit on the software of clusters and on running pods. Pure.

Every step of a `RuntimePlan` (a release or an object), how a cluster's API is reached and who acts for the cluster are
compared before and after. What a difference does to pods is a row of `data/software_edits.csv`.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StrictBool

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.diff.pool_change import FieldChange, PoolChange, strongest
from gpupools.diff.records import Record, RecordedValues, leaves, same_value, with_stack
from gpupools.plan.edit_tables import EditEffect
from gpupools.plan.software_plan import KubernetesObject, Release, RuntimePlan
from gpupools.software.charts import charts
from gpupools.software.objects import SMOKE_NAMESPACE
from gpupools.software.release_changes import PodEffect, ReleaseChange, ReleaseEdit, ReleaseState, release_change
from gpupools.spec.cluster_access import ACCESS_KEYS, KubeconfigFile, KubeconfigSecret
from gpupools.spec.identity import place_in_cloud
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack import StackPlan
from gpupools.stackfile.stack_validation import Stack

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
        of_field = not row.field or f"{field}.".startswith(f"{row.field}.")
        if of_field and row.of in (of, "*") and row.change in (change, ""):
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
    protected: StrictBool
    """Whether it was declared with `protect`."""
    values: RecordedValues
    """Its values by dotted name; None if unknown."""
    known: Annotated[bool, Field(exclude=True)] = True
    """Whether `values` were recorded."""


@dataclass(frozen=True)
class SoftwareRecord(Record):
    """The recorded software of one cluster, in JSON types."""

    cluster: str
    production: tuple[str, ...]
    """Keys of its production pools."""
    steps: Mapping[str, StepRecord]


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
    made = [
        (release.name, release.chart, f"chart {release.chart} {release.version}", _of_release(release))
        for release in plan.releases
    ]
    for item in plan.objects:
        made.append((item.name, _kind_of_step(item.name), _called(item), _kept("", _by_flavor(item.manifest))))
    for name, of, called, values in made:
        steps[name] = StepRecord(of, called, served[name], name in protected, values)
    production = tuple(name for name in plan.pods if stack.is_production(name))
    return SoftwareRecord(plan.cluster, production, steps)


def _by_flavor(manifest: JsonObject) -> JsonObject:
    """Return a manifest with the quotas of Kueue's resource groups by flavor and resource, to compare single quotas."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping) or "resourceGroups" not in spec:
        return manifest
    quotas = {
        f"{flavor['name']} {resource['name']}": {key: value for key, value in resource.items() if key != "name"}
        for group in spec["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }
    return {**manifest, "spec": {**spec, "resourceGroups": quotas}}


def pools_of_steps(plan: RuntimePlan) -> dict[str, tuple[str, ...]]:
    """Return the pools that each release and object serves: those it depends on, and those of its dependents."""
    releases = {release.name: set(release.pools) for release in plan.releases}
    found = {item.name: {name for step in plan.depends[item.name] if (name := _pool(step))} for item in plan.objects}
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
    releases = [release for release in plan.releases if _takes_gpus(release.chart)]
    spaces = {f"namespace/{release.namespace}" for release in releases}
    lasting = [release.name for release in releases]
    # No edit recreates a DaemonSet whose deletion takes GPUs away.
    daemons = [item.name for item in plan.objects if item.kind == "DaemonSet" and _takes_gpus(_kind_of_step(item.name))]
    lasting += [item.name for item in plan.objects if item.name in spaces or item.name in daemons]
    return frozenset(step for step in lasting if any(stack.protects(plan.cluster, pool) for pool in served[step]))


def _takes_gpus(of: str) -> bool:
    """Return whether pods lose GPUs when a step of this kind is removed."""
    return software_edit(of, "removed").effect is EditEffect.REPLACE


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
    return {path: _short(item) for path, item in leaves(name, value) if item is not None}


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"text {hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


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
    def ending(self) -> str:
        """What a release does to running pods that it ends, after `would`; empty if it ends none."""
        if self.release is None or not self.release.ends:
            return ""
        whose = "pods that share by MPS" if self.release.effect is PodEffect.MPS_PODS else "pods that have a GPU"
        return f"end {whose} on {', '.join(self.release.ends)}, node by node"

    @property
    def headline(self) -> str:
        """What happens, without the values."""
        if self.release is not None and self.effect is _OF_PODS[self.release.effect]:
            return self.release.headline
        serves = f" (for {', '.join(self.serves)})" if self.serves and self.change == "removed" else ""
        return f"{self.cluster}: {DONE[self.change]} {self.called}{serves}"

    def __str__(self) -> str:
        # Addresses may be secret.
        told = {field.field.partition(".")[0] if self.of == ACCESS else str(field): None for field in self.fields}
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
            "fields": [field.as_json() for field in told],
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
    old: Iterable[SoftwareRecord], new: StackPlan, pools: Iterable[PoolChange], mps: Collection[tuple[str, str]] = ()
) -> list[SoftwareChange]:
    """Return what happens to all recorded software, in the order of the new plan.

    `mps` has the pools, by cluster and former name, whose pods shared GPUs by MPS.
    """
    before = {record.cluster: record for record in old}
    after = {runtime.cluster: record_software(runtime, new.stack) for runtime in new.runtimes}
    there = [pool for pool in pools if pool.change not in ("created", "deleted")]
    changes: list[SoftwareChange] = []
    for key in dict.fromkeys([*after, *before]):
        none = SoftwareRecord(key, (), {})
        stay = {pool.former or pool.pool: pool.pool for pool in there if pool.cluster == key}
        was, now = before.get(key, none), after.get(key, none)
        production = {*(stay.get(name, "") for name in was.production), *now.production}
        shared = [stay[name] for cluster, name in mps if cluster == key and name in stay]
        for step in dict.fromkeys([*now.steps, *was.steps]):
            change = _compared(key, step, was.steps.get(step), now.steps.get(step), stay, shared)
            if change is not None:
                changes.append(replace(change, production=tuple(name for name in change.serves if name in production)))
    return changes


def _compared(
    cluster: str,
    step: str,
    old: StepRecord | None,
    new: StepRecord | None,
    stay: Mapping[str, str],
    mps: Collection[str],
) -> SoftwareChange | None:
    """Return what happens to a step; `stay` has the remaining pools by their former names."""
    serves = tuple(dict.fromkeys(stay[name] for name in (old.pools if old is not None else ()) if name in stay))
    if old is not None and new is not None:
        return _changed(cluster, step, old, new, serves, mps) if old.known else None
    only = old or new
    if only is None or step in (ACCESS, IDENTITY):
        return None  # of a cluster that is new, or that had no software, how it is reached is no edit
    change = "added" if old is None else "removed"
    row = software_edit(only.of, change)
    effect, pods = row.effect, row.pods
    if old is not None and not serves:
        effect, pods = EditEffect.NONE, "it is removed with the pools it served"
    protected = old is not None and old.protected
    return SoftwareChange(cluster, step, only.of, only.called, change, effect, pods, serves=serves, protected=protected)


def _changed(
    cluster: str, step: str, old: StepRecord, new: StepRecord, serves: tuple[str, ...], mps: Collection[str]
) -> SoftwareChange | None:
    """Return what a change of the values does, of a Helm release by its tables; None if no value differs."""
    before, after = (_release_state(record, serves) for record in (old, new))
    release = release_change(cluster, before, after, mps) if before is not None and after is not None else None
    rows = release.edits.items() if release else ()
    edits = {path if path == _VERSION else f"{_VALUES}.{path}": row for path, row in rows}
    fields = tuple(_fields(old, new, edits))
    if not fields:
        return None
    others = [field for field in fields if field.field not in edits]
    effect = strongest([*([_OF_PODS[release.effect]] if release else []), *(other.effect for other in others)])
    details = [*(release.details if release else ()), *(other.detail for other in others if other.effect is effect)]
    pods = "; ".join(dict.fromkeys(details))
    return SoftwareChange(
        cluster, step, new.of, new.called, "changed", effect, pods, fields, serves, (), old.protected, release
    )


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


def _fields(old: StepRecord, new: StepRecord, edits: Mapping[str, ReleaseEdit]) -> Iterator[FieldChange]:
    for name in dict.fromkeys([*old.values, *new.values]):
        before, after = old.values.get(name), new.values.get(name)
        if same_value(before, after) or (name == "metadata.name" and old.of in ("config", "smoke-test")):
            continue
        if new.of == ACCESS and name == _PLACE and None in (before, after):
            continue
        if name in edits:
            yield FieldChange(name, before, after, _OF_PODS[edits[name].effect], edits[name].detail)
        elif new.of in charts() and (name == _VERSION or name.startswith(f"{_VALUES}.")):
            yield FieldChange(name, before, after, EditEffect.UNKNOWN)
        else:
            path_stays = new.of == ACCESS and name.startswith("kubeconfig.") and _PLACE not in old.values
            row = software_edit(new.of, "changed", "kubeconfig" if path_stays else name)
            yield FieldChange(name, before, after, row.effect, row.pods)
