"""The inputs of the resources behind a pool on GKE, by wire name: every decision is in the plan. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict
from gpupools.common.naming import replacement_name
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.gcp.constraints import NAME_LIMIT
from gpupools.providers.gcp.edit_effects import is_replacing, replacing_inputs
from gpupools.providers.gcp.pool_plan import CLASS_KEY, GkePoolPlan
from gpupools.providers.gcp.pool_settings import OVERRIDABLE
from gpupools.spec.models import Cluster
from gpupools.spec.overrides import without_none

# Nodes read images, logs and drivers with it; what they may do is limited by the roles of their own service account.
# Narrower scopes break the driver download: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus.
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def declared_inputs(plan: PoolPlan, cluster: Mapping[str, Any], policy: Any = UNKNOWN) -> dict[str, JsonDict]:
    """Return the inputs of each resource of a pool: name as `overrides` has it to inputs.

    Args:
        plan: A plan for GKE.
        cluster: Addresses of its cluster, which are passed on in whatever form they are.
        policy: The name of the placement policy that is declared for this pool alone.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings = plan.settings(GkePoolPlan)
    by_hand = settings.overrides.get("NodePool", {})
    pool = without_none(_node_pool(plan, settings, cluster, policy))
    declared = {"NodePool": OVERRIDABLE["NodePool"].merge(pool, settings.key_values, by_hand)}
    if settings.accelerator_topology is not None:
        # https://github.com/GoogleCloudPlatform/cluster-toolkit, examples/gke-a4x/gke-a4x.yaml
        one_nvlink_domain = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": settings.accelerator_topology}
        region = {"region": settings.zones[0].rpartition("-")[0]} if settings.zones else {}
        declared["ResourcePolicy"] = {"project": cluster["project"], **region, "workloadPolicy": one_nvlink_domain}
    return declared


_REPLACING_FIELDS = (
    *("accelerator_type", "accelerator_count", "gpu_driver_version", "gpu_sharing_strategy"),
    *("max_shared_clients_per_gpu", "gpu_partition_size", "local_ssd_count", "spot", "flex_start", "queued"),
    *("max_run_s", "reservation", "network_profile", "gpu_networks", "compact", "accelerator_topology", "secure_boot"),
)


def pool_name(plan: PoolPlan, service_account: Any) -> Any:
    """Name the pool after everything that makes the provider replace it, so that the new one can be made first.

    The list is the provider's: google/services/container/node_config.go of
    https://github.com/hashicorp/terraform-provider-google. Machine, disk, labels and taints change in place.
    `UNKNOWN` while the account is not known.
    """
    settings = plan.settings(GkePoolPlan)
    if settings.adopted is not None:
        return settings.adopted.name
    if not isinstance(service_account, str):
        return UNKNOWN
    own: JsonDict = {field: getattr(settings, field) or None for field in _REPLACING_FIELDS}
    decisive = {
        **own,
        "local_nvme_block": True if settings.local_ssd_count and not settings.local_ssd_for_pods else None,
        "service_account": service_account,
        **{
            key.field: settings.key_values.get(key.field)
            for key in OVERRIDABLE["NodePool"].keys
            if is_replacing(".".join(key.path))
        },
        "set_by_hand": replacing_inputs(settings.overrides.get("NodePool", {})) or None,
    }
    return replacement_name(settings.first_name, decisive, limit=NAME_LIMIT)


def known_names(plan: PoolPlan, cluster: Cluster) -> tuple[str, ...]:
    """Return the pool's name; none while the service account is not known."""
    name = pool_name(plan, cluster.pool_inputs(())["service_account"])
    return () if name is UNKNOWN else (name,)


def _node_pool(plan: PoolPlan, settings: GkePoolPlan, cluster: Mapping[str, Any], policy: Any) -> JsonDict:
    upgrade, account = settings.upgrade, cluster["service_account"]
    if settings.accelerator_topology is None:
        policy = settings.placement_policy
    longest = f"{upgrade.drain_timeout_s}s"
    drain = {"pdbTimeoutDuration": longest, "graceTerminationDuration": longest}
    batches = {"standardRolloutPolicy": {"batchNodeCount": upgrade.batch_node_count}}
    placement = {"type": "COMPACT", "policyName": policy}
    networks = [{"network": network, "subnetwork": subnetwork} for network, subnetwork in settings.gpu_networks]
    # The totals count all zones together; minNodeCount and maxNodeCount would count each. ANY takes GPUs where they
    # are; BALANCED would wait for the zone that has none.
    scaling = {"totalMinNodeCount": plan.min_nodes, "totalMaxNodeCount": plan.max_nodes, "locationPolicy": "ANY"}
    return {
        "name": pool_name(plan, account),
        "cluster": cluster["name"],
        "project": cluster["project"],
        "location": cluster["location"],
        "nodeLocations": list(settings.zones) if settings.zones else _sorted(cluster.get("node_locations")),
        "nodeCount": settings.fixed_nodes_per_zone,
        "initialNodeCount": settings.initial_nodes_per_zone,
        "autoscaling": scaling if settings.fixed_nodes_per_zone is None else None,
        "management": {"autoRepair": settings.auto_repair, "autoUpgrade": True},
        "upgradeSettings": {
            "strategy": upgrade.strategy,
            "maxSurge": upgrade.max_surge,
            "maxUnavailable": upgrade.max_unavailable,
            "blueGreenSettings": batches if upgrade.batch_node_count is not None else None,
        },
        "nodeDrainConfigs": [drain] if upgrade.drain_timeout_s is not None else None,
        "networkConfig": {
            "enablePrivateNodes": True,
            "acceleratorNetworkProfile": settings.network_profile,
            "additionalNodeNetworkConfigs": networks or None,
        },
        "placementPolicy": placement if settings.compact or settings.accelerator_topology else None,
        "queuedProvisioning": {"enabled": True} if settings.queued else None,
        # Written out, since the provider keeps PREVENT when the field is only left out again.
        "deletionPolicy": "PREVENT" if settings.protect else "DELETE",
        "nodeConfig": _node_config(plan, settings, account),
    }


def _sorted(zones: Any) -> Any:
    """Sort zones, which are a set for GKE; those known only while the program runs stay as they are."""
    return sorted(zones) if isinstance(zones, list) and all(isinstance(zone, str) for zone in zones) else zones


def _node_config(plan: PoolPlan, settings: GkePoolPlan, service_account: Any) -> JsonDict:
    # GKE attaches a machine's own Local SSDs whether asked or not; left out, the next preview would plan a replacement.
    disks = {"localSsdCount": settings.local_ssd_count} if settings.local_ssd_count else None
    affinity: JsonDict | None = {"consumeReservationType": "NO_RESERVATION"} if settings.no_reservation else None
    if settings.reservation is not None:
        by_name = {"key": "compute.googleapis.com/reservation-name", "values": [settings.reservation]}
        affinity = {"consumeReservationType": "SPECIFIC_RESERVATION", **by_name}
    huge_pages = {"hugepagesConfig": {"hugepageSize2m": settings.huge_pages}} if settings.huge_pages else None
    return {
        "machineType": settings.machine_type,
        "guestAccelerators": [_accelerator(settings)],
        "spot": settings.spot or None,
        "flexStart": settings.flex_start or None,
        "maxRunDuration": f"{settings.max_run_s}s" if settings.max_run_s is not None else None,
        "reservationAffinity": affinity,
        "imageType": settings.image_type,
        "diskSizeGb": plan.disk_gib,
        "diskType": settings.boot_disk_type,
        "ephemeralStorageLocalSsdConfig": disks if settings.local_ssd_for_pods else None,
        "localNvmeSsdBlockConfig": None if settings.local_ssd_for_pods else disks,
        "labels": dict(plan.labels),
        "resourceLabels": dict(settings.resource_labels) or None,
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect.name}
            for taint in plan.node_taints
            if taint not in settings.taints or taint.key == CLASS_KEY  # GKE adds the others itself
        ],
        "serviceAccount": service_account,
        "oauthScopes": [_SCOPE],
        "metadata": {"disable-legacy-endpoints": "true"},  # setting any metadata drops this default of the API
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        # Secure Boot refuses kernel modules that Google did not sign, so every driver but GKE's own; a later change
        # replaces the pool. CIS GKE Benchmark 5.5.7 names the same impact.
        "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": settings.secure_boot},
        # The provider used to send false for an absent cpuCfsQuota, which switches CPU limits off:
        # https://github.com/hashicorp/terraform-provider-google/issues/15767
        "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": "FALSE", "cpuCfsQuota": True},
        "linuxNodeConfig": huge_pages,
        # gVNIC is for Container-Optimized OS alone: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/using-gvnic
        "gvnic": {"enabled": True} if settings.image_type.startswith("COS") else None,
    }


def _accelerator(settings: GkePoolPlan) -> JsonDict:
    strategy, clients = settings.gpu_sharing_strategy, settings.max_shared_clients_per_gpu
    return {
        "type": settings.accelerator_type,
        "count": settings.accelerator_count,
        "gpuDriverInstallationConfig": {"gpuDriverVersion": settings.gpu_driver_version},
        "gpuSharingConfig": {"gpuSharingStrategy": strategy, "maxSharedClientsPerGpu": clients} if strategy else None,
        "gpuPartitionSize": settings.gpu_partition_size,
    }
