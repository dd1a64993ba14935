"""The command line in forks of one process that has imported it, for tests that run it many times.

Each call is a process with its own arguments, environment, folder, standard streams and terminal, as it is without;
what is spared is the start of Python and what it imports. Tests of just that start the installed `gpupools`.
"""

import gc
import io
import marshal
import os
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupools.common.errors import Rejected
from gpupools.stackfile.check import check_stack_file

ROOT = Path(__file__).resolve().parents[1]
_STREAMS = 3
_CALL = """\
#!{python} -IS
import _socket, marshal, posix, sys

ours = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
ours.connect({socket!r})
said = marshal.dumps((sys.argv[1:], dict(posix.environ), posix.getcwdb()))
streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range({streams}))
ours.sendmsg([len(said).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
ours.sendall(said)
code = ours.recv(1)
posix._exit(code[0] if code else 70)
"""
_WITH_SDKS = frozenset({"preview", "report"})
_CHECKED = (
    *("pulumi:providers:gcp", "gcp:container/nodePool:NodePool"),
    *("pulumi:providers:azure-native", "azure-native:containerservice:AgentPool"),
)
"""Types whose modules of an SDK the preview's check loads."""


@contextmanager
def forking() -> Iterator[Path]:
    """Yield a folder for PATH in which `gpupools` is a program, as long as the block runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        at = folder / "socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(at))
            listening.listen(16)
            command = [sys.executable, "-P", __file__, str(listening.fileno())]
            # It ends when its standard input does.
            server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
        program = folder / "gpupools"
        program.write_text(_CALL.format(python=sys.executable, socket=str(at), streams=_STREAMS), encoding="utf-8")
        program.chmod(0o700)
        try:
            yield folder
        finally:
            server.communicate()


def _serve(listening: socket.socket) -> None:
    cli = import_module("gpupools.cli.main")
    cli.parser(cli.COMMANDS)
    clouds = import_module("gpupools.providers").clouds().values()
    for cloud in clouds:
        cloud.readback()
    with suppress(Rejected):  # so that tables of data are read
        check_stack_file(ROOT / "stacks" / "Pulumi.matrix.yaml", {cloud.name: cloud for cloud in clouds})
    has_sdks = False
    running: set[int] = set()
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        call, _ = listening.accept()
        size, streams, _, _ = socket.recv_fds(call, 8, _STREAMS)
        said = b""
        while len(said) < int.from_bytes(size, "big"):
            said += call.recv(65536)
        words, environment, folder = marshal.loads(said)
        if not has_sdks and words and words[0] in _WITH_SDKS:
            has_sdks = True
            for name in ("command", "pack_process", "program_run", "format_preview"):
                import_module(f"gpupools.preview.{name}")
            for cloud in clouds:
                cloud.node_pools.resources()
            for token in _CHECKED:
                import_module("gpupools.preview.sdk_schema").resource_class(token)
        gc.freeze()
        running.add(child := os.fork())
        if child == 0:
            listening.close()
            code = _run(cli.program, streams, words, environment, folder)
            call.sendall(bytes([code & 255]))
            os._exit(code & 255)
        for each in streams:
            os.close(each)
        call.close()
        running -= {each for each in running if os.waitpid(each, os.WNOHANG)[0]}
    for each in running:
        os.waitpid(each, 0)


def _run(program: Any, streams: list[int], words: list[str], environment: dict[bytes, bytes], folder: bytes) -> int:
    """Run the program with what it was called with; return its exit code."""
    for place, each in enumerate(streams):
        os.dup2(each, place)
        os.close(each)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    sys.argv = ["gpupools", *words]
    sys.stdin = sys.__stdin__ = _text(0, "r", "strict")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _text(1, "w", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "w", "backslashreplace")  # type: ignore[misc]
    try:
        code = program()
    except SystemExit as ended:
        code = ended.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code or 0


def _text(descriptor: int, mode: str, errors: str) -> io.TextIOWrapper:
    buffering = 1 if descriptor == 2 or os.isatty(descriptor) else -1
    return open(descriptor, mode, buffering, "utf-8", errors, closefd=False)  # type: ignore[return-value]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
