"""Skip what the Pulumi SDK computes only for an engine, while a program runs offline.

Most of the time of a large stack went into URNs of aliases (`sdk_aliases`) and a stack trace of some thirty frames per
request.
"""

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from pulumi.runtime.proto import source_pb2

from gpupools.providers import sdk_aliases

REPLACED = (sdk_aliases.REPLACED, ("pulumi.runtime.resource", "_get_stack_trace"))
"""The SDK internals that are replaced: module and name."""


@contextlib.contextmanager
def skip_engine_only_work() -> Iterator[None]:
    """Run the SDK without URNs for aliases that have only a type or a name, and without stack traces.

    Traces are for the engine's messages. An SDK without one of these internals runs unchanged.
    """
    with contextlib.ExitStack() as restored:

        def replace(internal: tuple[str, str], wrap: Callable[[Any], Any]) -> None:
            module, name = import_module(internal[0]), internal[1]
            before = getattr(module, name, None)
            if before is not None:
                setattr(module, name, wrap(before))
                restored.callback(setattr, module, name, before)

        aliases, traces = REPLACED
        replace(aliases, sdk_aliases.urn_if_it_can_fail)
        replace(traces, lambda _: source_pb2.StackTrace)
        yield
