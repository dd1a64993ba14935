"""Every kind gets one of three answers by its kind alone, and the objects inside known wrappers are judged."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpupools.audit.judging import FileReport
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.classify import classify
from gpupools.policies.kinds import Row, row_of, rows

Judge = Callable[..., FileReport]
ANSWERS = {"none", "nodes", "tainted", "elsewhere", "where", "pool"}
TAINTS = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
UNDERSTOOD = "node-pools-understood"


def pool(taints: Any = ()) -> dict[str, Any]:
    requirement = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}
    spec = {"template": {"spec": {"requirements": [requirement], "taints": list(taints)}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec}


def manifest(version: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **more}


def levels(judged: FileReport, rule: str) -> set[str]:
    assert judged.problems == ()
    return {each.level.value for each in judged.found if each.rule.name == rule}


# --- the table --------------------------------------------------------------------------------------------------------


def inputs_for(row: Row) -> dict[str, Any]:
    """Return inputs in which what a `where` row asks for is given."""
    return {path.partition(".")[0]: UNKNOWN for path in row.where}


def test_the_table_is_small_and_says_why() -> None:
    assert 0 < len(rows()) <= 135
    assert {row.answer.partition(" ")[0] for row in rows()} == ANSWERS
    assert all(row.why and row.source.startswith("https://") and len(row.as_of) == 10 for row in rows())
    patterns = [pattern for row in rows() for pattern in row.kinds]
    assert len(set(patterns)) == len(patterns)


def kind_of(pattern: str) -> str:
    """Return a key that a pattern matches."""
    return pattern.replace("*", "x")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.kind[:60])
def test_every_pattern_of_a_row_gets_the_answer_of_that_row(row: Row) -> None:
    assert {row_of(kind_of(pattern)) for pattern in row.kinds} == {row}


@pytest.mark.parametrize("row", [row for row in rows() if row.kind.startswith("kubernetes:")], ids=lambda row: row.kind)
def test_every_row_of_kubernetes_decides_by_the_kind_alone(row: Row) -> None:
    pattern = row.kinds[0].replace("*", "x")
    group, _, kind = pattern.removeprefix("kubernetes:").rpartition("/")
    found = classify(f"kubernetes:{group}/v1:{kind}", inputs_for(row))

    if row.answer == "none":
        assert found is None
    else:
        assert found is not None
        assert (found.nodes, found.source) == (row.answer not in ("elsewhere", "tainted"), row.source)
        assert row.why in found.why
    if row.where:
        assert classify(f"kubernetes:{group}/v1:{kind}", {}) is None


@pytest.mark.parametrize(
    ("type_token", "inputs", "nodes"),
    [
        ("terraform:aws_sagemaker_cluster", {"orchestrator": [{"eks": [{"cluster_arn": "a"}]}]}, True),
        ("terraform:aws_sagemaker_cluster", {}, None),
        ("terraform:google_dataproc_cluster", {"virtual_cluster_config": [{"a": 1}]}, True),
        ("terraform:google_dataproc_cluster", {}, None),
        ("terraform:aws_cloudformation_stack_set_instance", {"parameter_overrides": {"a": "b"}}, True),
        ("terraform:aws_cloudformation_stack_set_instance", {}, None),
        ("azure-native:containerservice:Machine", {}, True),
        ("kubernetes:modelplane.ai/v1alpha1:InferenceCluster", {}, True),
        ("kubernetes:infrastructure.modelplane.ai/v1alpha1:EKSCluster", {}, True),
        ("terraform:azurerm_linux_virtual_machine_scale_set", {}, False),
        ("gcp:compute/instance:Instance", {}, False),
        ("command:local:Command", {"create": "eksctl create nodegroup"}, False),
        ("arm:Microsoft.Resources/deploymentScripts", {}, False),
        ("cloudformation:AWS::CloudFormation::CustomResource", {}, False),
        ("terraform:kubectl_server_patch", {}, False),
        ("terraform:aws_eks_gpu_node_pool", {}, True),
        ("terraform:aws_s3_bucket", {"content": json.dumps(pool())}, None),
        ("random:index/randomPet:RandomPet", {}, None),
        ("kubernetes:karpenter.sh/v1:NodePoolPatch", {}, True),
        ("kubernetes:core/v1:NodePatch", {}, False),
        ("kubernetes:core/v1:NodePatch", {"spec": {"taints": []}}, True),
        ("kubernetes:core/v1:NodePatch", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, False),
        ("kubernetes:yaml:ConfigGroup", {"yaml": UNKNOWN}, True),
        ("kubernetes:yaml:ConfigGroup", {"yaml": "a: 1"}, None),
        ("kubernetes:batch/v1:Job", {"spec": {"script": "kubectl apply -f -"}}, None),
    ],
    ids=str,
)
def test_types_of_clouds_and_tools_get_their_answer(
    type_token: str, inputs: dict[str, Any], nodes: bool | None
) -> None:
    found = classify(type_token, inputs)

    assert (found and found.nodes) is nodes


CPU, GPU, K8S, API = "m5.large", "g5.xlarge", "NoSchedule", "NO_SCHEDULE"


def taint(effect: str) -> list[dict[str, str]]:
    return [{"key": "nvidia.com/gpu", "effect": effect}]


@pytest.mark.parametrize(
    ("type_token", "spec", "nodes"),
    [
        ("eks.services.k8s.aws/v1alpha1:Nodegroup", {"instanceTypes": [GPU]}, True),
        ("eks.services.k8s.aws/v1alpha1:Nodegroup", {"instanceTypes": [GPU], "taints": taint(API)}, False),
        ("eks.services.k8s.aws/v1alpha1:Nodegroup", {"instanceTypes": [GPU], "taints": taint(K8S)}, True),
        ("eks.services.k8s.aws/v1alpha1:Nodegroup", {"instanceTypes": [CPU]}, False),
        ("eks.services.k8s.aws/v1alpha1:Nodegroup", {"amiType": "AL2023_x86_64_NVIDIA"}, True),
        ("eks.aws.m.upbound.io/v1beta1:NodeGroup", {"forProvider": {"instanceTypes": [CPU, GPU]}}, True),
        ("eks.aws.upbound.io/v1beta1:NodeGroup", {"forProvider": {"taint": taint(API)}}, False),
        ("eks.aws.upbound.io/v1beta1:NodeGroup", {"forProvider": {"taints": taint(API)}}, True),
        ("eks.aws.crossplane.io/v1alpha1:NodeGroup", {"forProvider": {"taints": taint(API)}}, False),
        ("eks.aws.upbound.io/v1beta1:NodeGroup", {"forProvider": UNKNOWN}, True),
        ("containerservice.azure.com/v1:ManagedClustersAgentPool", {"vmSize": "Standard_NC4as_T4_v3"}, True),
        ("containerservice.azure.com/v1:ManagedClustersAgentPool", {"nodeTaints": ["a=b:NoSchedule"]}, False),
        ("infrastructure.cluster.x-k8s.io/v1beta1:AzureASOManagedMachinePool",
         {"resources": [{"spec": {"vmSize": "Standard_D4s_v5"}}, {"spec": {"vmSize": "Standard_NC4as_T4_v3"}}]}, True),
        ("infrastructure.cluster.x-k8s.io/v1beta1:AzureASOManagedControlPlane",
         {"resources": [{"spec": {"agentPoolProfiles": [{"vmSize": "Standard_D4s_v5"}]}}]}, False),
        ("container.gcp.upbound.io/v1beta1:NodePool",
         {"forProvider": {"nodeConfig": [{"machineType": "g2-standard-4", "taint": taint(API)}]}}, False),
        ("container.gcp.upbound.io/v1beta1:NodePool",
         {"forProvider": {"nodeConfig": {"machineType": "g2-standard-4", "taint": taint(API)[0]}}}, True),
        ("container.cnrm.cloud.google.com/v1beta1:ContainerNodePool", {"nodeConfig": {"machineType": "e2-a"}}, False),
        ("container.cnrm.cloud.google.com/v1beta1:ContainerCluster", {"nodeConfig": {"machineType": "g2"}}, True),
        ("container.cnrm.cloud.google.com/v1beta1:ContainerCluster", {"location": "us-east1"}, None),
        ("ec2.aws.upbound.io/v1beta1:LaunchTemplate", {"forProvider": {"instanceType": GPU}}, True),
    ],
)  # fmt: skip
def test_a_clouds_pool_inside_an_object_is_never_fine_unless_it_shows_that(
    type_token: str, spec: dict[str, Any], nodes: bool | None
) -> None:
    found = classify(f"kubernetes:{type_token}", {"spec": spec})

    assert (found and found.nodes) is nodes


@pytest.mark.parametrize(
    ("type_token", "said"),
    [
        ("kai.resources/v1alpha1:NodePool", None),
        ("config.openshift.io/v1:Node", None),
        ("autoscaling.x-k8s.io/v1beta1:CapacityBuffer", None),
        ("scheduling.x-k8s.io/v1alpha1:PodGroup", None),
        ("modelplane.ai/v1alpha1:ModelDeployment", None),
        ("elasticsearch.k8s.elastic.co/v1:Elasticsearch", None),
        ("kaito.sh/v1beta1:Workspace", "the taint sku=gpu:NoSchedule"),
        ("kaito.sh/v1beta1:RAGEngine", "the taint sku=gpu:NoSchedule"),
        ("infrastructure.modelplane.ai/v1alpha1:GKECluster", "taints its GPU pools"),
    ],
)
def test_projects_of_the_field_have_rows(type_token: str, said: str | None) -> None:
    found = classify(f"kubernetes:{type_token}", {"spec": {"nodeSets": [], "nodeSelector": {}}})

    assert (found and (found.nodes, found.harmless)) == (said and (False, True))
    assert said is None or (found is not None and said in found.why)


# --- kinds without a row ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_token", "inputs", "nodes"),
    [
        ("kubernetes:example.com/v1:WorkerPool", {}, True),
        ("kubernetes:example.com/v1:NodeGroupTemplate", {}, True),
        ("kubernetes:example.com/v1:Machine", {}, True),
        ("kubernetes:example.com/v1:Thing", {"spec": {"nodePools": []}}, True),
        ("kubernetes:example.com/v1:Thing", {"spec": {"machine_groups": []}}, True),
        ("kubernetes:${GROUP}/v1:${KIND}", {}, True),
        ("terraform:somecloud_kubernetes_node_pool", {}, True),
        ("terraform:somecloud_cluster", {"node_pool": [{}]}, True),
        ("kubernetes:example.com/v1:Thing", {"resource": {"instanceType": "a"}}, True),
        ("kubernetes:example.com/v1:Thing", {"spec": {"pools": [{"gpuCount": 8}]}}, True),
        ("kubernetes:example.com/v1:NodePool", {"spec": {"nodeSelector": {"matchLabels": {}}}}, False),
        ("kubernetes:example.com/v1:NodePool", {"spec": {"selector": {"matchLabels": {}}, "vmSize": "a"}}, True),
        ("kubernetes:example.com/v1:Thing", {"status": {"instanceType": "a"}}, False),
        ("terraform:somecloud_machine_image", {"instance_type": "a"}, False),
        ("kubernetes:example.com/v1:Thing", {}, False),
        ("kubernetes:example.com/v1:Thing", {"spec": {"nodeSelector": {"a": "b"}}}, False),
        ("kubernetes:example.com/v1:Thing", {"spec": {"size": "p5.48xlarge"}}, False),
        ("kubernetes:example.com/v1:NodeReport", {}, False),
        ("terraform:exoscale_domain_record", {}, False),
    ],
    ids=str,
)
def test_an_unknown_kind_is_a_violation_only_where_its_name_or_schema_says_nodes(
    type_token: str, inputs: dict[str, Any], nodes: bool
) -> None:
    found = classify(type_token, inputs)

    assert found is not None
    assert found.nodes is nodes
    assert "gpupools does not know this kind" in found.why


@pytest.mark.parametrize("kind", ["Thing", "WorkerPool"])
def test_the_three_answers_are_counted(kind: str, judge: Judge) -> None:
    objects = [pool(TAINTS), manifest("v1", "Service"), manifest("example.com/v1", kind)]
    judged = judge(yaml.safe_dump_all(objects))

    assert judged.answers == {"judged": 1, "no_node_pool": 1, "not_understood": 1}
    assert levels(judged, UNDERSTOOD) == {"unverified" if kind == "WorkerPool" else "advice"}


# --- wrappers ---------------------------------------------------------------------------------------------------------


def _plan(kind: str, **after: Any) -> dict[str, Any]:
    change = {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}
    one = {"address": f"{kind}.x", "mode": "managed", "type": kind, "name": "x", "change": change}
    return {"format_version": "1.2", "resource_changes": [one]}


def _application(kind: str, source: dict[str, Any]) -> dict[str, Any]:
    spec = {"template": {"spec": {"source": source}}} if kind == "ApplicationSet" else {"sources": [source]}
    return manifest("argoproj.io/v1alpha1", kind, spec=spec)


WRAPPERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "Object": lambda one: manifest(
        "kubernetes.crossplane.io/v1alpha2", "Object", spec={"forProvider": {"manifest": one}}
    ),
    "ManifestWork": lambda one: manifest(
        "work.open-cluster-management.io/v1", "ManifestWork", spec={"workload": {"manifests": [one]}}
    ),
    "ResourceGraphDefinition": lambda one: manifest(
        "kro.run/v1alpha1", "ResourceGraphDefinition", spec={"resources": [{"id": "a", "template": one}]}
    ),
    "Composition": lambda one: manifest(
        "apiextensions.crossplane.io/v1", "Composition", spec={"resources": [{"base": one}]}
    ),
    "Template": lambda one: manifest("template.openshift.io/v1", "Template", objects=[one]),
    "ConfigMap": lambda one: manifest("v1", "ConfigMap", data={"a.yaml": yaml.safe_dump(one)}),
    "ConfigMap of JSON": lambda one: manifest("v1", "ConfigMap", data={"a": json.dumps(one)}),
    "ConfigMap of values": lambda one: manifest("v1", "ConfigMap", data={"a": yaml.safe_dump({"extraObjects": [one]})}),
    "ConfigMap of a list": lambda one: manifest(
        "v1", "ConfigMap", data={"a": yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [one]})}
    ),
    "Secret": lambda one: manifest("v1", "Secret", data={"a": base64.b64encode(yaml.safe_dump(one).encode()).decode()}),
    "Secret as text": lambda one: manifest("v1", "Secret", stringData={"a": yaml.safe_dump(one)}),
    "HelmRelease": lambda one: manifest(
        "helm.toolkit.fluxcd.io/v2", "HelmRelease", spec={"values": {"extraObjects": [one]}}
    ),
    "Application": lambda one: _application("Application", {"helm": {"valuesObject": {"extraObjects": [one]}}}),
    "ApplicationSet": lambda one: _application(
        "ApplicationSet", {"helm": {"values": yaml.safe_dump({"extraObjects": [yaml.safe_dump(one)]})}}
    ),
    "wrapper in a wrapper": lambda one: WRAPPERS["Object"](WRAPPERS["ConfigMap"](one)),
    "helm_release": lambda one: _plan("helm_release", chart="raw", values=[yaml.safe_dump({"resources": [one]})]),
    "kubernetes_config_map": lambda one: _plan("kubernetes_config_map", data={"a": yaml.safe_dump(one)}),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_pool_inside_a_wrapper_is_named_with_what_to_do(name: str, judge: Judge) -> None:
    for one in (pool(), pool(TAINTS), manifest("example.com/v1", "WorkerPool", spec={})):
        (found,) = [each for each in judge(json.dumps(WRAPPERS[name](one))).found if each.rule.name == UNDERSTOOD]

        assert found.level.value == "unverified"
        assert "check that object as a manifest of its own" in found.message


@pytest.mark.parametrize("body", ["apiVersion", '"apiVersion"', "- apiVersion\n- kind", "apiVersion: 1\nkind: [a]"])
def test_a_text_without_an_object_holds_none(body: str, judge: Judge) -> None:
    values = {"chart": "gpu-operator", "values": {"a": [body]}}

    assert classify("kubernetes:helm.sh/v3:Release", values, software=True) is None
    assert levels(judge(json.dumps(manifest("v1", "ConfigMap", data={"a": body}))), UNDERSTOOD) == set()


def test_a_text_that_names_no_object_is_no_node_pool(judge: Judge) -> None:
    judged = judge(json.dumps(manifest("v1", "ConfigMap", data={"a": "eksctl create nodegroup", "b": "a: [1"})))

    assert judged.answers == {"judged": 0, "no_node_pool": 1, "not_understood": 0}


@pytest.mark.parametrize(
    ("chart", "levels_"),
    [("gpu-operator", set()), ("nginx", {"advisory"}), ("karpenter-nodepools", {"mandatory"}), (UNKNOWN, {"advisory"})],
    ids=str,
)
def test_a_chart_is_unknown_unless_gpupools_knows_it(chart: Any, levels_: set[str], judge: Judge) -> None:
    found = classify("kubernetes:helm.sh/v3:Release", {"chart": chart}, software=chart == "gpu-operator")

    assert ({"mandatory" if found.nodes else "advisory"} if found else set()) == levels_
    assert classify("kubernetes:helm.sh/v4:Chart", {"chart": "nginx"}, component=True) is None
