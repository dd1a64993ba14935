"""Every command that asks a cluster gets odd answers: one line, exit code 2, within limits of time and memory."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from gpupools.cli.main import main
from gpupools.ready import live_cluster
from tests.gpupools.ready.api import write_files
from tests.gpupools.ready.world import World
from tests.gpupools.test_mig_walk import FILE as WALK_FILE
from tests.security.odd_answers import LARGE, ODD, Odd, Write

TOKEN = "token-of-a-user"
COMMANDS = ("ready", "policy", "fit", "mig walk")


@contextmanager
def answering(write: Write) -> Iterator[str]:
    with Odd(write) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def words(command: str, server: str, folder: Path) -> list[str]:
    file = write_files(World("train", "whole"), server, folder, {"token": TOKEN})
    kube = ["--context", "x", "--kubeconfig", str(folder / "kube" / "config")]
    if command == "policy":
        return ["policy", *kube]
    if command in ("ready", "fit"):
        return ["ready", str(file), *kube] if command == "ready" else ["fit", "--stack", str(file), *kube]
    file.write_text(WALK_FILE)
    return ["mig", "walk", "--pool", "slices", "--to", "2g.20gb", "--yes", str(file), *kube]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_cluster, "REQUEST_S", 1.0)
    monkeypatch.setattr(live_cluster, "RETRY_S", 0.5)
    monkeypatch.setattr(live_cluster, "LOOK_S", 3.0)
    monkeypatch.setitem(live_cluster.MOST, "pages", 20)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_one_line(odd: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(ODD[odd]) as server:
        code = main(words(command, server, tmp_path))
    out, err = capsys.readouterr()

    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert len(err) < 600
    assert "Traceback" not in err
    assert "  " not in err
    assert TOKEN not in err


@pytest.mark.parametrize("command", ["policy", "fit"])
def test_what_is_kept_of_a_stream_of_pods_has_a_limit(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(live_cluster.MOST, "bytes of memory", 5_000_000)
    monkeypatch.setitem(live_cluster.MOST, "objects", 3_000)
    with answering(LARGE["endless-pods"]) as server:
        assert main(words(command, server, tmp_path)) == 2
    assert "more than 5000000 bytes of memory in one look" in capsys.readouterr().err


def test_one_request_and_a_look_without_objects_take_less_than_30_s() -> None:
    assert live_cluster.REQUEST_S + live_cluster.RETRY_S <= live_cluster.LOOK_S < 28


# The door is one for all commands, so that each answer is tried with one of them; `policy` and `fit` stream pods.
WITH = [("endless-pods", "policy"), ("endless-pods", "fit"), *zip(list(LARGE)[1:], cycle(COMMANDS), strict=False)]


@pytest.mark.slow
@pytest.mark.parametrize(("odd", "command"), WITH)
def test_the_limits_hold_as_they_are(odd: str, command: str, tmp_path: Path) -> None:
    """The process as users run it, against the answers that would take most."""
    with answering(LARGE[odd]) as server:
        begun = time.monotonic()
        program = "import sys; from gpupools.cli.main import main; code = main(sys.argv[1:]);"
        program += "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]); sys.exit(code)"
        done = subprocess.run(
            [sys.executable, "-c", program, *words(command, server, tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        seconds, kib = time.monotonic() - begun, int(done.stdout.split()[-1])
    print(odd, command, kib // 1024, "MiB", round(seconds, 1), "s", done.stderr[:200])
    assert done.returncode == 2, done.stderr
    assert seconds < 60, odd  # 30 on a machine of its own
    assert kib < 300 * 1024, odd
