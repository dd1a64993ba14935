"""Files that bring GPU nodes whom nothing keeps free, each beside one that looks alike and does not."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from gpupools.policies.documents.judging import Judged
from gpupools.policies.finding import Level

Judge = Callable[[str], Judged]
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def manifest(version: str, kind: str, **more: Any) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **more})


def pool(*taints: Mapping[str, str]) -> dict[str, Any]:
    chosen = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    spec = {"requirements": [chosen], **({"taints": [*taints]} if taints else {})}
    body = {"metadata": {"name": "gpu"}, "spec": {"template": {"spec": spec}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **body}


def script(*taints: Mapping[str, str]) -> str:
    return f"kubectl apply -f - <<E\n{yaml.safe_dump(pool(*taints))}E\n"


def template(kind: str, **properties: Any) -> str:
    resources = {"X": {"Type": kind, "Properties": properties}}
    return json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})


def machine(*words: Any) -> str:
    data = {"Fn::Base64": {"Fn::Join": ["\n", ["#!/bin/bash", *words]]}}
    return template("AWS::EC2::Instance", InstanceType="g5.xlarge", ImageId="ami-1", UserData=data)


def mutation(kind: str, of: str, parameters: Any) -> str:
    spec = {"applyTo": [{"groups": [""], "versions": ["v1"], "kinds": [of]}], "location": "spec.taints"}
    return manifest("mutations.gatekeeper.sh/v1", kind, spec={**spec, "parameters": parameters})


def nodes(said: str, taints: list[Any]) -> str:
    held = {"apiVersion": "v1", "kind": "Node", "spec": {"taints": taints}}
    return manifest(
        "policy.open-cluster-management.io/v1",
        "ConfigurationPolicy",
        spec={"object-templates": [{"complianceType": said, "objectDefinition": held}]},
    )


def machine_set(machine: str) -> str:
    spec = {"template": {"spec": {"providerSpec": {"value": {"instanceType": machine}}}}}
    held = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "spec": spec}
    templates = {"object-templates": [{"complianceType": "musthave", "objectDefinition": held}]}
    inner = {"objectDefinition": {"kind": "ConfigurationPolicy", "spec": templates}}
    return manifest("policy.open-cluster-management.io/v1", "Policy", spec={"policy-templates": [inner]})


def raw_nodes(said: str, taints: str) -> str:
    text = (
        f"{{{{ range . }}}}\n- complianceType: {said}\n  objectDefinition: {{kind: Node, spec: {{taints: {taints}}}}}\n"
    )
    return manifest("policy.open-cluster-management.io/v1", "ConfigurationPolicy", spec={"object-templates-raw": text})


def eksctl(command: str) -> str:
    group = {"name": "gpu", "instanceType": "g5.xlarge", "taints": [TAINT], "overrideBootstrapCommand": command}
    return manifest("eksctl.io/v1alpha5", "ClusterConfig", nodeGroups=[group])


def workflow(method: str, address: str) -> str:
    sent = {"type": "Http", "inputs": {"method": method, "uri": address}}
    workflows = {"type": "Microsoft.Logic/workflows", "apiVersion": "2019-05-01", "name": "l"}
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    resources = [{**workflows, "properties": {"definition": {"actions": {"a": sent}}}}]
    return json.dumps({"$schema": schema, "contentVersion": "1.0.0.0", "resources": resources})


def readiness(key: str) -> str:
    return manifest("readiness.node.x-k8s.io/v1alpha1", "NodeReadinessRule", spec={"taint": {"key": key}})


AGENT_POOLS = "https://management.azure.com/subscriptions/s/x/managedClusters/c/agentPools/gpu?api-version=1"
JOIN = "kubeadm join 10.0.0.1:6443 --token a"

PAIRS = {
    "a command of Systems Manager": (
        template("AWS::SSM::Association", Name="AWS-RunShellScript", Parameters={"commands": [JOIN]}),
        template("AWS::SSM::Association", Name="AWS-RunShellScript", Parameters={"commands": ["nvidia-smi"]}),
    ),
    "a bootstrap command of eksctl": (
        eksctl("/etc/eks/bootstrap.sh a"),
        eksctl("/etc/eks/bootstrap.sh a --kubelet-extra-args --register-with-taints=nvidia.com/gpu=present:NoSchedule"),
    ),
    "machines that a policy has": (machine_set("g5.xlarge"), machine_set("m5.xlarge")),
    "a set that Gatekeeper prunes": (
        mutation("ModifySet", "Node", {"operation": "prune", "values": {"fromList": [TAINT]}}),
        mutation("ModifySet", "Node", {"operation": "merge", "values": {"fromList": [TAINT]}}),
    ),
    "a list that Gatekeeper assigns": (
        mutation("Assign", "Node", {"assign": {"value": []}}),
        mutation("Assign", "Node", {"assign": {"value": [TAINT]}}),
    ),
    "another object's list": (
        mutation("Assign", "*", {"assign": {"value": []}}),
        mutation("Assign", "Pod", {"assign": {"value": []}}),
    ),
    "only these taints on nodes": (nodes("mustonlyhave", []), nodes("mustonlyhave", [TAINT])),
    "only these taints on nodes, as text": (raw_nodes("mustonlyhave", "[]"), raw_nodes("musthave", "[{key: a}]")),
    "a taint that goes when the node is ready": (readiness("nvidia.com/gpu"), readiness("readiness.k8s.io/cni")),
    "a step of a workflow": (workflow("PUT", AGENT_POOLS), workflow("GET", AGENT_POOLS)),
    "a task's script": (
        manifest("tekton.dev/v1", "Task", spec={"steps": [{"name": "a", "script": script()}]}),
        manifest("tekton.dev/v1", "Task", spec={"steps": [{"name": "a", "script": script(TAINT)}]}),
    ),
    "a set of resources": (
        manifest("fluxcd.controlplane.io/v1", "ResourceSet", spec={"resources": [pool()]}),
        manifest("fluxcd.controlplane.io/v1", "ResourceSet", spec={"resources": [pool(TAINT)]}),
    ),
    "a bundle's content": (
        manifest("fleet.cattle.io/v1alpha1", "Bundle", spec={"resources": [{"content": yaml.safe_dump(pool())}]}),
        manifest("fleet.cattle.io/v1alpha1", "Bundle", spec={"resources": [{"content": yaml.safe_dump(pool(TAINT))}]}),
    ),
    "HyperPod": (
        template("AWS::SageMaker::Cluster", Orchestrator={"Eks": {"ClusterArn": "a"}}),
        template("AWS::SageMaker::Cluster", InstanceGroups=[{"InstanceType": "ml.p5.48xlarge"}]),
    ),
    "HyperShift": (
        manifest("hypershift.openshift.io/v1beta1", "Thing"),
        manifest("hypershift.openshift.io/v1beta1", "ControlPlaneComponent", spec={}),
    ),
}


def refused(judged: Judged) -> bool:
    assert judged.problems == ()
    said = {found.rule.name for found in judged.found if found.level is Level.MANDATORY}
    return not said.isdisjoint({"gpu-pool-tainted", "node-pools-understood"})


@pytest.mark.parametrize("name", PAIRS)
def test_what_brings_nodes_is_refused_and_what_looks_alike_is_not(name: str, judge: Judge) -> None:
    assert [refused(judge(text)) for text in PAIRS[name]] == [True, False]


def test_what_joins_on_a_machine_that_is_named_counts_by_that_machine(judge: Judge) -> None:
    given = {"Name": "AWS-RunShellScript", "Parameters": {"commands": [JOIN]}}

    assert refused(judge(template("AWS::SSM::Association", **given)))
    assert not refused(judge(template("AWS::SSM::Association", **given, InstanceType="m5.large")))
