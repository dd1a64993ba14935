"""The names of Pulumi's SDK that its makers do not promise to keep; whoever wants one asks here.

What `pulumi` has no public way for: wire names of inputs, waiting for a value while a program runs. `sdk_aliases` and
`pack` of the policies also replace internals, to save time, and leave an SDK alone that has them no longer.
"""

import functools
from collections.abc import Awaitable, Mapping
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
        "pulumi._types:input_type_to_dict": "writes nested inputs by their names on the wire",
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


def wire_values(args: object) -> JsonObject:
    """Return the inputs of an instance by wire name."""
    found: JsonObject = _internal("pulumi._types:input_type_to_dict")(args)
    return found


def wait_for(value: Awaitable[T]) -> T:
    """Run the program's loop until a value is there, also from inside that loop."""
    found: T = _internal("pulumi.runtime.sync_await:_sync_await")(value)
    return found
