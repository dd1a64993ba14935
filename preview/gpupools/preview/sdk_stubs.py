"""What the Pulumi SDK works out for an engine and nothing here reads, left out while a program runs offline.

Both took most of the time of a large stack: the URNs of aliases (`sdk_aliases`), and a stack trace of some thirty
frames with every request.
"""

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from pulumi.runtime.proto import source_pb2

from gpupools.providers import sdk_aliases

REPLACED = (sdk_aliases.REPLACED, ("pulumi.runtime.resource", "_get_stack_trace"))
"""The internals that are replaced meanwhile: module and name."""


@contextlib.contextmanager
def without_what_only_an_engine_reads() -> Iterator[None]:
    """Run the SDK without URNs for aliases that give a type or a name alone, and without stack traces.

    Traces are for the engine's messages. An SDK that has one of the two no longer by its name runs as it is.
    """
    with contextlib.ExitStack() as restored:

        def put(place: tuple[str, str], instead: Callable[[Any], Any]) -> None:
            module, name = import_module(place[0]), place[1]
            before = getattr(module, name, None)
            if before is not None:
                setattr(module, name, instead(before))
                restored.callback(setattr, module, name, before)

        aliases, traces = REPLACED
        put(aliases, sdk_aliases.urn_if_it_can_fail)
        put(traces, lambda _: source_pb2.StackTrace)
        yield
