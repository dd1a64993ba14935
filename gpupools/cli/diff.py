"""`gpupools diff`: show how an edit, or this version of gpupools, affects running nodes."""

import argparse
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupools.cli.files import add_within
from gpupools.cli.git import WITHOUT, NotInGit, file_at
from gpupools.cli.help_texts import Refusal, examples
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.console.output import Style, answer, tell, tell_lines, tell_parts
from gpupools.diff.comparison import HARMS, Comparison, compare_files, counted, in_words
from gpupools.diff.guard import pools_of
from gpupools.providers import clouds
from gpupools.report.markdown_budget import LIMIT, MarkdownBudget, code, put_changes
from gpupools.stackfile.check import CheckedFile, Located, check_stack_file, locate

REJECTED = 3
"""Exit code if `pulumi up` would reject the edit, or if it does what --exit-code or --fail-on names."""

_EXITS = f"""\
exit codes:
  0  compared
  1  one of the files was rejected
  2  incorrect call, no git checkout, unknown git reference, or file not in that commit
  {REJECTED}  pulumi up would reject the edit;
     with --exit-code: a pool or software is or may be replaced or deleted;
     with --fail-on: the edit does that to pods or pools, or worse, or may
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "gpupools diff [--format FORMAT] [--json] [--verbose] [--exit-code] [--fail-on HARM] [--within DIR]"
        " (OLD NEW | --since GIT-REF [FILE] | --state STATE [FILE] | --stack NAME [FILE])"
    )
    parser.epilog = examples("gpupools diff stacks/Pulumi.dev.yaml stacks/Pulumi.prod.yaml") + "\n" + _EXITS
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument("--since", metavar="GIT-REF", help="compare the file with its version in this commit")
    what = (
        "compare the last update with this version of gpupools: output of pulumi stack export; repeat it for the"
        " stacks whose outputs the file uses"
    )
    parser.add_argument("--state", action="append", default=[], type=Path, metavar="STATE", help=what)
    parser.add_argument("--stack", metavar="NAME", help="the same, with states that the Pulumi CLI exports")
    what = "default: text; json: all changed fields of all pools; markdown: a pull request comment"
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help=what)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    what = "text with the labels, tags and values that only follow from the edit"
    parser.add_argument("--verbose", action="store_const", const="verbose", dest="format", help=what)
    what = f"exit with {REJECTED} if a pool or software is or may be replaced or deleted"
    parser.add_argument("--exit-code", action="append_const", const="replace", dest="fail_on", default=[], help=what)
    what = f"exit with {REJECTED} if the edit does this or worse to running pods: {', '.join(HARMS)}"
    parser.add_argument("--fail-on", action="append", choices=HARMS, metavar="HARM", help=what)
    add_within(parser)
    nothing: Mapping[str, Any] = {"pools": (), "software": (), "warnings": (), "cost": ""}
    parser.set_defaults(run=_exit_status, nothing=nothing)


def _exit_status(given: argparse.Namespace) -> int:
    found = _with_state(given) if given.state or given.stack is not None else _of_files(given.files, given.since)
    _PRINTERS[given.format](found)
    return REJECTED if found.is_refused or any(found.harm() >= HARMS.index(harm) for harm in given.fail_on) else 0


def _of_files(files: Sequence[Path], since: str | None) -> Comparison:
    if since is None and len(files) != 2:
        raise _wrong_call("two files are required, OLD and NEW, or --since GIT-REF and one file")
    if since is None:
        old, new = map(planned_side, files)
    elif len(files) > 1:
        raise _wrong_call("--since requires a single file")
    else:
        file = files[0] if files else _only_stack_file()
        try:
            old, new = planned_side(file, since, file_at(since, file, Path.cwd())), planned_side(file)
        except NotInGit as error:
            if not str(error).endswith(WITHOUT):
                raise
            raise _wrong_call(f"{error}, and compare two files: gpupools diff OLD NEW") from None
    if isinstance(old, CheckedFile) and isinstance(new, CheckedFile):
        return compare_files(old, new, clouds())
    raise Refusal([problem for side in (old, new) if not isinstance(side, CheckedFile) for problem in side])


def _with_state(given: argparse.Namespace) -> Comparison:
    if given.since is not None or len(given.files) > 1:
        raise _wrong_call("--state and --stack require a single file, and no --since")
    name = f"Pulumi.{(given.stack or '').rpartition('/')[2]}.yaml"
    named = [path for path in (Path(name), Path("stacks") / name) if given.stack and path.is_file()]
    file = [*given.files, *named][0] if given.files or named else _only_stack_file()
    checked = planned_side(file)
    reader = import_module("gpupools.cli.state")
    try:
        read = [reader.read_state(path) for path in given.state]
        read += [reader.exported(given.stack, file)] if given.stack is not None else []
        if not isinstance(checked, CheckedFile):  # a pool that runs may be in a place that no list has
            checked = planned_side(file, running={name for state in read for name in pools_of(state.resources)})
        if not isinstance(checked, CheckedFile):
            raise Refusal(checked)
        comparison: Comparison = reader.compare_with_state(checked, read, cli=given.stack is not None)
    except Rejected as rejected:
        invalid = () if isinstance(checked, CheckedFile) else checked
        raise Refusal([*invalid, *rejected.problems]) from None
    return comparison


def _wrong_call(what: str) -> Refusal:
    return Refusal([Problem((), what)], "failed")


def _json(found: Comparison) -> None:
    def with_refusal(change: JsonDict, key: str) -> JsonDict:
        refused, allowed = found.judged.forbidden.get(key), found.judged.allowed.get(key)
        reason = None if refused is None else {"reason": refused.reason, "fix": refused.fix}
        return change | {"refused": reason, "allowed": None if allowed is None else str(allowed)}

    lists = {
        "pools": [with_refusal(pool.as_json(), pool.key) for pool in found.pools],
        "software": [with_refusal(software.as_json(), software.cluster) for software in found.software],
    }
    answer("diff", "accepted", [], {**lists, "warnings": found.warnings, "cost": found.cost})


def _print_comparison(found: Comparison, *, verbose: bool = False) -> None:
    for warning in found.warnings:
        tell_parts(("warning", Style.WARNING), (f": {warning}", None), error=True)
    for entry in found.entries():
        tell_parts((entry.headline, {"bad": Style.BAD, "warn": Style.WARNING, None: None}[entry.severity]))
        for line in entry.lines:
            tell(f"  {line}")
        if entry.refusal is not None:
            tell_parts(("  pulumi up rejects this", Style.BAD), (f": {entry.refusal}", None))
        if entry.allowed is not None:
            tell_parts((f"  {entry.allowed}", Style.WARNING))
        for line in entry.folded if verbose else ():
            tell(f"    {line}")
    same = [change.key for change in found.pools if change.change == "unchanged"]
    if same:
        tell(f"unchanged: {', '.join(same) if verbose or len(same) == 1 else f'{len(same)} pools'}")
    if found.cost:
        tell(found.cost)


def _markdown(found: Comparison) -> None:
    """Print a pull request comment: changed pools first, the others folded."""
    room = MarkdownBudget(LIMIT - 200)
    room.put(f"### gpupools diff: {in_words(counted(found.pools))}", "")
    room.many(0.2, ([f"- Warning: {code(warning)}"] for warning in found.warnings))
    if found.cost:
        room.put(f"- {code(found.cost)}")
    put_changes(room, found, 0.8)
    rest = [change.key for change in found.pools if change.change == "unchanged"]
    if rest:
        room.folded(f"{len(rest)} unchanged", 1, ([f"- {code(key)}"] for key in rest))
    tell_lines("\n".join(room.lines))


_PRINTERS: Mapping[str, Callable[[Comparison], None]] = {
    "text": _print_comparison,
    "verbose": partial(_print_comparison, verbose=True),
    "json": _json,
    "markdown": _markdown,
}


def planned_side(
    file: Path, since: str = "", then: bytes | None = None, running: Collection[str] = ()
) -> CheckedFile | list[Located]:
    """Return the plan of a file, or its problems; of its content `then` in the commit `since`, if that is given.

    `running` is as for `check_stack_file`.
    """
    try:
        if then is None:
            return check_stack_file(file, clouds(), running)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / file.name
            copy.write_bytes(then)
            return check_stack_file(copy, clouds(), running)
    except Rejected as rejected:
        return locate(file if then is None else Path(f"{since}:{file}"), rejected)


def _only_stack_file() -> Path:
    """Return the only stack file of this folder or its `stacks/`."""
    here = Path()
    found = sorted(here.glob("Pulumi.*.yaml")) or sorted((here / "stacks").glob("Pulumi.*.yaml"))
    if len(found) != 1:
        known = f"use one of {', '.join(map(str, found))}" if found else "this folder has none"
        raise _wrong_call(f"a stack file is required: {known}")
    return found[0]
