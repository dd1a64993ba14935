"""Run a Pulumi program in this process against the strict monitor, like Pulumi's Python language host.

Follows pulumi/pulumi sdk/python/cmd/pulumi-language-python-exec: configuration, working directory, `sys.argv`,
`runpy.run_path` and handling of uncaught exceptions; unlike the host, it restores the process state afterwards.
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
from collections.abc import Callable, Iterable, Iterator
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
from gpupools.spec.models import Late


@dataclass(frozen=True)
class Preview:
    """The result of running a program offline."""

    project: str
    stack: str
    resources: list[DeclaredResource] = field(default_factory=list)
    """In the order of registration, without the stack itself."""
    problems: list[Problem] = field(default_factory=list)
    """Everything that would fail or break the deployment."""
    warnings: list[Problem] = field(default_factory=list)
    """Values that the SDK does not list but the cloud may accept."""
    outputs: JsonDict = field(default_factory=dict)
    """The stack's outputs as on the wire."""
    stack_references: list[str] = field(default_factory=list)
    """Other stacks whose outputs the program uses; they are unknown here."""
    messages: list[str] = field(default_factory=list)
    """Log messages and output of the program."""
    registered: JsonDict = field(default_factory=dict)
    """The registered outputs of resources by URN, as on the wire."""


def preview_program(program: Path, stack: str, project: str, config: JsonObject) -> Preview:
    """Run a program as `pulumi preview` does, without engine, providers or network.

    Args:
        program: The program's file; a `__main__.py` runs with its folder on the import path, as Pulumi runs it.
        stack: The stack's name.
        project: The project's name.
        config: Values by key; a key without namespace belongs to the project. Non-string values are passed as JSON,
            like the engine does. A `Late` value (an encrypted secret) is unknown to the program, and its key is
            marked secret.
    """
    monitor, log = StrictMonitor(), _Log()
    values = {key if ":" in key else f"{project}:{key}": value for key, value in config.items()}
    texts = {key: value if isinstance(value, str) else _json_text(value) for key, value in values.items()}
    secret = [key for key, text in texts.items() if UNKNOWN in text]

    def run() -> None:
        pulumi.runtime.set_all_config(texts, list(secret))
        running = _run_program(program, stack, project, monitor, log)
        try:
            asyncio.run(running)
        finally:
            running.close()  # avoids a Python warning if an interrupt comes before the loop runs

    failure: BaseException | None = None
    with _restored_process(program), contextlib.redirect_stdout(log.printed):
        try:
            # Pulumi keeps its settings in context variables: changes to a copy of the context do not reach the caller.
            contextvars.copy_context().run(run)
        except Refused:
            pass  # the monitor has recorded the problem
        except (Exception, SystemExit) as error:
            failure = error
    if isinstance(failure, SystemExit) and failure.code == _ERROR_SHOWN and not log.errors:
        failure = SystemExit(f"{_ERROR_SHOWN} without an error message")
    problems = list(_problems(failure, program)) if failure is not None else []
    return Preview(
        project=project,
        stack=stack,
        resources=_sorted_siblings(monitor.declared.values()),
        problems=list(dict.fromkeys([*monitor.problems, *problems, *log.errors])),
        warnings=list(dict.fromkeys(monitor.warnings)),
        outputs=monitor.outputs,
        stack_references=monitor.stack_references,
        messages=[*log.lines, *log.printed.getvalue().splitlines()],
        registered=monitor.registered,
    )


async def _run_program(program: Path, stack: str, project: str, monitor: StrictMonitor, log: "_Log") -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(_Inline())
    # A failed program leaves futures that nothing awaits; report only its first error.
    loop.set_exception_handler(lambda *_: None)
    runtime = pulumi.runtime
    SETTINGS.outputs, SETTINGS.lock = set(), threading.Lock()
    SETTINGS.package_refs, SETTINGS.base_providers_by_ref = {}, {}
    # Without a stack set_mocks would create one; run_in_stack creates the one that the program uses.
    runtime.settings.ROOT.set(_NO_STACK)
    runtime.set_mocks(monitor.mocks, project, stack, preview=True, monitor=monitor, organization="organization")
    SETTINGS.engine = log
    SETTINGS.root_directory = str(program.parent.parent)
    runtime.settings.ROOT.set(None)
    entry = str(program.parent if program.name == "__main__.py" else program)

    def run_program() -> None:
        runpy.run_path(entry, run_name="__main__")

    await runtime.run_in_stack(run_program)


_NO_STACK: Any = object()


_ERROR_SHOWN = 32
"""Exit code of a program that has already reported its error
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""


class _Inline(ThreadPoolExecutor):
    """Runs each call synchronously, so that requests arrive in the program's order."""

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
        """Record a message; an error fails the deployment, as with the engine."""
        if request.severity == engine_pb2.ERROR:
            self.errors.append(Problem((), f"the program logged an error: {request.message}"))
        elif request.severity == engine_pb2.WARNING:
            self.lines.append(f"warning: {request.message}")
        elif request.severity == engine_pb2.INFO:
            self.lines.append(request.message)

    def RequirePulumiVersion(self, request: Any) -> None:  # noqa: N802 - the protocol's name
        """Accept any version: no CLI is involved."""


@contextlib.contextmanager
def _restored_process(program: Path) -> Iterator[None]:
    """Set up the process for a program like the language host, and restore it afterwards."""
    path, arguments, folder = list(sys.path), list(sys.argv), Path.cwd()
    set_handler = signal.signal
    signal.signal = _keep_handler  # type: ignore[assignment]
    importlib.invalidate_caches()
    # Outputs are many objects that live until the end; garbage collection took more than half of the time of 300 pools
    # (measured: 35 s with, 16 s without, 508 instead of 454 MB).
    gc_enabled = gc.isenabled()
    gc.disable()
    sys.argv = [str(program)]
    try:
        if program.parent.is_dir():
            os.chdir(program.parent)
        yield
    finally:
        if gc_enabled:
            gc.enable()
        os.chdir(folder)
        sys.path[:], sys.argv = path, arguments
        signal.signal = set_handler


def _keep_handler(number: int, handler: object) -> object:
    """Replace `signal.signal`, so that Ctrl-C ends the command like any other.

    The program's handler ends the process with its own exit code, and asyncio's waits for the program's next `await`.
    """
    return signal.getsignal(number)


def _json_text(value: Any) -> str:
    """Return a value as the program gets it; what is late stands there as the engine's marker."""
    return UNKNOWN if isinstance(value, Late) else json.dumps(value, default=lambda _: UNKNOWN)


def _sorted_siblings(declared: Iterable[DeclaredResource]) -> list[DeclaredResource]:
    """Sort the children of a component by name; other resources keep the order of declaration.

    The SDK awaits dependencies in sets, so resources with dependencies arrive in a random order.
    """
    resources = list(declared)
    place = {resource.urn: index for index, resource in enumerate(resources)}

    def rank(resource: DeclaredResource) -> tuple[int, int, str]:
        inside = resource.parent in place
        return (place[str(resource.parent)] if inside else place[resource.urn], int(inside), resource.name)

    return sorted(resources, key=rank)


def _problems(error: BaseException, program: Path) -> Iterator[Problem]:
    """Yield a problem for each reason why a program failed, without a traceback."""
    if isinstance(error, SystemExit):
        if error.code not in (None, 0, _ERROR_SHOWN):
            yield Problem((), f"the program exited with code {error.code}")
    elif isinstance(error, pulumi.InputPropertyError):
        yield Problem((error.property_path,), error.reason)
    elif isinstance(error, pulumi.InputPropertiesError):
        details = error.errors or []
        if not details:
            yield Problem((), error.message)
        for detail in details:
            reason = detail["reason"]
            # gpupools components repeat the path in the reason, since most programs show only that.
            path = () if reason.startswith(f"{detail['property_path']}:") else (detail["property_path"],)
            yield Problem(path, reason)
    elif isinstance(error, pulumi.RunError):
        yield Problem((), str(error))
    elif not program.is_file():
        yield Problem((), f"the program {program} does not exist", "pass the program's file, e.g. stacks/__main__.py")
    else:
        message = " ".join(str(error).split())
        kind = type(error).__name__
        yield Problem((), f"the program failed{_location(error, program)}: {kind}{f': {message}' if message else ''}")


def _location(error: BaseException, program: Path) -> str:
    """Return the deepest line of an error's traceback in the program's own code, not in an installed package."""
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
