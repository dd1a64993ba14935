"""The admission policies of `gpupools policy --admission` on a real API server: it says what the command line says."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.audit.admission import admission_objects
from gpupools.audit.judging import judge_file
from gpupools.policies.policy_config import Config
from tests.apiserver.control_plane import ControlPlane, User

pytestmark = pytest.mark.apiserver

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TYPE = "node.kubernetes.io/instance-type"
AWS, AZURE = "karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-"
REQUIREMENTS: Mapping[str, Mapping[str, Any]] = {
    "type": {"key": TYPE, "operator": "In", "values": ["m5.large", "g6.xlarge"]},
    "azure-type": {"key": TYPE, "operator": "In", "values": ["Standard_NC24ads_A100_v4"]},
    "gpu-name": {"key": f"{AWS}gpu-name", "operator": "In", "values": ["l4"]},
    "gpu-exists": {"key": f"{AWS}gpu-count", "operator": "Exists"},
    "gpu-count": {"key": f"{AWS}gpu-count", "operator": "Gt", "values": ["0"]},
    "azure-gpu": {"key": f"{AZURE}gpu-count", "operator": "Gt", "values": ["0"]},
    "cpu": {"key": TYPE, "operator": "In", "values": ["m5.large"]},
    "no-gpu": {"key": f"{AWS}gpu-count", "operator": "DoesNotExist"},
}
TAINTS: Mapping[str, list[Mapping[str, str]]] = {
    "bare": [],
    "tainted": [TAINT],
    "other": [{"key": "team", "value": "ml", "effect": "NoExecute"}],
    "soft": [TAINT | {"effect": "PreferNoSchedule"}],
}


def node_pool(requirement: str, taint: str) -> dict[str, Any]:
    kind = "AKSNodeClass" if requirement.startswith("azure") else "EC2NodeClass"
    group = "karpenter.azure.com" if kind == "AKSNodeClass" else "karpenter.k8s.aws"
    spec = {
        "requirements": [REQUIREMENTS[requirement]],
        "taints": TAINTS[taint],
        "nodeClassRef": {"group": group, "kind": kind, "name": "x"},
    }
    metadata = {"name": f"{requirement}-{taint}"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata,
        "spec": {"template": {"spec": spec}},
    }


def definition() -> dict[str, Any]:
    """Return a definition with the fields of Karpenter's that the policies read."""
    text = {"type": "string"}
    values = {"type": "array", "items": text}
    requirement = {"type": "object", "properties": {"key": text, "operator": text, "values": values}}
    taint = {"type": "object", "properties": {"key": text, "value": text, "effect": text}}
    of_class = {"type": "object", "properties": {"group": text, "kind": text, "name": text}}
    listed = {"requirements": {"type": "array", "items": requirement}, "taints": {"type": "array", "items": taint}}
    inner = {"type": "object", "properties": {"nodeClassRef": of_class, **listed}}
    template = {"type": "object", "properties": {"spec": inner}}
    spec = {"type": "object", "properties": {"template": template}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool", "listKind": "NodePoolList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {"group": "karpenter.sh", "scope": "Cluster", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module")
def guarded(server: ControlPlane) -> Iterator[ControlPlane]:
    objects = [definition(), *admission_objects("deny")]
    for each in objects:
        server.apply(each).succeeded()
    deadline = time.monotonic() + 60
    # A policy acts some time after it is there, and a kind is served some time after its definition.
    while "tolerates the taint" not in server.create(pod([TAINT | {"operator": "Equal"}]), dry_run=True).message or (
        "NodePool takes" not in server.create(node_pool("gpu-exists", "bare"), dry_run=True).message
    ):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    yield server
    for each in reversed(objects):
        server.delete(each)


def pod(tolerations: list[Mapping[str, Any]], limits: Mapping[str, int] | None = None) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": dict(limits or {})}}
    spec = {"containers": [container], "tolerations": tolerations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def node(labels: Mapping[str, str], *taints: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": "n", "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize("requirement", REQUIREMENTS)
@pytest.mark.parametrize("taint", TAINTS)
def test_a_node_pool_is_rejected_as_the_command_line_says(
    requirement: str, taint: str, guarded: ControlPlane, tmp_path: Path
) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(node_pool(requirement, taint)))
    found = judge_file(file, Config({})).found
    said = any(each.rule.name == "gpu-pool-tainted" and each.level.value == "mandatory" for each in found)
    answer = guarded.create(node_pool(requirement, taint), dry_run=True)

    assert (answer.status == 422) == said, answer.message
    assert ("add nvidia.com/gpu=present:NoSchedule" in answer.message) == said


START = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("labels", "taints", "accepted"),
    [
        ({TYPE: "g6.xlarge"}, [], False),
        ({TYPE: "g6.xlarge"}, [START], False),
        ({TYPE: "g6.xlarge"}, [START, TAINT], True),
        ({TYPE: "m5.large"}, [], True),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, [], False),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, [TAINT], True),
        ({"gpupools/gpu-count": "8"}, [TAINT | {"effect": "PreferNoSchedule"}], False),
        ({}, [], True),
    ],
)
def test_a_node_with_gpus_registers_only_with_a_taint(
    labels: Mapping[str, str], taints: list[Mapping[str, str]], accepted: bool, guarded: ControlPlane
) -> None:
    assert (guarded.create(node(labels, *taints), dry_run=True).status < 300) is accepted


EXISTS = {"key": "nvidia.com/gpu", "operator": "Exists"}
DAEMONS = User("system:serviceaccount:kube-system:daemon-set-controller")


@pytest.mark.parametrize(
    ("tolerations", "limits", "by", "accepted"),
    [
        ([], None, None, True),
        ([EXISTS], None, None, False),
        ([TAINT], None, None, False),
        ([{"operator": "Exists"}], None, None, False),
        ([EXISTS | {"effect": "NoExecute"}], None, None, True),
        ([TAINT | {"value": "other"}], None, None, True),
        ([EXISTS], {"nvidia.com/gpu": 1}, None, True),
        ([EXISTS], {"nvidia.com/mig-1g.5gb": 1}, None, True),
        ([EXISTS], None, DAEMONS, True),
    ],
)
def test_a_pod_without_a_gpu_may_not_tolerate_the_taint(
    tolerations: list[Mapping[str, Any]],
    limits: Mapping[str, int] | None,
    by: User | None,
    accepted: bool,
    guarded: ControlPlane,
) -> None:
    assert (guarded.create(pod(tolerations, limits), dry_run=True, by=by).status < 300) is accepted


@pytest.mark.parametrize(
    ("annotation", "scheduler", "accepted"),
    [
        ("gpu-fraction", "kai-scheduler", True),
        ("gpu-memory", "kai-scheduler", True),
        ("gpu-fraction", "default-scheduler", False),
        ("other", "kai-scheduler", False),
    ],
)
def test_a_pod_with_a_fraction_of_a_gpu_may(
    annotation: str, scheduler: str, accepted: bool, guarded: ControlPlane
) -> None:
    made = pod([EXISTS])
    made["metadata"]["annotations"] = {annotation: "0.5"}
    made["spec"]["schedulerName"] = scheduler

    assert (guarded.create(made, dry_run=True).status < 300) is accepted


def test_a_namespace_with_the_label_is_exempt(guarded: ControlPlane) -> None:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "soft", "labels": {"gpupools/admission": "exempt"}},
    }
    guarded.apply(space).succeeded()
    made = pod([EXISTS])
    made["metadata"]["namespace"] = "soft"

    assert guarded.create(made, dry_run=True).status < 300
