"""Turns a plan into a GKE node pool. Translates only: every decision is in the plan."""

import warnings
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpupools.base.naming import replacement_name
from gpupools.planned.cloud import Declaring
from gpupools.planned.plan import PoolPlan
from gpupools.providers.adopted import adopting
from gpupools.providers.gcp.choices import GkeChoices
from gpupools.providers.gcp.conflicts import NAME_LIMIT
from gpupools.providers.gcp.edits import edits, replacing
from gpupools.providers.gcp.pool_settings import OVERRIDABLE
from gpupools.providers.gcp.reserved import EFFECTS
from gpupools.providers.set_by_hand import keyword_arguments, wire_inputs

# Nodes read images, logs and drivers with it; what they may do is limited by the roles of their own service account.
# Narrower scopes break the driver download: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus.
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare a provider for the cluster's project, acting as the cluster's service account where it names one."""
    account = cluster.get("impersonate_service_account")
    return gcp.Provider(name, opts, project=cluster["project"], impersonate_service_account=account)


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
    choices = plan.choices
    if not isinstance(choices, GkeChoices):
        raise TypeError(f"pool {plan.name} was planned for {plan.cloud}, not for gcp")
    protect = pulumi.ResourceOptions(protect=True) if choices.protect else None
    policy = _workload_policy(name, choices, cluster, opts)
    declared = _node_pool(plan, choices, cluster, policy)
    inputs = wire_inputs(declared, choices.overrides)
    adopted = adopting(
        choices.adopted,
        inputs,
        edits(),
        OVERRIDABLE["NodePool"].inputs,
        whole=_COUNTED,
        beside=("nodeConfig.preemptible",),
    )
    pool = gcp.container.NodePool(
        f"{name}-nodes",
        **keyword_arguments(declared, choices.overrides),
        opts=pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(opts, protect), adopted),
            pulumi.ResourceOptions(
                ignore_changes=["initialNodeCount"],  # resizing a pool changes it, and a change replaces
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{choices.create_min}m",
                    update=f"{choices.update_min}m",
                    delete=f"{choices.delete_min}m",
                ),
            ),
        ),
    )
    return pool.name


def _workload_policy(
    name: str, choices: GkeChoices, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str] | None:
    """Declare the policy that puts all nodes into one NVLink domain; return its name, None where none is asked for.

    https://github.com/GoogleCloudPlatform/cluster-toolkit, examples/gke-a4x/gke-a4x.yaml
    """
    if choices.accelerator_topology is None:
        return None
    with warnings.catch_warnings():  # the module says as it is imported that classes nobody uses here are deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        compute = gcp.compute
        policy_type, args_type = compute.ResourcePolicy, compute.ResourcePolicyWorkloadPolicyArgs
    policy = policy_type(
        f"{name}-nvlink",
        project=cluster["project"],
        region=choices.zones[0].rpartition("-")[0] if choices.zones else None,
        workload_policy=args_type(type="HIGH_THROUGHPUT", accelerator_topology=choices.accelerator_topology),
        opts=opts,
    )
    return policy.name


def _placement_policy(
    choices: GkeChoices, policy: pulumi.Output[str] | None
) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    if policy is None and not choices.compact:
        return None
    return gcp.container.NodePoolPlacementPolicyArgs(type="COMPACT", policy_name=policy)


_COUNTED = ("autoscaling", "nodeCount", "ignoreNodeCountChanges")
"""Inputs of which GKE takes one way or the other: what the plan leaves out of them is not to stay."""


def _node_pool(
    plan: PoolPlan,
    choices: GkeChoices,
    cluster: Mapping[str, pulumi.Input[Any]],
    policy: pulumi.Output[str] | None,
) -> gcp.container.NodePoolArgs:
    fixed = choices.fixed_nodes_per_zone is not None
    return gcp.container.NodePoolArgs(
        name=_pool_name(plan, choices, cluster["service_account"]),
        cluster=cluster["name"],
        project=cluster["project"],
        location=cluster["location"],
        node_locations=list(choices.zones) if choices.zones else _sorted(cluster.get("node_locations")),
        node_count=choices.fixed_nodes_per_zone,
        initial_node_count=choices.initial_nodes_per_zone,
        autoscaling=None
        if fixed
        else gcp.container.NodePoolAutoscalingArgs(
            # The totals count all zones together; minNodeCount and maxNodeCount would count each.
            total_min_node_count=plan.min_nodes,
            total_max_node_count=plan.max_nodes,
            location_policy="ANY",  # takes GPUs where they are; BALANCED would wait for the zone that has none
        ),
        management=gcp.container.NodePoolManagementArgs(auto_repair=choices.auto_repair, auto_upgrade=True),
        upgrade_settings=_upgrade_settings(choices),
        node_drain_configs=_drain_configs(choices),
        network_config=gcp.container.NodePoolNetworkConfigArgs(
            enable_private_nodes=True,
            accelerator_network_profile=choices.network_profile,
            additional_node_network_configs=[
                gcp.container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs(
                    network=network, subnetwork=subnetwork
                )
                for network, subnetwork in choices.gpu_networks
            ]
            or None,
        ),
        placement_policy=_placement_policy(choices, policy),
        queued_provisioning=gcp.container.NodePoolQueuedProvisioningArgs(enabled=True) if choices.queued else None,
        max_pods_per_node=choices.max_pods,
        # Written out, since the provider keeps PREVENT when the field is only left out again.
        deletion_policy="PREVENT" if choices.protect else "DELETE",
        node_config=_node_config(plan, choices, cluster["service_account"]),
    )


def _sorted(zones: Any) -> Any:
    """Sort zones, which are a set for GKE; those known only while the program runs stay as they are."""
    return sorted(zones) if isinstance(zones, list) and all(isinstance(zone, str) for zone in zones) else zones


def _upgrade_settings(choices: GkeChoices) -> gcp.container.NodePoolUpgradeSettingsArgs:
    upgrade = choices.upgrade
    batches = None
    if upgrade.batch_node_count is not None:
        batches = gcp.container.NodePoolUpgradeSettingsBlueGreenSettingsArgs(
            standard_rollout_policy=gcp.container.NodePoolUpgradeSettingsBlueGreenSettingsStandardRolloutPolicyArgs(
                batch_node_count=upgrade.batch_node_count
            )
        )
    return gcp.container.NodePoolUpgradeSettingsArgs(
        strategy=upgrade.strategy,
        max_surge=upgrade.max_surge,
        max_unavailable=upgrade.max_unavailable,
        blue_green_settings=batches,
    )


def _drain_configs(choices: GkeChoices) -> list[gcp.container.NodePoolNodeDrainConfigArgs] | None:
    if choices.upgrade.drain_timeout_s is None:
        return None
    longest = f"{choices.upgrade.drain_timeout_s}s"
    drain = gcp.container.NodePoolNodeDrainConfigArgs(pdb_timeout_duration=longest, grace_termination_duration=longest)
    return [drain]


def _node_config(
    plan: PoolPlan, choices: GkeChoices, service_account: pulumi.Input[str]
) -> gcp.container.NodePoolNodeConfigArgs:
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=choices.machine_type,
        guest_accelerators=[_accelerator(choices)],
        spot=choices.spot or None,
        flex_start=choices.flex_start or None,
        max_run_duration=f"{choices.max_run_s}s" if choices.max_run_s is not None else None,
        reservation_affinity=_reservation_affinity(choices),
        image_type=choices.image_type,
        disk_size_gb=plan.disk_gib,
        disk_type=choices.boot_disk_type,
        boot_disk_kms_key=choices.boot_disk_key,
        ephemeral_storage_local_ssd_config=_ephemeral_storage(choices),
        local_nvme_ssd_block_config=_raw_disks(choices),
        labels=dict(plan.labels),
        resource_labels=dict(choices.resource_labels) or None,
        taints=[
            gcp.container.NodePoolNodeConfigTaintArgs(key=taint.key, value=taint.value, effect=EFFECTS[taint.effect])
            for taint in plan.taints
            if taint not in choices.taints  # GKE adds those itself
        ],
        service_account=service_account,
        oauth_scopes=[_SCOPE],
        metadata={"disable-legacy-endpoints": "true"},  # setting any metadata drops this default of the API
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA"),
        shielded_instance_config=gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
            enable_integrity_monitoring=True,
            # Secure Boot refuses kernel modules that Google did not sign, so every driver but GKE's own; a later
            # change replaces the pool. CIS GKE Benchmark 5.5.7 names the same impact.
            enable_secure_boot=choices.secure_boot,
        ),
        kubelet_config=gcp.container.NodePoolNodeConfigKubeletConfigArgs(
            insecure_kubelet_readonly_port_enabled="FALSE",
            # The provider used to send false for an absent value, which switches CPU limits off:
            # https://github.com/hashicorp/terraform-provider-google/issues/15767
            cpu_cfs_quota=True,
        ),
        linux_node_config=gcp.container.NodePoolNodeConfigLinuxNodeConfigArgs(
            hugepages_config=gcp.container.NodePoolNodeConfigLinuxNodeConfigHugepagesConfigArgs(
                hugepage_size2m=choices.huge_pages
            )
        )
        if choices.huge_pages
        else None,
        # gVNIC is for Container-Optimized OS alone: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/using-gvnic
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True) if choices.image_type.startswith("COS") else None,
    )


def _accelerator(choices: GkeChoices) -> gcp.container.NodePoolNodeConfigGuestAcceleratorArgs:
    sharing = None
    if choices.gpu_sharing_strategy is not None and choices.max_shared_clients_per_gpu is not None:
        sharing = gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
            gpu_sharing_strategy=choices.gpu_sharing_strategy,
            max_shared_clients_per_gpu=choices.max_shared_clients_per_gpu,
        )
    return gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=choices.accelerator_type,
        count=choices.accelerator_count,
        gpu_driver_installation_config=gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
            gpu_driver_version=choices.gpu_driver_version
        ),
        gpu_sharing_config=sharing,
        gpu_partition_size=choices.gpu_partition_size,
    )


def _reservation_affinity(choices: GkeChoices) -> gcp.container.NodePoolNodeConfigReservationAffinityArgs | None:
    if choices.reservation is not None:
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="SPECIFIC_RESERVATION",
            key="compute.googleapis.com/reservation-name",
            values=[choices.reservation],
        )
    if choices.no_reservation:
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(consume_reservation_type="NO_RESERVATION")
    return None


# GKE attaches a machine's own Local SSDs whether asked or not; left out, the next preview would plan a replacement.
def _ephemeral_storage(
    choices: GkeChoices,
) -> gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs | None:
    if not choices.local_ssd_count or not choices.local_ssd_for_pods:
        return None
    return gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(local_ssd_count=choices.local_ssd_count)


def _raw_disks(choices: GkeChoices) -> gcp.container.NodePoolNodeConfigLocalNvmeSsdBlockConfigArgs | None:
    if not choices.local_ssd_count or choices.local_ssd_for_pods:
        return None
    return gcp.container.NodePoolNodeConfigLocalNvmeSsdBlockConfigArgs(local_ssd_count=choices.local_ssd_count)


def _pool_name(plan: PoolPlan, choices: GkeChoices, service_account: pulumi.Input[str]) -> pulumi.Input[str]:
    """Name the pool after everything that makes the provider replace it, so that the new one can be made first.

    The list is the provider's: google/services/container/node_config.go of
    https://github.com/hashicorp/terraform-provider-google. Machine, disk, labels and taints change in place.
    """
    if choices.adopted is not None:
        return choices.adopted.name

    def named(account: str) -> str:
        decisive = {
            "accelerator_type": choices.accelerator_type,
            "accelerator_count": choices.accelerator_count,
            "gpu_driver_version": choices.gpu_driver_version,
            "gpu_sharing_strategy": choices.gpu_sharing_strategy,
            "max_shared_clients_per_gpu": choices.max_shared_clients_per_gpu,
            "gpu_partition_size": choices.gpu_partition_size,
            "local_ssd_count": choices.local_ssd_count or None,
            "local_nvme_block": True if choices.local_ssd_count and not choices.local_ssd_for_pods else None,
            "service_account": account,
            "spot": choices.spot or None,
            "flex_start": choices.flex_start or None,
            "queued": choices.queued or None,
            "max_run_s": choices.max_run_s,
            "reservation": choices.reservation,
            "boot_disk_key": choices.boot_disk_key,
            "network_profile": choices.network_profile,
            "gpu_networks": choices.gpu_networks or None,
            "compact": choices.compact or None,
            "accelerator_topology": choices.accelerator_topology,
            "max_pods": choices.max_pods,
            "secure_boot": choices.secure_boot or None,
            "set_by_hand": replacing(choices.overrides) or None,
        }
        return replacement_name(choices.first_name, decisive, limit=NAME_LIMIT)

    if isinstance(service_account, str):
        return named(service_account)
    return pulumi.Output.all(service_account).apply(lambda known: named(known[0]))


DECLARING = Declaring(create_provider=create_provider, create_pool=create_pool)
