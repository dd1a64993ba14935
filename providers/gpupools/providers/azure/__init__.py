"""Azure: GPU node pools on Azure Kubernetes Service (AKS). Pure; the SDK is only in `resources.py`."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.asked.spec import SHARING_KINDS
from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule, kubelet_labels
from gpupools.planned.cloud import Cloud, Owners, Software, when_called
from gpupools.providers.azure.capabilities import CAPABILITIES
from gpupools.providers.azure.machines import INSTANCE_TYPES, find_instance_type
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SETTINGS, SPOT_PAGE
from gpupools.providers.azure.runtime import node_runtime
from gpupools.providers.azure.settings import AksCluster, conflicts, decide, refusals

_SOFTWARE: Mapping[str, Software] = {
    "cloud-managed": Software(
        owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="AKS"),
        why="AKS-managed GPU nodes bring driver, device plugin and DCGM exporter",
        source="https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes",
    ),
    "device-plugin": Software(
        owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="NVIDIA device plugin"),
        why="AKS installs the driver by default and leaves the device plugin to the cluster's owner",
        source="https://learn.microsoft.com/azure/aks/use-nvidia-gpu",
    ),
    "gpu-operator": Software(
        owners=Owners(driver="GPU Operator", container_toolkit="GPU Operator", device_plugin="GPU Operator"),
        why="Microsoft's way with the GPU Operator skips AKS's driver, so that the operator owns all of it",
        source="https://learn.microsoft.com/azure/aks/nvidia-gpu-operator",
    ),
    "dra-driver": Software(
        owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="none (NVIDIA DRA driver)"),
        why="AKS installs the driver, and NVIDIA's DRA driver serves claims",
        source="https://blog.aks.azure.com/2026/03/06/dra-with-vGPUs-on-aks",
    ),
}

_ENVIRONMENT = "set {} where Pulumi runs"

# https://www.pulumi.com/registry/packages/azure-native/installation-configuration/
_PROVIDER_SETTINGS = {
    "subscriptionId": "write the cluster's subscription_id",
    "location": "take it out: a pool is where its cluster is",
    "tenantId": _ENVIRONMENT.format("ARM_TENANT_ID"),
    "clientId": _ENVIRONMENT.format("ARM_CLIENT_ID"),
    "clientSecret": _ENVIRONMENT.format("ARM_CLIENT_SECRET"),
    "environment": _ENVIRONMENT.format("ARM_ENVIRONMENT"),
    "useOidc": _ENVIRONMENT.format("ARM_USE_OIDC"),
    "useMsi": _ENVIRONMENT.format("ARM_USE_MSI"),
}

CLOUD = Cloud(
    name="azure",
    service="AKS",
    instance_types=INSTANCE_TYPES,
    cluster=AksCluster,
    example_cluster={
        "cloud": "azure",
        "name": "serve-dev",
        "resource_group": "ml-dev",
        "subnet_id": (
            "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml-dev/providers/"
            "Microsoft.Network/virtualNetworks/ml-dev/subnets/gpu"
        ),
    },
    software=MappingProxyType(_SOFTWARE),
    # AKS's driver is there unless it is switched off, and its MIG profiles work only with it.
    default_software=MappingProxyType(dict.fromkeys(SHARING_KINDS, "device-plugin")),
    capabilities=CAPABILITIES,
    decide=decide,
    read_pools=when_called("gpupools.providers.azure.read_back", "read_pools", INSTANCE_TYPES),
    accelerator=when_called("gpupools.providers.azure.read_back", "accelerator", INSTANCE_TYPES),
    unread=when_called("gpupools.providers.azure.templates", "unread"),
    held_types=when_called("gpupools.providers.azure.templates", "held_types"),
    customised=when_called("gpupools.providers.azure.by_hand", "overridden"),
    refusals=refusals,
    conflicts=conflicts,
    provider_settings=dict.fromkeys(("azure-native", "azure"), _PROVIDER_SETTINGS),
    node_runtime=node_runtime,
    reserved_labels=(
        KeyRule(
            pattern="kubernetes.azure.com/*",
            why="is of a name space that AKS keeps for itself",
            source="https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes",
            on_nodes=True,
        ),
        # Refused until 2024 at least (https://github.com/Azure/AKS/issues/4613), and released since.
        KeyRule(pattern="node-role.kubernetes.io/*", source="https://github.com/Azure/AKS/issues/4628", on_nodes=True),
        *kubelet_labels("AKS", "https://github.com/Azure/AKS/issues/2866"),
        *OPERATOR_LABELS,
    ),
    reserved_taints=(
        *CONDITION_TAINTS,
        KeyRule(
            pattern="kubernetes.azure.com/scalesetpriority",
            why="is the taint of spot pools, which AKS adds",
            fix="write capacity: {mode: spot}",
            source=SPOT_PAGE,
        ),
        KeyRule(
            pattern="kubernetes.azure.com/*",
            why="is of a name space that AKS takes no taints of",
            source="https://github.com/Azure/karpenter-provider-azure/issues/1830",
        ),
    ),
    overridable=OVERRIDABLE,
    find_instance_type=find_instance_type,
    settings=SETTINGS,
)
"""Everything the domain must know about AKS."""
