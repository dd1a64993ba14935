"""The start-up taint: where nodes get it, who tolerates it, what removes it, and where it is refused."""

import json
from collections.abc import Mapping
from email.message import Message
from http.client import IncompleteRead
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.common.taints import STARTUP_TAINT
from gpupools.plan.node_labels import MIG_STATE_LABEL
from gpupools.providers import clouds
from gpupools.software import startup_gate
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.changes import diff

OPERATOR = {"gpu": "A100-80GB", "gpus_per_node": 8, "nodes": {"max": 2}, "software": "gpu-operator"}
MIG = {**OPERATOR, "sharing": {"mode": "mig", "profile": "1g.10gb"}}
ACCESS = {"kubeconfig": {"path": "~/.kube/train"}, "places": "trust"}


def plan(pool: Mapping[str, Any], cloud: str = "gcp", runtime: Mapping[str, Any] | None = None) -> StackPlan:
    cluster: JsonDict = {**clouds()[cloud].example_cluster, **ACCESS, "runtime": dict(runtime or {})}
    return plan_config({"clusters": {"train": cluster}, "pools": {"a": {"clusters": ["train"], **pool}}}, clouds())


def refused(pool: Mapping[str, Any], cloud: str = "gcp", runtime: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(Rejected) as found:
        plan(pool, cloud, runtime)
    return "\n".join(map(str, found.value.problems))


@pytest.mark.parametrize(
    ("pool", "cloud", "tainted"),
    [
        pytest.param(MIG, "gcp", True, id="MIG of the operator, from zero"),
        pytest.param(MIG, "aws", True, id="on EKS"),
        pytest.param(MIG, "azure", False, id="AKS cannot"),
        pytest.param({**MIG, "nodes": {"min": 1, "max": 2}}, "aws", False, id="not from zero"),
        pytest.param({**MIG, "startup_taint": False}, "gcp", False, id="switched off"),
        pytest.param(OPERATOR, "gcp", False, id="whole GPUs"),
        pytest.param({**OPERATOR, "startup_taint": True}, "gcp", True, id="whole GPUs, asked for"),
        pytest.param({"gpu": "L4", "nodes": {"max": 2}, "startup_taint": True}, "gcp", True, id="GKE's own software"),
    ],
)
def test_nodes_have_it_where_a_pod_could_be_too_early(pool: JsonDict, cloud: str, tainted: bool) -> None:
    (made,) = plan(pool, cloud).pools

    assert (STARTUP_TAINT in made.node_taints) == tainted
    assert STARTUP_TAINT not in made.taints
    assert STARTUP_TAINT.key not in str(made.pod())


def test_existing_software_switches_the_default_off() -> None:
    (made,) = plan(MIG, "gcp", {"existing": {"node_feature_discovery": "nfd/nfd"}}).pools

    assert made.startup_taint is None


def test_every_daemon_of_the_pool_tolerates_it() -> None:
    (runtime,) = plan(MIG).runtimes
    (release,) = runtime.releases
    toleration = {"key": STARTUP_TAINT.key, "operator": "Exists", "effect": "NoSchedule"}

    assert toleration in release.values["daemonsets"]["tolerations"]
    assert toleration in release.values["node-feature-discovery"]["worker"]["tolerations"]
    daemons = [each.manifest for each in runtime.objects if each.kind == "DaemonSet"]
    assert daemons
    assert all(toleration in each["spec"]["template"]["spec"]["tolerations"] for each in daemons)


def test_network_devices_are_promised_too() -> None:
    efa = {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}
    wanted = {"instance_type": "p5.48xlarge", "nodes": {"max": 2}, "zones": ["eu-central-1a"], "network": efa}
    pool = {**wanted, "clusters": ["train"], "software": "device-plugin", "startup_taint": True}
    cluster = {**clouds()["aws"].example_cluster, **ACCESS, "subnets_by_zone": {"eu-central-1a": ["subnet-0000000a"]}}
    del cluster["subnet_ids"]
    (runtime,) = plan_config({"clusters": {"train": cluster}, "pools": {"a": pool}}, clouds()).runtimes
    (promised,) = (
        each.manifest["data"]["promises.json"]
        for each in runtime.objects
        if each.name.endswith("startup-gate") and each.kind == "ConfigMap"
    )

    assert json.loads(promised) == {"a": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}}


def test_a_deployment_on_other_nodes_removes_it() -> None:
    (runtime,) = plan({**MIG, "startup_taint": True}, runtime={"cpu_taints": ["a=b:NoSchedule"]}).runtimes
    made = {each.name: each.manifest for each in runtime.objects}
    pod = made["startup-gate/deployment"]["spec"]["template"]["spec"]
    (name,) = (each["configMap"]["name"] for each in pod["volumes"])
    (code,) = (each["data"] for each in made.values() if each["metadata"]["name"] == name)

    assert json.loads(code["promises.json"]) == {"a": {"nvidia.com/gpu": 56}}
    assert code["startup_gate.py"] == Path(startup_gate.__file__).read_text(encoding="utf-8")
    assert pod["tolerations"] == [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    assert [each.image for each in runtime.images if each.image.startswith("docker.io")]
    assert not [each for each in plan(OPERATOR).runtimes[0].objects if "startup" in each.name]


def test_an_edit_of_it_keeps_pods() -> None:
    (change,) = diff(plan(OPERATOR), plan({**OPERATOR, "startup_taint": True}), clouds())

    assert [(each.field, each.effect.value, each.pods.value) for each in change.fields if each.pods] == [
        ("taints", "in-place", "stay")
    ]


PROMISED = {"nvidia.com/gpu": 7, "vpc.amazonaws.com/efa": 4}


@pytest.mark.parametrize(
    ("offered", "complete"),
    [
        ({"nvidia.com/gpu": "7", "vpc.amazonaws.com/efa": "4"}, True),
        ({"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4"}, True),
        ({"nvidia.com/gpu": "7", "vpc.amazonaws.com/efa": "3"}, False),
        ({"nvidia.com/gpu": "7"}, False),
        ({"nvidia.com/gpu": "7k", "vpc.amazonaws.com/efa": "4"}, False),
        (None, False),
    ],
)
def test_a_node_is_complete_with_all_it_promises(offered: Mapping[str, str] | None, complete: bool) -> None:
    node = {"metadata": {"labels": {startup_gate.POOL: "a"}}, "status": {"allocatable": offered}}
    assert startup_gate.is_complete(node, PROMISED) == complete


@pytest.mark.parametrize(
    ("state", "complete"),
    [(None, False), ("pending", False), ("rebooting", False), ("failed", False), ("success", True)],
)
def test_as_many_whole_gpus_as_slices_are_not_complete_before_they_are_cut(state: str | None, complete: bool) -> None:
    (pool,) = plan({**MIG, "gpu": "H100-80GB", "sharing": {"mode": "mig", "profile": "7g.80gb"}}, "aws").pools
    labels = {**pool.labels, startup_gate.POOL: "a"} | ({MIG_STATE_LABEL: state} if state else {})
    node = {"metadata": {"labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    assert startup_gate.is_complete(node, pool.node_resources) == complete
    assert f"{startup_gate.MIG}.state" == MIG_STATE_LABEL


def test_a_patch_that_fails_stops_no_other_node(capsys: pytest.CaptureFixture[str]) -> None:
    def node(name: str) -> dict[str, Any]:
        meta = {"name": name, "labels": {startup_gate.POOL: "a"}}
        spec = {"taints": [{"key": startup_gate.KEY, "effect": "NoSchedule"}]}
        return {"metadata": meta, "spec": spec, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}

    class Api(startup_gate.Api):
        def __init__(self) -> None:
            self.patched: list[str] = []

        def open(self, path: str, patch: Any = None, timeout_s: int = 30) -> Any:
            if patch is None:
                events = [{"type": "ADDED", "object": node(name)} for name in ("bad", "cut", "good")]
                return BytesIO(b"\n".join(json.dumps(each).encode() for each in events))
            name = path.rpartition("/")[2]
            if name == "bad":
                raise HTTPError(path, 403, "denied by a webhook", Message(), None)
            if name == "cut":
                raise IncompleteRead(b"")
            self.patched.append(name)
            return BytesIO()

    api = Api()
    startup_gate.watch(api, {"a": {"nvidia.com/gpu": 8}})
    assert api.patched == ["good"]
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["bad", "cut", "good"]
    assert "denied by a webhook" in out[0]


def test_the_patch_keeps_the_other_taints_and_tests_what_it_saw() -> None:
    other = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    own = {"key": startup_gate.KEY, "value": "x", "effect": "NoSchedule"}

    assert startup_gate.patch_of({"spec": {"taints": [other, own]}}) == [
        {"op": "test", "path": "/spec/taints", "value": [other, own]},
        {"op": "replace", "path": "/spec/taints", "value": [other]},
    ]
    assert startup_gate.patch_of({"spec": {"taints": [other]}}) is None
    assert startup_gate.patch_of({"spec": {}}) is None
    assert STARTUP_TAINT.key == startup_gate.KEY
