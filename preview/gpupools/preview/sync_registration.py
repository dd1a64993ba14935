"""Has the SDK register a resource in the line that declares it, where it would leave that to the event loop.

The strict monitor answers at once, so nearly nothing that the SDK waits for is late, and most of the time of a large
stack went into the tasks, futures and turns of the loop with which it waits all the same. Here the SDK's own coroutines
run until they really have to wait, so every request is the one the SDK makes; what is late takes its usual way.

A program notices one thing: what it gave to a resource or to `apply` is looked at in that line, and not after its last
one. So this is for a program that changes no such value later, as ours; any other runs as an engine runs it.
"""

import asyncio
import contextlib
import functools
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from importlib import import_module
from typing import Any

import pulumi

from gpupools.common.json_types import JsonDict, JsonObject

REPLACED = (
    ("pulumi.runtime.rpc", "transfer_properties"),
    ("pulumi.runtime.rpc", "serialize_property"),
    ("pulumi.runtime.resource", "create_urn"),
)
"""The internals that are replaced meanwhile: module and name."""

USED = (("pulumi.output", "_OutputData"), ("pulumi", "Output._from_data"))
"""The internals that the replacements go by."""


def gone() -> list[str]:
    """Name what the installed SDK lacks of these; it then runs as it is, and slower."""
    return [f"{module}.{path}" for module, path in (*REPLACED, *USED) if not _has(import_module(module), path)]


def _has(owner: Any, path: str) -> bool:
    first, _, rest = path.partition(".")
    return hasattr(owner, first) and (not rest or _has(getattr(owner, first), rest))


@contextlib.contextmanager
def registering_at_once() -> Iterator[None]:
    """Let the SDK register at once from now on; entered while the program's event loop runs."""
    if gone():
        yield
        return
    loop: Any = asyncio.get_running_loop()
    replacements = (_transferring, _serializing, _naming)
    with contextlib.ExitStack() as restored:

        def put(owner: Any, name: str, instead: Callable[[Any], Any]) -> None:
            before = getattr(owner, name)
            restored.callback(setattr, owner, name, before)
            setattr(owner, name, instead(before))

        for (module, name), instead in zip(REPLACED, replacements, strict=True):
            put(import_module(module), name, instead)
        put(asyncio, "gather", _gathering)
        put(loop, "run_in_executor", lambda _: functools.partial(_run_here, loop))
        restored.callback(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(start_at_once)
        yield


class _Ended(asyncio.Future[Any]):
    """The future of a coroutine that has ended, where a task is wanted."""

    def set_name(self, _: object) -> None:
        """Take the name that loops of Python 3.12 and 3.13 give to every task; nobody asks for it."""


def start_at_once(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **given: Any
) -> asyncio.Future[Any]:
    """Run a coroutine until it waits, and make a task of the rest; of one that has ended, a future.

    Python 3.12 has this as `asyncio.eager_task_factory`.
    """
    ended = _Ended(loop=loop)
    try:
        waits = coroutine.send(None)
    except StopIteration as end:
        ended.set_result(end.value)
    except Exception as error:
        ended.set_exception(error)
    else:
        if waits is not None:
            waits._asyncio_future_blocking = False  # the next one to wait for the same future may set it
        return asyncio.Task(_rest(coroutine, waits), loop=loop, **given)
    return ended


async def _rest(coroutine: Coroutine[Any, Any, Any], waits: Any) -> Any:
    return await _going_on(coroutine, waits)


@types.coroutine
def _going_on(coroutine: Coroutine[Any, Any, Any], waits: Any) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that has begun and waits, as `await` would from its beginning."""
    go_on: Callable[[], Any]
    while True:
        if waits is not None:
            waits._asyncio_future_blocking = True  # how a task knows that it was awaited: asyncio.Future.__await__
        try:
            sent = yield waits
        except BaseException as error:
            go_on = functools.partial(coroutine.throw, error)
        else:
            go_on = functools.partial(coroutine.send, sent)
        try:
            waits = go_on()
        except StopIteration as end:
            return end.value


def _run_here(loop: asyncio.AbstractEventLoop, _: Any, call: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
    """Stand in for `loop.run_in_executor`: a request is answered by this very process."""
    answered = loop.create_future()
    try:
        answered.set_result(call(*given))
    except Exception as error:
        answered.set_exception(error)
    return answered


def _gathering(gather: Any) -> Any:
    def gather_at_once(*given: Any, **options: Any) -> Any:
        """Gather what is there already without waiting for it."""
        if not given or not all(isinstance(each, asyncio.Future) and _succeeded(each) for each in given):
            return gather(*given, **options)
        gathered = asyncio.get_running_loop().create_future()
        gathered.set_result([each.result() for each in given])
        return gathered

    return gather_at_once


def _succeeded(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _transferring(_: Any) -> Any:
    data_of = import_module("pulumi.output")._OutputData
    output: Any = pulumi.Output

    def output_of(resource: pulumi.Resource) -> tuple[pulumi.Output[Any], Callable[..., None]]:
        """Return an output of a resource, and what gives it its value."""
        data: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def resolve(value: Any, known: bool, secret: bool, others: Any, failed: Exception | None) -> None:
            if failed is None:
                data.set_result(data_of({*(others or ()), resource}, value, known, secret))
            else:
                data.set_exception(failed)

        return output._from_data(data), resolve

    def transfer_properties(resource: pulumi.Resource, props: JsonObject, custom: bool) -> JsonDict:
        """Make an output of each property, as the SDK's function, but of one future and not of a task and four."""
        resolvers = {}
        for name in props:
            if name != "urn" and not (name == "id" and custom):
                resource.__dict__[name], resolvers[name] = output_of(resource)
        return resolvers

    return transfer_properties


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _serializing(serialize: Any) -> Any:
    async def serialize_property(value: Any, *given: Any, return_protobuf_value: bool = False, **options: Any) -> Any:
        """Return a plain value as it is, as the SDK's function does after it has tried all else."""
        if type(value) in _PLAIN and not return_protobuf_value:
            return value
        return await serialize(value, *given, return_protobuf_value=return_protobuf_value, **options)

    return serialize_property


def _naming(create_urn: Any) -> Any:
    def create_urn_at_once(name: Any, type_: Any, parent: Any = None, *given: Any, **options: Any) -> Any:
        """Put texts together, for which the SDK's function makes seven outputs."""
        if all(isinstance(text, str) for text in (name, type_, parent)):
            return pulumi.Output.from_input(f"{parent[: parent.rfind('::')]}${type_}::{name}")
        return create_urn(name, type_, parent, *given, **options)

    return create_urn_at_once
