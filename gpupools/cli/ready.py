"""`gpupools ready FILE`: compare live clusters with the plan of their pools, and name what is missing."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpupools.cli.help_texts import examples, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.console.output import VERSION, Style, answer, printable, tell, tell_json, tell_parts
from gpupools.console.terminal import columns, shows_colour
from gpupools.providers import clouds
from gpupools.ready.pool_status import PoolStatus, judge
from gpupools.ready.promises import promises
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import FileRejected
from gpupools.stackfile.stack import StackPlan

if TYPE_CHECKING:
    from gpupools.cli.live_cluster import ClusterApi

_INTERVAL_S = 5.0
"""Between two looks; longer if a look takes long, so that large clusters are not read all the time."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        f"{examples('gpupools ready --help')}\n"
        "Exit code 0: all pools are ready. 1: a pool is not. 2: no cluster could be read.\n"
        "The command only reads, except with --smoke. docs/how-to/check-gpus.md has the causes.\n"
    )
    parser.add_argument("file", nargs="?", type=Path, default=DEV_STACK, metavar="FILE", help=f"default: {DEV_STACK}")
    parser.add_argument("--pool", action="append", default=[], metavar="NAME", help="only this pool; may be repeated")
    parser.add_argument("--timeout", type=whole_number, default=0, metavar="S", help="wait up to S seconds; default: 0")
    parser.add_argument("--watch", action="store_true", help="keep watching when all pools are ready")
    parser.add_argument("--smoke", action="store_true", help="run a CUDA sample on each pool, and delete it afterwards")
    parser.add_argument(
        "--context",
        action="append",
        default=[],
        metavar="[CLUSTER=]NAME",
        help="use this context of the kubeconfig for a cluster, instead of the access in the stack file",
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig with the contexts")
    parser.add_argument("--json", action="store_true", help="print pools and causes as JSON; with --watch one per line")
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    try:
        plan = check_stack_file(given.file, clouds()).plan
        wrong = _wrong_call(given, plan)
        if wrong is not None:
            raise Rejected([wrong])
    except Rejected as rejected:
        located = locate(given.file, rejected) if isinstance(rejected, FileRejected) else ()
        if given.json:
            answer("ready", "failed", [each.as_json() for each in located or rejected.problems], {"pools": []})
        for each in () if given.json else located:
            tell_located(each)
        for problem in () if given.json or located else rejected.problems:
            tell(problem if problem.path else f"{given.file}: {problem}", error=True)
        return 2
    looking = _Looking(given, plan)
    code = looking.wait()
    if code == 0 and given.smoke:
        from gpupools.cli.smoke import run_smoke_tests

        return run_smoke_tests([each.pool for each in looking.wanted], looking.apis, given.timeout or 1800)
    return code


def _wrong_call(given: argparse.Namespace, plan: StackPlan) -> Problem | None:
    pools, clusters = {each.name for each in plan.pools}, {each.cluster for each in plan.pools}
    for name in given.pool:
        if name not in pools:
            return Problem(("--pool",), f"the file has no pool {name!r}", nearest(name, pools))
    for each in given.context if len(clusters) > 1 else ():
        key, equals, _ = each.partition("=")
        if not equals or key not in clusters:
            fix = f"write --context CLUSTER=NAME for each of {', '.join(sorted(clusters))}"
            return Problem(("--context",), f"{each!r} names none of the {len(clusters)} clusters", fix)
    if given.timeout < 0:
        return Problem(("--timeout",), f"got {given.timeout}", "use 0 or more seconds; 0 looks once")
    if given.kubeconfig is not None and not given.context:
        return Problem(("--kubeconfig",), "is used for the clusters that --context names", "add --context")
    return Problem(("--smoke",), "prints text", "leave --json out") if given.smoke and given.json else None


class _Looking:
    """Looks at the clusters until their pools are ready."""

    def __init__(self, given: argparse.Namespace, plan: StackPlan) -> None:
        self.given, self.clusters = given, plan.stack.clusters
        self.wanted = [each for each in promises(plan) if not given.pool or each.pool.name in given.pool]
        self.keys = list(dict.fromkeys(each.pool.cluster for each in self.wanted))
        self.waits = bool(given.timeout or given.watch)
        self.apis: dict[str, ClusterApi] = {}
        self.statuses: dict[str, list[PoolStatus]] = {}
        """The last that was seen of each cluster."""
        self.problems: dict[str, Problem] = {}
        self.may_pass = False
        """Whether waiting may help against one of the problems."""
        self.now: datetime | None = None
        self.shown: dict[str, str] = {}

    def wait(self) -> int:
        """Look until all pools are ready or the time is over; return the exit code."""
        end = time.monotonic() + self.given.timeout
        while True:
            started = time.monotonic()
            self._look()
            self._show()
            left = end - time.monotonic() if self.given.timeout or not self.given.watch else math.inf
            found = [each for pools in self.statuses.values() for each in pools]
            is_ready = bool(found) and not self.problems and all(each.is_ready for each in found)
            hopeless = len(self.problems) == len(self.keys) and not self.may_pass and not found
            ended = left <= 0 or hopeless or (is_ready and not self.given.watch)
            if self.given.json and (ended or self.given.watch):
                result = "accepted" if is_ready else "refused" if found else "failed"
                holds = {"result": result, "problems": [each.as_json() for each in self.problems.values()]}
                holds |= {"pools": [each.as_json() for each in found]}
                tell_json({"version": VERSION, "command": "ready"} | holds, indent=None if self.given.watch else 2)
            if ended:
                self._tell_details(found)
                return 0 if is_ready else 1 if found else 2
            sys.stdout.flush()
            time.sleep(min(left, max(_INTERVAL_S, 5 * (time.monotonic() - started))))

    def _look(self) -> None:
        from gpupools.cli.live_cluster import ClusterApi, Unreachable, access_of, read_snapshot

        self.problems, self.may_pass = {}, False
        for key in self.keys:
            cluster = self.clusters[key]
            try:
                if key not in self.apis:
                    plugin = clouds()[cluster.cloud].access
                    self.apis[key] = ClusterApi(
                        access_of(key, cluster, plugin, self.given.context, self.given.kubeconfig)
                    )
                snapshot = read_snapshot(self.apis[key])
                self.now = snapshot.now
                wanted = [each for each in self.wanted if each.pool.cluster == key]
                self.statuses[key] = judge(wanted, snapshot, cluster, clouds(), str(self.given.file))
            except PermissionError as error:
                fix = "bind the role of docs/reference/permissions/cluster-ready.json"
                self.problems[key] = Problem(("clusters", key), str(error), fix)
            except Unreachable as error:
                self.problems[key] = Problem(("clusters", key), str(error))
                self.may_pass |= error.may_pass

    def _show(self) -> None:
        """Show one line per pool while waiting: in place on a terminal, elsewhere the lines that changed."""
        if self.given.json or not self.waits:
            return
        texts = {f"{each.cluster}/{each.pool}": summary(each) for found in self.statuses.values() for each in found}
        texts |= {key: str(problem) for key, problem in self.problems.items() if self.may_pass}
        width = columns(sys.stdout)
        if width is not None and shows_colour(sys.stdout):
            sys.stdout.write(f"\x1b[{len(self.shown)}A\x1b[J" if self.shown else "")
            sys.stdout.write("".join(f"{printable(text)[: width - 1]}\n" for text in texts.values()))
        else:
            for text in (text for key, text in texts.items() if self.shown.get(key) != text):
                tell(text)
        self.shown = texts

    def _tell_details(self, found: Sequence[PoolStatus]) -> None:
        for each in () if self.given.json else found:
            if not (self.waits and each.is_ready):
                tell_status(each, self.now)
        for problem in () if self.given.json else self.problems.values():
            tell(problem, error=True)


def summary(status: PoolStatus) -> str:
    """Return the state of a pool on one line."""
    most = max(status.promised_nodes, status.nodes)
    nodes = f"{most} node{'s' if most > 1 else ''}"
    if status.is_ready:
        text = f"ready, {nodes if most else 'scales from zero'}"
    elif status.state == "not seen":
        text = f"not seen ({'; '.join(status.unseen)})"
    else:
        counts = f"{status.ready_nodes} of {nodes} ready" if most else "no node yet"
        text = f"not ready, {counts}: {status.findings[0].cause.title}"
    return f"{status.cluster}/{status.pool}: {text}"


_SHORT = 3


def tell_status(status: PoolStatus, now: datetime | None) -> None:
    """Print a pool with what is short and why."""
    first, _, rest = summary(status).partition(": ")
    tell_parts((f"{first}: ", Style.PLACE), (rest, Style.GOOD if status.is_ready else Style.BAD))
    for text in status.short[:_SHORT]:
        tell(f"  {text}")
    if len(status.short) > _SHORT:
        tell(f"  and {len(status.short) - _SHORT} more")
    for each in status.findings:
        since = f", since {_ago(each.since, now)}" if each.since is not None else ""
        others = f" and {each.others} more" if each.others else ""
        tell(f"  cause: {each.cause.title}: {each.object}{others}{since}")
        if each.message and not any(each.message in text for text in status.short[:_SHORT]):
            tell(f"    {each.message}")
        if each.cause.cure:
            tell(f"    fix: {each.cause.cure}")
        tell(f"    next: {each.next}")
    for text in status.unseen if status.findings else ():
        tell(f"  not seen: {text}")


def _ago(since: datetime, now: datetime | None) -> str:
    """Return how long ago something was by the server's clock, or its time if that is not known."""
    seconds = (now - since).total_seconds() if now is not None else -1
    if seconds < 0:
        return f"{since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
