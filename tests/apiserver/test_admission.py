"""The admission policies of `gpupools policy --admission` on a real API server: it says what the command line says."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from gpupools.audit.admission import admission_objects
from gpupools.audit.judging import judge_file
from gpupools.policies.policy_config import Config
from gpupools.policies.rules.gpu_node_pods_use_gpus import takes_no_gpu
from tests.apiserver.control_plane import ControlPlane, User

pytestmark = pytest.mark.apiserver

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TYPE = "node.kubernetes.io/instance-type"
ROOT = Path(__file__).parents[2]
VERSIONS = ("karpenter.sh/v1", "karpenter.sh/v1beta1")


def node_pools(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each NodePool inside a document."""
    if isinstance(value, dict):
        if value.get("kind") == "NodePool" and value.get("apiVersion") in VERSIONS and "spec" in value:
            yield value
        for each in value.values():
            yield from node_pools(each)
    elif isinstance(value, list):
        for each in value:
            yield from node_pools(each)


def fixtures() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every NodePool of the suite's files, and 400 that combine their requirements."""
    files = [*ROOT.glob("tests/**/*.yaml"), *ROOT.glob("policies/**/*.examples.yaml")]
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(files):
        for number, pool in enumerate(node_pools(list(yaml.safe_load_all(file.read_text(encoding="utf-8"))))):
            found[f"{file.name}-{number}"] = pool
    yield from found.items()
    pick = random.Random(7)
    specs = [each["spec"]["template"]["spec"] for each in found.values() if is_accepted(each)]
    requirements = [one for each in specs for one in each.get("requirements") or ()]
    for number in range(400):
        chosen = pick.sample(requirements, pick.randint(1, 4))
        reference, taints = pick.choice(specs).get("nodeClassRef"), pick.choice(specs).get("taints")
        spec = {"requirements": chosen, "taints": taints or [], **({"nodeClassRef": reference} if reference else {})}
        limits = pick.choice([{}, {}, {"cpu": "100"}, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 0, "amd.com/gpu": 0}])
        yield f"mixed-{number}", karpenter("NodePool", {"template": {"spec": spec}, "limits": limits})


def karpenter(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1", "kind": kind, "metadata": {"name": "p"}, "spec": dict(spec)}


def is_accepted(pool: Mapping[str, Any]) -> bool:
    """Return whether the API accepts a pool; fixtures also have unknown values and values of wrong types."""
    return "<unknown>" not in str(pool) and not list(Draft202012Validator(SCHEMA).iter_errors(pool))


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_TAINTS = {"type": "array", "items": _object(key=_TEXT, value=_TEXT, effect=_TEXT)}
_MAP = {"type": "object", "additionalProperties": _TEXT}
_SPEC = _object(
    requirements={"type": "array", "items": _object(key=_TEXT, operator=_TEXT, values=_TEXTS)},
    taints=_TAINTS,
    startupTaints=_TAINTS,
    nodeClassRef=_object(group=_TEXT, kind=_TEXT, name=_TEXT, apiVersion=_TEXT),
)
_LIMIT = {"anyOf": [{"type": "integer"}, _TEXT], "pattern": "^[0-9.]+[A-Za-z]*$", "x-kubernetes-int-or-string": True}
_TEMPLATE = _object(metadata=_object(labels=_MAP), spec=_SPEC) | {"required": ["spec"]}
_POOL = _object(
    template=_TEMPLATE, limits={"type": "object", "additionalProperties": _LIMIT}, replicas={"type": "integer"}
) | {"required": ["template"]}
SCHEMA = _object(spec=_POOL)
"""The fields of Karpenter's NodePool that the policies read: kubernetes-sigs/karpenter pkg/apis/crds."""


def definition() -> dict[str, Any]:
    versions = [
        {"name": each.partition("/")[2], "served": True, "storage": not number, "schema": {"openAPIV3Schema": SCHEMA}}
        for number, each in enumerate(VERSIONS)
    ]
    names = {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool", "listKind": "NodePoolList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {"group": "karpenter.sh", "scope": "Cluster", "names": names, "versions": versions},
    }


BARE = karpenter(
    "NodePool",
    {"template": {"spec": {"requirements": [{"key": TYPE, "operator": "In", "values": ["g6.xlarge"]}]}}},
)


@pytest.fixture(scope="module")
def guarded(server: ControlPlane) -> Iterator[ControlPlane]:
    group = "admissionregistration.k8s.io/v1"
    for each in server.items(f"/apis/{group}/validatingadmissionpolicybindings"):  # of other tests of the tier
        server.delete({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": each["metadata"]})
    server.wait(
        "no policy acts", lambda: server.create(pod(tolerations=[{"operator": "Exists"}]), dry_run=True).status < 300
    )
    objects = [definition(), *admission_objects("deny")]
    for each in objects:
        server.apply(each).succeeded()
    deadline = time.monotonic() + 60
    # A policy acts some time after it is there, and a kind is served some time after its definition.
    while "tolerates the taint" not in server.create(pod(tolerations=[TAINT]), dry_run=True).message or (
        "NodePool takes" not in server.create(BARE, dry_run=True).message
    ):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    yield server
    for each in reversed(objects):
        server.delete(each)


def pod(
    limits: Mapping[str, int] | None = None,
    *,
    name: str = "p",
    owners: Sequence[Mapping[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": dict(limits or {})}}
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": dict(annotations or {}),
        "ownerReferences": [*owners],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def node(name: str, labels: Mapping[str, str], *taints: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}}


def test_a_node_pool_is_rejected_as_the_command_line_says(guarded: ControlPlane, tmp_path: Path) -> None:
    compared, differ = 0, []
    file = tmp_path / "pool.yaml"
    for name, pool in fixtures():
        if not is_accepted(pool):
            continue
        pool = {**pool, "metadata": {"name": "p"}}
        file.write_text(yaml.safe_dump(pool))
        found = judge_file(file, Config({})).found
        said = any(each.rule.name == "gpu-pool-tainted" and each.level.value == "violation" for each in found)
        answer = guarded.create(pool, dry_run=True)
        compared += 1
        if (answer.status == 422) != said or ("add nvidia.com/gpu=present:NoSchedule" in answer.message) != said:
            differ.append((name, said, answer.status, answer.message, pool["spec"]))

    assert not differ, "\n".join(map(str, differ))
    assert compared > 500


START = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("labels", "taints", "warned"),
    [
        ({TYPE: "g6.xlarge"}, [], True),
        ({TYPE: "g6.xlarge"}, [START], True),
        ({TYPE: "g6.xlarge"}, [START, TAINT], False),
        ({TYPE: "m5.large"}, [], False),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, [], True),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, [TAINT], False),
        ({"gpupools/gpu-count": "8"}, [TAINT | {"effect": "PreferNoSchedule"}], True),
        ({}, [], False),
    ],
)
def test_a_node_with_gpus_and_without_a_taint_is_warned_of(
    labels: Mapping[str, str], taints: list[Mapping[str, str]], warned: bool, guarded: ControlPlane
) -> None:
    answer = guarded.create(node("n", labels, *taints), dry_run=True)

    assert answer.status < 300, answer.message
    assert ("no permanent taint" in " ".join(answer.warnings)) is warned


EXISTS = {"key": "nvidia.com/gpu", "operator": "Exists"}
TOLERATIONS = {
    "exists": EXISTS,
    "present": TAINT | {"operator": "Equal"},
    "true": TAINT | {"value": "true"},
    "everything": {"operator": "Exists"},
}
OWNER = {"apiVersion": "apps/v1", "name": "x", "uid": "1f0c"}
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
PODS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "plain": lambda: pod(),
    "cpu": lambda: pod({"cpu": 1}),
    "gpu": lambda: pod({"nvidia.com/gpu": 1}),
    "no-gpu": lambda: pod({"nvidia.com/gpu": 0}),
    "slice": lambda: pod({"nvidia.com/mig-1g.5gb": 1}),
    "vgpu": lambda: pod({"volcano.sh/vgpu-number": 1}),
    "tpu": lambda: pod({"google.com/tpu": 4}),
    "neuron": lambda: pod({"aws.amazon.com/neuroncore": 1}),
    "amd": lambda: pod({"amd.com/gpu": 1}),
    "network": lambda: pod({"vpc.amazonaws.com/efa": 1}),
    "claim": lambda: pod(resourceClaims=[CLAIM]),
    "daemon": lambda: pod(owners=[OWNER | {"kind": "DaemonSet"}]),
    "static": lambda: pod(owners=[OWNER | {"kind": "Node", "apiVersion": "v1"}]),
    "replica": lambda: pod(owners=[OWNER | {"kind": "ReplicaSet"}]),
    "fraction": lambda: pod(annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"),
    "fraction-elsewhere": lambda: pod(annotations={"gpu-fraction": "0.5"}),
}


@pytest.mark.parametrize("toleration", TOLERATIONS)
@pytest.mark.parametrize("name", PODS)
def test_a_tolerating_pod_is_rejected_as_the_command_line_says(
    name: str, toleration: str, guarded: ControlPlane
) -> None:
    made = PODS[name]()
    made["spec"]["tolerations"] = [TOLERATIONS[toleration]]

    assert (guarded.create(made, dry_run=True).status == 422) is takes_no_gpu(made)


@pytest.mark.parametrize("toleration", [EXISTS | {"effect": "NoExecute"}, TAINT | {"value": "other"}, START])
def test_other_tolerations_do_not_matter(toleration: Mapping[str, str], guarded: ControlPlane) -> None:
    assert guarded.create(pod(tolerations=[toleration]), dry_run=True).status < 300


def test_a_toleration_that_an_update_adds_is_rejected(guarded: ControlPlane) -> None:
    guarded.create(pod(name="late")).succeeded()
    try:
        assert guarded.merge(pod(name="late"), {"spec": {"tolerations": [EXISTS]}}).status == 422
        assert guarded.merge(pod(name="late"), {"metadata": {"labels": {"a": "b"}}}).status < 300
    finally:
        guarded.delete_now(pod(name="late"))


PERSON, SCHEDULER = User("jane"), User("system:serviceaccount:volcano-system:volcano-scheduler")


def test_only_a_scheduler_puts_pods_on_gpu_nodes(guarded: ControlPlane) -> None:
    gpu, cpu = (node(name, labels, TAINT) for name, labels in (("g", {"gpupools/gpu-count": "1"}), ("c", {})))
    waiting = pod(name="waiting", schedulerName="none")
    for each in (gpu, cpu, waiting):
        guarded.create(each).succeeded()
    try:
        assert guarded.create(pod(nodeName="g"), dry_run=True).status == 422
        assert guarded.create(pod({"nvidia.com/gpu": 1}, nodeName="g"), dry_run=True).status < 300
        assert guarded.create(pod(nodeName="c"), dry_run=True).status < 300
        assert guarded.bind(waiting, "g", dry_run=True, by=PERSON).status == 422
        assert guarded.bind(waiting, "c", dry_run=True, by=PERSON).status < 300
        assert guarded.bind(waiting, "g", dry_run=True, by=SCHEDULER).status < 300
    finally:
        guarded.delete_now(waiting)
        for each in (gpu, cpu):
            guarded.delete(each)


@pytest.mark.parametrize(
    ("device_classes", "accepted"),
    [(["gpu.nvidia.com"], True), (["mrdma.google.com"], False), (["mrdma.google.com", "gpu.nvidia.com"], True)],
)
def test_a_claim_of_network_devices_is_no_request_of_a_gpu(
    device_classes: list[str], accepted: bool, guarded: ControlPlane
) -> None:
    requests = [{"name": f"r{i}", "exactly": {"deviceClassName": each}} for i, each in enumerate(device_classes)]
    metadata = {"name": "claimed", "namespace": "default"}
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata}
    guarded.apply(template | {"spec": {"spec": {"devices": {"requests": requests}}}}).succeeded()
    made = pod(tolerations=[EXISTS], resourceClaims=[{"name": "a", "resourceClaimTemplateName": "claimed"}])
    try:
        # Parameters reach the policy by a watch.
        guarded.wait("the verdict", lambda: (guarded.create(made, dry_run=True).status < 300) is accepted, 20)
    finally:
        guarded.delete(template)


@pytest.mark.parametrize(
    ("space", "labels"), [("soft", {"gpupools/admission": "exempt"}), ("calico-system", {}), ("tigera-operator", {})]
)
def test_an_exempt_namespace_may(space: str, labels: Mapping[str, str], guarded: ControlPlane) -> None:
    metadata = {"name": space, "labels": dict(labels)}
    guarded.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).succeeded()
    made = pod(tolerations=[{"operator": "Exists"}])
    made["metadata"]["namespace"] = space

    assert guarded.create(made, dry_run=True).status < 300
