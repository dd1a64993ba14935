"""The names of Pulumi's SDK that its makers do not promise to keep; whoever wants one asks here.

What `pulumi` has no public way for: wire names and types of inputs, the classes behind type tokens, waiting for a value
while a program runs. `sdk` of the preview and `pack` of the policies also replace internals, to save time, and
leave an SDK alone that has them no longer.
"""

import functools
from collections.abc import Awaitable, Collection, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

import pulumi

from gpupools.common.json_types import JsonObject

T = TypeVar("T")

TESTED = "3.272.0"
"""The version of `pulumi` with which every name below was there."""

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pulumi._types:is_input_type": "tells the classes of nested inputs from other values",
        "pulumi._types:input_type_py_to_pulumi_names": "gives inputs their names on the wire",
        "pulumi._types:input_type_types": "says which types inputs take",
        "pulumi._types:_required_property_names": "says which inputs are required",
        "pulumi._types:resource_pulumi_to_py_names": "names the outputs of a resource",
        "pulumi.runtime.rpc:_RESOURCE_PACKAGES": "finds the class of a provider",
        "pulumi.runtime.rpc:_RESOURCE_MODULES": "finds the class of a resource",
        "pulumi.runtime.sync_await:_sync_await": "waits for a value while the program runs",
    }
)
"""`module:name` to what it is for."""


class NotInThisSdk(pulumi.RunError):
    """The installed SDK has a name no longer."""


@functools.cache
def _internal(path: str) -> Any:
    what, (module, _, name) = NAMES[path], path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        fix = f"install pulumi=={TESTED}, with which it was tried"
        raise NotInThisSdk(f"the installed pulumi has no {module}.{name}, which {what}; {fix}") from None


def is_input_type(kind: type) -> bool:
    """Return whether a class is one of nested inputs."""
    return bool(_internal("pulumi._types:is_input_type")(kind))


def wire_names(kind: type) -> Mapping[str, str]:
    """Return Python name to wire name of a class of inputs."""
    found: Mapping[str, str] = _internal("pulumi._types:input_type_py_to_pulumi_names")(kind)
    return found


def input_types(kind: type) -> JsonObject:
    """Return wire name to type of a class of inputs."""
    found: JsonObject = _internal("pulumi._types:input_type_types")(kind)
    return found


def required_inputs(kind: type) -> Collection[str]:
    """Return the wire names of the inputs that a class requires."""
    found: Collection[str] = _internal("pulumi._types:_required_property_names")(kind)
    return found


def output_names(resource: type) -> Iterable[str]:
    """Return the wire names of a resource's outputs."""
    found: Iterable[str] = _internal("pulumi._types:resource_pulumi_to_py_names")(resource)
    return found


def registered_packages(name: str) -> Iterable[Any]:
    """Return what the SDKs imported so far have registered for a package's providers."""
    found: Mapping[str, Iterable[Any]] = _internal("pulumi.runtime.rpc:_RESOURCE_PACKAGES")
    return found.get(name, ())


def registered_modules(name: str) -> Iterable[Any]:
    """Return what the SDKs imported so far have registered for a module of resources."""
    found: Mapping[str, Iterable[Any]] = _internal("pulumi.runtime.rpc:_RESOURCE_MODULES")
    return found.get(name, ())


def wait_for(value: Awaitable[T]) -> T:
    """Run the program's loop until a value is there, also from inside that loop."""
    found: T = _internal("pulumi.runtime.sync_await:_sync_await")(value)
    return found
