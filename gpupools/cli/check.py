"""`gpupools check FILE...`: validate stack files without Pulumi and without cloud access."""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpupools.cli.files import add_within
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected, amount_of
from gpupools.console.output import Style, annotate, answer, tell, tell_parts
from gpupools.providers import clouds
from gpupools.stackfile.check import Located, check_stack_file, locate, warnings
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.parsing import MOST_ALIKE


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools check stacks/*.yaml", "gpupools check - < stacks/Pulumi.dev.yaml")
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml, or - for standard input"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="default: text; github: annotations for GitHub Actions",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    add_within(parser)
    parser.set_defaults(run=lambda given: check_files(given.files, given.format))


def check_files(files: Sequence[Path], form: str = "text") -> int:
    """Print all problems and warnings of all files in one of the formats; return 1 if there is a problem."""
    checked: list[_Checked] = []
    for checked_file in _checked(files):
        checked.append(checked_file)
        if form != "json":
            _tell(checked_file, form)
    problems = [located for checked_file in checked for located in checked_file.problems]
    if form == "json":
        files_json = [
            {"file": str(each.file), "result": "refused" if each.problems else "accepted", "pools": each.pools}
            for each in checked
        ]
        warned = [located.as_json() for checked_file in checked for located in checked_file.warnings]
        holds = {"files": files_json, "warnings": warned}
        answer("check", "refused" if problems else "accepted", [located.as_json() for located in problems], holds)
    return 1 if problems else 0


class _Checked(NamedTuple):
    """The problems and warnings of one file."""

    file: Path
    problems: Sequence[Located]
    warnings: Sequence[Located] = ()
    pools: Sequence[str] = ()
    """As `<cluster>/<pool>`."""


def _checked(files: Sequence[Path]) -> Iterator[_Checked]:
    for path in files:
        try:
            checked = check_stack_file(path, clouds())
        except Rejected as rejected:
            yield _Checked(path, locate(path, rejected))
        else:
            yield _Checked(path, (), warnings(checked), [f"{pool.cluster}/{pool.name}" for pool in checked.plan.pools])


def _tell(checked: _Checked, form: str) -> None:
    for kind, found in (("error", checked.problems), ("warning", checked.warnings)):
        alike: Counter[str] = Counter()
        for located in found:
            about = re.sub(r"'[^']*'|[0-9]+", "…", located.problem.what)
            alike[about] += 1
            if alike[about] > MOST_ALIKE:
                continue
            if form == "github":
                problem = located.problem
                bare = Problem((), problem.what, problem.fix, problem.source)
                annotate(kind, located.file, located.line, problem.key or "gpupools check", bare)
            else:
                tell_located(located, warning=kind == "warning")
        for about, count in alike.items():
            if count > MOST_ALIKE and form == "text":
                tell(f"{checked.file}: and {count - MOST_ALIKE} more: {about}", error=True)
    if not checked.problems:
        pools = amount_of(len(checked.pools), "pool")
        tell_parts((f"{checked.file}: ", None), ("ok", Style.GOOD), (f", {pools}", None))
