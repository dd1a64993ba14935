"""Opens every file that a pull request, a file of it or an option can name."""

import errno
import os
import stat
import sys
from pathlib import Path

from gpupools.common.errors import Problem, Rejected

STANDARD_INPUT = Path("-")
"""Path that means standard input."""

_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Names of what a shell pipes into a command: `<(terraform show -json plan)` is `/dev/fd/63`."""
_limits: dict[str, Path | None] = {"within": None}


def limit_to(folder: Path | None) -> None:
    """Set the folder of `--within` for all files that the process reads; None for none."""
    _limits["within"] = folder


def leads_out(file: Path, folder: Path) -> bool:
    """Return whether a path inside a folder leads outside it by a link."""
    root = Path(os.path.realpath(folder))
    named = Path(os.path.abspath(file))  # noqa: PTH100 - resolve() would follow the links
    inside = any(named.is_relative_to(each) for each in (root, os.path.abspath(folder)))  # noqa: PTH100
    return inside and not Path(os.path.realpath(file)).is_relative_to(root)


def require_regular(path: Path, *, only_files: bool = False) -> None:
    """Raise `OSError` for what is not a regular file, or without `only_files` what a shell pipes in.

    Also for a file below `.git`, which may hold a token, and for a link that leads out of the folder of `--within`.
    `strerror` says which.
    """
    mode, within = path.stat().st_mode, _limits["within"]
    is_pipe = stat.S_ISFIFO(mode) and str(path).startswith(_PIPES) and not only_files
    real = os.path.realpath(path)
    # Files of the kernel look regular, and reading one may never end: /proc/kmsg.
    if (not stat.S_ISREG(mode) or real.startswith(("/proc/", "/sys/"))) and not is_pipe:
        what = "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file"
        raise OSError(errno.EINVAL, what, str(path))
    if ".git" in Path(real).parts:
        raise OSError(errno.EACCES, "it is below .git", str(path))
    if within is not None and leads_out(path, within):
        raise OSError(errno.EACCES, f"it is a link that leads out of {within}", str(path))


def read_bytes(path: Path, most: int, *, only_files: bool = False) -> bytes:
    """Return the content of a file that `require_regular` accepts, or without `only_files` of standard input.

    Raises:
        OSError: It cannot be read, is of another kind, or has more than `most` bytes. `strerror` says which.
    """
    if path == STANDARD_INPUT and not only_files:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        content = sys.stdin.buffer.read(most + 1)
    else:
        require_regular(path, only_files=only_files)
        with path.open("rb") as file:
            content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


_MOST_FILES = 5_000
"""Files of a folder that one run judges."""
_NOT_SEARCHED = frozenset({"node_modules", "vendor"})
"""Folders of other projects, beside those whose name starts with a dot."""


def files_of(path: Path) -> tuple[list[Path], bool]:
    """Return the JSON and YAML files and the folders of .tf files below a folder and true, or a file itself and false.

    Links are not followed.

    Raises:
        Rejected: It has more than `_MOST_FILES`.
    """
    if not path.is_dir():
        return [path], False
    paths: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _NOT_SEARCHED)
        here = [Path(folder, name) for name in sorted(names) if Path(name).suffix in (".json", ".yaml", ".yml")]
        paths += (each for each in here if not each.is_symlink())
        paths += [Path(folder)] if any(name.endswith(".tf") for name in names) else []
        if len(paths) > _MOST_FILES:
            what = f"has more than {_MOST_FILES} JSON and YAML files"
            raise Rejected([Problem((str(path),), what, "name the folders with manifests or plans")])
    return paths, True
