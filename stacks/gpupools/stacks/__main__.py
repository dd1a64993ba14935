"""The program the offline preview runs."""

from pathlib import Path

from gpupools.stacks.program import run

run(Path.cwd())
