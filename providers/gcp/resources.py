"""Turns a plan into a GKE node pool. Translates only: every decision is in the plan."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpupools.naming import replacement_name
from gpupools.plan import PoolPlan
from providers.gcp.facts import EFFECTS
from providers.gcp.settings import GkeSettings

# Nodes read images, logs and drivers with it; what they may do is limited by the roles of their own service account.
# Narrower scopes break the driver download: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus.
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

_NAME_LIMIT = 40
# https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare a provider for the cluster's project."""
    return gcp.Provider(name, opts, project=cluster["project"])


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the node pool of a plan.

    Args:
        name: Prefix of the resource's name in Pulumi.
        plan: The decision, made for GKE.
        cluster: The keys of `GkeCluster`.
        opts: Options for the resource; the component's parent.

    Returns:
        The pool's name in the cloud.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings = plan.settings
    if not isinstance(settings, GkeSettings):
        raise TypeError(f"pool {plan.name} was planned for {plan.cloud}, not for gcp")
    pool = gcp.container.NodePool(
        f"{name}-nodes",
        name=_pool_name(plan, settings, cluster["service_account"]),
        cluster=cluster["name"],
        project=cluster["project"],
        location=cluster["location"],
        node_locations=cluster.get("node_locations"),
        initial_node_count=settings.initial_nodes_per_zone,
        autoscaling=gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=plan.min_nodes,
            total_max_node_count=plan.max_nodes,
            location_policy="ANY",  # takes GPUs where they are; BALANCED would wait for the zone that has none
        ),
        management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
        # A surge node would need spare GPU quota; Google's own toolkit has the same default:
        # https://github.com/GoogleCloudPlatform/cluster-toolkit/tree/main/modules/compute/gke-node-pool
        upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(strategy="SURGE", max_surge=0, max_unavailable=1),
        network_config=gcp.container.NodePoolNetworkConfigArgs(enable_private_nodes=True),
        node_config=_node_config(plan, settings, cluster["service_account"]),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                ignore_changes=["initialNodeCount"],  # resizing a pool changes it, and a change replaces
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="120m", delete="60m"),
            ),
        ),
    )
    return pool.name


def _node_config(
    plan: PoolPlan, settings: GkeSettings, service_account: pulumi.Input[str]
) -> gcp.container.NodePoolNodeConfigArgs:
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=settings.machine_type,
        guest_accelerators=[_accelerator(settings)],
        image_type="COS_CONTAINERD",
        disk_size_gb=plan.disk_gib,
        disk_type=settings.boot_disk_type,
        ephemeral_storage_local_ssd_config=_local_ssds(settings),
        labels=dict(plan.labels),
        taints=[
            gcp.container.NodePoolNodeConfigTaintArgs(key=taint.key, value=taint.value, effect=EFFECTS[taint.effect])
            for taint in plan.taints
        ],
        service_account=service_account,
        oauth_scopes=[_SCOPE],
        metadata={"disable-legacy-endpoints": "true"},  # setting any metadata drops this default of the API
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA"),
        shielded_instance_config=gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
            enable_integrity_monitoring=True,
            # Secure Boot refuses kernel modules that Google did not sign, so every driver but GKE's own; a later
            # change replaces the pool. CIS GKE Benchmark 5.5.7 names the same impact.
            enable_secure_boot=False,
        ),
        kubelet_config=gcp.container.NodePoolNodeConfigKubeletConfigArgs(
            insecure_kubelet_readonly_port_enabled="FALSE",
            # The provider used to send false for an absent value, which switches CPU limits off:
            # https://github.com/hashicorp/terraform-provider-google/issues/15767
            cpu_cfs_quota=True,
        ),
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
    )


def _accelerator(settings: GkeSettings) -> gcp.container.NodePoolNodeConfigGuestAcceleratorArgs:
    sharing = None
    if settings.gpu_sharing_strategy is not None and settings.max_shared_clients_per_gpu is not None:
        sharing = gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
            gpu_sharing_strategy=settings.gpu_sharing_strategy,
            max_shared_clients_per_gpu=settings.max_shared_clients_per_gpu,
        )
    return gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=settings.accelerator_type,
        count=settings.accelerator_count,
        gpu_driver_installation_config=gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
            gpu_driver_version=settings.gpu_driver_version
        ),
        gpu_sharing_config=sharing,
        gpu_partition_size=settings.gpu_partition_size,
    )


def _local_ssds(settings: GkeSettings) -> gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs | None:
    if not settings.local_ssd_count:
        return None
    # GKE attaches these disks whether asked or not; left out, the next preview would plan a replacement.
    return gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(local_ssd_count=settings.local_ssd_count)


def _pool_name(plan: PoolPlan, settings: GkeSettings, service_account: pulumi.Input[str]) -> pulumi.Input[str]:
    """Name the pool after everything that makes the provider replace it, so that the new one can be made first.

    The list is the provider's: google/services/container/node_config.go of
    https://github.com/hashicorp/terraform-provider-google. Machine, disk, labels and taints change in place.
    """

    def named(account: str) -> str:
        decisive = {
            "accelerator_type": settings.accelerator_type,
            "accelerator_count": settings.accelerator_count,
            "gpu_driver_version": settings.gpu_driver_version,
            "gpu_sharing_strategy": settings.gpu_sharing_strategy,
            "max_shared_clients_per_gpu": settings.max_shared_clients_per_gpu,
            "gpu_partition_size": settings.gpu_partition_size,
            "local_ssd_count": settings.local_ssd_count or None,
            "service_account": account,
        }
        return replacement_name(plan.name, decisive, limit=_NAME_LIMIT)

    if isinstance(service_account, str):
        return named(service_account)
    return pulumi.Output.all(service_account).apply(lambda known: named(known[0]))
