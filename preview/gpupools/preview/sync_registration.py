"""Make the SDK register a resource in the line that declares it, instead of later in the event loop.

The strict monitor answers immediately, so the SDK rarely has to wait, yet its tasks, futures and event loop took most
of the time of a large stack. Here the SDK's own coroutines run until they really have to wait, so the requests are the
same; those that wait are scheduled as usual.

One thing differs for a program: values passed to a resource or to `apply` are read in that line, not after the
program's last line. So use this only for a program that does not change such values later, like the stack program.
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
"""The SDK internals that are replaced: module and name."""

USED = (("pulumi.output", "_OutputData"), ("pulumi", "Output._from_data"))
"""The SDK internals that the replacements use."""


def missing_internals() -> list[str]:
    """Return the internals that the installed SDK lacks; it then runs unchanged, and slower."""
    return [f"{module}.{path}" for module, path in (*REPLACED, *USED) if not _has(import_module(module), path)]


def _has(owner: Any, path: str) -> bool:
    first, _, rest = path.partition(".")
    return hasattr(owner, first) and (not rest or _has(getattr(owner, first), rest))


@contextlib.contextmanager
def synchronous_registration() -> Iterator[None]:
    """Let the SDK register resources synchronously; enter it while the program's event loop runs."""
    if missing_internals():
        yield
        return
    loop: Any = asyncio.get_running_loop()
    replacements = (_transfer_replacement, _serialize_replacement, _create_urn_replacement)
    with contextlib.ExitStack() as restored:

        def replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
            before = getattr(owner, name)
            restored.callback(setattr, owner, name, before)
            setattr(owner, name, wrap(before))

        for (module, name), wrap in zip(REPLACED, replacements, strict=True):
            replace(import_module(module), name, wrap)
        replace(asyncio, "gather", _gather_replacement)
        replace(loop, "run_in_executor", lambda _: functools.partial(_run_inline, loop))
        restored.callback(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(start_eagerly)
        yield


class _Finished(asyncio.Future[Any]):
    """The future of a finished coroutine, where the caller expects a task."""

    def set_name(self, _: object) -> None:
        """Ignore the name that event loops of Python 3.12 and 3.13 give to every task."""


def start_eagerly(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Future[Any]:
    """Run a coroutine until it waits; return a task for the rest, or a future if it has finished.

    Python 3.12 has this as `asyncio.eager_task_factory`.
    """
    ended = _Finished(loop=loop)
    try:
        waits = coroutine.send(None)
    except StopIteration as end:
        ended.set_result(end.value)
    except Exception as error:
        ended.set_exception(error)
    else:
        if waits is not None:
            waits._asyncio_future_blocking = False  # the next awaiter of this future sets it
        return asyncio.Task(_rest(coroutine, waits), loop=loop, **options)
    return ended


async def _rest(coroutine: Coroutine[Any, Any, Any], waits: Any) -> Any:
    return await _resume(coroutine, waits)


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, Any], waits: Any) -> Generator[Any, Any, Any]:
    """Resume a coroutine that waits, as `await` does with one that has not started."""
    go_on: Callable[[], Any]
    while True:
        if waits is not None:
            waits._asyncio_future_blocking = True  # marks the future as awaited: asyncio.Future.__await__
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


def _run_inline(loop: asyncio.AbstractEventLoop, _: Any, call: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    """Replace `loop.run_in_executor`: this process itself answers every request."""
    answered = loop.create_future()
    try:
        answered.set_result(call(*args))
    except Exception as error:
        answered.set_exception(error)
    return answered


def _gather_replacement(gather: Any) -> Any:
    def gather_finished(*futures: Any, **options: Any) -> Any:
        """Return the results immediately if all futures have succeeded."""
        if not futures or not all(isinstance(each, asyncio.Future) and _succeeded(each) for each in futures):
            return gather(*futures, **options)
        gathered = asyncio.get_running_loop().create_future()
        gathered.set_result([each.result() for each in futures])
        return gathered

    return gather_finished


def _succeeded(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _transfer_replacement(_: Any) -> Any:
    data_of = import_module("pulumi.output")._OutputData
    output: Any = pulumi.Output

    def output_of(resource: pulumi.Resource) -> tuple[pulumi.Output[Any], Callable[..., None]]:
        """Return an output of a resource, and the function that resolves it."""
        data: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def resolve(value: Any, known: bool, secret: bool, others: Any, failed: Exception | None) -> None:
            if failed is None:
                data.set_result(data_of({*(others or ()), resource}, value, known, secret))
            else:
                data.set_exception(failed)

        return output._from_data(data), resolve

    def transfer_properties(resource: pulumi.Resource, props: JsonObject, custom: bool) -> JsonDict:
        """Create an output per property like the SDK's function, with one future instead of a task and four futures."""
        resolvers = {}
        for name in props:
            if name != "urn" and not (name == "id" and custom):
                resource.__dict__[name], resolvers[name] = output_of(resource)
        return resolvers

    return transfer_properties


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _serialize_replacement(serialize: Any) -> Any:
    async def serialize_property(value: Any, *args: Any, return_protobuf_value: bool = False, **options: Any) -> Any:
        """Return a scalar unchanged, as the SDK's function does after all other checks."""
        if type(value) in _SCALARS and not return_protobuf_value:
            return value
        return await serialize(value, *args, return_protobuf_value=return_protobuf_value, **options)

    return serialize_property


def _create_urn_replacement(create_urn: Any) -> Any:
    def create_urn_from_text(name: Any, type_: Any, parent: Any = None, *args: Any, **options: Any) -> Any:
        """Join strings directly; the SDK's function creates seven outputs for this."""
        if all(isinstance(text, str) for text in (name, type_, parent)):
            return pulumi.Output.from_input(f"{parent[: parent.rfind('::')]}${type_}::{name}")
        return create_urn(name, type_, parent, *args, **options)

    return create_urn_from_text
