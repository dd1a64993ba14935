"""`gpupools new --project`: a repository of a team's own that depends on gpupools, as `pulumi new` makes it too."""

import os
import re
from pathlib import Path

from gpupools.base.errors import Problem, Rejected, shown
from gpupools.base.output import tell

_SHIPPED = Path(__file__).parents[1] / "data" / "project"
_CHECKOUT = Path(__file__).parents[2] / "templates" / "project"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""A project's name: https://www.pulumi.com/docs/iac/concepts/projects/project-file/."""


def template() -> Path:
    """Return the folder that is copied: the wheel's, or that of a checkout."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT


def make_project(folder: Path) -> None:
    """Write a project, and say what comes next.

    Args:
        folder: Where; its name becomes the project's.

    Raises:
        Rejected: The folder cannot be one, or holds files of these names; nothing is overwritten.
    """
    name = folder.absolute().resolve().name
    if not _NAME.fullmatch(name):
        fix = "name the folder with letters, digits, '-', '_' and '.', a letter or digit first"
        raise Rejected([Problem((str(folder),), f"{shown(name)} is no name of a project", fix)])
    if os.path.lexists(folder) and not folder.is_dir():
        raise Rejected([Problem((str(folder),), "is no folder", "name another")])
    files = {each.relative_to(template()): each for each in sorted(template().rglob("*")) if _is_source(each)}
    for part in {parent for each in files for parent in each.parents if parent.name}:
        if os.path.lexists(folder / part) and not (folder / part).is_dir():
            raise Rejected([Problem((str(folder / part),), "is no folder", "name another folder, or take it away")])
    there = [folder / each for each in files if os.path.lexists(folder / each)]
    if there:
        fix = "name an empty folder"
        raise Rejected(Problem((str(each),), "is there already, and nothing is overwritten", fix) for each in there)
    for each, source in files.items():
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        with (folder / each).open("x", encoding="utf-8") as out:
            out.write(_filled(each, source.read_text(encoding="utf-8"), name))
    tell(f"{folder}: written, {len(files)} files")
    tell("Next: python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/gpupools new dev")


def _is_source(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts


def _filled(file: Path, text: str, name: str) -> str:
    """Return a file as `pulumi new` would write it."""
    if file.name == "Pulumi.yaml":
        text, _, about = text.partition("template:\n")
        description = re.findall(r"^  description: (.*)$", about, re.MULTILINE)
        text = text.replace("${DESCRIPTION}", *description)
    return text.replace("${PROJECT}", name)
