"""Report the effects of an edit on running nodes: compare the inputs of two plans. Pure.

The last update recorded the fields of each pool's plan. Of those that differ, the old plan is made again, and what both
plans declare is compared. The effect of an input is a row of the cloud's `EditTables`.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpupools.common.json_types import JsonObject
from gpupools.diff.edit_rows import edit_of, input_edit, is_among
from gpupools.diff.format_values import format_value
from gpupools.diff.input_diff import Changed, both_names, changed_leaves, declared_leaves, input_changes
from gpupools.diff.pool_change import NAME_FIELDS, FieldChange, PoolChange, strongest, strongest_first
from gpupools.diff.records import (
    Outputs,
    PoolRecord,
    addresses,
    is_output,
    node_count,
    plan_values,
    planned_values,
    recorded_plan,
    resolved,
    same_value,
    top_field,
)
from gpupools.plan.cloud import Cloud, Clouds
from gpupools.plan.edit_tables import SEVERITY, STRENGTH, EditEffect, EditTables, PodImpact
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack import StackPlan
from gpupools.stackfile.stack_validation import Stack


def compare(
    old: Iterable[PoolRecord], new: StackPlan, clouds: Clouds, outputs: Outputs = MappingProxyType({})
) -> list[PoolChange]:
    """Return what happens to every recorded pool, like `diff`; also by changed outputs of other stacks."""
    before = {(pool.cluster, pool.pool): pool for pool in old}
    changes: list[PoolChange] = []
    made: list[PoolPlan] = []
    for plan in new.pools:
        former = new.stack.pools[plan.name].renamed_from or ""
        was = before.pop((plan.cluster, plan.name), None)
        renamed = was is None and (plan.cluster, former) in before
        if renamed:
            was = before.pop((plan.cluster, former))
        if was is None:
            made.append(plan)
            adopted = plan.provider_plan.adopted
            created = PoolChange(plan.cluster, plan.name, "created", EditEffect.IN_PLACE, (), node_count(plan))
            changes.append(replace(created, adopts=adopted.name if adopted is not None else ""))
            continue
        changed = _changes(was, plan, new.stack.clusters[plan.cluster], clouds, outputs)
        what = "renamed" if renamed else "changed" if changed else "unchanged"
        effect = strongest(change.effect for change in changed)
        kept = PoolChange(plan.cluster, plan.name, what, effect, changed, was.nodes, former if renamed else "")
        pods, at_once = pod_impact(changed, was.values, plan)
        kept = replace(kept, pods=pods, nodes_at_once=at_once)
        production = was.production or new.stack.is_production(plan.name)
        changes.append(_with_record(kept, was, production, clouds))
    for gone in before.values():
        deleted = PoolChange(gone.cluster, gone.pool, "deleted", EditEffect.REPLACE, (), gone.nodes)
        deleted = replace(deleted, pods=PodImpact.EVICTED, nodes_at_once=_number(gone.values.get("nodes.max")))
        production = gone.production or (new.stack.production and not gone.exempt)
        changes.append(_with_record(deleted, gone, production, clouds))
    alike = _likely_renames(made, before.values(), new.stack, clouds)
    return [_with_likely_rename(change, alike, new.stack) for change in changes]


def _with_likely_rename(change: PoolChange, alike: Mapping[tuple[str, str, str], str], stack: Stack) -> PoolChange:
    other = alike.get((change.change, change.cluster, change.pool), "")
    now, former = (change.pool, other) if change.change == "created" else (other, change.pool)
    return replace(change, looks_like=other, former_keys=stack.steps.former_keys(now, former)) if other else change


def pod_impact(changed: Iterable[FieldChange], was: JsonObject, plan: PoolPlan) -> tuple[PodImpact, int]:
    """Return the worst that an edit does to running pods, and on how many nodes at most at the same time.

    `was` has the `planned_values` of the pool before, and `plan` is the pool after.
    """
    changed = [change for change in changed if change.pods is not None]
    worst = max((change.pods for change in changed if change.pods), key=SEVERITY.__getitem__, default=PodImpact.STAY)
    nodes = max(_number(was.get("nodes.max", plan.max_nodes)), 1)
    if worst is PodImpact.DRAINED:
        now = planned_drains(vars(plan.provider_plan), plan)
        at_once = min(max(planned_drains(was, plan), now, 1), nodes)
        return (PodImpact.EVICTED if at_once == nodes > 1 else worst), at_once
    if worst is PodImpact.EVICTED and all(change.field in _SIZES for change in changed if change.pods is worst):
        fewer = nodes - plan.max_nodes, _number(was.get("nodes.min")) - plan.min_nodes
        return worst, max(*fewer, 1)
    return worst, nodes if worst in (PodImpact.EVICTED, PodImpact.BLOCKED) else 0


_SIZES = ("nodes.min", "nodes.max", "fixed_nodes_per_zone")


def planned_drains(values: JsonObject, plan: PoolPlan) -> int:
    """Return how many nodes of a pool an upgrade drains at the same time."""
    return sum(_number(_value_at(values, name)) for name in plan.provider_plan.drained_together)


def _value_at(values: JsonObject, name: str) -> object:
    """Return a value by its dotted name, of a record or of a plan's own fields."""
    first, _, rest = name.partition(".")
    return values[name] if name in values else getattr(values.get(first), rest, None) if rest else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _likely_renames(
    made: Iterable[PoolPlan], gone: Iterable[PoolRecord], stack: Stack, clouds: Clouds
) -> dict[tuple[str, str, str], str]:
    """Return deleted and created pools that are probably one renamed pool, by change, cluster and pool.

    They match if `renamed_from` would keep the nodes or roll them; the most similar pairs come first.
    """
    renames: dict[tuple[str, str, str], str] = {}
    pairs: list[tuple[int, PoolPlan, PoolRecord]] = []
    there: dict[tuple[str, str, str], list[PoolRecord]] = {}
    for was in gone:
        there.setdefault((was.cluster, was.cloud, str(was.values.get("instance_type"))), []).append(was)
    for plan in made:
        for was in there.get((plan.cluster, plan.cloud, plan.instance.name), [])[:_MAX_COMPARED]:
            fields = _changes(was, plan, stack.clusters[plan.cluster], clouds)
            differing = [field for field in fields if field.field not in NAME_FIELDS]
            if all(STRENGTH[field.effect] <= STRENGTH[EditEffect.ROLLING] for field in differing):
                pairs.append((len(differing), plan, was))
    for _, plan, was in sorted(pairs, key=lambda pair: pair[0]):
        ours, theirs = ("created", plan.cluster, plan.name), ("deleted", was.cluster, was.pool)
        if ours not in renames and theirs not in renames:
            renames |= {ours: was.pool, theirs: plan.name}
    return renames


_MAX_COMPARED = 20
"""Most deleted pools that a created one is compared with, to bound the work."""


def _with_record(change: PoolChange, was: PoolRecord, production: bool, clouds: Clouds) -> PoolChange:
    cloud = clouds.get(was.cloud)  # a record may be of a release that knew other clouds
    counts = cloud is not None and cloud.node_pools.edits().old_protection_counts
    return replace(change, old_protection_counts=counts, production=production, protected=was.protected)


def _changes(
    old: PoolRecord, new: PoolPlan, cluster: Cluster, clouds: Clouds, outputs: Outputs = MappingProxyType({})
) -> tuple[FieldChange, ...]:
    if old.cloud != new.cloud:
        change = FieldChange("cluster.cloud", old.cloud, new.cloud, EditEffect.REPLACE, pods=PodImpact.EVICTED)
        return (change,)
    cloud = clouds[new.cloud]
    tables = cloud.node_pools.edits()
    edited = _edited_fields(old, new, cluster, outputs)
    moved = _changed_inputs(old, new, cluster, cloud, edited) if edited else {}
    found = []
    for name, (was, now, source) in edited.items():
        change = _field_change(name, was, now, new, tables, moved)
        found.append(replace(change, detail="; ".join(filter(None, [source, change.detail]))))
    found += _untold(moved or {}, found, tables)
    if new.provider_plan.adopted is not None:
        was_adopted = "adopted.name" in old.values
        # Nothing is made of the first name of a pool that has one already.
        found = [field_change for field_change in found if field_change.field != "first_name" or not was_adopted]
        found = [_adopted_change(field_change, was_adopted=was_adopted, new=new) for field_change in found]
    return strongest_first(found)


def _edited_fields(
    old: PoolRecord, new: PoolPlan, cluster: Cluster, outputs: Outputs
) -> dict[str, tuple[Any, Any, str]]:
    """Return the fields of a plan that differ: old value, new value, and which output of another stack did it."""
    before, after = old.values, planned_values(new, cluster)
    # A field that only one release knows cannot have been edited; the record may be another release's.
    known = {*old.fields, "overrides"} & {*map(top_field, plan_values(new, cluster)), "overrides"}
    unordered = new.provider_plan.unordered | {f"cluster.{key}" for key in cluster.unordered}  # the cloud has sets
    fields = {}
    for name in dict.fromkeys([*before, *after]):
        written = before.get(name)
        was, now = resolved(written, outputs, 0), resolved(after.get(name), outputs, 1)
        if not same_value(was, now, name in unordered) and top_field(name) in known:
            output = written if written == after.get(name) else ""  # of another stack, which is another value now
            source = ", ".join(output) if isinstance(output, list) else output
            fields[name] = was, now, f"{source} has changed" if source else ""
    return fields


def _changed_inputs(
    old: PoolRecord, new: PoolPlan, cluster: Cluster, cloud: Cloud, edited: Mapping[str, tuple[Any, Any, str]]
) -> Changed | None:
    """Return the inputs that change with fields of a plan, as this release declares both plans.

    None if another release recorded values that this one cannot read.
    """
    now = addresses(new, cluster)
    then = dict(now)
    for name, (was, becomes, _) in edited.items():
        if name.startswith("cluster."):
            then[name.partition(".")[2]], now[name.partition(".")[2]] = was, becomes
    try:
        recorded = recorded_plan(old.values, edited, new, cloud)
        before = declared_leaves(recorded, then, cloud)
    except (LookupError, TypeError, ValueError):
        return None
    # Minimum and maximum tell of the number of nodes; the number that an autoscaler chose is not known.
    theirs, ignored = (plan.provider_plan.ignored_inputs(is_fixed=False) for plan in (recorded, new))
    before = {path: value for path, value in before.items() if path not in theirs}
    return changed_leaves(before, declared_leaves(new, now, cloud), ignored)


def _adopted_change(change: FieldChange, *, was_adopted: bool, new: PoolPlan) -> FieldChange:
    """Reject a change that an adopted pool cannot have: it keeps its name and the inputs in adopt.keep."""
    if change.field == "adopted.kept" and was_adopted:
        detail = "the pool's own setting applies from now on"
        return replace(change, effect=EditEffect.UNKNOWN, pods=PodImpact.UNKNOWN, detail=detail)
    if change.field.startswith("adopted"):
        return replace(change, adopted=True)
    adopted = new.provider_plan.adopted
    if not was_adopted or adopted is None:
        return change
    theirs = new.provider_plan.kept_input(change.field, change.inputs)
    kept = [path for path in change.inputs if is_among(path, adopted.kept)]
    if kept:
        detail = f"adopt.keep lists {', '.join(kept)}, so it does not change"
    elif theirs:
        detail = f"it is set in {theirs}, which gpupools does not manage"
    elif change.effect is EditEffect.REPLACE:
        detail = "an adopted pool keeps its name, so no replacement can be created"
    else:
        return change
    return replace(change, effect=EditEffect.REFUSED, pods=PodImpact.STAY, detail=detail, adopted=True)


Inputs = Mapping[str, JsonObject]
"""Inputs of the resources of pools, by the name of each pool's component and as `declared_leaves`."""


def with_inputs(
    changes: Iterable[PoolChange], old: Inputs, new: Inputs, plan: StackPlan, clouds: Clouds
) -> Iterator[PoolChange]:
    """Yield the changes with the inputs that differ and that none of their fields tells.

    These are what another version of gpupools declares otherwise, and what somebody changed in the cloud before
    `pulumi refresh`: `old` is what the pools' resources have in a state, and `new` what is declared.
    """
    plans = {f"{pool_plan.cluster}-{pool_plan.name}": pool_plan for pool_plan in plan.pools}
    for change in changes:
        name = f"{change.cluster}-{change.pool}"
        if change.change in ("changed", "unchanged") and name in plans and name in new:
            pool = plans[name]
            tables = clouds[pool.cloud].node_pools.edits()
            moved = changed_leaves(old.get(name, {}), new[name], _ignored_inputs(pool, old.get(name, {}), new[name]))
            fields = strongest_first([*change.fields, *_untold(moved, change.fields, tables)])
            effect = strongest(field.effect for field in fields)
            pods, at_once = pod_impact(fields, {}, pool)
            change = replace(change, change="changed" if fields else "unchanged", effect=effect, fields=fields)
            change = replace(change, pods=pods, nodes_at_once=max(at_once, change.nodes_at_once))
        yield change


def _ignored_inputs(plan: PoolPlan, old: Iterable[str], new: Container[str]) -> list[str]:
    """Return the inputs whose changes the engine ignores; of an adopted pool also what the program leaves out."""
    found = list(plan.provider_plan.ignored_inputs(is_fixed=plan.min_nodes == plan.max_nodes))
    adopted = plan.provider_plan.adopted
    return found if adopted is None else [*found, *adopted.kept, *(path for path in old if path not in new)]


def _untold(moved: Changed, fields: Sequence[FieldChange], tables: EditTables) -> Iterator[FieldChange]:
    """Yield changed inputs that no edited field covers. A replaced pool has none, since its name changes too."""
    if all(field.effect is not EditEffect.REPLACE for field in fields):
        yield from input_changes(moved, [path for field in fields for path in field.inputs], tables)


def _field_change(
    name: str, old: Any, new: Any, plan: PoolPlan, tables: EditTables, moved: Changed | None
) -> FieldChange:
    """Return what an edited field does by the inputs that change with it: all that it becomes if that is not known."""
    if name.startswith("overrides."):
        path = name.removeprefix("overrides.")
        edit = input_edit(path, tables.inputs)
        details = [edit.detail] if edit.detail else []
        details += [
            f"{key} is {why}" for key, why in plan.node_customizations.items() if f"{path}.".startswith(f"{key}.")
        ]
        inputs = (path.partition(".")[2],)
        return FieldChange(name, old, new, edit.effect, "; ".join(details), edit.pods, inputs=inputs)
    row = edit_of(name, plan, old, new, tables)
    paths = [both_name for path in moved or () for both_name in both_names(path)]
    changed = row.inputs if moved is None else [path for path in row.inputs if is_among(path, paths)]
    # An address of the cluster that is no input is the provider's: everything is in another place then.
    edit = tables.edit_by(row, row.inputs if name.startswith("cluster.") and not changed else changed)
    if edit.effect is not EditEffect.NONE and any(is_output(value) for value in (old, new)):
        detail = "its value is known only during the update"
        return FieldChange(name, old, new, EditEffect.UNKNOWN, detail, PodImpact.UNKNOWN, inputs=row.inputs)
    keeps = f"; set first_name: {format_value(old)} to keep it" if name == "first_name" else ""
    return FieldChange(name, old, new, edit.effect, edit.detail + keeps, edit.pods, inputs=row.inputs)
