"""Find the rows of a cloud's tables for what changes: a field of a plan, or an input of a resource. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpupools.common.taints import GPU_TAINT, Effect
from gpupools.plan.edit_tables import STRENGTH, EditTables, InputEdit, PlanEdit, unknown_edit
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.models import has_control_daemon


def edit_of(name: str, plan: PoolPlan, old: Any, new: Any, tables: EditTables) -> PlanEdit:
    """Return the row for a field of a plan, or for the closest field that contains it; an empty one if none has."""
    for start in _prefixes(name):
        for row in tables.plan:
            if row.field == start and all(_holds(part, name, plan, old, new) for part in row.when.split(";") if part):
                return row
    return PlanEdit(name, "", (), None, "")


def _holds(condition: str, name: str, plan: PoolPlan, old: Any, new: Any) -> bool:
    """Return whether a condition of `PlanEdit.when` holds."""
    key, equals, value = condition.partition("=")
    if equals:
        return str(getattr(plan.provider_plan, key)) == value
    if condition in ("raised", "lowered"):
        return old is not None and new is not None and (new > old if condition == "raised" else new < old)
    if condition == "no-execute":
        return any(str(item).endswith(f":{Effect.NO_EXECUTE.value}") for item in set(new or ()) - set(old or ()))
    if condition == "gpu-taint":
        return any(_is_gpu_taint(str(item)) for item in set(old or ()) - set(new or ()))
    if condition == "zone-removed":
        return old is None or (new is not None and bool(set(old) - set(new)))
    if condition == "control-daemon":
        return any(has_control_daemon(str(kind)) for kind in (old, new, plan.sharing.kind))
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
    below = tuple(f"{prefix}." for prefix in (path, bare) if prefix)
    parts = [edit for name, edit in inputs.items() if name.startswith(below)]
    return max(parts, key=lambda edit: STRENGTH[edit.effect], default=unknown_edit(path))


def _prefixes(name: str) -> Iterator[str]:
    """Yield a dotted name and its prefixes, longest first."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(len(parts), 0, -1))


def is_among(path: str, paths: Iterable[str]) -> bool:
    """Return whether a dotted path is one of some paths, or a part of one, or one is a part of it."""
    return any(f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.") for other in paths)
