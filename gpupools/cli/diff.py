"""`gpupools diff OLD NEW` and `gpupools diff --since GIT-REF [FILE]`: what an edit does to nodes and pods that run."""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpupools.cli.files import add_within, links_out
from gpupools.cli.git import WITHOUT, NotInGit, file_at
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.console.output import Style, answer, tell, tell_lines, tell_parts
from gpupools.diff.comparison import Comparison, compare_files
from gpupools.providers import clouds
from gpupools.report.markdown_budget import LIMIT, MarkdownBudget, code, touched
from gpupools.stackfile.check import CheckedFile, Located, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located

DESTROYS = 3
"""Exit code with --exit-code when something is replaced or deleted, or may be."""

_EXITS = f"""\
exit codes:
  0  compared
  1  one of the files is refused
  2  called wrongly: also no git checkout, an unknown git reference, a file it does not have
  {DESTROYS}  with --exit-code: a pool or software is replaced or deleted, or may be and only pulumi preview can tell
"""


class CallError(Exception):
    """The command was called with something that is not there."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "gpupools diff [--format FORMAT] [--json] [--exit-code] [--within DIR] (OLD NEW | --since GIT-REF [FILE])"
    )
    parser.epilog = examples("gpupools diff stacks/Pulumi.dev.yaml stacks/Pulumi.prod.yaml") + "\n" + _EXITS
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument("--since", metavar="GIT-REF", help="compare the file with what it was in this commit")
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="default: text; json: every changed field of every pool; markdown: for a comment on a pull request",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument(
        "--exit-code", action="store_true", help=f"exit with {DESTROYS} when a pool or software is replaced or deleted"
    )
    add_within(parser)
    parser.set_defaults(
        run=lambda given: compare(given.files, given.since, given.format, given.exit_code, given.within)
    )


def compare(
    files: Sequence[Path],
    since: str | None,
    form: str = "text",
    exit_code: bool = False,
    within: Path | None = None,
) -> int:
    """Print what the edit does to each pool and to each cluster's software; return the exit code.

    `files` are OLD and NEW; with `since`, the one file, or none where the folder has a single stack file.
    """
    as_json = form == "json"
    outside = [Located(path, None, problem) for path, problem in links_out(files, within)]
    if outside:
        return _refuse(outside, as_json)
    try:
        planned = [planned_side(side) for side in _sides(files, since)]
    except (CallError, NotInGit) as error:
        said = str(error)
        said += "; gpupools diff then takes two files, OLD and NEW" if said.endswith(WITHOUT) else ""
        if as_json:
            answer("diff", "failed", [Problem((), said).as_json()], _NOTHING)
        else:
            tell(f"gpupools diff: {said}", error=True)
        return 2
    old, new = planned
    if not isinstance(old, CheckedFile) or not isinstance(new, CheckedFile):
        return _refuse([each for side in planned if not isinstance(side, CheckedFile) for each in side], as_json)
    found = compare_files(old, new, clouds())
    _PRINTERS[form](found)
    return DESTROYS if exit_code and found.destroys else 0


_NOTHING: Mapping[str, Sequence[Any]] = {"pools": (), "software": (), "warnings": ()}


def _refuse(problems: Sequence[Located], as_json: bool) -> int:
    if as_json:
        answer("diff", "refused", [located.as_json() for located in problems], _NOTHING)
    for located in () if as_json else problems:
        tell_located(located)
    return 1


class Side(NamedTuple):
    """One of the two files that are compared."""

    called: Path
    text: bytes | None = None
    """What it holds, where that is not on the disk."""


def _sides(files: Sequence[Path], since: str | None) -> tuple[Side, Side]:
    if since is None:
        if len(files) != 2:
            raise CallError("give two files, OLD and NEW, or --since GIT-REF and one file")
        return Side(files[0]), Side(files[1])
    if len(files) > 1:
        raise CallError("--since takes one file, which is compared with what it was")
    file = files[0] if files else _only_stack_file()
    return Side(Path(f"{since}:{file}"), file_at(since, file, Path.cwd())), Side(file)


def _json(found: Comparison) -> None:
    def with_refusal(change: JsonDict, key: str) -> JsonDict:
        refused = found.refused.get(key)
        return change | {"refused": None if refused is None else refused.as_json()}

    lists = {
        "pools": [with_refusal(each.as_json(), each.key) for each in found.pools],
        "software": [with_refusal(each.as_json(), each.cluster) for each in found.software],
    }
    answer("diff", "accepted", [], {**lists, "warnings": found.warnings})


def _text(found: Comparison) -> None:
    for warning in found.warnings:
        tell_parts(("warning", Style.WARNING), (f": {warning}", None), error=True)
    for change, refusal in found.refusals_in_words():
        tell_parts((change, Style.BAD if change.destroys else None))
        if refusal is not None:
            tell_parts(("  pulumi up refuses that", Style.BAD), (f": {refusal}", None))


def _markdown(found: Comparison) -> None:
    """Print a comment for a pull request: what is touched first, the rest folded away."""
    edited = [change for change in found.pools if change.change != "unchanged"]
    destroyed = sum(change.destroys for change in edited)
    count = f"{len(found.pools)} pool{'' if len(found.pools) == 1 else 's'}"
    room = MarkdownBudget(LIMIT - 200)
    room.put(f"### gpupools diff: {len(edited)} of {count} touched, {destroyed} replaced or deleted, or perhaps", "")
    room.many(0.2, ([f"- Warning: {code(warning)}"] for warning in found.warnings))
    room.many(0.8, touched(found))
    rest = [change for change in found.pools if change.change == "unchanged"]
    if rest:
        room.folded(f"{len(rest)} without a change", 1, ([f"- {code(change)}"] for change in rest))
    tell_lines("\n".join(room.lines))


_PRINTERS: Mapping[str, Callable[[Comparison], None]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}


def planned_side(side: Side) -> CheckedFile | list[Located]:
    """Plan a file; where it is refused return the reasons, under the name it is called by."""
    if side.text is None:
        return _planned_file(side.called, side.called)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / side.called.name
        copy.write_bytes(side.text)
        return _planned_file(copy, side.called)


def _planned_file(file: Path, called: Path) -> CheckedFile | list[Located]:
    try:
        return check_stack_file(file, clouds())
    except Rejected as rejected:
        return locate(called, rejected)


def _only_stack_file() -> Path:
    """Return the one stack file of this folder, or of `stacks/` in it."""
    here = Path()
    found = sorted(here.glob("Pulumi.*.yaml")) or sorted((here / "stacks").glob("Pulumi.*.yaml"))
    if len(found) != 1:
        known = f"one of {', '.join(map(str, found))}" if found else "there is none here"
        raise CallError(f"say which stack file to compare: {known}")
    return found[0]
