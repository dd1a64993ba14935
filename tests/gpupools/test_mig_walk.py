"""`gpupools mig walk` against an API in memory, and killed before each of its requests."""

import json
import re
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli import mig_walk
from gpupools.cli.main import main
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.ready import live_cluster
from gpupools.ready.kubeconfig import Context

STAYING = [{"kind": kind, "name": "agent", "controller": True} for kind in ("DaemonSet", "Node", "ClusterPolicy")]
OLD, NEW = "a100-80gb-all-1g.10gb", "a100-80gb-all-2g.20gb"


class Killed(BaseException):
    """The process ended."""


class Api(live_cluster.ClusterApi):
    """Nodes of a pool with pods, a disruption budget and a MIG manager that cuts GPUs no pod uses."""

    def __init__(self, nodes: int = 5, layouts: tuple[str, ...] = (OLD, NEW)) -> None:
        self.context = Context("arn:aws:eks:us-east-1:123456789012:cluster/train", "api.example.com", {}, {}, {})
        self._end = float("inf")
        self.nodes = {f"n{index}": self._node(f"n{index}") for index in range(nodes)}
        self.pods = {f"p{index}": f"n{index % nodes}" for index in range(2 * nodes)}
        """Node of each pod; empty for a pod that waits. Its controller makes it again."""
        self.layouts = layouts
        self.budget = 2
        """Pods that may wait at once."""
        self.kill_at = -1
        self.requests = 0
        self.most_cordoned = 0
        self.most_waiting = 0
        self.bare = ""
        self.owner = "ReplicaSet"
        self.volumes: list[dict[str, Any]] = []
        self.ending: dict[str, Any] = {}
        """Metadata of the pods of the first node."""
        self.fails = ""
        self.written: list[str] = []

    def _node(self, name: str) -> dict[str, Any]:
        labels = {"gpupools/pool": "slices", MIG_CONFIG_LABEL: OLD, MIG_STATE_LABEL: "success"}
        status = {"allocatable": {"nvidia.com/gpu": "56"}, "conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": {}, "status": status}

    def _uid(self, pod: str) -> str:
        return f"{pod}-on-{self.pods.get(pod)}"

    def _count(self) -> None:
        if self.requests == self.kill_at:
            raise Killed
        self.requests += 1
        self._cut()
        cordoned = {name for name, node in self.nodes.items() if node["spec"].get("unschedulable")}
        self.most_cordoned = max(self.most_cordoned, len(cordoned))
        self.most_waiting = max(self.most_waiting, sum(not node for node in self.pods.values()))
        free = [name for name in self.nodes if name not in cordoned]
        for pod, node in self.pods.items():
            self.pods[pod] = node or (free[0] if free else "")

    def _cut(self) -> None:
        """Do what the MIG manager does."""
        for name, node in self.nodes.items():
            labels = node["metadata"]["labels"]
            if labels.get(MIG_STATE_LABEL) == "pending" and labels.get(MIG_CONFIG_LABEL):
                busy = name in self.pods.values() or name == self.fails
                labels[MIG_STATE_LABEL] = "failed" if busy else "success"
                node["status"]["allocatable"] = {"nvidia.com/gpu": "56" if busy else "24"}

    def items(self, path: str, kind: str, *, keeps: bool = True, **query: str) -> Iterator[dict[str, Any]]:
        yield from self.request(path, query)

    def _listed(self, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        if path.endswith("/nodes"):
            yield from [self._read(name) for name in self.nodes]
        elif path.endswith("/clusterpolicies"):
            spec = {"migManager": {"config": {"name": "layouts"}}}
            yield {"metadata": {"name": "p"}, "spec": spec, "status": {"namespace": "gpu-operator"}}
        else:
            node = query["fieldSelector"].partition("=")[2]
            for pod in [pod for pod, where in self.pods.items() if where == node]:
                owners = [] if pod == self.bare else [{"kind": self.owner, "name": "web", "controller": True}]
                meta = {"name": pod, "namespace": "web", "uid": self._uid(pod), "ownerReferences": owners}
                meta |= self.ending if pod in ("p0", "p5") else {}
                own: dict[str, Any] = {"nodeName": node, "volumes": self.volumes}
                yield {"metadata": meta, "spec": own, "status": {"phase": "Running"}}
            for owner in STAYING:
                meta = {"name": f"agent-{node}", "namespace": "web", "uid": "agent", "ownerReferences": [owner]}
                yield {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}}

    def _request(self, path: str, query: Any, method: str, body: Any) -> Any:
        self._count()
        if query is not None:
            return list(self._listed(path, query))
        if path.endswith("/eviction"):
            pod = body["metadata"]["name"]
            if body["deleteOptions"]["preconditions"]["uid"] != self._uid(pod):
                raise live_cluster.Unreachable("api.example.com answers 409: the UID in the precondition", status=409)
            if sum(not node for node in self.pods.values()) >= self.budget:
                raise live_cluster.Unreachable("429 budget", may_pass=True)
            self.pods[pod] = ""
            self.written.append(f"evict {pod}")
            return {}
        if "/configmaps/" in path:
            layouts = yaml.safe_dump({"mig-configs": {key: [] for key in self.layouts}})
            return {"data": {"config.yaml": layouts}} if self.layouts else None
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            return None
        if method == "PATCH":
            read = {key: body["metadata"].pop(key) for key in ("uid", "resourceVersion")}
            if any(self._read(name)["metadata"][key] != value for key, value in read.items()):
                raise live_cluster.Unreachable("answers 409: the object has been modified", status=409)
            self.written.append(path)
            _merge(self.nodes[name], body)
        return self._read(name)

    def _read(self, name: str) -> dict[str, Any]:
        """Return a node as it is now, with a version that changes with any part of it."""
        found = deepcopy(self.nodes[name])
        found["metadata"]["resourceVersion"] = str(hash(repr(found)))
        return found


def _merge(into: dict[str, Any], body: Mapping[str, Any]) -> None:
    for key, value in body.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


FILE = """
config:
  gpupools:clusters:
    train:
      {cloud: aws, name: train, region: us-east-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
       node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes", kubeconfig: {path: /kube}}
  gpupools:pools:
    slices: {clusters: [train], gpu: A100-80GB, gpus_per_node: 8, nodes: {fixed: 5}, software: gpu-operator,
             upgrade: {max_unavailable: 2}, sharing: {mode: mig, profile: 1g.10gb}}
    whole: {clusters: [train], gpu: A100-80GB, gpus_per_node: 8, nodes: {fixed: 1}, software: gpu-operator}
    single: {clusters: [train], gpu: A100-80GB, gpus_per_node: 8, nodes: {fixed: 1}, software: gpu-operator,
             sharing: {mode: mig, profile: 1g.10gb, strategy: single}}
"""


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    file = tmp_path / "Pulumi.walk.yaml"
    file.write_text(FILE)
    monkeypatch.setattr(mig_walk, "_INTERVAL_S", 0)
    monkeypatch.setattr(live_cluster, "PAUSE_S", 0)

    def walked(api: Api, *words: str, to: str = "2g.20gb", pool: str = "slices") -> int:
        monkeypatch.setattr(live_cluster, "ClusterApi", lambda access: api)
        return main(["mig", "walk", "--pool", pool, "--to", to, "--timeout", "2", str(file), *words])

    return walked


def assert_done(api: Api) -> None:
    for node in api.nodes.values():
        assert node["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW
        assert node["metadata"]["labels"][MIG_STATE_LABEL] == "success"
        assert not node["spec"].get("unschedulable")
        assert not node["metadata"].get("annotations")
        assert node["status"]["allocatable"] == {"nvidia.com/gpu": "24"}
    assert api.most_cordoned == 2
    assert api.most_waiting <= api.budget


def test_without_yes_the_steps_are_printed(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()

    assert walk(api) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"0 of 5 nodes have {NEW}"
    assert out[1].endswith(
        f"Pulumi.walk.yaml: pools.slices still has {OLD}, and nodes that join get it; "
        "change it there after the walk, and run no pulumi up before"
    )
    assert out[2] == (
        f"would cordon n0, evict 2 pods, set {MIG_CONFIG_LABEL}={NEW}, wait for 24 nvidia.com/gpu, and uncordon it"
    )
    assert len(out) == 7
    assert api.written == []


def test_the_nodes_get_the_layout_two_at_a_time(walk: Any) -> None:
    api = Api()

    assert walk(api, "--yes") == 0
    assert_done(api)
    written = len(api.written)
    assert walk(api, "--yes") == 0
    assert len(api.written) == written


def test_killed_before_any_request_the_next_run_finishes(walk: Any) -> None:
    whole = Api()
    assert walk(whole, "--yes") == 0
    for place in range(whole.requests):
        api = Api()
        api.kill_at = place
        with pytest.raises(Killed):
            walk(api, "--yes")
        api.kill_at = -1
        assert walk(api, "--yes") == 0
        assert_done(api)


def test_a_node_that_fails_is_uncordoned_and_a_later_run_finishes_it(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Api()
    api.fails = "n1"

    assert walk(api, "--yes") == 1
    assert capsys.readouterr().err == (
        "n1: the MIG manager failed: see kubectl logs -n gpu-operator -l app=nvidia-mig-manager --kubeconfig /kube; "
        f"it is uncordoned with {MIG_CONFIG_LABEL}={NEW} in state failed, and pods get only what it offers; "
        "run the command again to go on\n"
    )
    assert not any(node["spec"].get("unschedulable") for node in api.nodes.values())
    assert api.nodes["n0"]["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW
    assert api.nodes["n2"]["metadata"]["labels"][MIG_CONFIG_LABEL] == OLD

    api.fails = ""
    assert walk(api, "--yes") == 0
    assert_done(api)


def test_what_holds_a_walk_is_said_before_anything_is_written(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bare, cordoned, unknown = Api(), Api(), Api(layouts=(OLD,))
    bare.bare = "p3"
    for name in ("n0", "n4"):
        cordoned.nodes[name]["spec"]["unschedulable"] = True
    said = (
        "n3: web/p3 has no controller and would not come back (--force allows it)",
        "n0 is cordoned already; n4 is cordoned already; max_unavailable is 2: uncordon or repair them",
        f"the MIG manager does not know {NEW}; wait a minute after this, and run the walk again: kubectl",
    )
    for api, text in zip((bare, cordoned, unknown), said, strict=True):
        assert walk(api, "--yes") == 1
        assert text in capsys.readouterr().err
        assert api.written == []


def test_a_budget_that_never_allows_an_eviction_ends_the_walk(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()
    api.budget = 0

    assert walk(api, "--yes", "--timeout", "0") == 1
    said = capsys.readouterr().err
    assert "n0: web/p0 stays: 429 budget\n" in said
    assert (
        "n0: its pods did not end in 0 s; web/p0 stays: 429 budget; web/p5 stays: 429 budget; it is uncordoned" in said
    )
    assert not any(node["spec"].get("unschedulable") for node in api.nodes.values())


@pytest.mark.parametrize(
    ("owner", "volumes", "flag", "loss"),
    [
        ("Job", [], "--evict-jobs", "web/p0 of Job web would lose the work it has done"),
        ("PyTorchJob", [], "--evict-jobs", "web/p0 of PyTorchJob web would lose the work it has done"),
        (
            "StatefulSet",
            [{"name": "x", "emptyDir": {}}],
            "--delete-emptydir-data",
            "web/p0 of StatefulSet web would lose",
        ),
        (
            "StatefulSet",
            [{"name": "x", "ephemeral": {"volumeClaimTemplate": {}}}],
            "--delete-emptydir-data",
            "web/p0 of StatefulSet web would lose the data of its volumes",
        ),
    ],
)
def test_what_an_eviction_loses_needs_its_flag(
    walk: Any, capsys: pytest.CaptureFixture[str], owner: str, volumes: list[Any], flag: str, loss: str
) -> None:
    api = Api()
    api.owner, api.volumes = owner, volumes

    for words in ((), ("--yes",), ("--yes", "--force")):
        assert walk(api, *words) == 1
        said = capsys.readouterr().err.splitlines()
        assert said[0].startswith(f"n0: {loss}")
        assert said[0].endswith(f"({flag} allows it)")
        assert len(said) == 11
        assert api.written == []
    assert walk(api, "--yes", flag) == 0
    assert_done(api)


class Changing(Api):
    """Something happens at the first eviction."""

    def __init__(self, happens: str) -> None:
        super().__init__()
        self.happens = happens

    def _request(self, path: str, query: Any, method: str, body: Any) -> Any:
        if path.endswith("/eviction") and self.happens == "moved":
            self.pods["p0"], self.happens = "n4", ""
        found = super()._request(path, query, method, body)
        if path.endswith("/eviction") and self.happens == "bare":
            self.pods["late"], self.bare = "n1", "late"
        if path.endswith("/eviction") and self.happens == "joins":
            self.nodes.setdefault("n9", self._node("n9"))
        if path.endswith("/eviction") and self.happens == "gone":
            self.nodes.pop("n1", None)
            self.pods = {pod: node for pod, node in self.pods.items() if node != "n1"}
        return found


def test_a_pod_without_a_controller_that_comes_meanwhile_is_not_evicted(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Changing("bare")

    assert walk(api, "--yes") == 1
    assert capsys.readouterr().err == (
        "n1: web/late has no controller and would not come back (--force allows it); "
        "it is uncordoned; run the command again to go on\n"
    )
    assert api.pods["late"] == "n1"
    assert not any(node["spec"].get("unschedulable") for node in api.nodes.values())


def test_a_node_that_joins_gets_the_layout_too_and_one_that_leaves_ends_nothing(walk: Any) -> None:
    for happens in ("joins", "gone"):
        api = Changing(happens)
        assert walk(api, "--yes") == 0
        assert len(api.nodes) == (6 if happens == "joins" else 4)
        assert_done(api)


def test_a_pod_that_came_again_on_another_node_is_not_evicted_there(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Changing("moved")

    assert walk(api, "--yes") == 0
    assert "n0: web/p0 stays: api.example.com answers 409: the UID in the precondition\n" in capsys.readouterr().err
    assert_done(api)


class Failing(Api):
    """Some requests get no answer."""

    def __init__(self, at: int, most: int, *, may_pass: bool) -> None:
        super().__init__()
        self.at, self.left, self.may_pass = at, most, may_pass

    def _count(self) -> None:
        if self.requests >= self.at and self.left:
            self.left -= 1
            raise live_cluster.Unreachable("the API is not reachable", may_pass=self.may_pass)
        super()._count()


class Replaced(Api):
    """A node belongs to another cluster, of another cloud or name, from some request on."""

    def __init__(self, at: int, **identity: Any) -> None:
        super().__init__()
        self.at, self.identity = at, identity

    def _count(self) -> None:
        super()._count()
        if self.requests > self.at and self.nodes["n1"]["metadata"]["uid"] != "other":
            self.nodes["n1"] = self._node("n1")
            _merge(self.nodes["n1"], self.identity)

    def _request(self, path: str, query: Any, method: str, body: Any) -> Any:
        found = super()._request(path, query, method, body)
        assert method != "PATCH" or found is None or found["metadata"]["uid"] != "other"
        return found


@pytest.mark.parametrize("of", ["gce://other/us-east1-b/n1", "aws:///us-east-1a/i-1", "nodegroup"])
def test_no_node_of_another_cluster_is_changed(walk: Any, capsys: pytest.CaptureFixture[str], of: str) -> None:
    """It takes the name of a node of ours at any time; the answer to the change of another uid is the API's."""
    whole = Api()
    assert walk(whole, "--yes") == 0
    for place in range(0, whole.requests, 3):
        labels = {"alpha.eksctl.io/cluster-name": "other"}
        labels = {"eks.amazonaws.com/nodegroup": "dev-slices-nodes-1"} if of == "nodegroup" else labels
        api = Replaced(place, spec={"providerID": of}, metadata={"uid": "other", "labels": labels})
        code, said = walk(api, "--yes"), capsys.readouterr().err
        refused = ("not the cluster of the file", "context of the file's cluster", "object has been modified")
        assert not code or any(each in said for each in refused)
        assert_said(api, said)


def test_an_answer_that_fails_for_the_moment_is_asked_for_again(walk: Any) -> None:
    whole = Api()
    assert walk(whole, "--yes") == 0
    for place in range(whole.requests):
        api = Failing(place, 2, may_pass=True)
        assert walk(api, "--yes") == 0
        assert_done(api)


@pytest.mark.parametrize("most", [1, 1000])
def test_no_node_stays_cordoned_without_a_sentence(walk: Any, capsys: pytest.CaptureFixture[str], most: int) -> None:
    """The API rejects one request, or all from then on; or the process ends."""
    whole = Api()
    assert walk(whole, "--yes") == 0
    for place in range(whole.requests):
        failing, killed = Failing(place, most, may_pass=False), Api()
        killed.kill_at = place
        assert walk(failing, "--yes") in (1, 2)
        assert_said(failing, capsys.readouterr().err)
        with pytest.raises(Killed):
            walk(killed, "--yes")
        assert_said(killed, capsys.readouterr().err)


def assert_said(api: Api, said: str) -> None:
    for name, node in api.nodes.items():
        if node["spec"].get("unschedulable"):
            assert "run the command again or kubectl uncordon" in said
            assert any(name in undone.partition(" &&")[0] for undone in said.split("kubectl uncordon ")[1:])
            assert re.search(rf"kubectl annotate node [n0-9 ]*{name}[n0-9 ]* gpupools/mig-walk-", said)


def test_a_node_that_somebody_else_cordoned_stays_so(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()
    api.nodes["n4"]["spec"]["unschedulable"] = True

    assert walk(api, "--yes") == 1
    assert "n4 is cordoned already" in capsys.readouterr().err
    assert api.nodes["n4"]["metadata"]["labels"][MIG_CONFIG_LABEL] == OLD
    assert api.nodes["n3"]["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW


OTHER = "a100-80gb-all-3g.40gb"
CORDONED: dict[str, Any] = {"spec": {"unschedulable": True}}
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
ENDING = {"deletionTimestamp": "2026-11-29T03:00:00Z"}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (NOT_READY, "n3 is not ready: nothing is done to it"),
        ({"metadata": ENDING}, "n3 is being removed: nothing is done to it"),
        (
            {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
            "n3 is being removed: nothing is done to it",
        ),
    ],
)
def test_a_node_that_is_not_there_for_pods_is_not_begun(
    walk: Any, capsys: pytest.CaptureFixture[str], found: dict[str, Any], said: str
) -> None:
    api = Api()
    _merge(api.nodes["n3"], found)

    assert walk(api, "--yes") == 1
    assert said in capsys.readouterr().err
    assert "/api/v1/nodes/n3" not in api.written
    assert api.most_cordoned == 1
    assert api.nodes["n2"]["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW


def test_a_begun_node_is_finished_also_if_it_is_not_ready(walk: Any) -> None:
    api = Api()
    _merge(api.nodes["n3"], NOT_READY | CORDONED | {"metadata": {"annotations": {mig_walk.ANNOTATION: NEW}}})

    assert walk(api, "--yes") == 0
    assert_done(api)


def test_a_walk_to_another_layout_is_named_and_its_cure_works(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()
    _merge(api.nodes["n3"], CORDONED | {"metadata": {"annotations": {mig_walk.ANNOTATION: OTHER}}})

    for words in ((), ("--yes",)):
        assert walk(api, *words) == 1
        said = capsys.readouterr().err
        assert f"another walk gives n3 the layout {OTHER}: let it end" in said
        assert said.endswith(
            "kubectl uncordon n3 --kubeconfig /kube && kubectl annotate node n3 gpupools/mig-walk- --kubeconfig /kube\n"
        )
        assert api.written == []
    _merge(api.nodes["n3"], {"spec": {"unschedulable": None}, "metadata": {"annotations": {mig_walk.ANNOTATION: None}}})
    assert walk(api, "--yes") == 0
    assert_done(api)


def test_an_annotation_without_a_cordon_is_no_walk(walk: Any) -> None:
    """An administrator uncordoned the node and cordons it no more."""
    api = Api()
    api.nodes["n3"]["metadata"]["annotations"] = {mig_walk.ANNOTATION: OTHER}

    assert walk(api, "--yes") == 0
    assert_done(api)


TAKEN = {"metadata": {"annotations": {mig_walk.ANNOTATION: f"{NEW} 0badcafe"}}}
LET_GO: dict[str, Any] = {"spec": {"unschedulable": None}, "metadata": {"annotations": {mig_walk.ANNOTATION: None}}}
DONE = {
    "metadata": {"labels": {MIG_CONFIG_LABEL: NEW, MIG_STATE_LABEL: "success"}, "annotations": None},
    "spec": {"unschedulable": None},
    "status": {"allocatable": {"nvidia.com/gpu": "24"}},
}


@pytest.mark.parametrize(
    ("happens", "to", "change", "code", "said"),
    [
        ("eviction", "n1", None, 0, "n1: the node is gone, and another one has its name"),
        ("eviction", "n1", LET_GO, 1, "n1: something else uncordoned it"),
        (
            "eviction",
            "n1",
            {"metadata": {"annotations": {mig_walk.ANNOTATION: OTHER}}},
            1,
            f"n1: another run has it: {mig_walk.ANNOTATION} is {OTHER}; nothing more is done to it",
        ),
        (
            "eviction",
            "n1",
            TAKEN,
            1,
            f"n1: another run has it: {mig_walk.ANNOTATION} is {NEW} 0badcafe; nothing more is done to it; if it stays",
        ),
        ("eviction", "n1", DONE, 0, f"n1: has {NEW}"),
        (
            "pending",
            "n0",
            {"metadata": {"labels": {MIG_CONFIG_LABEL: OLD}}},
            1,
            f"n0: {MIG_CONFIG_LABEL} is {OLD} again: something else sets it, such as pulumi up",
        ),
        ("pending", "n0", {"metadata": {"labels": {MIG_CONFIG_LABEL: None}}}, 1, f"{MIG_CONFIG_LABEL} is gone again"),
    ],
)
def test_what_others_do_to_a_node_in_the_middle_is_noticed(
    walk: Any, capsys: pytest.CaptureFixture[str], happens: str, to: str, change: dict[str, Any], code: int, said: str
) -> None:
    """At the first eviction, or after the node got its label; None replaces the node under its name."""
    api, answer, written = Api(), Api._request, list[int]()

    def changing(path: str, query: Any, method: str, body: Any) -> Any:
        found = answer(api, path, query, method, body)
        pending = body and body["metadata"].get("labels", {}).get(MIG_STATE_LABEL) and path.endswith(to)
        if not written and (path.endswith("/eviction") if happens == "eviction" else pending):
            written.append(0)
            if change is None:
                api.nodes[to] = api._node(to)
                api.nodes[to]["metadata"]["uid"] = "newcomer"
            else:
                _merge(api.nodes[to], change)
        elif written and method == "PATCH" and path.endswith(to):
            written.append(1)
        return found

    api._request = changing  # type: ignore[method-assign]
    assert walk(api, "--yes") == code
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert not written[1:] or happens == "pending" or change is None
    if change is None:
        assert_done(api)


@pytest.mark.parametrize(
    ("ending", "state", "said"),
    [
        ({"finalizers": ["example.com/keep"]}, {}, "finalizers example.com/keep"),
        ({"deletionGracePeriodSeconds": 86400}, {}, "it has 86400 s, until 2026-11-29T03:00:00Z"),
        ({"deletionGracePeriodSeconds": 30}, NOT_READY, "its node is not ready, and the kubelet ends no pod"),
    ],
)
def test_the_time_out_names_the_pods_that_do_not_end_and_why(
    walk: Any, capsys: pytest.CaptureFixture[str], ending: dict[str, Any], state: dict[str, Any], said: str
) -> None:
    api = Api()
    api.ending = ENDING | ending
    _merge(api.nodes["n0"], CORDONED | state | {"metadata": {"annotations": {mig_walk.ANNOTATION: NEW}}})

    assert walk(api, "--yes", "--timeout", "0") == 1
    assert (
        f"n0: its pods did not end in 0 s; web/p0 is ending: {said}; web/p5 is ending: {said}; it is uncordoned; run"
        in capsys.readouterr().err
    )


def test_a_node_that_the_mig_manager_may_cut_yet_stays_cordoned(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()
    api._cut = lambda: None  # type: ignore[method-assign]

    assert walk(api, "--yes", "--timeout", "0") == 1
    said = capsys.readouterr().err
    assert (
        f"n0: the layout did not come in 0 s; it stays cordoned with {MIG_CONFIG_LABEL}={NEW} in state pending" in said
    )
    assert_said(api, said)
    del api._cut
    assert walk(api, "--yes") == 0
    assert_done(api)


def test_killed_before_any_request_after_a_failure_the_next_run_finishes(walk: Any) -> None:
    """Among them is the one between taking the label from the node and setting it again."""
    for place in range(1000):
        api = Api()
        api.fails = "n1"
        assert walk(api, "--yes") == 1
        api.fails, api.kill_at = "", api.requests + place
        try:
            assert walk(api, "--yes") == 0
            break
        except Killed:
            api.kill_at = -1
        assert walk(api, "--yes") == 0
        assert_done(api)
    assert place > 20


def test_a_conflict_is_looked_at_again(walk: Any) -> None:
    """The kubelet or another program changes the node between reading and writing."""
    whole = Api()
    assert walk(whole, "--yes") == 0
    for place in range(whole.requests):
        api, answer = Api(), Api._request

        def conflicting(
            path: str, query: Any, method: str, body: Any, api: Api = api, place: int = place, answer: Any = answer
        ) -> Any:
            if api.requests == place and method == "PATCH":
                api._count()
                raise live_cluster.Unreachable("answers 409: the object has been modified", status=409)
            return answer(api, path, query, method, body)

        api._request = conflicting  # type: ignore[method-assign]
        assert walk(api, "--yes") == 0
        assert_done(api)


def test_a_label_that_something_sets_back_ends_the_walk(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api()
    merge = api._request

    def set_back(path: str, query: Any, method: str, body: Any) -> Any:
        found = merge(path, query, method, body)
        if api.written.count("/api/v1/nodes/n4") > 2:
            api.nodes["n0"]["metadata"]["labels"][MIG_CONFIG_LABEL] = OLD
        return found

    api._request = set_back  # type: ignore[method-assign]
    assert walk(api, "--yes") == 1
    assert "n0 lost the layout again: something else sets nvidia.com/mig.config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"to": "9g.90gb"}, "--to: "),
        ({"to": "4g.40gb,4g.40gb"}, "--to: "),
        ({"to": "3g.40gb,4g.40gb", "pool": "single"}, "--to: strategy single requires one profile"),
        ({"pool": "whole"}, "the GPU Operator's MIG manager does not cut the GPUs of this pool"),
        ({"pool": "slice"}, "the file has no pool 'slice'"),
    ],
)
def test_a_wrong_call_is_one_line(
    walk: Any, capsys: pytest.CaptureFixture[str], words: dict[str, str], said: str
) -> None:
    assert walk(Api(), **words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_layouts_of_the_mig_manager_that_are_not_yaml_end_the_walk(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    api = Api()
    answer = api._request

    def broken(path: str, query: Any, method: str, body: Any) -> Any:
        return (
            {"data": {"config.yaml": "mig-configs: ["}} if "configmaps" in path else answer(path, query, method, body)
        )

    api._request = broken  # type: ignore[method-assign]
    assert walk(api, "--yes") == 1
    assert "config.yaml of ConfigMap layouts: line 2, column 1: is not YAML" in capsys.readouterr().err
    assert api.written == []


def test_a_node_that_somebody_cordons_meanwhile_counts_as_unavailable(walk: Any) -> None:
    api = Api()
    cordon = api._count

    def count() -> None:
        cordon()
        if "/api/v1/nodes/n0" in api.written:
            api.nodes["n4"]["spec"]["unschedulable"] = True

    api._count = count  # type: ignore[method-assign]
    assert walk(api, "--yes") == 1
    assert api.most_cordoned == 3  # the two that were begun, and this one; then one at a time
    assert [name for name, node in api.nodes.items() if node["spec"].get("unschedulable")] == ["n4"]
    assert api.nodes["n3"]["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW


class Interrupted(Api):
    """Something happens before a request, which may be a whole second walk; no request of it is counted."""

    def __init__(self, at: int, happens: Callable[["Interrupted"], None]) -> None:
        super().__init__()
        self.at, self.happens = at, happens

    def _count(self) -> None:
        if self.requests == self.at:
            self.at = -1
            self.happens(self)
        super()._count()

    def held(self) -> dict[str, str]:
        """Return the annotation of each cordoned node."""
        cordoned = {name: node for name, node in self.nodes.items() if node["spec"].get("unschedulable")}
        return {name: node["metadata"]["annotations"][mig_walk.ANNOTATION] for name, node in cordoned.items()}


@pytest.mark.parametrize("requests", [6, 23, 1000])
def test_a_second_walk_takes_the_nodes_over_and_the_first_leaves_them_to_it(
    walk: Any, capsys: pytest.CaptureFixture[str], requests: int
) -> None:
    """The second starts before any request of the first, and is killed after some of its own."""
    whole, taken = Api(), 0
    assert walk(whole, "--yes") == 0
    for place in range(1, whole.requests, 2):
        left = dict[str, str]()

        def second(api: Interrupted, left: dict[str, str] = left) -> None:
            first, api.kill_at = api.held(), api.requests + requests
            try:
                assert walk(api, "--yes") == 0
            except Killed:
                left |= {name: held for name, held in api.held().items() if first.get(name) != held}
            api.kill_at = -1
            api.written.clear()

        api = Interrupted(place, second)
        code, said = walk(api, "--yes"), capsys.readouterr().err
        for name, held in left.items():
            if api.held().get(name) != held:
                # The first had not begun it: it is the later one then.
                assert f"{name}: another run has it" not in said
                continue
            taken += 1
            assert f"{name}: another run has it: gpupools/mig-walk is {held}; nothing more is done to it" in said
            assert f"/api/v1/nodes/{name}" not in api.written
        assert code == (1 if "another run has it" in said else 0)
        assert_said(api, said)
        assert walk(api, "--yes") == 0
        assert_done(api)
    assert taken > 3 or requests == 1000


def test_a_walk_that_fails_leaves_a_node_to_the_run_that_took_it(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """At any time, also between the look at which its time is over and letting the node go."""
    taken = 0
    for place in range(1, 40):
        api = Interrupted(place, lambda api: [_merge(api.nodes[name], TAKEN) for name in api.held()])
        api.budget = 0
        assert walk(api, "--yes", "--timeout", "0") == 1
        assert set(api.held().values()) <= {f"{NEW} 0badcafe"}
        assert_said(api, capsys.readouterr().err)
        taken += len(api.held())
    assert taken > 20


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("--context", "mine", "--kubeconfig", "/own kube"), "--context mine --kubeconfig '/own kube'"),
        (("--context", "train=mine"), "--context mine"),
        ((), "--kubeconfig /kube"),
    ],
)
def test_printed_commands_reach_the_cluster_of_the_run(
    walk: Any, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], flags: str
) -> None:
    unknown, missing, failed, killed = Api(layouts=(OLD,)), Api(layouts=()), Api(), Api()
    failed.fails, killed.kill_at = "n1", 30
    for api in (unknown, missing, failed, killed):
        with suppress(Killed):
            assert walk(api, "--yes", *words) == 1
    told = capsys.readouterr()

    commands = re.findall(r"kubectl .+?(?= &&|; |\n)", told.out + told.err)
    assert {command.split()[1] for command in commands} == {"uncordon", "annotate", "logs", "-n"}
    assert len(commands) > 10
    assert all(command.endswith(f" {flags}") for command in commands)


def test_no_printed_command_takes_the_current_context_for_an_endpoint_of_the_file(
    walk: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl answers `context "NAME" does not exist`."""
    host = "a1b2.gr7.us-east-1.eks.amazonaws.com"
    access = f"endpoint: {host}, certificate_authority: {b64encode(b'-----BEGIN CERTIFICATE-----').decode()}"
    (tmp_path / "Pulumi.walk.yaml").write_text(FILE.replace("kubeconfig: {path: /kube}", access))
    api = Api()
    api.fails = "n1"

    assert walk(api, "--yes", "--trust-endpoint", host) == 1
    told = capsys.readouterr()
    assert "logs -n gpu-operator -l app=nvidia-mig-manager --context NAME; " in told.err
    assert "kubectl uncordon n0 --context NAME && " in told.out


@pytest.mark.parametrize("words", [("--kubeconfig", "/kube"), ("--context", "other=mine", "--kubeconfig", "/none")])
def test_a_kubeconfig_that_is_given_is_used_or_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """A context is not taken for that of another cluster, and the access of the file instead of it."""
    file = tmp_path / "Pulumi.walk.yaml"
    file.write_text(FILE)

    assert main(["mig", "walk", "--pool", "slices", "--to", "2g.20gb", *words, str(file)]) == 2
    assert ("add --context" if len(words) == 2 else "/none: cannot be read") in capsys.readouterr().err


def test_a_configmap_that_is_missing_is_created_with_the_layouts_of_the_file(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The layouts that nodes have among them: else their MIG managers would fail."""
    assert walk(Api(layouts=()), "--yes") == 1
    said = capsys.readouterr().err
    words = shlex.split(said.partition("run the walk again: ")[2])
    content = json.loads(words[6].removeprefix("--from-literal=config.yaml="))

    assert words[:6] == ["kubectl", "-n", "gpu-operator", "create", "configmap", "layouts"]
    assert content["version"] == "v1"
    assert content["mig-configs"].keys() == {OLD, NEW, "all-disabled"}


def test_a_node_is_let_go_also_if_other_programs_change_it(walk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for conflicts in (3, 100):
        api = Api()
        api.fails = "n1"
        answer = api._request

        def conflicting(path: str, query: Any, method: str, body: Any, answer: Any = answer, api: Api = api) -> Any:
            nonlocal left
            state = api.nodes["n1"]["metadata"]["labels"][MIG_STATE_LABEL]
            if method == "PATCH" and path.endswith("n1") and state == "failed" and left:
                left -= 1
                raise live_cluster.Unreachable("answers 409: the object has been modified", status=409)
            return answer(path, query, method, body)

        left = conflicts
        api._request = conflicting  # type: ignore[method-assign]
        assert walk(api, "--yes") == 1
        said = capsys.readouterr().err
        assert bool(api.nodes["n1"]["spec"].get("unschedulable")) == (conflicts == 100)
        assert ("it may stay cordoned (answers 409" if conflicts == 100 else "it is uncordoned with") in said


def test_a_node_whose_namespace_is_being_deleted_is_waited_for_and_a_missing_permission_is_not(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for ends in (True, False):
        api = Api()
        answer = api._request

        def refusing(path: str, query: Any, method: str, body: Any, answer: Any = answer, api: Api = api) -> Any:
            nonlocal left
            if path.endswith("/p0/eviction") and left:
                left -= 1
                if not left:
                    api.pods.pop("p0")
                raise live_cluster.Unreachable("answers 403: is being terminated", may_pass=True, status=403)
            if path.endswith("/p0/eviction"):
                raise PermissionError("pods is forbidden")
            return answer(path, query, method, body)

        left = 3 if ends else 0
        api._request = refusing  # type: ignore[method-assign]
        assert walk(api, "--yes") == (0 if ends else 1)
        said = capsys.readouterr().err
        if ends:
            assert "n0: web/p0 stays: answers 403: is being terminated\n" in said
            assert_done(api)
        else:
            assert "n0: pods is forbidden; it is uncordoned; run the command again to go on" in said


SHORT = {
    "metadata": {"labels": {MIG_CONFIG_LABEL: NEW, MIG_STATE_LABEL: "success"}},
    "status": {"allocatable": {"nvidia.com/gpu": "21"}},
}


def test_a_node_with_the_layout_that_offers_less_is_named_and_keeps_its_pods(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU or the device plugin is broken; a cut mends neither."""
    api = Api()
    _merge(api.nodes["n3"], SHORT)
    why = f"n3 has {NEW} but offers 21 nvidia.com/gpu (see gpupools ready --pool slices --context train=mine "

    assert walk(api, "--yes", "--context", "mine") == 1
    said = capsys.readouterr().err
    assert said.count(why) == 5  # at each of four looks, and at the end
    assert not any(name.endswith(("p3", "p8", "n3")) for name in api.written)
    assert all(node["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW for node in api.nodes.values())
    assert api.most_cordoned == 1
    assert walk(api, "--context", "mine") == 1
    assert capsys.readouterr().err.startswith(why)


def test_a_node_whose_device_plugin_is_not_back_yet_is_waited_for(walk: Any) -> None:
    """It starts again some seconds after the cut, also where the run that cut it ended."""
    api = Api()
    _merge(api.nodes["n3"], SHORT | CORDONED)
    api.nodes["n3"]["metadata"]["annotations"] = {mig_walk.ANNOTATION: NEW}
    api.pods = {pod: "n4" if node == "n3" else node for pod, node in api.pods.items()}
    count = api._count

    def comes() -> None:
        if api.requests == 25:
            api.nodes["n3"]["status"]["allocatable"] = {"nvidia.com/gpu": "24"}
        count()

    api._count = comes  # type: ignore[method-assign]
    assert walk(api, "--yes") == 0
    assert_done(api)


def test_a_node_that_somebody_cordons_before_its_first_step_stays_so(
    walk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is free when the nodes are listed, and cordoned when the walk comes to it."""

    def cordon(api: Interrupted) -> None:
        if "n1" not in api.held():
            _merge(api.nodes["n1"], CORDONED)
            by_others.append(api)

    by_others = list[Interrupted]()
    for place in range(3, 20):
        api = Interrupted(place, cordon)
        code, said = walk(api, "--yes"), capsys.readouterr().err
        if api in by_others:
            assert api.nodes["n1"]["spec"].get("unschedulable")
            assert (code, "n1 is cordoned already" in said or "n1: it is cordoned already" in said) == (1, True)
    assert len(by_others) > 5
