"""Volcano's own scheduler, with the configuration and the queues of teams, against a real API server.

`vc-scheduler` on PATH is built from cmd/scheduler of https://github.com/volcano-sh/volcano at the pinned version; it
reads the configuration with its own types. The definitions are those of the chart.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_gpu_operator import node
from tests.apiserver.test_teams import is_served
from tests.charts.rendering import archive, missing
from tests.gpupools.software.test_teams import POOLS, plan

SCHEDULER = "vc-scheduler"
LACKS = missing("volcano") or ("" if shutil.which(SCHEDULER) else f"{SCHEDULER} is not on PATH")
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"Volcano's scheduler: {LACKS}")]

SPACE = "research"
TEAMS = {
    "research": {"namespaces": [SPACE], "guarantee": {"big": 16}, "weight": 2},
    "serving": {"namespaces": ["serving"], "guarantee": {"big": 16, "slices": 7}},
}
MADE = plan(TEAMS, {"big": POOLS["big"], "slices": POOLS["slices"]}, {"scheduler": "volcano"})


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane with Volcano's scheduler and all that the plan declares, and no node yet."""
    with ControlPlane(tmp_path_factory.mktemp("volcano")) as found:
        command = ["helm", "template", "volcano", str(archive("volcano")), "--kube-version", "1.34.0"]
        shown = subprocess.run(command, check=True, capture_output=True).stdout
        for each in yaml.load_all(shown, yaml.CSafeLoader):
            if each and each["kind"] == "CustomResourceDefinition":
                found.apply(each).succeeded()
                found.wait("the definition", partial(is_served, found, each))
        found.add_namespaces(SPACE, "serving", "volcano-system")
        for each in MADE.runtimes[0].json_team_objects():
            found.apply(each).succeeded()
            if each["kind"] == "Queue":  # as Volcano's controller says
                opened = {key: each[key] for key in ("apiVersion", "kind")} | {
                    "metadata": {"name": each["metadata"]["name"]}
                }
                found.apply({**opened, "status": {"state": "Open"}}, part="/status").succeeded()
        # The scheduler reads the configuration again after each change in its folder.
        configuration = found.folder / "configuration" / "volcano-scheduler.conf"
        configuration.parent.mkdir()
        (release,) = MADE.runtimes[0].releases
        configuration.write_text(release.values["custom"]["scheduler_config_override"], encoding="utf-8")
        found.run(
            SCHEDULER, f"--kubeconfig={found.kubeconfig}", f"--scheduler-conf={configuration}", "--leader-elect=false",
            "--listen-address=127.0.0.1:0", "--enable-metrics=false", "--enable-healthz=false",
            DEBUG_SOCKET_DIR=str(found.folder),
        )  # fmt: skip
        yield found


def add_node(plane: ControlPlane, name: str, number: int, made_by: StackPlan = MADE) -> None:
    (planned,) = (each for each in made_by.pools if each.name == name)
    made = node(planned, planned.labels)
    resources = {**{name: str(count) for name, count in planned.node_resources.items()}, "cpu": "96", "pods": "110"}
    made = {**made, "metadata": {**made["metadata"], "name": f"{name}-{number}"}}
    plane.create(made).succeeded()
    ready = [{"type": "Ready", "status": "True", "reason": "Ready"}]
    status = {"capacity": resources, "allocatable": resources, "conditions": ready}
    plane.merge(made, {"status": status}, "/status").succeeded()


def with_image(pool: PoolPlan) -> dict[str, Any]:
    """Return the pod that a plan exports for a pool, with an image."""
    spec: dict[str, Any] = json.loads(json.dumps(pool.pod()))
    spec["containers"][0]["image"] = "scratch"
    return spec


def start(plane: ControlPlane, job: str, queue: str, pods: int, **more: Any) -> None:
    """Create the pod group and the exported pods of a job, as Volcano's controller does."""
    space = queue.partition(".")[0]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": job, "namespace": space},
        "spec": {"minMember": pods, "queue": queue, **more},
    }
    plane.create(group).succeeded()
    (pool,) = (each for each in MADE.pools if each.name == queue.partition(".")[2])
    for number in range(pods):
        spec = with_image(pool)
        metadata = {"name": f"{job}-{number}", "namespace": space, "labels": {"job": job}}
        metadata["annotations"] = {"scheduling.k8s.io/group-name": job}
        plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).succeeded()


def pods(plane: ControlPlane, job: str) -> list[Mapping[str, Any]]:
    return [
        each
        for each in plane.items("/api/v1/pods")
        if each["metadata"].get("labels", {}).get("job") == job and "deletionTimestamp" not in each["metadata"]
    ]


def bound(plane: ControlPlane, job: str) -> list[str]:
    """Return the nodes of a job's pods; a pod that is bound runs, as a kubelet would say."""
    found = [each for each in pods(plane, job) if each["spec"].get("nodeName")]
    for each in found:
        if each["status"].get("phase") != "Running":
            whole = {**each, "apiVersion": "v1", "kind": "Pod"}
            plane.merge(whole, {"status": {"phase": "Running"}}, "/status").succeeded()
    return sorted(each["spec"]["nodeName"] for each in found)


def unschedulable(plane: ControlPlane, job: str) -> int:
    return sum(
        any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)
        for each in pods(plane, job)
        if (conditions := each["status"].get("conditions"))
    )


def test_a_gang_waits_whole_asks_for_nodes_and_starts_whole(plane: ControlPlane) -> None:
    for number in range(3):
        add_node(plane, "big", number)
    start(plane, "gang", "research.big", pods=32)
    # An autoscaler starts nodes for pods with this condition.
    plane.wait("pods that an autoscaler sees", lambda: unschedulable(plane, "gang") > 0)
    assert bound(plane, "gang") == []
    add_node(plane, "big", 3)
    plane.wait("the gang", lambda: len(bound(plane, "gang")) == 32)
    assert set(bound(plane, "gang")) == {f"big-{number}" for number in range(4)}


def test_a_team_gets_its_guarantee_back_from_a_job_that_borrowed(plane: ControlPlane) -> None:
    start(plane, "service", "serving.big", pods=8)

    plane.wait("the end of pods that borrowed", lambda: len(pods(plane, "gang")) == 24)
    for each in plane.items(f"/api/v1/namespaces/{SPACE}/pods"):
        if "deletionTimestamp" in each["metadata"]:
            plane.delete_now({**each, "apiVersion": "v1", "kind": "Pod"})
    plane.wait("the team's job", lambda: len(bound(plane, "service")) == 8)


def test_a_job_for_slices_gets_a_node_of_their_pool(plane: ControlPlane) -> None:
    add_node(plane, "slices", 0)
    start(plane, "slice", "serving.slices", pods=1)

    plane.wait("the job", lambda: bound(plane, "slice") == ["slices-0"])


def test_other_queues_use_no_node_of_a_pool(plane: ControlPlane) -> None:
    start(plane, "first", "serving.slices", pods=1)
    plane.wait("the job", lambda: bound(plane, "first") == ["slices-0"])
    (pod,) = pods(plane, "first")
    metadata: dict[str, Any] = {"name": "other", "namespace": SPACE}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
    plane.create({**group, "spec": {"minMember": 1, "queue": "default"}}).succeeded()
    metadata = {**metadata, "labels": {"job": "other"}, "annotations": {"scheduling.k8s.io/group-name": "other"}}
    spec = {key: pod["spec"][key] for key in ("schedulerName", "tolerations", "containers")}
    plane.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).succeeded()
    plane.wait("the verdict", lambda: unschedulable(plane, "other") == 1)
    assert bound(plane, "other") == []
