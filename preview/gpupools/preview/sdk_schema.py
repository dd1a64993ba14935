"""Validate a resource's inputs against the types that the clouds' SDKs declare, which are here as data.

It checks names, types, required inputs and enums; lengths, patterns and combinations are in no SDK. Imports no Pulumi.
"""

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.naming import camel
from gpupools.plan import pool_facts
from gpupools.plan.input_types import InputTypes, read_input_types
from gpupools.policies.wire import SECRET as SECRET
from gpupools.policies.wire import SIGNATURE as SIGNATURE
from gpupools.policies.wire import plain
from gpupools.providers import clouds
from gpupools.software.kubernetes_inputs import is_custom_kind
from gpupools.spec.overrides import SCALARS, is_scalar, scalar_fix

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The marker on the wire for a value that is known only after a resource has been created: `pulumi.runtime.rpc`."""
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"
"""What a map on the wire has at `SIGNATURE` that stands for a resource."""

_PROVIDER = "pulumi:providers:"
_KUBERNETES = FilePath(__file__).parent / "kubernetes_input_types.json"


@dataclass(frozen=True)
class InputProblem(Problem):
    """An invalid input; the path starts at the resource's own inputs, in wire names."""

    advisory: bool = False
    """Whether the SDK's type allows the value although the SDK does not list it."""


class _Property(NamedTuple):
    """One input of a resource, or of an object inside its inputs."""

    type: str
    """As in `gpupools.plan.input_types`."""
    required: bool


_Shape = Mapping[str, _Property]
"""The inputs of a resource, or of an object inside its inputs, by wire name."""


class Schema(NamedTuple):
    """What the SDK of a package declares."""

    resources: Mapping[str, str]
    outputs: Mapping[str, Collection[str]]
    shapes: Mapping[str, _Shape]
    enums: Mapping[str, Sequence[Any]]


def schema(types: InputTypes) -> Schema:
    """Return the types of a package, ready to be compared with values."""
    shapes = {
        name: {key.removesuffix("!"): _Property(kind, key.endswith("!")) for key, kind in fields.items()}
        for name, fields in types.types.items()
        if isinstance(fields, Mapping)
    }
    enums = {name: values for name, values in types.types.items() if not isinstance(values, Mapping)}
    return Schema(types.resources, types.outputs, shapes, enums)


@functools.cache
def _schemas() -> Mapping[str, Schema]:
    own = (cloud.file("input_types.json") for cloud in clouds().values())
    files = [_KUBERNETES, *filter(None, own)]
    found = [schema(read_input_types(file)) for file in files]
    return {token: found_schema for found_schema in found for token in found_schema.resources}


def schema_of(token: str) -> Schema | None:
    """Return the schema that has a type token; None if none is here."""
    return _schemas().get(token)


def unwrap_secret(value: Any) -> Any:
    """Return the value inside a secret's envelope; any other value unchanged."""
    while isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET:
        value = value.get("value")
    return value


def is_known_type(token: str) -> bool:
    """Return whether a type token has its types here, or is a kind that a CRD defines."""
    return schema_of(token) is not None or is_custom_kind(token)


def check_inputs(token: str, wire_inputs: JsonObject) -> list[InputProblem]:
    """Return all problems of a resource's inputs in wire form; none for a token whose types are not here.

    If the SDK's type is only the enum, any other value is an error. If the type is `Union[str, Enum]` (almost every
    enum of azure-native and aws, because the cloud may accept more values than the SDK lists), an unlisted value is
    only advisory.
    """
    of = schema_of(token)
    if of is None:
        return []
    shape = of.shapes[of.resources[token]]
    if token.startswith(_PROVIDER):
        wire_inputs = {key: _from_json_text(shape, key, value) for key, value in wire_inputs.items()}
    return [*_Check(of).object(wire_inputs, shape, (), token), *_check_free_form(token, wire_inputs)]


def _check_free_form(token: str, wire_inputs: JsonObject) -> Iterator[InputProblem]:
    """Check untyped properties against the class that has their types; the cloud checks newer ones."""
    forms = next((forms for cloud in clouds().values() if (forms := cloud.untyped_resource(token))), None)
    form = forms(plain(wire_inputs)) if forms is not None else None
    if form is None:
        return
    typed = schema_of(form.token)
    if typed is None:
        return
    properties = unwrap_secret(wire_inputs.get(form.inside))
    if properties == UNKNOWN:
        return
    if not isinstance(properties, Mapping):
        yield InputProblem((form.inside,), "must be a map", f"set the properties of {form.whose}")
        return
    for path, what, fix in form.problems:
        yield InputProblem((form.inside, *path.split(".")), what, fix)
    whole = typed.shapes[typed.resources[form.token]]
    shape = {name: known for name, known in whole.items() if name not in form.path_properties}
    yield from _Check(typed).object(_without(properties, form.newer), shape, (form.inside,), form.whose)


def _without(properties: JsonObject, paths: Iterable[str]) -> JsonDict:
    """Return a map without the values at these dotted paths."""
    remaining = dict(properties)
    for path in paths:
        first, _, rest = path.partition(".")
        inner = unwrap_secret(remaining.get(first))
        if not rest:
            remaining.pop(first, None)
        elif isinstance(inner, Mapping):
            remaining[first] = _without(inner, [rest])
    return remaining


_SCALARS: Mapping[str, type] = {kind.__name__: kind for kind in SCALARS}
_OPAQUE = ("Asset", "Archive", "Resource")


class _Check(NamedTuple):
    """Compares values with the types of one schema."""

    of: Schema

    def object(self, value: JsonObject, shape: _Shape, at: Path, whose: str) -> Iterator[InputProblem]:
        """Yield the problems of a map of inputs."""
        for key, item in value.items():
            known = shape.get(key)
            if known is not None:
                yield from self._value(item, known.type, (*at, key))
            elif (wire := _wire_name(key, shape)) is not None:
                fix = f"use {wire!r}; Pulumi does not convert names here"
                yield InputProblem((*at, key), f"{whose} has no such input", fix)
            else:
                yield InputProblem((*at, key), f"{whose} has no such input", nearest(key, shape))
        for key, known in shape.items():
            if known.required and value.get(key) is None:
                yield InputProblem((*at, key), "is missing", f"{whose} requires it")

    def _value(self, value: Any, expected: str, at: Path) -> Iterator[InputProblem]:
        """Check one value against a type; null means that the property is not set."""
        bare = unwrap_secret(value)
        if bare is None or bare == UNKNOWN or bare is pool_facts.UNKNOWN:
            return
        hidden = bare is not value
        members = _members(expected)
        if "any" in members:
            return
        enums = [member for member in members if member in self.of.enums]
        others = [member for member in members if member not in self.of.enums]
        if enums:
            allowed = [item for member in enums for item in self.of.enums[member]]
            if _among(bare, allowed):
                return
            text = _shown_or_secret(value, bare)
            fix = nearest("" if hidden else bare, map(str, allowed), most=20)
            if not any(self._fits(bare, member) for member in others):
                yield InputProblem(at, f"got {text}", fix)
                return
            what = f"got {text}, which the SDK's {_display(enums[0])} does not list"
            yield InputProblem(at, what, fix, advisory=True)
        alike = [member for member in others if self._fits(bare, member)]
        if not alike:
            fix = self._type_fix(None if hidden else bare, members)
            yield InputProblem(at, f"got {_shown_or_secret(value, bare)}", fix)
            return
        # If several object types match, report the one with the fewest problems.
        if isinstance(bare, list | Mapping):
            yield from min((list(self._inside(bare, member, at)) for member in alike), key=len)

    def _inside(self, value: Any, member: str, at: Path) -> Iterator[InputProblem]:
        if member in self.of.shapes:
            yield from self.object(value, self.of.shapes[member], at, _display(member))
        elif member.startswith("[]"):
            for index, item in enumerate(value):
                yield from self._value(item, member[2:], (*at, index))
        elif member.startswith("*"):
            for key, item in value.items():
                yield from self._value(item, member[1:], (*at, key))

    def _fits(self, value: Any, member: str) -> bool:
        """Return whether a value has the outermost JSON type of a type on the wire."""
        signature = value.get(SIGNATURE) if isinstance(value, Mapping) else None
        if member.startswith("'"):
            return bool(value == member[1:-1])
        if member in _SCALARS:
            return is_scalar(value, _SCALARS[member])
        if member.startswith("[]"):
            return isinstance(value, list)
        if member in _OPAQUE:
            return signature is not None
        return isinstance(value, Mapping) and signature is None

    def _type_fix(self, value: Any, members: Sequence[str]) -> str:
        if len(members) == 1 and members[0] in _SCALARS:
            return scalar_fix(value, _SCALARS[members[0]])
        return "use " + " or ".join(dict.fromkeys(map(self._type_name, members)))

    def _type_name(self, member: str) -> str:
        if member in _SCALARS:
            return SCALARS[_SCALARS[member]]
        if member in self.of.shapes:
            return f"a map with {', '.join(self.of.shapes[member])}"
        if member.startswith("'"):
            return member
        return "a list" if member.startswith("[]") else "a map" if member.startswith("*") else f"a {member}"


def _display(name: str) -> str:
    return name.rpartition(":")[2]


def _wire_name(key: str, shape: _Shape) -> str | None:
    """Return the wire name of an input by its Python name, which is in snake case; None if it is no such name."""
    if "_" not in key or key != key.lower():
        return None
    name = camel(key)
    return name if name in shape else next((field for field in shape if field.lower() == name.lower()), None)


def _shown_or_secret(value: Any, bare: Any) -> str:
    """Return a value as text for a problem, or `a secret`."""
    return _value_text(bare) if bare is value else "a secret"


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping) and SIGNATURE in value:
        return "a resource" if value[SIGNATURE] == RESOURCE else "an asset or archive"
    return shown(int(value) if isinstance(value, float) and value.is_integer() else value)


def _among(value: Any, allowed: Iterable[Any]) -> bool:
    """Return whether a value is one of some constants, where True is not 1."""
    return any(isinstance(value, bool) == isinstance(item, bool) and value == item for item in allowed)


@functools.cache
def _members(expected: str) -> tuple[str, ...]:
    """Return the alternatives of a type."""
    text = expected[1:-1] if expected.startswith("(") else expected
    ends = [at for at, sign in enumerate(text) if sign == "|" and text.count("(", 0, at) == text.count(")", 0, at)]
    return tuple(text[start + 1 : end] for start, end in pairwise([-1, *ends, len(text)]))


def _from_json_text(shape: _Shape, key: str, value: Any) -> Any:
    """Parse provider inputs: an SDK sends everything except strings as JSON text."""
    known = shape.get(key)
    bare = unwrap_secret(value)
    if known is None or not isinstance(bare, str) or "str" in _members(known.type):
        return value
    try:
        return json.loads(bare)
    except ValueError:  # includes the unknown marker
        return value
