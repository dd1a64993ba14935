"""Finds the stacks of a repository, their projects, and the order in which they are deployed."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.input_files import read_bytes
from gpupools.stackfile.config_values import MAX_BYTES
from gpupools.stackfile.reader import NAMESPACE, stack_name

STACK_FILE = re.compile(r"Pulumi\..+\.ya?ml")
PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml")

MOST_FOLDERS = 20_000
"""Maximum number of folders to search."""

_NO_SOURCES = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


@dataclass(frozen=True)
class Project:
    """A Pulumi project: https://www.pulumi.com/docs/iac/concepts/projects/project-file/."""

    name: str
    folder: Path
    """Folder of `Pulumi.yaml`, where the CLI runs."""
    files: Path
    """Folder of the stack files: `stackConfigDir`, or the same folder."""


def stack_files(folder: Path) -> list[Path]:
    """Return the files below a folder whose name is that of a stack file, sorted; links to folders are not followed.

    Raises:
        Rejected: The folder does not exist, or contains too many folders.
    """
    if not folder.is_dir():
        raise Rejected([Problem((str(folder),), "is not a folder", "use the folder of a repository")])
    files: list[Path] = []
    for count, (here, folders, names) in enumerate(os.walk(folder)):
        if count == MOST_FOLDERS:
            what = f"contains more than {MOST_FOLDERS} folders"
            raise Rejected([Problem((str(folder),), what, "use the folder with the projects")])
        folders[:] = sorted(child for child in folders if not child.startswith(".") and child not in _NO_SOURCES)
        files += [Path(here) / name for name in sorted(names) if STACK_FILE.fullmatch(name)]
    return files


def project_file(file: Path) -> Path | None:
    """Return the project file of a stack file: the nearest one above it inside the checkout."""
    here = file.parent.absolute()
    for folder in (here, *here.parents):
        for name in PROJECT_FILES:
            if (folder / name).is_file():
                return folder / name
        if (folder / ".git").exists():
            return None
    return None


def read_project(file: Path) -> Project:
    """Return the project of a project file.

    Raises:
        Rejected: The file cannot be read, is not YAML, or has no name.
    """
    try:
        text = read_bytes(file, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected([Problem((), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")]) from None
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise Rejected([Problem((), what, "make the file readable")]) from None
    values = parse_yaml(text)
    data = values[0].data if values else None
    name = data.get("name") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(name, str) or not name:
        raise Rejected([Problem(("name",), "is missing", "add the project's name")])
    files = data.get("stackConfigDir")
    return Project(name, file.parent, file.parent / files if isinstance(files, str) else file.parent)


def says_ours(file: Path) -> bool:
    """Return whether a file has configuration of gpupools; one that cannot be read counts too."""
    if not file.is_file():
        return False
    try:
        return names_ours(read_bytes(file, MAX_BYTES))
    except OSError:
        return True  # checking the file reports the error


def names_ours(text: bytes) -> bool:
    """Return whether the text of a file has configuration of gpupools."""
    return f"{NAMESPACE}:".encode() in text.replace(b"\0", b"")  # every other byte of UTF-16


def is_read(file: Path, project: Project) -> bool:
    """Return whether Pulumi reads a stack file for a project, which has a single folder of stack files."""
    return file.parent.resolve() == project.files.resolve()


@dataclass(frozen=True)
class Placed:
    """A stack in its project, with the stacks that it references."""

    file: Path
    project: Project
    references: tuple[str, ...] = ()
    """Referenced stacks as `<organization>/<project>/<stack>`."""

    @property
    def name(self) -> str:
        """Return `<project>/<stack>`; no file contains the organization."""
        return f"{self.project.name}/{stack_name(self.file)}"


def same_stack(placed: Iterable[Placed]) -> Iterator[tuple[Path, Problem]]:
    """Yield files of a stack that already has another file."""
    seen: dict[str, Path] = {}
    for stack in placed:
        if stack.name in seen:
            what = f"configures the stack {stack.name}, like {seen[stack.name]}"
            of_one_project = stack.file.parent == seen[stack.name].parent  # .yaml and .yml
            fix = "delete one of the two files" if of_one_project else "rename one of the two projects"
            yield stack.file, Problem((), what, fix)
        seen.setdefault(stack.name, stack.file)


def within(reference: str, placed: Sequence[Placed]) -> Placed | None:
    """Return the stack of the repository that a reference names; None if it is in another repository."""
    name = reference.partition("/")[2]
    return next((stack for stack in placed if stack.name == name), None)


def waves(placed: Sequence[Placed]) -> list[list[Placed]]:
    """Return the stacks in deployment order: each references only stacks of earlier waves.

    Raises:
        Rejected: Stacks reference each other in a circle.
    """
    known = {
        stack.name: {other.name for reference in stack.references if (other := within(reference, placed)) is not None}
        for stack in placed
    }
    sorter = TopologicalSorter(known)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " → ".join(shown(name).strip("'") for name in error.args[1])
        what = f"stacks reference each other in a circle: {circle}"
        raise Rejected([Problem(("stack",), what, "replace one of the outputs with the address as text")]) from None
    found: list[list[Placed]] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        found.append([stack for stack in placed if stack.name in ready])
        sorter.done(*ready)
    return found
