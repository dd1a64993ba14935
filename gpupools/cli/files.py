"""Files that commands read and write; with `--within`, links must not lead out of a folder."""

import argparse
import errno
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from gpupools.common.errors import Problem
from gpupools.common.input_files import leads_out


def add_within(parser: argparse.ArgumentParser) -> None:
    """Declare `--within`."""
    what = "reject files that a symbolic link leads out of DIR; use it for checkouts that you do not trust"
    parser.add_argument("--within", type=Path, metavar="DIR", help=what)


def add_reports(parser: argparse.ArgumentParser, formats: Iterable[str], reports: Sequence[str], what: str) -> None:
    """Declare `--format`, `--json` and `--report`, whose help is `what` and whose formats are `reports`."""

    def report(text: str) -> tuple[str, Path]:
        form, _, file = text.partition("=")
        if form not in reports or not file:
            raise argparse.ArgumentTypeError(f"got {text!r}; write FORMAT=FILE with a format of {', '.join(reports)}")
        return form, Path(file)

    parser.add_argument("--format", choices=tuple(formats), default="text", help="default: text")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    parser.add_argument("--report", type=report, action="append", default=[], metavar="FORMAT=FILE", help=what)


def write_reports(reports: Iterable[tuple[str, Path]], writers: Mapping[str, Callable[..., None]], *found: Any) -> None:
    """Write to each file what the writer of its format prints of `found`."""
    for form, file in reports:
        text = io.StringIO()
        with redirect_stdout(text):
            writers[form](*found)
        write_whole(file, text.getvalue())


def links_out(files: Iterable[Path | None], folder: Path | None) -> list[tuple[Path, Problem]]:
    """Return the files inside a folder whose links lead outside it; paths outside the folder are allowed."""
    if folder is None:
        return []
    problem = Problem((), f"is a link that leads out of {folder}", "commit the file itself")
    return [(file, problem) for file in files if file is not None and leads_out(file, folder)]


def write_new(file: Path, text: str) -> None:
    """Write a file that is not there, or none if that fails; raise `OSError` as `Path.open` does."""
    with file.open("x", encoding="utf-8") as out:
        try:
            print(text, end="", file=out, flush=True)
        except BaseException:
            file.unlink()
            raise


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
