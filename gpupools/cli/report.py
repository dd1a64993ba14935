"""`gpupools report FILE... -o plan.html`: what stack files would create, as one page or as a comment."""

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from gpupools.cli.diff import Side, planned_side
from gpupools.cli.files import add_within, links_out, write_whole
from gpupools.cli.git import NotInGit, NotThen, file_at, gone_since
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.sdk import NEED, is_missing
from gpupools.console.output import Style, answer, tell, tell_lines, tell_parts
from gpupools.diff.comparison import compare_files
from gpupools.providers import clouds
from gpupools.report.comment import comment
from gpupools.report.facts import STAYS, StackReport
from gpupools.report.page import page
from gpupools.stackfile.check import CheckedFile, Located, check_stack_file, locate, warnings
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.repository import STACK_FILE, names_ours

_EXITS = """\
exit codes:
  0  written, and nothing refuses
  1  written, but a file, the program or a mandatory policy refuses, which the report says
     not written: a link leads out of --within
  2  called wrongly: also a file that is there already, no git checkout, an unknown git reference
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools report stacks/Pulumi.dev.yaml -o plan.html --no-policies") + "\n" + _EXITS
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the file to write; without it a comment is printed"
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT where it is there already")
    parser.add_argument("--since", metavar="GIT-REF", help="say what changes since this commit")
    parser.add_argument(
        "--format",
        choices=("html", "markdown"),
        default="html",
        help="default: html, one page; markdown: a comment for a pull request, with a marker to update it by",
    )
    parser.add_argument(
        "--markdown", action="store_const", const="markdown", dest="format", help="the same as --format markdown"
    )
    parser.add_argument(
        "--no-policies",
        action="store_true",
        help="leave out what takes seconds: the offline preview and the policy pack",
    )
    parser.add_argument(
        "--policy-config", type=Path, metavar="FILE", help="configuration of the policies, as pulumi up takes it"
    )
    parser.add_argument("--json", action="store_true", help="print counts as JSON; without OUT nothing else is written")
    add_within(parser)
    parser.set_defaults(run=_run)


class _NotWritten(Exception):
    """The call is wrong, or a file that it names is refused."""

    def __init__(self, problem: Problem | None, refused: Sequence[Located] = ()) -> None:
        super().__init__()
        self.problem, self.refused = problem, refused


def _run(given: argparse.Namespace) -> int:
    try:
        config = _policy_config(given)
        reports = [_report(file, given.since, not given.no_policies, config) for file in given.files]
        gone = _gone(given.files, given.since)
        if given.output is not None or not given.json:
            _put(_WRITERS[given.format](reports, gone), given.output, given.force)
    except NotInGit as error:
        return _fail(Problem((), str(error)), (), given.json)
    except _NotWritten as error:
        return _fail(error.problem, error.refused, given.json)
    refused = any(report.is_refused for report in reports)
    if given.json:
        _answer(reports, gone, given.output, refused)
    elif given.output is not None:
        _tell(reports, gone, given)
    return 1 if refused else 0


def _policy_config(given: argparse.Namespace) -> JsonObject | None:
    """Return the configuration of the policies; None where the options name none.

    Raises:
        _NotWritten: The options are wrong, a link leads out of `--within`, or the configuration is refused.
    """
    config: Path | None = given.policy_config
    problem = _wrong_call(given)
    if problem is None and config is not None and given.no_policies:
        problem = Problem(("--policy-config",), "is for the policies, which --no-policies leaves out", "leave one out")
    if problem is None and config is not None and not config.exists():
        problem = Problem(("--policy-config",), f"there is no file {config}", "name one")
    outside = links_out([*given.files, given.output, config], given.within)
    if problem is not None or outside:
        raise _NotWritten(problem, [Located(path, None, each) for path, each in outside])
    if config is None:
        return None
    try:
        read: JsonObject = import_module("gpupools.preview.command").read_policy_config(config)
    except Rejected as rejected:
        raise _NotWritten(None, locate(config, rejected)) from None
    return read


def _put(text: str, output: Path | None, force: bool) -> None:
    """Print or write a report; the offline preview takes a while, in which a file of that name may have come."""
    if output is None:
        tell_lines(text)
    elif (problem := _taken(output, force)) is not None:
        raise _NotWritten(problem)
    else:
        write_whole(output, text)


def _tell(reports: Sequence[StackReport], gone: Sequence[str], given: argparse.Namespace) -> None:
    for report in reports:
        for located in report.refused:
            tell_located(located)
        style = Style.BAD if report.is_refused else Style.WARNING if report.findings else Style.GOOD
        tell_parts((f"{report.file}: ", None), (report.summary(), style))
    for each in gone:
        tell_parts((f"{each}: ", None), (f"gone since {given.since}; {STAYS}", Style.BAD))
    tell(f"wrote {given.output}")


def _wrong_call(given: argparse.Namespace) -> Problem | None:
    output: Path | None = given.output
    if output is None:
        needs_file = given.format == "html" and not given.json
        return Problem(("-o",), "a page needs a file", "name one: -o plan.html") if needs_file else None
    read = [each for each in (*given.files, given.policy_config) if each is not None]
    if any(output.exists() and file.exists() and output.samefile(file) for file in read):
        return Problem(("-o",), f"{output} is a file that is read", "name another")
    if not output.parent.is_dir():
        return Problem(("-o",), f"there is no folder {output.parent}", "make it, or name another")
    return _taken(output, given.force)


def _taken(output: Path, force: bool) -> Problem | None:
    if output.is_dir():
        return Problem(("-o",), f"{output} is a folder", "name a file in it")
    if output.exists() and not output.is_file():
        return Problem(("-o",), f"{output} is no file that could be replaced", "name another")
    if os.path.lexists(output) and not force:
        return Problem(("-o",), f"{output} is there already", "name another, or say --force to overwrite it")
    return None


def _fail(problem: Problem | None, outside: Sequence[Located], as_json: bool) -> int:
    """Say why nothing is written."""
    if as_json:
        told = [problem.as_json()] if problem is not None else [each.as_json() for each in outside]
        answer(
            "report", "failed" if problem is not None else "refused", told, {"stacks": [], "gone": [], "written": None}
        )
    elif problem is not None:
        tell(f"gpupools report: {problem}", error=True)
    else:
        for each in outside:
            tell_located(each)
    return 2 if problem is not None else 1


_WRITERS: dict[str, Callable[[Sequence[StackReport], Sequence[str]], str]] = {"html": page, "markdown": comment}


def _report(file: Path, since: str | None, judge: bool, config: JsonObject | None) -> StackReport:
    try:
        checked = check_stack_file(file, clouds())
    except Rejected as rejected:
        return StackReport(str(file), stack_name(file), None, refused=locate(file, rejected), since=since)
    found: JsonDict = {"warnings": warnings(checked), "since": since}
    if since is not None:
        found |= _compared(file, since, checked)
    found |= _judged(checked, config) if judge else {"not_judged": "left out by --no-policies"}
    return StackReport(str(file), checked.file.stack, checked.plan, **found)


def _gone(files: Sequence[Path], since: str | None) -> list[str]:
    """Return the stack files of the same folders that the commit has and that are gone: nobody could name them."""
    found: list[str] = []
    for folder in dict.fromkeys(file.parent for file in files if since is not None):
        with suppress(NotThen):
            gone = gone_since(str(since), folder, STACK_FILE.fullmatch, Path.cwd())
            found += [str(path) for path, text in gone if path.parent == folder and names_ours(text)]
    return sorted(found)


def _compared(file: Path, since: str, new: CheckedFile) -> JsonDict:
    try:
        old = planned_side(Side(Path(f"{since}:{file}"), file_at(since, file, Path.cwd())))
    except NotThen:
        what = f"There is no {file} in {since}, so everything counts as new."
        return {"comparison": compare_files(None, new, clouds()), "not_compared": what}
    if not isinstance(old, CheckedFile):
        why = "\n".join(map(str, old))
        return {"not_compared": f"Not compared: the file was refused in {since}.\n{why}"}
    return {"comparison": compare_files(old, new, clouds())}


def _judged(checked: CheckedFile, config: JsonObject | None) -> JsonDict:
    """Ask the policies, where the offline preview can run."""
    try:
        preview = import_module("gpupools.preview.command").preview_file(checked, policy_config=config)
    except ModuleNotFoundError as error:
        if not is_missing(error):
            raise
        return {"not_judged": f"this needs {NEED}"}
    return {"verdicts": preview.verdicts, "problems": preview.problems}


def _answer(reports: Sequence[StackReport], gone: Sequence[str], output: Path | None, refused: bool) -> None:
    stacks = [
        {
            "file": report.file,
            "stack": report.stack,
            "summary": report.summary(),
            "pools": len(report.pools),
            "changes": report.counts() if report.comparison is not None else None,
            "findings": sum(len(each.violations) for each in report.findings) if not report.not_judged else None,
        }
        for report in reports
    ]
    problems = [each.as_json() for report in reports for each in report.refused]
    problems += [each.as_json(report.file) for report in reports for each in report.problems]
    holds = {"stacks": stacks, "gone": gone, "written": str(output) if output is not None else None}
    answer("report", "refused" if refused else "accepted", problems, holds)
