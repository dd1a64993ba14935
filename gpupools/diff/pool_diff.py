"""Report the effects of an edit on running nodes: compare two plans field by field. Pure.

The effect of a field is a row in the cloud's `EditTables`. It names the inputs of the cloud's resources that the field
sets; `EditTables.inputs` has the effects of those.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, PlainSerializer, StrictBool, TypeAdapter, ValidationError

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import GPU_TAINT, Effect, Taint
from gpupools.diff.format_values import format_change, format_value
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import (
    SEVERITY,
    STRENGTH,
    EditEffect,
    EditTables,
    InputEdit,
    PlanEdit,
    PodImpact,
    unknown_edit,
)
from gpupools.plan.node_labels import DESCRIBING_LABELS
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan, gpus_as_json
from gpupools.spec.models import Cluster, Late, StackOutput, has_control_daemon
from gpupools.spec.overrides import tellable
from gpupools.stackfile.stack import StackPlan
from gpupools.stackfile.stack_validation import Stack


def strongest(effects: Iterable[EditEffect]) -> EditEffect:
    """Return the strongest effect; `none` if there are none."""
    return max(effects, key=STRENGTH.__getitem__, default=EditEffect.NONE)


@dataclass(frozen=True)
class FieldChange:
    """A field of a plan whose value differs between two stack files."""

    field: str
    old: Any
    """As JSON types; None where the old plan has no such field."""
    new: Any
    effect: EditEffect
    detail: str = ""
    pods: PodImpact | None = None
    """What it does to running pods; None for software, whose changes say it in words."""
    adopted: bool = False
    """Whether the change is impossible because the pool is adopted."""

    def __str__(self) -> str:
        return format_change(self.field, *self._printable_values)

    @property
    def is_output(self) -> bool:
        """Return whether only an output of another stack has changed."""
        return self.detail.startswith(_OUTPUT)

    @property
    def _printable_values(self) -> tuple[Any, Any]:
        """The values as they may be printed."""
        if ENCRYPTED in (self.new if isinstance(self.new, list) else [self.new]):
            return "(encrypted)", "(encrypted)"  # a record of an older release may have the value in clear
        old, new = ("(encrypted)" if _is_hidden(each) else each for each in (self.old, self.new))
        if not self.field.startswith("overrides."):
            return old, new
        return tellable(self.field, old), tellable(self.field, new)

    def as_json(self) -> JsonDict:
        """Return field, old, new, effect and what happens to pods."""
        old, new = self._printable_values
        pods = {} if self.pods is None else {"pods": self.pods.value}
        return {"field": self.field, "old": old, "new": new, "effect": self.effect.value, **pods}


def strongest_first(changes: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    """Return changes in the order in which `PoolChange` has them."""
    return tuple(sorted(changes, key=lambda each: -STRENGTH[each.effect]))


@dataclass(frozen=True)
class PoolChange:
    """What happens to one pool on one cluster."""

    cluster: str
    pool: str
    """The pool's key in the new file, of a deleted pool in the old one."""
    change: str
    """`created`, `deleted`, `renamed`, `changed` or `unchanged`."""
    effect: EditEffect
    """The strongest effect of the fields; `replace` for a deleted pool, since its nodes are deleted."""
    fields: tuple[FieldChange, ...]
    """The strongest first."""
    nodes: str
    """The affected nodes, in words: `up to 4 nodes × 8 GPUs`."""
    former: str = ""
    """The key of a renamed pool in the old file."""
    old_protection_counts: bool = False
    """`EditTables.old_protection_counts` of the cloud its nodes are in before the edit."""
    production: bool = False
    """Whether it is a production pool, before the edit or after it."""
    protected: bool = False
    """Whether it was declared protected before the edit."""
    recorded: bool = True
    """Whether it is known what it was before the edit."""
    adopts: str = ""
    """For a created pool, the existing pool in the cloud that it imports."""
    looks_like: str = ""
    """For a created pool, the deleted pool that differs only in name, and vice versa."""
    pods: PodImpact = PodImpact.STAY
    """The worst that happens to running pods."""
    nodes_at_once: int = 0
    """On how many nodes at most at the same time; 0 where pods stay or nobody knows."""

    @property
    def destroys(self) -> bool:
        """Return whether the pool is replaced or deleted, or may be because a value is not in the file."""
        return self.effect in (EditEffect.REPLACE, EditEffect.UNKNOWN)

    @property
    def disrupts(self) -> bool:
        """Return whether pods of several nodes end at once, or GPUs in use are cut."""
        return self.pods in (PodImpact.EVICTED, PodImpact.BLOCKED)

    def as_json(self) -> JsonDict:
        """Return cluster, pool, change, effects, fields and the pool that it may have been renamed from."""
        changed = [each.as_json() for each in self.fields]
        return {
            "cluster": self.cluster,
            "pool": self.pool,
            "change": self.change,
            "effect": self.effect.value,
            "pods": self.pods.value,
            "nodes_at_once": self.nodes_at_once,
            "fields": changed,
            "adopts": self.adopts or None,
            "perhaps_renamed_from": self.looks_like if self.change == "created" and self.looks_like else None,
        }

    def __str__(self) -> str:
        return f"{self.key}: {'; '.join(filter(None, [self.impact, self._description()]))}"

    @property
    def impact(self) -> str:
        """What happens to running pods, in words; empty where they stay."""
        count = self.nodes_at_once
        nodes = "1 node" if count == 1 else f"{count} nodes"
        if self.effect is EditEffect.UNKNOWN:  # which says it
            return ""
        return {
            PodImpact.STAY: "pods stay" if self.effect is EditEffect.IN_PLACE and self.change == "changed" else "",
            PodImpact.NEW_NODES: "pods stay, new nodes change",
            PodImpact.DRAINED: f"drains {'up to ' if count > 1 else ''}{nodes} at a time",
            PodImpact.UNKNOWN: "effect on pods unknown",
            PodImpact.BLOCKED: f"blocked on up to {nodes} until no pod uses their GPUs",
            PodImpact.EVICTED: (
                f"ends pods on up to {nodes} at once"
                if count > 1
                else f"ends pods on {nodes if count else 'all its nodes'}"
            ),
        }[self.pods]

    @property
    def key(self) -> str:
        """The pool as `gpupools:allow_destroy` names it: `<cluster>/<pool>`."""
        return f"{self.cluster}/{self.pool}"

    def _description(self) -> str:
        if self.adopts:
            return f"imports {self.adopts} unchanged, {self.nodes}"
        if self.change == "created":
            was = self.looks_like
            keep = f"; if this is {was} renamed, set renamed_from: {was} to keep the nodes"
            return f"creates {self.nodes}{keep if was else ''}"
        if self.change == "deleted":
            return f"deletes {self.nodes}"
        renamed = f"renamed from {self.former}; " if self.former else ""
        if self.former and not self._changes_besides_label():
            label = " but their label" if self.fields else ""
            return f"{renamed}no change for the nodes{label}"
        return renamed + self._effect_description()

    def _effect_description(self) -> str:
        if self.effect is EditEffect.REPLACE:
            return f"replaces {self.nodes}; creates the new pool before it deletes the old one"
        return {
            EditEffect.UNKNOWN: "effect unknown until pulumi preview",
            EditEffect.NONE: "no change for the nodes",
            EditEffect.IN_PLACE: "in place",
            EditEffect.REFUSED: "refused by the cloud",
        }.get(self.effect, self.effect.value)

    def reasons(self) -> list[str]:
        """Return what happens to pods because of the fields, and what pods have to do whatever the nodes go through."""
        stay = self.pods is PodImpact.STAY
        open_ends = (EditEffect.UNKNOWN, EditEffect.REFUSED)
        telling = [each for each in self.fields if each.effect in open_ends or (each.pods is self.pods and not stay)]
        telling += [each for each in self.fields if each.field.endswith(".rename")]
        # So is what by hand runs on the nodes or opens them.
        telling += [each for each in self.fields if each.field.startswith("overrides.")]
        return list(dict.fromkeys(each.detail for each in telling if each.detail))

    def _changes_besides_label(self) -> list[FieldChange]:
        quiet = _NAME_FIELDS - {"first_name"}
        return [each for each in self.fields if each.field not in quiet and each.effect != EditEffect.NONE]

    def decisive(self) -> list[FieldChange]:
        """Return the fields with the strongest effect, without one that repeats another's values."""
        seen: dict[tuple[str, str], FieldChange] = {}
        for each in self.fields:
            if each.effect is self.effect:
                seen.setdefault((str(each.old), str(each.new)), each)
        return list(seen.values())


def whole_numbers(value: Any) -> Any:
    """Convert floats without a fraction to int: Pulumi returns every number as a float."""
    if isinstance(value, list):
        return [whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _form(record: type) -> TypeAdapter[Any]:
    return TypeAdapter(record)


class Record:
    """What the program keeps in the state for comparison with a later plan; a later release may know more fields."""

    def as_json(self) -> JsonDict:
        """Return the record in JSON types, without values that are None."""
        found: JsonDict = _form(type(self)).dump_python(self, mode="json")  # type: ignore[arg-type]
        return found

    @classmethod
    def from_json(cls, raw: object) -> Self | None:
        """Read what `as_json` wrote, with numbers as floats if need be; None when it is something else."""
        try:
            found: Self = _form(cls).validate_python(raw)  # type: ignore[arg-type]
        except ValidationError:
            return None
        return found


RecordedValues = Annotated[
    JsonObject,
    AfterValidator(lambda values: {name: whole_numbers(value) for name, value in values.items()}),
    PlainSerializer(lambda values: {name: value for name, value in values.items() if value is not None}),
]
"""Values by dotted name."""


@dataclass(frozen=True)
class PoolRecord(Record):
    """The recorded plan of a pool in JSON types, for comparison with a later plan."""

    cluster: str
    pool: str
    cloud: str
    nodes: str
    """Its nodes in words: `up to 4 nodes × 8 GPUs`."""
    production: StrictBool
    exempt: StrictBool
    """Whether it had `protect: false`, so that it is not a production pool even in a production stack."""
    protected: StrictBool
    """Whether it was declared protected: false for a production pool that `allow_destroy` named."""
    fields: tuple[str, ...]
    """Everything its plan said, as `planned_values` names it without parts: a later release may know other fields."""
    values: RecordedValues
    """`planned_values`; what is not there was None."""

    @property
    def shares_by_mps(self) -> bool:
        """Return whether its pods share GPUs through the control daemon of the device plugin's chart."""
        mode = self.values.get("sharing.share.mode") or self.values.get("sharing.mode")
        return has_control_daemon(str(mode))


def record(plan: PoolPlan, stack: Stack) -> PoolRecord:
    """Return the record of a pool for comparison with a later plan."""
    cluster = stack.clusters[plan.cluster]
    return PoolRecord(
        plan.cluster,
        plan.name,
        plan.cloud,
        _node_count(plan),
        stack.is_production(plan.name),
        stack.is_exempt(plan.name),
        stack.protects(plan.cluster, plan.name),
        tuple(sorted(set(map(_top_field, _values(plan, cluster))))),
        planned_values(plan, cluster),
    )


def changed_outputs(stack: Stack, *references: Mapping[str, JsonObject]) -> dict[str, tuple[Any, ...]]:
    """Return the outputs that a stack uses, by the text that `with_stack` has for them: their values in each reference.

    `references` are other stacks' outputs by stack, of the last update and now. What one of them lacks is left out.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for cluster in stack.clusters.values():
        for output in cluster.late_outputs().values():
            values: list[Any] = [outputs.get(str(cluster.stack)) for outputs in references]
            for key in output.output.split("."):
                values = [value.get(key) if isinstance(value, Mapping) else None for value in values]
            if None not in values:
                found[with_stack(output, cluster.stack)] = tuple(map(whole_numbers, values))
    return found


def _resolved(value: Any, outputs: Mapping[str, tuple[Any, ...]], which: int) -> Any:
    if isinstance(value, list):
        return [_resolved(each, outputs, which) for each in value]
    return outputs[value][which] if isinstance(value, str) and value in outputs else value


def compare(
    old: Iterable[PoolRecord],
    new: StackPlan,
    clouds: Mapping[str, Cloud],
    outputs: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
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
            adopted = plan.provider_plan.adopted_pool()
            created = PoolChange(plan.cluster, plan.name, "created", EditEffect.IN_PLACE, (), _node_count(plan))
            changes.append(replace(created, adopts=adopted.name if adopted is not None else ""))
            continue
        changed = _changes(was, plan, new.stack.clusters[plan.cluster], clouds, outputs)
        what = "renamed" if renamed else "changed" if changed else "unchanged"
        effect = strongest(each.effect for each in changed)
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
    return [
        replace(change, looks_like=alike.get((change.change, change.cluster, change.pool), "")) for change in changes
    ]


def pod_impact(changed: Iterable[FieldChange], was: JsonObject, plan: PoolPlan) -> tuple[PodImpact, int]:
    """Return the worst that an edit does to running pods, and on how many nodes at most at the same time.

    Args:
        changed: The fields that change.
        was: `planned_values` of the pool before.
        plan: The pool after.
    """
    changed = [each for each in changed if each.pods is not None]
    worst = max((each.pods for each in changed if each.pods), key=SEVERITY.__getitem__, default=PodImpact.STAY)
    nodes = max(_number(was.get("nodes.max", plan.max_nodes)), 1)
    if worst is PodImpact.DRAINED:
        now = planned_drains(vars(plan.provider_plan), plan)
        at_once = min(max(planned_drains(was, plan), now, 1), nodes)
        return (PodImpact.EVICTED if at_once == nodes > 1 else worst), at_once
    if worst is PodImpact.EVICTED and all(each.field in _SIZES for each in changed if each.pods is worst):
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
    made: Iterable[PoolPlan], gone: Iterable[PoolRecord], stack: Stack, clouds: Mapping[str, Cloud]
) -> dict[tuple[str, str, str], str]:
    """Return deleted and created pools that are probably one renamed pool, by change, cluster and pool.

    They match if `renamed_from` would keep the nodes or roll them; the most similar pairs come first.
    """
    found: dict[tuple[str, str, str], str] = {}
    pairs: list[tuple[int, PoolPlan, PoolRecord]] = []
    there: dict[tuple[str, str, str], list[PoolRecord]] = {}
    for was in gone:
        there.setdefault((was.cluster, was.cloud, str(was.values.get("instance_type"))), []).append(was)
    for plan in made:
        for was in there.get((plan.cluster, plan.cloud, plan.instance.name), [])[:_MAX_COMPARED]:
            fields = _changes(was, plan, stack.clusters[plan.cluster], clouds)
            differing = [each for each in fields if each.field not in _NAME_FIELDS]
            if all(STRENGTH[each.effect] <= STRENGTH[EditEffect.ROLLING] for each in differing):
                pairs.append((len(differing), plan, was))
    for _, plan, was in sorted(pairs, key=lambda pair: pair[0]):
        ours, theirs = ("created", plan.cluster, plan.name), ("deleted", was.cluster, was.pool)
        if ours not in found and theirs not in found:
            found |= {ours: was.pool, theirs: plan.name}
    return found


_MAX_COMPARED = 20
"""Most deleted pools that a created one is compared with, to bound the work."""

_NAME_FIELDS = frozenset({f"labels.{POOL_LABEL}", "first_name", "protect"})
"""Fields that follow from the name of a pool and the protection of its cluster."""


def _with_record(change: PoolChange, was: PoolRecord, production: bool, clouds: Mapping[str, Cloud]) -> PoolChange:
    cloud = clouds.get(was.cloud)  # a record may be of a release that knew other clouds
    counts = cloud is not None and cloud.node_pools.edits().old_protection_counts
    return replace(change, old_protection_counts=counts, production=production, protected=was.protected)


def planned_values(plan: PoolPlan, cluster: Cluster) -> JsonDict:
    """Return everything the cloud's resources are made from, by dotted name, as JSON types.

    The portable part of the plan, the cloud's own settings, and as `cluster.…` the cluster's addresses; what the cloud
    adds by itself is in none of them.
    """
    return dict(leaves("", _values(plan, cluster)))


def _values(plan: PoolPlan, cluster: Cluster) -> JsonDict:
    inputs = cluster.pool_inputs(plan.provider_plan.requested_zones())
    return {
        "instance_type": plan.instance.name,
        "software": plan.software,
        "sharing": plan.sharing,
        "trust": plan.trust,
        "taints": sorted(map(str, plan.node_taints)),  # a node's taints have no order
        "labels": {key: value for key, value in plan.labels.items() if key not in DESCRIBING_LABELS},
        "nodes": {"min": plan.min_nodes, "max": plan.max_nodes},
        "disk_gib": plan.disk_gib,
        # The plan has the labels and taints of the settings among its own, and what is set by hand by its full path.
        **{key: value for key, value in vars(plan.provider_plan).items() if key not in _PORTABLE},
        **plan.provider_plan.key_values,
        **{
            f"overrides.{path}": _REMOVED if value is None else value
            for path, value in plan.overrides.items()
            if "." in path
        },
        **{f"cluster.{key}": with_stack(value, cluster.stack) for key, value in inputs.items()},
    }


_REMOVED = "(taken away)"
"""Stands for `null`, which removes an input by hand and so is an edit like any other value."""


def _top_field(name: str) -> str:
    """Return the field of a plan that a dotted name belongs to."""
    first, _, rest = name.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "cluster" else first


_PORTABLE = frozenset(
    {"labels", "taints", "overrides", "key_values", "fabric", "most_pods"}
)  # the last two are what pods ask for and how many fit, and nothing of a pool's


def with_stack(value: Any, stack: object) -> Any:
    """Replace outputs of other stacks by a text that cannot be an address."""
    if isinstance(value, StackOutput):
        return f"{_OUTPUT}{stack}: {value.output}"
    if isinstance(value, Late):
        return ENCRYPTED
    return [with_stack(each, stack) for each in value] if isinstance(value, list) else value


_OUTPUT = "output of "
ENCRYPTED = f"{_OUTPUT}the configuration"
"""Stands for an encrypted value of the stack file, which no record has: any two count as the same."""


def encrypted_keys(cluster: Cluster) -> list[str]:
    """Return the keys of a cluster whose values are encrypted: no record has them."""

    def is_late(value: Any) -> bool:
        value = dict(value) if isinstance(value, BaseModel) else value
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        return isinstance(value, Late) or any(map(is_late, inner))

    return [key for key in type(cluster).model_fields if is_late(getattr(cluster, key))]


class _Hidden(str):
    """A text that may be a secret: it is compared, and not printed."""


def _is_hidden(value: Any) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, _Hidden) or any(map(_is_hidden, inner))


def hide_addresses(value: Any, is_address: bool = False) -> Any:
    """Return a record with the addresses of its cluster as texts that are compared, but not printed."""
    if isinstance(value, Mapping):
        parts = ("cluster.", "access", "identity")
        return {key: hide_addresses(each, is_address or key.startswith(parts)) for key, each in value.items()}
    if isinstance(value, list):
        return [hide_addresses(each, is_address) for each in value]
    return _Hidden(value) if is_address and isinstance(value, str) else value


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value by dotted name, in JSON types."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping) and (value or not name):
        for key, inner in value.items():
            yield from leaves(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple) and any(hasattr(each, "_asdict") for each in value):
        for index, inner in enumerate(value):
            yield from leaves(f"{name}.{index}", inner)
    elif isinstance(value, list | tuple):
        yield name, [_as_json(each) for each in value]
    elif isinstance(value, Enum):
        yield name, value.value
    elif not isinstance(value, Mapping) or name.startswith("overrides."):  # an empty map set by hand is an input
        yield name, value


def _as_json(value: Any) -> Any:
    """Write an item of a list as it comes back from JSON."""
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return str(value) if isinstance(value, Taint) else value


def _changes(
    old: PoolRecord,
    new: PoolPlan,
    cluster: Cluster,
    clouds: Mapping[str, Cloud],
    outputs: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
) -> tuple[FieldChange, ...]:
    if old.cloud != new.cloud:
        change = FieldChange("cluster.cloud", old.cloud, new.cloud, EditEffect.REPLACE, pods=PodImpact.EVICTED)
        return (change,)
    before, after = old.values, planned_values(new, cluster)
    # A field that only one release knows cannot have been edited; the record may be another release's.
    known = {*old.fields, "overrides"} & {*map(_top_field, _values(new, cluster)), "overrides"}
    tables = clouds[new.cloud].node_pools.edits()
    unordered = new.provider_plan.unordered | {f"cluster.{key}" for key in cluster.unordered}  # the cloud has sets
    found: list[FieldChange] = []
    for name in dict.fromkeys([*before, *after]):
        written = before.get(name)
        was, now = _resolved(written, outputs, 0), _resolved(after.get(name), outputs, 1)
        if not same_value(was, now, name in unordered) and _top_field(name) in known:
            change = _field_change(name, was, now, new, tables)
            if written == after.get(name):
                source = ", ".join(written) if isinstance(written, list) else written
                detail = "; ".join(filter(None, [f"{source} has changed", change.detail]))
                change = replace(change, detail=detail)
            found.append(change)
    if new.provider_plan.adopted_pool() is not None:
        was = "adopted.name" in before
        # Nothing is made of the first name of a pool that has one already.
        found = [each for each in found if each.field != "first_name" or not was]
        found = [_adopted_change(each, was_adopted=was, new=new, tables=tables) for each in found]
    return strongest_first(found)


def _adopted_change(change: FieldChange, *, was_adopted: bool, new: PoolPlan, tables: EditTables) -> FieldChange:
    """Reject a change that an adopted pool cannot have: it keeps its name and the inputs in adopt.keep."""
    if change.field == "adopted.kept" and was_adopted:
        detail = "the pool's own setting applies from now on"
        return replace(change, effect=EditEffect.UNKNOWN, pods=PodImpact.UNKNOWN, detail=detail)
    if change.field.startswith("adopted"):
        return replace(change, adopted=True)
    adopted = new.provider_plan.adopted_pool()
    if not was_adopted or adopted is None:
        return change
    inputs = inputs_of(change, new, tables)
    theirs = new.provider_plan.kept_input(change.field, inputs)
    kept = [path for path in inputs if is_among(path, adopted.kept)]
    if kept:
        detail = f"adopt.keep lists {', '.join(kept)}, so it does not change"
    elif theirs:
        detail = f"it is set in {theirs}, which gpupools does not manage"
    elif change.effect is EditEffect.REPLACE:
        detail = "an adopted pool keeps its name, so no replacement can be created"
    else:
        return change
    return replace(change, effect=EditEffect.REFUSED, pods=PodImpact.STAY, detail=detail, adopted=True)


def inputs_of(change: FieldChange, plan: PoolPlan, tables: EditTables) -> tuple[str, ...]:
    """Return the inputs of the cloud's resources that a changed field sets."""
    if change.field.startswith("overrides."):
        return (change.field.removeprefix("overrides.").partition(".")[2],)
    return edit_of(change.field, plan, change.old, change.new, tables).inputs


def is_among(path: str, paths: Iterable[str]) -> bool:
    """Return whether a dotted path is one of some paths, or a part of one, or one is a part of it."""
    return any(f"{path}.".startswith(f"{each}.") or f"{each}.".startswith(f"{path}.") for each in paths)


def same_value(old: Any, new: Any, unordered: bool = False) -> bool:
    """Return whether a value stays, also one that is encrypted now."""
    if isinstance(old, list) and isinstance(new, list) and ENCRYPTED in new:
        clear = [each for each in new if each != ENCRYPTED]
        return len(old) == len(new) and all(each in old for each in clear)
    if new == ENCRYPTED:
        return old is not None
    if unordered and isinstance(old, list) and isinstance(new, list):
        return sorted(map(str, old)) == sorted(map(str, new))
    return bool(old == new)


def in_recorded_order(plan: PoolPlan, earlier: PoolRecord | None) -> PoolPlan:
    """Return the plan with unordered values in the order in which the pool was created.

    AKS pool names contain a hash of the zones, so another order would replace the pool.
    """
    kept: JsonDict = {
        name: tuple(old)
        for name in plan.provider_plan.unordered
        if earlier is not None
        and isinstance(old := earlier.values.get(name), list)
        and isinstance(new := getattr(plan.provider_plan, name, None), tuple)
        and same_value(old, list(new), unordered=True)
    }
    return plan._replace(provider_plan=replace(plan.provider_plan, **kept)) if kept else plan


def _field_change(name: str, old: Any, new: Any, plan: PoolPlan, tables: EditTables) -> FieldChange:
    if name.startswith("overrides."):
        path = name.removeprefix("overrides.")
        edit = input_edit(path, tables.inputs)
        details = [edit.detail] if edit.detail else []
        details += [
            f"{each} is {why}" for each, why in plan.node_customizations.items() if f"{path}.".startswith(f"{each}.")
        ]
        return FieldChange(name, old, new, edit.effect, "; ".join(details), edit.pods)
    row = edit_of(name, plan, old, new, tables)
    if row.effect is not EditEffect.NONE and any(_is_output(value) for value in (old, new)):
        detail = "its value is known only during the update"
        return FieldChange(name, old, new, EditEffect.UNKNOWN, detail, PodImpact.UNKNOWN)
    keeps = f"; set first_name: {format_value(old)} to keep it" if name == "first_name" else ""
    return FieldChange(name, old, new, row.effect, row.detail + keeps, row.pods)


def _is_output(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_is_output, value))
    return isinstance(value, str) and value.startswith(_OUTPUT)


def edit_of(name: str, plan: PoolPlan, old: Any, new: Any, tables: EditTables) -> PlanEdit:
    """Return the row for a field of a plan, or for the closest field that contains it; `unknown` if there is none."""
    for start in _prefixes(name):
        for row in tables.plan:
            if row.field == start and all(_holds(each, name, plan, old, new) for each in row.when.split(";") if each):
                return row
    unknown = unknown_edit(name)
    return PlanEdit(name, "", unknown.effect, unknown.pods, (), unknown.detail)


def _holds(condition: str, name: str, plan: PoolPlan, old: Any, new: Any) -> bool:
    """Return whether a condition of `PlanEdit.when` holds."""
    key, equals, value = condition.partition("=")
    if equals:
        return str(getattr(plan.provider_plan, key)) == value
    if condition in ("raised", "lowered"):
        return old is not None and new is not None and (new > old if condition == "raised" else new < old)
    if condition == "no-execute":
        return any(str(each).endswith(f":{Effect.NO_EXECUTE.value}") for each in set(new or ()) - set(old or ()))
    if condition == "gpu-taint":
        return any(_is_gpu_taint(str(each)) for each in set(old or ()) - set(new or ()))
    if condition == "zone-removed":
        return old is None or (new is not None and bool(set(old) - set(new)))
    if condition == "control-daemon":
        return any(has_control_daemon(str(each)) for each in (old, new, plan.sharing.kind))
    by_operator = plan.software == "gpu-operator" and not name.startswith("sharing.share")
    return by_operator and ("mig" in (old, new) or plan.sharing.mig is not None)


def _is_gpu_taint(text: str) -> bool:
    rest = text.removeprefix(GPU_TAINT.key)
    return text != rest and rest.startswith(("=", ":")) and rest.endswith(f":{GPU_TAINT.effect.value}")


def input_edit(path: str, inputs: Mapping[str, InputEdit]) -> InputEdit:
    """Return the row for an input: by `LaunchTemplate.…` if a cloud has several resources, else by the input alone.

    For a map that has rows only for its parts, return the strongest one, since removing the map removes them all.
    """
    bare = path.partition(".")[2]
    for start in (*_prefixes(path), *(_prefixes(bare) if bare else ())):
        if start in inputs:
            return inputs[start]
    below = tuple(f"{each}." for each in (path, bare) if each)
    parts = [edit for name, edit in inputs.items() if name.startswith(below)]
    return max(parts, key=lambda edit: STRENGTH[edit.effect], default=unknown_edit(path))


def _prefixes(name: str) -> Iterator[str]:
    """Yield a dotted name and its prefixes, longest first."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(len(parts), 0, -1))


def _node_count(plan: PoolPlan) -> str:
    count = "" if plan.min_nodes == plan.max_nodes else "up to "
    gpus = gpus_as_json(plan.instance.gpus)
    nodes = "node" if plan.max_nodes == 1 else "nodes"
    return f"{count}{plan.max_nodes} {nodes} × {gpus} {'GPU' if gpus == 1 else 'GPUs'}"
