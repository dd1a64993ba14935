"""`gpupools render FILE --only teams|order|monitoring`: print objects for Argo CD and Flux."""

import argparse
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import yaml

from gpupools.cli.files import add_within, write_whole
from gpupools.cli.help_texts import examples, located_in
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_DASHBOARDS
from gpupools.console.output import tell, tell_lines
from gpupools.providers import clouds
from gpupools.software.team_shares import team_shares
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan, prices_of


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools render examples/teams/Pulumi.queues.yaml --only teams --cluster train")
    parser.add_argument("file", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "--only",
        choices=["teams", "order", "monitoring"],
        help="teams: queues, flavors and priorities of the scheduler; order: what tells the autoscaler the order of"
        " steps; monitoring: rules, alerts and dashboards. Default: all that the cluster has",
    )
    parser.add_argument("--cluster", metavar="KEY", help="key of the cluster, if several could be meant")
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="of monitoring: write a file of rules and one per dashboard instead"
    )
    add_within(parser)
    parser.set_defaults(run=lambda given: _exit_status(parser, given))


def _exit_status(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    if given.into is not None and given.only != "monitoring":
        parser.error("--into goes with --only monitoring")
    if given.only in (None, "monitoring") and find_spec("grafana_foundation_sdk") is None:
        tell(f"dashboards need {NEED_FOR_DASHBOARDS}", error=True)
        return 1
    with located_in(given.file):
        plan = check_stack_file(given.file, clouds()).plan
        queues = {runtime.cluster: runtime.json_team_objects() for runtime in plan.runtimes if runtime.team_objects}
        orders = {runtime.cluster: runtime.json_order_objects() for runtime in plan.runtimes if runtime.order_objects}
        if given.only == "order":
            key = _cluster_of(orders, given.cluster, "an order", "list steps in a pool that scales")
        elif given.only == "teams":
            key = _cluster_of(queues, given.cluster, "a scheduler", "set runtime.scheduler on a cluster")
        else:
            key = _cluster_of({pool.cluster: pool for pool in plan.pools}, given.cluster, "pools", "add gpupools:pools")
    made = queues.get(key, []) if given.only in (None, "teams") else []
    made += orders.get(key, []) if given.only in (None, "order") else []
    if given.only in (None, "monitoring"):
        made += _monitoring(plan, key, given.into)
    if given.into is None:
        tell_lines(yaml.safe_dump_all(made, sort_keys=False, explicit_start=True).removesuffix("\n"))
    return 0


def _cluster_of(known: Mapping[str, object], wanted: str | None, of: str, fix: str) -> str:
    """Return the cluster that is asked for, or the only one.

    Raises:
        Rejected: It is not clear which cluster is meant, or there is none.
    """
    what = ""
    if not known:
        what = f"no cluster has {of}, so there is nothing to render"
    elif wanted is not None and wanted not in known:
        what, fix = f"cluster {wanted!r} has no {of.removeprefix('a ')}", nearest(wanted, known)
    elif wanted is None and len(known) > 1:
        what, fix = f"several clusters have {of}", f"add --cluster with one of {', '.join(known)}"
    if what:
        raise Rejected([Problem(("clusters",), what, fix)])
    return wanted or next(iter(known))


def _monitoring(plan: StackPlan, key: str, into: Path | None) -> list[JsonDict]:
    """Return rules and dashboards of one cluster as objects, or write them to files.

    Raises:
        OSError: A file cannot be written.
    """
    from gpupools.software import monitoring

    pools, spec = [pool for pool in plan.pools if pool.cluster == key], plan.stack.clusters[key].runtime
    teams = plan.stack.teams if spec.scheduler else {}
    shares = team_shares(pools, teams, key)[0] if teams else None
    prices = [price for price in prices_of(plan, clouds()) if price.key.partition("/")[0] == key]
    groups = monitoring.rule_groups(pools, teams, shares, spec.scheduler, prices)
    boards = monitoring.dashboards(pools, teams)
    if into is None:
        return monitoring.monitoring_objects(pools, groups, boards, spec)
    into.mkdir(parents=True, exist_ok=True)
    write_whole(into / "gpupools-rules.yaml", yaml.safe_dump({"groups": groups}, sort_keys=False))
    for name, dashboard in boards.items():
        write_whole(into / f"{name}.json", json.dumps(dashboard, indent=1) + "\n")
    tell(f"{into}: written")
    return []
