"""Runs a Pulumi program in this process as Pulumi's Python language host runs it, against the strict monitor.

Follows pulumi/pulumi sdk/python/cmd/pulumi-language-python-exec: configuration, working folder, `sys.argv`,
`runpy.run_path`, and what an uncaught exception becomes; what that host may leave behind is put back here.
"""

import asyncio
import contextlib
import contextvars
import gc
import importlib
import io
import json
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.proto import engine_pb2
from pulumi.runtime.settings import SETTINGS

from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.preview.monitor import DeclaredResource, Refused, StrictMonitor
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.preview.sdk_stubs import without_what_only_an_engine_reads
from gpupools.preview.sync_registration import registering_at_once
from gpupools.spec.models import Late


@dataclass(frozen=True)
class Preview:
    """What a program would declare."""

    project: str
    stack: str
    resources: list[DeclaredResource] = field(default_factory=list)
    """In the order of registration, without the stack itself."""
    problems: list[Problem] = field(default_factory=list)
    """Everything that would stop or spoil the deployment."""
    warnings: list[Problem] = field(default_factory=list)
    """Values the SDK does not know but the cloud may."""
    outputs: JsonDict = field(default_factory=dict)
    """The stack's outputs as on the wire."""
    stack_references: list[str] = field(default_factory=list)
    """Other stacks whose outputs the program uses; they are unknown here."""
    messages: list[str] = field(default_factory=list)
    """What the program logged or printed."""
    state: JsonDict = field(default_factory=dict)
    """What an update would leave behind, as `earlier` of a later preview: URN to `{type, outputs}`."""


def preview_program(
    program: Path,
    stack: str,
    project: str,
    config: JsonObject,
    earlier: JsonObject | None = None,
    *,
    at_once: bool = False,
) -> Preview:
    """Run a program as `pulumi preview` does, without engine, providers or network.

    Args:
        program: The program's file; a `__main__.py` runs with its folder on the import path, as Pulumi runs it.
        stack: The stack's name.
        project: The project's name.
        config: Values by key; a key without namespace is the project's own. Anything but text is handed over as
            JSON text, as the engine does. A `Late` value (a secret, which stays encrypted here) is unknown to the
            program, and its key is marked secret.
        earlier: What the stack's last update left, for a program that asks; None when nobody knows.
        at_once: Whether each resource may be registered in the line that declares it, which is faster, and the same
            for a program that changes nothing it gave to a resource or to `apply` later.

    Returns:
        What was declared, and every problem; an exception of the program is a problem too.
    """
    monitor, log = StrictMonitor(earlier), _Log()
    values = {key if ":" in key else f"{project}:{key}": value for key, value in config.items()}
    secret = [key for key, value in values.items() if _holds_late(value)]
    texts = {key: _as_text(value) for key, value in values.items()}

    def run() -> None:
        pulumi.runtime.set_all_config(texts, secret)
        running = _run(program, stack, project, monitor, log, at_once)
        try:
            asyncio.run(running)
        finally:
            running.close()  # Python would warn of it when an interrupt comes before the loop is there

    failure: BaseException | None = None
    with _restored(program), without_what_only_an_engine_reads(), contextlib.redirect_stdout(log.printed):
        try:
            # Pulumi keeps its settings in context variables: what is set in a copy never reaches the caller.
            contextvars.copy_context().run(run)
        except Refused:
            pass  # already on the monitor's list
        except (Exception, SystemExit) as error:
            failure = error
    if isinstance(failure, SystemExit) and failure.code == _SHOWN and not log.errors:
        failure = SystemExit(f"{_SHOWN} without saying why")
    problems = list(_problems(failure, program)) if failure is not None else []
    return Preview(
        project=project,
        stack=stack,
        resources=_in_order(monitor.declared.values()),
        problems=list(dict.fromkeys([*monitor.problems, *problems, *log.errors])),
        warnings=list(dict.fromkeys(monitor.warnings)),
        outputs=monitor.outputs,
        stack_references=monitor.stack_references,
        messages=[*log.lines, *log.printed.getvalue().splitlines()],
        state={
            urn: {"type": found.type, "outputs": monitor.registered.get(urn, {})}
            for urn, found in monitor.declared.items()
        },
    )


async def _run(program: Path, stack: str, project: str, monitor: StrictMonitor, log: "_Log", at_once: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(_Inline())
    # A program that stops half-way leaves futures nobody asks for; its first error is reported, not those.
    loop.set_exception_handler(lambda *_: None)
    runtime = pulumi.runtime
    SETTINGS.outputs, SETTINGS.lock = set(), threading.Lock()
    SETTINGS.package_refs, SETTINGS.base_providers_by_ref = {}, {}
    # set_mocks makes a stack of its own where there is none; run_in_stack makes the one the program sees.
    runtime.settings.ROOT.set(_NO_STACK)
    runtime.set_mocks(monitor.mocks, project, stack, preview=True, monitor=monitor, organization="organization")
    SETTINGS.engine = log
    SETTINGS.root_directory = str(program.parent.parent)
    runtime.settings.ROOT.set(None)
    entry = str(program.parent if program.name == "__main__.py" else program)
    with registering_at_once() if at_once else contextlib.nullcontext():
        await runtime.run_in_stack(lambda: _only_run(entry))


_NO_STACK: Any = object()


def _only_run(entry: str) -> None:
    runpy.run_path(entry, run_name="__main__")


_SHOWN = 32
"""A program's exit code after it has told the reader what is wrong
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""


class _Inline(ThreadPoolExecutor):
    """Runs each call at once, so that requests arrive in the program's order and not in the threads'."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Log:
    """The engine's side of `pulumi.log`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.errors: list[Problem] = []
        self.printed = io.StringIO()

    def Log(self, request: Any) -> None:  # noqa: N802 - the protocol's name
        """Keep a message; an error makes the deployment fail, as with the engine."""
        if request.severity == engine_pb2.ERROR:
            self.errors.append(Problem((), f"the program logged an error: {request.message}"))
        elif request.severity == engine_pb2.WARNING:
            self.lines.append(f"warning: {request.message}")
        elif request.severity == engine_pb2.INFO:
            self.lines.append(request.message)

    def RequirePulumiVersion(self, request: Any) -> None:  # noqa: N802 - the protocol's name
        """Accept: there is no CLI here whose version could be wrong."""


@contextlib.contextmanager
def _restored(program: Path) -> Iterator[None]:
    """Set the process up as the language host does for a program, and put everything back."""
    path, arguments, folder, modules = list(sys.path), list(sys.argv), Path.cwd(), set(sys.modules)
    set_handler = signal.signal
    signal.signal = _keep_handler  # type: ignore[assignment]
    importlib.invalidate_caches()
    # Every output is several objects that live until the end; looking them through again and again for garbage took
    # more than half of the time of 300 pools (measured: 35 s with, 16 s without, 508 instead of 454 MB).
    collecting = gc.isenabled()
    gc.disable()
    sys.argv = [str(program)]
    try:
        if program.parent.is_dir():
            os.chdir(program.parent)
        yield
    finally:
        if collecting:
            gc.enable()
        os.chdir(folder)
        sys.path[:], sys.argv = path, arguments
        signal.signal = set_handler
        _forget_modules_beside(program, set(sys.modules) - modules)


def _keep_handler(number: int, handler: object) -> object:
    """Stand in for `signal.signal`: a signal is meant for the preview, which has a policy pack to end.

    With a handler of the program, which ends the process on the spot because that is what an engine's interrupt asks
    for, or of asyncio, which waits for the program's next `await`, Ctrl-C would leave the pack running.
    """
    return signal.getsignal(number)


def _forget_modules_beside(program: Path, new: Collection[str]) -> None:
    """Forget modules that were importable only because they lie beside the program: another has its own."""
    folder = program.parent.resolve()
    if any(Path(entry).resolve() == folder for entry in sys.path):
        return
    packages = {name.partition(".")[0] for name in new}
    files = {package: getattr(sys.modules.get(package), "__file__", None) for package in packages}
    beside = {package for package, file in files.items() if file is not None and folder in Path(file).parents[:2]}
    for name in new:
        if name.partition(".")[0] in beside:
            sys.modules.pop(name, None)


def _holds_late(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_late(item) for item in value.values())
    return any(_holds_late(item) for item in value) if isinstance(value, list) else isinstance(value, Late)


def _as_text(value: Any) -> str:
    bare = _without_late(value)
    return bare if isinstance(bare, str) else json.dumps(bare)


def _without_late(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_late(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_late(item) for item in value]
    return UNKNOWN if isinstance(value, Late) else value


def _in_order(declared: Iterable[DeclaredResource]) -> list[DeclaredResource]:
    """Order what is below a component by name; what is not stays in the order of declaration.

    The SDK awaits dependencies through sets, so resources that wait arrive in another order in every process.
    """
    resources = list(declared)
    place = {resource.urn: index for index, resource in enumerate(resources)}

    def rank(resource: DeclaredResource) -> tuple[int, int, str]:
        inside = resource.parent in place
        return (place[str(resource.parent)] if inside else place[resource.urn], int(inside), resource.name)

    return sorted(resources, key=rank)


def _problems(error: BaseException, program: Path) -> Iterator[Problem]:
    """Say what stopped a program, in one problem for each reason and without a traceback."""
    if isinstance(error, SystemExit):
        if error.code not in (None, 0, _SHOWN):
            yield Problem((), f"the program ended itself with exit code {error.code}")
    elif isinstance(error, pulumi.InputPropertyError):
        yield Problem((error.property_path,), error.reason)
    elif isinstance(error, pulumi.InputPropertiesError):
        details = error.errors or []
        if not details:
            yield Problem((), error.message)
        for detail in details:
            reason = detail["reason"]
            # Our components put the path into the reason too, since most programs see only that.
            path = () if reason.startswith(f"{detail['property_path']}:") else (detail["property_path"],)
            yield Problem(path, reason)
    elif isinstance(error, pulumi.RunError):
        yield Problem((), str(error))
    elif not program.is_file():
        yield Problem((), f"there is no program {program}", "name the program's file, e.g. stacks/__main__.py")
    else:
        said = " ".join(str(error).split())
        kind = type(error).__name__
        yield Problem((), f"the program failed{_line(error, program)}: {kind}{f': {said}' if said else ''}")


def _line(error: BaseException, program: Path) -> str:
    """Name the deepest line of the program's own code (not of an installed package) in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    installed = (
        str(Path(pulumi.__file__).parent.parent),
        str(Path(os.__file__).parent),
        "<",
        str(Path(__file__).parent),
    )
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(program.parent)]
    own = inside or [frame for frame in frames if not frame.filename.startswith(installed)]
    if not own:
        return ""
    file = Path(own[-1].filename)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f" at {shown}:{own[-1].lineno}"
