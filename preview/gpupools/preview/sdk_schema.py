"""What the installed Pulumi SDKs say about a resource's inputs, and what a request gets wrong about them.

Reads only SDKs the program has imported itself: an SDK registers its type tokens when it is imported, and only the
module of a token that is asked for is loaded. Knows names, types, required inputs and enums; lengths, patterns and
combinations are the clouds' own business and in no SDK.
"""

import enum
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Awaitable as AwaitableABC
from collections.abc import Coroutine as CoroutineABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

UNKNOWN = rpc.UNKNOWN
"""What stands on the wire for a value that is known only after something has been created."""
# Envelopes of the wire form: pulumi/pulumi `sdk/go/common/resource/sig/sig.go`.
SIGNATURE = "4dabf18193072939515e22adb298388d"
"""The key that marks a map on the wire as an envelope: of a secret, an asset or a resource."""
SECRET = "1b47061264138c4ac30d75fd1eb44270"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"

_PROVIDER = "pulumi:providers:"


@dataclass(frozen=True)
class InputProblem(Problem):
    """One input that is wrong; the path starts at the resource's own inputs, in wire names."""

    advisory: bool = False
    """The SDK's type allows the value, though it is none of the values the SDK knows."""


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
    """Return what a secret's envelope holds; anything else as it is."""
    while isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET:
        value = value.get("value")
    return value


def knows(token: str) -> bool:
    """Tell whether an imported SDK has a class for this type token."""
    return resource_class(token) is not None


def check_inputs(token: str, wire_inputs: JsonObject) -> list[InputProblem]:
    """Find everything that is wrong with a resource's inputs.

    An enum is closed, and any other value an error, where the SDK's type is the enum alone. Where the type is
    `Union[str, Enum]` (azure-native and aws write almost every enum so, because the cloud may know more values than
    the SDK does) the value is of the right type and the problem is advisory.

    Args:
        token: The type token, e.g. `aws:eks/nodeGroup:NodeGroup`.
        wire_inputs: Plain data in wire names, secrets in their envelopes, `UNKNOWN` for what is not known.

    Returns:
        Problems by property path; none for a token no imported SDK knows (see `knows`).
    """
    shape = _shape_of_token(token)
    if shape is None:
        return []
    if token.startswith(_PROVIDER):
        wire_inputs = {key: _from_json_text(shape, key, value) for key, value in wire_inputs.items()}
    return [*_check_object(wire_inputs, shape, (), token), *_check_free_form(token, wire_inputs)]


def _check_free_form(token: str, wire_inputs: JsonObject) -> Iterator[InputProblem]:
    """Check free properties against the class that has their types, and what is newer than that as its cloud does."""
    forms = next((forms for cloud in clouds().values() if (forms := cloud.untyped_resource(token))), None)
    form = forms(_as_read(wire_inputs)) if forms is not None else None
    if form is None:
        return
    typed = _shape_of_token(form.token)
    if typed is None:
        return
    properties = unwrap_secret(wire_inputs.get(form.inside))
    if properties == UNKNOWN:
        return
    if not isinstance(properties, Mapping):
        yield InputProblem((form.inside,), "is no map", f"give the properties of {form.whose}")
        return
    for path, what, fix in form.problems:
        yield InputProblem((form.inside, *path.split(".")), what, fix)
    inside = {name: known for name, known in typed.properties.items() if name not in form.path_properties}
    shape = _Shape(inside, typed.wire_names)
    yield from _check_object(_without(properties, form.newer), shape, (form.inside,), form.whose)


def _as_read(value: Any) -> Any:
    """Write a value on the wire as clouds read it: without envelopes, and what is not known yet as their `UNKNOWN`."""
    value = unwrap_secret(value)
    if isinstance(value, Mapping):
        return {key: _as_read(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_read(inner) for inner in value]
    return pool_facts.UNKNOWN if value == UNKNOWN else value


def _without(properties: JsonObject, paths: Iterable[str]) -> JsonDict:
    """Return a map without the values at these dotted paths."""
    found = dict(properties)
    for path in paths:
        first, _, rest = path.partition(".")
        inner = unwrap_secret(found.get(first))
        if not rest:
            found.pop(first, None)
        elif isinstance(inner, Mapping):
            found[first] = _without(inner, [rest])
    return found


def check_property_path(token: str, path: str, *, outputs: bool = False) -> InputProblem | None:
    """Check one entry of `ignoreChanges`, `replaceOnChanges` and the like.

    The engine compares such a path with wire names and says nothing when it matches none: `scaling_config.max_size`
    is sent as it is written and has no effect (https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/
    resource.py translates only a whole top-level name).

    Args:
        token: The type token.
        path: As sent: `scalingConfig.desiredSize`, `taints[0].effect`, `tags["a.b"]`, `taints[*]`.
        outputs: Whether the path may also name an output at the top.
    """
    shape = _shape_of_token(token)
    if shape is None:
        return None
    segments = _segments(path)
    if segments is None:
        return InputProblem((), f"{path!r} is no property path", "write it like scalingConfig.desiredSize or taints[0]")
    if outputs and str(segments[0]) in _output_names(token):
        return None
    corrected: list[str | int] = []
    kinds: tuple[Any, ...] = (shape,)
    for segment in segments:
        names = {name for kind in kinds if (inner := _shape_of(kind)) for name in inner.properties}
        followed = [follow for kind in kinds for follow in _follow(kind, segment)]
        if not followed:
            if not names:
                what = f"{path!r} names no property: nothing is below {_joined(corrected)}"
                return InputProblem((), what, "shorten it")
            return InputProblem((), f"{path!r} names no property: there is no {segment!r}", nearest(segment, names))
        corrected.append(followed[0][0])
        kinds = tuple(kind for _, kind in followed)
        if any(kind is Any for kind in kinds):
            corrected += segments[len(corrected) :]
            break
    if corrected != segments:
        return InputProblem((), f"{path!r} matches nothing, silently", f"write wire names: {_joined(corrected)}")
    return None


def _check_object(value: JsonObject, shape: _Shape, at: Path, whose: str) -> Iterator[InputProblem]:
    for key, given in value.items():
        known = shape.properties.get(key)
        if known is not None:
            yield from _check(given, known.type, (*at, key))
        elif key in shape.wire_names:
            fix = f"write {shape.wire_names[key]!r}; Pulumi translates no name here"
            yield InputProblem((*at, key), f"{whose} has no such input", fix)
        else:
            yield InputProblem((*at, key), f"{whose} has no such input", nearest(key, shape.properties))
    for key, known in shape.properties.items():
        if known.required and value.get(key) is None:
            yield InputProblem((*at, key), "is missing", f"{whose} requires it")


def _check(value: Any, expected: Any, at: Path) -> Iterator[InputProblem]:
    """Check one value against a type of the SDK; a null is a property left out."""
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
        written = _told(value, bare)
        fix = nearest("" if hidden else bare, map(str, allowed), most=20)
        if not any(_has_shape(bare, member) for member in others):
            yield InputProblem(at, f"got {written}", fix)
            return
        what = f"got {written}, which {enums[0].__name__} of the SDK does not know"
        yield InputProblem(at, what, fix, advisory=True)
    alike = [member for member in others if _has_shape(bare, member)]
    if not alike:
        yield InputProblem(at, f"got {_told(value, bare)}", _cure(None if hidden else bare, members))
        return
    # Of several objects that could be meant, the one with the fewest complaints is.
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
    """Tell whether a value's outermost form is the one a type has on the wire."""
    origin = get_origin(member)
    signature = value.get(SIGNATURE) if isinstance(value, Mapping) else None
    if origin is Literal:
        return _among(value, get_args(member))
    if member is bool:
        return isinstance(value, bool)
    if member in (int, float):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (member is float or float(value).is_integer())
    if member is str:
        return isinstance(value, str)
    if origin in (list, Sequence) or member is list:
        return isinstance(value, list)
    if origin in (dict, Mapping) or member is dict or is_input_type(member):
        return isinstance(value, Mapping) and signature is None
    if inspect.isclass(member) and issubclass(member, pulumi.Asset | pulumi.Archive | pulumi.Resource):
        return signature is not None
    return True  # a type this module does not know rules nothing out


def _cure(value: Any, members: Sequence[Any]) -> str:
    if all(member is str for member in members) and isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else f"{value:g}"
        return f"write it as text: {json.dumps(text)}"
    return "give " + " or ".join(dict.fromkeys(_described(member) for member in members))


_PLAIN = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a map"}


def _described(member: Any) -> str:
    origin = get_origin(member)
    if member in _PLAIN:
        return _PLAIN[member]
    if origin is Literal:
        return " or ".join(repr(value) for value in get_args(member))
    if origin in (list, Sequence):
        return "a list"
    if is_input_type(member):
        return f"a map with {', '.join(_shape_of_class(member).properties)}"
    return "a map" if origin in (dict, Mapping) else f"a {getattr(member, '__name__', member)}"


def _told(value: Any, bare: Any) -> str:
    """Return how a problem names a value, which may be a secret."""
    return _written(bare) if bare is value else "a secret"


def _written(value: Any) -> str:
    if isinstance(value, Mapping) and SIGNATURE in value:
        return "a resource" if value[SIGNATURE] == RESOURCE else "an asset or archive"
    return shown(int(value) if isinstance(value, float) and value.is_integer() else value)


def _among(value: Any, allowed: Iterable[Any]) -> bool:
    """Tell whether a value is one of some constants; `True == 1` in Python, but not here."""
    return any(isinstance(value, bool) == isinstance(item, bool) and value == item for item in allowed)


def _is_enum(member: Any) -> bool:
    return inspect.isclass(member) and issubclass(member, enum.Enum)


@functools.cache
def _kinds(expected: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return what a value can be: all of it, what of it is enums, and the rest."""
    members = _members(expected)
    enums = tuple(member for member in members if _is_enum(member))
    return members, enums, tuple(member for member in members if member not in enums)


@functools.cache
def _members(expected: Any) -> tuple[Any, ...]:
    """Take a type apart into what a value on the wire can be, without null and the wrappers of `pulumi.Input`."""
    if get_origin(expected) not in (Union, types.UnionType):
        return () if _is_wrapper(expected) else (expected,)
    return tuple(dict.fromkeys(member for part in get_args(expected) for member in _members(part)))


def _is_wrapper(part: Any) -> bool:
    """Tell what `pulumi.Input` adds from what is meant: outputs, awaitables, and a TypedDict beside its class."""
    if part is type(None) or get_origin(part) in (pulumi.Output, AwaitableABC, CoroutineABC):
        return True
    return typing.is_typeddict(part)


def _follow(kind: Any, segment: str | int) -> Iterator[tuple[str | int, Any]]:
    """Step from a type into what a path segment names below it; yields the right segment and the type there."""
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
    """Split a property path as the engine does; None when it is none."""
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
    found = resource_class(token)
    args = args_class(found) if found is not None else None
    return _shape_of_class(args) if args is not None else None


def _output_names(token: str) -> Iterable[str]:
    found = resource_class(token)
    return output_names(found) if found is not None else ()


@functools.cache
def args_class(resource: type) -> type | None:
    """Return the class of a resource's `args`, taken from its constructor because the names follow no rule."""
    for overload in typing.get_overloads(resource.__init__):  # type: ignore[misc]
        annotation = overload.__annotations__.get("args")
        if isinstance(annotation, str):
            annotation = typing.get_type_hints(overload).get("args")
        for member in _members(annotation) if annotation is not None else ():
            if is_input_type(member):
                return typing.cast(type, member)
    return None


def resource_class(token: str) -> type | None:
    """Return the SDK's class for a type token, from the SDKs imported so far."""
    package, _, rest = token.partition(":")
    if token.startswith(_PROVIDER):
        infos: list[Mapping[str, str]] = [
            getattr(item, "pkg_info", {}) for item in registered_packages(token.removeprefix(_PROVIDER))
        ]
        places = [(info.get("fqn"), info.get("class")) for info in infos if info.get("token") == token]
    else:
        module = rest.rpartition(":")[0]
        modules = [getattr(item, "mod_info", {}) for item in registered_modules(f"{package}:{module}")]
        places = [(info.get("fqn"), info.get("classes", {}).get(token)) for info in modules]
    for fqn, name in places:
        if fqn and name:
            found: object = getattr(import_module(fqn), name, None)
            if inspect.isclass(found):
                return found
    return None


def _from_json_text(shape: _Shape, key: str, value: Any) -> Any:
    """Undo what an SDK does to provider inputs: everything but text is sent as JSON text."""
    known = shape.properties.get(key)
    bare = unwrap_secret(value)
    if known is None or not isinstance(bare, str) or str in _members(known.type):
        return value
    try:
        return json.loads(bare)
    except ValueError:  # unknown as well
        return value
