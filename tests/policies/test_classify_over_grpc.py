"""What nobody understands, in the pack as the engine drives it: said of the whole stack, with the three counts."""

from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2

from tests.policies.asking import EKS, TAINT, resource
from tests.policies.pack_process import Diagnostic, PolicyPackProcess, StackResource

RULE = "node-pools-understood"
PROVIDER = analyzer_pb2.AnalyzerProviderResource(urn="urn:pulumi:dev::p::pulumi:providers:x::default", name="default")


def said(pack: PolicyPackProcess, *resources: StackResource) -> list[Diagnostic]:
    return [each for each in pack.analyze_stack(resources) if RULE in (each.policy, each.message[-len(RULE) - 1 : -1])]


AGENT_POOL = "Microsoft.ContainerService/managedClusters/agentPools@2025-05-01"


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        ("aws:sagemaker/cluster:Cluster", {"orchestrator": {"eks": {"clusterArn": "a"}}}),
        ("aws:cloudformation/stack:Stack", {"templateUrl": "https://x"}),
        ("azure-native:containerservice:Machine", {}),
        ("azure-native:resources:Deployment", {"properties": {"templateLink": {"uri": "https://x"}}}),
        ("kubernetes:anywhere.eks.amazonaws.com/v1alpha1:Cluster", {"spec": {}}),
        ("kubernetes:example.com/v1:Thing", {"spec": {"nodePools": [{"size": "p5.48xlarge"}]}}),
        ("digitalocean:index/kubernetesNodePool:KubernetesNodePool", {}),
        ("azapi:index/updateResource:UpdateResource", {"type": AGENT_POOL, "body": {"properties": {"count": 2}}}),
    ],
    ids=str,
)
def test_what_may_bring_nodes_is_a_violation_of_the_stack(
    type_: str, given: dict[str, Any], pack: PolicyPackProcess
) -> None:
    found = said(pack, resource(type_, "a", given, provider=PROVIDER))

    assert [(each.policy, each.level) for each in found] == [(RULE, "mandatory"), ("unverified-in-stack", "advisory")]
    assert "creates GPU nodes without a taint cannot be verified" in found[0].message
    assert "of 1 resources 0 judged, 0 no node pool, 1 not understood" in found[1].message


@pytest.mark.parametrize(
    ("type_", "given", "custom"),
    [
        ("aws:s3/bucket:Bucket", {}, True),
        ("aws:sagemaker/cluster:Cluster", {}, True),  # HyperPod with Slurm
        ("pulumi:pulumi:Stack", {}, False),
        ("mine:index:KubernetesThing", {}, False),
        ("aws:index:MyNodePool", {}, False),
        ("gpupools:index:GpuNodePool", {}, False),
        ("kubernetes:core/v1:Service", {"spec": {}}, True),
        (
            "kubernetes:helm.sh/v3:Release",
            {"chart": "aws-efa-k8s-device-plugin", "values": {"on": "p5.48xlarge"}},
            True,
        ),
        ("aws:autoscaling/tag:Tag", {"tag": {"key": "a", "value": "nvidia-tesla-a100"}}, True),
        (EKS, {"instanceTypes": ["g6.xlarge"], "taints": [TAINT]}, True),
    ],
    ids=str,
)
def test_what_brings_no_nodes_is_not_mentioned(
    type_: str, given: dict[str, Any], custom: bool, pack: PolicyPackProcess
) -> None:
    assert said(pack, resource(type_, "a", given, provider=PROVIDER if custom else None)) == []


def test_what_does_not_look_like_nodes_is_advice_once_for_each_kind(pack: PolicyPackProcess) -> None:
    kind = "exoscale:index/domainRecord:DomainRecord"
    found = said(pack, *(resource(kind, name, {}, provider=PROVIDER) for name in "abc"))

    assert {(each.policy, each.level) for each in found} == {("unverified-in-stack", "advisory")}
    assert sum("was not judged (3 times)" in each.message for each in found) == 1
