"""The reading contract of every cloud folder: every kind of resource, whatever its inputs, and what our own declare."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from gpupools.asked.spec import SHARING_KINDS
from gpupools.base.taints import repels_cpu_pods
from gpupools.planned.pool_facts import UNKNOWN, PoolFacts
from gpupools.providers import clouds
from gpupools.read.inputs import at, joined, with_taint
from gpupools.read.kubernetes_pools import read_kubernetes_pools
from tests.rows import each_row

TOKENS = {
    "aws": (
        "aws:eks/nodeGroup:NodeGroup",
        "aws-native:eks:Nodegroup",
        "eks:index:ManagedNodeGroup",
        "eks:index:NodeGroup",
        "eks:index:NodeGroupV2",
        "eks:index:Cluster",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws-native:ec2:LaunchTemplate",
        "aws:ec2/launchConfiguration:LaunchConfiguration",
        "aws:ec2/instance:Instance",
        "aws:ec2/spotInstanceRequest:SpotInstanceRequest",
        "aws:autoscaling/group:Group",
        "aws-native:autoscaling:AutoScalingGroup",
        "aws:ec2/fleet:Fleet",
        "aws:ec2/spotFleetRequest:SpotFleetRequest",
        "aws-native:ec2:SpotFleet",
        "aws:cloudcontrol/resource:Resource",
        "aws-native:index:ExtensionResource",
        "aws:cloudformation/stack:Stack",
    ),
    "azure": (
        "azure-native:containerservice:AgentPool",
        "azure-native:containerservice/v20240901:ManagedCluster",
        "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool",
        "azure:containerservice/kubernetesCluster:KubernetesCluster",
    ),
    "gcp": (
        "gcp:container/nodePool:NodePool",
        "gcp:container/cluster:Cluster",
        "google-native:container/v1:NodePool",
        "google-native:container/v1beta1:Cluster",
    ),
    "kubernetes": (
        "kubernetes:karpenter.sh/v1:NodePool",
        "kubernetes:karpenter.sh/v1alpha5:Provisioner",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSManagedMachinePool",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSMachinePool",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta1:AzureManagedMachinePool",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta1:AzureASOManagedMachinePool",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta1:GCPManagedMachinePool",
        "kubernetes:cloud.google.com/v1:ComputeClass",
        "kubernetes:eks.services.k8s.aws/v1alpha1:Nodegroup",
        "kubernetes:containerservice.azure.com/v1api20231001:ManagedClustersAgentPool",
        "kubernetes:container.cnrm.cloud.google.com/v1beta1:ContainerNodePool",
        "kubernetes:container.cnrm.cloud.google.com/v1beta1:ContainerCluster",
        "kubernetes:eks.aws.upbound.io/v1beta1:NodeGroup",
        "kubernetes:containerservice.azure.m.upbound.io/v1beta1:KubernetesCluster",
        "kubernetes:container.gcp.upbound.io/v1beta1:NodePool",
        "kubernetes:machine.openshift.io/v1beta1:MachineSet",
    ),
}
ALL = [(owner, token) for owner, tokens in TOKENS.items() for token in tokens]


def read(owner: str, token: str, properties: Any) -> tuple[PoolFacts, ...]:
    if owner == "kubernetes":
        return read_kubernetes_pools(token, properties, clouds())
    return clouds()[owner].reading().read_pools(token, properties)


# fmt: off
KEYS = (
    "instanceTypes", "instanceType", "amiType", "gpu", "taints", "nodeTaints", "nodeInitializationTaints",
    "startupTaints", "launchTemplate", "launchTemplateData", "iamInstanceProfile", "userData", "userDataBase64",
    "imageId", "metadataOptions", "httpTokens", "keyName", "blockDeviceMappings", "ebs", "encrypted",
    "networkInterfaces", "associatePublicIpAddress", "instanceRequirements", "acceleratorTypes", "acceleratorCount",
    "min", "max", "allowedInstanceTypes", "mixedInstancesPolicy", "launchTemplateSpecification", "overrides", "tags",
    "tagSpecifications", "launchTemplateConfigs", "launchSpecifications", "remoteAccess", "ec2SshKey",
    "scalingConfig", "minSize", "maxSize", "labels", "nodeGroupOptions", "skipDefaultNodeGroup", "fargate",
    "autoMode", "enabled", "bottlerocketSettings", "settings", "kubernetes", "node-taints", "kubelet-device-plugins",
    "nvidia", "mig", "profile", "nodeadmExtraOptions", "content", "kubeletExtraArgs", "agentPoolProfiles",
    "defaultNodePool", "vmSize", "virtualMachinesProfile", "size", "gpuInstanceProfile", "gpuInstance", "gpuProfile",
    "driver", "gpuDriver", "enableNodePublicIP", "osSKU", "onlyCriticalAddonsEnabled", "minCount", "maxCount",
    "count", "nodeConfig", "config", "nodePools", "name", "machineType", "guestAccelerators", "accelerators", "type",
    "acceleratorType", "gpuPartitionSize", "gpuSharingConfig", "gpuSharingStrategy", "maxSharedClientsPerGpu",
    "clusterAutoscaling", "autoscaling", "resourceLimits", "resourceType", "maximum", "autoProvisioningDefaults",
    "metadata", "oauthScopes", "serviceAccount", "imageType", "enableAutopilot", "spec", "template", "requirements",
    "key", "operator", "values", "value", "effect", "nodeClassRef", "group", "kind", "apiVersion", "limits",
    "nvidia.com/gpu", "replicas", "sku", "kubernetesTaints", "resources", "priorities", "nodePoolAutoCreation",
    "nodePoolConfig", "awsLaunchTemplate", "scaling", "machineFamily", "forProvider", "initProvider", "taint",
    "guestAccelerator", "serviceAccountRef", "providerSpec", "gpus",
)
# fmt: on
LEAVES: tuple[Any, ...] = (
    *(UNKNOWN, None, True, False, -1, 0, 1, 2.5, 8.0, float("nan"), float("inf"), 10**400, "", "é", "\x00", "\ud800"),
    *(b"x", object(), (), "g6.xlarge", "p9.48xlarge", "g4ad.xlarge", "trn2.48xlarge", "m7i.large"),
    *("Standard_NC4as_T4_v3", "Standard_", "_", "g2-standard-4", "n1-standard-8", "ct6e-standard-4t", "nvidia-l4", "8"),
    *("NoSchedule", "NO_SCHEDULE", "no-schedule", "a=b:NoSchedule", "In", "Exists", "Gt", "NotIn", "DoesNotExist"),
    *(
        "node.kubernetes.io/instance-type",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-gpu-count",
    ),
    *("karpenter.azure.com/sku-family", "g", "AL2023_x86_64_NVIDIA", "MIG1g", "None", "TIME_SHARING", "gpu", "ON"),
    *("#!/bin/sh\n/etc/eks/bootstrap.sh x --kubelet-extra-args --register-with-taints=a:NoSchedule", "settings ["),
    *("apiVersion: node.eks.aws/v1alpha1\nspec: [", "[settings.kubernetes]\ncluster-name='x'", "MIME-Version: 1.0\n\n"),
)


def grown(dice: random.Random, depth: int) -> Any:
    choice = dice.random()
    if depth == 0 or choice < 0.4:
        return dice.choice(LEAVES)
    if choice < 0.6:
        return [grown(dice, depth - 1) for _ in range(dice.randrange(3))]
    return {key: grown(dice, depth - 1) for key in dice.sample(KEYS, dice.randrange(1, 6))}


def shaped(dice: random.Random, owner: str) -> Any:
    """Grow properties that often have keys of pools where pools have them."""
    if dice.random() < 0.1:
        return grown(dice, 3)
    properties = {key: grown(dice, 3) for key in dice.sample(KEYS, 25)}
    if owner != "kubernetes":
        return properties
    return {"spec": {**properties, "template": {"spec": {key: grown(dice, 2) for key in dice.sample(KEYS, 15)}}}}


def check(owner: str, token: str, properties: Any, pools: tuple[PoolFacts, ...]) -> None:
    """Hold what was read against what every reader promises."""
    for pool in pools:
        assert isinstance(pool, PoolFacts)
        assert pool.cloud in (owner, *(clouds() if owner == "kubernetes" else ()))
        assert pool.gpus_per_node is None or pool.gpus_per_node >= 0
        assert pool.accelerator in ("", "nvidia", "amd", "other")
        assert all(isinstance(name, str) for name in (*pool.instance_types, *pool.unknown, pool.where, pool.pool))
        assert pool.sharing is None or pool.sharing.kind in SHARING_KINDS
        # Something must be shown or be unknown before a pool counts as one that may have GPUs.
        assert pool.gpus_per_node == 0 or pool.evidence or pool.unknown
        assert all(one.source.startswith("https://") for one in pool.weaknesses)
        mended = with_taint(properties, pool)
        if mended is not None:
            again = [one for one in read(owner, token, mended) if one.where == pool.where and one.pool == pool.pool]
            assert any(repels_cpu_pods(one.taints) for one in again)


@each_row(("owner", "token"), ALL, ids=[token for _, token in ALL])
def test_no_input_makes_reading_fail(owner: str, token: str) -> None:
    dice = random.Random(f"20261121 {token}")
    for _ in range(60):
        properties = shaped(dice, owner)
        check(owner, token, properties, read(owner, token, properties))


TAINTS = [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}, {"key": "c", "effect": "NoSchedule"}]
MACHINE = {
    "instanceType": "g6.xlarge",
    "instanceRequirements": {
        "acceleratorTypes": ["gpu"],
        "acceleratorManufacturers": ["amd"],
        "acceleratorNames": ["l4"],
        "acceleratorCount": {"min": 1, "max": 8},
        "allowedInstanceTypes": ["g5.*"],
    },
    "iamInstanceProfile": {"name": "x"},
    "userData": LEAVES[-5],
    "tagSpecifications": [{"resourceType": "instance", "tags": {"kubernetes.io/cluster/x": "owned"}}],
    "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2},
    "blockDeviceMappings": [{"ebs": {"encrypted": "true"}}],
    "networkInterfaces": [{"associatePublicIpAddress": "false"}],
}
AGENT_POOL = {
    "name": "gpu",
    "vmSize": "Standard_NC4as_T4_v3",
    "nodeTaints": ["a=b:NoSchedule"],
    "gpuProfile": {"driver": "None", "nvidia": {"managementMode": "Managed"}},
    "gpuInstanceProfile": "MIG1g",
    "virtualMachinesProfile": {"scale": {"manual": [{"size": "Standard_NC4as_T4_v3", "count": 1}]}},
    "securityProfile": {"sshAccess": "Disabled"},
}
NODE_CONFIG = {
    "machineType": "n1-standard-8",
    "guestAccelerators": [
        {
            "type": "nvidia-tesla-t4",
            "count": 2,
            "gpuPartitionSize": "1g.5gb",
            "gpuSharingConfig": {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": 4},
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
        }
    ],
    "taints": TAINTS,
    "labels": {"a": "b"},
    "oauthScopes": ["cloud-platform"],
    "metadata": {"disable-legacy-endpoints": "true"},
}
REQUIREMENT = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}
KARPENTER = {
    "requirements": [REQUIREMENT, REQUIREMENT | {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt"}],
    "taints": TAINTS,
    "startupTaints": TAINTS,
    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
}
OVERRIDES = {"launchTemplateSpecification": {"id": "x"}, "overrides": [MACHINE, MACHINE]}
SAMPLES: tuple[tuple[str, str, Any], ...] = (
    (
        "aws",
        "aws:eks/nodeGroup:NodeGroup",
        {
            "instanceTypes": ["g6.xlarge"],
            "amiType": "AL2023_x86_64_NVIDIA",
            "releaseVersion": "1.33.5-20250620",
            "taints": TAINTS,
            "launchTemplate": {"id": "x"},
            "remoteAccess": {"ec2SshKey": "x", "sourceSecurityGroupIds": ["y"]},
            "scalingConfig": {"minSize": 0, "maxSize": 3},
        },
    ),
    (
        "aws",
        "eks:index:Cluster",
        {
            "nodeGroupOptions": {
                "gpu": True,
                "taints": {"a": {"value": "b", "effect": "NoSchedule"}},
                "nodeadmExtraOptions": [{"content": LEAVES[-4]}],
                "bottlerocketSettings": {"settings": {"kubernetes": {"node-taints": {"a": ["b:NoSchedule"]}}}},
            }
        },
    ),
    ("aws", "aws:ec2/launchTemplate:LaunchTemplate", MACHINE),
    ("aws", "aws-native:ec2:LaunchTemplate", {"launchTemplateData": MACHINE}),
    ("aws", "aws:autoscaling/group:Group", {"mixedInstancesPolicy": {"launchTemplate": OVERRIDES}}),
    ("aws", "aws:ec2/fleet:Fleet", {"launchTemplateConfigs": [OVERRIDES], "launchSpecifications": [MACHINE]}),
    ("azure", "azure-native:containerservice:ManagedCluster", {"agentPoolProfiles": [AGENT_POOL]}),
    ("azure", "azure:containerservice/kubernetesCluster:KubernetesCluster", {"defaultNodePool": [AGENT_POOL]}),
    (
        "gcp",
        "gcp:container/cluster:Cluster",
        {
            "nodePools": [{"nodeConfig": NODE_CONFIG, "autoscaling": {"maxNodeCount": 3}}],
            "nodeConfig": NODE_CONFIG,
            "clusterAutoscaling": {
                "enabled": True,
                "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8}],
                "autoProvisioningDefaults": NODE_CONFIG,
            },
        },
    ),
    (
        "kubernetes",
        "kubernetes:karpenter.sh/v1:NodePool",
        {
            "spec": {
                "template": {"metadata": {"labels": {"karpenter.k8s.aws/instance-gpu-name": "l4"}}, "spec": KARPENTER},
                "limits": {"nvidia.com/gpu": 8, "nodes": 3},
            }
        },
    ),
    (
        "kubernetes",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSManagedMachinePool",
        {"spec": {"awsLaunchTemplate": MACHINE, "taints": TAINTS, "scaling": {"minSize": 0, "maxSize": 1}}},
    ),
    (
        "kubernetes",
        "kubernetes:infrastructure.cluster.x-k8s.io/v1beta1:AzureASOManagedMachinePool",
        {"spec": {"resources": [{"kind": "ManagedClustersAgentPool", "metadata": {"name": "x"}, "spec": AGENT_POOL}]}},
    ),
    (
        "kubernetes",
        "kubernetes:container.gcp.upbound.io/v1beta1:NodePool",
        {
            "spec": {
                "forProvider": {"autoscaling": [{"maxNodeCount": 1}]},
                "initProvider": {
                    "nodeConfig": [
                        {
                            "machineType": "n1-standard-8",
                            "guestAccelerator": [{"type": "nvidia-tesla-t4", "count": 1}],
                            "taint": TAINTS,
                            "serviceAccountRef": {"name": "x"},
                        }
                    ]
                },
            }
        },
    ),
    (
        "kubernetes",
        "kubernetes:machine.openshift.io/v1beta1:MachineSet",
        {"spec": {"template": {"spec": {"providerSpec": {"value": MACHINE}, "taints": TAINTS}}}},
    ),
    (
        "kubernetes",
        "kubernetes:cloud.google.com/v1:ComputeClass",
        {
            "spec": {
                "nodePoolAutoCreation": {"enabled": True},
                "nodePoolConfig": {"taints": TAINTS},
                "priorities": [{"gpu": {"type": "nvidia-l4", "count": 1}}, {"machineFamily": "g2"}],
            }
        },
    ),
)


def disturbed(dice: random.Random, value: Any) -> Any:
    """Replace about one part in eight by anything."""
    if dice.random() < 0.12:
        return dice.choice(LEAVES)
    if isinstance(value, dict):
        return {key: disturbed(dice, inner) for key, inner in value.items() if dice.random() > 0.03}
    return [disturbed(dice, inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("owner", "token", "sample"), SAMPLES, ids=[token for _, token, _ in SAMPLES])
def test_no_disturbed_resource_makes_reading_fail(owner: str, token: str, sample: Any) -> None:
    dice = random.Random(f"20261121 {token}")
    for _ in range(250):
        properties = disturbed(dice, sample)
        check(owner, token, properties, read(owner, token, properties))


@each_row(("owner", "token"), ALL, ids=[token for _, token in ALL])
@each_row("properties", [None, [], "text", 7, UNKNOWN, {}], ids=repr)
def test_no_properties_hold_no_gpu(owner: str, token: str, properties: Any) -> None:
    assert all(not pool.evidence for pool in read(owner, token, properties))


@pytest.mark.parametrize(
    "token", [None, 7, "", "aws:eks/nodeGroup:NodeGroup ", "kubernetes:v1:Pod", "pulumi:pulumi:Stack"]
)
def test_other_resources_hold_no_pool(token: Any) -> None:
    gpu = {
        "instanceTypes": ["g6.xlarge"],
        "vmSize": "Standard_NC4as_T4_v3",
        "nodeConfig": {"machineType": "g2-standard-4"},
    }
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}

    assert [cloud.reading().read_pools(token, gpu) for cloud in clouds().values()] == [()] * len(clouds())
    assert read_kubernetes_pools(token, pod, clouds()) == ()


def named() -> Iterator[tuple[str, str]]:
    for name, cloud in clouds().items():
        yield from ((name, machine) for machine in cloud.instance_types if "+" not in machine)


def test_every_machine_of_the_catalogues_is_known_by_its_name_to_its_own_cloud_only() -> None:
    for owner, machine in named():
        knows = [name for name, cloud in clouds().items() if cloud.reading().accelerator(machine).vendor]

        assert knows == [owner], machine
        assert clouds()[owner].reading().accelerator(machine).count == clouds()[owner].instance_types[machine].gpus


@pytest.mark.parametrize(
    ("owner", "machine", "vendor"),
    [
        ("aws", "g4ad.xlarge", "amd"),
        ("aws", "inf2.xlarge", "other"),
        ("aws", "f2.6xlarge", "other"),
        ("aws", "p9.48xlarge", "nvidia"),
        ("aws", "m7i.large", ""),
        ("azure", "standard_nd96isr_mi300x_v5", "amd"),
        ("azure", "Standard_NP10s", "other"),
        ("azure", "Standard_ND192isr_VR300_v7", "nvidia"),
        ("azure", "Standard_D4s_v5", ""),
        ("gcp", "ct6e-standard-4t", "other"),
        ("gcp", "a9-highgpu-8g", "nvidia"),
        ("gcp", "n1-standard-8", ""),
        ("gcp", "g1-small", ""),
    ],
)
def test_the_vendor_of_an_accelerator_is_known_by_the_machines_name(owner: str, machine: str, vendor: str) -> None:
    assert clouds()[owner].reading().accelerator(machine).vendor == vendor


def test_joining_with_anything_read_never_fails() -> None:
    dice = random.Random(20261121)
    reading = clouds()["aws"].reading()
    for _ in range(200):
        (pool,) = reading.read_pools("aws:eks/nodeGroup:NodeGroup", {"launchTemplate": {"id": "x"}, **_part(dice)})
        template = reading.read_template("aws:ec2/launchTemplate:LaunchTemplate", _part(dice))
        assert template is not None
        both = joined(pool, template, "launchTemplate")

        assert both.elsewhere == ()
        assert both.gpus_per_node == 0 or both.evidence or both.unknown


def _part(dice: random.Random) -> dict[str, Any]:
    return {key: grown(dice, 3) for key in dice.sample(KEYS[:30], 15)}


def test_looking_up_a_path_stops_at_what_is_not_known_or_not_there() -> None:
    value = {"a": {"b": 1}, "late": UNKNOWN}

    assert [at(value, path) for path in ("a.b", "a.c", "a.b.c", "late.b")] == [1, None, None, UNKNOWN]
