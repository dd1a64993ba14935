"""KAI's own scheduler and binder on a pool whose pods ask for fractions of GPUs, against a real API server.

`kai-sched`, `kai-binder` and `kai-node-scale-adjuster` on PATH are built from cmd/scheduler, cmd/binder and
cmd/nodescaleadjuster of https://github.com/kai-scheduler/KAI-Scheduler at the pinned version. The test does what its
podgrouper, its admission webhook, the kubelets and GPU feature discovery do. The definitions are those of the chart.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from gpupools.software.objects import runtime_class
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_kai import SCHEDULER
from tests.apiserver.test_teams import is_served
from tests.apiserver.test_volcano import add_node
from tests.charts.rendering import archive, missing
from tests.gpupools.software.test_fractions import ISOLATOR, LIMITED, TEAMS
from tests.gpupools.software.test_teams import plan

BINDER = "kai-binder"
ABSENT = " and ".join(each for each in (SCHEDULER, BINDER) if shutil.which(each) is None)
LACKS = missing("kai-scheduler") or (f"{ABSENT} is not on PATH" if ABSENT else "")
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"KAI's binder: {LACKS}")]

ADJUSTER = "kai-node-scale-adjuster"
SPACE, RESERVED, STARTERS = "research", "kai-resource-reservation", "kai-scale-adjust"
MADE = plan(TEAMS, {"halves": LIMITED}, {"scheduler": "kai", "trust_policy": True, "existing": ISOLATOR})
(RUNTIME,) = MADE.runtimes
(VALUES,) = (each.values for each in RUNTIME.releases if each.chart == "kai-scheduler")
GPU_MEMORY = {"nvidia.com/gpu.memory": "23034"}
"""What GPU feature discovery writes of an L4."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane with all that the plan declares, KAI's scheduler and binder, and one node with one GPU."""
    with ControlPlane(tmp_path_factory.mktemp("fractions")) as found:
        command = ["helm", "show", "crds", str(archive("kai-scheduler"))]
        shown = subprocess.run(command, check=True, capture_output=True).stdout
        for each in yaml.load_all(shown, yaml.CSafeLoader):
            if each:
                found.apply(each).succeeded()
                found.wait("the definition", partial(is_served, found, each))
        found.add_namespaces(SPACE, "kai-scheduler", RESERVED, STARTERS)
        trust = [each.manifest for each in RUNTIME.objects if each.name.startswith("trust/")]
        class_ = runtime_class("nvidia").manifest  # which the GPU Operator declares
        for each in (*RUNTIME.json_team_objects(), *json.loads(json.dumps(trust, default=dict)), class_):
            found.apply(each).succeeded()
        add_node(found, "halves", 0, MADE)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "halves-0"}}
        found.merge(node, {"metadata": {"labels": GPU_MEMORY}}).succeeded()
        # As KAI's operator starts them (pkg/operator/operands/scheduler and binder).
        found.run(
            SCHEDULER, f"--nodepool-label-key={VALUES['global']['nodePoolLabelKey']}",
            "--partition-label-value=halves", "--leader-elect=false", "--listen-address=127.0.0.1:0",
            "--plugin-server-port=0", KUBECONFIG=str(found.kubeconfig),
        )  # fmt: skip
        found.run(
            BINDER, f"--kubeconfig={found.kubeconfig}", f"--resource-reservation-namespace={RESERVED}",
            f"--runtime-class-name={VALUES['binder']['runtimeClassName']}",
            f"--plugins={json.dumps(VALUES['binder']['plugins'], default=dict)}",
            "--resource-reservation-pod-image=reservation", "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:0",
        )  # fmt: skip
        yield found


def pod(name: str, space: str = SPACE) -> dict[str, Any]:
    """Return the pod that the plan exports, with the name of its group and of its ConfigMap."""
    exported = json.loads(json.dumps(RUNTIME.as_json()))
    metadata, spec = exported["pod_metadata"]["halves"], exported["pods"]["halves"]
    added = {"pod-group-name": name, "runai/shared-gpu-configmap": f"{name}-shared-gpu"}
    spec["containers"][0]["image"] = "scratch"
    annotations = {**metadata["annotations"], **added}
    named = {**metadata, "name": name, "namespace": space, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


def start(plane: ControlPlane, name: str) -> None:
    made = pod(name)
    queue, labels = made["metadata"]["labels"]["kai.scheduler/queue"], made["metadata"]["labels"]
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "spec": {"minMember": 1, "queue": queue, "priorityClassName": "training"},
    }
    plane.create(group).succeeded()
    plane.create(made).succeeded()


def there(plane: ControlPlane, space: str) -> dict[str, Mapping[str, Any]]:
    """Return the pods of a namespace by name, after what kubelets and reservation pods do."""
    found = {each["metadata"]["name"]: each for each in plane.items(f"/api/v1/namespaces/{space}/pods")}
    for each in found.values():
        whole = {**each, "apiVersion": "v1", "kind": "Pod"}
        if each["spec"].get("nodeName") and each["status"].get("phase") != "Running":
            plane.merge(whole, {"status": {"phase": "Running"}}, "/status").succeeded()
        if space == RESERVED and "run.ai/reserve_for_gpu_index" not in each["metadata"].get("annotations", {}):
            plane.merge(whole, {"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-0"}}}).succeeded()
    return found


def bound(plane: ControlPlane) -> list[str]:
    there(plane, RESERVED)
    return sorted(name for name, each in there(plane, SPACE).items() if each["spec"].get("nodeName"))


def is_judged(plane: ControlPlane, name: str) -> bool:
    """Say whether the scheduler has found that a pod does not fit."""
    metadata = {"name": name, "namespace": SPACE}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata}
    return bool(plane.get(group).succeeded().get("status", {}).get("schedulingConditions"))


def environment(plane: ControlPlane, name: str) -> Mapping[str, str]:
    """Return what the binder has a pod's container see."""
    metadata = {"name": f"{name}-shared-gpu-0-evar", "namespace": SPACE}
    found = plane.get({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).succeeded()
    shared = {**metadata, "name": f"{name}-shared-gpu-0"}
    more = plane.get({"apiVersion": "v1", "kind": "ConfigMap", "metadata": shared}).succeeded()
    return {**found.get("data", {}), **more.get("data", {})}


def test_two_halves_share_a_gpu_and_the_third_waits(plane: ControlPlane) -> None:
    start(plane, "one")
    start(plane, "two")
    plane.wait("both halves", lambda: bound(plane) == ["one", "two"])
    start(plane, "three")
    plane.wait("the verdict", lambda: is_judged(plane, "three"))

    assert bound(plane) == ["one", "two"]
    labels = [each["metadata"]["labels"] for each in there(plane, SPACE).values()]
    assert len({each["runai-gpu-group"] for each in labels if "runai-gpu-group" in each}) == 1


def test_one_pod_reserves_the_gpu_as_the_plan_has_it(plane: ControlPlane) -> None:
    (reserved,) = there(plane, RESERVED).values()
    (container,) = reserved["spec"]["containers"]

    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert reserved["spec"]["runtimeClassName"] == "nvidia"
    tolerated = {each["key"] for each in reserved["spec"]["tolerations"]}
    assert {taint.key for taint in MADE.pools[0].taints} <= tolerated


def test_the_limit_is_half_of_the_memory_that_the_node_names(plane: ControlPlane) -> None:
    found = environment(plane, "one")

    assert found["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert found["CUDA_DEVICE_MEMORY_LIMIT"] == f"{23034 // 2}m"


def test_the_trust_policy_keeps_others_off_and_lets_kai_in(plane: ControlPlane) -> None:
    plane.add_namespaces("others")
    plane.wait("the policy", lambda: plane.create(pod("x", "others"), dry_run=True).status in (403, 422))

    by_hand = {**pod("x", RESERVED), "spec": {**pod("x")["spec"], "nodeName": "halves-0"}}
    del by_hand["metadata"]["labels"]["kai.scheduler/queue"]  # which is for the team's namespaces
    assert plane.create(by_hand, dry_run=True).status < 300


def test_the_third_starts_when_a_half_is_free(plane: ControlPlane) -> None:
    plane.delete_now(pod("one"))

    plane.wait("the third", lambda: bound(plane) == ["three", "two"])
    assert len(there(plane, RESERVED)) == 1


def test_without_the_label_of_the_node_there_is_no_limit(plane: ControlPlane) -> None:
    add_node(plane, "halves", 1, MADE)
    start(plane, "four")

    plane.wait("the fourth", lambda: "four" in bound(plane))
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in environment(plane, "four")


@pytest.mark.skipif(shutil.which(ADJUSTER) is None, reason=f"{ADJUSTER} is not on PATH")
def test_a_pod_that_waits_adds_one_that_an_autoscaler_sees(plane: ControlPlane) -> None:
    assert VALUES["global"]["clusterAutoscaling"] is True
    plane.run(
        ADJUSTER, f"--scale-adjust-namespace={STARTERS}", "--scaling-pod-image=scaling",
        KUBECONFIG=str(plane.kubeconfig),
    )  # fmt: skip
    for name in ("five", "six"):
        start(plane, name)
    plane.wait("the pod", lambda: bool(there(plane, STARTERS)))

    (found,) = there(plane, STARTERS).values()
    exported = pod("x")["spec"]
    assert found["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert found["spec"]["nodeSelector"] == exported["nodeSelector"]
    assert [each for each in exported["tolerations"] if each not in found["spec"]["tolerations"]] == []
