"""`gpupools render FILE --only teams`: print the objects that share pools among teams, for Argo CD and Flux."""

import argparse
from pathlib import Path

import yaml

from gpupools.cli.files import add_within, links_out
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict
from gpupools.console.output import tell_lines
from gpupools.providers import clouds
from gpupools.stackfile.check import Located, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools render examples/teams/Pulumi.queues.yaml --only teams --cluster train")
    parser.add_argument("file", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "--only", required=True, choices=["teams"], help="teams: queues, flavors and priorities of the scheduler"
    )
    parser.add_argument("--cluster", metavar="KEY", help="key of the cluster, if several have a scheduler")
    add_within(parser)
    parser.set_defaults(run=lambda given: render(given.file, given.cluster, given.within))


def render(file: Path, cluster: str | None, within: Path | None = None) -> int:
    """Print the objects of one cluster as YAML; return 1 if the file is rejected or has none."""
    try:
        problems = [Located(path, None, problem) for path, problem in links_out([file], within)]
        made = {} if problems else _objects(file, cluster)
    except Rejected as rejected:
        problems, made = locate(file, rejected), {}
    for each in problems:
        tell_located(each)
    if problems:
        return 1
    (found,) = made.values()
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
