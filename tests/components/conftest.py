"""Small programs around the components, run as the preview runs the stack program."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupools.preview.program_run import Preview, preview_program

RunProgram = Callable[[str], Preview]

IMPORTS = """
import pulumi
from gpupools.components.gpu_node_pool import GpuNodePool
from gpupools.providers import clouds
"""


@pytest.fixture
def preview(tmp_path: Path) -> RunProgram:
    """Return a function that runs a program's text and returns what it declared."""

    def run(source: str) -> Preview:
        # A folder of its own: Python takes a text as long and as old in seconds as the last one for compiled already.
        program = tmp_path / f"program{len(list(tmp_path.iterdir()))}" / "__main__.py"
        program.parent.mkdir()
        program.write_text(IMPORTS + textwrap.dedent(source), encoding="utf-8")
        return preview_program(program, "test", "own", {})

    return run
