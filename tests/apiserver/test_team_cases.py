"""What the page on teams promises, with the real schedulers and the pods that we export.

The schedulers' programs are built from their pinned tags and are on PATH: `kueue`; `kai-sched`, `kai-binder` and
`kai-podgrouper`; `vc-scheduler`, `vc-controller-manager` and `vc-webhook-manager`. The certificates of
Kueue's and Volcano's webhooks lie in `k8s-webhook-server/serving-certs` of the folder for temporary files.
`GPUPOOLS_TEAM_TABLE` names a file for the table.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import Cluster, recorded
from tests.gpupools.software.test_teams import POOLS, RACK, RDMA, plan

pytestmark = pytest.mark.apiserver

TEAMS: JsonDict = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 24}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 8}, "limit": {"big": 8}},
    "serving": {"namespaces": ["serving"], "guarantee": {"slices": 7}},
}
SHARED: JsonDict = {"big": POOLS["big"], "slices": {**POOLS["slices"], "nodes": {"max": 1}}}


def planned(teams: JsonDict, pools: JsonDict, scheduler: str) -> Any:
    return plan(teams, pools, {"scheduler": scheduler, "trust_policy": True})


@pytest.fixture
def cluster(scheduled: Cluster) -> Iterator[Cluster]:
    scheduled.becomes(planned(TEAMS, SHARED, scheduled.scheduler))
    yield scheduled
    scheduled.clear()


def test_an_exported_pod_of_a_team_starts(cluster: Cluster) -> None:
    for space, pool in (("research", "big"), ("serving", "slices")):
        cluster.run(space, pool, pool)
        got = cluster.waits(partial(cluster.count, space, pool), 1)
        recorded(cluster.scheduler, f"exported pod of {pool}, from its team", 1, got)
        assert all(each.startswith(pool) for each in cluster.nodes(space, pool))


def test_an_exported_pod_of_another_namespace_is_denied(cluster: Cluster) -> None:
    answer = cluster.pod("other", "x", "big")
    recorded(cluster.scheduler, "exported pod of big, from a namespace of no team", 403, answer.status)
    if cluster.scheduler == "kueue":
        answer = cluster.pod("vision", "x", "slices")
        recorded(cluster.scheduler, "exported pod of slices, from another team", 403, answer.status)
    else:
        answer = cluster.pod("vision", "x", "big", queue="research.big")
        recorded(cluster.scheduler, "vision's pod in the queue of research", 403, answer.status)
        assert "queue research.big is for jobs of these namespaces only: research" in answer.message


def test_another_scheduler_does_not_pass(cluster: Cluster) -> None:
    if cluster.scheduler == "kueue":  # whose pods have the cluster's own scheduler, once they are admitted
        cluster.run("research", "fill", "big", 32)
        cluster.waits(partial(cluster.count, "research", "fill"), 32)
        assert cluster.pod("research", "plain", "big").status == 201
        gates = [
            each["spec"].get("schedulingGates", [{}])[0].get("name")
            for each in cluster.server.items("/api/v1/namespaces/research/pods")
            if each["metadata"]["name"] == "plain"
        ]
        recorded("kueue", "a plain pod of the team waits for quota", ["kueue.x-k8s.io/admission"], gates)
        return
    answer = cluster.pod("research", "x", "big", changed={"schedulerName": "default-scheduler"})
    recorded(cluster.scheduler, "exported pod with the default scheduler", 403, answer.status)
    answer = cluster.pod("research", "x", "big", changed={"schedulerName": "default-scheduler", "nodeSelector": None})
    recorded(cluster.scheduler, "the same without node selector", 403, answer.status)


def test_what_is_of_no_team_is_left_alone(cluster: Cluster) -> None:
    elsewhere = {"nodeSelector": {"gpupools/pool": "else"}, "schedulerName": "default-scheduler"}
    answer = cluster.pod("other", "x", "big", changed=elsewhere, queue="none", dry_run=True)
    recorded(cluster.scheduler, "a pod of no team that selects another pool", 201, answer.status)
    answer = cluster.pod(
        "kube-system", "x", "big", changed={"schedulerName": "default-scheduler"}, queue="none", dry_run=True
    )
    recorded(cluster.scheduler, "a pod of kube-system", 201, answer.status)


@pytest.mark.parametrize(
    ("space", "pods", "wanted", "case"),
    [
        ("research", 24, 24, "gang of the guarantee"),
        ("research", 32, 32, "gang above the guarantee"),
        ("research", 33, 0, "gang above the pool"),
        ("vision", 8, 8, "gang of the limit"),
        ("vision", 9, 0, "gang above the limit"),
    ],
)
def test_gangs_start_whole_or_wait(cluster: Cluster, space: str, pods: int, wanted: int, case: str) -> None:
    cluster.run(space, "gang", "big", pods, gang=True, queue=f"{space}.big")
    got = (
        cluster.waits(partial(cluster.count, space, "gang"), wanted)
        if wanted
        else cluster.stays(partial(cluster.count, space, "gang"))
    )
    recorded(cluster.scheduler, case, wanted, got)


def borrowed(cluster: Cluster) -> None:
    for index in range(32):
        cluster.run("research", f"job-{index}", "big", priority="training")
    names = [f"job-{index}" for index in range(32)]
    got = cluster.waits(partial(cluster.count, "research", *names), 32)
    recorded(cluster.scheduler, "32 jobs of research borrow what vision leaves idle", 32, got)


def test_a_guarantee_comes_back_and_notebooks_come_first(cluster: Cluster) -> None:
    borrowed(cluster)
    cluster.run("vision", "own", "big", 8, gang=True, queue="vision.big", priority="training")
    got = cluster.waits(partial(cluster.count, "vision", "own"), 8, 90)
    recorded(cluster.scheduler, "vision gets its guarantee of 8 back", 8, got)
    cluster.run("research", "notebook", "big", priority="interactive")
    got = cluster.waits(partial(cluster.count, "research", "notebook"), 1, 90)
    recorded(cluster.scheduler, "a notebook stops a training job of its team", 1, got)


def test_a_gang_gets_its_guarantee_of_which_a_part_is_idle(cluster: Cluster) -> None:
    for index in range(28):
        cluster.run("research", f"job-{index}", "big", priority="training")
    names = [f"job-{index}" for index in range(28)]
    cluster.waits(partial(cluster.count, "research", *names), 28)
    cluster.run("vision", "own", "big", 8, gang=True, queue="vision.big", priority="training")
    got = cluster.waits(partial(cluster.count, "vision", "own"), 8, 60)
    recorded(cluster.scheduler, "a gang of 8 gets its guarantee: 4 idle, 4 that research borrowed", 8, got)


WEIGHED: JsonDict = {
    "a": {"namespaces": ["a"], "limit": {"wide": 80}, "weight": 3},
    "b": {"namespaces": ["b"], "limit": {"wide": 80}},
}


def test_weights_of_3_to_1_share_500_pods(scheduled: Cluster) -> None:
    cluster, scheduler = scheduled, scheduled.scheduler
    cluster.becomes(planned(WEIGHED, {"wide": {**POOLS["big"], "nodes": {"max": 10}}}, scheduler))
    # Kueue starts a job whole; Volcano reclaims nothing for a job whose minimum runs, so its jobs are small gangs.
    jobs = 5 if scheduler == "kai" else 50
    for index, team in product(range(jobs), ("a", "b")):
        cluster.run(team, f"{team}-{index}", "wide", 250 // jobs, gang=scheduler == "volcano", queue=f"{team}.wide")

    def shares() -> tuple[int, int]:
        there = [cluster.server.items(f"/api/v1/namespaces/{team}/pods") for team in ("a", "b")]
        first, second = (sum(bool(each["spec"].get("nodeName")) for each in pods) for pods in there)
        return first, second

    got = cluster.waits(shares, (60, 20), 120)
    near = abs(got[0] - 60) <= 3 and abs(got[1] - 20) <= 3
    cluster.clear()
    recorded(scheduler, "weights 3 : 1 over 500 pods on 80 GPUs", (60, 20), (60, 20) if near else got)


COMPACT: JsonDict = {
    "instance_type": "a3-megagpu-8g",
    "nodes": {"fixed": 2},
    "zones": ["europe-west4-a"],
    "network": {"placement": "compact"},
}
KINDS: JsonDict = {
    "halves": {
        **POOLS["slices"],
        "nodes": {"max": 1},
        "sharing": {"mode": "time-slicing", "replicas": 2},
        "trust": {"namespaces": ["research"]},
    },
    "cut": {**POOLS["slices"], "nodes": {"max": 1}},
    "spot": {**POOLS["small"], "capacity": {"mode": "spot"}},
    "demand": {**POOLS["small"], "labels": {}},
    "near": COMPACT,
    "rdma": {**RDMA, "nodes": {"max": 2}},
    "rack": {**RACK, "nodes": {"fixed": 2}, "software": "dra-driver"},
    "dra": {**POOLS["small"], "software": "dra-driver"},
}
OF_KINDS: JsonDict = {
    "research": {
        "namespaces": ["research"],
        "guarantee": {"demand": 8, "halves": 2, "cut": 7, "near": 8, "rdma": 16, "rack": 4, "dra": 8},
        "limit": {"spot": 8},
    },
    "vision": {"namespaces": ["vision"], "guarantee": {"spot": 8}},
}


@pytest.fixture
def kinds(scheduled: Cluster) -> Iterator[Cluster]:
    scheduled.becomes(planned(OF_KINDS, KINDS, "kueue"))
    yield scheduled
    scheduled.clear()


@only("kueue")
@pytest.mark.parametrize("whole_node", [False, True])
@pytest.mark.parametrize("pool", KINDS)
def test_kueue_starts_the_exported_pods_of_every_kind(kinds: Cluster, pool: str, whole_node: bool) -> None:
    if whole_node and pool not in kinds.exported.get("node_pods", {}):
        pytest.skip("its nodes are no unit of work")
    space = "vision" if pool == "spot" else "research"
    name = f"{pool}-{'node' if whole_node else 'unit'}"
    kinds.run(space, name, pool, whole_node=whole_node)
    got = kinds.waits(partial(kinds.count, space, name), 1)
    recorded("kueue", f"exported {'node_pod' if whole_node else 'pod'} of {pool}", 1, got)
    assert kinds.nodes(space, name)[0].startswith(pool)


@only("kueue")
def test_a_gang_gets_the_nodes_of_a_compact_pool(kinds: Cluster) -> None:
    """Two nodes of eight GPUs in one topology domain; nothing in a larger gang fits."""
    for pods, wanted in ((16, 16), (17, 0)):
        kinds.run("research", f"near-{pods}", "near", pods)
        started = partial(kinds.count, "research", f"near-{pods}")
        got = kinds.waits(started, wanted) if wanted else kinds.stays(started)
        recorded("kueue", f"gang of {pods} on a compact pool of 16", wanted, got)
        kinds.clear()


@only("kueue")
def test_jobs_without_a_pool_take_own_whole_gpus_first(kinds: Cluster) -> None:
    """The pod is the one of the pool `demand`; `spot` and `halves` stand before it in the file."""
    for index in range(8):
        kinds.run("research", f"any-{index}", "demand", anywhere=True)
    names = [f"any-{index}" for index in range(8)]
    kinds.waits(partial(kinds.count, "research", *names), 8)
    got = {each.partition("-")[0] for name in names for each in kinds.nodes("research", name)}
    recorded(
        "kueue", "8 jobs without selector: the own guarantee before spot of vision", {"demand"} | got & {"near"}, got
    )
    for index in range(24):
        kinds.run("research", f"more-{index}", "demand", anywhere=True)
    kinds.stays(lambda: None, 15)
    every = [f"more-{index}" for index in range(24)]
    on = {each.partition("-")[0] for name in every for each in kinds.nodes("research", name)}
    recorded("kueue", "24 more: none on GPUs that only trusted jobs share", False, "halves" in on)
