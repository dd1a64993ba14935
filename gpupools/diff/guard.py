"""Protect pools and software: find what an update may not destroy, before anything is declared. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gpupools.common.errors import Problem, nearest
from gpupools.common.json_types import JsonObject
from gpupools.diff.input_diff import state_leaves
from gpupools.diff.pool_change import PoolChange
from gpupools.diff.pool_diff import Inputs, compare, with_inputs
from gpupools.diff.records import PoolRecord, changed_outputs, encrypted_keys, record
from gpupools.diff.software_diff import (
    ACCESS,
    IDENTITY,
    SoftwareChange,
    SoftwareRecord,
    StepRecord,
    compare_software,
    record_software,
    software_edits,
)
from gpupools.plan.cloud import Clouds
from gpupools.plan.edit_tables import EditEffect, PodImpact
from gpupools.readback.inputs import at
from gpupools.stackfile.stack import StackPlan
from gpupools.stackfile.stack_validation import Stack

SWITCH = "gpupools:allow_destroy"
"""The key of a stack file that names what an update may replace or delete: pools, and clusters for their software."""

DISRUPTION = "gpupools:allow_disruption"
"""The key of a stack file that names the production pools of which an update may end pods on several nodes at once."""

RECORD = "record"
"""The output of a component in which the stack program keeps the `PoolRecord` or `SoftwareRecord` of what it made."""

POOL_TYPE = "gpupools:index:GpuNodePool"
RUNTIME_TYPE = "gpupools:index:GpuRuntime"


@dataclass(frozen=True)
class Earlier:
    """What the last update recorded about a stack's pools."""

    pools: tuple[PoolRecord, ...] = ()
    unrecorded: tuple[str, ...] = ()
    """Names of pools without a record, `<cluster>-<pool>`: of an older release, or never finished.

    Without those of which nothing was made.
    """
    software: tuple[SoftwareRecord, ...] = ()
    """The software of the clusters: of what is there; a step whose values nobody recorded is not `known`."""
    references: Mapping[str, JsonObject] = field(default_factory=dict)
    """Outputs of other stacks that the last update used, by stack."""
    resources: Mapping[str, JsonObject] = field(default_factory=dict)
    """Outputs of the pools' own resources, by URN."""
    switches: Collection[tuple[str, str]] | None = None
    """The names in the stack file as `Forbidden` has them; None if unknown, since no update records them."""

    def of(self, cluster: str, pool: str, former: str | None) -> PoolRecord | None:
        """Return the record of a pool, under its name or the one it had before; None when there is none."""
        known = {record.pool: record for record in self.pools if record.cluster == cluster}
        return known.get(pool) or known.get(former or "")


@dataclass(frozen=True)
class Forbidden:
    """Why an update may not make its change to a pool."""

    pool: str
    """As `<cluster>/<pool>`."""
    reason: str
    """The reason, after the pool's name: `is a production pool`."""
    does: str
    """The change, after `would`: `delete it (up to 4 nodes × 8 GPUs)`."""
    fix: str
    switches: tuple[tuple[str, str], ...] = ()
    """Names that would allow it, each with `SWITCH` or `DISRUPTION`."""

    @property
    def problem(self) -> Problem:
        """The rejection as a `Problem`, like every other error of a stack file."""
        return Problem((self.pool,), f"{self.reason}, and this update would {self.does}", self.fix)


@dataclass(frozen=True)
class Allowed:
    """What an update does only because a name in the stack file allows it."""

    does: str
    """As in `Forbidden`."""
    switch: str
    """`SWITCH` or `DISRUPTION`."""
    added: bool
    """Whether the edit itself adds the name."""

    def __str__(self) -> str:
        return f"allowed by {self.switch}{', added in this edit' if self.added else ''}"


@dataclass(frozen=True)
class GuardReport:
    """What an update would do to the pools and the software there are, and what speaks against it."""

    changes: tuple[PoolChange, ...] = ()
    software: tuple[SoftwareChange, ...] = ()
    forbidden: Mapping[str, Forbidden] = field(default_factory=dict)
    """By pool, as `<cluster>/<pool>`, and by cluster for its software; if not empty, nothing may be declared."""
    allowed: Mapping[str, Allowed] = field(default_factory=dict)
    """By the same keys, what would be forbidden if the stack file did not allow it."""
    warnings: tuple[str, ...] = ()
    """Warnings that do not stop the update."""
    unknown: tuple[Problem, ...] = ()
    """Names in `allow_destroy` that do not exist; if not empty, nothing may be declared."""


def pools_of(state: JsonObject) -> set[str]:
    """Return the pools that a state has, as `<cluster>-<pool>`; `state` as for `read_earlier`."""
    return {urn.rpartition("::")[2] for urn, resource in state.items() if resource.get("type") == POOL_TYPE}


def read_earlier(state: JsonObject) -> Earlier:
    """Return the pools and software recorded in the state of a stack.

    Args:
        state: URN to `{type, outputs}`, as the engine's function `pulumi:pulumi:readStackResourceOutputs` returns it.
    """
    records, unrecorded = [], []
    references: dict[str, JsonObject] = {}
    resources: dict[str, JsonObject] = {}
    for urn, resource in state.items():
        outputs = resource.get("outputs") or {}
        if resource.get("type") == "pulumi:pulumi:StackReference":
            references[str(outputs.get("name"))] = outputs.get("outputs") or {}
        if f"{POOL_TYPE}$" in urn:
            resources[urn] = outputs
        if resource.get("type") != POOL_TYPE:
            continue
        record = PoolRecord.from_json(outputs.get(RECORD))
        name = urn.rpartition("::")[2]
        if record is not None:
            records.append(record)
        elif any(f"{POOL_TYPE}$" in other and other.rpartition("::")[2].startswith(f"{name}-") for other in state):
            unrecorded.append(name)
    return Earlier(tuple(records), tuple(unrecorded), tuple(_software(state)), references, resources)


def earlier_of(plan: StackPlan) -> Earlier:
    """Return what an update of this plan records."""
    stack = plan.stack
    return Earlier(
        tuple(record(pool, stack) for pool in plan.pools),
        software=tuple(record_software(runtime, stack) for runtime in plan.runtimes),
        switches=_names(stack),
    )


def _software(state: JsonObject) -> Iterator[SoftwareRecord]:
    """Yield the software of each cluster from its component, as the last successful update recorded it."""
    for urn, resource in state.items():
        name = urn.rpartition("::")[2]
        if resource.get("type") != RUNTIME_TYPE or not name.endswith(_RUNTIME):
            continue
        key = name.removesuffix(_RUNTIME)
        record = SoftwareRecord.from_json((resource.get("outputs") or {}).get(RECORD))
        steps = {_resource_name(step): (step, value) for step, value in record.steps.items()} if record else {}
        # How the API is reached and who acts are no resources of the component.
        found = {step: step_record for step, step_record in steps.values() if step_record.of in (ACCESS, IDENTITY)}
        for other, child in state.items():
            kind, _, called = other.rpartition("::")
            if f"{RUNTIME_TYPE}$" in kind and called.startswith(f"{name}-"):
                own = called.removeprefix(f"{name}-")
                kind = str(child.get("type", "")).rpartition(":")[2]
                step, part = steps.get(own) or (own, StepRecord(_of(own), f"{kind} {own}", (), False, {}, known=False))
                found[step] = part
        yield SoftwareRecord(key, record.production if record else (), found)


_RUNTIME = "-runtime"
"""Suffix of a cluster's key in the name of its `GpuRuntime`."""


def _resource_name(step: str) -> str:
    return step.replace("/", "-")


def _of(name: str) -> str:
    """Return the `of` column for an unrecorded resource: a chart, or the kind of a step."""
    kinds = {row.of for row in software_edits()} - {"*"}
    return max((kind for kind in kinds if f"{name}-".startswith(f"{kind}-")), key=len, default=name)


def judge(
    earlier: Earlier,
    new: StackPlan,
    clouds: Clouds,
    references: Mapping[str, JsonObject] = MappingProxyType({}),
    inputs: tuple[Inputs, Inputs] | None = None,
) -> GuardReport:
    """Decide what an update does to pods and what of it is refused, for every command and for `pulumi up`.

    Args:
        earlier: What the last update recorded, or what one of another plan would record (`earlier_of`).
        new: The plan.
        clouds: The clouds by name.
        references: The outputs that other stacks have now, by stack.
        inputs: The inputs in the state and those declared now, as `with_inputs` takes them; None if they are not
            compared, as before `pulumi up` has declared anything (`refused_inputs` judges them then).
    """
    changes = compare(earlier.pools, new, clouds, changed_outputs(new.stack, earlier.references, references))
    changes = _with_unrecorded(earlier.unrecorded, new.stack, changes)
    if inputs is not None:
        changes = list(with_inputs(changes, *inputs, new, clouds))
    mps = {(pool.cluster, pool.pool) for pool in earlier.pools if pool.shares_by_mps}
    software = compare_software(_named_as_planned(earlier.software, new), new, changes, mps)
    refused, allowed, used = _decided(changes, software, new.stack, earlier.switches)
    unseen = inputs is None and earlier.switches is None
    warnings = [*_not_compared(changes), *_idle_names(changes, software, new.stack, used, unseen)]
    known = {pool.cluster for pool in earlier.pools} | {software_record.cluster for software_record in earlier.software}
    for key in (cluster for cluster in new.stack.clusters if cluster in known):
        if hidden := encrypted_keys(new.stack.clusters[key]):
            what = f"clusters.{key}: an edit of what is encrypted is not seen here: {', '.join(hidden)}"
            warnings.append(f"{what}; pulumi preview shows it")
    for change in changes:
        replaces = change.effect is EditEffect.REPLACE and change.key not in refused
        if replaces and any(field_change.is_output for field_change in change.fields):
            warnings.append(f"{change.key}: this update replaces it ({change.nodes}): {_fields(change)}")
    unknown = tuple(_unknown_names(changes, new.stack, software))
    return GuardReport(tuple(changes), tuple(software), refused, allowed, tuple(warnings), unknown)


def refused_inputs(
    judged: GuardReport, pool: str, urn: str, inputs: tuple[JsonObject, JsonObject], plan: StackPlan, clouds: Clouds
) -> Forbidden | None:
    """Return why an update of one resource of a pool is refused, from the inputs that the engine has and gets.

    `judged` is the judgement before the program declared anything; fields of it tell of inputs that differ. `pool` is
    the name of the pool's component, and `inputs` are the old and the new ones.
    """
    changes = [change for change in judged.changes if f"{change.cluster}-{change.pool}" == pool]
    old, new = ({pool: state_leaves(urn, input_)} for input_ in inputs)
    return next(iter(forbidden(list(with_inputs(changes, old, new, plan, clouds)), plan.stack).values()), None)


_Name = tuple[str, str]
"""`SWITCH` or `DISRUPTION`, and a name in it."""


def _decided(
    changes: Sequence[PoolChange], software: Sequence[SoftwareChange], stack: Stack, earlier: Collection[_Name] | None
) -> tuple[dict[str, Forbidden], dict[str, Allowed], set[_Name]]:
    """Return what is refused, what only a name in the stack file allows, and the names that have an effect.

    The first two are by key of the pool or the cluster. `earlier` has the names of the last update, if known.
    """
    refused = forbidden(changes, stack) | forbidden_software(software, stack)
    nothing = stack._replace(allow_destroy=(), allow_disruption=())
    without = forbidden(changes, nothing) | forbidden_software(software, nothing)
    given = _names(stack)
    allowed: dict[str, Allowed] = {}
    for key, refusal in without.items():
        names = [switch for switch in refusal.switches if switch in given]
        if key not in refused and names:
            added = earlier is not None and not {*names} & {*earlier}
            allowed[key] = Allowed(refusal.does, names[0][0], added)
    return refused, allowed, {switch for refusal in without.values() for switch in refusal.switches}


def _names(stack: Stack) -> list[_Name]:
    return [*((SWITCH, name) for name in stack.allow_destroy), *((DISRUPTION, name) for name in stack.allow_disruption)]


def drift(resources: Mapping[str, JsonObject], new: StackPlan, clouds: Clouds) -> Iterator[str]:
    """Warn about inputs that the plan leaves out and whose values in the cloud are not the defaults.

    The engine shows no such change. `resources` are the outputs of the pools' own resources, by URN.
    """
    plans = {f"{pool.cluster}-{pool.name}": pool for pool in new.pools}
    for urn, outputs in resources.items():
        plan, kind = plans.get(urn.rpartition("::")[2].rpartition("-")[0]), urn.split("::")[2].rpartition(":")[2]
        if plan is None:
            continue
        for path, (key, default) in clouds[plan.cloud].node_pools.edits().left_out.items():
            asked = plan.overrides if key == "overrides" else getattr(plan.provider_plan, key)
            value = at(outputs, path.partition(".")[2]) if path.startswith(f"{kind}.") and not asked else None
            if isinstance(value, type(default)) and value != default:
                left = "no value" if default == "" else default
                what = f"{path} is {value} in the cloud, and the stack file leaves it at {left}"
                fix = "change it back in the cloud, or replace the pool"
                yield f"{plan.cluster}/{plan.name}: {what}; pulumi up does not change it back: {fix}"


def _named_as_planned(records: Iterable[SoftwareRecord], new: StackPlan) -> Iterator[SoftwareRecord]:
    """Yield the records with unrecorded steps named as in the new plan and assigned to their cluster's pools."""
    for was in records:
        plans = [runtime for runtime in new.runtimes if runtime.cluster == was.cluster]
        names = {_resource_name(step): step for plan in plans for step in plan.depends}
        pools = tuple(name for plan in plans for name in plan.pods)
        steps = {
            step if value.known else names.get(step, step): value if value.known else replace(value, pools=pools)
            for step, value in was.steps.items()
        }
        yield replace(was, steps=steps)


def forbidden_software(changes: Sequence[SoftwareChange], stack: Stack) -> dict[str, Forbidden]:
    """Return the software changes that are rejected, by key of the cluster."""
    found: dict[str, Forbidden] = {}
    for key in dict.fromkeys(change.cluster for change in changes):
        here = [change for change in changes if change.cluster == key]
        refusals = [refusal for refusal in (_loss(key, here, stack), _end(key, here, stack)) if refusal is not None]
        if refusals:
            does, fix = ("; ".join(getattr(refusal, name) for refusal in refusals) for name in ("does", "fix"))
            switches = tuple(name for refusal in refusals for name in refusal.switches)
            found[key] = replace(refusals[0], does=does, fix=fix, switches=switches)
    return found


def _unallowed(change: SoftwareChange, pools: Iterable[str], allowed: Collection[str]) -> list[str]:
    """Return those of some pools that are production pools and that no name allows to lose something."""
    if change.cluster in allowed:
        return []
    return [name for name in pools if name in change.production and f"{change.cluster}/{name}" not in allowed]


def _loss(cluster: str, changes: Sequence[SoftwareChange], stack: Stack) -> Forbidden | None:
    """Reject software that production pools would lose, or that Pulumi protects since the last update."""
    allowed = stack.allow_destroy

    def loses(change: SoftwareChange) -> list[str]:
        return _unallowed(change, change.production, allowed) if change.effect is EditEffect.REPLACE else []

    def is_held(change: SoftwareChange) -> bool:
        return change.protected and change.change == "removed" and bool(change.serves)

    lost = [change for change in changes if loses(change) or is_held(change)]
    if not lost:
        return None
    done = {change.called: "remove" if change.change == "removed" else "recreate" for change in lost}
    does = "; ".join(
        f"{verb} {', '.join(called for called, its in done.items() if its == verb)}"
        for verb in dict.fromkeys(done.values())
    )
    pools = list(dict.fromkeys(name for change in lost for name in loses(change)))
    add = f"add {cluster} to"
    if not pools:
        reason = f"has software that is protected until an update with {cluster} in {SWITCH} has ended"
        return Forbidden(cluster, reason, does, _two_updates(f"leave {cluster} in" if cluster in allowed else add))
    held = any(map(is_held, lost))
    fix = f"if this is intended: {_two_updates(add)}" if held else f"if this is intended, {add} {SWITCH}"
    names = [cluster, *(f"{cluster}/{name}" for name in pools)]
    return Forbidden(cluster, _has_software_of(pools), does, fix, tuple((SWITCH, name) for name in names))


def _end(cluster: str, changes: Sequence[SoftwareChange], stack: Stack) -> Forbidden | None:
    """Reject releases that end pods of production pools."""
    allowed = {*stack.allow_destroy, *stack.allow_disruption}
    releases = [
        (change, _unallowed(change, change.release.ends, allowed)) for change in changes if change.release is not None
    ]
    pools = list(dict.fromkeys(name for _, names in releases for name in names))
    if not pools:
        return None
    keys = [f"{cluster}/{name}" for name in pools]
    does = dict.fromkeys(f"{change.ending} ({change.called})" for change, names in releases if names)
    fix = f"if this is intended, add {', '.join(keys)} to {DISRUPTION}"
    switches = [(switch, key) for switch in (DISRUPTION, SWITCH) for key in keys]
    return Forbidden(cluster, _has_software_of(pools), "; ".join(does), fix, (*switches, (SWITCH, cluster)))


def _has_software_of(pools: Sequence[str]) -> str:
    return f"has software of the production pool{'s' if len(pools) > 1 else ''} {', '.join(pools)}"


def forbidden(changes: Sequence[PoolChange], stack: Stack) -> dict[str, Forbidden]:
    """Return the pool changes that are rejected, by `<cluster>/<pool>`."""
    allowed = stack.allow_destroy
    gone = [change for change in changes if change.change == "deleted"]
    there = [change for change in changes if change.change != "created"]
    most = f"is one of {len(gone)} deleted pools out of {len(there)}, more than half"
    most = most if len(gone) * 2 > len(there) else ""
    found = [
        _keeps_what_it_is(change)
        or (_still_protected(change) if change.key in allowed else None)
        or (None if change.key in allowed else _forgets_first_name(change) or _not_allowed(change, most))
        or (None if change.key in (*allowed, *stack.allow_disruption) else _disruption(change))
        for change in there
    ]
    return {refusal.pool: refusal for refusal in found if refusal is not None}


def _keeps_what_it_is(change: PoolChange) -> Forbidden | None:
    """Reject an edit that an adopted pool cannot have."""
    found = [field_change for field_change in change.fields if field_change.adopted]
    if not found:
        return None
    if any(field_change.field.startswith("adopted") for field_change in found):
        reason, does = "is already a pool of this stack", "replace it with an existing pool"
        return Forbidden(change.key, reason, does, "give the existing pool its own key")
    reason = "is an adopted pool, which cannot be changed this way"
    does = f"change {', '.join(map(str, found))}: {'; '.join(dict.fromkeys(edit.detail for edit in found))}"
    fix = "undo the edit, or remove adopt to replace it with a new pool"
    return Forbidden(change.key, reason, does, fix)


def _not_allowed(change: PoolChange, most: str) -> Forbidden | None:
    """Reject the change of a pool that `allow_destroy` does not name."""
    deleted = change.change == "deleted"
    unknown = "may be a production pool: the last update left no record of it" if not change.recorded else ""
    if not change.production and not (deleted and (unknown or most)):
        return None
    reason = "is a production pool" if change.production else unknown or most
    if deleted:
        does = f"delete it ({change.nodes})" if change.nodes else "delete it"
    elif change.effect is EditEffect.REPLACE:
        does = f"replace it ({change.nodes}): {_fields(change)}"
    elif change.protected and _drops_placement_group(change):
        does = "delete its placement group"
    else:
        return None
    fix = f"if this is intended, add {change.key} to {SWITCH}"
    if _in_two_updates(change):
        fix = f"if this is intended: {_two_updates(f'add {change.key} to', change.change)}"
    if deleted and (new := change.looks_like):
        fix = f"if it was renamed to {new}, set renamed_from: {change.former_keys} there to keep the nodes; {fix}"
    return Forbidden(change.key, reason, does, fix, ((SWITCH, change.key),))


def _disruption(change: PoolChange) -> Forbidden | None:
    """Reject an edit that ends the pods of a production pool on several nodes at once, or cuts GPUs that they use."""
    if not change.production or not change.disrupts:
        return None
    fields = ", ".join(map(str, (edit for edit in change.fields if edit.pods is change.pods))) or _fields(change)
    does = "end pods on" if change.pods is PodImpact.EVICTED else "cut GPUs in use on"
    at_once = "1 node" if change.nodes_at_once == 1 else f"{change.nodes_at_once} nodes at once"
    fix = f"if this is intended, add {change.key} to {DISRUPTION}"
    if change.pods is PodImpact.BLOCKED:
        fix = f"create a second pool, or drain its nodes; {fix}"
    switches = ((DISRUPTION, change.key), (SWITCH, change.key))
    return Forbidden(change.key, "is a production pool", f"{does} up to {at_once}: {fields}", fix, switches)


def _forgets_first_name(change: PoolChange) -> Forbidden | None:
    """Reject the replacement of a pool that is only renamed a second time, since `renamed_from` means to keep it."""
    decisive = change.decisive()
    is_by_name = change.effect is EditEffect.REPLACE and [edit.field for edit in decisive] == ["first_name"]
    if not change.former or not is_by_name:
        return None
    fix = f"set first_name: {decisive[0].old} beside renamed_from: {change.former}"
    does, reason = f"replace it ({change.nodes})", "was not created under the name in renamed_from"
    return Forbidden(change.key, reason, does, fix, ((SWITCH, change.key),))


def _still_protected(change: PoolChange) -> Forbidden | None:
    """Reject a change of a pool in `allow_destroy` that needs an earlier update to remove its protection."""
    if not _in_two_updates(change):
        return None
    does = "delete" if change.change == "deleted" else "delete the placement group of"
    if change.change != "deleted" and change.effect.destroys:
        does = "replace" if change.effect is EditEffect.REPLACE else "perhaps replace"
    reason = f"is protected until an update with it in {SWITCH} has ended"
    return Forbidden(change.key, reason, f"{does} it", _two_updates(f"leave {change.key} in", change.change))


def _in_two_updates(change: PoolChange) -> bool:
    goes = change.change == "deleted" or _drops_placement_group(change)
    return change.protected and (goes or (change.effect.destroys and change.old_protection_counts))


def _two_updates(switch: str, change: str = "changed") -> str:
    first, then = ("restore the pool", "delete it") if change == "deleted" else ("undo the edit", "edit again")
    return f"{first}, {switch} {SWITCH}, run pulumi up to remove the protection; then {then} and run pulumi up again"


def _drops_placement_group(change: PoolChange) -> bool:
    """Return whether the pool's own protected placement group would be deleted while the pool stays."""
    return any(edit.field == "placement_group" and edit.old and not edit.new for edit in change.fields)


def _fields(change: PoolChange) -> str:
    """Return the changed fields; addresses of the cluster without values, since they may be secret."""
    source = {edit.field: f" ({edit.detail})" for edit in change.fields if edit.is_output}
    return ", ".join(
        f"{edit.field}{source.get(edit.field, '')}" if edit.field.startswith("cluster.") else str(edit)
        for edit in change.decisive()
    )


def _with_unrecorded(names: Iterable[str], stack: Stack, changes: Sequence[PoolChange]) -> list[PoolChange]:
    """Add unrecorded pools, of which only the names are known."""
    left, pool_changes = set(names), []
    for change in changes:
        former = stack.pools[change.pool].renamed_from if change.pool in stack.pools else None
        known = {f"{change.cluster}-{name}" for name in (change.pool, former) if name} & left
        if change.change == "created" and known:
            left -= known
            change = replace(change, change="changed", effect=EditEffect.UNKNOWN, recorded=False)
            change = replace(change, production=stack.is_production(change.pool))
        pool_changes.append(change)
    for name in sorted(left):
        cluster, pool = _split(name, stack)
        gone = PoolChange(cluster, pool, "deleted", EditEffect.REPLACE, (), "", production=stack.production)
        pool_changes.append(replace(gone, recorded=False))
    return pool_changes


def _split(name: str, stack: Stack) -> tuple[str, str]:
    """Split the name of a pool's component into cluster and pool, both of which may contain hyphens."""
    ways = [(name[: hyphen.start()], name[hyphen.end() :]) for hyphen in re.finditer("-", name)]
    ways = [(cluster, pool) for cluster, pool in ways if cluster and pool]
    named = [way for way in ways if "/".join(way) in stack.allow_destroy]
    known = [way for way in ways if way[0] in stack.clusters]
    return (named or known[::-1] or ways or [(name, "")])[0]


def _not_compared(changes: Sequence[PoolChange]) -> Iterator[str]:
    names = [
        change.key for change in changes if change.change == "changed" and not change.recorded and change.production
    ]
    if names:
        yield (
            f"the last update left no record of {', '.join(names)}, so gpupools cannot tell whether this one replaces"
            " them; Pulumi rejects that while they are protected; the next update has a record"
        )


def _unknown_names(
    changes: Sequence[PoolChange], stack: Stack, software: Sequence[SoftwareChange]
) -> Iterator[Problem]:
    """Reject names in `gpupools:allow_destroy` that exist neither before nor after the update."""
    pools = {change.key for change in changes}
    pools |= {f"{change.cluster}/{change.former}" for change in changes if change.former}
    clusters = {*stack.clusters, *(change.cluster for change in changes), *(change.cluster for change in software)}
    for index, name in enumerate(stack.allow_destroy):
        kind, known = ("pool", pools) if "/" in name else ("cluster", clusters)
        if name not in known:
            what = f"{name!r} is no {kind} of this stack, neither now nor in the last update"
            yield Problem(("allow_destroy", index), what, f"remove or correct it; {nearest(name, known)}")


def _idle_names(
    changes: Sequence[PoolChange],
    software: Sequence[SoftwareChange],
    stack: Stack,
    used: Collection[_Name],
    unseen: bool,
) -> Iterator[str]:
    """Warn about names in `gpupools:allow_destroy` and `gpupools:allow_disruption` that have no effect.

    `unseen`: whether another release may declare inputs that were not compared.
    """
    destroyed = {change.key for change in changes if change.change == "deleted" or change.effect.destroys}
    destroyed |= {change.cluster for change in software if change.effect.destroys}
    by_key = {change.key: change for change in changes}
    for switch, name in _names(stack):
        change = by_key.get(name)
        is_cluster = "/" not in name and name in stack.clusters
        if (switch, name) in used or (switch == SWITCH and name in destroyed) or not (change or is_cluster):
            continue  # see `_unknown_names` for a name that there is not
        if change is not None and not stack.is_production(change.pool):
            yield f"{switch} names {name}, which is no production pool and needs no permission; remove the name"
            continue
        does, kept = ("destroy it", "the pool") if switch == SWITCH else ("end its pods", "them")
        does, kept = ("destroy its software", "the software") if is_cluster else (does, kept)
        unless = ", unless gpupools diff --stack says that this release does" if unseen and not is_cluster else ""
        yield f"{switch} names {name}, but this update does not {does}; remove the name to protect {kept} again{unless}"
