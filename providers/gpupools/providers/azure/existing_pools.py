"""Existing agent pools of AKS, as the Azure CLI, Terraform and Pulumi describe them. Pure.

The Azure CLI writes the API's names with an acronym's later letters small, and the pool's own `type` as
`typePropertiesType` (Azure/azure-sdk-for-python azure-mgmt-containerservice, class AgentPool).
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.plan.existing_pools import (
    ExistingPools,
    Found,
    There,
    fixed_nodes,
    list_of,
    number_of,
    other_taints,
    refuse,
    text_of,
    without_nothing,
)
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.providers.azure.machines import INSTANCE_TYPES
from gpupools.providers.azure.pool_plan import gpu_instance_profile
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SPOT_KEY

_AZURERM = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
_ID = (
    r"(?i)/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.ContainerService/managedClusters/([^/]+)"
    r"/agentPools/([^/]+)"
)
_WIRE = {name.casefold(): name for name in OVERRIDABLE["AgentPool"].inputs}
_INNER = {"enablevtpm": "enableVTPM"}
_TYPE = "Microsoft.ContainerService/managedClusters/agentPools"
_SCALE_SET = "VirtualMachineScaleSets"
_PLACE = ("agentPoolName", "resourceName", "resourceGroupName")


def _pool_from_cli(data: JsonObject) -> Found | None:
    if not text_of(data.get("id"), _ID):
        return None
    flat = data["properties"] if isinstance(data.get("properties"), Mapping) else data  # az rest has them apart
    given = {key: value for key, value in flat.items() if key.casefold() != "type" or value != _TYPE}
    if "typePropertiesType" in given:
        given["type"] = given.pop("typePropertiesType")
    return _existing_pool(str(data["id"]), given)


def _existing_pool(identifier: str, given: JsonObject) -> Found:
    subscription, group, cluster, name = text_of(identifier, _ID)
    inputs = {wire: _api_case(value) for key, value in given.items() if (wire := _WIRE.get(key.casefold())) is not None}
    inputs.setdefault("type", _SCALE_SET)  # Terraform makes no others, and says so nowhere
    where = {"cloud": "azure", "name": cluster, "resource_group": group, "subscription_id": subscription}
    return Found(name, where, without_nothing({key: inputs[key] for key in inputs if key not in _PLACE}))


def _api_case(value: Any) -> Any:
    """Return keys of `securityProfile` in the API's case; labels and tags do not change."""
    if not isinstance(value, Mapping):
        return value
    return {_INNER.get(str(key).casefold(), key): item for key, item in value.items()}


def _can_have_gpus(inputs: JsonObject) -> bool:
    """Return whether a pool has a size of the N series; pools of others, which have no GPUs, are not imported."""
    return str(inputs.get("vmSize")).casefold().startswith("standard_n")


def _pool_from_state(kind: str, inputs: JsonObject, identifier: str) -> Found | None:
    if not _can_have_gpus(inputs):
        return None
    if kind == _AZURERM:
        what = "is described by Pulumi's azure provider, which gpupools cannot read"
        raise refuse(inputs.get("name"), what, "describe it with az aks nodepool show")
    if kind.partition(":")[0] != "azure-native" or not kind.endswith(":AgentPool"):
        return None
    if not text_of(identifier, _ID):
        raise refuse(inputs.get("agentPoolName"), "has no agent pool id", "describe it with az aks nodepool show")
    return _existing_pool(identifier, inputs)


def _pool_keys(found: Found) -> tuple[JsonDict, JsonDict]:
    inputs, profile = found.inputs, mapping(found.inputs.get("gpuProfile"))
    if inputs.get("osType", "Linux") != "Linux":
        raise refuse(found.name, f"has {inputs['osType']} nodes")
    if inputs["type"] != _SCALE_SET:
        raise refuse(found.name, f"has type {inputs['type']}, which has its own sizes and node counts")
    if mapping(profile.get("nvidia")).get("managementMode") == "Managed":
        what = "is an AKS-managed GPU pool, a resource of another type, which gpupools cannot import yet"
        raise refuse(found.name, what)
    row = next((type_ for type_ in INSTANCE_TYPES.values() if type_.name == inputs.get("vmSize")), None)
    if row is None:
        raise refuse(found.name, f"has the size {inputs.get('vmSize')}, which is not in the catalogue")
    upgrade, security = mapping(inputs.get("upgradeSettings")), mapping(inputs.get("securityProfile"))
    taints = (f"{SPOT_KEY}=spot:NoSchedule",)
    pool = {
        "instance_type": row.name,
        "nodes": _nodes(found),
        "sharing": _sharing(found.name, inputs.get("gpuInstanceProfile"), row.gpu_model),
        "software": "gpu-operator" if profile.get("driver") == "None" else "device-plugin",
        "capacity": _capacity(inputs),
        "zones": sorted(list_of(str, inputs.get("availabilityZones"), "availabilityZones")),
        "image": {
            "family": "azure-linux" if str(inputs.get("osSKU")).startswith("AzureLinux") else None,
            "fips": inputs.get("enableFIPS") or None,
        },
        "disk_gib": inputs.get("osDiskSizeGB"),
        "disk": {"type": "Ephemeral" if inputs.get("osDiskType") == "Ephemeral" else None},
        "security": {"secure_boot": security.get("enableSecureBoot") or None},
        "upgrade": {
            "max_surge": _number(upgrade.get("maxSurge")),
            "max_unavailable": _number(upgrade.get("maxUnavailable")),
            "drain_timeout_min": upgrade.get("drainTimeoutInMinutes") or None,
        },
        "labels": dict(mapping(inputs.get("nodeLabels"))),
        "taints": other_taints(list_of(str, inputs.get("nodeTaints"), "nodeTaints"), taints),
        "tags": dict(mapping(inputs.get("tags"))),
    }
    return {"subnet_id": inputs.get("vnetSubnetID")}, without_nothing(pool)


def _nodes(found: Found) -> dict[str, int]:
    inputs = found.inputs
    if inputs.get("enableAutoScaling"):
        return {key: number_of(inputs.get(f"{key}Count"), f"{key}Count") for key in ("min", "max")}
    return fixed_nodes(found.name, number_of(inputs.get("count"), "count"))


def _sharing(name: str, profile: object, gpu: str) -> JsonDict | None:
    if profile in (None, "None"):
        return None
    from gpupools.catalog.mig import profiles  # its tables are slow to load, and most pools cut nothing

    cut = next((candidate for candidate in profiles(gpu) if gpu_instance_profile(candidate) == profile), None)
    if cut is None:
        raise refuse(name, f"cuts a {gpu} with {profile}, which is not a MIG profile")
    return {"mode": "mig", "profile": cut.name}


def _capacity(inputs: JsonObject) -> JsonDict | None:
    if inputs.get("scaleSetPriority") == "Spot":
        price = inputs.get("spotMaxPrice")
        return {"mode": "spot", "max_price_usd_per_hour": price if price not in (None, -1, "-1") else None}
    group = inputs.get("capacityReservationGroupID")
    return {"mode": "reservation", "name": group} if group else None


def _number(value: object) -> int | None:
    """Return a number that the API writes as text; None for a share, as in `33%`."""
    return int(str(value)) if str(value).isdigit() else None


def _existing_resources(data: JsonObject) -> Iterator[There]:
    place = text_of(data.get("id"), _ID)
    if not place:
        return
    subscription, group, cluster, name = place
    flat = data["properties"] if isinstance(data.get("properties"), Mapping) else data
    at = ["--cluster-name", cluster, "--resource-group", group, "--subscription", subscription]
    typed = {"resourceGroupName": group, "resourceName": cluster, "agentPoolName": name}
    untyped = {
        "resourceProviderNamespace": "Microsoft.ContainerService",
        "parentResourcePath": f"managedClusters/{cluster}",
        "resourceType": "agentPools",
        "resourceGroupName": group,
        "resourceName": name,
    }
    yield There(
        name=name,
        id=str(data["id"]),
        # A pool that AKS manages is of the second type; resources.py tells why.
        forms=(("azure-native:containerservice:AgentPool", typed), ("azure-native:resources:Resource", untyped)),
        tags={},
        cluster=cluster,
        pool=str(mapping(flat.get("nodeLabels")).get(POOL_LABEL, "")),
        delete=shlex.join(["az", "aks", "nodepool", "delete", "--name", name, *at]),
    )


EXISTING_POOLS = ExistingPools(
    resource="AgentPool",
    described=_pool_from_cli,
    declared=_pool_from_state,
    keys=_pool_keys,
    joined=lambda found, _: found if _can_have_gpus(found.inputs) else None,
    there=_existing_resources,
)
