"""Compare the inputs of a pool's resources: those that were declared or are in a state, and those declared now. Pure.

Every effect on the nodes of a pool comes from an input that changes. The fields of a plan only name what was edited.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.diff.edit_rows import input_edit, is_among
from gpupools.diff.pool_change import FieldChange
from gpupools.diff.records import holds, is_output, leaves, whole_numbers
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import STRENGTH, EditTables
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.overrides import tellable

Changed = Mapping[str, tuple[Any, Any]]
"""Inputs that differ, by resource and path, with the old value and the new one."""


def declared_leaves(plan: PoolPlan, cluster: JsonObject, cloud: Cloud) -> JsonDict:
    """Return what is declared for a pool by resource and path: `NodeGroup.scalingConfig.maxSize`.

    `cluster` has the values of its cluster as a record has them; outputs of other stacks are not known yet.
    """
    known = {key: UNKNOWN if is_output(value) else value for key, value in cluster.items()}
    declared = cloud.node_pools.declared_inputs(plan, known)
    tags = {"Tag.tag": declared["Tag"]} if "Tag" in declared else {}
    resources = {**{kind: _pool_form(inputs) for kind, inputs in declared.items() if kind != "Tag"}, **tags}
    return {path: value for kind, inputs in resources.items() for path, value in leaves(kind, inputs)}


def state_leaves(urn: str, inputs: JsonObject) -> JsonDict:
    """Return the inputs of a resource of a pool, as a state or the engine has them, like `declared_leaves`."""
    kind = urn.split("::")[2].rpartition(":")[2]
    if kind == "Tag":  # one of many
        tag = inputs.get("tag") or {}
        return {f"Tag.tag.{tag.get('key')}": tag.get("value")}
    return dict(leaves("AgentPool" if kind == "Resource" else kind, _pool_form(_written(inputs))))


def _pool_form(inputs: JsonObject) -> JsonObject:
    """Return the inputs of an agent pool, also of one that is declared as a resource of Azure Resource Manager."""
    if "properties" not in inputs:
        return inputs
    above = inputs.get("parentResourcePath")
    return {
        **inputs["properties"],
        "apiVersion": inputs.get("apiVersion"),
        "agentPoolName": inputs.get("resourceName"),
        "resourceGroupName": inputs.get("resourceGroupName"),
        "resourceName": above.rpartition("/")[2] if isinstance(above, str) else above,
    }


def changed_leaves(old: JsonObject, new: JsonObject, ignored: Iterable[str] = ()) -> Changed:
    """Return what differs but for what is not known; a resource that comes or goes is a change besides its inputs."""
    before, after = ({path.partition(".")[0] for path in side} for side in (old, new))
    changed = {kind: (kind if kind in before else None, kind if kind in after else None) for kind in before ^ after}
    for path in dict.fromkeys([*old, *new]):
        was, now = old.get(path), new.get(path)
        if was == now or any(is_among(name, ignored) for name in both_names(path)):
            continue
        if None in (was, now) or not holds([was, now], lambda value: value is UNKNOWN):
            changed[path] = was, now
    return changed


def input_changes(moved: Changed, told: Iterable[str], tables: EditTables) -> Iterator[FieldChange]:
    """Yield the inputs that change and that no edited field is said to become."""
    told = list(told)
    untold = [path for path in moved if not any(is_among(name, told) for name in both_names(path))]
    whole = {path for path in moved if "." not in path}
    told_of = {path.partition(".")[0] for path in moved.keys() - set(untold)}
    for path in untold:
        kind, inside, _ = path.partition(".")
        if kind in whole and (inside or kind in told_of):
            continue  # the resource comes or goes, which is one line
        parts = [part for part in untold if part.startswith(f"{path}.")] or [path]
        edit = max((input_edit(part, tables.inputs) for part in parts), key=lambda row: STRENGTH[row.effect])
        old, new = (tellable(path, value) for value in moved[path])
        yield FieldChange(path, old, new, edit.effect, edit.detail, edit.pods)


def both_names(path: str) -> tuple[str, ...]:
    """Return the names that tables may have of an input: with its resource, and without."""
    return path, path.partition(".")[2] or path


def known_inputs(value: Any) -> Any:
    """Return inputs as the engine passes them, with `UNKNOWN` for secrets and for values known only later."""
    if isinstance(value, Mapping):
        return {key: known_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [known_inputs(item) for item in value]
    return whole_numbers(value) if value is None or isinstance(value, str | bool | int | float) else UNKNOWN


def _written(value: Any) -> Any:
    """Return inputs without those that the provider added, which bridged providers list under `__defaults`.

    https://github.com/pulumi/pulumi-terraform-bridge, pkg/tfbridge/schema.go
    """
    if isinstance(value, Mapping):
        added = {"__defaults", *(value.get("__defaults") or ())}
        return {key: _written(item) for key, item in value.items() if key not in added}
    return [_written(item) for item in value] if isinstance(value, list) else value
