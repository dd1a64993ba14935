"""`gpupools policy --context NAME` against a small server that answers like the Kubernetes API."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, gpus: int, *taints: Mapping[str, str]) -> dict[str, Any]:
    capacity = {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"metadata": {"name": name, "uid": name}, "spec": {"taints": list(taints)}, "status": {"capacity": capacity}}


def pod(name: str, on: str, owner: str = "ReplicaSet", **limits: str) -> dict[str, Any]:
    meta = {"name": name, "uid": name, "namespace": "web", "ownerReferences": [{"kind": owner, "name": "x"}]}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {"metadata": meta, "spec": {"nodeName": on, "containers": containers}, "status": {"phase": "Running"}}


def half(name: str, scheduler: str) -> dict[str, Any]:
    made = pod(name, "tainted")
    metadata = {**made["metadata"], "annotations": {"gpu-fraction": "0.5"}}
    return {**made, "metadata": metadata, "spec": {**made["spec"], "schedulerName": scheduler}}


class _Api(ThreadingHTTPServer):
    lists: Mapping[str, list[dict[str, Any]]]
    forbidden: frozenset[str]
    asked: list[str]


class _Handler(BaseHTTPRequestHandler):
    server: _Api

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        kind, query = url.path.rpartition("/")[2], parse_qs(url.query)
        self.server.asked.append(kind)
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        found = self.server.lists.get(kind, [] if kind in ("nodes", "pods") else None)
        status = 403 if kind in self.server.forbidden else 404 if found is None else 200
        more = {"continue": str(start + limit)} if len(found or ()) > start + limit else {}
        page = {"metadata": more, "items": (found or [])[start : start + limit]}
        data = json.dumps(page if status == 200 else {"message": f"cannot list {kind}"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass


@contextmanager
def serving(lists: Mapping[str, list[dict[str, Any]]], *forbidden: str) -> Iterator[_Api]:
    api = _Api(("127.0.0.1", 0), _Handler)
    api.lists, api.forbidden, api.asked = lists, frozenset(forbidden), []
    thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        api.shutdown()
        thread.join()
        api.server_close()


@pytest.fixture
def judge(tmp_path: Path, run: Run) -> Callable[..., tuple[int, str, str]]:
    def judged(api: _Api, *words: str) -> tuple[int, str, str]:
        file = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}
        context = {"name": "prod", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
        file.write_text(yaml.safe_dump(config))
        return run("policy", "--context", "prod", "--kubeconfig", file, "--verbose", *words)

    return judged


def test_nodes_and_pods_of_a_cluster_are_judged(judge: Callable[..., tuple[int, str, str]]) -> None:
    """A daemon, a pod with a GPU or a fraction of one by KAI, one on a CPU node and one that ended are no findings."""
    ended = pod("ended", "tainted") | {"status": {"phase": "Succeeded"}}
    pods = [
        pod("web", "tainted"),
        pod("agent", "tainted", "DaemonSet"),
        pod("train", "tainted", **{"nvidia.com/gpu": "1"}),
        pod("slice", "tainted", **{"nvidia.com/mig-1g.10gb": "1"}),
        half("half", "kai-scheduler"),
        half("half-by-nobody", "default-scheduler"),
        pod("api", "cpu"),
        ended,
    ]
    nodes = [node("tainted", 8, TAINT), node("bare", 1), node("cpu", 0)]
    with serving({"nodes": nodes, "pods": pods, "daemonsets": []}) as api:
        code, out, err = judge(api)

    assert code == 1
    # On stderr, also where the answer is JSON.
    what = f"judges the cluster c at 127.0.0.1:{api.server_port}"
    assert err == f"context prod: {what}; no stack file names it, so nothing proves which one it is\n"
    assert "context prod: Node/bare: violation: has 1 NVIDIA GPU" in out
    found = [line for line in out.splitlines() if "[gpu-node-pods-use-gpus]" in line]
    assert [line.partition(": runs")[0] for line in found] == [
        "context prod: Pod/web/web: advice",
        "context prod: Pod/web/half-by-nobody: advice",
    ]
    assert "Node/tainted: violation" not in out


def test_pages_are_read_to_the_end(judge: Callable[..., tuple[int, str, str]]) -> None:
    nodes = [node(f"cpu{index}", 0) for index in range(1100)] + [node("bare", 1)]
    with serving({"nodes": nodes, "pods": [], "daemonsets": []}) as api:
        code, out, _ = judge(api)

    assert code == 1
    assert "Node/bare: violation" in out
    assert api.asked.count("nodes") == 3


def test_what_is_forbidden_is_not_seen_and_no_pass(judge: Callable[..., tuple[int, str, str]]) -> None:
    with serving({"nodes": [node("tainted", 8, TAINT)], "pods": []}, "daemonsets") as api:
        code, out, _ = judge(api)

    assert code == 1
    assert "daemonsets are not seen: cannot list daemonsets; grant list of daemonsets" in out


def test_where_nothing_can_be_seen_the_exit_code_is_2(judge: Callable[..., tuple[int, str, str]], run: Run) -> None:
    every = ("nodes", "pods", "daemonsets", "clusterpolicies", "nodepools", "computeclasses")
    with serving({}, *every) as api:
        code, _, err = judge(api)
    assert code == 2
    assert err == "context prod: nodes are not seen: cannot list nodes\n"

    code, _, err = judge(api)  # the server is gone
    assert code == 2
    assert "is not reachable" in err
    assert len(err.splitlines()) == 1

    code, out, _ = judge(api, "--json")
    assert (code, json.loads(out)["result"]) == (2, "failed")
    assert "is not reachable" in json.loads(out)["problems"][0]["what"]


def test_a_context_goes_with_no_files(run: Run) -> None:
    with pytest.raises(SystemExit):
        run("policy", "--context", "prod", "file.yaml")
