"""Every command that asks a cluster gets odd answers: one line, exit code 2, within limits of time and memory."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupools.cli.main import main
from gpupools.ready import live_cluster
from tests.gpupools.ready.api import write_files
from tests.gpupools.ready.world import World
from tests.gpupools.test_mig_walk import FILE as WALK_FILE
from tests.security.odd_answers import ODD, Odd, Write

TOKEN = "token-of-a-user"
COMMANDS = ("ready", "policy", "mig walk")


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
    if command == "ready":
        return ["ready", str(file), *kube]
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


@pytest.mark.slow
def test_the_limits_hold_as_they_are(tmp_path: Path) -> None:
    """The process as users run it, against the answers that would take most."""
    for odd in ("endless-body", "many-values", "endless-nodes", "endless-labels", "endless-new-pages", "slow-body"):
        with answering(ODD[odd]) as server:
            begun = time.monotonic()
            program = "import sys; from gpupools.cli.main import main; code = main(sys.argv[1:]);"
            program += "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]); sys.exit(code)"
            command = [sys.executable, "-c", program, *words("ready", server, tmp_path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2, done.stderr
        assert time.monotonic() - begun < 60, odd  # 30 on a machine of its own
        print(odd, int(done.stdout) // 1024, "MiB", round(time.monotonic() - begun, 1), "s")
        assert int(done.stdout) < 300 * 1024, odd
