"""The only place that speaks the Azure SDK: it translates a plan and decides nothing about GPUs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pulumi
import pulumi_azure_native as azure_native
from pulumi_azure_native import containerservice

from gpupools.common.json_types import JsonObject
from gpupools.common.naming import replacement_name
from gpupools.plan.cloud import ResourceFactory
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.apply_overrides import keyword_arguments, wire_inputs
from gpupools.providers.azure.constraints import POOL_NAME_LIMIT
from gpupools.providers.azure.edit_effects import FIXED_AT_CREATION, edit_tables
from gpupools.providers.azure.pool_plan import AksPoolPlan
from gpupools.providers.azure.pool_settings import OVERRIDABLE
from gpupools.providers.previous_state import invoke, keep_node_count, last_outputs, last_update
from gpupools.providers.sdk_internals import wire_names

_AGENT_POOL = "azure-native:containerservice:AgentPool"

_GET_AGENT_POOL = "azure-native:containerservice:getAgentPool"
_VERSION = version("pulumi_azure_native")

_PLACE = ("resourceName", "resourceGroupName")
"""Inputs that say which cluster a pool is in."""

_FIXED_LEAVES = {
    "gpuProfile": ("gpuProfile.driver", "gpuProfile.nvidia.managementMode", "gpuProfile.nvidia.migStrategy")
}
"""What AKS never changes below a property of `FIXED_AT_CREATION`, where the API's version is not the SDK's.

Another version may report more there (`gpuProfile.driverType`), and what a refresh takes over must not replace a pool.
"""

_DEFAULTS = {
    "enableEncryptionAtHost": False,
    "enableNodePublicIP": False,
    "osDiskType": "Managed",
    "osType": "Linux",
    "type": "VirtualMachineScaleSets",
}
"""Values that do not count for a pool's name, so that pools made before the choice existed keep theirs."""


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the provider for one cluster's subscription and tenant, by default those of the credentials."""
    return azure_native.Provider(
        name, subscription_id=cluster.get("subscription_id"), tenant_id=cluster.get("tenant_id"), opts=opts
    )


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the agent pool of a plan; return its name in AKS.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings = plan.provider_plan
    if not isinstance(settings, AksPoolPlan):
        raise TypeError(f"{plan.cluster}/{plan.name} was planned for {plan.cloud}, not for azure")
    cluster = _check_subscription(cluster, opts)
    declare = _declare_agent_pool if settings.api_version is None else _declare_generic_resource
    former = name.removesuffix(plan.name) + settings.first_name
    names = (f"{name}-pool", f"{former}-pool")
    pool, pool_name = declare(names, settings, _arguments(plan, settings, cluster), opts)
    # Through the URN, so that the name is known at preview and whoever uses it still waits for the pool.
    return pool.urn.apply(lambda _: pool_name)


def _check_subscription(
    cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> Mapping[str, pulumi.Input[Any]]:
    """Return the cluster for use with the provider it gets: no resource says its subscription, the provider does.

    A provider that a program declares is its word for it: the SDK does not tell what that was given.

    Raises (while the program runs):
        pulumi.RunError: The default provider is for another subscription than the cluster's `subscription_id`.
    """
    wanted = cluster.get("subscription_id")
    if wanted is None or opts.parent is None or opts.parent.get_provider(_AGENT_POOL) is not None:
        return cluster
    found = pulumi.Config("azure-native").get("subscriptionId") or os.environ.get("ARM_SUBSCRIPTION_ID")

    def compared(given: Sequence[Any]) -> Any:
        subscription, name = given
        if found is None or str(subscription).casefold() != found.casefold():
            there = f"is for {found}" if found else "names none"
            raise pulumi.RunError(
                f"cluster.subscription_id: the default provider {there}, but this cluster is in another subscription; "
                "set an azure-native provider for it in the component's options"
            )
        return name

    if isinstance(wanted, pulumi.Output):
        return {**cluster, "name": pulumi.Output.all(wanted, cluster["name"]).apply(compared)}
    compared([wanted, cluster["name"]])
    return cluster


def _declare_agent_pool(
    names: tuple[str, ...],
    settings: AksPoolPlan,
    arguments: containerservice.AgentPoolArgs,
    opts: pulumi.ResourceOptions,
) -> tuple[pulumi.Resource, pulumi.Input[str]]:
    """Declare the pool as the SDK's own agent pool."""
    inputs = keyword_arguments(arguments, settings.overrides)
    wire = wire_names(containerservice.AgentPoolArgs)
    pool_name = _pool_name(settings, {wire[key]: value for key, value in inputs.items()})
    counted = _node_count(names, settings, wire_inputs(arguments, settings.overrides), pool_name, opts)
    if counted.running is not None:
        inputs["count"] = counted.running
    said = {wire[key]: value for key, value in inputs.items()} | {"agentPoolName": pool_name}
    adopted = import_options(settings.adopted, said, edit_tables(), OVERRIDABLE["AgentPool"].inputs)
    options = pulumi.ResourceOptions.merge(_pool_options(settings), adopted)
    pool = containerservice.AgentPool(
        names[0],
        agent_pool_name=pool_name,
        # The trailing underscore is the SDK's: Pulumi's own first argument is called resource_name.
        resource_name_=inputs.pop("resource_name"),
        **inputs,
        opts=pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(opts, counted.options), options),
    )
    return pool, pool_name


def _declare_generic_resource(
    names: tuple[str, ...],
    settings: AksPoolPlan,
    arguments: containerservice.AgentPoolArgs,
    opts: pulumi.ResourceOptions,
) -> tuple[pulumi.Resource, pulumi.Input[str]]:
    """Declare the pool as a resource of Azure Resource Manager, in a version of the API that the SDK does not speak.

    The provider sends `properties` as they are to that version, compares them leaf by leaf, and replaces the resource
    when its address changes (pulumi/pulumi-azure-native provider/pkg/provider/{provider,diff}.go,
    https://github.com/pulumi/pulumi-azure-native/pull/3985 and 4692). No autoscaler moves the number of its nodes
    (`_autoscaler` in constraints.py), so the plan's is sent.
    """
    properties = wire_inputs(arguments, settings.overrides)
    cluster, group = properties.pop("resourceName"), properties.pop("resourceGroupName")
    properties["gpuProfile"] = {**properties["gpuProfile"], "nvidia": _nvidia(settings)}
    pool_name = _pool_name(settings, properties)
    pool = azure_native.resources.Resource(
        names[0],
        api_version=settings.api_version,
        resource_group_name=group,
        resource_provider_namespace="Microsoft.ContainerService",
        parent_resource_path=pulumi.Output.concat("managedClusters/", cluster)
        if isinstance(cluster, pulumi.Output)
        else f"managedClusters/{cluster}",
        resource_type="agentPools",
        resource_name_=pool_name,
        properties=properties,
        opts=pulumi.ResourceOptions.merge(opts, _pool_options(settings, "properties.")),
    )
    return pool, pool_name


def _pool_options(settings: AksPoolPlan, below: str = "") -> pulumi.ResourceOptions:
    """Return the pool's options; its inputs are `below` this path."""
    leaves = _FIXED_LEAVES if below else {}
    fixed = [path for name in FIXED_AT_CREATION for path in leaves.get(name, (name,))]
    return pulumi.ResourceOptions(
        replace_on_changes=[f"{below}{path}" for path in fixed],
        # The provider's Diff asks for deletion first whenever the name was given, even when it changed
        # (pulumi/pulumi-azure-native provider/pkg/provider/provider.go, `Diff`); our names change with whatever forces
        # a replacement, so that the new pool can come first.
        delete_before_replace=False,
        protect=settings.protect or None,
        custom_timeouts=custom_timeouts(settings.create_min, settings.update_min, settings.delete_min),
    )


@dataclass(frozen=True)
class _NodeCount:
    """How an update leaves the number of nodes to the autoscaler."""

    running: int | None = None
    """The number to declare in place of the plan's; None for the plan's own."""
    options: pulumi.ResourceOptions | None = None


def _node_count(
    names: tuple[str, ...],
    settings: AksPoolPlan,
    inputs: JsonObject,
    pool_name: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> _NodeCount:
    """Find out which number of nodes to declare.

    Every update sends the whole pool, `count` with it, and AKS takes none that differs from what runs while it switches
    the autoscaler on (https://github.com/Azure/AKS/issues/1248). Left out, AKS keeps its own
    (https://github.com/kubernetes-sigs/cluster-api-provider-azure/pull/1991), but a new pool needs it, and the state
    would show a change for ever. So what runs is sent, also below a new minimum, which AKS's autoscaler does not
    enforce (https://learn.microsoft.com/azure/aks/cluster-autoscaler), as the Azure CLI does it.
    """
    if not settings.autoscaled:
        return _NodeCount()
    has, there = last_outputs(_AGENT_POOL, names)
    changes = {key: value for key, value in inputs.items() if key not in (*_PLACE, "count")}
    if has is not None and "name" in has and not _contains(has, changes):
        if isinstance(pool_name, str) and pool_name != has["name"]:
            return _NodeCount()
        place = {"agentPoolName": has["name"], **{key: inputs[key] for key in _PLACE}}
        count = invoke(_GET_AGENT_POOL, place, opts.parent, _VERSION).get("count")
        if count is not None:
            return _NodeCount(int(count))

    if settings.adopted is not None and has is None and last_update() is not None:
        # Taken over now: what runs is what it is to have.
        place = {"agentPoolName": settings.adopted.name, **{key: inputs[key] for key in _PLACE}}
        count = invoke(_GET_AGENT_POOL, place, opts.parent, _VERSION).get("count")
        if count is not None:
            return _NodeCount(int(count))

    def sends(new: JsonObject, old: JsonObject) -> int | None:
        return int(new["count"])

    async def runs(new: JsonObject) -> int:
        options = pulumi.InvokeOutputOptions(parent=opts.parent)
        place = (new["agentPoolName"], new["resourceGroupName"], new["resourceName"])
        found = containerservice.get_agent_pool_output(*place, options)
        return int((await found.future()).count)

    ignored = pulumi.ResourceOptions(ignore_changes=["count"])
    return _NodeCount(
        None, pulumi.ResourceOptions.merge(ignored, keep_node_count(names[0], sends, runs) if there else None)
    )


def _contains(has: Any, wanted: Any) -> bool:
    """Return whether the cloud has all wanted values, as far as they are known before the program has run."""
    if isinstance(wanted, pulumi.Output):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(has, Mapping) and all(_contains(has.get(key), value) for key, value in wanted.items())
    return bool(has == wanted)


def _nvidia(settings: AksPoolPlan) -> dict[str, str]:
    """Translate what the SDK's GPU profile has no field for."""
    given = {"managementMode": settings.management_mode, "migStrategy": settings.mig_strategy}
    return {key: value for key, value in given.items() if value is not None}


def _arguments(
    plan: PoolPlan, settings: AksPoolPlan, cluster: Mapping[str, pulumi.Input[Any]]
) -> containerservice.AgentPoolArgs:
    """Translate a plan, all but the pool's name."""
    spot = settings.spot_max_price is not None
    return containerservice.AgentPoolArgs(
        resource_name=cluster["name"],
        resource_group_name=cluster["resource_group"],
        mode="User",
        # Pools of type VirtualMachines take no GPU sizes together with the autoscaler.
        type="VirtualMachineScaleSets",
        vm_size=plan.instance.name,
        enable_auto_scaling=settings.autoscaled,
        # AKS asks for a count even of an autoscaled pool: https://github.com/pulumi/pulumi-azure-native/issues/2943.
        count=plan.min_nodes,
        min_count=plan.min_nodes if settings.autoscaled else None,
        max_count=plan.max_nodes if settings.autoscaled else None,
        # Deallocated nodes still count against the quota and break driver pods when they come back:
        # https://github.com/NVIDIA/gpu-operator/issues/729.
        scale_down_mode="Delete",
        scale_set_priority="Spot" if spot else None,
        # For the same reason evicted nodes are deleted.
        scale_set_eviction_policy="Delete" if spot else None,
        spot_max_price=settings.spot_max_price,
        capacity_reservation_group_id=settings.capacity_reservation_group_id,
        availability_zones=list(settings.availability_zones) or None,
        proximity_placement_group_id=cluster.get("proximity_placement_group_id") if settings.compact else None,
        os_type="Linux",
        os_sku=settings.os_sku,
        # What AKS does unasked is left out here and below, so that nothing changes on pools that never asked.
        enable_fips=settings.fips or None,
        os_disk_size_gb=plan.disk_gib,
        os_disk_type=settings.os_disk_type,
        gpu_profile=containerservice.GPUProfileArgs(driver=settings.gpu_driver),
        gpu_instance_profile=settings.gpu_instance_profile,
        node_taints=[str(taint) for taint in plan.taints],
        node_labels=dict(plan.labels),
        tags={**settings.autoscaler_tags, **settings.tags} or None,
        vnet_subnet_id=cluster.get("subnet_id"),
        enable_node_public_ip=False,
        enable_encryption_at_host=settings.encryption_at_host,
        security_profile=_security(settings),
        upgrade_settings=_upgrades(settings),
    )


def _security(settings: AksPoolPlan) -> containerservice.AgentPoolSecurityProfileArgs | None:
    if settings.ssh_access == "LocalUser" and not settings.secure_boot:
        return None
    return containerservice.AgentPoolSecurityProfileArgs(
        # LocalUser is what AKS does unasked; the property is sent only for the preview feature that needs it.
        ssh_access=settings.ssh_access if settings.ssh_access != "LocalUser" else None,
        enable_secure_boot=settings.secure_boot or None,
        enable_vtpm=settings.secure_boot or None,
    )


def _upgrades(settings: AksPoolPlan) -> containerservice.AgentPoolUpgradeSettingsArgs | None:
    if settings.max_surge is None and settings.max_unavailable is None:
        return None
    return containerservice.AgentPoolUpgradeSettingsArgs(
        max_surge=str(settings.max_surge),
        max_unavailable=str(settings.max_unavailable),
        drain_timeout_in_minutes=settings.drain_timeout_min,
    )


def _pool_name(settings: AksPoolPlan, inputs: JsonObject) -> pulumi.Input[str]:
    """Name the pool after everything that forces its replacement, so that the new one can come before the old goes."""
    if settings.adopted is not None:
        return settings.adopted.name
    nvidia = _nvidia(settings)
    decisive = {
        key: inputs[key] for key in FIXED_AT_CREATION if key in inputs and inputs[key] != _DEFAULTS.get(key)
    } | {"gpuProfile": {"driver": settings.gpu_driver, **nvidia} if nvidia else settings.gpu_driver}

    def named(values: Mapping[str, object]) -> str:
        return replacement_name(settings.first_name, values, limit=POOL_NAME_LIMIT, separator="")

    if any(isinstance(value, pulumi.Output) for value in decisive.values()):
        return pulumi.Output.all(**decisive).apply(named)
    return named(decisive)


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
