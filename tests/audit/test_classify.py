"""Three answers, never two: what is judged, what is no node pool, and what nobody here understands."""

import gc
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml

from gpupools.audit import judging
from gpupools.audit.judging import FileReport
from gpupools.policies.classify import classify
from gpupools.policies.kinds import is_read
from gpupools.policies.policy_config import Config
from gpupools.providers import clouds
from gpupools.readback.registry import type_readers

Judge = Callable[..., FileReport]
Run = Callable[..., tuple[int, str, str]]
RULE = "node-pools-understood"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def found(judged: FileReport, *rules: str) -> list[tuple[str, str, bool]]:
    """Return level, rule and whether it is only that nobody can tell, of the mandatory findings and of `rules`."""
    assert judged.problems == ()
    return sorted(
        {
            (each.level.value, each.rule.name, each.finding.unverified)
            for each in judged.found
            if each.rule.name in (RULE, "gpu-pool-tainted", *rules)
        }
    )


DEFINITE = [("violation", "gpu-pool-tainted", False)]
OPEN = [("unverified", "gpu-pool-tainted", True)]
NOT_UNDERSTOOD = [("unverified", RULE, True)]
ADVISED = [("advice", RULE, False)]
ANYWHERE = "anywhere.eks.amazonaws.com"
ON_GKE: dict[str, Any] = {"forProvider": {"virtualClusterConfig": [{"kubernetesClusterConfig": []}]}}
FINE: list[Any] = []


def manifest(version: str, kind: str, **more: Any) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "gpu"}, **more})


def karpenter(family: str, taints: Any = None) -> dict[str, Any]:
    requirement = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [family]}
    inner = {"requirements": [requirement], **({"taints": taints} if taints is not None else {})}
    spec = {"template": {"spec": inner}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec}


def node_config(kubelet: dict[str, Any]) -> str:
    spec = {"instance": {"localStorage": {"strategy": "RAID0"}}, "kubelet": {"config": kubelet}}
    return yaml.safe_dump({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})


def eksctl(**group: Any) -> str:
    return manifest("eksctl.io/v1alpha5", "ClusterConfig", managedNodeGroups=[{"name": "g", **group}])


def machine_set(machine: str, **more: Any) -> str:
    spec = {"template": {"spec": {"providerSpec": {"value": {"instanceType": machine}}, **more}}}
    return manifest("machine.openshift.io/v1beta1", "MachineSet", spec=spec)


def kops(spec: Any) -> str:
    return manifest("kops.k8s.io/v1alpha2", "InstanceGroup", spec=spec)


def rosa(pool: Any) -> str:
    version = "controlplane.cluster.x-k8s.io/v1beta2"
    return manifest(version, "ROSAControlPlane", spec={"defaultMachinePoolSpec": pool})


def node(labels: Mapping[str, str], taints: Any = (), **allocatable: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "n1", "labels": dict(labels)},
                    "spec": {"taints": list(taints)},
                    "status": {"allocatable": {"cpu": "4", **allocatable}},
                }
            ],
        }
    )


TYPE = "node.kubernetes.io/instance-type"
UNREADY = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TAINTED = karpenter("g5", [GPU_TAINT])
UNTAINTED = karpenter("g5")
CPU = karpenter("m5")


def composition(base: Any) -> str:
    return manifest("apiextensions.crossplane.io/v1", "Composition", spec={"resources": [{"base": base}]})


def work(one: Any) -> str:
    return manifest("work.open-cluster-management.io/v1", "ManifestWork", spec={"workload": {"manifests": [one]}})


def carried(one: Any) -> str:
    return manifest("kubernetes.crossplane.io/v1alpha2", "Object", spec={"forProvider": {"manifest": one}})


def graph(family: str, taints: Any = None) -> str:
    template = karpenter(family, taints)
    return manifest(
        "kro.run/v1alpha1", "ResourceGraphDefinition", spec={"resources": [{"id": "a", "template": template}]}
    )


def config_map(one: Any) -> str:
    return manifest("v1", "ConfigMap", data={"np.yaml": yaml.safe_dump(one)})


def by_platform(version: str, kind: str, taints: Any = None, **platform: Any) -> str:
    return manifest(version, kind, spec={"platform": platform, **({"taints": taints} if taints else {})})


def self_managed(**group: Any) -> str:
    return manifest("eksctl.io/v1alpha5", "ClusterConfig", nodeGroups=[{"name": "g", **group}])


P5 = {"instanceType": "p5.48xlarge"}
BARE, REGISTERED = node_config({}), node_config({"registerWithTaints": [GPU_TAINT]})
UNREGISTERED = node_config({"registerWithTaints": []})
HYPERSHIFT = ("hypershift.openshift.io/v1beta1", "NodePool")
WORKERS = {"provider": {"workers": [{"name": "a", "machine": {"type": "g5.xlarge"}}]}}
FLUX_ON_AZURE = ("kubernetesconfiguration.azure.upbound.io/v1beta1", "KubernetesFluxConfiguration")
MIXED = {"machineType": "m5.large", "mixedInstancesPolicy": {"instances": ["g5.xlarge"]}}
WITHOUT_GPUS = {TYPE: "m5.large", "nvidia.com/gpu.present": "false"}
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ASO_CLUSTER = {
    "apiVersion": "containerservice.azure.com/v1api20231001",
    "kind": "ManagedCluster",
    "metadata": {"name": "a"},
    "spec": {"agentPoolProfiles": [{"name": "gpu", "vmSize": "Standard_NC24ads_A100_v4"}]},
}
CAPI, INFRASTRUCTURE = "cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io"
ASO_PLANE = (f"{INFRASTRUCTURE}/v1alpha1", "AzureASOManagedControlPlane")
OF_ANY_KIND = {"apiVersion": "x.io/v1", "kind": "${KIND}", "metadata": {"name": "a"}}
THING = yaml.safe_load(manifest("example.com/v1", "Thing", spec={}))
OBJECTS = [
    ("eksctl bare", eksctl(instanceType="g5.xlarge"), DEFINITE),
    ("eksctl tainted", eksctl(instanceType="g5.xlarge", taints=[GPU_TAINT]), FINE),
    ("eksctl old taints", eksctl(instanceType="g5.xlarge", taints={"nvidia.com/gpu": "true:NoSchedule"}), FINE),
    ("eksctl soft taint", eksctl(instanceType="p4d.24xlarge", taints={"a": "b:PreferNoSchedule"}), DEFINITE),
    ("eksctl CPU", eksctl(instanceTypes=["m5.large", "c5.large"]), FINE),
    ("eksctl default type", eksctl(), FINE),
    ("eksctl NodeConfig", eksctl(**P5, overrideBootstrapCommand=BARE), DEFINITE),
    ("eksctl NodeConfig, tainted", eksctl(**P5, taints=[GPU_TAINT], overrideBootstrapCommand=BARE), FINE),
    ("eksctl NodeConfig with a taint", eksctl(**P5, overrideBootstrapCommand=REGISTERED), FINE),
    (
        "eksctl NodeConfig that replaces a taint",
        self_managed(**P5, taints=[GPU_TAINT], overrideBootstrapCommand=UNREGISTERED),
        DEFINITE,
    ),
    ("eksctl template", eksctl(launchTemplate={"id": "lt-1"}), OPEN),
    ("eksctl selector", eksctl(instanceSelector={"vCPUs": 4, "memory": "16"}), OPEN),
    ("eksctl selector without GPUs", eksctl(instanceSelector={"vCPUs": 4, "memory": "16", "gpus": 0}), FINE),
    ("eksctl selector of GPUs", eksctl(instanceSelector={"gpus": 1}), DEFINITE),
    ("kOps", kops({"machineType": "g5.xlarge"}), NOT_UNDERSTOOD),
    ("kOps CPU", kops({"machineType": "m5.large"}), ADVISED),
    ("kOps mixed", kops(MIXED), NOT_UNDERSTOOD),
    ("kOps cluster", manifest("kops.k8s.io/v1alpha2", "Cluster", spec={}), FINE),
    ("OpenShift bare", machine_set("g4dn.xlarge"), NOT_UNDERSTOOD),
    ("OpenShift tainted", machine_set("g4dn.xlarge", taints=[GPU_TAINT]), ADVISED),
    ("OpenShift CPU", machine_set("m6i.xlarge"), ADVISED),
    ("ROSA's default pool", rosa({"instanceType": "g5.xlarge"}), NOT_UNDERSTOOD),
    ("ROSA without", rosa({}), FINE),
    ("RKE2", manifest("bootstrap.cluster.x-k8s.io/v1beta1", "RKE2ConfigTemplate", spec={}), FINE),
    ("EKS Anywhere", manifest(f"{ANYWHERE}/v1alpha1", "Cluster", spec={}), NOT_UNDERSTOOD),
    ("EKS Anywhere's machines", manifest(f"{ANYWHERE}/v1alpha1", "NutanixMachineConfig", spec={}), NOT_UNDERSTOOD),
    ("kubeadm join", manifest("kubeadm.k8s.io/v1beta4", "JoinConfiguration"), ADVISED),
    ("ACK fleet", manifest("ec2.services.k8s.aws/v1alpha1", "Fleet", spec={}), NOT_UNDERSTOOD),
    ("ASO Flux", manifest("kubernetesconfiguration.azure.com/v1api20230501", "FluxConfiguration", spec={}), ADVISED),
    ("Upbound Flux", manifest(*FLUX_ON_AZURE), ADVISED),
    ("Upbound edge", manifest("edgecontainer.gcp.m.upbound.io/v1beta1", "NodePool", spec={}), NOT_UNDERSTOOD),
    ("Config Sync", manifest("gkehub.cnrm.cloud.google.com/v1beta1", "GKEHubFeatureMembership", spec={}), ADVISED),
    ("Config Connector", manifest("gkehub.cnrm.cloud.google.com/v1beta1", "GKEHubMembership", spec={}), FINE),
    ("Dataproc by Crossplane", manifest("dataproc.gcp.upbound.io/v1beta2", "Cluster", spec=ON_GKE), NOT_UNDERSTOOD),
    ("Dataproc by Crossplane, of its own", manifest("dataproc.gcp.upbound.io/v1beta2", "Cluster", spec={}), FINE),
    ("HyperShift bare", by_platform(*HYPERSHIFT, aws={"instanceType": "g5.xlarge"}), NOT_UNDERSTOOD),
    (
        "HyperShift tainted",
        by_platform(*HYPERSHIFT, [GPU_TAINT], azure={"vmSize": "Standard_NC24ads_A100_v4"}),
        ADVISED,
    ),
    (
        "Hive bare",
        by_platform("hive.openshift.io/v1", "MachinePool", gcp={"type": "a2-highgpu-1g"}),
        NOT_UNDERSTOOD,
    ),
    ("Gardener bare", manifest("core.gardener.cloud/v1beta1", "Shoot", spec=WORKERS), NOT_UNDERSTOOD),
    ("node by its resources", node({}, (), **{"nvidia.com/gpu": "1"}), DEFINITE),
    ("node by its slices", node({}, (), **{"nvidia.com/mig-1g.5gb": "7"}), DEFINITE),
    ("node by its type", node({TYPE: "g6.xlarge"}), DEFINITE),
    ("node by its label", node({"nvidia.com/gpu.present": "true"}), DEFINITE),
    ("node tainted", node({TYPE: "g6.xlarge"}, [GPU_TAINT], **{"nvidia.com/gpu": "1"}), FINE),
    ("node cordoned only", node({TYPE: "g6.xlarge"}, [UNREADY]), DEFINITE),
    ("node without GPUs", node(WITHOUT_GPUS, (), **{"nvidia.com/gpu": "0"}), FINE),
    ("ConfigMap with a pool", config_map(UNTAINTED), NOT_UNDERSTOOD),
    ("ConfigMap without", config_map({"a": 1}), FINE),
    ("Object bare", carried(UNTAINTED), NOT_UNDERSTOOD),
    ("a schema of pools", manifest(*CRD, spec={"a": yaml.safe_dump(UNTAINTED)}), FINE),
    ("AKS pools in a control plane", manifest(*ASO_PLANE, spec={"resources": [ASO_CLUSTER]}), NOT_UNDERSTOOD),
    ("ManifestWork bare", work(UNTAINTED), NOT_UNDERSTOOD),
    ("kro bare", graph("g5"), NOT_UNDERSTOOD),
    ("Composition bare", composition(UNTAINTED), NOT_UNDERSTOOD),
    ("OpenShift Template", manifest("template.openshift.io/v1", "Template", objects=[UNTAINTED]), NOT_UNDERSTOOD),
    ("Flux placeholder", yaml.safe_dump(karpenter("${FAMILY:=g5}")), OPEN),
    ("Flux placeholder for CPU", yaml.safe_dump(karpenter("${FAMILY:=m5}")), OPEN),
    ("Helm placeholder", yaml.safe_dump(karpenter("{{ .Values.family }}")), OPEN),
    ("placeholder with a taint", yaml.safe_dump(karpenter("${FAMILY:=g5}", [GPU_TAINT])), FINE),
    ("placeholder in a name", yaml.safe_dump({**CPU, "metadata": {"name": "${CLUSTER}-cpu"}}), FINE),
    ("kind is a placeholder", yaml.safe_dump(OF_ANY_KIND), NOT_UNDERSTOOD),
    ("Karpenter's new kind", manifest("karpenter.sh/v2", "NodeFleet", spec={}), NOT_UNDERSTOOD),
    ("Karpenter's overlay", manifest("karpenter.sh/v1alpha1", "NodeOverlay", spec={}), FINE),
    ("Cluster with topology", manifest(CAPI, "Cluster", spec={"topology": {"class": "a"}}), NOT_UNDERSTOOD),
    ("Cluster without", manifest(CAPI, "Cluster", spec={"infrastructureRef": {}}), FINE),
    ("ClusterClass", manifest(CAPI, "ClusterClass", spec={}), NOT_UNDERSTOOD),
    ("a provider's machines", manifest(f"{INFRASTRUCTURE}/v1", "OCIMachineTemplate", spec={}), NOT_UNDERSTOOD),
    ("an instance of a kro group", manifest("kro.run/v1alpha1", "GpuCluster", spec={}), NOT_UNDERSTOOD),
    ("Flux", manifest("helm.toolkit.fluxcd.io/v2", "HelmRelease", spec={}), ADVISED),
    ("workloads", manifest("jobset.x-k8s.io/v1alpha2", "JobSet", spec={}), FINE),
    ("an API of Kubernetes", manifest("networking.k8s.io/v1", "Ingress", spec={}), FINE),
    ("a chart's values in a ConfigMap", config_map({"a": {"extraObjects": [{"x": 1}, UNTAINTED]}}), NOT_UNDERSTOOD),
    ("a text in a ConfigMap", config_map({"manifests": [yaml.safe_dump(UNTAINTED)]}), NOT_UNDERSTOOD),
    ("a resource set", manifest("addons.cluster.x-k8s.io/v1beta1", "ClusterResourceSet", spec={}), ADVISED),
]


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in OBJECTS], ids=[case[0] for case in OBJECTS])
def test_an_object_is_judged_or_named(text: str, wanted: list[Any], judge: Judge) -> None:
    judged = judge(text)

    assert found(judged) == wanted
    assert sum(judged.answers.values()) == judged.resources
    assert (judged.answers["not_understood"] > 0) == (wanted in (NOT_UNDERSTOOD, ADVISED))


# --- Terraform --------------------------------------------------------------------------------------------------------


def plan(kind: str, after: Any = None, unknown: Any = None, **more: Any) -> dict[str, Any]:
    change = {
        "address": f"{kind}.x",
        "mode": "managed",
        "type": kind,
        "name": "x",
        "change": {"actions": ["create"], "before": None, "after": after or {}, "after_unknown": unknown or {}},
    }
    expressions = {key: {"references": ["var.a"]} for key in {**(after or {}), **(unknown or {})}}
    resource = {"address": f"{kind}.x", "mode": "managed", "type": kind, "name": "x", "expressions": expressions}
    return {
        "format_version": "1.2",
        "resource_changes": [change],
        "configuration": {"root_module": {"resources": [resource]}},
        **more,
    }


def made_by_cdk(one: Any) -> dict[str, Any]:
    """Write an object as CDK does, in pieces around what other resources bring."""
    first, last = json.dumps([one]).split("PART")
    joined = {"Fn::Join": ["", [first, {"Fn::GetAtt": ["Role", "Arn"]}, last]]}
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": joined}}


def stack(type_: str, taints: Any = None) -> str:
    group = {"ClusterName": "a", "InstanceTypes": [type_], **({"Taints": taints} if taints else {})}
    return json.dumps({"Resources": {"Gpu": {"Type": "AWS::EKS::Nodegroup", "Properties": group}}})


HARD = [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NO_SCHEDULE"}]


def arm(size: str, taints: Any = None, **template: Any) -> str:
    properties = {"vmSize": size, "mode": "User", **({"nodeTaints": taints} if taints else {})}
    pool = {"type": "Microsoft.ContainerService/managedClusters/agentPools", "name": "a/gpu", "properties": properties}
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    return json.dumps({"$schema": schema, "contentVersion": "1.0.0.0", "resources": [pool], **template})


A100 = "Standard_NC24ads_A100_v4"
ARM_TAINT = ["nvidia.com/gpu=present:NoSchedule"]
STATE = {"type_name": "AWS::EKS::Nodegroup", "desired_state": json.dumps({"InstanceTypes": ["g5.xlarge"]})}
RELEASE = {"name": "a", "chart": "pools", "repository": "https://example.com", "version": "1.0.0"}


DEPLOYMENT = "azurerm_resource_group_template_deployment"
POOL_ELSEWHERE, OF_GPUS = "digitalocean_kubernetes_node_pool", {"size": "gpu-h100x1-80gb"}
SOFT = {**GPU_TAINT, "effect": "PreferNoSchedule"}
AGENT_POOLS = "Microsoft.ContainerService/managedClusters/agentPools"
AWSCC = {"instance_types": ["g5.xlarge"], "taints": [{"key": "a", "effect": "NO_SCHEDULE"}]}
HYPERPOD = {**STATE, "type_name": "AWS::SageMaker::Cluster"}
STORAGE = {"type": "Microsoft.Storage/accounts@2025-01-01"}

PLANS = [
    ("ConfigMap", plan("kubernetes_config_map_v1", {"data": {"a": yaml.safe_dump(UNTAINTED)}}), NOT_UNDERSTOOD),
    ("kubectl_manifest not known", plan("kubectl_manifest", {}, {"yaml_body": True}), NOT_UNDERSTOOD),
    ("kubectl_manifest bare", plan("kubectl_manifest", {"yaml_body": yaml.safe_dump(UNTAINTED)}), DEFINITE),
    ("kubectl_manifest good", plan("kubectl_manifest", {"yaml_body": yaml.safe_dump(TAINTED)}), FINE),
    ("kubectl_manifest broken", plan("kubectl_manifest", {"yaml_body": "a: [1"}), NOT_UNDERSTOOD),
    ("kubectl_manifest no object", plan("kubectl_manifest", {"yaml_body": "a: 1"}), NOT_UNDERSTOOD),
    ("kubernetes_manifest not known", plan("kubernetes_manifest", {}, {"manifest": True}), NOT_UNDERSTOOD),
    ("kustomization_resource", plan("kustomization_resource", {"manifest": json.dumps(UNTAINTED)}), DEFINITE),
    ("stack bare", plan("aws_cloudformation_stack", {"template_body": stack("g5.xlarge")}), NOT_UNDERSTOOD),
    ("stack good", plan("aws_cloudformation_stack", {"template_body": stack("g5.xlarge", HARD)}), FINE),
    ("stack CPU", plan("aws_cloudformation_stack", {"template_body": stack("m5.large")}), FINE),
    ("stack elsewhere", plan("aws_cloudformation_stack", {"template_url": "https://x"}), NOT_UNDERSTOOD),
    ("stack not known", plan("aws_cloudformation_stack", {}, {"template_body": True}), NOT_UNDERSTOOD),
    ("stack set bare", plan("aws_cloudformation_stack_set", {"template_body": stack("g5.xlarge")}), NOT_UNDERSTOOD),
    ("Cloud Control bare", plan("aws_cloudcontrolapi_resource", STATE), NOT_UNDERSTOOD),
    ("Cloud Control bucket", plan("aws_cloudcontrolapi_resource", {**STATE, "type_name": "AWS::S3::Bucket"}), FINE),
    ("Cloud Control HyperPod", plan("aws_cloudcontrolapi_resource", HYPERPOD), NOT_UNDERSTOOD),
    ("awscc bare", plan("awscc_eks_nodegroup", {**AWSCC, "taints": []}), NOT_UNDERSTOOD),
    ("awscc good", plan("awscc_eks_nodegroup", AWSCC), ADVISED),
    ("awscc template", plan("awscc_ec2_launch_template", {"launch_template_name": "a"}), NOT_UNDERSTOOD),
    ("awscc bucket", plan("awscc_s3_bucket", {}), FINE),
    ("ARM bare", plan(DEPLOYMENT, {"template_content": arm(A100)}), NOT_UNDERSTOOD),
    ("ARM good", plan(DEPLOYMENT, {"template_content": arm(A100, ARM_TAINT)}), FINE),
    ("ARM parameter", plan(DEPLOYMENT, {"template_content": arm("[parameters('size')]")}), NOT_UNDERSTOOD),
    ("ARM not known", plan(DEPLOYMENT, {}, {"template_content": True}), NOT_UNDERSTOOD),
    (
        "azapi_update_resource of AKS",
        plan("azapi_update_resource", {"type": f"{AGENT_POOLS}@2025-01-01", "body": {}}),
        NOT_UNDERSTOOD,
    ),
    ("azapi_update_resource of another", plan("azapi_update_resource", STORAGE), FINE),
    (
        "azapi_resource machines",
        plan("azapi_resource", {"type": f"{AGENT_POOLS}/machines@2025-01-01"}),
        NOT_UNDERSTOOD,
    ),
    ("HyperPod", plan("aws_sagemaker_cluster", {"orchestrator": [{"eks": [{"cluster_arn": "a"}]}]}), NOT_UNDERSTOOD),
    ("HyperPod with Slurm", plan("aws_sagemaker_cluster", {}), FINE),
    ("Dataproc on GKE", plan("google_dataproc_cluster", {"virtual_cluster_config": [{"a": 1}]}), NOT_UNDERSTOOD),
    ("Dataproc", plan("google_dataproc_cluster", {"virtual_cluster_config": [], "cluster_config": [{}]}), FINE),
    ("Config Sync in Terraform", plan("google_gke_hub_feature_membership", {"feature": "configmanagement"}), ADVISED),
    ("GKE on AWS", plan("google_container_aws_node_pool", {}), NOT_UNDERSTOOD),
    ("another cloud's pool", plan(POOL_ELSEWHERE, {"size": "s-1vcpu-2gb"}), ADVISED),
    ("GPUs of another cloud", plan(POOL_ELSEWHERE, OF_GPUS), NOT_UNDERSTOOD),
    ("a size not known yet", plan(POOL_ELSEWHERE, None, {"size": True}), NOT_UNDERSTOOD),
    ("another cloud's tainted pool", plan(POOL_ELSEWHERE, {**OF_GPUS, "taint": [GPU_TAINT]}), ADVISED),
    ("a taint that only prefers", plan(POOL_ELSEWHERE, {**OF_GPUS, "taint": [SOFT]}), NOT_UNDERSTOOD),
    (
        "two pools, one with GPUs",
        plan("linode_lke_cluster", {"pool": [{"type": "g6-standard-2"}, {"type": "g2-gpu-rtx4000a1-s"}]}),
        NOT_UNDERSTOOD,
    ),
    ("two pools without GPUs", plan("linode_lke_cluster", {"pool": [{"type": "g6-standard-2"}] * 2}), ADVISED),
    ("sole-tenant nodes", plan("google_compute_node_group", {"initial_size": 1}), FINE),
    ("Cloud Build", plan("google_cloudbuild_worker_pool", {"worker_config": [{"machine_type": "n1"}]}), FINE),
    ("Databricks", plan("databricks_cluster", {"node_type_id": "g5.4xlarge"}), FINE),
    ("Cloud Workstations", plan("google_workstations_workstation_config", {"host": []}), FINE),
    ("Batch", plan("aws_batch_compute_environment", {"compute_resources": [{"instance_type": ["p4d"]}]}), FINE),
    ("EMR", plan("aws_emr_cluster", {"core_instance_group": [{"instance_type": "g4dn.xlarge"}]}), FINE),
    ("SageMaker", plan("aws_sagemaker_endpoint_configuration", {"production_variants": []}), FINE),
    ("another cloud's record", plan("exoscale_domain_record", {}), ADVISED),
    ("a new pool of a known cloud", plan("aws_eks_gpu_node_pool", {}), NOT_UNDERSTOOD),
    ("a bucket", plan("aws_s3_bucket", {}), FINE),
    ("incomplete", plan("aws_s3_bucket", {}, complete=False), NOT_UNDERSTOOD),
    ("complete", plan("aws_s3_bucket", {}, complete=True), FINE),
]


@pytest.mark.parametrize(("content", "wanted"), [case[1:] for case in PLANS], ids=[case[0] for case in PLANS])
def test_a_plan_is_judged_or_named(content: Any, wanted: list[Any], judge: Judge) -> None:
    assert found(judge(content)) == wanted


def test_a_deferred_change_is_judged_and_what_it_brings_later_is_open(judge: Judge) -> None:
    group = plan("aws_eks_node_group", {"instance_types": ["g5.xlarge"], "taint": []})["resource_changes"][0]
    deferred = [{"reason": "resource_config_unknown", "resource_change": group}]

    judged = judge({"format_version": "1.2", "resource_changes": [], "deferred_changes": deferred, "complete": False})

    assert found(judged) == [*NOT_UNDERSTOOD, *DEFINITE]
    assert judged.gaps == ("deferred-changes",)


# --- templates --------------------------------------------------------------------------------------------------------

CLOUDFORMATION = """\
AWSTemplateFormatVersion: "2010-09-09"
Parameters:
  Type: {Type: String, Default: g5.xlarge}
Resources:
  Machine:
    Type: AWS::EC2::LaunchTemplate
    Properties: {LaunchTemplateData: {InstanceType: %s}}
  Gpu:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: train
      NodeRole: !GetAtt Role.Arn
      Subnets: !Ref Subnets
      LaunchTemplate: {Id: !Ref Machine, Version: !GetAtt Machine.LatestVersionNumber}
      Taints: %s
  Role: {Type: AWS::IAM::Role}
"""
JOINED = [("violation", "gpu-pool-tainted", False)]
JOINED_OPEN = [("unverified", "gpu-pool-tainted", True)]


@pytest.mark.parametrize(
    ("machine", "taints", "wanted"),
    [
        ("g5.xlarge", "[]", JOINED),
        ("g5.xlarge", "[{Key: a, Value: b, Effect: NO_SCHEDULE}]", FINE),
        ("m5.large", "[]", FINE),
        ("!Ref Type", "[]", JOINED_OPEN),
        ("!Sub '${Type}'", "[]", JOINED_OPEN),
    ],
)
def test_a_cloudformation_template_is_read_with_its_references(
    machine: str, taints: str, wanted: list[Any], judge: Judge
) -> None:
    judged = judge(CLOUDFORMATION % (machine, taints))

    assert judged.form == "CloudFormation template"
    assert found(judged) == wanted
    assert {each.address for each in judged.found if "tainted" in each.rule.name} <= {"Gpu"}


def test_a_finding_in_a_template_is_told_on_its_line_in_cloudformations_words(judge: Judge) -> None:
    text = CLOUDFORMATION % ("m5.large", "[]")
    judged = judge(text.replace("      LaunchTemplate:", "      InstanceTypes: [g5.xlarge]\n      LaunchTemplate:"))
    (finding,) = (each for each in judged.found if each.rule.name.startswith("gpu-pool-tainted"))

    assert finding.line == 16
    assert "(InstanceTypes g5.xlarge)" in finding.message
    assert "found Taints: none" in finding.message


@pytest.mark.parametrize(
    ("resource", "wanted"),
    [
        ({"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://x"}}, NOT_UNDERSTOOD),
        ({"Type": "AWS::SageMaker::Cluster"}, FINE),
        ({"Type": "AWS::SageMaker::Cluster", "Properties": {"Orchestrator": {"Ref": "Mine"}}}, NOT_UNDERSTOOD),
        (
            {"Type": "AWS::SageMaker::Cluster", "Properties": {"Orchestrator": {"Eks": {"ClusterArn": "a"}}}},
            NOT_UNDERSTOOD,
        ),
        ({"Type": "AWSQS::Kubernetes::Resource"}, NOT_UNDERSTOOD),
        ({"Type": "AWS::S3::Bucket"}, FINE),
        ({"Type": "Custom::Thing"}, ADVISED),
        ({"Type": "AWS::EKS::Nodegroup", "Properties": {"Fn::Transform": {}}}, NOT_UNDERSTOOD),
        (["Fn::ForEach"], NOT_UNDERSTOOD),
        (
            {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([UNTAINTED])}},
            DEFINITE,
        ),
        ({"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([TAINTED])}}, FINE),
        (
            {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": {"Fn::Join": []}}},
            NOT_UNDERSTOOD,
        ),
        (made_by_cdk(yaml.safe_load(manifest("v1", "ConfigMap", data={"mapRoles": "PART"}))), FINE),
        (made_by_cdk(karpenter("PART")), OPEN),
        (made_by_cdk(karpenter("PART", [GPU_TAINT])), FINE),
        (made_by_cdk({**UNTAINTED, "metadata": {"name": "PART"}}), DEFINITE),
    ],
    ids=str,
)
def test_what_a_template_holds_is_judged_or_named(resource: Any, wanted: list[Any], judge: Judge) -> None:
    assert found(judge({"AWSTemplateFormatVersion": "2010-09-09", "Resources": {"X": resource}})) == wanted


ELSEWHERE = {
    "type": "Microsoft.Resources/deployments",
    "name": "n",
    "properties": {"templateLink": {"uri": "https://x"}},
}
CLUSTER = {
    "type": "Microsoft.ContainerService/managedClusters",
    "name": "a",
    "properties": {"agentPoolProfiles": [{"name": "gpu", "vmSize": A100}]},
}
CHILD = {
    **CLUSTER,
    "properties": {},
    "resources": [{"type": "agentPools", "name": "g", "properties": {"vmSize": A100}}],
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (arm(A100), DEFINITE),
        (arm(A100, ARM_TAINT), FINE),
        (arm("Standard_D4s_v5"), FINE),
        (arm("[parameters('size')]", parameters={"size": {"defaultValue": "Standard_D4s_v5"}}), FINE),
        (arm("[parameters('size')]", parameters={"size": {"defaultValue": A100}}), DEFINITE),
        (arm("[parameters('size')]", parameters={"size": {"type": "string"}}), OPEN),
        (arm("", resources=[CLUSTER]), DEFINITE),
        (arm("", resources=[CHILD]), DEFINITE),
        (arm("", languageVersion="2.0", resources={"pool": json.loads(arm(A100))["resources"][0]}), DEFINITE),
        (arm("", resources={"pool": {**json.loads(arm(A100))["resources"][0], "existing": True}}), FINE),
        (
            arm(
                "", resources=[{**ELSEWHERE, "properties": {"mode": "Incremental", "template": json.loads(arm(A100))}}]
            ),
            DEFINITE,
        ),
        (arm("", resources=[ELSEWHERE]), NOT_UNDERSTOOD),
        (arm("", resources=[{"type": "Microsoft.Storage/storageAccounts", "name": "s"}]), FINE),
        (arm("", resources=[{"type": "Microsoft.HybridContainerService/agentPools", "name": "s"}]), NOT_UNDERSTOOD),
    ],
    ids=range(14),
)
def test_an_arm_template_is_read(text: str, wanted: list[Any], judge: Judge) -> None:
    judged = judge(text)

    assert judged.form == "ARM template"
    assert found(judged) == wanted


# --- documents that could be misread ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (json.dumps({**UNTAINTED, "steps": []}), DEFINITE),
        (json.dumps({**UNTAINTED, "format_version": "1.2", "resource_changes": []}), DEFINITE),
        (
            json.dumps(
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePoolList",
                    "items": [{key: UNTAINTED[key] for key in ("metadata", "spec")}],
                }
            ),
            DEFINITE,
        ),
    ],
    ids=["steps", "plan", "typed list"],
)
def test_an_object_stays_one_whatever_else_it_holds(text: str, wanted: list[Any], judge: Judge) -> None:
    assert found(judge(text)) == wanted


PLAN = json.dumps({"format_version": "1.2", "resource_changes": [], "planned_values": {}})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{PLAN}\n{json.dumps(UNTAINTED)}", "could be a Terraform plan or a Kubernetes manifest"),
        (f"{PLAN}\n{PLAN}", "holds 2 documents, of which a Terraform plan is one"),
        ("version: 3\ndeployment: {resources: []}\n---\n" + yaml.safe_dump(UNTAINTED), "could be a Pulumi state or"),
        (json.dumps({**json.loads(PLAN), "steps": [{"op": "same"}]}), "could be a Terraform plan or a Pulumi preview"),
        (
            json.dumps({"apiVersion": "v1", "kind": "List", "items": {"0": UNTAINTED}}),
            "and a List has a list of objects",
        ),
        (json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"a": 1}]}), "is not a Kubernetes object"),
        ("a: 1\na: 2\n", "line 2: has the duplicate key 'a' (first on line 1)"),
        ('{"a": {"b": 1, "b": 2}}', "has the key 'b' twice in one object"),
        ("kind: x\napiVersion: v1\nspec:\n{{- if .Values.a }}\n  b: 1\n{{- end }}\n", "(a template?)"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str, what: str, judge: Judge) -> None:
    judged = judge(text)

    assert judged.refuses
    assert any(what in f"{problem.what}" for problem in judged.problems), judged.problems


def preview(same: int, *ops: str, kind: str = "aws:s3/bucket:Bucket") -> dict[str, Any]:
    urns = [f"urn:pulumi:dev::p::{kind}::{place}" for place in range(len(ops))]
    steps = [
        {"op": op, "urn": urn, "newState": {"urn": urn, "type": kind, "custom": True, "inputs": {}}}
        for op, urn in zip(ops, urns, strict=True)
    ]
    return {"steps": steps, "duration": 1, "changeSummary": {"same": same}}


@pytest.mark.parametrize(
    ("content", "wanted"),
    [(preview(12, "update"), NOT_UNDERSTOOD), (preview(2, "same", "same"), FINE), (preview(0, "create"), FINE)],
    ids=["left out", "shown", "none"],
)
def test_a_preview_without_the_unchanged_resources_cannot_be_verified(
    content: Any, wanted: list[Any], judge: Judge
) -> None:
    judged = judge(content)

    assert found(judged) == wanted
    assert all("--show-sames" in each.message for each in judged.found)


def test_a_component_is_what_its_children_are(judge: Judge) -> None:
    content = preview(0, "create", kind="my:index:KubernetesThing")
    content["steps"][0]["newState"]["custom"] = False

    assert found(judge(content)) == FINE
    assert found(judge(preview(0, "create", kind="my:index:KubernetesThing"))) == NOT_UNDERSTOOD


# --- configuration and reports ----------------------------------------------------------------------------------------

OF_EKS_ANYWHERE = manifest(f"{ANYWHERE}/v1alpha1", "Cluster", spec={})


def test_a_kind_is_left_out_with_a_reason_and_is_still_said(judge: Judge) -> None:
    options = {RULE: {"reasons": {"anywhere.eks.amazonaws.com/*": "reviewed by the platform team"}}}
    judged = judge(OF_EKS_ANYWHERE, Config(options=options))

    assert found(judged) == ADVISED
    assert not judged.refuses
    assert judged.answers["not_understood"] == 1
    assert "accepted: reviewed by the platform team" in judged.found[0].message


def test_a_gap_is_left_out_with_a_reason_and_is_still_said(judge: Judge) -> None:
    options = {RULE: {"reasons": {"unchanged-resources": "judged nightly"}}}
    judged = judge(preview(12, "update"), Config(options=options))

    assert [(each.level.value, each.count) for each in judged.found] == [("advice", 1)]
    assert judged.gaps == ("unchanged-resources",)


def test_an_empty_reason_is_none(judge: Judge) -> None:
    assert found(judge(OF_EKS_ANYWHERE, Config(options={RULE: {"reasons": {"*": " "}}}))) == NOT_UNDERSTOOD


def test_every_report_counts_the_three_answers(write: Any, run: Run) -> None:
    path: Path = write(
        OF_EKS_ANYWHERE + "---\n" + yaml.safe_dump(TAINTED) + "---\n" + manifest("v1", "Service"), "three.yaml"
    )
    wanted = {"judged": 1, "no_node_pool": 1, "not_understood": 1}
    summary = "3 resources (1 judged, 1 no node pool, 1 not understood)"

    assert summary in run("policy", path)[1]
    assert summary in run("policy", path, "--format", "github")[1]
    (file,) = json.loads(run("policy", path, "--json")[1])["files"]
    assert file["answers"] == wanted
    assert file["not_understood"] == ["Cluster/gpu"]
    sarif = json.loads(run("policy", path, "--format", "sarif")[1])
    assert sarif["runs"][0]["properties"]["answers"] == [{"file": str(path), **wanted, "gaps": []}]
    suite = Xml.fromstring(run("policy", path, "--format", "junit")[1]).find("testsuite")
    assert suite is not None
    assert {each.get("name"): each.get("value") for each in suite.iter("property")} == {
        key: str(number) for key, number in wanted.items()
    }


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_many_findings_are_counted_and_not_all_told(judge: Judge, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(judging, "MAX_FINDINGS", 5)
    items = [{**UNTAINTED, "metadata": {"name": f"n{place}"}} for place in range(12)]

    judged = judge({"apiVersion": "v1", "kind": "List", "items": items})
    tainted = [each for each in judged.found if each.rule.name == "gpu-pool-tainted"]

    assert len(tainted) == 6
    assert sum(each.count for each in tainted) == 12
    assert tainted[-1].message == "and 7 more like these; fix the reported ones first"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": ["Mine"], "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": {"Name": "Mine"}, "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Include", "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31", "Resources": {}}, FINE),
    ],
)
def test_a_template_that_a_macro_rewrites_is_not_understood(given: Any, expected: list[Any], judge: Judge) -> None:
    assert [each for each in found(judge(given)) if each[0] != "advice"] == expected


def test_a_look_at_a_file_leaves_the_collector_as_it_was(judge: Judge) -> None:
    judge("a: [")
    judge(yaml.safe_dump(TAINTED))

    assert gc.isenabled()


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_the_types_that_are_listed_as_read_are_read(cloud: str) -> None:
    types = (*clouds()[cloud].readback().types, *(token for each in type_readers() for token in each.types))

    assert [each for each in types if not is_read(each)] == []
    assert not is_read("aws:s3/bucket:Bucket")


@pytest.mark.parametrize(
    "type_token",
    ["azure-native_resources_v20240301:resources:Deployment", "aws-native:cloudformation:StackSet"],
)
def test_a_template_that_is_not_at_hand_is_named_in_pulumi_too(type_token: str) -> None:
    found = classify(type_token, {})

    assert found is not None
    assert found.nodes


@pytest.mark.parametrize("deep", [600, 900])
def test_a_template_that_is_nested_too_deeply_is_not_understood(deep: int, judge: Judge) -> None:
    nested: Any = []
    for _ in range(deep):
        nested = [nested]
    resources = {
        "A": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"X": nested}}},
        "B": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"LaunchTemplate": nested}},
    }

    body = json.dumps({"Resources": resources})

    assert found(judge(plan("aws_cloudformation_stack", {"template_body": body}))) == NOT_UNDERSTOOD
