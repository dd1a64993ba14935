"""Read, validate and plan a stack file, with file and line for every problem."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path as FilePath
from typing import NamedTuple

from gpupools.common.errors import Path, Problem, Rejected, may_hold_secret, nearest
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud
from gpupools.spec.cluster_access import endpoint_host, misplaced_kubeconfigs
from gpupools.spec.identity import not_compared
from gpupools.spec.models import Cluster
from gpupools.stackfile.config_values import TOO_MUCH
from gpupools.stackfile.price_list import read_price_list
from gpupools.stackfile.reader import FileRejected, NotYaml, Span, StackFile, is_in_checkout, read_stack_file
from gpupools.stackfile.stack import StackPlan, places_against_lists, plan_config
from gpupools.stackfile.stack_validation import Stack


class CheckedFile(NamedTuple):
    """A valid stack file with its plan."""

    file: StackFile
    plan: StackPlan


class Located(NamedTuple):
    """A problem with its file and line."""

    file: FilePath
    line: int | None
    """From 1; None if the problem concerns the whole file."""
    problem: Problem
    span: Span | None = None
    """Position on the line, if known."""
    source: str = ""
    """Text of the line; empty if it may contain a secret."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    @property
    def place(self) -> str:
        """`file:line`, or the file alone; `file:line:column` for invalid YAML."""
        column = f":{self.span.column}" if self.span is not None and not self.problem.path else ""
        return f"{self.file}:{self.line}{column}" if self.line is not None else str(self.file)

    def as_json(self) -> JsonDict:
        """Return file, line, key, what, fix and source."""
        return self.problem.as_json(self.file, self.line)


def check_stack_file(path: FilePath, clouds: Mapping[str, Cloud], running: Collection[str] = ()) -> CheckedFile:
    """Return one stack file with its plan; `running` as for `plan_config`.

    Raises:
        FileRejected: All problems of the file; `locate` adds their lines.
    """
    misread: tuple[Problem, ...] = ()
    try:
        file = read_stack_file(path)
    except FileRejected as rejected:
        file, misread = rejected.file, rejected.problems
        # Other problems are reported together with unreadable values.
        if not rejected.misread or not file.config or any(problem.what.endswith(TOO_MUCH) for problem in misread):
            raise
    try:
        checks = file_access_problems(path.parent)
        prices = partial(read_price_list, folder=path.parent)
        return CheckedFile(file, plan_config(file.config, clouds, file.others, checks, misread, prices, running))
    except Rejected as rejected:
        raise FileRejected(rejected.problems, file) from None


def file_access_problems(folder: FilePath) -> Callable[[Mapping[str, Cluster]], Iterator[Problem]]:
    """Return a check for API access that a stack file may not contain."""
    return partial(misplaced_kubeconfigs, is_inside=partial(is_in_checkout, folder=folder))


def locate(path: FilePath, rejected: Rejected) -> list[Located]:
    """Return the problems with their lines, in the order of the file."""
    if isinstance(rejected, NotYaml) and rejected.span is not None:
        line = _line(rejected.text.split("\n"), rejected.span, ())
        return [Located(path, rejected.span.line, problem, rejected.span, line) for problem in rejected.problems]
    return _located(path, rejected.file if isinstance(rejected, FileRejected) else None, rejected.problems)


def warnings(checked: CheckedFile) -> list[Located]:
    """Return the warnings about a valid file with their lines: of pods that would not run first, others after them."""
    file = checked.file
    first = [*(warning for runtime in checked.plan.runtimes for warning in runtime.warnings)]
    first += _outside_security_groups(checked.plan.stack)
    first = checked.plan.stack.steps.as_written(first)
    found = [
        *([Problem(("environment",), file.note)] if file.note else []),
        *places_against_lists(checked.plan),
        *_unused_prices(checked.plan),
        *not_compared(checked.plan.stack.clusters),
        *_unknown_allow_destroy(checked.plan.stack),
        *_foreign_endpoints(checked.plan.stack),
    ]
    return _located(file.path, file, first) + _located(file.path, file, found)


def _unused_prices(plan: StackPlan) -> Iterator[Problem]:
    """Yield one problem for the rows of a team's own prices that no pool uses; a zone is no region."""
    clusters = [(pool.instance.name, plan.stack.clusters[pool.cluster].region_name()) for pool in plan.pools]
    unused = [(key, price) for key, price in plan.stack.prices.prices.items() if (key[0], key[2]) not in clusters]
    for (name, _, region), price in sorted(unused, key=lambda row: row[0][0] not in dict(clusters))[:1]:
        own = next((place for machine, place in clusters if machine == name), "")
        what = f"{price.source}: {name} in {region} is no instance type and region of a pool, so the price is not used"
        what += f"; {len(unused) - 1} more rows are not used either" if len(unused) > 1 else ""
        yield Problem(("prices",), what, f"write the region {own}" if own else "remove the row, if it is a mistake")


def _unknown_allow_destroy(stack: Stack) -> Iterator[Problem]:
    """Yield entries of `allow_destroy` that are not in the file, which is right if the next update deletes them."""
    pools = [f"{cluster}/{name}" for name, pool in stack.pools.items() for cluster in pool.clusters]
    for index, name in enumerate(stack.allow_destroy):
        kind, known = ("pool", pools) if "/" in name else ("cluster", list(stack.clusters))
        if name not in known:
            what = f"{name!r} is not a {kind} of this file; it only has an effect in the update that deletes it"
            yield Problem(("allow_destroy", index), what, nearest(name, known))


def _outside_security_groups(stack: Stack) -> Iterator[Problem]:
    """Yield clusters of which some pools name security groups, and others get only the cluster's own."""
    for key, cluster in stack.clusters.items():
        own = {name: pool.network for name, pool in stack.pools.items() if key in pool.clusters}
        # Pools with RDMA have to name a group, usually the cluster's own.
        named = [name for name, network in own.items() if network.security_group_ids and not network.rdma]
        others = [name for name, network in own.items() if not network.security_group_ids]
        groups, pools = getattr(cluster, "security_group_ids", None), ", ".join(others)
        what = f"the cluster has further security groups, and the nodes of {pools} are in none of them"
        if named:
            what = f"nodes of pool {named[0]} are in security groups that the nodes of {pools} are not in"
        if others and (groups == [] or (named and not groups)):
            what += ", so DNS and other traffic between them may be blocked"
            yield Problem(("clusters", key), what, "set security_group_ids here, for all pools that name none", _GROUPS)


_GROUPS = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"


def _foreign_endpoints(stack: Stack) -> Iterator[Problem]:
    """Yield endpoints whose host the cloud gives to no cluster, because they receive a token for it."""
    for key, cluster in stack.clusters.items():
        host = re.sub(r":[0-9]+$", "", endpoint_host(cluster))
        if host and cluster.api_hosts and not re.fullmatch(cluster.api_hosts, host):
            what = f"{host} is not an address that {cluster.cloud} gives to clusters, and receives a token for this one"
            yield Problem(
                ("clusters", key, "endpoint"), what, "use the endpoint that the cloud shows, or check the host"
            )


def _located(path: FilePath, file: StackFile | None, problems: Iterable[Problem]) -> list[Located]:
    located = []
    lines = file.text.split("\n") if file is not None else []
    for problem in problems:
        if file is None or not problem.path:
            located.append(Located(path, None, problem))
            continue
        line, span = file.line(problem.path), file.span(problem.path, of_key=problem.of_key)
        if span is None or span.line != line:
            located.append(Located(path, line, problem))
        else:
            located.append(Located(path, line, problem, span, _line(lines, span, problem.path)))
    return sorted(located, key=lambda found: found.line or 0)


_LONGEST = 60
"""Maximum length of a word that is shown; a longer one may be a secret."""


def _line(lines: Sequence[str], span: Span, path: Path) -> str:
    """Return the line of a problem; empty if it may contain a secret."""
    line = lines[span.line - 1].rstrip("\r") if span.line <= len(lines) else ""
    return "" if may_hold_secret(path) or _has_secret(line) else line


@lru_cache(maxsize=1)  # many problems may be on one line
def _has_secret(line: str) -> bool:
    words = re.split(r"[\s,:{}\[\]]+", line)
    return may_hold_secret(tuple(words)) or any(len(word) > _LONGEST for word in words)
