"""KAI's own scheduler of one pool, with the queues of teams, against a real API server.

`kai-sched` on PATH is built from cmd/scheduler of https://github.com/kai-scheduler/KAI-Scheduler at the pinned version.
The test binds pods as KAI's binder does. The definitions are those of the chart.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_teams import is_served
from tests.apiserver.test_volcano import SPACE, TEAMS, add_node, pods, with_image
from tests.charts.rendering import archive, missing
from tests.gpupools.software.test_teams import POOLS, plan

SCHEDULER = "kai-sched"
LACKS = missing("kai-scheduler") or ("" if shutil.which(SCHEDULER) else f"{SCHEDULER} is not on PATH")
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"KAI's scheduler: {LACKS}")]

MADE = plan(TEAMS, {"big": POOLS["big"], "slices": POOLS["slices"]}, {"scheduler": "kai"})
BIND_REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane with all that the plan declares, and KAI's scheduler of the pool `big`."""
    with ControlPlane(tmp_path_factory.mktemp("kai")) as found:
        command = ["helm", "show", "crds", str(archive("kai-scheduler"))]
        shown = subprocess.run(command, check=True, capture_output=True).stdout
        for each in yaml.load_all(shown, yaml.CSafeLoader):
            if each:
                found.apply(each).succeeded()
                found.wait("the definition", partial(is_served, found, each))
        found.add_namespaces(SPACE, "serving", "kai-scheduler", "kai-resource-reservation")
        for each in MADE.runtimes[0].json_team_objects():
            found.apply(each).succeeded()
        (release,) = MADE.runtimes[0].releases
        (shard,) = (
            each["spec"]
            for each in MADE.runtimes[0].team_objects
            if each["kind"] == "SchedulingShard" and each["metadata"]["name"] == "gpupools-big"
        )
        # As KAI's operator starts it (pkg/operator/operands/scheduler/resources_for_shard.go).
        found.run(
            SCHEDULER, f"--nodepool-label-key={release.values['global']['nodePoolLabelKey']}",
            f"--partition-label-value={shard['partitionLabelValue']}", "--leader-elect=false",
            "--listen-address=127.0.0.1:0", "--plugin-server-port=0", KUBECONFIG=str(found.kubeconfig),
        )  # fmt: skip
        yield found


def start(plane: ControlPlane, job: str, queue: str, count: int, priority: str) -> None:
    """Create the pod group and the pods of a job, as KAI's podgrouper does."""
    space, _, pool = queue.partition(".")
    labels = {"job": job, "kai.scheduler/queue": queue, "gpupools/pool": pool}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": job, "namespace": space, "labels": labels},
        "spec": {"minMember": count, "queue": queue, "priorityClassName": priority},
    }
    plane.create(group).succeeded()
    (planned,) = (each for each in MADE.pools if each.name == pool)
    for number in range(count):
        spec = {**with_image(planned), "priorityClassName": priority}
        metadata = {"name": f"{job}-{number}", "namespace": space, "labels": labels}
        pod = {**metadata, "annotations": {"pod-group-name": job}}
        plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec}).succeeded()


def bound(plane: ControlPlane, job: str) -> list[str]:
    """Return the nodes of a job's pods, after what binder and kubelets do."""
    for each in plane.items("/api/v1/pods"):
        whole: Mapping[str, Any] = {**each, "apiVersion": "v1", "kind": "Pod"}
        if "deletionTimestamp" in each["metadata"]:
            plane.delete_now(whole)
        elif each["spec"].get("nodeName") and each["status"].get("phase") != "Running":
            plane.merge(whole, {"status": {"phase": "Running"}}, "/status").succeeded()
    for each in plane.items(BIND_REQUESTS):
        pod = {"name": each["spec"]["podName"], "namespace": each["metadata"]["namespace"]}
        plane.bind({"apiVersion": "v1", "kind": "Pod", "metadata": pod}, each["spec"]["selectedNode"])
        plane.delete_now({**each, "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest"})
    return sorted(each["spec"]["nodeName"] for each in pods(plane, job) if each["spec"].get("nodeName"))


def is_judged(plane: ControlPlane, job: str) -> bool:
    """Say whether the scheduler has found that a job does not fit."""
    space = "research" if job == "gang" else "serving"
    metadata = {"name": job, "namespace": space}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata}
    return bool(plane.get(group).succeeded().get("status", {}).get("schedulingConditions"))


def test_a_gang_waits_whole_and_starts_whole(plane: ControlPlane) -> None:
    for number in range(3):
        add_node(plane, "big", number, MADE)
    start(plane, "gang", "research.big", 32, "training")
    plane.wait("the verdict", lambda: is_judged(plane, "gang"))
    assert bound(plane, "gang") == []
    add_node(plane, "big", 3, MADE)
    plane.wait("the gang", lambda: len(bound(plane, "gang")) == 32)


def test_a_team_gets_its_guarantee_back_from_training_that_borrowed(plane: ControlPlane) -> None:
    start(plane, "service", "serving.big", 16, "interactive")

    plane.wait("the team's job", lambda: len(bound(plane, "service")) == 16)
    assert len(pods(plane, "gang")) < 32


def test_a_notebook_waits_beyond_the_guarantee(plane: ControlPlane) -> None:
    start(plane, "more", "serving.big", 1, "interactive")

    plane.wait("the verdict", lambda: is_judged(plane, "more"))
    assert bound(plane, "more") == []
