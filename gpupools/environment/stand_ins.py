"""What may stand in for what is wrong with a configuration: machines of a cloud, and values of a model's keys. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpupools.base.errors import Path
from gpupools.environment.parsing import flat, mode_of, models
from gpupools.known.catalogue import InstanceType, smallest
from gpupools.planned.cloud import Cloud


def gpus_as_written(gpus: Fraction) -> int | str:
    """Return a number of GPUs as a stack file has it."""
    return int(gpus) if gpus.denominator == 1 else str(gpus)


def different_machines(cloud: Cloud, models: Collection[str] = ()) -> list[InstanceType]:
    """Return the machines of a cloud that can be bought, whole GPUs only, one of each model, number and network.

    Args:
        cloud: The cloud.
        models: Those with these GPUs are returned alone, all of them, if there are any.
    """
    from gpupools.known.mig import profiles

    rows = [row for row in cloud.instance_types.values() if row.lifecycle != "retired" and not row.is_fraction]
    if of_models := [row for row in rows if row.gpu_model in models]:
        return sorted(of_models, key=lambda row: (row.gpus, row.name))
    found = {(row.gpu_model, row.gpus, row.rdma): row for row in rows}.values() or list(cloud.instance_types.values())
    return sorted(found, key=lambda row: (bool(row.rdma), bool(profiles(row.gpu_model)), row.gpus, row.name))


def machines_of_all(clouds: Sequence[Cloud]) -> list[tuple[str, Fraction]]:
    """Return the models and numbers of GPUs for which every cloud has one machine to choose."""
    found: list[set[tuple[str, Fraction]]] = []
    for cloud in clouds:
        kinds = {(row.gpu_model, row.gpus) for row in cloud.instance_types.values()}
        found.append({kind for kind in kinds if len(smallest(cloud.instance_types.with_gpus(*kind))) == 1})
    return sorted(set.intersection(*found)) if found else []


def field_at(model: type[BaseModel], inner: Path, raw: Any) -> tuple[list[Any], bool, tuple[Any, ...]] | None:
    """Return the types of a key of a model, whether it is needed, and its limits; None for an item of a list or map.

    Args:
        model: The model.
        inner: Path of the key below it.
        raw: What stands there, by which the form of a map is told that has several.
    """
    kinds: list[Any] = [model]
    found: tuple[list[Any], bool, tuple[Any, ...]] | None = None
    for part in inner:
        holders = models(kinds)
        mode = raw.get("mode") if isinstance(raw, Mapping) else None
        holders = [each for each in holders if part != "mode" and mode_of(each) == mode] or holders
        fields: list[FieldInfo] = [each.model_fields[str(part)] for each in holders if str(part) in each.model_fields]
        if fields:
            kinds = [kind for field in fields for kind in flat(field.annotation)]
            found = kinds, fields[0].is_required(), tuple(fields[0].metadata)
        else:
            inside = [get_args(kind) for kind in kinds if get_origin(kind) in (list, dict)]
            kinds = [kind for arguments in inside if arguments for kind in flat(arguments[-1])]
            found = None
        if isinstance(raw, Mapping):
            raw = raw.get(part)
        elif isinstance(raw, list) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            raw = None
    return found


def is_needed(model: type[BaseModel], inner: Path, raw: Any) -> bool:
    """Say whether a model needs a key; the arguments are those of `field_at`."""
    field = field_at(model, inner, raw)
    return field is not None and field[1]


def possible_values(kinds: Iterable[Any], text: str, limits: Iterable[Any] = ()) -> Iterator[Any]:
    """Yield values of some types, as far apart as their limits let them be."""
    least = next((int(str(limit.ge)) for limit in limits if isinstance(limit, Ge)), 0)
    most = next((int(str(limit.le)) for limit in limits if isinstance(limit, Le)), least + 1000)
    for kind in kinds:
        origin = get_origin(kind)
        if origin is Literal:
            yield from get_args(kind)
        elif kind is bool:
            yield from (False, True)
        elif kind is int:
            yield from dict.fromkeys((least, min(least + 1, most), (least + most) // 2, most))
        elif kind is float:
            yield from (0.5, 2.0, 40.0)
        elif kind is str:
            yield text
        elif origin is list:
            yield []
        elif origin is dict:
            yield {}
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _maps(kind, text)


def _maps(model: type[BaseModel], text: str) -> Iterator[dict[str, Any]]:
    """Yield maps with what a model needs."""
    mode = mode_of(model)
    needed = {
        key: list(possible_values(flat(field.annotation), text, field.metadata))
        for key, field in model.model_fields.items()
        if field.is_required() and key != "mode"
    }
    if all(needed.values()):
        for turn in range(2 if needed else 1):
            values = {key: choices[turn % len(choices)] for key, choices in needed.items()}
            yield {"mode": mode, **values} if mode is not None else values
