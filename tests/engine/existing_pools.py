"""Pools as teams have made them by other means: random settings that their clouds take, as each tool tells of them.

What the provider would read is made first; what the cloud's own command line prints follows from it here, so that
nothing of the reader under test is used. The names are those of
https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools, of
Azure/azure-sdk-for-python azure-mgmt-containerservice, class AgentPool, and of botocore, data/eks and data/ec2.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.engine.stand_in import AGENT_POOL, NODE_GROUP, NODE_POOL

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"


SUBNET = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/n"


@dataclass(frozen=True)
class ExistingPool:
    """One pool that runs."""

    kind: str
    name: str
    id: str
    inputs: Mapping[str, Any]
    """As its provider reads them for Pulumi."""
    outputs: Mapping[str, Any]
    described: Mapping[str, Any]
    """As the cloud's command line prints it."""
    beside: Mapping[str, Any] | None = None
    """What it prints of a launch template, for one that has one."""


def gke_pool(random: Random, number: int) -> ExistingPool:
    """Make one node pool of GKE."""
    name = random.choice(["gpu-pool", "a100", "inference-l4-europe-west4-spot"]) + f"-{number}"
    machine, model, count, ssds = random.choice(
        [
            ("g2-standard-8", "nvidia-l4", 1, 0),
            ("g2-standard-24", "nvidia-l4", 2, 0),
            ("a2-highgpu-1g", "nvidia-tesla-a100", 1, 0),
            ("a2-ultragpu-1g", "nvidia-a100-80gb", 1, 1),
            ("n1-standard-8", "nvidia-tesla-t4", 1, 0),
        ]
    )
    gpu: dict[str, Any] = {"type": model, "count": count}
    driver = random.choice([None, "DEFAULT", "LATEST", "INSTALLATION_DISABLED"])
    if driver is not None:
        gpu["gpuDriverInstallationConfig"] = {"gpuDriverVersion": driver}
    if random.random() < 0.3 and driver != "INSTALLATION_DISABLED":
        gpu["gpuSharingConfig"] = {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": random.randint(2, 8)}
    config: dict[str, Any] = {
        "machineType": machine,
        "guestAccelerators": [gpu],
        "diskSizeGb": random.choice([50, 100, 200, 500]),
        "diskType": random.choice(["pd-balanced", "pd-ssd"]),
        "imageType": "COS_CONTAINERD",
        "serviceAccount": "gpu@ml.iam.gserviceaccount.com",
        "oauthScopes": random.choice(
            [
                ["https://www.googleapis.com/auth/cloud-platform"],
                [
                    "https://www.googleapis.com/auth/devstorage.read_only",
                    "https://www.googleapis.com/auth/logging.write",
                ],
            ]
        ),
        "metadata": random.choice([{"disable-legacy-endpoints": "true"}, {"owner": "ml"}]),
        "labels": random.choice([{}, {"team": "vision"}, {"team": "speech", "example.com/tier": "gold"}]),
        "resourceLabels": random.choice([{}, {"cost-centre": "42"}]),
        "taints": random.choice(
            [[], [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}], [_taint("team", "x")]]
        ),
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": random.random() < 0.2},
        "workloadMetadataConfig": {"mode": random.choice(["GKE_METADATA", "GCE_METADATA"])},
    }
    if ssds:
        config["ephemeralStorageLocalSsdConfig"] = {"localSsdCount": ssds}
    if random.random() < 0.4:
        config["tags"] = ["gpu-nodes", f"pool-{number}"]
    if random.random() < 0.3:
        config["minCpuPlatform"] = "Intel Cascade Lake"
    if random.random() < 0.3:
        config[random.choice(["spot", "preemptible"])] = True
    if random.random() < 0.3:
        config["gvnic"] = {"enabled": True}
    if random.random() < 0.3:
        config["kubeletConfig"] = {"cpuManagerPolicy": "static", "insecureKubeletReadonlyPortEnabled": "TRUE"}
    zones = random.choice([["europe-west4-a"], ["europe-west4-a", "europe-west4-b"]])
    inputs: dict[str, Any] = {
        "name": name,
        "cluster": "lab",
        "project": "ml-lab",
        "location": "europe-west4",
        "nodeLocations": zones,
        "initialNodeCount": random.randint(1, 2),
        "maxPodsPerNode": random.choice([32, 110]),
        "management": {"autoRepair": random.random() < 0.8, "autoUpgrade": random.random() < 0.8},
        "networkConfig": {"podRange": "pods", "podIpv4CidrBlock": "10.4.0.0/14"},
        "upgradeSettings": random.choice(
            [
                {"strategy": "SURGE", "maxSurge": 1, "maxUnavailable": 0},
                {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 2},
                {
                    "strategy": "BLUE_GREEN",
                    "blueGreenSettings": {
                        "nodePoolSoakDuration": "1800s",
                        "standardRolloutPolicy": {"batchNodeCount": 1, "batchSoakDuration": "60s"},
                    },
                },
            ]
        ),
        "version": "1.34.1-gke.1829001",
        "nodeConfig": config,
    }
    running = random.randint(1, 2)
    way = random.choice(["total", "zone", "fixed"])
    if way == "fixed":
        inputs["nodeCount"] = inputs["initialNodeCount"]
        running = inputs["nodeCount"]
    elif way == "total":
        inputs["autoscaling"] = {
            "totalMinNodeCount": random.randint(0, 1),
            "totalMaxNodeCount": random.randint(4, 9),
            "locationPolicy": random.choice(["ANY", "BALANCED"]),
        }
    else:
        inputs["autoscaling"] = {"minNodeCount": 0, "maxNodeCount": random.randint(2, 4), "locationPolicy": "BALANCED"}
    identifier = f"projects/ml-lab/locations/europe-west4/clusters/lab/nodePools/{name}"
    outputs = {"nodeCount": running, "instanceGroupUrls": []}
    return ExistingPool(NODE_POOL, name, identifier, inputs, outputs, _gcloud(identifier, inputs))


def _taint(key: str, value: str) -> dict[str, str]:
    return {"key": key, "value": value, "effect": "NO_SCHEDULE"}


def _gcloud(identifier: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    config = {key: value for key, value in inputs["nodeConfig"].items() if key not in ("guestAccelerators", "labels")}
    (gpu,) = inputs["nodeConfig"]["guestAccelerators"]
    accelerator = {key: value for key, value in gpu.items() if key not in ("type", "count", "gpuSharingConfig")}
    accelerator |= {"acceleratorType": gpu["type"], "acceleratorCount": str(gpu["count"])}
    if "gpuSharingConfig" in gpu:
        sharing = gpu["gpuSharingConfig"]
        accelerator["gpuSharingConfig"] = sharing | {"maxSharedClientsPerGpu": str(sharing["maxSharedClientsPerGpu"])}
    config["accelerators"] = [accelerator]
    if inputs["nodeConfig"]["labels"]:
        config["labels"] = inputs["nodeConfig"]["labels"]
    if "kubeletConfig" in config:
        port = {"insecureKubeletReadonlyPortEnabled": True}
        config["kubeletConfig"] = config["kubeletConfig"] | port
    # False, zero and empty are not printed.
    config["shieldedInstanceConfig"] = {key: True for key, on in config["shieldedInstanceConfig"].items() if on}
    config = {key: value for key, value in config.items() if value not in ({}, [])}
    scaling = inputs.get("autoscaling")
    return {
        "name": inputs["name"],
        "selfLink": f"https://container.googleapis.com/v1/{identifier}",
        "config": config,
        "initialNodeCount": inputs["initialNodeCount"],
        "locations": inputs["nodeLocations"],
        "maxPodsConstraint": {"maxPodsPerNode": str(inputs["maxPodsPerNode"])},
        "management": {key: True for key, on in inputs["management"].items() if on},
        "networkConfig": inputs["networkConfig"],
        "upgradeSettings": {key: value for key, value in inputs["upgradeSettings"].items() if value != 0},
        "version": inputs["version"],
        "status": "RUNNING",
        "etag": "f00d",
        **({"autoscaling": {"enabled": True, **{k: v for k, v in scaling.items() if v != 0}}} if scaling else {}),
    }


def aks_pool(random: Random, number: int) -> ExistingPool:
    """Make one agent pool of AKS."""
    name = random.choice(["gpunp", "a100pool", "nvidia"]) + str(number)
    size = random.choice(["Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4", "Standard_NC4as_T4_v3"])
    inputs: dict[str, Any] = {
        "agentPoolName": name,
        "resourceName": "serve",
        "resourceGroupName": "ml",
        "vmSize": size,
        "osType": "Linux",
        "osSKU": random.choice(["Ubuntu", "AzureLinux"]),
        "osDiskSizeGB": random.choice([64, 128, 256]),
        "osDiskType": "Managed",
        "kubeletDiskType": "OS",
        "mode": "User",
        "type": "VirtualMachineScaleSets",
        "maxPods": random.choice([30, 110]),
        "enableFIPS": False,
        "enableUltraSSD": False,
        "enableNodePublicIP": random.random() < 0.2,
        "enableEncryptionAtHost": random.random() < 0.3,
        "orchestratorVersion": "1.34.1",
        "powerState": {"code": "Running"},
        "scaleDownMode": random.choice(["Delete", "Deallocate"]),
        "nodeLabels": random.choice([{}, {"team": "vision"}]),
        "nodeTaints": random.choice([[], ["sku=gpu:NoSchedule"], ["nvidia.com/gpu=present:NoSchedule"]]),
        "tags": random.choice([{}, {"cost-centre": "42"}]),
        "upgradeSettings": random.choice([{"maxSurge": "33%"}, {"maxSurge": "1", "drainTimeoutInMinutes": 45}]),
        "vnetSubnetID": SUBNET,
    }
    if random.random() < 0.5:
        inputs["gpuProfile"] = {"driver": random.choice(["Install", "None"])}
    if random.random() < 0.4:
        inputs["availabilityZones"] = ["2", "1"]
    if "A100" in size and random.random() < 0.4:
        inputs["gpuInstanceProfile"] = random.choice(["MIG1g", "MIG2g", "MIG3g"])
        inputs["gpuProfile"] = {"driver": "Install"}
    if random.random() < 0.3:
        spot = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
        inputs |= {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1}
        inputs["nodeTaints"] = [*inputs["nodeTaints"], spot]
        inputs["nodeLabels"] = {**inputs["nodeLabels"], "kubernetes.azure.com/scalesetpriority": "spot"}
        del inputs["upgradeSettings"]
    if random.random() < 0.3:
        inputs["linuxOSConfig"] = {"swapFileSizeMB": 1500}
        inputs["kubeletConfig"] = {"cpuManagerPolicy": "static"}
    if random.random() < 0.6:
        inputs |= {"enableAutoScaling": True, "minCount": 1, "maxCount": random.randint(3, 6)}
    else:
        inputs["enableAutoScaling"] = False
    inputs["count"] = random.randint(1, 3)
    if inputs.get("gpuProfile") == {"driver": "None"}:
        inputs["resourceName"] = "operated"  # where the team has a GPU Operator, and no plugin beside it
    identifier = (
        f"/subscriptions/{SUBSCRIPTION}/resourceGroups/ml/providers/Microsoft.ContainerService/managedClusters"
        f"/{inputs['resourceName']}/agentPools/{name}"
    )
    outputs = {"name": name, "provisioningState": "Succeeded"}
    return ExistingPool(AGENT_POOL, name, identifier, inputs, outputs, _az(identifier, inputs))


_CLI_NAMES = {
    "osSKU": "osSku",
    "osDiskSizeGB": "osDiskSizeGb",
    "enableFIPS": "enableFips",
    "enableUltraSSD": "enableUltraSsd",
    "enableNodePublicIP": "enableNodePublicIp",
    "vnetSubnetID": "vnetSubnetId",
    "linuxOSConfig": "linuxOsConfig",
    "type": "typePropertiesType",
}


def _az(identifier: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in inputs.items() if key not in ("agentPoolName", "resourceName")}
    return {
        **{_CLI_NAMES.get(key, key): value for key, value in own.items()},
        "id": identifier.replace("resourceGroups", "resourcegroups"),
        "name": inputs["agentPoolName"],
        "resourceGroup": own.pop("resourceGroupName"),
        "type": "Microsoft.ContainerService/managedClusters/agentPools",
        "provisioningState": "Succeeded",
        "gpuInstanceProfile": inputs.get("gpuInstanceProfile"),
        "hostGroupId": None,
        "eTag": "f00d",
    }


ACCOUNT = "123456789012"
_ROLE = f"arn:aws:iam::{ACCOUNT}:role/gpu-nodes"
_SLICED = """[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "time-slicing"
[settings.kubelet-device-plugins.nvidia.time-slicing]
replicas = 4
rename-by-default = false
"""


def eks_pool(random: Random, number: int) -> ExistingPool:
    """Make one node group of EKS, with a launch template of its makers' or without."""
    name = random.choice(["gpu", "Training_A10G", "inference-l4"]) + f"-{number}"
    image = random.choice(
        [
            *("AL2023_x86_64_NVIDIA", "AL2_x86_64_GPU", "CUSTOM"),
            *("BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA_FIPS"),
        ]
    )
    types = random.choice([["g5.xlarge"], ["g5.xlarge", "g5.2xlarge"], ["g6.12xlarge"], ["p4d.24xlarge"]])
    most = random.randint(1, 5)
    least = random.choice([0, 0, most])
    running = random.randint(least, most)
    inputs: dict[str, Any] = {
        "nodeGroupName": name,
        # The team has a GPU Operator in one cluster, a plugin in another, and what Bottlerocket brings in the third.
        "clusterName": {"CUSTOM": "operated", "BOTT": "rockets"}.get(image[:4] if "_" in image else image, "train"),
        "region": "eu-central-1",
        "nodeRoleArn": random.choice([_ROLE, f"{_ROLE}-old"]),
        "subnetIds": random.choice([["subnet-0a1b2c3d", "subnet-0b1c2d3e"], ["subnet-0b1c2d3e"]]),
        "amiType": image,
        "capacityType": random.choice(["ON_DEMAND", "ON_DEMAND", "SPOT"]),
        "instanceTypes": types,
        "scalingConfig": {"minSize": least, "maxSize": most, "desiredSize": running},
        "labels": random.choice([{}, {"team": "vision"}, {"team": "speech", "example.com/tier": "gold"}]),
        "taints": random.choice(
            [[], [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}], [_taint("team", "x")]]
        ),
        "updateConfig": random.choice(
            [
                {"maxUnavailable": 1},
                {"maxUnavailablePercentage": 33},
                {"maxUnavailable": 2, "updateStrategy": "MINIMAL"},
            ]
        ),
        "tags": random.choice([{}, {"cost-centre": "42"}]),
        "version": "1.34",
    }
    if image != "CUSTOM":
        inputs["releaseVersion"] = "1.34.1-20260901" if image.startswith("AL") else "1.56.0-7dbb8ea0"
    if random.random() < 0.5:
        inputs["nodeRepairConfig"] = {"enabled": random.random() < 0.5}
    template: dict[str, Any] | None = None
    if image == "CUSTOM" or random.random() < 0.6:
        identifier, version = f"lt-{number:017x}", random.randint(1, 9)
        inputs["launchTemplate"] = {"id": identifier, "version": str(version)}
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 300, "VolumeType": "gp3"}}
        template = {"BlockDeviceMappings": [disk], "MetadataOptions": {"HttpTokens": "required"}}
        if image == "CUSTOM":
            template |= {"ImageId": "ami-0a1b2c3d4e5f60718", "UserData": "IyEvYmluL2Jhc2gK"}
        if image.startswith("BOTTLEROCKET") and random.random() < 0.7:
            template["UserData"] = base64.b64encode(_SLICED.encode()).decode()
        if random.random() < 0.4:
            template["InstanceType"] = types[0]
            del inputs["instanceTypes"]
    else:
        inputs["diskSize"] = random.choice([20, 100])
        if random.random() < 0.4:
            inputs["remoteAccess"] = {"ec2SshKey": "ops", "sourceSecurityGroupIds": ["sg-0a1b2c3d"]}
    groups = [{"autoscalingGroups": [{"name": f"eks-{name}"}]}]
    outputs = {"name": name, "status": "ACTIVE", "resources": groups}
    described = {"nodegroup": _eks(inputs)}
    return ExistingPool(
        NODE_GROUP,
        name,
        f"{inputs['clusterName']}:{name}",
        inputs,
        outputs,
        described,
        _version(inputs["launchTemplate"], template) if template is not None else None,
    )


def _eks(inputs: Mapping[str, Any]) -> dict[str, Any]:
    name, cluster = inputs["nodeGroupName"], inputs["clusterName"]
    own = {
        key: value
        for key, value in inputs.items()
        if key not in ("nodeGroupName", "region", "nodeRoleArn", "subnetIds", "remoteAccess", "taints", "labels")
    }
    found = {
        "nodegroupName": name,
        "nodegroupArn": f"arn:aws:eks:eu-central-1:{ACCOUNT}:nodegroup/{cluster}/{name}/aac5c9a0-0000-4444-8888-012345",
        "createdAt": "2026-03-01T10:00:00+00:00",
        "status": "ACTIVE",
        "subnets": inputs["subnetIds"],
        "nodeRole": inputs["nodeRoleArn"],
        "resources": {"autoScalingGroups": [{"name": f"eks-{name}"}]},
        "health": {"issues": []},
        **own,
    }
    found |= {key: inputs[key] for key in ("labels", "taints") if inputs[key]}  # empty ones are not printed
    if "launchTemplate" in inputs:
        found["launchTemplate"] = {"name": f"{name}-template", **inputs["launchTemplate"]}
    if "remoteAccess" in inputs:
        given = inputs["remoteAccess"]
        found["remoteAccess"] = {
            "ec2SshKey": given["ec2SshKey"],
            "sourceSecurityGroups": given["sourceSecurityGroupIds"],
        }
    return found


def _version(template: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    number = int(template["version"])
    version = {"LaunchTemplateId": template["id"], "VersionNumber": number, "LaunchTemplateData": data}
    return {"LaunchTemplateVersions": [version]}
