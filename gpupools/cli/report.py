"""`gpupools report FILE... -o plan.html`: write an HTML page or a pull request comment about stack files."""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gpupools.cli.diff import REJECTED, planned_side
from gpupools.cli.files import add_within, links_out, write_whole
from gpupools.cli.git import NotThen, file_at, gone_since
from gpupools.cli.help_texts import Refusal, examples, located_in, refuse_overwriting
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
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
from gpupools.stackfile.stack import prices_of, quotas_of

_EXITS = """\
exit codes:
  0  written, without errors
  1  written, with a rejected file, an error of the program or a violated mandatory policy;
     or not written, because a link leads out of --within
  2  incorrect call, existing output file, no git checkout, or unknown git reference
  3  written, with an edit since GIT-REF that pulumi up would reject
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools report stacks/Pulumi.dev.yaml -o plan.html --no-policies") + "\n" + _EXITS
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="file to write; required for HTML")
    parser.add_argument("--force", action="store_true", help="overwrite an existing OUT")
    parser.add_argument("--since", metavar="GIT-REF", help="include the changes since this commit")
    what = "default: html, a page; markdown: a pull request comment, with a marker to update it"
    parser.add_argument("--format", choices=("html", "markdown"), default="html", help=what)
    parser.add_argument(
        "--markdown", action="store_const", const="markdown", dest="format", help="same as --format markdown"
    )
    parser.add_argument("--no-policies", action="store_true", help="skip the policies")
    parser.add_argument("--policy-config", type=Path, metavar="FILE", help="policy configuration, as for pulumi up")
    parser.add_argument("--json", action="store_true", help="print counts as JSON; without OUT, write no report")
    add_within(parser)
    parser.set_defaults(run=_exit_status, nothing={"stacks": [], "gone": [], "written": None})


def _exit_status(given: argparse.Namespace) -> int:
    config = _policy_config(given)
    reports = [_report(file, given.since, not given.no_policies, config) for file in given.files]
    gone = _gone(given.files, given.since)
    if given.output is not None or not given.json:
        text = _WRITERS[given.format](reports, gone)
        if given.output is None:
            tell_lines(text)
        elif (problem := _output_problem(given.output, given.force)) is not None:  # once more: a preview takes a while
            raise Refusal([problem], "failed")
        else:
            write_whole(given.output, text)
    refused = any(report.is_refused for report in reports)
    if given.json:
        _answer(reports, gone, given.output, refused)
    elif given.output is not None:
        _tell(reports, gone, given)
    if any(report.comparison is not None and report.comparison.is_refused for report in reports):
        return REJECTED
    return 1 if refused else 0


def _policy_config(given: argparse.Namespace) -> Any:
    """Return the policy configuration; None if none is set.

    Raises:
        Refusal: The options are invalid, a link leads out of `--within`, or the configuration is rejected.
    """
    config: Path | None = given.policy_config
    for problem in _wrong_calls(given):
        raise Refusal([problem], "failed")
    outside = links_out([*given.files, given.output, config], given.within)
    if outside:
        raise Refusal([Located(path, None, problem) for path, problem in outside])
    if config is None:
        return None
    with located_in(config):
        return import_module("gpupools.policies.policy_config").read_config(config)


def _tell(reports: Sequence[StackReport], gone: Sequence[str], given: argparse.Namespace) -> None:
    for report in reports:
        for located in report.refused:
            tell_located(located)
        style = Style.BAD if report.is_refused else Style.WARNING if report.findings else Style.GOOD
        tell_parts((f"{report.file}: ", None), (report.summary(), style))
    for file in gone:
        tell_parts((f"{file}: ", None), (f"deleted since {given.since}; {STAYS}", Style.BAD))
    tell(f"wrote {given.output}")


def _wrong_calls(given: argparse.Namespace) -> Iterator[Problem]:
    output: Path | None = given.output
    if output is None and given.format == "html" and not given.json:
        yield Problem(("-o",), "is required for an HTML page", "add -o plan.html")
    if output is not None:
        refuse_overwriting([("-o", output)], [*given.files, given.policy_config])
        if not output.parent.is_dir():
            yield Problem(("-o",), f"folder {output.parent} does not exist", "create it, or use another one")
        yield from filter(None, [_output_problem(output, given.force)])
    if given.policy_config is not None and given.no_policies:
        yield Problem(("--policy-config",), "cannot be combined with --no-policies", "remove one of them")


def _output_problem(output: Path, force: bool) -> Problem | None:
    if output.is_dir():
        return Problem(("-o",), f"{output} is a folder", "use a file in it")
    if output.exists() and not output.is_file():
        return Problem(("-o",), f"{output} is not a regular file", "use another file")
    if os.path.lexists(output) and not force:
        return Problem(("-o",), f"{output} already exists", "use another file, or --force to overwrite it")
    return None


_WRITERS: dict[str, Callable[[Sequence[StackReport], Sequence[str]], str]] = {"html": page, "markdown": comment}


def _report(file: Path, since: str | None, judge: bool, config: Any) -> StackReport:
    try:
        checked = check_stack_file(file, clouds())
    except Rejected as rejected:
        return StackReport(str(file), stack_name(file), None, refused=locate(file, rejected), since=since)
    found: JsonDict = {"warnings": warnings(checked), "since": since, "quotas": quotas_of(checked.plan, clouds())}
    found["prices"] = prices_of(checked.plan, clouds())
    if since is not None:
        found |= _compared(file, since, checked)
    if judge:
        declared, found["verdicts"] = import_module("gpupools.preview.command").judge_file(checked, config)
        found["problems"] = declared.problems
    else:
        found["not_judged"] = "skipped by --no-policies"
    return StackReport(str(file), checked.file.stack, checked.plan, **found)


def _gone(files: Sequence[Path], since: str | None) -> list[str]:
    """Return the stack files of the same folders that were deleted since the commit."""
    found: list[str] = []
    for folder in dict.fromkeys(file.parent for file in files if since is not None):
        with suppress(NotThen):
            gone = gone_since(str(since), folder, STACK_FILE.fullmatch, Path.cwd())
            found += [str(path) for path, text in gone if path.parent == folder and names_ours(text)]
    return sorted(found)


def _compared(file: Path, since: str, new: CheckedFile) -> JsonDict:
    try:
        old = planned_side(file, since, file_at(since, file, Path.cwd()))
    except NotThen:
        what = f"{file} does not exist in {since}, so everything counts as new."
        return {"comparison": compare_files(None, new, clouds()), "not_compared": what}
    if not isinstance(old, CheckedFile):
        why = "\n".join(map(str, old))
        return {"not_compared": f"Not compared: the file is invalid in {since}.\n{why}"}
    return {"comparison": compare_files(old, new, clouds())}


def _answer(reports: Sequence[StackReport], gone: Sequence[str], output: Path | None, refused: bool) -> None:
    stacks = [
        {
            "file": report.file,
            "stack": report.stack,
            "summary": report.summary(),
            "pools": len(report.pools),
            "changes": report.counts() if report.comparison is not None else None,
            "findings": sum(len(finding.violations) for finding in report.findings) if not report.not_judged else None,
        }
        for report in reports
    ]
    problems = [problem.as_json() for report in reports for problem in report.refused]
    problems += [problem.as_json(report.file) for report in reports for problem in report.problems]
    holds = {"stacks": stacks, "gone": gone, "written": str(output) if output is not None else None}
    answer("report", "refused" if refused else "accepted", problems, holds)
