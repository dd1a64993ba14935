"""Which Karpenter pools that ask for no GPU may be given machines with some, and what keeps those out."""

import re
from dataclasses import replace
from typing import Any

import pytest

from gpupools.common.taints import GPU_TAINT
from gpupools.plan.pool_facts import UNKNOWN, Open
from gpupools.policies.declared_stack import Declared, DeclaredStack
from gpupools.policies.finding import Context
from gpupools.policies.rules import STACK_RULES
from gpupools.providers import clouds
from gpupools.readback.inputs import relocated
from gpupools.readback.kubernetes_pools import each_kubernetes_pool, read_template
from tests.rows import each_row

(RULE,) = (rule for rule in STACK_RULES if rule.name == "gpu-machines-kept-out")
AWS, AUTO, AZURE, GCP = "karpenter.k8s.aws", "eks.amazonaws.com", "karpenter.azure.com", "karpenter.k8s.gcp"
CLASSES = {
    AWS: {"group": AWS, "kind": "EC2NodeClass", "name": "default"},
    AUTO: {"group": AUTO, "kind": "NodeClass", "name": "default"},
    AZURE: {"group": AZURE, "kind": "AKSNodeClass", "name": "default"},
    GCP: {"group": GCP, "kind": "GCENodeClass", "name": "default"},
}
TAINT = {"key": GPU_TAINT.key, "value": GPU_TAINT.value, "effect": "NoSchedule"}
CRITICAL = {"key": "CriticalAddonsOnly", "effect": "NoSchedule"}
ARCH, TYPE, OS = "kubernetes.io/arch", "node.kubernetes.io/instance-type", "kubernetes.io/os"
CAPACITY = ("karpenter.sh/capacity-type", "In", "spot")


def pool(group: str, *needs: tuple[Any, ...], limits: Any = None, replicas: Any = None, **spec: Any) -> dict[str, Any]:
    reference = {"nodeClassRef": CLASSES[group]} if group in CLASSES else {}
    listed = [{"key": key, "operator": how, "values": list(values)} for key, how, *values in needs]
    outer = {key: one for key, one in (("limits", limits), ("replicas", replicas)) if one is not None}
    inner = {"requirements": listed, **reference, **spec}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": {"spec": inner}, **outer}}


def found(manifest: dict[str, Any], *beside: dict[str, Any]) -> Open | None:
    (one,) = each_kubernetes_pool("kubernetes:v1:Object", manifest, clouds())
    objects = [manifest, *beside]
    types = [f"kubernetes:{each['apiVersion']}:{each['kind']}" for each in objects]
    declared = [
        Declared(urn=type_, type=type_, inputs=each, template=read_template(type_, each, clouds()))
        for type_, each in zip(types, objects, strict=True)
    ]
    assert RULE.stack is not None
    said = list(RULE.stack(DeclaredStack([replace(declared[0], pools=(one,)), *declared[1:]]), Context()))
    assert len(said) <= 1
    assert not said or one.gpus_per_node == 0
    return one.open_to_gpus if said else None


OPEN = [
    (AWS, r"g6f\.large", []),
    (AWS, r"g6f\.large", [(ARCH, "In", "amd64")]),
    (AWS, r"g5g\.xlarge", [(ARCH, "In", "arm64")]),
    (AWS, r"g5g\.xlarge", [("beta.kubernetes.io/arch", "In", "arm64")]),
    (AWS, r"g6f\.large", [CAPACITY]),
    (AWS, r"g6f\.large", [("team", "In", "web")]),
    (AWS, r"g6f\.large", [(f"{AWS}/instance-category", "NotIn", "c", "m", "r", "t")]),
    (AWS, r"p\d.*", [(f"{AWS}/instance-category", "NotIn", "g", "gr")]),
    (AWS, r"(?!g4dn|g6f).*", [(f"{AWS}/instance-family", "NotIn", "g4dn", "g6f")]),
    (AWS, r".*\.xlarge", [(f"{AWS}/instance-cpu", "Gt", "3")]),
    (AWS, r"p.*", [(f"{AWS}/instance-memory", "Gt", "1048576")]),
    (AWS, r"g6f\.large", [(f"{AWS}/instance-generation", "Gt", "5")]),
    (AWS, r"g7e?\..*", [(f"{AWS}/instance-generation", "Gte", "7")]),
    (AWS, r".*\.metal", [(f"{AWS}/instance-size", "In", "metal")]),
    (AWS, r"(?!g6f\.large).*", [(TYPE, "NotIn", "g6f.large")]),
    (AWS, r"g6f\.large", [("beta.kubernetes.io/instance-type", "NotIn", "g5.xlarge")]),
    (AWS, r"g6f\.large", [(f"{AUTO}/instance-category", "In", "c", "m", "r")]),  # a label that none of its machines has
    (AWS, r"g6f\.large", [(f"{AWS}/instance-accelerator-count", "DoesNotExist")]),
    (AUTO, r"g6f\.large", [(f"{AUTO}/instance-category", "NotIn", "t")]),
    (AZURE, "Standard_NC4as_T4_v3", []),
    (AZURE, "Standard_NC4as_T4_v3", [(f"{AZURE}/sku-family", "NotIn", "D", "E")]),
    (AZURE, "Standard_NC4as_T4_v3", [(f"{AZURE}/sku-version", "In", "3")]),
    (AZURE, "Standard_NV.*_v5", [(f"{AZURE}/sku-series", "NotIn", "NCas_v3")]),
    (AZURE, "Standard_N.*", [("kubernetes.azure.com/sku-memory", "Gt", "600000"), (ARCH, "In", "amd64")]),
    (AZURE, "Standard_NC4as_T4_v3", [(OS, "In", "linux"), CAPACITY]),
    (AZURE, "Standard_NC4as_T4_v3", [(f"{AZURE}/sku-gpu-memory", "DoesNotExist")]),  # no size has this label
    (GCP, "g2-standard-4", []),
    (GCP, "a2-.*", [(f"{GCP}/instance-family", "NotIn", "g2", "g4")]),
    (GCP, "a3-.*", [(f"{GCP}/instance-generation", "In", "3")]),
    (GCP, "a4x-.*", [(ARCH, "In", "arm64")]),
    (GCP, "g2-standard-4", [(f"{GCP}/instance-gpu-manufacturer", "DoesNotExist")]),  # no machine has this label
]


@each_row(("group", "machine", "needs"), OPEN, ids=str)
def test_a_pool_that_keeps_no_gpus_out_is_told(group: str, machine: str, needs: list[tuple[Any, ...]]) -> None:
    manifest = pool(group, *needs)
    said = found(manifest)

    assert said is not None
    assert said.machine in clouds()[{AWS: "aws", AUTO: "aws", AZURE: "azure", GCP: "gcp"}[group]].instance_types
    assert re.fullmatch(machine, said.machine), said.machine
    assert said.property == "spec.template.spec.requirements"
    key, how = re.fullmatch(r"\{key: (.+), operator: (\w+)\}", said.cure or "").groups()  # type: ignore[union-attr]
    assert found(pool(group, *needs, (key, how))) is None, "the cure that it names ends it"
    assert found(pool(group, *needs, taints=[TAINT])) is None
    assert found(pool(group, *needs, taints=[CRITICAL])) is None
    assert found(pool(group, *needs, limits={"nvidia.com/gpu": 0})) is None
    assert found(pool(group, *needs, startupTaints=[TAINT])) == said
    assert found(pool(group, *needs, taints=[TAINT | {"effect": "PreferNoSchedule"}])) == said


KEPT_OUT = [
    (AWS, [(f"{AWS}/instance-category", "In", "c", "m", "r")]),
    (AWS, [(f"{AWS}/instance-category", "NotIn", "g", "gr", "p")]),
    (AWS, [(f"{AWS}/instance-family", "In", "m7i", "c7i")]),
    (AWS, [(TYPE, "In", "m7i.large")]),
    (AWS, [(f"{AWS}/instance-gpu-count", "DoesNotExist")]),
    (AWS, [(f"{AWS}/instance-gpu-name", "DoesNotExist")]),
    (AWS, [(f"{AWS}/instance-gpu-memory", "DoesNotExist")]),
    (AWS, [(f"{AWS}/instance-gpu-manufacturer", "NotIn", "nvidia")]),
    (AWS, [(f"{AWS}/instance-gpu-count", "Lt", "1")]),
    (AWS, [(f"{AWS}/instance-gpu-count", "In", "0")]),
    (AWS, [(f"{AWS}/instance-accelerator-name", "Exists")]),
    (AWS, [(f"{AWS}/instance-cpu", "Lt", "2")]),
    (AWS, [(f"{AWS}/instance-size", "In", "large", "medium"), (f"{AWS}/instance-generation", "In", "5")]),
    (AWS, [(ARCH, "In", "arm64"), (f"{AWS}/instance-family", "NotIn", "g5g", "p6e-gb200", "p6e-gb300")]),
    (AUTO, [(f"{AUTO}/instance-generation", "Gt", "4"), (f"{AUTO}/instance-category", "In", "c", "m", "r")]),
    (AUTO, [(f"{AUTO}/instance-gpu-count", "DoesNotExist")]),
    (AZURE, [(f"{AZURE}/sku-family", "In", "D", "E")]),
    (AZURE, [(f"{AZURE}/sku-family", "NotIn", "N")]),
    (AZURE, [(f"{AZURE}/sku-gpu-count", "Lt", "1")]),
    (AZURE, [(f"{AZURE}/sku-gpu-count", "In", "0")]),
    (AZURE, [(f"{AZURE}/sku-gpu-manufacturer", "DoesNotExist")]),
    (AZURE, [(f"{AZURE}/sku-series", "In", "Ds_v5")]),
    (AZURE, [(f"{AZURE}/sku-name", "In", "Standard_D4s_v5")]),
    (AZURE, [("kubernetes.azure.com/sku-cpu", "Lt", "4")]),
    (AZURE, [(OS, "In", "windows")]),
    (GCP, [(f"{GCP}/instance-family", "In", "n2", "e2")]),
    (GCP, [(f"{GCP}/instance-family", "NotIn", "a2", "a3", "a4", "a4x", "g2", "g4")]),
    (GCP, [(f"{GCP}/instance-gpu-count", "DoesNotExist")]),
    (GCP, [("cloud.google.com/gke-accelerator", "DoesNotExist")]),
    (GCP, [(f"{GCP}/instance-generation", "In", "1")]),
    (GCP, [(TYPE, "In", "n2-standard-4")]),
]


@each_row(("group", "needs"), KEPT_OUT, ids=str)
def test_a_pool_that_keeps_gpus_out_is_not_told(group: str, needs: list[tuple[Any, ...]]) -> None:
    assert found(pool(group, *needs)) is None
    assert found(pool(group, *needs[:-1])) is not None, "without its last requirement it is open"


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "0"}, {"cpu": 0}, {"memory": "0"}, {"nodes": 0}], ids=str)
def test_a_limit_of_nothing_keeps_machines_out(limits: dict[str, Any]) -> None:
    assert found(pool(AWS, limits=limits)) is None
    assert found(pool(AWS, limits=dict.fromkeys(limits, UNKNOWN))) is None
    assert found(pool(AWS, limits={"cpu": "1000", "amd.com/gpu": 0})) is not None


def test_a_provisioner_is_told_too_and_machines_that_no_pod_asks_for_are_not() -> None:
    older = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "spec": {"limits": {"resources": {"cpu": 9}}},
    }
    said = found(older)
    assert said == Open("spec.requirements", "no requirement")  # whose machines it takes, nobody says
    assert found({**older, "spec": {"limits": {"resources": {"nvidia.com/gpu": 0}}}}) is None

    assert found({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "spec": {"nodeClassRef": CLASSES[AWS]}}) is None
    assert found(pool(AWS, replicas=3)) is None


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pool(AWS, (f"{AWS}/instance-category", "In", "g")), id="GPUs for certain"),
        pytest.param(pool(AWS, limits={"nvidia.com/gpu": 8}), id="GPUs by its limit"),
        pytest.param(pool(AWS, (TYPE, "In", UNKNOWN)), id="a type not known yet"),
        pytest.param(pool(AWS, (f"{AWS}/instance-category", "NotIn", UNKNOWN)), id="what is left out is not known yet"),
        pytest.param(pool(AWS, taints=UNKNOWN), id="taints not known yet"),
    ],
)
def test_what_another_rule_judges_is_not_told_twice(manifest: dict[str, Any]) -> None:
    assert found(manifest) is None


def test_the_class_of_its_machines_may_taint_those_with_gpus() -> None:
    named: dict[str, Any] = {"apiVersion": f"{GCP}/v1alpha1", "kind": "GCENodeClass", "metadata": {"name": "default"}}
    tainting = named | {"spec": {"autoGPUTaint": True}}

    assert found(pool(GCP), named | {"spec": {}}) is not None
    assert found(pool(GCP), named | {"spec": {"autoGPUTaint": False}}) is not None
    assert found(pool(GCP), tainting) is None
    assert found(pool(GCP), tainting | {"metadata": {"name": "another"}}) is not None


def test_machines_of_a_provider_that_is_not_known_are_left_alone() -> None:
    manifest = pool("")
    manifest["spec"]["template"]["spec"]["nodeClassRef"] = {"group": "karpenter.example.com", "kind": "X", "name": "a"}
    assert found(manifest) is None


def test_the_path_is_told_as_the_object_around_the_pool_has_it() -> None:
    (one,) = each_kubernetes_pool("kubernetes:v1:Object", pool(AWS), clouds())
    moved = relocated(one, lambda path: f"data.np!{path}", lambda words: words)
    assert moved.open_to_gpus is not None
    assert moved.open_to_gpus.property == "data.np!spec.template.spec.requirements"
