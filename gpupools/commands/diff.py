"""`gpupools diff OLD NEW` and `gpupools diff --since GIT-REF [FILE]`: what an edit does to the nodes that run."""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import providers
from gpupools.check import check_stack_file, locate
from gpupools.commands.files import add_within, refuses_links
from gpupools.diff import EditEffect, InputEffects, Planned, PoolChange, diff, input_effects
from gpupools.errors import Rejected
from gpupools.guard import Refusal, idle_switch, refusals
from providers import clouds

DESTROYS = 3
"""Exit code with --exit-code when something is replaced or deleted, or may be."""

_EXITS = f"""\
exit codes:
  0  compared
  1  one of the files is refused
  2  called wrongly: also no git checkout, an unknown git reference, a file it does not have
  {DESTROYS}  with --exit-code: a pool is replaced or deleted, or may be and only pulumi preview can tell
"""


class CallError(Exception):
    """The command was called with something that is not there."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "gpupools diff [--json] [--exit-code] [--within DIR] (OLD NEW | --since GIT-REF [FILE])"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXITS
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument("--since", metavar="GIT-REF", help="compare the file with what it was in this commit")
    parser.add_argument("--json", action="store_true", help="every changed field of every pool, as JSON")
    parser.add_argument(
        "--exit-code", action="store_true", help=f"exit with {DESTROYS} when a pool is replaced or deleted"
    )
    add_within(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    if refuses_links(given.files, given.within):
        return 1
    return compare(given.files, given.since, given.json, given.exit_code)


def compare(files: Sequence[Path], since: str | None, as_json: bool = False, exit_code: bool = False) -> int:
    """Print what the edit does to each pool; return the exit code.

    Args:
        files: OLD and NEW; with `since` the one file, or none where the folder has a single stack file.
        since: Commit that has the old file.
        as_json: Print a list of pools instead of lines.
        exit_code: Return 3 when a pool is replaced or deleted.
    """
    try:
        if since is None:
            if len(files) != 2:
                raise CallError("give two files, OLD and NEW, or --since GIT-REF and one file")
            old, new = _planned(files[0]), _planned(files[1])
        else:
            if len(files) > 1:
                raise CallError("--since takes one file, which is compared with what it was")
            file = files[0] if files else _only_stack_file()
            old, new = _planned_at(since, file), _planned(file)
    except CallError as error:
        print(f"gpupools diff: {error}", file=sys.stderr)
        return 2
    if old is None or new is None:
        return 1
    changes = diff(old, new, effects_of_inputs())
    for warning in idle_switch(changes, new.stack):
        print(f"warning: {warning}", file=sys.stderr)
    _print(changes, refusals(changes, new.stack.allow_destroy), as_json)
    return DESTROYS if exit_code and any(change.destroys for change in changes) else 0


def effects_of_inputs() -> InputEffects:
    """Read every cloud's `edits.csv`."""
    found: dict[str, dict[str, EditEffect]] = {}
    for name in clouds():
        with (Path(providers.__file__).parent / name / "edits.csv").open(newline="", encoding="utf-8") as file:
            found[name] = input_effects(csv.DictReader(file))
    return found


def _print(changes: Sequence[PoolChange], refused: Mapping[str, Refusal], as_json: bool) -> None:
    """Print what the edit does, and for each pool why `pulumi up` would refuse it, if it would."""
    if not as_json:
        for change in changes:
            print(change)
            if (refusal := refused.get(change.key)) is not None:
                print(f"  pulumi up refuses that: {change.key} {refusal.reason}; {refusal.fix}")
        return
    pools = [
        change.as_json() | {"refused": refused[change.key].as_json() if change.key in refused else None}
        for change in changes
    ]
    print(json.dumps(pools, indent=2))


def _planned(file: Path, called: Path | None = None) -> Planned | None:
    """Plan a file; None when it is refused, with the reasons on standard error under the name it is called by."""
    try:
        checked = check_stack_file(file, clouds())
    except Rejected as rejected:
        for located in locate(called or file, rejected):
            print(located, file=sys.stderr)
        return None
    return Planned(checked.stack, checked.plans)


def _planned_at(ref: str, file: Path) -> Planned | None:
    text = file_at(ref, file)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        copy.write_bytes(text)
        return _planned(copy, Path(f"{ref}:{file}"))


def file_at(ref: str, file: Path) -> bytes:
    """Return a file as it is in a commit.

    Raises:
        CallError: There is no git, no checkout, no such commit, or no such file in it.
    """
    folder = file.parent
    if not folder.is_dir():
        raise CallError(f"{file}: no such file")
    if _git(folder, "rev-parse", "--is-inside-work-tree") is None:
        raise CallError(f"{folder.resolve()} is in no git checkout; give two files, OLD and NEW")
    if _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}") is None:
        raise CallError(f"git knows no commit {ref!r}; name a branch, a tag or a commit of this checkout")
    text = _git(folder, "cat-file", "blob", f"{ref}:./{file.name}")
    if text is None:
        raise CallError(f"{file} is not in {ref}; name the file as it was called there, or give two files")
    return text


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise CallError("--since needs git, which is not installed; give two files, OLD and NEW") from None
    return done.stdout if done.returncode == 0 else None


def _only_stack_file() -> Path:
    """Return the one stack file of this folder, or of `stacks/` in it."""
    here = Path()
    found = sorted(here.glob("Pulumi.*.yaml")) or sorted((here / "stacks").glob("Pulumi.*.yaml"))
    if len(found) != 1:
        known = f"one of {', '.join(map(str, found))}" if found else "there is none here"
        raise CallError(f"say which stack file to compare: {known}")
    return found[0]
