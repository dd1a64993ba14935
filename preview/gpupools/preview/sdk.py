"""What the Pulumi SDK works out for an engine and nothing here reads, left out while a program runs offline.

Both took most of the time of a large stack: an agent pool of AKS has 83 types in older versions of its API, and the SDK
makes the URN of each out of several outputs; a stack trace of some thirty frames goes with every request.
"""

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pulumi
from pulumi.runtime.proto import source_pb2

REPLACED = (("pulumi.resource", "collapse_alias_to_urn"), ("pulumi.runtime.resource", "_get_stack_trace"))
"""The internals that are replaced meanwhile: module and name."""


@contextlib.contextmanager
def without_what_only_an_engine_reads() -> Iterator[None]:
    """Run the SDK without URNs for aliases that give a type or a name alone, and without stack traces.

    A monitor that takes aliases as they are written (`RESOURCE_MONITOR_FEATURE_ALIAS_SPECS`) is sent no such URN:
    `prepare_aliases` in https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/resource.py. Traces are for
    the engine's messages. An SDK that has one of the two no longer by its name runs as it is.
    """
    with contextlib.ExitStack() as restored:

        def put(place: tuple[str, str], instead: Callable[[Any], Any]) -> None:
            module, name = import_module(place[0]), place[1]
            before = getattr(module, name, None)
            if before is not None:
                setattr(module, name, instead(before))
                restored.callback(setattr, module, name, before)

        aliases, traces = REPLACED
        put(aliases, _urn_if_it_can_fail)
        put(traces, lambda _: source_pb2.StackTrace)
        yield


def _urn_if_it_can_fail(urn_of: Any) -> Any:
    def urn_if_it_can_fail(alias: Any, *defaults: Any) -> Any:
        return None if _cannot_fail(alias) else urn_of(alias, *defaults)

    return urn_if_it_can_fail


def _cannot_fail(alias: Any) -> bool:
    """Tell whether an alias gives a type or a name as text and nothing else: its URN waits for nothing."""
    left_out: Any = ...
    return (
        isinstance(alias, pulumi.Alias)
        and all(part is left_out or isinstance(part, str) for part in (alias.type_, alias.name))
        and all(part is left_out for part in (alias.parent, alias.stack, alias.project))
    )
