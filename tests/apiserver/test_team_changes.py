"""Teams that are removed, lowered and added on a live cluster, with jobs that run, as the page says it."""

import copy
from collections.abc import Iterator
from functools import partial

import pytest

from gpupools.common.json_types import JsonDict
from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import Cluster, recorded
from tests.apiserver.test_team_cases import SHARED, TEAMS, planned

pytestmark = pytest.mark.apiserver


@pytest.fixture
def cluster(scheduled: Cluster) -> Iterator[Cluster]:
    scheduled.becomes(planned(TEAMS, SHARED, scheduled.scheduler))
    yield scheduled
    scheduled.clear()


def changed(cluster: Cluster, **teams: JsonDict | None) -> None:
    """Make the cluster the one of the teams with these changes; None removes a team."""
    whole = copy.deepcopy(TEAMS) | teams
    left = {name: team for name, team in whole.items() if team is not None}
    cluster.becomes(planned(left, SHARED, cluster.scheduler))


def test_a_lowered_guarantee_keeps_pods_until_others_ask(cluster: Cluster) -> None:
    for index in range(24):
        cluster.run("research", f"job-{index}", "big", priority="training")
    names = [f"job-{index}" for index in range(24)]
    cluster.waits(partial(cluster.count, "research", *names), 24)
    raised = {"namespaces": ["vision"], "guarantee": {"big": 16}, "limit": {"big": 16}}
    changed(cluster, research={"namespaces": ["research"], "guarantee": {"big": 16}}, vision=raised)
    got = cluster.stays(partial(cluster.count, "research", *names))
    recorded(cluster.scheduler, "guarantee lowered from 24 to 16: pods that run on", 24, got)
    if cluster.scheduler == "volcano":  # https://github.com/volcano-sh/volcano/issues/5520, as the page says
        cluster.run("vision", "gang", "big", 16, gang=True, queue="vision.big", priority="training")
        got = cluster.stays(partial(cluster.count, "vision", "gang"), 10)
        recorded("volcano", "vision's gang of 16 on an idle node and 8 borrowed GPUs (volcano #5520)", 0, got)
        cluster.end("vision")
        own = [f"own-{index}" for index in range(16)]
        for name in own:
            cluster.run("vision", name, "big", queue="vision.big", priority="training")
    else:
        own = ["own"]
        cluster.run("vision", "own", "big", 16, gang=True, queue="vision.big", priority="training")
    got = cluster.waits(partial(cluster.count, "vision", *own), 16, 90)
    recorded(cluster.scheduler, "then vision asks for its raised guarantee of 16", 16, got)


def test_an_added_team_gets_its_guarantee_while_others_run(cluster: Cluster) -> None:
    for index in range(32):
        cluster.run("research", f"job-{index}", "big", priority="training")
    names = [f"job-{index}" for index in range(32)]
    cluster.waits(partial(cluster.count, "research", *names), 32)
    speech = {"namespaces": ["speech"], "guarantee": {"big": 8}}
    changed(cluster, research={"namespaces": ["research"], "guarantee": {"big": 16}}, speech=speech)
    cluster.run("speech", "own", "big", 8, gang=True, queue="speech.big", priority="training")
    got = cluster.waits(partial(cluster.count, "speech", "own"), 8, 90)
    recorded(cluster.scheduler, "a team added while all GPUs are busy gets its guarantee of 8", 8, got)
    got = cluster.waits(partial(cluster.count, "research", *names), 24)
    recorded(cluster.scheduler, "and research keeps the rest", 24, got)


@only("kueue")
def test_a_removed_queue_stays_until_its_job_ends(cluster: Cluster) -> None:
    """Kueue's manager no longer manages the namespace then, so that a later `stopPolicy` ends nothing."""
    cluster.run("vision", "holds", "big")
    cluster.waits(partial(cluster.count, "vision", "holds"), 1)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "vision"}}
    changed(cluster, vision=None)
    got = cluster.stays(lambda: (cluster.server.get(queue).status, cluster.count("vision", "holds")))
    recorded("kueue", "team removed while its job runs: queue, pods", (200, 1), got)
    cluster.end("vision")
    got = cluster.waits(lambda: cluster.server.get(queue).status, 404, 30)
    recorded("kueue", "then its job ends: queue", 404, got)


@only("kueue")
def test_a_team_is_removed_at_once_after_its_queue_is_drained(cluster: Cluster) -> None:
    cluster.run("vision", "holds", "big")
    cluster.waits(partial(cluster.count, "vision", "holds"), 1)
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/vision"
    stop = {"spec": {"stopPolicy": "HoldAndDrain"}}
    cluster.server._ask("PATCH", path, stop, "application/merge-patch+json").succeeded()
    got = cluster.waits(partial(cluster.count, "vision", "holds"), 0)
    recorded("kueue", "stopPolicy: HoldAndDrain first: pods", 0, got)
    changed(cluster, vision=None)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "vision"}}
    got = cluster.waits(lambda: cluster.server.get(queue).status, 404, 20)
    recorded("kueue", "then the team is removed: queue", 404, got)


@only("kueue")
def test_a_job_older_than_its_queue_needs_the_label_of_the_page(cluster: Cluster) -> None:
    (queue,) = (each for each in cluster.exported["objects"] if each["name"] == "local-queue/vision")
    cluster.server.delete(queue["manifest"])
    cluster.server.wait("the end of the queue", lambda: not cluster._is_queued("vision"))
    cluster.run("vision", "early", "big")
    cluster.forgets()
    cluster.becomes(planned(TEAMS, SHARED, "kueue"))
    got = cluster.stays(partial(cluster.count, "vision", "early"))
    recorded("kueue", "a job that is older than the queue of its namespace", 0, got)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "early", "namespace": "vision"}}
    label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "default"}}}
    cluster.server.merge(job, label).succeeded()
    got = cluster.waits(partial(cluster.count, "vision", "early"), 1, 30)
    recorded("kueue", "the same with the label of the page", 1, got)


@only("kai", "volcano")
def test_pods_of_a_removed_team_run_on_and_new_ones_wait(cluster: Cluster) -> None:
    cluster.run("vision", "old", "big", queue="vision.big")
    cluster.waits(partial(cluster.count, "vision", "old"), 1)
    (queue,) = (each for each in cluster.exported["objects"] if each["name"] == "queue/vision.big")
    status = lambda: cluster.server.get(queue["manifest"]).body["status"].get("allocated", {}).get("pods")  # noqa: E731
    if cluster.scheduler == "volcano":
        cluster.waits(status, "1")
    # Volcano's webhook refuses it only with --enable-queue-allocated-pods-check, which its chart has no value for.
    cluster.server.wait("the end of the queue", lambda: cluster.server.delete(queue["manifest"]).status < 300)
    cluster.run("vision", "new", "big", queue="vision.big")
    got = cluster.stays(lambda: (cluster.count("vision", "old"), cluster.count("vision", "new")), 8)
    recorded(cluster.scheduler, "queue deleted while its job runs: old pods, new pods", (1, 0), got)
    changed(cluster, vision=None)
    asked = partial(cluster.pod, "vision", "direct", "big", queue="vision.big", dry_run=True)
    got = cluster.waits(lambda: asked().status, 403, 20)
    recorded(cluster.scheduler, "team removed: a new pod of its namespace, by the policy", 403, got)
    got = cluster.stays(partial(cluster.count, "vision", "old"))
    recorded(cluster.scheduler, "team removed while its job runs: its pods", 1, got)
