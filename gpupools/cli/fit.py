"""`gpupools fit MANIFEST... --stack FILE`: say which pools take a workload, and what keeps it off the others."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from gpupools.cli.files import add_reports, add_within, links_out, write_reports
from gpupools.cli.help_texts import Refusal, examples
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.common.structured_text import without_collecting
from gpupools.console.output import Style, annotate, answer, tell, tell_json, tell_lines, tell_parts
from gpupools.fit.answers import FAILING, Answer, answers, comment, lines, sarif, totals
from gpupools.fit.manifests import read_manifests
from gpupools.fit.workloads import Level, Manifests
from gpupools.providers import clouds
from gpupools.stackfile.check import Located, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.stack import StackPlan

_EXITS = """\
exit codes:
  0  no answer fails the run
  1  an answer fails it, as --fail-on says, or a stack file or manifest is rejected
  2  incorrect call, or the cluster cannot be read
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    example = "gpupools fit examples/teams/kueue.yaml --stack examples/teams/Pulumi.jobs.yaml"
    parser.epilog = (
        examples(example, "gpupools fit --help")
        + "\nWith --context it reads the pods of a cluster that wait, or the one that --pod names.\n\n"
        + _EXITS
    )
    parser.add_argument("manifests", nargs="*", type=Path, metavar="MANIFEST", help="YAML or JSON file, or a folder")
    what = f"stack file with the pools; may be repeated; default: {DEV_STACK}"
    parser.add_argument("--stack", action="append", default=[], type=Path, metavar="FILE", help=what)
    parser.add_argument("--cluster", default="", metavar="KEY", help="only the pools of this cluster")
    what = "namespace of objects that name none; default: default"
    parser.add_argument("--namespace", default="default", metavar="NAME", help=what)
    parser.add_argument("--pod", metavar="NAMESPACE/NAME", help="a pod of the cluster; default: all pods that wait")
    parser.add_argument("--context", metavar="NAME", help="read the pods of this context of your kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of --context; default: kubectl's")
    parser.add_argument("--verbose", action="store_true", help="show every pool, with the lines to change for each")
    what = "also write the answers to FILE as json, sarif or markdown (a pull request comment); repeatable"
    add_reports(parser, _WRITERS, ("json", "sarif", "markdown"), what)
    what = "answers that fail the run: unfit (no pool takes a pod), unknown (or it is not known); default: unfit"
    parser.add_argument("--fail-on", choices=tuple(FAILING), default="unfit", help=what)
    add_within(parser)
    parser.set_defaults(run=_exit_status, nothing=_NOTHING)


_NOTHING: JsonDict = {"pods": [], "not_read": {}}


def _exit_status(given: argparse.Namespace) -> int:
    given.stack = given.stack or [DEV_STACK]
    try:
        stacks = _stacks(given)
    except Refusal as refusal:
        rejected = tuple(each for each in refusal.problems if isinstance(each, Located))
        if given.context is not None or not rejected:
            raise
        return _tell((), Manifests((), problems=rejected), given)
    if given.context is not None:
        return _live(given, *stacks.values())
    with without_collecting():
        read = read_manifests(given.manifests, given.namespace)
        return _tell(answers(read, stacks, given.cluster, clouds()), read, given)


def _tell(found: Sequence[Answer], read: Manifests, given: argparse.Namespace) -> int:
    """Print and report answers and problems; return the exit code."""
    for located in read.problems if given.format not in ("json", "github") else ():
        tell_located(located)
    write_reports(given.report, _WRITERS, found, read, given)
    _WRITERS[given.format](found, read, given)
    return int(bool(read.problems) or _is_failed(found, given))


def _is_failed(found: Sequence[Any], given: argparse.Namespace) -> bool:
    return any(each.level in FAILING[given.fail_on] for each in found)


def _live(given: argparse.Namespace, plan: StackPlan) -> int:
    """Print why pods of a cluster wait; return 1 if an answer fails the run, and 2 if there is no such pod.

    Raises:
        Refusal: The call does not say which cluster is meant, or it cannot be read.
    """
    names = ("ready.live_cluster", "fit.live", "fit.pending")
    door, live, pending = (import_module(f"gpupools.{name}") for name in names)
    keys = [given.cluster] if given.cluster else list(dict.fromkeys(pool.cluster for pool in plan.pools))
    if len(keys) > 1:
        fix = f"add --cluster with one of {', '.join(keys)}"
        raise _wrong("--cluster", f"the stack has {len(keys)} clusters with pools", fix)
    cluster, pod = plan.stack.clusters[keys[0]], given.pod or ""
    try:
        api = door.ClusterApi(door.Access(given.kubeconfig, given.context, given.stack[0].parent))
        read = live.read_live(api, cluster, clouds()[cluster.cloud], pod)
    except (door.Unreachable, PermissionError) as error:
        role = "bind the role of docs/reference/permissions/cluster-fit.json"
        raise _wrong("--context", str(error), role if isinstance(error, PermissionError) else "") from None
    found = pending.grouped(pending.answers(read, pending.Given(plan, keys[0], clouds(), str(given.stack[0])), pod))
    is_failed, is_missing = _is_failed(found, given), any(each.key == pending.NO_POD for each in found)
    if given.format == "json":
        result = "failed" if is_missing else "refused" if is_failed else "accepted"
        answer("fit", result, [], {**_NOTHING, "pods": [each.as_json() for each in found]})
    for line in () if given.format == "json" else (line for each in found for line in each.lines()):
        tell(line)
    if not found:
        tell("no pod that requests GPUs waits for a node", error=given.format == "json")
    return 2 if is_missing else int(is_failed)


_FORMS = ("*.json", "*.yaml", "*.yml")


def _stacks(given: argparse.Namespace) -> Mapping[str, StackPlan]:
    """Return the plans by the name of their stack.

    Raises:
        Refusal: The call is wrong, or a stack file is rejected.
    """
    if wrong := list(_wrong_call(given)):
        raise Refusal(wrong, "failed")
    below = (file for path in given.manifests for form in _FORMS for file in path.rglob(form))
    named = chain(given.manifests, given.stack, (file for _, file in given.report), below)
    if outside := links_out(named, given.within):
        raise Refusal([Located(path, None, problem) for path, problem in outside])
    plans: dict[str, StackPlan] = {}
    rejected: list[Located] = []
    for file in given.stack:
        try:
            plans[stack_name(file)] = check_stack_file(file, clouds()).plan
        except Rejected as error:
            rejected += locate(file, error)
    if rejected:
        raise Refusal(rejected)
    clusters = {pool.cluster for plan in plans.values() for pool in plan.pools}
    if given.cluster and given.cluster not in clusters:
        raise _wrong("--cluster", f"the stack has no cluster {given.cluster!r}", nearest(given.cluster, clusters))
    if not any(plan.pools for plan in plans.values()):
        raise _wrong("--stack", "the stack has no pool", "add one to gpupools:pools")
    return plans


def _wrong(option: str, what: str, fix: str = "") -> Refusal:
    return Refusal([Problem((option,), what, fix)], "failed")


def _wrong_call(given: argparse.Namespace) -> Iterator[Problem]:
    if given.context is None and not given.manifests:
        yield Problem((), "give MANIFEST, or --context NAME for the pods of a cluster")
    if given.context is not None and (given.manifests or given.report or len(given.stack) > 1):
        yield Problem(("--context",), "takes neither manifests nor --report, and one stack", "remove them")
    if given.pod is not None and not re.fullmatch("[^/,=]+/[^/,=]+", given.pod):
        yield Problem(("--pod",), f"got {shown(given.pod)}", "write NAMESPACE/NAME")
    for key in ("pod", "kubeconfig") if given.context is None else ():
        if getattr(given, key) is not None:
            yield Problem((f"--{key}",), "is about a cluster", "add --context NAME")


def _text(found: Sequence[Answer], read: Manifests, given: argparse.Namespace) -> None:
    styles = {Level.FITS: Style.GOOD, Level.UNFIT: Style.BAD, Level.UNKNOWN: Style.WARNING, None: Style.FAINT}
    for each in found:
        place = f"{each.workload.file}:{each.line}" if each.line else each.workload.file
        tell_parts((f"{place}: {each.name}: ", Style.PLACE), (each.headline(), styles[each.level]))
        for line in lines(each, verbose=given.verbose):
            tell(line)
    if found or not read.problems:
        tell(totals(found, read))


def _json(found: Sequence[Answer], read: Manifests, given: argparse.Namespace) -> None:
    result = "refused" if read.problems or _is_failed(found, given) else "accepted"
    holds: JsonDict = {"pods": [each.as_json() for each in found], "not_read": dict(read.not_read)}
    answer("fit", result, [located.as_json() for located in read.problems], holds)


def _github(found: Sequence[Answer], read: Manifests, given: argparse.Namespace) -> None:
    for located in read.problems:
        annotate("error", located.file, located.line, "gpupools fit", located.problem)
    for each in found:
        if each.level in (Level.UNFIT, Level.UNKNOWN):
            kind = "error" if _is_failed([each], given) else "warning"
            annotate(kind, each.workload.file, each.line, "gpupools fit", f"{each.name}: {each.summary()}")
    tell(totals(found, read))


_WRITERS: dict[str, Callable[[Sequence[Answer], Manifests, argparse.Namespace], None]] = {
    "text": _text,
    "json": _json,
    "github": _github,
    "sarif": lambda found, read, given: tell_json(sarif(found, read, given.fail_on)),
    "markdown": lambda found, read, given: tell_lines(comment(found, read)),
}
