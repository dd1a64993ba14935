"""Read from the classes of a Pulumi SDK which types its inputs have, in the form of `gpupools.plan.input_types`."""

import enum
import functools
import inspect
import types
import typing
import warnings
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin

import pulumi  # noqa: TID251 - reads the SDKs
from pulumi import _types  # noqa: TID251
from pulumi.runtime import rpc  # noqa: TID251

from gpupools.plan.input_types import InputTypes

_PROVIDER = "pulumi:providers:"
_SCALARS = (str, bool, int, float)


def input_types(tokens: Iterable[str], name_of: typing.Callable[[type], str] | None = None) -> InputTypes:
    """Return the types of these resources' inputs, and of all inside.

    Raises:
        LookupError: No installed SDK has one of the tokens, or two of its types have one name.
    """
    name_of = name_of or short_name
    resources: dict[str, str] = {}
    outputs: dict[str, list[str]] = {}
    todo: list[type] = []
    for token in tokens:
        resource = resource_class(token)
        args = args_class(resource) if resource is not None else None
        if resource is None or args is None:
            raise LookupError(f"the installed SDKs have no {token}")
        resources[token] = name_of(args)
        names = _types.resource_pulumi_to_py_names(resource)
        outputs[token] = sorted({*names}.difference(wire_names(args).values()))
        todo.append(args)
    seen: dict[str, type] = {}
    found: dict[str, Any] = {}
    while todo:
        kind = todo.pop()
        name = name_of(kind)
        if seen.setdefault(name, kind) is not kind:
            raise LookupError(f"{kind} and {seen[name]} have one name")
        if name in found:
            continue
        if issubclass(kind, enum.Enum):
            found[name] = [each.value for each in kind]
            continue
        of, required = _declared(kind)
        found[name] = {}
        for wire in wire_names(kind).values():
            text, inside = _type(of.get(wire, Any), name_of)
            found[name][f"{wire}!" if wire in required else wire] = text
            todo += inside
    return InputTypes(resources, outputs, found)


def _declared(kind: Any) -> tuple[Mapping[str, Any], Collection[str]]:
    """Return the type of each input of a class by wire name, and which are required."""
    return _types.input_type_types(kind), _types._required_property_names(kind)


def short_name(kind: type) -> str:
    """Return the name of a class as messages have it."""
    return kind.__name__.removesuffix("Args")


def _type(expected: Any, name_of: typing.Callable[[type], str]) -> tuple[str, list[type]]:
    """Return what is written of a type, and the classes in it."""
    members = list(_members(expected))
    parts = [_member(member, name_of) for member in members]
    return "|".join(text for text, _ in parts) or "any", [kind for _, kinds in parts for kind in kinds]


def _member(member: Any, name_of: typing.Callable[[type], str]) -> tuple[str, list[type]]:
    origin, arguments = get_origin(member), get_args(member)
    if member in _SCALARS:
        return member.__name__, []
    if origin is Literal:
        return "|".join(repr(value) for value in arguments), []
    if origin in (list, Sequence) or member is list:
        text, kinds = _type(arguments[0], name_of) if arguments else ("any", [])
        return f"[]{_grouped(text)}", kinds
    if origin in (dict, Mapping) or member is dict:
        text, kinds = _type(arguments[1], name_of) if arguments else ("any", [])
        return f"*{_grouped(text)}", kinds
    if inspect.isclass(member) and (_types.is_input_type(member) or issubclass(member, enum.Enum)):
        return name_of(member), [member]
    if inspect.isclass(member) and issubclass(member, pulumi.Asset | pulumi.Archive | pulumi.Resource):
        return member.__name__, []
    return "any", []


def _grouped(text: str) -> str:
    return f"({text})" if "|" in text else text


@functools.cache
def _members(expected: Any) -> tuple[Any, ...]:
    """Return the types that a value on the wire may have, without null and the wrappers of `pulumi.Input`."""
    if get_origin(expected) not in (Union, types.UnionType):
        return () if _is_wrapper(expected) else (expected,)
    return tuple(dict.fromkeys(member for part in get_args(expected) for member in _members(part)))


def _is_wrapper(part: Any) -> bool:
    """Return whether `pulumi.Input` added this type: outputs, awaitables, and a TypedDict beside its class."""
    return part is type(None) or get_origin(part) in (pulumi.Output, Awaitable, Coroutine) or typing.is_typeddict(part)


def wire_names(kind: type) -> Mapping[str, str]:
    """Return Python name to wire name of a class of inputs."""
    names: Mapping[str, str] = _types.input_type_py_to_pulumi_names(kind)
    return names


@functools.cache
def args_class(resource: type) -> type | None:
    """Return the class of a resource's `args`, from its constructor because the names follow no rule."""
    for overload in typing.get_overloads(resource.__init__):  # type: ignore[misc]
        annotation = overload.__annotations__.get("args")
        if isinstance(annotation, str):
            annotation = typing.get_type_hints(overload).get("args")
        for member in _members(annotation) if annotation is not None else ():
            if _types.is_input_type(member):
                return typing.cast(type, member)
    return None


def resource_class(token: str) -> type | None:
    """Return the class for a type token, from its SDK if that is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of classes that nobody asks for
        _import_sdk(token)
        for fqn, name in _places(token):
            found: object = getattr(import_module(fqn), name, None) if fqn and name else None
            if inspect.isclass(found):
                return found
    return None


def _import_sdk(token: str) -> None:
    """Import what registers the class of a type token; only a package itself where its modules follow no rule."""
    package, _, module = token.removeprefix(_PROVIDER).partition(":")
    sdk = f"pulumi_{package.replace('-', '_')}"
    with suppress(ModuleNotFoundError):
        import_module(sdk)
        if module and package != "kubernetes":
            import_module(f"{sdk}.{module.partition(':')[0].partition('/')[0]}")


def _places(token: str) -> Iterator[tuple[Any, Any]]:
    """Yield module and name of the class of a token, as the SDKs registered them."""
    if token.startswith(_PROVIDER):
        packages: Collection[Any] = rpc._RESOURCE_PACKAGES.get(token.removeprefix(_PROVIDER), ())
        infos = [getattr(package, "pkg_info", {}) for package in packages]
        yield from ((info.get("fqn"), info.get("class")) for info in infos if info.get("token") == token)
    else:
        modules: Collection[Any] = rpc._RESOURCE_MODULES.get(token.rpartition(":")[0], ())
        for info in (getattr(module, "mod_info", {}) for module in modules):
            yield info.get("fqn"), info.get("classes", {}).get(token)
