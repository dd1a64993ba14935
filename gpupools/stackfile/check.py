"""A stack file from disk to plans, with every problem located by file and line."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import NamedTuple

from gpupools.common.errors import Path, Problem, Rejected, may_hold_secret, nearest
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud
from gpupools.spec.cluster_access import clear_secrets, kubeconfigs_inside
from gpupools.spec.identity import not_compared
from gpupools.spec.models import Cluster
from gpupools.stackfile.config_values import TOO_MUCH
from gpupools.stackfile.reader import FileRejected, NotYaml, Span, StackFile, is_in_checkout, read_stack_file
from gpupools.stackfile.stack import Stack, StackPlan, plan_config


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
    span: Span | None = None
    """Where on the line, where that is known."""
    source: str = ""
    """The line itself; empty where it may hold a secret."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    @property
    def place(self) -> str:
        """`file:line`, or the file alone; `file:line:column` of what is no YAML."""
        column = f":{self.span.column}" if self.span is not None and not self.problem.path else ""
        return f"{self.file}:{self.line}{column}" if self.line is not None else str(self.file)

    def as_json(self) -> JsonDict:
        """Return file, line, key, what, fix and source."""
        return self.problem.as_json(self.file, self.line)


def check_stack_file(path: FilePath, clouds: Mapping[str, Cloud]) -> CheckedFile:
    """Read, check and plan one stack file.

    Raises:
        FileRejected: Everything that is wrong with it; `locate` says where.
    """
    misread: tuple[Problem, ...] = ()
    try:
        file = read_stack_file(path)
    except FileRejected as rejected:
        file, misread = rejected.file, rejected.problems
        # What is wrong beside values that nobody can judge is told with them.
        if not rejected.misread or not file.config or any(each.what.endswith(TOO_MUCH) for each in misread):
            raise
    try:
        return CheckedFile(file, plan_config(file.config, clouds, file.others, never_in_a_file(path.parent), misread))
    except Rejected as rejected:
        raise FileRejected(rejected.problems, file) from None


def never_in_a_file(folder: FilePath) -> Callable[[Mapping[str, Cluster]], Iterator[Problem]]:
    """Return what says of clusters which ways to their API no stack file may name.

    Args:
        folder: Where the stack file is.
    """

    def wrong(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
        yield from clear_secrets(clusters)
        yield from kubeconfigs_inside(clusters, lambda kubeconfig: is_in_checkout(kubeconfig, folder))

    return wrong


def locate(path: FilePath, rejected: Rejected) -> list[Located]:
    """Give each problem its line in the file, in the order of the file."""
    if isinstance(rejected, NotYaml) and rejected.span is not None:
        line = _line(rejected.text, rejected.span, ())
        return [Located(path, rejected.span.line, problem, rejected.span, line) for problem in rejected.problems]
    return _located(path, rejected.file if isinstance(rejected, FileRejected) else None, rejected.problems)


def warnings(checked: CheckedFile) -> list[Located]:
    """Give what a file says but hardly means its lines, in the order of the file."""
    file = checked.file
    found = [
        *([Problem(("environment",), file.note)] if file.note else []),
        *not_compared(checked.plan.stack.clusters),
        *_named_for_nothing(checked.plan.stack),
        *(each for runtime in checked.plan.runtimes for each in runtime.warnings),
    ]
    return _located(file.path, file, found)


def _named_for_nothing(stack: Stack) -> Iterator[Problem]:
    """Say what `allow_destroy` names that the file does not have: right for what the next update deletes."""
    pools = [f"{cluster}/{name}" for name, pool in stack.pools.items() for cluster in pool.clusters]
    for index, name in enumerate(stack.allow_destroy):
        kind, known = ("pool", pools) if "/" in name else ("cluster", list(stack.clusters))
        if name not in known:
            what = f"{name!r} is no {kind} of this file, so pulumi up takes it only in the update that deletes it"
            yield Problem(("allow_destroy", index), what, nearest(name, known))


def _located(path: FilePath, file: StackFile | None, problems: Iterable[Problem]) -> list[Located]:
    located = []
    for problem in problems:
        if file is None or not problem.path:
            located.append(Located(path, None, problem))
            continue
        line, span = file.line(problem.path), file.span(problem.path, of_key=problem.of_key)
        if span is None or span.line != line:
            located.append(Located(path, line, problem))
        else:
            located.append(Located(path, line, problem, span, _line(file.text, span, problem.path)))
    return sorted(located, key=lambda found: found.line or 0)


_LONGEST = 60
"""Characters of a word that is shown; a longer one may be a secret."""


def _line(text: str, span: Span, path: Path) -> str:
    """Return a line of a file to show with the problem on it; empty where it may hold a secret."""
    line = text.split("\n")[span.line - 1].rstrip("\r") if text.count("\n") >= span.line - 1 else ""
    words = re.split(r"[\s,:{}\[\]]+", line)
    if may_hold_secret(path) or may_hold_secret(tuple(words)) or any(len(word) > _LONGEST for word in words):
        return ""
    return line
