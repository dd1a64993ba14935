"""Compare the inputs that a stack's state has with those that this version of gpupools declares. Pure.

The records of pools show edits of the stack file. This shows the rest by the same tables: what another version of
gpupools declares otherwise, and what somebody changed in the cloud before `pulumi refresh`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.diff.pool_diff import (
    FieldChange,
    PoolChange,
    input_edit,
    inputs_of,
    is_among,
    leaves,
    pod_impact,
    strongest,
    strongest_first,
    whole_numbers,
)
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect, EditTables
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.spec.overrides import tellable
from gpupools.stackfile.stack import StackPlan


class DeclaredInputs(NamedTuple):
    """A resource of a state or a program, with `UNKNOWN` for encrypted values and those known only later."""

    urn: str
    parent: str
    inputs: JsonObject
    ignored: tuple[str, ...] = ()
    """Paths of inputs whose changes the engine ignores."""


def with_inputs(
    changes: Iterable[PoolChange],
    old: Iterable[DeclaredInputs],
    new: Iterable[DeclaredInputs],
    plan: StackPlan,
    clouds: Mapping[str, Cloud],
) -> Iterator[PoolChange]:
    """Yield the changes with the inputs that differ and that none of their fields explains."""
    plans = {f"{each.cluster}-{each.name}": each for each in plan.pools}
    pools: dict[str, list[dict[str, DeclaredInputs]]] = {name: [{}, {}] for name in plans}
    for side, resources in enumerate((old, new)):
        for each in resources:
            pools.get(each.parent.rpartition("::")[2], [{}, {}])[side][each.urn] = each
    for change in changes:
        name = f"{change.cluster}-{change.pool}"
        if change.change in ("changed", "unchanged") and name in plans:
            tables = clouds[plans[name].cloud].node_pools.edits()
            explained = {path for each in change.fields for path in inputs_of(each, plans[name], tables)}
            before, after = pools[name]
            fields = strongest_first([*change.fields, *_changed_inputs(before, after, explained, tables)])
            effect = strongest(each.effect for each in fields)
            pods, at_once = pod_impact(fields, {}, plans[name])
            change = replace(change, change="changed" if fields else "unchanged", effect=effect, fields=fields)
            change = replace(change, pods=pods, nodes_at_once=max(at_once, change.nodes_at_once))
        yield change


def _changed_inputs(
    before: Mapping[str, DeclaredInputs],
    after: Mapping[str, DeclaredInputs],
    explained: Collection[str],
    tables: EditTables,
) -> Iterator[FieldChange]:
    for urn in dict.fromkeys([*before, *after]):
        kind, name = urn.split("::")[2].rpartition(":")[2], urn.rpartition("::")[2]
        if urn not in before or urn not in after:
            if not any(path.startswith(f"{kind}.") for path in explained):
                yield _change(kind, kind, before.get(urn) and name, after.get(urn) and name, tables)
            continue
        old, new = (dict(leaves("", _given(each[urn].inputs))) for each in (before, after))
        for path in dict.fromkeys([*old, *new]):
            was, now, whole = old.get(path), new.get(path), f"{kind}.{path}"
            known = not _holds_unknown([was, now]) and not is_among(path, after[urn].ignored)
            if was != now and known and not any(is_among(each, explained) for each in (path, whole)):
                yield _change(whole, whole.replace("Resource.properties.", "AgentPool."), was, now, tables)


def _change(path: str, row: str, old: Any, new: Any, tables: EditTables) -> FieldChange:
    edit = input_edit(row, tables.inputs)
    detail = "" if edit.effect is EditEffect.UNKNOWN else edit.detail
    return FieldChange(path, tellable(path, old), tellable(path, new), edit.effect, detail, edit.pods)


def _given(value: Any) -> Any:
    """Return inputs without those that the provider added, which bridged providers list under `__defaults`.

    https://github.com/pulumi/pulumi-terraform-bridge, pkg/tfbridge/schema.go
    """
    if isinstance(value, Mapping):
        added = {"__defaults", *(value.get("__defaults") or ())}
        return {key: _given(each) for key, each in value.items() if key not in added}
    return [_given(each) for each in value] if isinstance(value, list) else value


def known_inputs(value: Any) -> Any:
    """Return inputs as the engine passes them, with `UNKNOWN` for secrets and for values known only later."""
    if isinstance(value, Mapping):
        return {key: known_inputs(each) for key, each in value.items()}
    if isinstance(value, list):
        return [known_inputs(each) for each in value]
    return whole_numbers(value) if value is None or isinstance(value, str | bool | int | float) else UNKNOWN


def _holds_unknown(value: Any) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return value is UNKNOWN or any(map(_holds_unknown, inner))
