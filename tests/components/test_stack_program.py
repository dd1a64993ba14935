"""How the program of a stack runs in its process."""

import gc
from pathlib import Path

import pytest

from gpupools.common.errors import Problem, Rejected
from gpupools.stacks import program


def test_nothing_is_looked_through_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def read() -> None:
        seen.append(gc.isenabled())
        raise Rejected([Problem((), "stop here")])

    monkeypatch.setattr(program, "read_stack_config", read)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # its handler is none for this process
    gc.enable()
    try:
        with pytest.raises(SystemExit):
            program.run(tmp_path)
    finally:
        gc.enable()

    assert seen == [False]
