"""The inputs of the resource behind a pool on AKS, by wire name: every decision is in the plan. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.naming import replacement_name
from gpupools.plan.cloud import LATE_DIGITS
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.azure.constraints import POOL_NAME_LIMIT
from gpupools.providers.azure.edit_effects import FIXED_AT_CREATION
from gpupools.providers.azure.pool_plan import AksPoolPlan
from gpupools.providers.azure.pool_settings import OVERRIDABLE
from gpupools.spec.models import Cluster
from gpupools.spec.overrides import without_none

_DEFAULTS = {
    "enableEncryptionAtHost": False,
    "enableNodePublicIP": False,
    "osDiskType": "Managed",
    "osType": "Linux",
    "type": "VirtualMachineScaleSets",
}
"""Values that do not count for a pool's name, so that pools made before the choice existed keep theirs."""


def declared_inputs(plan: PoolPlan, cluster: Mapping[str, Any]) -> dict[str, JsonDict]:
    """Return the inputs of the resource of a pool: name as `overrides` has it to inputs.

    A plan with a version of the API that the SDK does not speak becomes a resource of Azure Resource Manager, with the
    properties of the pool below `properties`. The provider sends them as they are to that version, compares them leaf
    by leaf, and replaces the resource when its address changes (pulumi/pulumi-azure-native
    provider/pkg/provider/{provider,diff}.go, https://github.com/pulumi/pulumi-azure-native/pull/3985 and 4692). No
    autoscaler moves the number of its nodes (`_autoscaler` in constraints.py), so the plan's is sent.

    Args:
        plan: A plan for AKS.
        cluster: Addresses of its cluster, which are passed on in whatever form they are.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings, properties = plan.settings(AksPoolPlan), _merged(plan, cluster)
    name, group = pool_name(plan, decisive_inputs(plan, properties)), cluster["resource_group"]
    if settings.api_version is None:
        place = {"agentPoolName": name, "resourceName": cluster["name"], "resourceGroupName": group}
        return {"AgentPool": {**properties, **place}}
    properties["gpuProfile"] = {**properties["gpuProfile"], "nvidia": _nvidia(settings)}
    above = f"managedClusters/{cluster['name']}" if isinstance(cluster["name"], str) else UNKNOWN
    address = {
        "apiVersion": settings.api_version,
        "resourceGroupName": group,
        "resourceProviderNamespace": "Microsoft.ContainerService",
        "parentResourcePath": above,
        "resourceType": "agentPools",
        "resourceName": name,
    }
    return {"AgentPool": {**address, "properties": properties}}


def decisive_inputs(plan: PoolPlan, properties: JsonObject) -> JsonDict:
    """Return everything that forces a pool's replacement."""
    settings = plan.settings(AksPoolPlan)
    nvidia, driver = _nvidia(settings), settings.gpu_driver
    fixed = {key: properties[key] for key in FIXED_AT_CREATION if key in properties}
    counted = {key: value for key, value in fixed.items() if value != _DEFAULTS.get(key)}
    return counted | {"gpuProfile": {"driver": driver, **nvidia} if nvidia else driver}


def pool_name(plan: PoolPlan, decisive: JsonObject) -> Any:
    """Name the pool after `decisive_inputs`, so that the new one can come before the old goes.

    `UNKNOWN` while one of them is not known.
    """
    settings = plan.provider_plan
    if settings.adopted is not None:
        return settings.adopted.name
    if not all(isinstance(value, str | int | float | list | Mapping) for value in decisive.values()):
        return UNKNOWN
    return replacement_name(settings.first_name, decisive, limit=POOL_NAME_LIMIT, separator="")


def name_expressions(plan: PoolPlan, cluster: Cluster) -> tuple[str, ...]:
    """Return an expression of the pool's name: the name, or without the digits that only an update knows."""
    keys = cluster.pool_inputs(plan.provider_plan.requested_zones())
    name = pool_name(plan, decisive_inputs(plan, _merged(plan, keys)))
    if name is not UNKNOWN:
        return (name,)
    first = plan.provider_plan.first_name
    return (replacement_name(first, {}, limit=POOL_NAME_LIMIT, separator="")[:-4] + LATE_DIGITS,)


def _merged(plan: PoolPlan, cluster: Mapping[str, Any]) -> JsonDict:
    """Return the properties of the agent pool with keys and overrides."""
    settings = plan.settings(AksPoolPlan)
    own = without_none(_properties(plan, settings, cluster))
    return OVERRIDABLE["AgentPool"].merge(own, settings.key_values, settings.overrides.get("AgentPool", {}))


def _nvidia(settings: AksPoolPlan) -> JsonDict:
    """Translate what the SDK's GPU profile has no field for."""
    given = {"managementMode": settings.management_mode, "migStrategy": settings.mig_strategy}
    return {key: value for key, value in given.items() if value is not None}


def _properties(plan: PoolPlan, settings: AksPoolPlan, cluster: Mapping[str, Any]) -> JsonDict:
    """Translate a plan, all but the names of pool and cluster."""
    spot = settings.spot_max_price is not None
    security = {
        # LocalUser is what AKS does unasked; the property is sent only for the preview feature that needs it.
        "sshAccess": settings.ssh_access if settings.ssh_access != "LocalUser" else None,
        "enableSecureBoot": settings.secure_boot or None,
        "enableVTPM": settings.secure_boot or None,
    }
    upgrades = {
        "maxSurge": str(settings.max_surge),
        "maxUnavailable": str(settings.max_unavailable),
        "drainTimeoutInMinutes": settings.drain_timeout_min,
    }
    return {
        "mode": "User",
        # Pools of type VirtualMachines take no GPU sizes together with the autoscaler.
        "type": "VirtualMachineScaleSets",
        "vmSize": plan.instance.name,
        "enableAutoScaling": settings.autoscaled,
        # AKS asks for a count even of an autoscaled pool: https://github.com/pulumi/pulumi-azure-native/issues/2943.
        "count": plan.min_nodes,
        "minCount": plan.min_nodes if settings.autoscaled else None,
        "maxCount": plan.max_nodes if settings.autoscaled else None,
        # Deallocated nodes still count against the quota and break driver pods when they come back:
        # https://github.com/NVIDIA/gpu-operator/issues/729.
        "scaleDownMode": "Delete",
        "scaleSetPriority": "Spot" if spot else None,
        # For the same reason evicted nodes are deleted.
        "scaleSetEvictionPolicy": "Delete" if spot else None,
        "spotMaxPrice": settings.spot_max_price,
        "capacityReservationGroupID": settings.capacity_reservation_group_id,
        "availabilityZones": list(settings.availability_zones) or None,
        "proximityPlacementGroupID": cluster.get("proximity_placement_group_id") if settings.compact else None,
        "osType": "Linux",
        "osSKU": settings.os_sku,
        # What AKS does unasked is left out here and below, so that nothing changes on pools that never asked.
        "enableFIPS": settings.fips or None,
        "osDiskSizeGB": plan.disk_gib,
        "osDiskType": settings.os_disk_type,
        "gpuProfile": {"driver": settings.gpu_driver},
        "gpuInstanceProfile": settings.gpu_instance_profile,
        "nodeTaints": [str(taint) for taint in plan.taints],
        "nodeLabels": dict(plan.labels),
        "tags": {**settings.autoscaler_tags, **settings.tags} or None,
        "vnetSubnetID": cluster.get("subnet_id"),
        "enableNodePublicIP": False,
        "enableEncryptionAtHost": settings.encryption_at_host,
        "securityProfile": without_none(security) or None,
        "upgradeSettings": None if settings.max_surge is None and settings.max_unavailable is None else upgrades,
    }
