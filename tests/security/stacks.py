"""Stacks of many resources, as the tools that write them would: what a few lines of a program make of them."""

import json
from collections.abc import Iterable
from typing import Any

EKS = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
COMPONENT = "my:index:Component"
PROVIDER = "pulumi:providers:kubernetes"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"


def daemon_set(number: int, selector: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": PLUGIN}], "nodeSelector": selector or {}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"d{number}"},
        "spec": {"template": {"spec": spec}},
    }


def karpenter(number: int) -> dict[str, Any]:
    machine = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": f"c{number}"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": f"p{number}"},
        "spec": {
            "template": {
                "metadata": {"labels": {"pool": f"p{number}"}},
                "spec": {"nodeClassRef": node_class, "requirements": [machine]},
            }
        },
    }


def node_class(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": f"c{number}"},
        "spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    }


def machines(number: int, name: str) -> list[dict[str, Any]]:
    """Write a template of Cluster API's machines, how they join, and what makes nodes of them."""
    registration = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
    return [
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "AWSMachineTemplate",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"instanceType": "g6.xlarge"}}},
        },
        {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
            "kind": "KubeadmConfigTemplate",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": registration}}}},
        },
        {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "MachineDeployment",
            "metadata": {"name": f"d{number}"},
            "spec": {
                "template": {
                    "spec": {
                        "infrastructureRef": {"kind": "AWSMachineTemplate", "name": name},
                        "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": name}},
                    }
                }
            },
        },
    ]


def objects(several: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(several)}, indent=1)


# --- Pulumi ---


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:dev::p::{type_}::{name}"


def resource(type_: str, name: str, inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"urn": urn(type_, name), "type": type_, "custom": True, "inputs": inputs, **more}


def node_group(number: int, cluster: str = "train", **more: Any) -> dict[str, Any]:
    inputs = {
        "clusterName": cluster,
        "amiType": "AL2023_x86_64_NVIDIA",
        "instanceTypes": ["g6.xlarge"],
        "labels": {"pool": f"p{number}"},
        **more.pop("inputs", {}),
    }
    return resource(EKS, f"n{number}", inputs, **more)


def state(resources: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"version": 3, "deployment": {"manifest": {}, "resources": list(resources)}}, indent=1)


def preview(resources: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"steps": [{"op": "create", "urn": one["urn"], "newState": one} for one in resources]}, indent=1)


def clusters_of_their_own(n: int) -> list[dict[str, Any]]:
    """Write clusters with a node group, a provider and a DaemonSet each, every DaemonSet made after the one before."""
    made: list[dict[str, Any]] = []
    for i in range(n):
        cluster, provider = urn(CLUSTER, f"c{i}"), urn(PROVIDER, f"k{i}")
        before = [urn(DAEMON_SET, f"d{i - 1}")] if i else []
        made += [
            resource(CLUSTER, f"c{i}", {"name": f"c{i}"}),
            resource(PROVIDER, f"k{i}", {"kubeconfig": f'{{"x": "c{i}"}}'}, dependencies=[cluster]),
            node_group(i, f"c{i}", propertyDependencies={"clusterName": [cluster]}),
            resource(
                DAEMON_SET,
                f"d{i}",
                daemon_set(i, {"pool": f"p{i}"}),
                provider=f"{provider}::id",
                dependencies=before,
            ),
        ]
    return made


def templates(n: int) -> list[dict[str, Any]]:
    made = [resource(TEMPLATE, f"t{i}", {"instanceType": "g6.xlarge"}, id=f"lt-{i}") for i in range(n)]
    return made + [node_group(i, inputs={"launchTemplate": {"id": f"lt-{i}"}}) for i in range(n)]


def one_wide_template(n: int) -> list[dict[str, Any]]:
    inputs = {"instanceType": "g6.xlarge", "networkInterfaces": [{"associatePublicIpAddress": "true"}] * n}
    made = [resource(TEMPLATE, "t", inputs, id="lt-1")]
    return made + [node_group(i, inputs={"launchTemplate": {"id": "lt-1"}}) for i in range(n)]


def nested(n: int) -> list[dict[str, Any]]:
    """Write components inside components, each with a node group."""
    made = []
    for i in range(n):
        above = {"parent": urn(COMPONENT, f"c{i - 1}")} if i else {}
        made += [resource(COMPONENT, f"c{i}", {}, **above), node_group(i, parent=urn(COMPONENT, f"c{i}"))]
    return made


def inline_pools(n: int) -> list[dict[str, Any]]:
    accelerators = [{"type": "nvidia-tesla-a100", "count": 1}]
    pools = [
        {"name": f"p{i}", "nodeConfig": {"machineType": "a2-highgpu-1g", "guestAccelerators": accelerators}}
        for i in range(n)
    ]
    made = [resource("gcp:container/cluster:Cluster", "c", {"name": "c", "nodePools": pools})]
    return made + [resource(DAEMON_SET, f"d{i}", daemon_set(i)) for i in range(n)]
