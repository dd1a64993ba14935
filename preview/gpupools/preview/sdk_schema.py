"""Validate a resource's inputs against the types of the installed Pulumi SDKs.

An SDK registers its type tokens when it is imported, which the check does, since programs may register by type tokens;
only the module of a requested token is loaded. It checks names, types, required inputs and enums; lengths, patterns and
combinations are in no SDK.
"""

import enum
import functools
import inspect
import json
import re
import threading
import types
import typing
import warnings
from collections.abc import Awaitable as AwaitableABC
from collections.abc import Coroutine as CoroutineABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin

import pulumi
from pulumi.runtime import rpc

from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan import pool_facts
from gpupools.providers import clouds
from gpupools.providers.sdk_internals import (
    input_types,
    is_input_type,
    output_names,
    registered_modules,
    registered_packages,
    required_inputs,
    wire_names,
)
from gpupools.spec.overrides import SCALARS, is_scalar, scalar_fix

UNKNOWN = rpc.UNKNOWN
"""The marker on the wire for a value that is known only after a resource has been created."""
# Envelopes of the wire form: pulumi/pulumi `sdk/go/common/resource/sig/sig.go`.
SIGNATURE = "4dabf18193072939515e22adb298388d"
"""The key that marks a map on the wire as the envelope of a secret, an asset or a resource."""
SECRET = "1b47061264138c4ac30d75fd1eb44270"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"

_PROVIDER = "pulumi:providers:"

_LOADING = threading.RLock()
"""Held while a class is loaded: a lazy module is incomplete for a second thread (python/cpython#114763)."""


@dataclass(frozen=True)
class InputProblem(Problem):
    """An invalid input; the path starts at the resource's own inputs, in wire names."""

    advisory: bool = False
    """Whether the SDK's type allows the value although the SDK does not list it."""


@dataclass(frozen=True)
class _Property:
    """One input of a resource, or of an object inside its inputs."""

    type: Any
    required: bool


@dataclass(frozen=True)
class _Shape:
    """The inputs of a resource, or of an object inside its inputs."""

    properties: Mapping[str, _Property]
    """By wire name."""
    wire_names: Mapping[str, str]
    """Python name to wire name."""


def unwrap_secret(value: Any) -> Any:
    """Return the value inside a secret's envelope; any other value unchanged."""
    while isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET:
        value = value.get("value")
    return value


def is_known_type(token: str) -> bool:
    """Return whether an installed SDK has a class for this type token, or it is a kind that a CRD defines."""
    return resource_class(token) is not None or _is_custom_kind(token)


def _is_custom_kind(token: str) -> bool:
    """Return whether a token is a kind of Kubernetes outside its own API groups."""
    package, _, kind = token.partition(":")
    group = kind.partition("/")[0]
    return package == "kubernetes" and "." in group and not group.endswith(".k8s.io")


def check_inputs(token: str, wire_inputs: JsonObject) -> list[InputProblem]:
    """Return all problems of a resource's inputs in wire form; none for a token that no installed SDK has.

    If the SDK's type is only the enum, any other value is an error. If the type is `Union[str, Enum]` (almost every
    enum of azure-native and aws, because the cloud may accept more values than the SDK lists), an unlisted value is
    only advisory.
    """
    shape = _shape_of_token(token)
    if shape is None:
        return []
    if token.startswith(_PROVIDER):
        wire_inputs = {key: _from_json_text(shape, key, value) for key, value in wire_inputs.items()}
    return [*_check_object(wire_inputs, shape, (), token), *_check_free_form(token, wire_inputs)]


def _check_free_form(token: str, wire_inputs: JsonObject) -> Iterator[InputProblem]:
    """Check untyped properties against the class that has their types; the cloud checks newer ones."""
    forms = next((forms for cloud in clouds().values() if (forms := cloud.untyped_resource(token))), None)
    form = forms(_readback_value(wire_inputs)) if forms is not None else None
    if form is None:
        return
    typed = _shape_of_token(form.token)
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
    inside = {name: known for name, known in typed.properties.items() if name not in form.path_properties}
    shape = _Shape(inside, typed.wire_names)
    yield from _check_object(_without(properties, form.newer), shape, (form.inside,), form.whose)


def _readback_value(value: Any) -> Any:
    """Return a wire value as clouds read it back: without envelopes, with their `UNKNOWN` for unknown values."""
    value = unwrap_secret(value)
    if isinstance(value, Mapping):
        return {key: _readback_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_readback_value(inner) for inner in value]
    return pool_facts.UNKNOWN if value == UNKNOWN else value


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


def check_property_path(token: str, path: str, *, outputs: bool = False) -> InputProblem | None:
    """Check one path of `ignoreChanges` and similar options: `taints[0].effect`, `tags["a.b"]`, `taints[*]`.

    The engine compares such a path with wire names and silently ignores one that matches nothing:
    `scaling_config.max_size` is sent unchanged and has no effect (https://github.com/pulumi/pulumi,
    sdk/python/lib/pulumi/runtime/resource.py translates only a whole top-level name). With `outputs` the path may also
    name an output at the top.
    """
    shape = _shape_of_token(token)
    if shape is None:
        return None
    segments = _segments(path)
    if segments is None:
        return InputProblem((), f"{path!r} is not a property path", "use a form like scalingConfig.desiredSize")
    if outputs and str(segments[0]) in _output_names(token):
        return None
    corrected: list[str | int] = []
    kinds: tuple[Any, ...] = (shape,)
    for segment in segments:
        names = {name for kind in kinds if (inner := _shape_of(kind)) for name in inner.properties}
        followed = [follow for kind in kinds for follow in _follow(kind, segment)]
        if not followed:
            if not names:
                what = f"{path!r} is not a property: {_joined(corrected)} has no properties"
                return InputProblem((), what, "shorten the path")
            return InputProblem((), f"{path!r} is not a property: {segment!r} does not exist", nearest(segment, names))
        corrected.append(followed[0][0])
        kinds = tuple(kind for _, kind in followed)
        if any(kind is Any for kind in kinds):
            corrected += segments[len(corrected) :]
            break
    if corrected != segments:
        return InputProblem((), f"{path!r} matches nothing, so it is ignored", f"use wire names: {_joined(corrected)}")
    return None


def _check_object(value: JsonObject, shape: _Shape, at: Path, whose: str) -> Iterator[InputProblem]:
    for key, item in value.items():
        known = shape.properties.get(key)
        if known is not None:
            yield from _check(item, known.type, (*at, key))
        elif key in shape.wire_names:
            fix = f"use {shape.wire_names[key]!r}; Pulumi does not convert names here"
            yield InputProblem((*at, key), f"{whose} has no such input", fix)
        else:
            yield InputProblem((*at, key), f"{whose} has no such input", nearest(key, shape.properties))
    for key, known in shape.properties.items():
        if known.required and value.get(key) is None:
            yield InputProblem((*at, key), "is missing", f"{whose} requires it")


def _check(value: Any, expected: Any, at: Path) -> Iterator[InputProblem]:
    """Check one value against a type of the SDK; null means that the property is not set."""
    bare = unwrap_secret(value)
    if bare is None or bare == UNKNOWN:
        return
    hidden = bare is not value
    members, enums, others = _kinds(expected)
    if Any in members:
        return
    if enums:
        allowed = [item.value for member in enums for item in member]
        if _among(bare, allowed):
            return
        text = _shown_or_secret(value, bare)
        fix = nearest("" if hidden else bare, map(str, allowed), most=20)
        if not any(_has_shape(bare, member) for member in others):
            yield InputProblem(at, f"got {text}", fix)
            return
        what = f"got {text}, which the SDK's {enums[0].__name__} does not list"
        yield InputProblem(at, what, fix, advisory=True)
    alike = [member for member in others if _has_shape(bare, member)]
    if not alike:
        yield InputProblem(at, f"got {_shown_or_secret(value, bare)}", _type_fix(None if hidden else bare, members))
        return
    # If several object types match, report the one with the fewest problems.
    if isinstance(bare, list | Mapping):
        yield from min((list(_check_inside(bare, member, at)) for member in alike), key=len)


def _check_inside(value: Any, member: Any, at: Path) -> Iterator[InputProblem]:
    origin, arguments = get_origin(member), get_args(member)
    if is_input_type(member):
        yield from _check_object(value, _shape_of_class(member), at, member.__name__.removesuffix("Args"))
    elif origin in (list, Sequence):
        for index, item in enumerate(value):
            yield from _check(item, arguments[0], (*at, index))
    elif origin in (dict, Mapping):
        for key, item in value.items():
            yield from _check(item, arguments[1], (*at, key))


def _has_shape(value: Any, member: Any) -> bool:
    """Return whether a value has the outermost JSON type of an SDK type on the wire."""
    origin = get_origin(member)
    signature = value.get(SIGNATURE) if isinstance(value, Mapping) else None
    if origin is Literal:
        return _among(value, get_args(member))
    if member in SCALARS:
        return is_scalar(value, member)
    if origin in (list, Sequence) or member is list:
        return isinstance(value, list)
    if origin in (dict, Mapping) or member is dict or is_input_type(member):
        return isinstance(value, Mapping) and signature is None
    if inspect.isclass(member) and issubclass(member, pulumi.Asset | pulumi.Archive | pulumi.Resource):
        return signature is not None
    return True  # accept every value for an unknown type


def _type_fix(value: Any, members: Sequence[Any]) -> str:
    if len(members) == 1 and members[0] in SCALARS:
        return scalar_fix(value, members[0])
    return "use " + " or ".join(dict.fromkeys(_type_name(member) for member in members))


_TYPE_NAMES = {**SCALARS, list: "a list", dict: "a map"}


def _type_name(member: Any) -> str:
    origin = get_origin(member)
    if member in _TYPE_NAMES:
        return _TYPE_NAMES[member]
    if origin is Literal:
        return " or ".join(repr(value) for value in get_args(member))
    if origin in (list, Sequence):
        return "a list"
    if is_input_type(member):
        return f"a map with {', '.join(_shape_of_class(member).properties)}"
    return "a map" if origin in (dict, Mapping) else f"a {getattr(member, '__name__', member)}"


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


def _is_enum(member: Any) -> bool:
    return inspect.isclass(member) and issubclass(member, enum.Enum)


@functools.cache
def _kinds(expected: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return the members of a type, its enums, and its other members."""
    members = _members(expected)
    enums = tuple(member for member in members if _is_enum(member))
    return members, enums, tuple(member for member in members if member not in enums)


@functools.cache
def _members(expected: Any) -> tuple[Any, ...]:
    """Return the types that a value on the wire may have, without null and the wrappers of `pulumi.Input`."""
    if get_origin(expected) not in (Union, types.UnionType):
        return () if _is_wrapper(expected) else (expected,)
    return tuple(dict.fromkeys(member for part in get_args(expected) for member in _members(part)))


def _is_wrapper(part: Any) -> bool:
    """Return whether `pulumi.Input` added this type: outputs, awaitables, and a TypedDict beside its class."""
    if part is type(None) or get_origin(part) in (pulumi.Output, AwaitableABC, CoroutineABC):
        return True
    return typing.is_typeddict(part)


def _follow(kind: Any, segment: str | int) -> Iterator[tuple[str | int, Any]]:
    """Yield the correct segment and the type of a property that a path segment selects in a type."""
    shape = _shape_of(kind)
    if shape is not None:
        if segment == "*":
            yield from (("*", member) for known in shape.properties.values() for member in _members(known.type))
        elif isinstance(segment, str):
            name = segment if segment in shape.properties else shape.wire_names.get(segment)
            if name is not None:
                yield from ((name, member) for member in _members(shape.properties[name].type))
        return
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        yield segment, Any
    elif origin in (list, Sequence) and (segment == "*" or isinstance(segment, int)):
        yield from ((segment, member) for member in _members(arguments[0]))
    elif origin in (dict, Mapping) and isinstance(segment, str):
        yield from ((segment, member) for member in _members(arguments[1]))


def _shape_of(kind: Any) -> _Shape | None:
    if isinstance(kind, _Shape):
        return kind
    return _shape_of_class(kind) if is_input_type(kind) else None


_SEGMENT = re.compile(
    r"""(?P<dot>\.?)(?P<name>[^.\[\]"]+) | \[(?: (?P<index>\d+) | (?P<star>\*) | "(?P<quoted>[^"]+)" )\]""", re.VERBOSE
)


def _segments(path: str) -> list[str | int] | None:
    """Return the segments of a property path as the engine splits it; None if it is invalid."""
    segments: list[str | int] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None or (match["name"] is not None and bool(match["dot"]) != bool(segments)):
            return None
        index, name = match["index"], match["name"] or match["star"] or match["quoted"]
        segments.append(int(index) if index is not None else name)
        at = match.end()
    return segments or None


def _joined(segments: Sequence[str | int]) -> str:
    text = ""
    for segment in segments:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif "." in segment:
            text += f"[{json.dumps(segment)}]"
        else:
            text += f".{segment}" if text else segment
    return text


@functools.cache
def _shape_of_class(args: type) -> _Shape:
    kinds, required = input_types(args), required_inputs(args)
    names = wire_names(args)
    return _Shape(
        {name: _Property(kinds.get(name, Any), name in required) for name in names.values()},
        {python: wire for python, wire in names.items() if python != wire},
    )


def _shape_of_token(token: str) -> _Shape | None:
    with _LOADING:
        resource = resource_class(token)
        args = args_class(resource) if resource is not None else None
        return _shape_of_class(args) if args is not None else None


def _output_names(token: str) -> Iterable[str]:
    resource = resource_class(token)
    return output_names(resource) if resource is not None else ()


@functools.cache
def args_class(resource: type) -> type | None:
    """Return the class of a resource's `args`, from its constructor because the names follow no rule."""
    for overload in typing.get_overloads(resource.__init__):  # type: ignore[misc]
        annotation = overload.__annotations__.get("args")
        if isinstance(annotation, str):
            annotation = typing.get_type_hints(overload).get("args")
        for member in _members(annotation) if annotation is not None else ():
            if is_input_type(member):
                return typing.cast(type, member)
    return None


def resource_class(token: str) -> type | None:
    """Return the class for a type token in the installed SDK of its package."""
    package, _, rest = token.removeprefix(_PROVIDER).partition(":")
    _import_sdk(package)
    if token.startswith(_PROVIDER):
        infos: list[Mapping[str, str]] = [getattr(item, "pkg_info", {}) for item in registered_packages(package)]
        places = [(info.get("fqn"), info.get("class")) for info in infos if info.get("token") == token]
    else:
        module = rest.rpartition(":")[0]
        modules = [getattr(item, "mod_info", {}) for item in registered_modules(f"{package}:{module}")]
        places = [(info.get("fqn"), info.get("classes", {}).get(token)) for info in modules]
    for fqn, name in places:
        if fqn and name:
            with (
                _LOADING,
                warnings.catch_warnings(),
            ):  # as it is imported, a module says that some classes are deprecated
                warnings.simplefilter("ignore", DeprecationWarning)
                found: object = getattr(import_module(fqn), name, None)
            if inspect.isclass(found):
                return found
    return None


@functools.cache
def _import_sdk(package: str) -> None:
    with suppress(ImportError):
        import_module(f"pulumi_{package.replace('-', '_')}")


def _from_json_text(shape: _Shape, key: str, value: Any) -> Any:
    """Parse provider inputs: an SDK sends everything except strings as JSON text."""
    known = shape.properties.get(key)
    bare = unwrap_secret(value)
    if known is None or not isinstance(bare, str) or str in _members(known.type):
        return value
    try:
        return json.loads(bare)
    except ValueError:  # includes the unknown marker
        return value
