"""`gpupools render FILE --only teams|monitoring`: print queues, or alerts and dashboards, for Argo CD and Flux."""

import argparse
import json
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

import yaml

from gpupools.cli.files import add_within, write_whole
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_DASHBOARDS
from gpupools.console.output import tell, tell_lines
from gpupools.providers import clouds
from gpupools.software.team_shares import team_shares
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.stack import StackPlan, prices_of


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools render examples/teams/Pulumi.queues.yaml --only teams --cluster train")
    parser.add_argument("file", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "--only",
        choices=["teams", "monitoring"],
        help="teams: queues, flavors and priorities of the scheduler; monitoring: rules, alerts and dashboards."
        " Default: both, without teams if the cluster has no scheduler",
    )
    parser.add_argument("--cluster", metavar="KEY", help="key of the cluster, if several could be meant")
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="of monitoring: write a file of rules and one per dashboard instead"
    )
    add_within(parser)
    parser.set_defaults(run=lambda given: _run(parser, given))


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Print or write the objects; return 1 if the file is rejected or the SDK is missing.

    Raises:
        OSError: A file cannot be written.
    """
    if given.into is not None and given.only != "monitoring":
        parser.error("--into goes with --only monitoring")
    if given.only != "teams" and find_spec("grafana_foundation_sdk") is None:
        tell(f"dashboards need {NEED_FOR_DASHBOARDS}", error=True)
        return 1
    try:
        plan = check_stack_file(given.file, clouds()).plan
        if given.only == "teams":
            _print(_team_objects(plan, given.cluster))
        else:
            _monitoring(plan, given.cluster, given.into, with_teams=given.only is None)
    except Rejected as rejected:
        for each in locate(given.file, rejected):
            tell_located(each)
        return 1
    return 0


def _monitoring(plan: StackPlan, cluster: str | None, into: Path | None, *, with_teams: bool) -> None:
    from gpupools.software import monitoring

    keys = list(dict.fromkeys(pool.cluster for pool in plan.pools))
    key = _cluster_of(keys, cluster, "no pool is on cluster {!r}", f"{len(keys)} clusters have pools")
    pools = [pool for pool in plan.pools if pool.cluster == key]
    teams = plan.stack.teams
    shares = team_shares(pools, teams, key)[0] if teams else None
    prices = [each for each in prices_of(plan, clouds()) if each.key.partition("/")[0] == key]
    spec = plan.stack.clusters[key].runtime
    groups = monitoring.rule_groups(pools, teams, shares, spec.scheduler, prices)
    boards = monitoring.dashboards(pools, teams)
    if into is None:
        made = monitoring.monitoring_objects(pools, groups, boards, spec)
        for runtime in plan.runtimes if with_teams else ():
            made = [*runtime.json_team_objects(), *made] if runtime.cluster == key else made
        _print(made)
        return
    into.mkdir(parents=True, exist_ok=True)
    write_whole(into / "gpupools-rules.yaml", yaml.safe_dump({"groups": groups}, sort_keys=False))
    for name, dashboard in boards.items():
        write_whole(into / f"{name}.json", json.dumps(dashboard, indent=1) + "\n")
    tell(f"{into}: written")


def _team_objects(plan: StackPlan, cluster: str | None) -> list[JsonDict]:
    found = {each.cluster: each.json_team_objects() for each in plan.runtimes if each.team_objects}
    if not found:
        fix = "set runtime.scheduler on a cluster"
        raise Rejected([Problem(("clusters",), "no cluster has a scheduler, so there is nothing to render", fix)])
    return found[_cluster_of(found, cluster, "cluster {!r} has no scheduler", "several clusters have a scheduler")]


def _cluster_of(keys: Collection[str], wanted: str | None, unknown: str, several: str) -> str:
    """Return the cluster that is asked for, or the only one.

    Raises:
        Rejected: It is `unknown`, or it is not clear which one is meant.
    """
    if wanted is not None and wanted not in keys:
        raise Rejected([Problem(("clusters",), unknown.format(wanted), nearest(wanted, keys))])
    if wanted is None and len(keys) != 1:
        raise Rejected([Problem(("clusters",), several, f"add --cluster with one of {', '.join(keys)}")])
    return wanted or next(iter(keys))


def _print(objects: Sequence[JsonDict]) -> None:
    tell_lines(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True).removesuffix("\n"))
