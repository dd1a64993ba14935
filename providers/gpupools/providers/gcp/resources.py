"""Turns a plan into a GKE node pool. Translates only: every decision is in the plan."""

import warnings
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpupools.common.json_types import JsonDict
from gpupools.common.naming import replacement_name
from gpupools.plan.cloud import Declaring
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.apply_overrides import python_arguments, wire_inputs
from gpupools.providers.gcp.constraints import NAME_LIMIT
from gpupools.providers.gcp.edit_effects import edit_tables, replacing_inputs
from gpupools.providers.gcp.pool_plan import GkePoolPlan
from gpupools.providers.gcp.pool_settings import OVERRIDABLE
from gpupools.providers.gcp.reserved import EFFECTS

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
    """Declare the node pool of a plan; return its name in the cloud.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    choices = plan.choices
    if not isinstance(choices, GkePoolPlan):
        raise TypeError(f"pool {plan.name} was planned for {plan.cloud}, not for gcp")
    protect = pulumi.ResourceOptions(protect=True) if choices.protect else None
    policy = _workload_policy(name, choices, cluster, opts)
    inputs = wire_inputs(_node_pool(plan, choices, cluster, policy), choices.overrides)
    adopted = import_options(
        choices.adopted,
        inputs,
        edit_tables(),
        OVERRIDABLE["NodePool"].inputs,
        whole=_COUNTED,
        beside=("nodeConfig.preemptible",),
    )
    pool = gcp.container.NodePool(
        f"{name}-nodes",
        **python_arguments(gcp.container.NodePoolArgs, inputs),
        opts=pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(opts, protect), adopted),
            pulumi.ResourceOptions(
                ignore_changes=["initialNodeCount"],  # resizing a pool changes it, and a change replaces
                custom_timeouts=custom_timeouts(choices.create_min, choices.update_min, choices.delete_min),
            ),
        ),
    )
    return pool.name


def _workload_policy(
    name: str, choices: GkePoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
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


_COUNTED = ("autoscaling", "nodeCount", "ignoreNodeCountChanges")
"""Inputs of which GKE takes one way or the other: what the plan leaves out of them is not to stay."""


def _node_pool(
    plan: PoolPlan,
    choices: GkePoolPlan,
    cluster: Mapping[str, pulumi.Input[Any]],
    policy: pulumi.Output[str] | None,
) -> JsonDict:
    """Return the inputs by wire name; None means left out."""
    upgrade, account = choices.upgrade, cluster["service_account"]
    longest = f"{upgrade.drain_timeout_s}s"
    drain = {"pdbTimeoutDuration": longest, "graceTerminationDuration": longest}
    batches = {"standardRolloutPolicy": {"batchNodeCount": upgrade.batch_node_count}}
    networks = [{"network": network, "subnetwork": subnetwork} for network, subnetwork in choices.gpu_networks]
    # The totals count all zones together; minNodeCount and maxNodeCount would count each. ANY takes GPUs where they
    # are; BALANCED would wait for the zone that has none.
    scaling = {"totalMinNodeCount": plan.min_nodes, "totalMaxNodeCount": plan.max_nodes, "locationPolicy": "ANY"}
    return {
        "name": _pool_name(plan, choices, account),
        "cluster": cluster["name"],
        "project": cluster["project"],
        "location": cluster["location"],
        "nodeLocations": list(choices.zones) if choices.zones else _sorted(cluster.get("node_locations")),
        "nodeCount": choices.fixed_nodes_per_zone,
        "initialNodeCount": choices.initial_nodes_per_zone,
        "autoscaling": scaling if choices.fixed_nodes_per_zone is None else None,
        "management": {"autoRepair": choices.auto_repair, "autoUpgrade": True},
        "upgradeSettings": {
            "strategy": upgrade.strategy,
            "maxSurge": upgrade.max_surge,
            "maxUnavailable": upgrade.max_unavailable,
            "blueGreenSettings": batches if upgrade.batch_node_count is not None else None,
        },
        "nodeDrainConfigs": [drain] if upgrade.drain_timeout_s is not None else None,
        "networkConfig": {
            "enablePrivateNodes": True,
            "acceleratorNetworkProfile": choices.network_profile,
            "additionalNodeNetworkConfigs": networks or None,
        },
        "placementPolicy": {"type": "COMPACT", "policyName": policy} if policy is not None or choices.compact else None,
        "queuedProvisioning": {"enabled": True} if choices.queued else None,
        "maxPodsPerNode": choices.max_pods,
        # Written out, since the provider keeps PREVENT when the field is only left out again.
        "deletionPolicy": "PREVENT" if choices.protect else "DELETE",
        "nodeConfig": _node_config(plan, choices, account),
    }


def _sorted(zones: Any) -> Any:
    """Sort zones, which are a set for GKE; those known only while the program runs stay as they are."""
    return sorted(zones) if isinstance(zones, list) and all(isinstance(zone, str) for zone in zones) else zones


def _node_config(plan: PoolPlan, choices: GkePoolPlan, service_account: pulumi.Input[str]) -> JsonDict:
    # GKE attaches a machine's own Local SSDs whether asked or not; left out, the next preview would plan a replacement.
    disks = {"localSsdCount": choices.local_ssd_count} if choices.local_ssd_count else None
    return {
        "machineType": choices.machine_type,
        "guestAccelerators": [_accelerator(choices)],
        "spot": choices.spot or None,
        "flexStart": choices.flex_start or None,
        "maxRunDuration": f"{choices.max_run_s}s" if choices.max_run_s is not None else None,
        "reservationAffinity": _reservation_affinity(choices),
        "imageType": choices.image_type,
        "diskSizeGb": plan.disk_gib,
        "diskType": choices.boot_disk_type,
        "bootDiskKmsKey": choices.boot_disk_key,
        "ephemeralStorageLocalSsdConfig": disks if choices.local_ssd_for_pods else None,
        "localNvmeSsdBlockConfig": None if choices.local_ssd_for_pods else disks,
        "labels": dict(plan.labels),
        "resourceLabels": dict(choices.resource_labels) or None,
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": EFFECTS[taint.effect]}
            for taint in plan.taints
            if taint not in choices.taints  # GKE adds those itself
        ],
        "serviceAccount": service_account,
        "oauthScopes": [_SCOPE],
        "metadata": {"disable-legacy-endpoints": "true"},  # setting any metadata drops this default of the API
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        # Secure Boot refuses kernel modules that Google did not sign, so every driver but GKE's own; a later change
        # replaces the pool. CIS GKE Benchmark 5.5.7 names the same impact.
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": choices.secure_boot},
        # The provider used to send false for an absent cpuCfsQuota, which switches CPU limits off:
        # https://github.com/hashicorp/terraform-provider-google/issues/15767
        "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": "FALSE", "cpuCfsQuota": True},
        "linuxNodeConfig": {"hugepagesConfig": {"hugepageSize2m": choices.huge_pages}} if choices.huge_pages else None,
        # gVNIC is for Container-Optimized OS alone: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/using-gvnic
        "gvnic": {"enabled": True} if choices.image_type.startswith("COS") else None,
    }


def _accelerator(choices: GkePoolPlan) -> JsonDict:
    strategy, clients = choices.gpu_sharing_strategy, choices.max_shared_clients_per_gpu
    return {
        "type": choices.accelerator_type,
        "count": choices.accelerator_count,
        "gpuDriverInstallationConfig": {"gpuDriverVersion": choices.gpu_driver_version},
        "gpuSharingConfig": {"gpuSharingStrategy": strategy, "maxSharedClientsPerGpu": clients} if strategy else None,
        "gpuPartitionSize": choices.gpu_partition_size,
    }


def _reservation_affinity(choices: GkePoolPlan) -> JsonDict | None:
    if choices.reservation is not None:
        return {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [choices.reservation],
        }
    return {"consumeReservationType": "NO_RESERVATION"} if choices.no_reservation else None


def _pool_name(plan: PoolPlan, choices: GkePoolPlan, service_account: pulumi.Input[str]) -> pulumi.Input[str]:
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
            "set_by_hand": replacing_inputs(choices.overrides) or None,
        }
        return replacement_name(choices.first_name, decisive, limit=NAME_LIMIT)

    if isinstance(service_account, str):
        return named(service_account)
    return pulumi.Output.all(service_account).apply(lambda known: named(known[0]))


DECLARING = Declaring(create_provider=create_provider, create_pool=create_pool)
