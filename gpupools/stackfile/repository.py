"""The stacks of a repository: which files Pulumi reads for them, and which stack comes before which."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.stackfile.config_values import MAX_BYTES
from gpupools.stackfile.reader import NAMESPACE, stack_name

STACK_FILE = re.compile(r"Pulumi\..+\.ya?ml")
PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml")

MOST_FOLDERS = 20_000
"""Folders that are looked through below the one that is named."""

_NO_SOURCES = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


@dataclass(frozen=True)
class Project:
    """A Pulumi project: https://www.pulumi.com/docs/iac/concepts/projects/project-file/."""

    name: str
    folder: Path
    """That of its `Pulumi.yaml`, where the CLI is called."""
    files: Path
    """Where its stack files are: `stackConfigDir`, or the same."""


def stack_files(folder: Path) -> list[Path]:
    """Return what is named like a stack file in a folder and below, in order; links to folders are not followed.

    Raises:
        Rejected: There is no such folder, or too much is below it.
    """
    if not folder.is_dir():
        raise Rejected([Problem((str(folder),), "is no folder", "name the folder of a repository")])
    found: list[Path] = []
    for count, (here, folders, names) in enumerate(os.walk(folder)):
        if count == MOST_FOLDERS:
            what = f"has more than {MOST_FOLDERS} folders in it"
            raise Rejected([Problem((str(folder),), what, "name the one with the projects")])
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _NO_SOURCES)
        found += [Path(here) / name for name in sorted(names) if STACK_FILE.fullmatch(name)]
    return found


def project_file(file: Path) -> Path | None:
    """Return the project file that Pulumi finds for a stack file: the nearest above it, not above the checkout."""
    here = file.parent.absolute()
    for folder in (here, *here.parents):
        for name in PROJECT_FILES:
            if (folder / name).is_file():
                return folder / name
        if (folder / ".git").exists():
            return None
    return None


def read_project(file: Path) -> Project:
    """Read a project file.

    Raises:
        Rejected: It is no YAML, or says no name.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected([Problem((), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")]) from None
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise Rejected([Problem((), what, "let whoever runs this read it, or write it anew")]) from None
    values = parse_yaml(text)
    data = values[0].data if values else None
    name = data.get("name") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(name, str) or not name:
        raise Rejected([Problem(("name",), "is missing", "write the project's name")])
    files = data.get("stackConfigDir")
    return Project(name, file.parent, file.parent / files if isinstance(files, str) else file.parent)


def says_ours(file: Path) -> bool:
    """Say whether a file has configuration of this tool, without reading more of it than a stack file may have."""
    if not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            return names_ours(opened.read(MAX_BYTES))
    except OSError:
        return True  # what cannot be read is told when the file is checked


def names_ours(text: bytes) -> bool:
    """Say whether the text of a file names configuration of this tool."""
    return f"{NAMESPACE}:".encode() in text.replace(b"\0", b"")  # of UTF-16 every other byte is one


def is_read(file: Path, project: Project) -> bool:
    """Say whether Pulumi reads a stack file for a project, in which it looks in one folder alone."""
    return file.parent.resolve() == project.files.resolve()


@dataclass(frozen=True)
class Placed:
    """A stack with what its clusters refer to."""

    file: Path
    project: Project
    references: tuple[str, ...] = ()
    """Other stacks as `<organization>/<project>/<stack>`."""

    @property
    def name(self) -> str:
        """Return `<project>/<stack>`; the organisation is not said in any file."""
        return f"{self.project.name}/{stack_name(self.file)}"


def same_stack(placed: Iterable[Placed]) -> Iterator[tuple[Path, Problem]]:
    """Say which files are for a stack that another file is for already."""
    seen: dict[str, Path] = {}
    for each in placed:
        if each.name in seen:
            what = f"is for the stack {each.name}, as {seen[each.name]} is"
            of_one_project = each.file.parent == seen[each.name].parent  # .yaml and .yml
            fix = "delete one of the two files" if of_one_project else "give one of the two projects another name"
            yield each.file, Problem((), what, fix)
        seen.setdefault(each.name, each.file)


def within(reference: str, placed: Sequence[Placed]) -> Placed | None:
    """Return the stack of the repository that a reference means."""
    name = reference.partition("/")[2]
    return next((each for each in placed if each.name == name), None)


def waves(placed: Sequence[Placed]) -> list[list[Placed]]:
    """Return the stacks in the order of their updates: each refers to stacks of earlier lists alone.

    Raises:
        Rejected: Stacks refer to each other in a circle.
    """
    known = {
        each.name: {other.name for one in each.references if (other := within(one, placed)) is not None}
        for each in placed
    }
    sorter = TopologicalSorter(known)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " → ".join(shown(each).strip("'") for each in error.args[1])
        what = f"stacks take outputs of each other: {circle}"
        raise Rejected([Problem(("stack",), what, "write one of the addresses as text")]) from None
    found: list[list[Placed]] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        found.append([each for each in placed if each.name in ready])
        sorter.done(*ready)
    return found
