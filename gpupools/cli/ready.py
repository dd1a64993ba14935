"""`gpupools ready FILE`: compare live clusters with the plan of their pools, and name what is missing."""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpupools.cli.help_texts import examples, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.console.output import Style, answer, printable, tell, tell_json, tell_parts
from gpupools.console.terminal import columns, shows_colour
from gpupools.providers import clouds
from gpupools.ready.pool_status import PoolStatus, judge
from gpupools.ready.promises import Promise, promises
from gpupools.spec.cluster_access import ReachableCluster
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.stack import StackPlan

if TYPE_CHECKING:
    from gpupools.cli.live_cluster import Access, ClusterApi

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
    except Rejected as rejected:
        located = locate(given.file, rejected)
        if given.json:
            answer("ready", "failed", [each.as_json() for each in located], {"pools": []})
        for each in () if given.json else located:
            tell_located(each)
        return 2
    wanted = [each for each in promises(plan) if not given.pool or each.pool.name in given.pool]
    wrong = _wrong_call(given, plan)
    if wrong is not None:
        return _failed([wrong], given)
    looking = Looking(given, plan, wanted)
    code = looking.wait()
    if code == 0 and given.smoke:
        code = looking.smoke()
    return code


def _wrong_call(given: argparse.Namespace, plan: StackPlan) -> Problem | None:
    pools, clusters = {each.name for each in plan.pools}, {each.cluster for each in plan.pools}
    for name in given.pool:
        if name not in pools:
            return Problem(("--pool",), f"the file has no pool {name!r}", nearest(name, pools))
    for each in given.context:
        key, equals, _ = each.partition("=")
        if equals and key not in clusters and len(clusters) > 1:
            return Problem(("--context",), f"the file has no cluster {key!r} with pools", nearest(key, clusters))
        if not equals and len(clusters) > 1:
            what = f"the file has {len(clusters)} clusters"
            return Problem(("--context",), what, f"write --context {sorted(clusters)[0]}=NAME for each")
    if given.timeout < 0:
        return Problem(("--timeout",), f"got {given.timeout}", "use 0 or more seconds; 0 looks once")
    if given.kubeconfig is not None and not given.context:
        return Problem(("--kubeconfig",), "is used for the clusters that --context names", "add --context")
    return None


def _failed(problems: Sequence[Problem], given: argparse.Namespace) -> int:
    if given.json:
        answer("ready", "failed", [each.as_json() for each in problems], {"pools": []})
    for each in () if given.json else problems:
        tell(each, error=True)
    return 2


class Looking:
    """Looks at the clusters until their pools are ready."""

    def __init__(self, given: argparse.Namespace, plan: StackPlan, wanted: Sequence[Promise]) -> None:
        self.given, self.plan, self.wanted = given, plan, wanted
        self.clusters = {key: plan.stack.clusters[key] for key in dict.fromkeys(each.pool.cluster for each in wanted)}
        self.apis: dict[str, ClusterApi] = {}
        self.statuses: dict[str, list[PoolStatus]] = {}
        """The last that was seen of each cluster."""
        self.problems: dict[str, Problem] = {}
        self.waits: set[str] = set()
        """Clusters for which waiting may help."""
        self.now: datetime | None = None
        self.shown: dict[str, str] = {}
        self.lines = 0

    def wait(self) -> int:
        """Look until all pools are ready or the time is over; return the exit code."""
        end = time.monotonic() + self.given.timeout
        while True:
            started = time.monotonic()
            self._look()
            self._show()
            left = end - time.monotonic()
            hopeless = len(self.problems) == len(self.clusters) and not self.waits and not self.statuses
            done = (self.is_ready and not self.given.watch) or hopeless
            unlimited = self.given.watch and not self.given.timeout
            if done or (left <= 0 and not unlimited):
                return self._end()
            pause = max(_INTERVAL_S, 5 * (time.monotonic() - started))
            time.sleep(pause if unlimited else min(pause, left))

    @property
    def is_ready(self) -> bool:
        """Return whether every pool was seen to be ready."""
        return not self.problems and all(each.is_ready for found in self.statuses.values() for each in found)

    def _look(self) -> None:
        from gpupools.cli.live_cluster import ClusterApi, Unreachable, read_snapshot

        self.problems, self.waits = {}, set()
        for key, cluster in self.clusters.items():
            at = ("clusters", key)
            try:
                if key not in self.apis:
                    self.apis[key] = ClusterApi(self._access(key))
                snapshot = read_snapshot(self.apis[key])
            except PermissionError as error:
                self.problems[key] = Problem(
                    at, str(error), "bind the role of docs/reference/permissions/cluster-ready.json"
                )
                continue
            except Unreachable as error:
                self.problems[key] = Problem(at, str(error))
                self.waits |= {key} if error.may_pass else set()
                continue
            self.now = snapshot.now or self.now
            wanted = [each for each in self.wanted if each.pool.cluster == key]
            self.statuses[key] = judge(wanted, snapshot, cluster, clouds(), str(self.given.file))

    def _access(self, key: str) -> "Access":
        from gpupools.cli.live_cluster import Access, access_of

        named = dict(each.split("=", 1) if "=" in each else (key, each) for each in self.given.context)
        if key in named or (len(self.clusters) == 1 and self.given.context):
            context = named.get(key, self.given.context[0])
            file = self.given.kubeconfig
            return Access(str(file) if file is not None else None, context, Path.cwd())
        cluster = self.clusters[key]
        if not isinstance(cluster, ReachableCluster):
            raise TypeError(f"{key} has no access")
        return access_of(key, cluster, clouds()[cluster.cloud].access)

    # --- output

    def _show(self) -> None:
        """Show one line per pool: in place on a terminal, elsewhere the lines that changed."""
        if self.given.json:
            if self.given.watch:
                self._tell_json(indent=None)
            return
        texts = {f"{each.cluster}/{each.pool}": summary(each) for found in self.statuses.values() for each in found} | {
            f"clusters.{key}": str(problem) for key, problem in self.problems.items() if key in self.waits
        }
        changed = {key: text for key, text in texts.items() if self.shown.get(key) != text}
        width = columns(sys.stdout)
        if width is not None and shows_colour(sys.stdout) and (self.given.timeout or self.given.watch):
            if self.lines:
                sys.stdout.write(f"\x1b[{self.lines}A\x1b[J")
            for text in texts.values():
                sys.stdout.write(printable(text)[: width - 1] + "\n")
            self.lines = len(texts)
            sys.stdout.flush()
        elif self.shown or self.given.timeout or self.given.watch:
            for text in changed.values():
                tell(text)
            sys.stdout.flush()
        self.shown = texts

    def _end(self) -> int:
        """Print what is short, the causes and the problems; return the exit code."""
        found = [each for pools in self.statuses.values() for each in pools]
        if self.given.json and not self.given.watch:
            self._tell_json()
        elif not self.given.json:
            waited = bool(self.given.timeout or self.given.watch)
            for each in found:
                if not (waited and each.is_ready):
                    tell_status(each, self.now)
            for problem in self.problems.values():
                tell(problem, error=True)
        return 0 if found and self.is_ready else 1 if found else 2

    def _tell_json(self, indent: int | None = 2) -> None:
        found = [each for pools in self.statuses.values() for each in pools]
        result = "accepted" if found and self.is_ready else "refused" if found else "failed"
        problems = [each.as_json() for each in self.problems.values()]
        pools = [each.as_json() for each in found]
        if indent is None:
            tell_json({"command": "ready", "result": result, "problems": problems, "pools": pools}, indent=None)
        else:
            answer("ready", result, problems, {"pools": pools})

    def smoke(self) -> int:
        """Run the smoke test on each pool."""
        from gpupools.cli.smoke import run_smoke_tests

        pools = [each.pool for each in self.wanted]
        return run_smoke_tests(pools, self.apis, self.given.timeout or 1800)


def summary(status: PoolStatus) -> str:
    """Return the state of a pool on one line."""
    at = f"{status.cluster}/{status.pool}"
    if status.is_ready and not status.nodes:
        return f"{at}: ready, scales from zero"
    if status.is_ready:
        return f"{at}: ready, {status.nodes} node{'s' if status.nodes > 1 else ''}"
    most = max(status.promised_nodes, status.nodes)
    counts = f"{status.ready_nodes} of {most} node{'s' if most > 1 else ''} ready" if most else "no node yet"
    if status.state == "not seen":
        return f"{at}: not seen ({'; '.join(status.unseen)})"
    return f"{at}: not ready, {counts}: {status.findings[0].cause.title}"


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
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )
