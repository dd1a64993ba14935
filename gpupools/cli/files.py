"""Files that commands read and write; with `--within`, links must not lead out of a folder."""

import argparse
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from gpupools.common.errors import Problem
from gpupools.common.input_files import leads_out


def add_within(parser: argparse.ArgumentParser) -> None:
    """Declare `--within`."""
    what = "reject files that a symbolic link leads out of DIR; use it for checkouts that you do not trust"
    parser.add_argument("--within", type=Path, metavar="DIR", help=what)


def links_out(files: Iterable[Path | None], folder: Path | None) -> list[tuple[Path, Problem]]:
    """Return the files inside a folder whose links lead outside it; paths outside the folder are allowed."""
    if folder is None:
        return []
    problem = Problem((), f"is a link that leads out of {folder}", "commit the file itself")
    return [(file, problem) for file in files if file is not None and leads_out(file, folder)]


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically; an existing link is replaced and not followed.

    Raises:
        OSError: The folder is missing or not writable, or the path is not a regular file (e.g. `/dev/null`).
    """
    if file.exists() and not file.is_file():
        raise OSError(errno.EEXIST, "is not a regular file", str(file))
    from tempfile import mkstemp  # slow to import, and most commands write no file

    handle, name = mkstemp(dir=file.parent, prefix=f".{file.name}.")
    written = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        written.chmod(0o644)
        written.replace(file)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
