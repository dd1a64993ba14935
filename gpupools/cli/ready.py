"""`gpupools ready FILE`: compare live clusters with the plan of their pools, and name what is missing."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from gpupools.cli.help_texts import examples, located_in, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.console.output import Style, answer, printable, tell, tell_parts
from gpupools.console.terminal import columns, shows_colour
from gpupools.providers import clouds
from gpupools.ready.live_cluster import access_of, unknown_hosts
from gpupools.ready.pool_status import PoolStatus
from gpupools.ready.promises import promises
from gpupools.ready.watch import Watch
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        f"{examples('gpupools ready --help')}\n"
        "Exit code 0: all pools are ready. 1: a pool is not. 2: no cluster could be read. 3: a permission or one of\n"
        "several clusters is missing to say so.\n"
        "The command only reads, except with --smoke. docs/how-to/check-gpus.md has the causes.\n"
    )
    parser.add_argument("file", nargs="?", type=Path, default=DEV_STACK, metavar="FILE", help=f"default: {DEV_STACK}")
    parser.add_argument("--pool", action="append", default=[], metavar="NAME", help="only this pool; may be repeated")
    parser.add_argument("--timeout", type=whole_number, default=0, metavar="S", help="wait up to S seconds; default: 0")
    parser.add_argument("--watch", action="store_true", help="keep watching when all pools are ready")
    shows = parser.add_mutually_exclusive_group()
    shows.add_argument("--smoke", action="store_true", help="run a CUDA sample on each pool, and delete it afterwards")
    what = "use this context of the kubeconfig for a cluster, instead of the access in the stack file"
    parser.add_argument("--context", action="append", default=[], metavar="[CLUSTER=]NAME", help=what)
    what = "let the credential of the cloud's login go to this host, which the stack file names"
    parser.add_argument("--trust-endpoint", action="append", default=[], metavar="HOST", help=what)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig with the contexts")
    shows.add_argument("--json", action="store_true", help="print pools and causes as JSON; with --watch one per line")
    parser.set_defaults(run=_exit_status, nothing={"pools": []})


def _exit_status(given: argparse.Namespace) -> int:
    with located_in(given.file, "failed"):
        plan = check_stack_file(given.file, clouds()).plan
        if wrong := list(_wrong_call(given, plan)):
            raise Rejected(wrong)
    wanted = [promise for promise in promises(plan) if not given.pool or promise.pool.name in given.pool]
    clusters = plan.stack.clusters
    where = (given.context, given.kubeconfig, given.trust_endpoint, given.file.parent)
    watch = Watch(wanted, clusters, clouds(), lambda key: access_of(key, clusters, clouds(), *where), str(given.file))
    shown: dict[str, str] = {}
    for is_last in watch.looks(given.timeout, stays=given.watch):
        if given.json and (is_last or given.watch):
            result = _RESULTS[watch.code]
            problems = [problem.as_json() for problem in watch.problems.values()]
            holds = {"pools": [status.as_json() for status in watch.found]}
            answer("ready", result, problems, holds, indent=None if given.watch else 2)
        elif not given.json and (given.timeout or given.watch):
            texts = {f"{status.cluster}/{status.pool}": status.summary() for status in watch.found}
            texts |= {key: str(problem) for key, problem in watch.problems.items() if not is_last}
            _tell_waiting(texts, shown)
            shown = texts
        sys.stdout.flush()
    for status in () if given.json else watch.found:
        if not (shown and status.is_ready):
            tell_status(status, watch.now)
    for problem in () if given.json else watch.problems.values():
        tell(problem, error=True)
    if watch.is_ready and given.smoke:
        from gpupools.cli.smoke import run_smoke_tests

        return run_smoke_tests([promise.pool for promise in wanted], watch.apis, given.timeout or 1800)
    return watch.code


_RESULTS = ("accepted", "refused", "failed", "unknown")
"""By exit code."""


def _tell_waiting(texts: Mapping[str, str], shown: Mapping[str, str]) -> None:
    """Print a line per pool: in place on a terminal, elsewhere those that changed."""
    width = columns(sys.stdout)
    if width is not None and shows_colour(sys.stdout):
        sys.stdout.write(f"\x1b[{len(shown)}A\x1b[J" if shown else "")
        sys.stdout.write("".join(f"{printable(text)[: width - 1]}\n" for text in texts.values()))
    else:
        for text in (text for key, text in texts.items() if shown.get(key) != text):
            tell(text)


def _wrong_call(given: argparse.Namespace, plan: StackPlan) -> Iterator[Problem]:
    pools, clusters = {pool.name for pool in plan.pools}, {pool.cluster for pool in plan.pools}
    for name in given.pool:
        if name not in pools:
            yield Problem(("--pool",), f"the file has no pool {name!r}", nearest(name, pools))
    for option in given.context if len(clusters) > 1 else ():
        key, equals, _ = option.partition("=")
        if not equals or key not in clusters:
            fix = f"write --context CLUSTER=NAME for each of {', '.join(sorted(clusters))}"
            yield Problem(("--context",), f"{option!r} names none of the {len(clusters)} clusters", fix)
    yield from unknown_hosts(given.trust_endpoint, plan.stack.clusters)
    if given.kubeconfig is not None and not given.context:
        yield Problem(("--kubeconfig",), "is used for the clusters that --context names", "add --context")


def tell_status(status: PoolStatus, now: datetime | None) -> None:
    """Print a pool with what is short and why."""
    first, *rest = status.lines(now)
    place, colon, text = first.partition(": ")
    tell_parts((f"{place}{colon}", Style.PLACE), (text, Style.GOOD if status.is_ready else Style.BAD))
    for line in rest:
        tell(line)
