"""Reads a file out of a commit of a checkout that nobody trusts: it runs nothing that the checkout brings.

Git itself trusts the repository it finds: a folder committed as plain files may be a bare repository, and its
configuration names commands (https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository).
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

WITHOUT = "leave --since out"
"""What a command can do without git; `gpupools diff` says what it takes then."""


class NotInGit(Exception):
    """There is no git, no checkout, no such commit, or no such file in it; the message says which and what to do."""


class NotThen(NotInGit):
    """The commit has no such file."""


def file_at(ref: str, file: Path, around: Path | None = None) -> bytes:
    """Return a file as it is in a commit of the checkout it stands in.

    A link is followed on both sides: the folder's as it is now, the file's as it was then.

    Args:
        ref: The commit.
        file: Its path now.
        around: A folder of the checkout whose commit it is, where the file stands in a submodule of that; as for
            git itself, the folder that is asked in.

    Raises:
        NotInGit: It cannot be read there; `NotThen` where the commit is known and has no such file.
    """
    if not file.parent.is_dir():
        raise NotInGit(f"{file}: no such file")
    named, meant = file.parent.resolve() / file.name, file.resolve()
    top = top_of(named.parent) or top_of(meant.parent)
    if top is None:
        raise NotInGit(f"{named.parent} is in no git checkout; {WITHOUT}")
    _check_checkout(top)
    commit = _commit(top, ref) if around is None else _commit_below(top, ref, top_of(around.resolve()))
    for path in dict.fromkeys((named, meant)):
        if path.is_relative_to(top) and (text := _text(top, ref, commit, path.relative_to(top))) is not None:
            return text
    raise NotThen(f"{file} is not in {ref}; name the file as it was called there, or give two files")


def gone_since(
    ref: str, folder: Path, named: Callable[[str], object], around: Path | None = None
) -> Iterator[tuple[Path, bytes]]:
    """Yield the files below a folder that a commit has and that are not there now, with their text.

    `around` is as for `file_at`.

    Raises:
        NotInGit: There is no checkout or no such commit.
    """
    here = folder.resolve()
    top = top_of(here)
    if top is None:
        raise NotInGit(f"{folder} is in no git checkout; {WITHOUT}")
    commit = _commit(top, ref) if around is None else _commit_below(top, ref, top_of(around.resolve()))
    for checkout, at, path in _files(top, commit):
        there = checkout / path
        if not named(path.name) or not there.is_relative_to(here) or os.path.lexists(there):
            continue
        if (text := _text(checkout, ref, at, path)) is not None:
            yield folder / there.relative_to(here), text


def _files(top: Path, commit: str) -> Iterator[tuple[Path, str, Path]]:
    """Yield what a commit has, as checkout, commit and path there; of a submodule what that commit names of it."""
    _check_checkout(top)
    for each in _git(top, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        about, _, name = each.partition(b"\t")
        path = Path(os.fsdecode(name))
        if not about.startswith(_SUBMODULE):
            if each:
                yield top, commit, path
        elif (top / path / ".git").exists():
            yield from _files(top / path, about.split(b" ")[2].decode())


def published(checkout: Path) -> str:
    """Return where pip installs the commit of a checkout from; empty where its origin has no such commit."""
    try:
        _check_checkout(checkout)
        origin = _git(checkout, "config", "--get", "remote.origin.url").decode().strip()
        commit = _git(checkout, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
        there = (
            _git(checkout, "for-each-ref", "--contains", commit, "--count=1", "refs/remotes/origin") if commit else b""
        )
    except (NotInGit, UnicodeDecodeError):
        return ""
    if not there:
        return ""
    # https://git-scm.com/docs/git-fetch#_git_urls; nobody's token goes into a file.
    if web := re.fullmatch(r"https://(?:[^/@]*@)?([^/@]+/\S+)", origin):
        return f"git+https://{web[1]}@{commit}"
    if re.fullmatch(r"ssh://[^/:]+(:[0-9]+)?/\S+", origin):
        return f"git+{origin}@{commit}"
    scp = re.fullmatch(r"(\w[\w.-]*@[^/:\s]+):([^/\s]\S*)", origin)
    return f"git+ssh://{scp[1]}/{scp[2]}@{commit}" if scp else ""


_SUBMODULE = b"160000 "
"""The mode of an entry that names a commit of another repository."""


def _commit_below(top: Path, ref: str, outermost: Path | None) -> str:
    """Return the commit of a checkout that a commit of the outermost one names through its submodules.

    Raises:
        NotThen: It names none, as of a submodule that is new or of a clone that is none.
    """
    above = top_of(top.parent) if outermost is not None and top != outermost else None
    if above is None or outermost is None or not above.is_relative_to(outermost):
        return _commit(top, ref)
    _check_checkout(above)
    commit = _commit_below(above, ref, outermost)
    listed = _git(above, "ls-tree", "-z", "--full-tree", commit, "--", top.relative_to(above).as_posix())
    if not listed.startswith(_SUBMODULE):
        raise NotThen(f"{top} is no submodule in {ref}; to compare it with a commit of its own, ask in its folder")
    return _commit(top, listed.split(b"\t")[0].split(b" ")[2].decode())


def _commit(top: Path, ref: str) -> str:
    commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    if not commit:
        raise NotInGit(f"git knows no commit {ref!r}; name a branch, a tag or a commit of this checkout")
    return commit


def top_of(folder: Path) -> Path | None:
    """Return the top of a checkout: the folder with `.git`, a name git lets nobody commit.

    A linked worktree and a submodule have a file of that name.
    """
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _check_checkout(top: Path) -> None:
    """Refuse what git, asked at the top, does not take for the checkout that starts there."""
    found = _git(top, "rev-parse", "--is-inside-work-tree", "--absolute-git-dir", refused="git reads no checkout there")
    inside, _, folder = found.rstrip(b"\n").partition(b"\n")
    # Git before 2.38, which does not know safe.bareRepository, would take the folder itself for a bare repository.
    if inside != b"true" or Path(os.fsdecode(folder)).resolve() == top:
        raise NotInGit(f"{top} is no git checkout with files; {WITHOUT}")


def _text(top: Path, ref: str, commit: str, path: Path) -> bytes | None:
    """Return a file's text; None where the commit has no file of that path."""
    name = os.fsencode(path.as_posix())
    if b"\n" in name:
        raise NotInGit(f"{path}: git cannot be asked for a name with a line break; {WITHOUT}")
    question = commit.encode() + b":" + name
    answer = _git(top, "cat-file", "--batch", "--follow-symlinks", given=question + b"\n")
    head, _, rest = answer.partition(b"\n")
    words = head.split(b" ")
    if len(words) == 3 and words[1] == b"blob":
        return rest[: int(words[2])]
    known = ("rev-parse", "--verify", "--quiet", "--end-of-options", os.fsdecode(question))
    # Where it would have to fetch, git says nothing; since 2.5x it says that the object is missing.
    if (not answer or words[-1] == b"missing") and _git(top, *known):
        raise NotInGit(f"{path}: this clone has no copy of what it was in {ref}; fetch it with git, then ask again")
    return None


# Nothing of it asks the network or runs a program: promisor remotes stay unasked, no transport is allowed, hooks, the
# file system monitor and pagers have no say, and refs/replace puts nothing in the place of a commit.
_OPTIONS = (
    "--no-pager",
    "--no-replace-objects",
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "protocol.allow=never"),
)
_OURS = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
# A hook's variables (GIT_DIR, GIT_INDEX_FILE, …) lead git to another repository than the file's. Of the rest, which
# configuration is the user's own is the caller's to say: safe.directory stands there.
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


def _git(top: Path, *arguments: str, given: bytes = b"", refused: str = "") -> bytes:
    """Ask git at the top of a checkout; return what it says, nothing where it refuses.

    Raises:
        NotInGit: There is no git; or it refuses, and `refused` says what that means.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
    # No search above the top, which was found by its name.
    environment |= {**_OURS, "GIT_CEILING_DIRECTORIES": str(top.parent)}
    command = ["git", "-C", str(top), *_OPTIONS, *arguments]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False, env=environment)
    except FileNotFoundError:
        raise NotInGit(f"--since needs git, which is not installed; {WITHOUT}") from None
    if done.returncode == 0:
        return done.stdout
    if refused:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0].removeprefix("fatal: ")
        raise NotInGit(f"{top}: {refused}: {reason}; {WITHOUT}")
    return b""
