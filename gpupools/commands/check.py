"""`gpupools check FILE...`: validate stack files without Pulumi and without a cloud."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gpupools.check import Located, check_stack_file, locate, warnings
from gpupools.commands.files import add_within, refuses_links
from gpupools.errors import Problem, Rejected
from providers import clouds


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "--format", choices=("text", "github"), default="text", help="github: annotations for a step of GitHub Actions"
    )
    add_within(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    return 1 if refuses_links(given.files, given.within) else check_files(given.files, given.format)


def check_files(files: Sequence[Path], form: str = "text") -> int:
    """Print every problem of every file, and what it hardly means; return 1 when there is a problem.

    Args:
        files: The stack files.
        form: `text` for `file:line: key: what; cure`, `github` for an annotation on that line.
    """
    failed = False
    for path in files:
        try:
            checked = check_stack_file(path, clouds())
        except Rejected as rejected:
            failed = True
            for located in locate(path, rejected):
                if form == "github":  # the runner reads annotations from standard output
                    print(_annotated(located))
                else:
                    print(located, file=sys.stderr)
        else:
            for located in warnings(checked):
                if form == "github":
                    print(_annotated(located, "warning"))
                else:
                    print(f"{located.place}: warning: {located.problem}", file=sys.stderr)
            count = len(checked.plans)
            print(f"{path}: ok, {count} {'pool' if count == 1 else 'pools'}")
    return 1 if failed else 0


def _annotated(located: Located, kind: str = "error") -> str:
    # Imported only here: the rules around it take longer to load than a file takes to check.
    annotation = import_module("policies.documents.github").annotation
    problem = located.problem
    bare = Problem((), problem.what, problem.fix, problem.source)
    text: str = annotation(kind, str(located.file), located.line, problem.key or "gpupools check", str(bare))
    return text
