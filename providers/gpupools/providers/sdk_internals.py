"""The names of Pulumi's SDK that its makers do not promise to keep; whoever wants one asks here.

What `pulumi` has no public way for: waiting for a value while a program runs. `pack` of the policies also replaces
internals, to save time, and leaves an SDK alone that has them no longer.
"""

import functools
from collections.abc import Awaitable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

import pulumi

T = TypeVar("T")

TESTED = "3.272.0"
"""The version of `pulumi` with which every name below was there."""

NAMES: Mapping[str, str] = MappingProxyType(
    {
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


def wait_for(value: Awaitable[T]) -> T:
    """Run the program's loop until a value is there, also from inside that loop."""
    found: T = _internal("pulumi.runtime.sync_await:_sync_await")(value)
    return found
