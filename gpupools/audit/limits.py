"""Judges untrusted files in a child process with limits of processor time and memory.

The author of a pull request controls the content of its files. A file that takes too long ends only the child process.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import signal
import sys
import threading
import traceback
from _thread import interrupt_main
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from gpupools.audit.judging import FileReport, judge_file
from gpupools.common.errors import Problem
from gpupools.console.progress import progress
from gpupools.policies.finding import Rule
from gpupools.policies.policy_config import Config
from gpupools.policies.rules import ALL_RULES

CPU_SECONDS = 60
"""A plan of 95,000 node pools (50 MB) takes less than half of it, and a third of the memory."""
MEMORY_BYTES = 2 * 1024**3

_OUT_OF_MEMORY = 3
_TOO_LONG = f"takes more than {CPU_SECONDS} s of processor time to judge"
_REASONS = {
    -getattr(signal, "SIGXCPU", 0): _TOO_LONG,  # which Windows has not
    _OUT_OF_MEMORY: f"takes more than {MEMORY_BYTES // 1024**2} MiB of memory to judge",
}
_FIX = "split it, or check fewer files per run"


def judge_within_limits(paths: Sequence[Path], config: Config) -> list[FileReport]:
    """Judge files until all are judged or a limit is reached.

    Args:
        paths: The files.
        config: The policy configuration.

    Returns:
        The verdict on each file; one that was not judged is `unfinished` and has a problem.
    """
    judged, why = (_in_child if hasattr(os, "fork") else _in_this_process)(paths, config)
    for path in paths[len(judged) :]:
        judged.append(FileReport(path, problems=(Problem((), why, _FIX),), unfinished=True))
        why = "was not judged: the run reached a limit"
    return judged


def _in_this_process(paths: Sequence[Path], config: Config) -> tuple[list[FileReport], str]:
    """Judge files where the system cannot fork, with a limit of time only."""
    judged: list[FileReport] = []
    timer = threading.Timer(CPU_SECONDS, interrupt_main)
    timer.start()
    try:
        for path in _each(paths):
            judged.append(judge_file(path, config))
    except KeyboardInterrupt:
        if timer.is_alive():  # a person ends the command
            raise
        return judged, _TOO_LONG
    finally:
        timer.cancel()
    return judged, ""


def _each(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files one by one, and show which one is judged."""
    with progress("judging") as doing:
        for number, path in enumerate(paths, start=1):
            doing(f"judging {path}, {number} of {len(paths)}")
            yield path


def _in_child(paths: Sequence[Path], config: Config) -> tuple[list[FileReport], str]:
    results, into = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(results)
        _judge_in_child(paths, config, into)
    os.close(into)
    judged: list[FileReport] = []
    try:
        with os.fdopen(results, "rb") as stream, suppress(EOFError, pickle.UnpicklingError):
            for _ in _each(paths):
                judged.append(pickle.load(stream))
    except BaseException:  # a person ends the command
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(judged) == len(paths):
        return judged, ""
    return judged, _REASONS.get(code, f"cannot be judged: its reader ended with code {code}")


def _judge_in_child(paths: Sequence[Path], config: Config, into: int) -> NoReturn:
    """Judge files in the child process and end it."""
    code = 1
    try:
        _limit()
        with os.fdopen(into, "wb") as stream:
            for path in paths:
                pickle.dump(judge_file(path, config), stream)
                stream.flush()
        code = 0
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BrokenPipeError:
        pass  # the command was killed
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _limit() -> None:
    import resource  # only here: Windows has none

    mapped = 0  # what the process had before: a program that imports this may be large
    with suppress(OSError):
        mapped = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, mapped + MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        soft, hard = resource.getrlimit(kind)
        given = [number for number in (soft, most) if number != resource.RLIM_INFINITY]
        with suppress(ValueError, OSError):  # macOS refuses a limit of memory below what is mapped already
            resource.setrlimit(kind, (min(given), hard))


def _rule(name: str) -> Rule:
    return next(rule for rule in ALL_RULES if rule.name == name)


# Functions of a rule cannot be pickled; each process has the same rules.
copyreg.pickle(Rule, lambda rule: (_rule, (rule.name,)))
