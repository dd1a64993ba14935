"""The only place that speaks the Azure SDK: it translates a plan and decides nothing about GPUs."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_azure_native as azure_native
from pulumi_azure_native import containerservice

from gpupools.naming import replacement_name
from gpupools.plan import PoolPlan
from providers.azure.settings import AksSettings

POOL_NAME_LIMIT = 12
"""Characters of a Linux pool's name: lower-case letters and digits, a letter first
(https://learn.microsoft.com/azure/aks/create-node-pools)."""

FIXED_AT_CREATION = (
    "availabilityZones",
    "capacityReservationGroupID",
    "enableEncryptionAtHost",
    "enableNodePublicIP",
    "enableUltraSSD",
    "gpuInstanceProfile",
    "gpuProfile",
    "hostGroupID",
    "kubeletConfig",
    "kubeletDiskType",
    "linuxOSConfig",
    "maxPods",
    "nodePublicIPPrefixID",
    "osDiskSizeGB",
    "osDiskType",
    "osType",
    "podSubnetID",
    "proximityPlacementGroupID",
    "scaleSetEvictionPolicy",
    "scaleSetPriority",
    "spotMaxPrice",
    "type",
    "vmSize",
    "vnetSubnetID",
)
"""Properties AKS never changes, in wire names.

The provider replaces the pool for vmSize and gpuInstanceProfile only (pulumi/pulumi-azure-native
provider/pkg/gen/replacement.go); for every other, preview would show an update that fails with
PropertyChangeNotAllowed (https://github.com/pulumi/pulumi-azure-native/issues/959). The list is the one of
hashicorp/terraform-provider-azurerm website/docs/r/kubernetes_cluster_node_pool.html.markdown.
"""


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the provider for one cluster's subscription.

    Args:
        name: Logical name.
        cluster: Keys of `AksCluster`; without `subscription_id` the credentials' own subscription is used.
        opts: Options of the provider.
    """
    return azure_native.Provider(name, subscription_id=cluster.get("subscription_id"), opts=opts)


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the agent pool of a plan.

    Args:
        name: The component's name; the agent pool is `<name>-pool`.
        plan: What to create.
        cluster: Keys of `AksCluster` with real values.
        opts: Parent and provider.

    Returns:
        The pool's name in AKS.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings = plan.settings
    if not isinstance(settings, AksSettings):
        raise TypeError(f"{plan.cluster}/{plan.name} was planned for {plan.cloud}, not for azure")
    pool_name = _pool_name(plan, settings, cluster)
    pool = containerservice.AgentPool(
        f"{name}-pool",
        agent_pool_name=pool_name,
        # The trailing underscore is the SDK's: Pulumi's own first argument is called resource_name.
        resource_name_=cluster["name"],
        resource_group_name=cluster["resource_group"],
        mode="User",
        # Pools of type VirtualMachines take no GPU sizes together with the autoscaler.
        type="VirtualMachineScaleSets",
        vm_size=plan.instance.name,
        enable_auto_scaling=True,
        # AKS asks for a count even of an autoscaled pool: https://github.com/pulumi/pulumi-azure-native/issues/2943.
        count=plan.min_nodes,
        min_count=plan.min_nodes,
        max_count=plan.max_nodes,
        # Deallocated nodes still count against the quota and break driver pods when they come back:
        # https://github.com/NVIDIA/gpu-operator/issues/729.
        scale_down_mode="Delete",
        os_type="Linux",
        # Ubuntu has AKS's driver for every size and gets security patches by itself; Azure Linux has neither:
        # https://learn.microsoft.com/azure/aks/use-nvidia-gpu, Azure/karpenter-provider-azure
        # pkg/utils/supported-gpus.yaml.
        os_sku="Ubuntu",
        os_disk_size_gb=plan.disk_gib,
        # Without a type AKS takes an ephemeral disk where this size fits the local one; what a preview shows should
        # not depend on the machine.
        os_disk_type="Managed",
        gpu_profile=containerservice.GPUProfileArgs(driver=settings.gpu_driver),
        gpu_instance_profile=settings.gpu_instance_profile,
        node_taints=[str(taint) for taint in plan.taints],
        node_labels=dict(plan.labels),
        vnet_subnet_id=cluster.get("subnet_id"),
        enable_node_public_ip=False,
        enable_encryption_at_host=settings.encryption_at_host,
        # LocalUser is what AKS does unasked; the property is sent only for the preview feature that needs it.
        security_profile=containerservice.AgentPoolSecurityProfileArgs(ssh_access=settings.ssh_access)
        if settings.ssh_access != "LocalUser"
        else None,
        # A surge node needs quota and capacity that scarce GPUs rarely have, so nodes are upgraded in place, one by
        # one: https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling.
        upgrade_settings=containerservice.AgentPoolUpgradeSettingsArgs(max_surge="0", max_unavailable="1"),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                ignore_changes=["count"],  # the autoscaler's
                replace_on_changes=list(FIXED_AT_CREATION),
                # Driver installation and a MIG reboot precede readiness; an upgrade goes through the nodes one by one.
                custom_timeouts=pulumi.CustomTimeouts(create="1h", update="6h", delete="1h"),
            ),
        ),
    )
    # Through the URN, so that the name is known at preview and whoever uses it still waits for the pool.
    return pool.urn.apply(lambda _: pool_name)


def _pool_name(plan: PoolPlan, settings: AksSettings, cluster: Mapping[str, pulumi.Input[Any]]) -> pulumi.Input[str]:
    """Name the pool after everything that forces its replacement, so that the new one can come before the old goes."""

    def named(subnet_id: object) -> str:
        decisive = {
            "vmSize": plan.instance.name,
            "gpuProfile": settings.gpu_driver,
            "gpuInstanceProfile": settings.gpu_instance_profile,
            "osDiskSizeGB": plan.disk_gib,
            "enableEncryptionAtHost": settings.encryption_at_host or None,
            "vnetSubnetID": subnet_id,
        }
        return replacement_name(plan.name, decisive, limit=POOL_NAME_LIMIT, separator="")

    subnet_id = cluster.get("subnet_id")
    return subnet_id.apply(named) if isinstance(subnet_id, pulumi.Output) else named(subnet_id)
