"""New nodes take pods only when they offer their GPUs: scheduler, API server and the program that gpupools declares."""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.common.taints import STARTUP_TAINT
from gpupools.plan.node_labels import MIG_STATE_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from tests.apiserver.control_plane import Answer, ControlPlane, User
from tests.gpupools.software.test_teams import CLUSTER

pytestmark = pytest.mark.apiserver

POOLS: JsonDict = {
    "slices": {
        "gpu": "A100-40GB",
        "nodes": {"max": 2},
        "software": "gpu-operator",
        "sharing": {"mode": "mig", "profile": "1g.5gb"},
    },
    "big": {"gpu": "A100-40GB", "gpus_per_node": 8, "nodes": {"max": 1}, "startup_taint": True},
}
NAMED = {name: {"clusters": ["train"], **pool} for name, pool in POOLS.items()}
PLAN = plan_config({"clusters": {"train": {**CLUSTER, "runtime": {}}}, "pools": NAMED}, clouds())
SLICES, BIG = sorted(PLAN.pools, key=lambda pool: pool.name != "slices")
GATE = "gpupools-startup-gate"
ACCOUNT = User(f"system:serviceaccount:{GATE}:{GATE}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlPlane]:
    """Run a control plane with the declared objects and, in place of the Deployment's pod, its program."""
    with ControlPlane(tmp_path) as made:
        objects = {each.name: each.manifest for each in PLAN.runtimes[0].objects}
        own = [each for name, each in objects.items() if GATE in name or name.startswith("startup-gate")]
        for each in sorted(own, key=lambda each: each["kind"] != "Namespace"):
            made.apply(each).succeeded()
        account = tmp_path / "account"
        account.mkdir()
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{GATE}/serviceaccounts/{GATE}/token"
        token = made._ask("POST", path, asked, "application/json").succeeded()["status"]["token"]
        (account / "token").write_text(token, encoding="utf-8")
        shutil.copy(tmp_path / "certificates" / "apiserver.crt", account / "ca.crt")
        (code,) = (each["data"] for each in own if each["kind"] == "ConfigMap")
        for name, text in code.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(made._port)}
        python = Path(sys.executable).name
        made.run(python, str(tmp_path / "startup_gate.py"), str(tmp_path / "promises.json"), str(account), **where)
        yield made


def node(name: str, pool: PoolPlan, gpus: int | None) -> dict[str, Any]:
    amounts = {"cpu": "96", "memory": "500Gi", "pods": "110", **({} if gpus is None else {"nvidia.com/gpu": str(gpus)})}
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in pool.node_taints]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "labels": dict(pool.labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": status}


def pod(name: str, pool: PoolPlan) -> dict[str, Any]:
    spec = pool.pod()
    (container,) = spec["containers"]
    limits = {key: str(value) for key, value in container["resources"]["limits"].items()}
    spec = {**spec, "containers": [{**container, "image": "none", "resources": {"limits": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def bound(server: ControlPlane) -> dict[str, str]:
    found = server.items("/api/v1/namespaces/default/pods")
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found if "nodeName" in each["spec"]}


def offers(server: ControlPlane, on: Mapping[str, Any], gpus: int) -> None:
    amounts = {**on["status"]["allocatable"], "nvidia.com/gpu": str(gpus)}
    server.merge(on, {"status": {"capacity": amounts, "allocatable": amounts}}, "/status").succeeded()


def keys(server: ControlPlane, on: Mapping[str, Any]) -> list[str]:
    return [each["key"] for each in server.get(on).succeeded()["spec"].get("taints", [])]


def test_no_pod_is_bound_before_the_node_offers_what_the_plan_promises(server: ControlPlane) -> None:
    first, second = node("slices-0", SLICES, None), node("big-0", BIG, 8)
    server.create(first).succeeded()
    for index in range(7):
        server.create(pod(f"slice-{index}", SLICES)).succeeded()
    time.sleep(1)
    offers(server, first, 1)  # a whole GPU, before the GPU Operator cuts it
    time.sleep(4)
    assert bound(server) == {}
    assert STARTUP_TAINT.key in keys(server, first)

    offers(server, first, 7)  # of the last boot, while the MIG manager has not said that it is done
    time.sleep(2)
    assert STARTUP_TAINT.key in keys(server, first)
    server.merge(first, {"metadata": {"labels": {MIG_STATE_LABEL: "success"}}}).succeeded()
    server.wait("pods on the slices", lambda: len(bound(server)) == 7)
    assert keys(server, first) == ["nvidia.com/gpu"]

    server.create(pod("whole", BIG)).succeeded()
    server.create(second).succeeded()  # complete from the start
    server.wait("a pod on the whole GPUs", lambda: bound(server).get("whole") == "big-0")


def test_the_account_may_take_off_nothing_but_the_start_up_taint(server: ControlPlane) -> None:
    made = node("slices-0", SLICES, None)
    server.create(made).succeeded()
    kept = [each for each in made["spec"]["taints"] if each["key"] != STARTUP_TAINT.key]
    gate = [each for each in made["spec"]["taints"] if each["key"] == STARTUP_TAINT.key]

    def changed(change: Mapping[str, Any]) -> Answer:
        kind = "application/merge-patch+json"
        return server._ask("PATCH", "/api/v1/nodes/slices-0?dryRun=All", change, kind, ACCOUNT)

    labelled = {"metadata": {"labels": {"a": "b"}}}
    server.wait("the admission policy", lambda: changed(labelled).status == 422)
    for change in (
        labelled,
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": gate}},
        {"spec": {"taints": [*kept, {"key": "more", "effect": "NoExecute"}]}},
    ):
        refused = changed(change)
        assert (refused.status, "may only remove the taint" in refused.message) == (422, True), (
            change,
            refused.message,
        )
    assert changed({"spec": {"taints": kept}}).status == 200
