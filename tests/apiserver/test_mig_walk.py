"""`gpupools mig walk` against a real API server; a thread does what the MIG manager does."""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli import mig_walk
from gpupools.cli.main import main
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.ready import live_cluster
from tests.apiserver.control_plane import CLUSTER_POLICIES, ControlPlane
from tests.gpupools.test_mig_walk import FILE, NEW, OLD

pytestmark = pytest.mark.apiserver

NAMES = ("walk-0", "walk-1", "walk-2")
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"migManager": {"config": {"name": "layouts"}}},
    "status": {"namespace": "gpu-operator"},
}


def node(name: str) -> dict[str, Any]:
    labels = {"gpupools/pool": "slices", MIG_CONFIG_LABEL: OLD, MIG_STATE_LABEL: "success"}
    labels |= {"topology.kubernetes.io/region": "us-east-1", "alpha.eksctl.io/cluster-name": "train"}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "56"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    spec = {"providerID": f"aws:///us-east-1a/i-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def pod(on: str, owner: str) -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "1", "controller": True}]
    meta = {"name": f"{owner.lower()}-{on}", "namespace": "walk", "ownerReferences": owners}
    spec = {
        "nodeName": on,
        "terminationGracePeriodSeconds": 0,  # without a kubelet nothing else ends it
        "containers": [{"name": "main", "image": "registry.example.com/none"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server of its own: the definition of ClusterPolicy and the nodes are in nobody's way."""
    with ControlPlane(tmp_path_factory.mktemp("walk")) as server:
        yield filled(server)


def filled(server: ControlPlane) -> ControlPlane:
    server.apply(CLUSTER_POLICIES).succeeded()
    server.add_namespaces("walk", "gpu-operator")
    layouts = {"config.yaml": yaml.safe_dump({"mig-configs": {OLD: [], NEW: []}})}
    config_map = {"metadata": {"name": "layouts", "namespace": "gpu-operator"}, "data": layouts}
    server.apply({"apiVersion": "v1", "kind": "ConfigMap", **config_map}).succeeded()
    server.wait("the definition", lambda: server.apply(POLICY).status < 300)
    server.apply(POLICY, "/status").succeeded()
    made = [
        *(node(name) for name in NAMES),
        *(pod(name, kind) for name in NAMES for kind in ("ReplicaSet", "DaemonSet")),
    ]
    for each in made:
        server.create(each).succeeded()
    return server


class MigManager:
    """What NVIDIA's does, and what happens at the first eviction that succeeds."""

    def __init__(self, cluster: ControlPlane, happens: Callable[[], None] = lambda: None) -> None:
        self.cluster, self.happens = cluster, happens
        self.most = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._manage)

    def __enter__(self) -> "MigManager":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def _manage(self) -> None:
        waits = True
        while not self.done.wait(0.05):
            with suppress(OSError, AssertionError):  # the server may be down
                nodes = self.cluster.items("/api/v1/nodes")
                cordoned = sum(bool(each["spec"].get("unschedulable")) for each in nodes)
                self.most = max(self.most, cordoned)
                if waits and cordoned:
                    waits = False
                    self.happens()
                for each in nodes:
                    if each["metadata"]["labels"].get(MIG_STATE_LABEL) == "pending":
                        self._cut(node(each["metadata"]["name"]))

    def _cut(self, given: dict[str, Any]) -> None:
        offers = {"status": {"capacity": {"nvidia.com/gpu": "24"}, "allocatable": {"nvidia.com/gpu": "24"}}}
        self.cluster.merge(given, offers, "/status").succeeded()
        self.cluster.merge(given, {"metadata": {"labels": {MIG_STATE_LABEL: "success"}}}).succeeded()


@pytest.fixture
def walk(cluster: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr(mig_walk, "_INTERVAL_S", 0.1)
    file = tmp_path / "Pulumi.walk.yaml"
    file.write_text(FILE.replace("/kube}", f"{cluster.kubeconfig}}}").replace("fixed: 5", "fixed: 3"))

    def walked(*words: str, timeout: str = "30") -> int:
        return main(["mig", "walk", "--pool", "slices", "--to", "2g.20gb", "--timeout", timeout, *words, str(file)])

    return walked


def assert_walked(cluster: ControlPlane, names: Sequence[str] = NAMES) -> None:
    for name in names:
        found = cluster.get(node(name)).succeeded()
        assert found["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW
        assert mig_walk.ANNOTATION not in found["metadata"].get("annotations", {})
        assert not found["spec"].get("unschedulable")


def cordoned(cluster: ControlPlane) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.items("/api/v1/nodes") if each["spec"].get("unschedulable")]


def test_the_nodes_of_a_real_api_get_the_layout(cluster: ControlPlane, walk: Any) -> None:
    with MigManager(cluster) as manager:
        assert walk("--yes") == 0

    assert 1 <= manager.most <= 2
    assert_walked(cluster)
    for name in NAMES:
        assert cluster.get(pod(name, "ReplicaSet")).status == 404
        assert cluster.get(pod(name, "DaemonSet")).status == 200


def test_a_pod_without_a_controller_created_in_the_middle_stays(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = pod("walk-2", "ReplicaSet")
    alone["metadata"] = {"name": "alone", "namespace": "walk"}

    def create() -> None:
        cluster.create(alone).succeeded()

    with MigManager(cluster, create):
        assert walk("--yes") == 1

    assert "walk/alone has no controller and would not come back (--force allows it)" in capsys.readouterr().err
    assert cluster.get(alone).status == 200
    assert cordoned(cluster) == []
    with MigManager(cluster):
        assert walk("--yes", "--force") == 0
    assert_walked(cluster)


def test_a_node_that_joins_is_walked(cluster: ControlPlane, walk: Any) -> None:
    def join() -> None:
        cluster.create(node("walk-9")).succeeded()

    with MigManager(cluster, join):
        assert walk("--yes") == 0
    assert_walked(cluster, (*NAMES, "walk-9"))


def test_an_api_server_that_is_restarted_ends_no_walk(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with MigManager(cluster, cluster.restart):
        assert walk("--yes", timeout="120") == 0

    assert "asks again for" in capsys.readouterr().err
    assert_walked(cluster)


def test_a_budget_of_none_is_named_and_leaves_no_node_cordoned(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller manager counts the pods of the budget; without a kubelet, the test says that they are ready."""
    cluster.run_controller_manager("disruption-controller")
    for name in NAMES:
        one = pod(name, "ReplicaSet")
        cluster.merge(one, {"metadata": {"labels": {"app": "web"}}}).succeeded()
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        cluster.merge(one, ready, "/status").succeeded()
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "web-budget", "namespace": "walk"}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    cluster.create(budget).succeeded()
    with MigManager(cluster):
        assert walk("--yes", timeout="5") == 1

    said = capsys.readouterr().err
    assert "walk/replicaset-walk-0 stays: " in said
    assert "The disruption budget web-budget " in said
    assert "it is uncordoned; run the command again to go on" in said
    assert cordoned(cluster) == []
    assert all(cluster.get(pod(name, "ReplicaSet")).status == 200 for name in NAMES)


def test_a_node_replaced_under_its_name_is_one_that_joined(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def replace() -> None:
        cluster.delete(node("walk-1")).succeeded()
        cluster.create(node("walk-1")).succeeded()

    with MigManager(cluster, replace):
        assert walk("--yes") == 0
    assert "walk-1: the node is gone, and another one has its name" in capsys.readouterr().out
    assert_walked(cluster)


def test_a_label_that_is_set_back_a_finalizer_and_a_node_that_is_not_ready_are_named(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    not_ready = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    cluster.merge(node("walk-2"), {"status": {"conditions": not_ready}}, "/status").succeeded()
    kept = pod("walk-1", "ReplicaSet")
    cluster.merge(kept, {"metadata": {"finalizers": ["example.com/keep"]}}).succeeded()

    def set_back(given: dict[str, Any]) -> None:
        cluster.merge(given, {"metadata": {"labels": {MIG_CONFIG_LABEL: OLD, MIG_STATE_LABEL: "success"}}}).succeeded()

    with MigManager(cluster) as manager:
        manager._cut = set_back  # type: ignore[method-assign]
        assert walk("--yes") == 1
        said = capsys.readouterr().err
        assert "walk-2 is not ready: nothing is done to it" in said
        assert f"walk-0: {MIG_CONFIG_LABEL} is {OLD} again: something else sets it" in said
        assert cordoned(cluster) == []
        cluster.merge(node("walk-2"), {"status": node("walk-2")["status"]}, "/status").succeeded()
        del manager._cut
        assert walk("--yes", timeout="3") == 1
        said = capsys.readouterr().err
        assert (
            "walk-1: its pods did not end in 3 s; walk/replicaset-walk-1 is ending: finalizers example.com/keep" in said
        )
        cluster.drop(kept)
        assert walk("--yes") == 0
    assert_walked(cluster)


def test_two_walks_at_the_same_time_do_not_fight(cluster: ControlPlane, walk: Any, tmp_path: Path) -> None:
    """Started together, and the second in the middle of the first: each node is held by one of them, to its end."""
    with ThreadPoolExecutor() as pool:
        for at_once in (True, False):
            out = [tmp_path / f"{name}-{at_once}" for name in ("first", "second")]
            later = list[Any]()

            def second(out: Path = out[1], later: list[Any] = later) -> None:
                later.append(pool.submit(killed_or_ended, walk, out))

            with MigManager(cluster, (lambda: None) if at_once else second) as manager:
                if at_once:
                    second()
                codes = [killed_or_ended(walk, out[0]), later[0].result()]
                said = [file.read_text() for file in out]
                assert manager.most <= 2
                assert codes == [int("another run has it: gpupools/mig-walk is" in each) for each in said], said
                assert at_once or codes == [1, 0], said
                assert cordoned(cluster) == []
                assert walk("--yes") == 0
            assert_walked(cluster)
            reset(cluster)


def test_a_pod_of_a_namespace_that_is_being_deleted_is_waited_for(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its controller, which deletes the pods, does not run here until the first eviction was refused."""
    cluster.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "walk"}}).succeeded()
    ended = threading.Timer(3, lambda: [cluster.delete_now(pod(name, "ReplicaSet")) for name in NAMES])
    ended.start()
    with MigManager(cluster):
        assert walk("--yes") == 0
    ended.join()

    assert "walk/replicaset-walk-0 stays: " in (said := capsys.readouterr().err)
    assert "because it is being terminated" in said
    assert_walked(cluster)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
@pytest.mark.parametrize("layouts", [None, {"config.yaml": "mig-configs: {all-disabled: []}"}])
def test_the_printed_commands_work_as_they_are(
    cluster: ControlPlane, walk: Any, capsys: pytest.CaptureFixture[str], layouts: dict[str, str] | None
) -> None:
    meta = {"name": "layouts", "namespace": "gpu-operator"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": layouts}
    cluster.delete(config_map).succeeded()
    if layouts:
        cluster.create(config_map).succeeded()

    def run(command: str) -> None:
        subprocess.run(command, shell=True, check=True, env={"PATH": os.environ["PATH"]}, capture_output=True)

    assert walk("--yes") == 1
    run(capsys.readouterr().err.strip().partition("run the walk again: ")[2])
    given = yaml.safe_load(cluster.get(config_map).succeeded()["data"]["config.yaml"])["mig-configs"]
    assert given.keys() == {OLD, NEW, "all-disabled"}
    assert given["all-disabled"] == ([] if layouts else [{"devices": "all", "mig-enabled": False}])

    assert walk("--yes", timeout="1") == 1  # nothing cuts the GPUs
    said = capsys.readouterr()
    assert sorted(cordoned(cluster)) == ["walk-0", "walk-1"]
    for command in re.findall(r"run it again or (kubectl .*)", said.out):
        run(command)
    assert cordoned(cluster) == []
    assert "annotations" not in cluster.get(node("walk-0")).succeeded()["metadata"]
    assert "walk-0: the layout did not come in 1 s; it stays cordoned" in said.err


def killed_or_ended(walk: Callable[..., int], out: Path) -> int:
    """Return how a process of its own ended that walks: its exit code, or the signal as a negative number."""
    child = os.fork()
    if not child:
        code = 70
        try:
            with out.open("w", buffering=2**16) as said, redirect_stdout(said), redirect_stderr(said):
                code = walk("--yes")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_at_every_request(
    cluster: ControlPlane, walk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node is cordoned that the output does not name; the last run finishes all."""
    out = tmp_path / "out"
    left, request = [0], live_cluster.ClusterApi.request

    def counted(self: live_cluster.ClusterApi, *words: Any, **named: Any) -> Any:
        found = request(self, *words, **named)  # the server has done it, and nobody reads the answer
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    monkeypatch.setattr(live_cluster.ClusterApi, "request", counted)
    with MigManager(cluster):
        for at in range(1, 200):
            left[0] = at
            code, said = killed_or_ended(walk, out), out.read_text()
            assert code in (0, -signal.SIGKILL), said
            assert all(f"kubectl uncordon {name}" in said for name in cordoned(cluster))
            if code == 0:
                break
            reset(cluster)
        else:
            raise AssertionError("no run came to its end")
    assert at > 20
    assert_walked(cluster)


def reset(cluster: ControlPlane) -> None:
    """Give the nodes their first layout and pods again."""
    for name in NAMES:
        labels = {MIG_CONFIG_LABEL: OLD, MIG_STATE_LABEL: "success"}
        meta = {"labels": labels, "annotations": {mig_walk.ANNOTATION: None}}
        cluster.merge(node(name), {"metadata": meta, "spec": {"unschedulable": None}}).succeeded()
        amounts = {"nvidia.com/gpu": "56"}
        cluster.merge(node(name), {"status": {"capacity": amounts, "allocatable": amounts}}, "/status").succeeded()
        assert cluster.create(pod(name, "ReplicaSet")).status in (201, 409)
