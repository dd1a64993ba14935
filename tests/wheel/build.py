"""Builds the wheel, and the repository of a team that has packages of the names our folders have."""

import subprocess
import sys
from pathlib import Path

from tests.source_roots import ROOT

OWN = ("components", "policies", "preview", "providers", "stacks")


def build_wheel(folder: Path) -> Path:
    """Build the wheel as `pip install .` does, and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def lay_packages_in_the_way(repository: Path) -> None:
    """Give a repository packages of its own that must not be asked for anything of ours."""
    for name in OWN:
        (repository / name).mkdir()
        text = f"raise RuntimeError('{name} of somebody else')\n"
        (repository / name / "__init__.py").write_text(text, encoding="utf-8")
