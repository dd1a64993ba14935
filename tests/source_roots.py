"""Where the packages of `gpupools` lie in a checkout."""

import os
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS: tuple[str, ...] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"][
        "dev-mode-dirs"
    ]
)
"""Folders of the checkout from which `gpupools.…` is imported, as an editable installation names them."""
FOLDERS = ("gpupools", *SOURCE_ROOTS[1:])
"""What a copy of the sources needs."""


def python_path(tree: Path) -> str:
    """Return the PYTHONPATH that imports from a copy of the sources."""
    return os.pathsep.join(str((tree / each).resolve()) for each in SOURCE_ROOTS)
