"""`gpupools check FILE...`: validate stack files without Pulumi and without cloud access."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpupools.cli.files import add_within
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected, amount_of
from gpupools.common.json_types import JsonDict
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
    what = "default: text; github: annotations for GitHub Actions"
    parser.add_argument("--format", choices=("text", "json", "github"), default="text", help=what)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    add_within(parser)
    parser.set_defaults(run=lambda given: check_files(given.files, given.format))


def check_files(files: Sequence[Path], form: str = "text") -> int:
    """Print all problems and warnings of all files in one of the formats; return 1 if there is a problem."""
    all_problems: list[Located] = []
    all_warnings: list[Located] = []
    listed: list[JsonDict] = []
    for path in files:
        problems, found, pools = list[Located](), list[Located](), list[str]()
        try:
            checked = check_stack_file(path, clouds())
            found, pools = warnings(checked), [f"{pool.cluster}/{pool.name}" for pool in checked.plan.pools]
        except Rejected as rejected:
            problems = locate(path, rejected)
        if form != "json":
            _tell(path, problems, found, form)
            if not problems:
                tell_parts((f"{path}: ", None), ("ok", Style.GOOD), (f", {amount_of(len(pools), 'pool')}", None))
        listed.append({"file": str(path), "result": "refused" if problems else "accepted", "pools": pools})
        all_problems += problems
        all_warnings += found
    if form == "json":
        holds = {"files": listed, "warnings": [located.as_json() for located in all_warnings]}
        result = "refused" if all_problems else "accepted"
        answer("check", result, [located.as_json() for located in all_problems], holds)
    return 1 if all_problems else 0


def _tell(file: Path, problems: Sequence[Located], warned: Sequence[Located], form: str) -> None:
    for kind, found in (("error", problems), ("warning", warned)):
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
                tell(f"{file}: and {count - MOST_ALIKE} more: {about}", error=True)
