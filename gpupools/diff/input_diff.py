"""Compare the inputs that a stack's state has with those that this version of gpupools declares. Pure.

The records of pools show edits of the stack file. This shows the rest by the same tables: what another version of
gpupools declares otherwise, and what somebody changed in the cloud before `pulumi refresh`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.diff.guard import POOL_TYPE
from gpupools.diff.pool_diff import FieldChange, PoolChange, input_edit, inputs_of, strongest, strongest_first
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect, EditTables
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.spec.overrides import tellable
from gpupools.stackfile.stack import StackPlan


class DeclaredInputs(NamedTuple):
    """A resource of a state or a program, with `UNKNOWN` for encrypted values and those known only later."""

    urn: str
    inputs: JsonObject
    ignored: tuple[str, ...] = ()
    """Paths of inputs whose changes the engine ignores."""

    @property
    def kind(self) -> str:
        """Return the kind that the edit tables use: `LaunchTemplate`."""
        return self.urn.split("::")[2].rpartition(":")[2]


def with_inputs(
    changes: Iterable[PoolChange],
    old: Iterable[DeclaredInputs],
    new: Iterable[DeclaredInputs],
    plan: StackPlan,
    clouds: Mapping[str, Cloud],
) -> list[PoolChange]:
    """Return the changes with the inputs that differ and that none of their fields explains."""
    before, after = _by_pool(old), _by_pool(new)
    plans = {f"{each.cluster}-{each.name}": each for each in plan.pools}
    found: list[PoolChange] = []
    for change in changes:
        name = f"{change.cluster}-{change.pool}"
        if change.change in ("changed", "unchanged") and name in plans:
            tables = clouds[plans[name].cloud].node_pools.edits()
            explained = {path for each in change.fields for path in inputs_of(each, plans[name], tables)}
            more = list(_changed_inputs(before.get(name, {}), after.get(name, {}), explained, tables))
            if more:
                fields = strongest_first([*change.fields, *more])
                effect = strongest(each.effect for each in fields)
                change = replace(change, change="changed", effect=effect, fields=fields)
        found.append(change)
    return found


def _by_pool(resources: Iterable[DeclaredInputs]) -> dict[str, dict[str, DeclaredInputs]]:
    """Return the pools' own resources by the name of the pool's component, and by URN."""
    found: dict[str, dict[str, DeclaredInputs]] = {}
    pools: list[str] = []
    for each in resources:
        name = each.urn.rpartition("::")[2]
        if each.urn.split("::")[2] == POOL_TYPE:
            pools.append(name)
        elif f"{POOL_TYPE}$" in each.urn:
            pool = max((pool for pool in pools if name.startswith(f"{pool}-")), key=len, default="")
            found.setdefault(pool, {})[each.urn] = each
    return found


def _changed_inputs(
    before: Mapping[str, DeclaredInputs],
    after: Mapping[str, DeclaredInputs],
    explained: Collection[str],
    tables: EditTables,
) -> Iterator[FieldChange]:
    for urn in dict.fromkeys([*before, *after]):
        old, new = before.get(urn), after.get(urn)
        name = urn.rpartition("::")[2]
        if old is None or new is None:
            there = old or after[urn]
            if not any(path.startswith(f"{there.kind}.") for path in explained):
                edit = input_edit(there.kind, tables.inputs)
                yield FieldChange(there.kind, old and name, new and name, edit.effect, edit.detail)
            continue
        for path, was, now in _differences(old.inputs, new.inputs, ""):
            whole = f"{new.kind}.{path}"
            if not _is_among(path, new.ignored) and not any(_is_among(each, explained) for each in (path, whole)):
                edit = input_edit(whole.replace("Resource.properties.", "AgentPool."), tables.inputs)
                detail = "" if edit.effect is EditEffect.UNKNOWN else edit.detail
                yield FieldChange(whole, tellable(whole, was), tellable(whole, now), edit.effect, detail)


def _is_among(path: str, paths: Iterable[str]) -> bool:
    return any(f"{path}.".startswith(f"{each}.") or f"{each}.".startswith(f"{path}.") for each in paths)


def _differences(old: Any, new: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each path at which known values differ; what a provider has added by itself is no difference.

    Pulumi's bridged providers list the inputs that they added under `__defaults`:
    https://github.com/pulumi/pulumi-terraform-bridge, pkg/tfbridge/schema.go.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        added = {"__defaults", *(old.get("__defaults") or ())} - new.keys()
        for key in dict.fromkeys([*old, *new]):
            if key not in added:
                yield from _differences(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif not _holds_unknown(old) and not _holds_unknown(new) and _bare(old) != _bare(new):
        yield at, _bare(old), _bare(new)


def _holds_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_unknown, value.values()))
    return any(map(_holds_unknown, value)) if isinstance(value, list) else value is UNKNOWN


def _bare(value: Any) -> Any:
    """Return a value without `__defaults`, and an empty map as none."""
    if isinstance(value, Mapping):
        return {key: _bare(each) for key, each in value.items() if key != "__defaults"} or None
    return [_bare(each) for each in value] if isinstance(value, list) else value
