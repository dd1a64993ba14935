"""HAMi's own scheduler and webhook on a pool of two nodes with a GPU each, against a real API server.

`hami-scheduler` on PATH is built from cmd/scheduler of https://github.com/Project-HAMi/HAMi at the pinned version. Its
configuration and that of the kube-scheduler beside it are rendered from the chart. The test does what HAMi's device
plugin does: it writes the GPUs of a node, and unlocks the node when a pod has its part.
"""

import base64
import json
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.control_plane import ControlPlane, _free_port
from tests.apiserver.test_volcano import add_node
from tests.charts.rendering import missing, of_kind, rendered

SCHEDULER = "hami-scheduler"
LACKS = missing("hami") or ("" if shutil.which(SCHEDULER) else f"{SCHEDULER} is not on PATH")
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"HAMi's scheduler: {LACKS}")]

EXAMPLES = Path(__file__).parents[2] / "examples" / "teams"
MADE = check_stack_file(EXAMPLES / "Pulumi.hami.yaml", clouds()).plan
(POOL,), (RUNTIME,) = MADE.pools, MADE.runtimes
SPACE = "research"
LOCK = "hami.io/mutex.lock"
PART = "hami.io/vgpu-devices-allocated"


def configuration(name: str, file: str, runtime: RuntimePlan = RUNTIME) -> str:
    """Return a file of a ConfigMap of the release."""
    (release,) = (each for each in runtime.releases if each.chart == "hami")
    (found,) = (each for each in of_kind(rendered(release), "ConfigMap") if each["metadata"]["name"] == name)
    return str(found["data"][file])


@contextmanager
def running(folder: Path, made: StackPlan, nodes: int = 2) -> Iterator[ControlPlane]:
    """Run a control plane with HAMi's scheduler and nodes whose GPU its device plugin has written."""
    port, (runtime,) = _free_port(), made.runtimes
    with ControlPlane(folder) as found:
        found.add_namespaces(SPACE, "vision", "other")
        found.run(
            "kube-controller-manager", f"--kubeconfig={found.kubeconfig}", "--leader-elect=false",
            "--bind-address=127.0.0.1", "--secure-port=0", "--controllers=resourcequota-controller",
        )  # fmt: skip
        for each in json.loads(json.dumps(runtime.as_json()))["objects"]:
            if each["name"].startswith("trust"):
                found.apply(each["manifest"]).succeeded()
        devices, scheduler = found.folder / "device-config.yaml", found.folder / "hami.yaml"
        devices.write_text(configuration("hami-scheduler-device", "device-config.yaml", runtime), encoding="utf-8")
        written = yaml.safe_load(configuration("hami-scheduler", "config.yaml", runtime))
        (extender,) = written["extenders"]
        extender |= {"urlPrefix": f"http://127.0.0.1:{port}", "enableHTTPS": False}
        del extender["tlsConfig"]
        own = found.kubeconfig_of_hami()
        written |= {"clientConnection": {"kubeconfig": str(own)}, "leaderElection": {"leaderElect": False}}
        scheduler.write_text(yaml.safe_dump(written), encoding="utf-8")
        found.run(
            SCHEDULER, f"--http_bind=127.0.0.1:{port}", "--scheduler-name=hami-scheduler",
            f"--device-config-file={devices}", "--force-overwrite-default-scheduler=false",
            "--metrics-bind-address=127.0.0.1:0", KUBECONFIG=str(own),
        )  # fmt: skip
        # HAMi hears of a deleted pod after kube-scheduler may have tried again, so it tries every half minute here.
        found.run(
            "kube-scheduler", f"--config={scheduler}", "--bind-address=127.0.0.1", f"--secure-port={_free_port()}",
            "--pod-max-in-unschedulable-pods-duration=1s",
        )  # fmt: skip
        found.webhook = f"http://127.0.0.1:{port}/webhook"
        for number in range(nodes):
            offer(found, number, made)
        yield found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running(tmp_path_factory.mktemp("hami"), MADE, 1) as found:
        yield found


def offer(plane: ControlPlane, number: int, made: StackPlan = MADE) -> None:
    """Add a node, and write its GPU as HAMi's device plugin does."""
    add_node(plane, POOL.name, number, made)
    gpu = {"id": f"GPU-{number}", "count": 10, "devmem": 23034, "devcore": 100, "type": "NVIDIA-NVIDIA L4", "numa": 0}
    gpu |= {"mode": "hami-core", "health": True, "index": 0}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{POOL.name}-{number}"}}
    written = {"hami.io/node-nvidia-register": json.dumps([gpu]), "hami.io/node-handshake": "Reported_2026-11-27"}
    plane.merge(node, {"metadata": {"annotations": written}}).succeeded()

    log, line = plane.folder / f"{SCHEDULER}.log", f'"Node device added" nodeName="{POOL.name}-{number}"'
    plane.wait("the GPU in the scheduler", lambda: line in log.read_text(encoding="utf-8"), within_s=60)


def half(name: str) -> dict[str, Any]:
    """Return the pod of the example."""
    job = yaml.safe_load((EXAMPLES / "hami.yaml").read_text(encoding="utf-8"))
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": job["spec"]["template"]["spec"]}


def tenth(name: str, pool: PoolPlan = POOL) -> dict[str, Any]:
    """Return a pod of the exported snippet."""
    spec = json.loads(json.dumps(pool.pod(), default=dict))
    for container in spec["containers"]:
        container["image"] = "scratch"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def pods(plane: ControlPlane, space: str = SPACE) -> Mapping[str, Mapping[str, Any]]:
    return {each["metadata"]["name"]: each for each in plane.items(f"/api/v1/namespaces/{space}/pods")}


def bound(plane: ControlPlane, space: str = SPACE) -> dict[str, str]:
    """Return the nodes of pods; where one has its part, its node is unlocked."""
    found = {name: each for name, each in pods(plane, space).items() if each["spec"].get("nodeName")}
    for each in found.values():
        whole = {**each, "apiVersion": "v1", "kind": "Pod"}
        if each["metadata"]["annotations"].get("hami.io/bind-phase") == "allocating":
            plane.merge(whole, {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}).succeeded()
            plane.merge(whole, {"status": {"phase": "Running"}}, "/status").succeeded()
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": each["spec"]["nodeName"]}}
            plane.merge(node, {"metadata": {"annotations": {LOCK: None}}}).succeeded()
    return {name: each["spec"]["nodeName"] for name, each in found.items()}


def waits(plane: ControlPlane, name: str, space: str = SPACE) -> bool:
    """Say whether the scheduler has found that a pod does not fit."""
    conditions = pods(plane, space)[name]["status"].get("conditions", ())
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def test_two_halves_share_a_gpu_and_the_third_waits(plane: ControlPlane) -> None:
    for name in ("one", "two"):
        plane.create(half(name)).succeeded()
        plane.wait("the half", lambda name=name: name in bound(plane))  # type: ignore[misc]
    plane.create(half("three")).succeeded()
    plane.wait("the verdict", lambda: waits(plane, "three"))

    assert bound(plane) == {"one": "notebooks-0", "two": "notebooks-0"}
    parts = [each["metadata"]["annotations"][PART] for name, each in pods(plane).items() if name != "three"]
    assert [part.split(",")[:4] for part in parts] == [["GPU-0", "NVIDIA", "11264", "50:;"]] * 2


def test_the_third_starts_when_a_half_is_free(plane: ControlPlane) -> None:
    plane.delete_now(half("one"))

    plane.wait("the third", lambda: "three" in bound(plane), within_s=90)


def test_ten_pods_of_the_snippet_share_a_gpu_and_the_eleventh_waits(plane: ControlPlane) -> None:
    offer(plane, 1)
    names = [f"tenth-{number}" for number in range(10)]
    for name in names:
        plane.create(tenth(name)).succeeded()
        plane.wait("the tenth", lambda name=name: name in bound(plane), within_s=90)  # type: ignore[misc]
    plane.create(tenth("eleventh")).succeeded()
    plane.wait("the verdict", lambda: waits(plane, "eleventh"))

    assert {bound(plane)[name] for name in names} == {"notebooks-1"}


def test_pods_fill_a_node_before_the_next_unless_they_ask_for_another(plane: ControlPlane) -> None:
    offer(plane, 2)
    plane.wait("the eleventh", lambda: "eleventh" in bound(plane), within_s=90)
    offer(plane, 3)
    apart = tenth("apart")
    apart["metadata"]["annotations"] = {"hami.io/node-scheduler-policy": "spread"}
    for pod in (tenth("beside"), apart):
        plane.create(pod).succeeded()
        plane.wait("the pod", lambda name=pod["metadata"]["name"]: name in bound(plane), within_s=90)  # type: ignore[misc]

    assert [bound(plane)[name] for name in ("eleventh", "beside", "apart")] == [f"notebooks-{n}" for n in (2, 2, 3)]


def test_no_priority_stops_a_pod_and_no_room_is_kept_for_one_that_waits(plane: ControlPlane) -> None:
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "interactive"}}
    plane.apply({**priority, "value": 1000}).succeeded()
    running = bound(plane).keys()
    whole = tenth("whole")
    whole["spec"]["priorityClassName"] = "interactive"
    whole["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": 1}
    plane.create(whole).succeeded()
    plane.wait("the verdict", lambda: waits(plane, "whole"))
    plane.create(tenth("small")).succeeded()
    plane.wait("the small one", lambda: "small" in bound(plane), within_s=90)

    assert bound(plane).keys() == {*running, "small"}
    assert [name for name, each in pods(plane).items() if "deletionTimestamp" in each["metadata"]] == []


@pytest.mark.parametrize(
    ("scheduler", "changed"), [("hami-scheduler", True), ("default-scheduler", False), ("kai-scheduler", False)]
)
def test_the_webhook_leaves_pods_of_other_schedulers_alone(plane: ControlPlane, scheduler: str, changed: bool) -> None:
    limits = {"nvidia.com/gpumem": "1024"}  # to which the webhook adds nvidia.com/gpu
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": {"limits": limits}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": SPACE}, "spec": spec}
    request = {"uid": "1", "operation": "CREATE", "namespace": SPACE, "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    asked = urllib.request.Request(plane.webhook, json.dumps(review).encode())
    asked.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(asked, timeout=30) as response:
        said = json.load(response)["response"]

    assert said["allowed"]
    patch = json.loads(base64.b64decode(said.get("patch", ""))) if said.get("patch") else []
    assert bool(patch) is changed
