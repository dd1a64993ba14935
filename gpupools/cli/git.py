"""Reads files of commits in untrusted checkouts, without running anything from the checkout.

Git trusts the repository that it finds: a folder committed as plain files may be a bare repository whose configuration
runs commands (https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository).
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from gpupools.cli.help_texts import Refusal
from gpupools.common.errors import Problem

WITHOUT = "omit --since"
"""The fix without git, to which `gpupools diff` adds its other form."""


class NotInGit(Refusal):
    """Git, the checkout, the commit or the file in it is missing. The message has the fix."""

    def __init__(self, why: str) -> None:
        super().__init__([Problem((), why)], "failed")


class NotThen(NotInGit):
    """The file is not in the commit."""


def file_at(ref: str, file: Path, around: Path | None = None) -> bytes:
    """Return the content of a file, by its current path, in a commit of its checkout.

    Links are followed: those of the folder as they are now, that of the file as in the commit. `around` is a folder of
    the checkout of the commit, if the file may be in a submodule of it.

    Raises:
        NotInGit: The file cannot be read there; `NotThen` if the commit does not have the file.
    """
    if not file.parent.is_dir():
        raise NotInGit(f"{file} does not exist")
    named, meant = file.parent.resolve() / file.name, file.resolve()
    top = top_of(named.parent) or top_of(meant.parent)
    if top is None:
        raise NotInGit(f"{named.parent} is not in a git checkout; {WITHOUT}")
    _check_checkout(top)
    commit = _commit(top, ref) if around is None else _commit_below(top, ref, top_of(around.resolve()))
    for path in dict.fromkeys((named, meant)):
        if path.is_relative_to(top) and (text := _content(top, ref, commit, path.relative_to(top))) is not None:
            return text
    raise NotThen(f"{file} is not in {ref}; use the file's name in that commit, or compare two files")


def gone_since(
    ref: str, folder: Path, named: Callable[[str], object], around: Path | None = None
) -> Iterator[tuple[Path, bytes]]:
    """Yield the files below a folder that a commit has and that no longer exist, with their content.

    `around` is as for `file_at`.

    Raises:
        NotInGit: The checkout or the commit is missing.
    """
    here = folder.resolve()
    top = top_of(here)
    if top is None:
        raise NotInGit(f"{folder} is not in a git checkout; {WITHOUT}")
    commit = _commit(top, ref) if around is None else _commit_below(top, ref, top_of(around.resolve()))
    for checkout, at, path in _files(top, commit):
        there = checkout / path
        if not named(path.name) or not there.is_relative_to(here) or os.path.lexists(there):
            continue
        if (text := _content(checkout, ref, at, path)) is not None:
            yield folder / there.relative_to(here), text


def _files(top: Path, commit: str) -> Iterator[tuple[Path, str, Path]]:
    """Yield checkout, commit and path of each file in a commit, including its submodules."""
    _check_checkout(top)
    for part in _git(top, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        about, _, name = part.partition(b"\t")
        path = Path(os.fsdecode(name))
        if not about.startswith(_SUBMODULE):
            if part:
                yield top, commit, path
        elif (top / path / ".git").exists():
            yield from _files(top / path, about.split(b" ")[2].decode())


def published(checkout: Path) -> str:
    """Return the pip URL of a checkout's commit; empty if its origin does not have the commit."""
    try:
        _check_checkout(checkout)
        origin = _git(checkout, "config", "--get", "remote.origin.url").decode().strip()
        commit = _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
        known = ("for-each-ref", "--contains", commit, "--count=1", "refs/remotes/origin")
        if not commit or not _git(checkout, *known):
            return ""
    except (NotInGit, UnicodeDecodeError):
        return ""
    # https://git-scm.com/docs/git-fetch#_git_urls; tokens are removed.
    if web := re.fullmatch(r"https://(?:[^/@]*@)?([^/@]+/\S+)", origin):
        return f"git+https://{web[1]}@{commit}"
    if re.fullmatch(r"ssh://[^/:]+(:[0-9]+)?/\S+", origin):
        return f"git+{origin}@{commit}"
    scp = re.fullmatch(r"(\w[\w.-]*@[^/:\s]+):([^/\s]\S*)", origin)
    return f"git+ssh://{scp[1]}/{scp[2]}@{commit}" if scp else ""


_SUBMODULE = b"160000 "
"""Mode of a submodule's entry."""


def _commit_below(top: Path, ref: str, outermost: Path | None) -> str:
    """Return the commit of a checkout to which a commit of the outermost checkout refers through submodules.

    Raises:
        NotThen: The commit does not have the submodule.
    """
    above = top_of(top.parent) if outermost is not None and top != outermost else None
    if above is None or outermost is None or not above.is_relative_to(outermost):
        return _commit(top, ref)
    _check_checkout(above)
    commit = _commit_below(above, ref, outermost)
    listed = _git(above, "ls-tree", "-z", "--full-tree", commit, "--", top.relative_to(above).as_posix())
    if not listed.startswith(_SUBMODULE):
        raise NotThen(
            f"{top} is not a submodule in {ref}; to use one of its own commits, run the command in its folder"
        )
    return _commit(top, listed.split(b"\t")[0].split(b" ")[2].decode())


def _commit(top: Path, ref: str) -> str:
    commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    if not commit:
        raise NotInGit(f"unknown commit {ref!r}; use a branch, a tag or a commit of this checkout")
    return commit


def top_of(folder: Path) -> Path | None:
    """Return the top of a checkout: the folder with `.git`, a name that cannot be committed.

    In linked worktrees and submodules `.git` is a file.
    """
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)


def _check_checkout(top: Path) -> None:
    """Reject a folder that git does not recognize as the top of a checkout."""
    found = _git(
        top, "rev-parse", "--is-inside-work-tree", "--absolute-git-dir", refused="git cannot read the checkout"
    )
    inside, _, folder = found.rstrip(b"\n").partition(b"\n")
    # Git before 2.38 does not support safe.bareRepository and would use the folder itself as a bare repository.
    if inside != b"true" or Path(os.fsdecode(folder)).resolve() == top:
        raise NotInGit(f"{top} is not a git checkout with a work tree; {WITHOUT}")


def _content(top: Path, ref: str, commit: str, path: Path) -> bytes | None:
    """Return the content of a file; None if the commit does not have it."""
    name = os.fsencode(path.as_posix())
    if b"\n" in name:
        raise NotInGit(f"{path}: file names with a line break are not supported; {WITHOUT}")
    question = commit.encode() + b":" + name
    answer = _git(top, "cat-file", "--batch", "--follow-symlinks", given=question + b"\n")
    head, _, rest = answer.partition(b"\n")
    words = head.split(b" ")
    if len(words) == 3 and words[1] == b"blob":
        return rest[: int(words[2])]
    known = ("rev-parse", "--verify", "--quiet", "--end-of-options", os.fsdecode(question))
    # If it would have to fetch, git prints nothing; since 2.5x it reports that the object is missing.
    if (not answer or words[-1] == b"missing") and _git(top, *known):
        raise NotInGit(
            f"{path}: this clone does not have its content in {ref}; fetch it with git, then run the command again"
        )
    return None


# No network access and no other programs: no promisor remotes, transports, hooks, file system monitor or pagers, and no
# replacement of commits by refs/replace.
_OPTIONS = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
)
_OURS = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
# Variables of hooks (GIT_DIR, GIT_INDEX_FILE, …) would select another repository. The user's own configuration is kept:
# it has safe.directory.
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


def _git(top: Path, *arguments: str, given: bytes = b"", refused: str = "") -> bytes:
    """Run git at the top of a checkout; return its output, or nothing if it fails.

    Raises:
        NotInGit: Git is not installed, or it fails and `refused` has the message.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
    # Git must not search above the top.
    environment |= {**_OURS, "GIT_CEILING_DIRECTORIES": str(top.parent)}
    command = ["git", "-C", str(top), *_OPTIONS, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False, env=environment)
    except FileNotFoundError:
        raise NotInGit(f"--since requires git, which is not installed; {WITHOUT}") from None
    if done.returncode == 0:
        return done.stdout
    if refused:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0].removeprefix("fatal: ")
        raise NotInGit(f"{top}: {refused}: {reason}; {WITHOUT}")
    return b""
