"""Resources of Terraform providers that Pulumi bridges get the verdicts of Terraform's."""

from collections.abc import Callable
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.classify import classify

Judge = Callable[..., FileReport]
A100 = "Standard_NC24ads_A100_v4"
GKE_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
LATE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
AGENT_POOL = "Microsoft.ContainerService/managedClusters/agentPools@2025-05-01"
DEPLOYMENT = "Microsoft.Resources/deployments@2024-03-01"


def azapi(kind: Any = AGENT_POOL, /, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "body": {"properties": properties}}


def deployment(**properties: Any) -> dict[str, Any]:
    inner = {"type": "Microsoft.Resources/deployments", "name": "b", "properties": {"template": template(properties)}}
    return azapi(DEPLOYMENT, template={"resources": [inner]})


def template(properties: Any) -> dict[str, Any]:
    return {"resources": [{"type": AGENT_POOL.partition("@")[0], "name": "c/gpu", "properties": properties}]}


def faults(judge: Judge, token: str, inputs: Any) -> list[tuple[str, bool]]:
    urn = f"urn:pulumi:dev::ml::{token}::gpu"
    step = {"op": "create", "urn": urn, "newState": {"urn": urn, "custom": True, "type": token, "inputs": inputs}}
    report = judge({"config": {}, "steps": [step], "duration": 1, "changeSummary": {"create": 1}})
    assert report.problems == ()
    return [(each.rule.name, each.finding.unverified) for each in report.found if each.level.value != "advice"]


BARE, OPEN = [("gpu-pool-tainted", False)], [("gpu-pool-tainted", True)]
AZAPI, GKE, AKS = (
    "azapi:index/resource:Resource",
    "google:index/containerNodePool:ContainerNodePool",
    "azurerm:index/kubernetesClusterNodePool:KubernetesClusterNodePool",
)
CLUSTER = "azurerm:index/kubernetesCluster:KubernetesCluster"
NODES = {"serviceAccount": "a@b", "workloadMetadataConfig": {"mode": "GKE_METADATA"}}


@pytest.mark.parametrize(
    ("token", "inputs", "wanted"),
    [
        (AZAPI, azapi(vmSize=A100), BARE),
        (AZAPI, azapi(vmSize=A100, nodeTaints=["sku=gpu:NoSchedule"]), []),
        (AZAPI, azapi(vmSize=A100, nodeTaints=LATE), OPEN),
        (AZAPI, {"type": AGENT_POOL, "body": LATE}, OPEN),
        (AZAPI, azapi(LATE, vmSize=A100), [("node-pools-understood", True)]),
        (AZAPI, azapi("Microsoft.Network/virtualNetworks@2024-01-01"), []),
        (AZAPI, deployment(vmSize=A100), [("node-pools-understood", True)]),
        (AZAPI, deployment(vmSize=A100, nodeTaints=["sku=gpu:NoSchedule"]), []),
        ("azapi:index/updateResource:UpdateResource", azapi(vmSize=A100), [("node-pools-understood", True)]),
        (GKE, {"nodeConfig": {"machineType": "g2-standard-4", **NODES}}, BARE),
        (GKE, {"nodeConfig": [{"machineType": "g2-standard-4", **NODES}]}, BARE),
        (GKE, {"nodeConfig": {"machineType": "g2-standard-4", "taints": [GKE_TAINT], **NODES}}, []),
        (GKE, {"nodeConfig": {"machineType": "g2-standard-4", "taint": [GKE_TAINT], **NODES}}, []),
        (AKS, {"vmSize": A100}, BARE),
        (AKS, {"vmSize": A100, "nodeTaints": ["sku=gpu:NoSchedule"]}, []),
        (CLUSTER, {"defaultNodePool": {"name": "a", "vmSize": A100}}, BARE),
        (CLUSTER, {"defaultNodePool": [{"name": "a", "vmSize": A100}]}, BARE),
        ("aws:index/eksNodeGroup:EksNodeGroup", {"instanceTypes": ["p4d.24xlarge"]}, BARE),
        (
            "awscc:index/eksNodegroup:EksNodegroup",
            {"instanceTypes": ["p4d.24xlarge"]},
            [("node-pools-understood", True)],
        ),
    ],
)
def test_a_bridged_resource_gets_the_verdict_of_terraform(judge: Judge, token: str, inputs: Any, wanted: Any) -> None:
    found = faults(judge, token, inputs)

    assert [each for each in found if each[0] in ("gpu-pool-tainted", "node-pools-understood")] == wanted


def test_a_finding_names_the_input_of_the_bridged_resource(judge: Judge) -> None:
    urn = f"urn:pulumi:dev::ml::{AZAPI}::gpu"
    state = {"urn": urn, "custom": True, "type": AZAPI, "inputs": azapi(vmSize=A100)}
    report = judge({"version": 3, "deployment": {"resources": [state]}})

    assert any("to body.properties.nodeTaints" in each.message for each in report.found)


def test_any_other_type_is_left_to_its_reader() -> None:
    assert classify("aws:index/somethingElse:SomethingElse", {}) is None
    assert classify(AZAPI, {"type": UNKNOWN, "body": UNKNOWN}) is not None
