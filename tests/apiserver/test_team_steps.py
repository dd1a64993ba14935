"""A pool with several steps that teams share: the exported part of its pods starts on any step, and nowhere else."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import Cluster, recorded
from tests.apiserver.test_team_cases import planned

pytestmark = pytest.mark.apiserver

POOLS = {
    "small": {"clusters": ["train"], "instance_type": "a2-ultragpu-8g", "nodes": {"fixed": 2}},
    "big": {
        "clusters": ["train"],
        "instance_type": "a2-ultragpu-8g",
        "zones": ["europe-west4-a"],
        "nodes": {"fixed": 1},
        "capacity": [{"mode": "spot"}, {"mode": "on-demand"}],
    },
}
TEAMS = {
    "research": {"namespaces": ["research"], "guarantee": {"small": 8, "big": 16}},
    "serving": {"namespaces": ["serving"], "guarantee": {"small": 8}},
}


@pytest.fixture
def cluster(scheduled: Cluster) -> Iterator[Cluster]:
    scheduled.becomes(planned(TEAMS, POOLS, scheduled.scheduler))
    yield scheduled
    scheduled.clear()


@only("kueue", "volcano")
def test_a_job_starts_on_the_second_step_when_the_first_is_full(cluster: Cluster) -> None:
    queue = "research.big"
    found = []
    for name in ("first", "second"):
        cluster.run("research", name, "big", 8, gang=True, queue=queue, priority="training")
        found.append(cluster.waits(partial(cluster.count, "research", name), 8))
    recorded(cluster.scheduler, "two jobs of 8 on two steps of one node: pods that run", [8, 8], found)
    on = [sorted(set(cluster.nodes("research", name))) for name in ("first", "second")]
    if cluster.scheduler == "kueue":
        recorded("kueue", "the steps in their order", [["big-1-0"], ["big-2-0"]], on)
    else:
        recorded("volcano", "the steps", ["big-1-0", "big-2-0"], sorted({node for nodes in on for node in nodes}))
    cluster.run("research", "third", "big", 8, gang=True, queue=queue, priority="training")
    got = cluster.stays(lambda: cluster.nodes("research", "third"))
    recorded(cluster.scheduler, "a third job waits, and does not use another pool", [], got)


@only("kueue", "volcano")
def test_pods_of_other_teams_cannot_select_the_steps(cluster: Cluster) -> None:
    got = [cluster.pod(space, "x", "big", dry_run=True, queue="serving.small").status for space in ("serving", "other")]
    recorded(cluster.scheduler, "the part of a pod for the pool, from other namespaces", [403, 403], got)
