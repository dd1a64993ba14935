"""A pool with several steps that teams share: the exported part of its pods starts on any step, and nowhere else."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
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
        steps = sorted({node for nodes in on for node in nodes})
        recorded(cluster.scheduler, "the steps", ["big-1-0", "big-2-0"], steps)
    cluster.run("research", "third", "big", 8, gang=True, queue=queue, priority="training")
    got = cluster.stays(lambda: cluster.nodes("research", "third"))
    recorded(cluster.scheduler, "a third job waits, and does not use another pool", [], got)


BORROWED: JsonDict = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 4}, "limit": {"big": 14}},
    "serving": {"namespaces": ["serving"], "guarantee": {"big": 12}},
}


@only("kai")
def test_guarantee_and_limit_are_of_all_steps(scheduled: Cluster) -> None:
    cluster = scheduled
    cluster.becomes(planned(BORROWED, POOLS, "kai"))
    names = [f"job-{index}" for index in range(16)]
    for name in names:
        cluster.run("research", name, "big", priority="training")
    cluster.waits(partial(cluster.count, "research", *names), 14)
    got = cluster.stays(partial(cluster.count, "research", *names))
    recorded("kai", "16 jobs on two steps with 16 GPUs, and a limit of 14", 14, got)
    # Of one step the guarantee would be at most 8.
    cluster.run("serving", "own", "big", 12, gang=True, queue="serving.big", priority="training")
    got = cluster.waits(partial(cluster.count, "serving", "own"), 12, 120)
    recorded("kai", "a gang gets its guarantee of 12 on two steps back", 12, got)
    on = sorted(set(cluster.nodes("serving", "own")))
    recorded("kai", "the steps of the gang", ["big-1-0", "big-2-0"], on)
    got = cluster.stays(partial(cluster.count, "research", *names))
    recorded("kai", "research keeps its guarantee of 4", 4, got)
    cluster.clear()


@only("kai")
def test_a_pod_alone_starts_and_a_job_without_the_label_is_told_why(cluster: Cluster) -> None:
    assert cluster.pod("research", "alone", "big", queue="research.big").status == 201
    bound = lambda: bool(_pod(cluster, "alone")["spec"].get("nodeName"))  # noqa: E731
    recorded("kai", "the exported pod without a job starts", True, cluster.waits(bound, True))
    template = cluster.template("big", queue="research.big")
    metadata = {"name": "x", "namespace": "research", "labels": {"own": "x"}}  # else it gets those of its pods
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    cluster.server.create({**job, "spec": {"template": template}}).succeeded()
    said = "queue research.big is for several pools: set the label gpupools/group: big on the object that owns the pods"
    events = partial(cluster.server.items, "/api/v1/namespaces/research/events")
    got = cluster.waits(lambda: any(said in each.get("message", "") for each in events()), True)
    recorded("kai", "an event of the pod names the label that its job lacks", True, got)


def _pod(cluster: Cluster, name: str) -> Mapping[str, Any]:
    (found,) = (
        each for each in cluster.server.items("/api/v1/namespaces/research/pods") if each["metadata"]["name"] == name
    )
    return found


def test_pods_of_other_teams_cannot_select_the_steps(cluster: Cluster) -> None:
    got = [cluster.pod(space, "x", "big", dry_run=True, queue="serving.small").status for space in ("serving", "other")]
    recorded(cluster.scheduler, "the part of a pod for the pool, from other namespaces", [403, 403], got)
