"""What the program records of a pool in the state, and the plan that a record stands for. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, PlainSerializer, StrictBool, TypeAdapter, ValidationError

from gpupools.common.errors import amount_of
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import Taint, parse_taint
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_labels import DESCRIBING_LABELS
from gpupools.plan.pool_plan import PoolPlan, gpus_as_json
from gpupools.plan.pool_planner import offered_resources
from gpupools.readback.inputs import at
from gpupools.spec.models import Cluster, Late, Sharing, StackOutput, has_control_daemon
from gpupools.stackfile.stack_validation import Stack


def whole_numbers(value: Any) -> Any:
    """Convert floats without a fraction to int: Pulumi returns every number as a float."""
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _form(record: Any) -> TypeAdapter[Any]:
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
        node_count(plan),
        stack.is_production(plan.name),
        stack.is_exempt(plan.name),
        stack.protects(plan.cluster, plan.name),
        tuple(sorted(set(map(top_field, plan_values(plan, cluster))))),
        planned_values(plan, cluster),
    )


Outputs = Mapping[str, tuple[Any, ...]]
"""Outputs of other stacks, by the text that `with_stack` has for them: their values in each reference."""


def changed_outputs(stack: Stack, *references: Mapping[str, JsonObject]) -> Outputs:
    """Return the outputs that a stack uses.

    `references` are other stacks' outputs by stack, of the last update and now. What one of them lacks is left out.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for cluster in stack.clusters.values():
        for output in cluster.late_outputs().values():
            values = [at(outputs.get(str(cluster.stack)), output.output) for outputs in references]
            if None not in values:
                found[with_stack(output, cluster.stack)] = tuple(map(whole_numbers, values))
    return found


def resolved(value: Any, outputs: Outputs, which: int) -> Any:
    """Return a value with the outputs in it, `which` of their values."""
    if isinstance(value, list):
        return [resolved(item, outputs, which) for item in value]
    return outputs[value][which] if isinstance(value, str) and value in outputs else value


def planned_values(plan: PoolPlan, cluster: Cluster) -> JsonDict:
    """Return everything the cloud's resources are made from, by dotted name, as JSON types.

    The portable part of the plan, the cloud's own settings, and as `cluster.…` the cluster's addresses; what the cloud
    adds by itself is in none of them.
    """
    return dict(leaves("", plan_values(plan, cluster)))


def plan_values(plan: PoolPlan, cluster: Cluster) -> JsonDict:
    """Return the values that `planned_values` flattens, by field."""
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
            f"overrides.{path}": REMOVED if value is None else value
            for path, value in plan.overrides.items()
            if "." in path
        },
        **{f"cluster.{key}": value for key, value in addresses(plan, cluster).items()},
    }


REMOVED = "(taken away)"
"""Stands for `null`, which removes an input by hand and so is an edit like any other value."""


def top_field(name: str) -> str:
    """Return the field of a plan that a dotted name belongs to."""
    first, _, rest = name.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "cluster" else first


_PORTABLE = frozenset(
    {"labels", "taints", "overrides", "key_values", "fabric", "most_pods"}
)  # the last two are what pods ask for and how many fit, and nothing of a pool's


def with_stack(value: Any, stack: object) -> Any:
    """Replace outputs of other stacks by a text that cannot be an address."""
    if isinstance(value, StackOutput):
        return f"{OUTPUT}{stack}: {value.output}"
    if isinstance(value, Late):
        return ENCRYPTED
    return [with_stack(item, stack) for item in value] if isinstance(value, list) else value


OUTPUT = "output of "


ENCRYPTED = f"{OUTPUT}the configuration"
"""Stands for an encrypted value of the stack file, which no record has: any two count as the same."""


def encrypted_keys(cluster: Cluster) -> list[str]:
    """Return the keys of a cluster whose values are encrypted: no record has them."""
    keys = type(cluster).model_fields
    return [key for key in keys if holds(getattr(cluster, key), lambda inner: isinstance(inner, Late))]


def holds(value: Any, is_meant: Callable[[Any], bool]) -> bool:
    """Return whether a value is meant, or one inside it."""
    value = dict(value) if isinstance(value, BaseModel) else value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return is_meant(value) or any(holds(item, is_meant) for item in inner)


class _Hidden(str):
    """A text that may be a secret: it is compared, and not printed."""


def is_hidden(value: Any) -> bool:
    """Return whether a value has a text that may be a secret."""
    return holds(value, lambda inner: isinstance(inner, _Hidden))


def hide_addresses(value: Any, is_address: bool = False) -> Any:
    """Return a record with the addresses of its cluster as texts that are compared, but not printed."""
    if isinstance(value, Mapping):
        parts = ("cluster.", "access", "identity")
        return {key: hide_addresses(item, is_address or key.startswith(parts)) for key, item in value.items()}
    if isinstance(value, list):
        return [hide_addresses(item, is_address) for item in value]
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
    elif isinstance(value, list | tuple) and any(hasattr(item, "_asdict") for item in value):
        for index, inner in enumerate(value):
            yield from leaves(f"{name}.{index}", inner)
    elif isinstance(value, list | tuple):
        yield name, [_as_json(item) for item in value]
    elif isinstance(value, Enum):
        yield name, value.value
    elif not isinstance(value, Mapping) or name.startswith("overrides."):  # an empty map set by hand is an input
        yield name, value


def _as_json(value: Any) -> Any:
    """Write an item of a list as it comes back from JSON."""
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return str(value) if isinstance(value, Taint) else value


def same_value(old: Any, new: Any, unordered: bool = False) -> bool:
    """Return whether a value stays, also one that is encrypted now."""
    if isinstance(old, list) and isinstance(new, list) and ENCRYPTED in new:
        clear = [item for item in new if item != ENCRYPTED]
        return len(old) == len(new) and all(item in old for item in clear)
    if new == ENCRYPTED:
        return old is not None
    if unordered and isinstance(old, list) and isinstance(new, list):
        return sorted(map(str, old)) == sorted(map(str, new))
    return bool(old == new)


def addresses(plan: PoolPlan, cluster: Cluster) -> JsonDict:
    """Return the values of the cluster that a pool depends on, as the record has them."""
    inputs = cluster.pool_inputs(plan.provider_plan.requested_zones())
    return {key: with_stack(value, cluster.stack) for key, value in inputs.items()}


def recorded_plan(values: JsonObject, changed: Collection[str], new: PoolPlan, cloud: Cloud) -> PoolPlan:
    """Return the plan that the last update had: the new one with recorded values of fields that have changed.

    `values` are the `planned_values` in the record, and `changed` has names in them or in those of the new plan.

    Raises:
        LookupError, TypeError, ValueError: Another release recorded values of another form.
    """
    hints = get_type_hints(type(new.provider_plan))
    tops = {name.partition(".")[0] for name in changed} & hints.keys() - _PORTABLE
    own = {top: _typed(hints[top], _below(top, values)) for top in tops}
    keys = new.provider_plan.key_values
    own["key_values"] = {field: values.get(field) if field in changed else value for field, value in keys.items()}
    name, software = str(values["instance_type"]), str(values["software"])
    instance = cloud.instance_types.find(name) or new.instance._replace(name=name)
    sharing = _form(Sharing).validate_python(_nested(_below("sharing", values)))
    # In the order of the new plan, where nothing else about them has changed.
    taints = tuple(map(parse_taint, values["taints"])) if "taints" in changed else new.node_taints
    describing = {key: value for key, value in new.labels.items() if key in DESCRIBING_LABELS}
    return new._replace(
        instance=instance,
        node_resources=offered_resources(instance, sharing, software),
        taints=tuple(taint for taint in taints if taint != new.startup_taint),
        startup_taint=new.startup_taint if new.startup_taint in taints else None,
        labels={**_below("labels", values), **describing},
        min_nodes=values["nodes.min"],
        max_nodes=values["nodes.max"],
        disk_gib=values["disk_gib"],
        provider_plan=replace(new.provider_plan, **own),
    )


def _below(top: str, values: JsonObject) -> JsonDict:
    """Return the parts of a field by their names inside it; the whole field by an empty name."""
    return {name[len(top) + 1 :]: value for name, value in values.items() if f"{name}.".startswith(f"{top}.")}


def _nested(parts: JsonObject) -> JsonDict:
    """Return what `leaves` took apart."""
    found: JsonDict = {}
    for name in dict.fromkeys(part.partition(".")[0] for part in parts):
        found[name] = parts[name] if name in parts else _nested(_below(name, parts))
    return found


def _typed(hint: Any, parts: JsonObject) -> Any:
    """Return a field of a cloud's part of a plan from its leaves."""
    if "" in parts:
        return tuple(parts[""]) if isinstance(parts[""], list) else parts[""]
    kind = next((item for item in (hint, *get_args(hint)) if hasattr(item, "_fields")), None)
    if kind is None:
        return parts if get_origin(hint) is Mapping or parts else None
    if all(name.partition(".")[0].isdigit() for name in parts) and parts:
        indices = dict.fromkeys(name.partition(".")[0] for name in parts)
        return tuple(_typed(kind, _below(index, parts)) for index in indices)
    return kind(**{**dict.fromkeys(kind._fields), **parts}) if parts else None


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


def is_output(value: object) -> bool:
    """Return whether a value stands for an output of another stack or something encrypted, or has one in a list."""
    return holds(value, lambda inner: isinstance(inner, str) and inner.startswith(OUTPUT))


def node_count(plan: PoolPlan) -> str:
    """Return the nodes of a pool in words: `up to 4 nodes × 8 GPUs`."""
    count, gpus = "" if plan.min_nodes == plan.max_nodes else "up to ", gpus_as_json(plan.instance.gpus)
    return f"{count}{amount_of(plan.max_nodes, 'node')} × {gpus} {'GPU' if gpus == 1 else 'GPUs'}"
