"""Small programs, run by the preview as the stack program is."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupools.preview.program_run import Preview, preview_program

RunProgram = Callable[..., Preview]


@pytest.fixture
def preview(tmp_path: Path) -> RunProgram:
    """Return a function that runs a program's text and returns what it declared."""

    def run(source: str, **config: object) -> Preview:
        program = tmp_path / "program" / "__main__.py"
        program.parent.mkdir(exist_ok=True)
        program.write_text(textwrap.dedent(source), encoding="utf-8")
        return preview_program(program, "test", "gpupools", config)

    return run
