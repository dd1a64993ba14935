"""`gpupools ready` against a small server that answers like the Kubernetes API."""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli import ready
from gpupools.cli.main import main
from gpupools.common.errors import Problem
from gpupools.providers import clouds
from gpupools.ready import kubeconfig, live_cluster, watch
from gpupools.ready.live_cluster import Access
from tests.gpupools.ready.api import serving, write_files
from tests.gpupools.ready.situations import SITUATIONS
from tests.gpupools.ready.world import NOW, THEN, World, plan


def healthy(cluster: str, pool: str) -> World:
    world = World(cluster, pool)
    world.heal()
    return world


Asked = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(watch, "INTERVAL_S", 0.05)

    def asked(world: World, port: int, *words: str, user: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
        file = write_files(world, f"http://127.0.0.1:{port}", tmp_path, user)
        code = main(["ready", str(file), *words])
        out, err = capsys.readouterr()
        return code, out, re.sub(r"\Aconnects to 127[^\n]*\n", "", err)

    return asked


def test_pages_are_read_to_the_end_and_the_pool_is_ready(ask: Asked) -> None:
    world = healthy("train", "whole")
    for index in range(9):
        world.put("nodes", {"metadata": {"name": f"cpu{index}", "labels": {}}, "spec": {}, "status": {}})
    world.objects["nodes"] = world.objects["nodes"][2:] + world.objects["nodes"][:2]
    with serving(world) as api:
        assert ask(world, api.server_port) == (0, "train/whole: ready, 2 nodes\n", "")
        assert {method for method, _ in api.requests} == {"GET"}
        assert api.requests.count(("GET", "/api/v1/nodes")) == 6


def test_a_pool_that_is_short_is_shown_with_object_and_next_command(ask: Asked) -> None:
    world = healthy("train", "whole")
    world.offer("h1", **{"nvidia.com/gpu": "7"})
    with serving(world) as api:
        code, out, _ = ask(world, api.server_port)
        assert code == 1
        assert "  Node h1: nvidia.com/gpu: promised 8, allocatable 7 of 8\n" in out
        assert "  cause: fewer GPUs than the machine has: Node h1, since 5 min\n" in out
        code, out, _ = ask(world, api.server_port, "--json")
    answer = json.loads(out)
    assert (code, answer["result"], answer["pools"][0]["state"]) == (1, "refused", "not ready")
    assert answer["pools"][0]["causes"][0]["cause"] == "fewer-gpus"
    assert answer["pools"][0]["ready_nodes"] == 1


@pytest.mark.parametrize("kind", ["pods", "daemonsets", "runtimeclasses"])
def test_what_is_forbidden_is_not_seen_and_no_pass(ask: Asked, kind: str) -> None:
    world = healthy("train", "whole")
    with serving(world) as api:
        api.forbidden = {kind}
        code, out, _ = ask(world, api.server_port)
        of_json = ask(world, api.server_port, "--json")
    assert (code, of_json[0], json.loads(of_json[1])["result"]) == (3, 3, "unknown")
    assert out.startswith(f"train/whole: not seen ({kind}: {kind} is forbidden: ")
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("is_whole", "problem", "code"), [(True, "", 0), (True, "x", 3), (False, "x", 1), (None, "x", 2)]
)
def test_a_cluster_that_is_not_read_is_unknown_where_no_pool_fails(
    is_whole: bool | None, problem: str, code: int
) -> None:
    world = healthy("train", "whole")
    world.offer("h1", **{"nvidia.com/gpu": "8" if is_whole else "7"})
    seen = watch.Watch([], {}, {}, lambda key: Access(None), "Pulumi.live.yaml")
    seen.statuses = {} if is_whole is None else {"train": [world.status()]}
    seen.problems = {"lab": Problem((), problem)} if problem else {}
    assert seen.code == code


def test_causes_are_found_without_events(ask: Asked) -> None:
    world = healthy("serve", "mig")
    world.label("nvidia.com/mig.config.state", "failed", "h0")
    with serving(world) as api:
        api.forbidden = {"events", "configmaps", "clusterpolicies"}
        code, out, _ = ask(world, api.server_port)
    assert code == 1
    assert "cause: MIG layout refused: Node h0" in out


def test_the_pod_of_the_operator_is_read_by_its_label(ask: Asked) -> None:
    (given,) = (each for each in SITUATIONS if each.name == "the operator under another container name crashes")
    world = given.world(NOW)
    with serving(world) as api:
        code, out, _ = ask(world, api.server_port)
    assert code == 1
    assert f"cause: GPU Operator not ready: Pod gpu-operator/{given.next.rpartition(' ')[2]}" in out


def test_failed_pods_of_users_are_read(ask: Asked) -> None:
    world = healthy("train", "whole")
    why = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
    meta = {"namespace": "team", "name": "job", "creationTimestamp": THEN}
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": why}
    world.put("pods", {"metadata": meta, "spec": {"nodeName": "h0"}, "status": status})
    with serving(world) as api:
        code, out, _ = ask(world, api.server_port)
    assert code == 1
    assert f"  Pod team/job: UnexpectedAdmissionError {why}\n" in out
    assert "    next: kubectl -n team describe pod job\n" in out


def test_forbidden_nodes_are_one_line_and_exit_2(ask: Asked) -> None:
    world = healthy("train", "whole")
    with serving(world) as api:
        api.forbidden = {"nodes"}
        code, out, err = ask(world, api.server_port)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot list resource" in err
    assert "cluster-ready.json" in err


def free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return server.server_port


@pytest.mark.parametrize("timeout", ["0", "1"])
def test_no_server_is_one_line_and_exit_2(ask: Asked, timeout: str) -> None:
    code, out, err = ask(healthy("train", "whole"), free_port(), "--timeout", timeout)
    assert code == 2
    assert err.count("\n") == 1
    assert "is not reachable" in err
    assert out.count("\n") <= 1


def test_server_that_is_gone_for_a_while_is_waited_for(ask: Asked) -> None:
    world, port, started = healthy("train", "whole"), free_port(), threading.Event()

    def later() -> None:
        time.sleep(1)
        with serving(world, port):
            started.wait(30)

    thread = threading.Thread(target=later)
    thread.start()
    try:
        code, out, err = ask(world, port, "--timeout", "20")
    finally:
        started.set()
        thread.join()
    assert (code, err) == (0, "")
    assert "is not reachable" in out
    assert out.endswith("train/whole: ready, 2 nodes\n")


def test_waiting_prints_one_line_per_change(ask: Asked) -> None:
    world = World("train", "zero")
    with serving(world) as api:
        api.steps = [world.waiting, lambda: None, world.node, world.heal]
        code, out, err = ask(world, api.server_port, "--timeout", "30")
    assert (code, err) == (0, ""), out
    assert out.splitlines() == [
        "train/zero: not ready, no node yet: no autoscaler or it does not know the node group",
        "train/zero: not ready, 0 of 1 node ready: unknown",
        "train/zero: ready, 1 node",
    ]


def test_on_a_terminal_waiting_pools_are_redrawn_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "columns", lambda _: 20)
    monkeypatch.setattr(ready, "shows_colour", lambda _: True)
    ready._tell_waiting({"a": "a: waits for a long time", "b": "b: ready"}, {})
    ready._tell_waiting({"a": "a: ready", "b": "b: ready"}, {"a": "", "b": ""})

    assert capsys.readouterr().out == "a: waits for a long\nb: ready\n\x1b[2A\x1b[Ja: ready\nb: ready\n"


def test_watching_goes_on_and_prints_a_line_of_json_per_look(ask: Asked) -> None:
    world = World("train", "zero")
    with serving(world) as api:
        api.steps = [world.heal, lambda: None, world.waiting, lambda: world.offer("h0", **{"nvidia.com/gpu": "0"})]
        code, out, _ = ask(world, api.server_port, "--watch", "--timeout", "4", "--json")
    states = [json.loads(line)["pools"][0]["state"] for line in out.splitlines()]
    assert (code, states[0], states[-1]) == (1, "ready", "not ready")


def test_slow_server_is_waited_for(ask: Asked) -> None:
    world = healthy("lab", "claimed")
    with serving(world) as api:
        api.delay_s = 0.1
        assert ask(world, api.server_port)[0] == 0


def plugin(command: str, *args: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1beta1"
    return {"exec": {"apiVersion": version, "command": command, "args": list(args), "interactiveMode": "Never"}}


@pytest.mark.parametrize(
    ("user", "what"),
    [
        (
            plugin("/no/such/aws"),
            "/no/such/aws gave no token: [Errno 2] No such file or directory: ",
        ),
        (plugin("sleep", "30"), "sleep gave no token: it did not end in 1 s; "),
        (plugin("false"), "false gave no token: exec: process returned 1; "),
        (plugin("echo", "[]"), "echo gave no token"),
    ],
)
def test_plugin_that_gives_no_token(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], what: str
) -> None:
    monkeypatch.setattr(kubeconfig, "PLUGIN_TIMEOUT_S", 1)
    with serving(healthy("train", "whole")) as api:
        code, out, err = ask(api.world, api.server_port, user=user)
        assert api.requests == []
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err


def test_plugin_gives_a_token(ask: Asked) -> None:
    given = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {"token": "t"}}
    with serving(healthy("train", "whole")) as api:
        assert ask(api.world, api.server_port, user=plugin("echo", json.dumps(given)))[0] == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--pool", "whle"], "--pool: the file has no pool 'whle'; did you mean 'whole'?"),
        (["--kubeconfig", "kube"], "--kubeconfig: is used for the clusters that --context names"),
        (["--context", "none"], ".kube/config: cannot be read: No such file or directory; "),
    ],
)
def test_wrong_calls_are_one_line_and_exit_2(ask: Asked, words: list[str], what: str) -> None:
    code, out, err = ask(healthy("train", "whole"), 1, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert what in err


@pytest.mark.parametrize(
    ("log", "code"), [("GPU 0: A100\n  MIG 1g.10gb Device 0: (UUID: MIG-1)", 0), ("GPU 0: A100", 1)]
)
def test_smoke_test_is_deleted_and_sees_a_slice(ask: Asked, log: str, code: int) -> None:
    world = healthy("train", "mig")
    with serving(world) as api:
        api.log = log
        found, out, err = ask(world, api.server_port, "--smoke")
        made = [path for method, path in api.requests if method == "POST"]
        deleted = [path for method, path in api.requests if method == "DELETE"]
        (job,) = api.jobs
    assert found == code
    assert ("smoke test passed" in out) == (code == 0)
    assert ("got a whole GPU instead of a MIG slice: GPU 0: A100" in err) == (code == 1)
    assert job["metadata"]["generateName"] == "ready-mig-"
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][2].startswith("nvidia-smi -L")
    assert len(made) == len(deleted) == 2


def test_a_smoke_test_may_take_longer_than_a_look(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_cluster, "LOOK_S", 1.5)
    world = healthy("train", "whole")
    with serving(world) as api:
        code, out, err = ask(world, api.server_port, "--smoke")
    assert (code, err) == (0, "")
    assert "smoke test passed" in out


@pytest.mark.parametrize("what", ["objects", "pages", "bytes"])
def test_all_lists_of_a_look_share_one_limit(
    what: str, ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list is within the limit, and all together are not."""
    world = healthy("train", "whole")
    with serving(world) as api:
        api.page = 500
        write_files(world, f"http://127.0.0.1:{api.server_port}", tmp_path)
        door = live_cluster.ClusterApi(Access(tmp_path / "kube" / "config", "x", tmp_path / "stack"))
        with door.look():
            live_cluster.read_snapshot(door, plan().stack.clusters[world.cluster], clouds()["aws"])
            spent = dict(door._spent)
        monkeypatch.setitem(live_cluster.MOST, what, spent[what] - 1)
        code, out, err = ask(world, api.server_port)
        monkeypatch.setitem(live_cluster.MOST, what, spent[what])
        assert ask(world, api.server_port)[0] == 0
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"more than {spent[what] - 1} {what} in one look" in err


def test_what_of_a_smoke_test_cannot_be_deleted_is_named_and_the_rest_deleted(ask: Asked) -> None:
    world = healthy("train", "mig")
    with serving(world) as api:
        api.log, api.keeps_jobs = "MIG 1g.10gb Device 0: (UUID: MIG-1)", True
        code, _, err = ask(world, api.server_port, "--smoke")
        deleted = [path for method, path in api.requests if method == "DELETE"]
    assert code == 1
    assert "smoke test failed: /apis/batch/v1/namespaces/gpupools-smoke-test/jobs/made is left: jobs are not" in err
    assert deleted[-1].startswith("/api/v1/namespaces/")
    assert len(deleted) == 2


def test_clock_of_this_machine_does_not_matter(ask: Asked) -> None:
    """The server's clock is the world's, months from this machine's."""
    world = healthy("train", "whole")
    world.offer("h1", **{"nvidia.com/gpu": "0"})
    world.stuck("device plugin", waiting={"reason": "ContainerCreating"}, node="h1")
    world.objects["pods"] = [
        pod
        for pod in world.objects["pods"]
        if pod["metadata"]["name"] != "device-plugin-h1" or pod["status"]["phase"] == "Pending"
    ]
    world.event("Pod gpu-operator/device-plugin-h1", "FailedMount", 'configmap "a" not found')
    with serving(world) as api:
        _, out, _ = ask(world, api.server_port)
    assert "cause: plugin has another configuration: Pod gpu-operator/device-plugin-h1, since 5 min" in out
