"""Overrides of a cloud resource's inputs: which are allowed, and how they are merged. Pure."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, may_hold_secret, nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.models import Late

Kept = Mapping[tuple[str, ...], str]
"""Path of an input that cannot be overridden → what to use instead."""


Nested = Mapping[str, Mapping[str, str]]
"""Type of an object, or name of a resource → its inputs → the type of each.

A type of objects, `bool`, `int`, `float`, or empty for text. A list has `[]` before the type of its items, a map with
any keys `*` before that of its values.
"""

SCALARS: Mapping[type, str] = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
_SCALAR_KINDS = {"": str, "bool": bool, "int": int, "float": float}


class KeyInput(NamedTuple):
    """A key of the stack file that becomes one input with the same value."""

    field: str
    """What plans and their comparison call it."""
    key: str
    path: tuple[str, ...]
    is_text: bool = False
    """Whether the input has the value as text."""


class Overridable(NamedTuple):
    """A resource whose inputs can be overridden."""

    inputs: frozenset[str]
    """Wire names of the resource's top-level inputs."""
    kept: Kept = MappingProxyType({})
    """Inputs that cannot be overridden, with what to use instead: they follow from the pool's keys, identify the pool
    and its cluster, or are required on every node."""
    labels: tuple[str, ...] = ()
    """Path of the node labels, for which the rules of the pool's `labels` apply."""
    keys: tuple[KeyInput, ...] = ()
    """Keys of the stack file that become one input with the same value."""
    nested: Nested = MappingProxyType({})
    """The types of the resource's inputs and of those inside; empty if they are not known."""

    def merge(self, inputs: JsonObject, key_values: JsonObject, overrides: JsonObject) -> JsonDict:
        """Return the inputs with those of `keys`, by their values by field, and with overrides."""
        return apply_overrides(write_keys(self.keys, key_values, inputs), overrides)


def write_keys(keys: Iterable[KeyInput], values: JsonObject, inputs: JsonObject = MappingProxyType({})) -> JsonDict:
    """Return inputs with those of keys, by their values by field; what has no value is left out."""
    for key in keys:
        if (value := values.get(key.field)) is not None:
            given: Any = str(value) if key.is_text else value
            inputs = apply_overrides(inputs, reduce(lambda inner, part: {part: inner}, key.path[::-1], given))
    return dict(inputs)


def read_keys(keys: Iterable[KeyInput], inputs: Any) -> JsonDict:
    """Return the values by field that `write_keys` writes so; None for what is not there."""
    return {key.field: value_at(inputs, *key.path) for key in keys}


def value_at(inputs: Any, *path: str) -> Any:
    """Return the value at a path of nested maps; None if there is none."""
    for key in path:
        inputs = inputs.get(key) if isinstance(inputs, Mapping) else None
    return inputs


def apply_overrides(inputs: JsonObject, overrides: JsonObject) -> JsonDict:
    """Merge overrides into the inputs of a resource.

    Maps are merged key by key, `null` removes an input, and any other value, also a list, replaces the input.
    """
    merged = dict(inputs)
    for key, value in overrides.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = apply_overrides(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def without_none(value: Any) -> Any:
    """Return a value without the None in its maps, which stands for what is left out."""
    if isinstance(value, Mapping):
        return {key: without_none(inner) for key, inner in value.items() if inner is not None}
    return [without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


def flattened(overrides: JsonObject, prefix: str = "") -> JsonDict:
    """Return overrides as dotted path to value: `NodePool.nodeConfig.fastSocket.enabled`, true."""
    flat: JsonDict = {}
    for key, value in overrides.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, path)
        else:
            flat[path] = value
    return flat


def tellable(path: str, value: Any) -> Any:
    """Return the value at a dotted path for printing: its size in words if it is long or may be secret."""
    if value is None or isinstance(value, bool | int | float) or value in ("true", "false", "", [], {}):
        return value
    # Instance metadata may contain anything that programs on the machine read.
    keys = tuple(path.split("."))
    secret = may_hold_secret(keys) or "metadata" in keys[:-1] or any(map(may_hold_secret, _paths(value)))
    size = len(json.dumps(value, ensure_ascii=False, default=str)) - (2 if isinstance(value, str) else 0)
    if not secret and size <= _LONG:
        return value
    kind = "text" if isinstance(value, str) else "map" if isinstance(value, Mapping) else "list"
    return f"(a {kind} of {size} {NOT_SHOWN}"


NOT_SHOWN = "characters, not shown)"
"""End of the text that stands for a value that is not printed."""


_LONG = 80
"""Maximum characters of a value that is shown."""


def _paths(value: Any) -> Iterator[Path]:
    """Yield the path of every key inside a value."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (key,)
        yield from ((key, *path) for path in _paths(below))


def without_hidden(inputs: Any, overrides: JsonObject, path: str = "") -> Any:
    """Return inputs as they may be printed, wherever they hold a value of the flattened overrides."""
    if isinstance(inputs, Mapping):
        return {
            key: without_hidden(value, overrides, f"{path}.{key}" if path else key) for key, value in inputs.items()
        }
    for full, given in overrides.items():
        if given == inputs and f".{path}".endswith((f".{full}", f".{full.partition('.')[2]}")):
            return tellable(full, inputs)
    return inputs


def override_problems(
    pool: Path, overrides: Mapping[str, JsonObject], cloud: str, resources: Mapping[str, Overridable]
) -> list[Problem]:
    """Return the problems of the overrides for one cloud, which map resource → input by wire name → value."""
    problems: list[Problem] = []
    for name, inputs in overrides.items():
        at: Path = (*pool, "overrides", cloud, name)
        if name not in resources:
            problems.append(Problem(at, f"a pool on {cloud} has no resource {shown(name)}", nearest(name, resources)))
            continue
        resource = resources[name]
        for key in inputs:
            if key not in resource.inputs:
                what = f"{name} has no input {shown(key)}"
                problems.append(Problem((*at, key), what, f"use the wire name; {nearest(key, resource.inputs)}"))
        problems += _kept(at, inputs, resource.kept)
        problems += _not_json(at, inputs)
        own = {problem.path for problem in problems}
        above = {path[:length] for path in own for length in range(len(path))}
        known = {key: value for key, value in inputs.items() if key in resource.inputs}
        own |= {(*at, *resource.labels)} if resource.labels else set()  # have rules of their own
        for type_problem in _type_problems(at, known, name, resource.nested):
            within = {type_problem.path[:length] for length in range(len(type_problem.path) + 1)}
            problems += [type_problem] if type_problem.path not in above and not own & within else []
    return problems


def _type_problems(at: Path, value: object, kind: str, nested: Nested) -> Iterator[Problem]:
    """Reject inputs of objects that the SDK's types do not have, and values of another type, on any level."""
    scalar = _SCALAR_KINDS.get(kind)
    if isinstance(value, list) and kind.startswith("[]"):
        for index, inner in enumerate(value):
            yield from _type_problems((*at, index), inner, kind[2:], nested)
    elif isinstance(value, list) and nested:
        what = f"got a list, but {at[-1] if isinstance(at[-1], str) else 'an item'} is not a list"
        yield Problem(at, what, "write one value, or a map of inputs")
    elif isinstance(value, Mapping) and kind.startswith("*"):
        for key, inner in value.items():
            yield from _type_problems((*at, key), inner, kind[1:], nested)
    elif isinstance(value, Mapping) and kind in nested:
        for key, inner in value.items():
            if key not in nested[kind]:
                what = f"{kind} has no such input {shown(key)}"
                yield Problem((*at, key), what, f"use the wire name; {nearest(key, nested[kind])}")
            else:
                yield from _type_problems((*at, key), inner, nested[kind][key], nested)
    elif value is not None and nested and not is_scalar(value, scalar):
        fix = "use a list" if kind.startswith("[]") else "use a map" if scalar is None else scalar_fix(value, scalar)
        text = tellable(".".join(map(str, at)), value)
        given = "a map" if isinstance(value, Mapping) else shown(value) if text is value else text
        yield Problem(at, f"got {given}", fix)


def is_scalar(value: object, kind: type | None) -> bool:
    """Return whether a JSON value has a type of `SCALARS`; a whole number may be written with a fraction of zero."""
    if kind in (int, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return kind is float or float(value).is_integer()
    return kind is not None and isinstance(value, kind)


def scalar_fix(value: object, kind: type) -> str:
    """Return how to write a value that has not the type that an input takes."""
    if kind is str and isinstance(value, int | float):
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        return f"write it as a string: {json.dumps(json.dumps(number))}"
    return f"use {SCALARS[kind]}"


def idle_overrides(pool: Path, overrides: JsonObject, clouds: Iterable[str], used: set[str]) -> list[Problem]:
    """Return the overrides without effect, because none of the pool's clusters is on their cloud."""
    names = list(clouds)
    problems: list[Problem] = []
    for name in overrides:
        at: Path = (*pool, "overrides", name)
        if name not in names:
            problems.append(Problem(at, f"unknown cloud {shown(name)}", nearest(name, names), of_key=True))
        elif name not in used:
            problems.append(Problem(at, f"none of the pool's clusters is on {name}", "remove it"))
    return problems


def _kept(at: Path, overrides: JsonObject, kept: Kept) -> Iterator[Problem]:
    """Reject overrides of a kept input: of the input itself, below it, or of a whole map above it."""
    taken: dict[Path, list[tuple[str, str]]] = {}
    for path, instead in kept.items():
        value: Any = overrides
        for key in path:
            if not isinstance(value, Mapping):
                break
            if key not in value:
                value = {}
                break
            value = value[key]
        else:
            yield Problem((*at, *path), "cannot be overridden", instead)
            continue
        if not isinstance(value, Mapping):
            taken.setdefault(_longest(overrides, path), []).append((".".join(path), instead))
    for reached, inputs in taken.items():
        first, instead = inputs[0]
        others = f" and {len(inputs) - 1} other inputs" if inputs[1:] else ""
        what = f"would remove {first}{others}, which cannot be overridden"
        yield Problem((*at, *reached), what, f"write a map with the inputs to change; {instead}")


def _longest(overrides: JsonObject, path: Sequence[str]) -> Path:
    """Return the longest part of a path that the overrides contain."""
    reached: list[str] = []
    value: Any = overrides
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            break
        reached.append(key)
        value = value[key]
    return tuple(reached)


def _not_json(at: Path, value: object) -> Iterator[Problem]:
    """Reject values that an input cannot have: dates, NaN and infinity, keys that are not text."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str):
                yield from _not_json((*at, key), inner)
            else:
                yield Problem(at, f"has the key {shown(key)}, which is not text", f"write '{key}' in quotes")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _not_json((*at, index), inner)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(at, f"got {shown(value)}, which is not a valid input", "write a finite number")
    elif isinstance(value, Late):
        yield Problem(at, "is a secret", "write it as plain text; only addresses in clusters may be secrets")
    elif value is not None and not isinstance(value, str | int | float | bool):
        what = f"got a {type(value).__name__}, which is not a valid input"
        yield Problem(at, what, "write text, a number, true or false, a list or a map")
