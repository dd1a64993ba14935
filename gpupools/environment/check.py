"""A stack file from disk to plans, with every problem located by file and line."""

from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from gpupools.asked.access import check_kubeconfig_paths, check_secrets
from gpupools.asked.identity import not_compared
from gpupools.base.errors import Problem, Rejected
from gpupools.environment.stack import StackPlan, plan_config
from gpupools.environment.stackfile import FileRejected, StackFile, is_in_checkout, read_stack_file
from gpupools.planned.cloud import Cloud


class CheckedFile(NamedTuple):
    """A stack file nothing is wrong with."""

    file: StackFile
    plan: StackPlan


class Located(NamedTuple):
    """A problem and where it stands."""

    file: FilePath
    line: int | None
    """From 1; None when the problem is the file itself."""
    problem: Problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    @property
    def place(self) -> str:
        """`file:line`, or the file alone."""
        return f"{self.file}:{self.line}" if self.line is not None else str(self.file)

    def as_json(self) -> dict[str, Any]:
        """Return file, line, key, what, fix and source."""
        return self.problem.as_json(self.file, self.line)


def check_stack_file(path: FilePath, clouds: Mapping[str, Cloud]) -> CheckedFile:
    """Read, check and plan one stack file.

    Raises:
        FileRejected: Everything that is wrong with it; `locate` says where.
    """
    file = read_stack_file(path)
    try:
        plan = plan_config(file.config, clouds, file.others)
        check_secrets(plan.stack.clusters)
        check_kubeconfig_paths(plan.stack.clusters, lambda kubeconfig: is_in_checkout(kubeconfig, path.parent))
        return CheckedFile(file, plan)
    except Rejected as rejected:
        raise FileRejected(rejected.problems, file) from None


def locate(path: FilePath, rejected: Rejected) -> list[Located]:
    """Give each problem its line in the file, in the order of the file."""
    return _located(path, rejected.file if isinstance(rejected, FileRejected) else None, rejected.problems)


def warnings(checked: CheckedFile) -> list[Located]:
    """Give what a file says but hardly means its lines, in the order of the file."""
    file = checked.file
    found = [
        *([Problem(("environment",), file.note)] if file.note else []),
        *not_compared(checked.plan.stack.clusters),
        *(each for runtime in checked.plan.runtimes for each in runtime.warnings),
    ]
    return _located(file.path, file, found)


def _located(path: FilePath, file: StackFile | None, problems: Iterable[Problem]) -> list[Located]:
    located = [
        Located(path, file.line(problem.path) if file is not None and problem.path else None, problem)
        for problem in problems
    ]
    return sorted(located, key=lambda found: found.line or 0)
