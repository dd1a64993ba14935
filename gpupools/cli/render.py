"""`gpupools render FILE --only teams|monitoring`: print queues, or alerts and dashboards, for Argo CD and Flux."""

import argparse
import json
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
    if given.only == "teams":
        if given.into is not None:
            parser.error("--into goes with --only monitoring")
        return render(given.file, given.cluster)
    if given.only is None and given.into is not None:
        parser.error("--into goes with --only monitoring")
    return render_monitoring(given.file, given.cluster, given.into, with_teams=given.only is None)


def render_monitoring(file: Path, cluster: str | None, into: Path | None, *, with_teams: bool = False) -> int:
    """Print or write rules and dashboards of one cluster; return 1 if the file is rejected or the SDK is missing.

    Raises:
        OSError: A file cannot be written.
    """
    from gpupools.software import monitoring

    if find_spec("grafana_foundation_sdk") is None:
        tell(f"dashboards need {NEED_FOR_DASHBOARDS}", error=True)
        return 1
    try:
        plan = check_stack_file(file, clouds()).plan
        key = _cluster_of(plan, cluster)
    except Rejected as rejected:
        for each in locate(file, rejected):
            tell_located(each)
        return 1
    pools = [pool for pool in plan.pools if pool.cluster == key]
    spec = plan.stack.clusters[key].runtime
    teams = plan.stack.teams if spec.scheduler else {}
    shares = team_shares(pools, teams, key)[0] if teams else None
    prices = [each for each in prices_of(plan, clouds()) if each.key.partition("/")[0] == key]
    groups = monitoring.rule_groups(pools, teams, shares, spec.scheduler, prices)
    boards = monitoring.dashboards(pools, teams)
    if into is None:
        made = monitoring.monitoring_objects(pools, groups, boards, spec)
        for runtime in plan.runtimes if with_teams else ():
            made = [*runtime.json_team_objects(), *made] if runtime.cluster == key else made
        tell_lines(yaml.safe_dump_all(made, sort_keys=False, explicit_start=True).removesuffix("\n"))
        return 0
    into.mkdir(parents=True, exist_ok=True)
    write_whole(into / "gpupools-rules.yaml", yaml.safe_dump({"groups": groups}, sort_keys=False))
    for name, dashboard in boards.items():
        write_whole(into / f"{name}.json", json.dumps(dashboard, indent=1) + "\n")
    tell(f"{into}: written")
    return 0


def _cluster_of(plan: StackPlan, wanted: str | None) -> str:
    """Return the cluster that is asked for, or the only one with pools."""
    keys = list(dict.fromkeys(pool.cluster for pool in plan.pools))
    if wanted is not None and wanted not in keys:
        raise Rejected([Problem(("clusters",), f"no pool is on cluster {wanted!r}", nearest(wanted, keys))])
    if wanted is None and len(keys) != 1:
        raise Rejected(
            [Problem(("clusters",), f"{len(keys)} clusters have pools", f"add --cluster with one of {', '.join(keys)}")]
        )
    return wanted or keys[0]


def render(file: Path, cluster: str | None) -> int:
    """Print the objects of one cluster as YAML; return 1 if the file is rejected or has none."""
    try:
        (found,) = _objects(file, cluster).values()
    except Rejected as rejected:
        for each in locate(file, rejected):
            tell_located(each)
        return 1
    tell_lines(yaml.safe_dump_all(found, sort_keys=False, explicit_start=True).removesuffix("\n"))
    return 0


def _objects(file: Path, cluster: str | None) -> dict[str, list[JsonDict]]:
    """Return the objects by cluster: of the one that is asked for, or of the only one.

    Raises:
        Rejected: The file is invalid, or it is not clear which cluster is meant.
    """
    runtimes = check_stack_file(file, clouds()).plan.runtimes
    found = {each.cluster: each.json_team_objects() for each in runtimes if each.team_objects}
    at = ("clusters",)
    if not found:
        fix = "set runtime.scheduler on a cluster"
        raise Rejected([Problem(at, "no cluster has a scheduler, so there is nothing to render", fix)])
    if cluster is not None and cluster not in found:
        raise Rejected([Problem(at, f"cluster {cluster!r} has no scheduler", nearest(cluster, found))])
    if cluster is None and len(found) > 1:
        fix = f"add --cluster with one of {', '.join(found)}"
        raise Rejected([Problem(at, "several clusters have a scheduler", fix)])
    return found if cluster is None else {cluster: found[cluster]}
