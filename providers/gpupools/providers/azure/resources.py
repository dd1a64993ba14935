"""Registers the resource of a plan on AKS, with the inputs of `declared_inputs`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Given, ResourceFactory
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.azure.declared_inputs import decisive_inputs, declared_inputs, pool_name
from gpupools.providers.azure.edit_effects import FIXED_AT_CREATION, edit_tables
from gpupools.providers.azure.pool_plan import AksPoolPlan
from gpupools.providers.azure.pool_settings import OVERRIDABLE
from gpupools.providers.previous_state import invoke, invoke_async, keep_node_count, last_outputs, last_update
from gpupools.providers.registration import register, register_provider

_AGENT_POOL = "azure-native:containerservice:AgentPool"
_GET_AGENT_POOL = "azure-native:containerservice:getAgentPool"

_ADDRESS = ("agentPoolName", "resourceName", "resourceGroupName")
"""Inputs that say which pool it is, and in which cluster."""

_FIXED_LEAVES = {
    "gpuProfile": ("gpuProfile.driver", "gpuProfile.nvidia.managementMode", "gpuProfile.nvidia.migStrategy")
}
"""What AKS never changes below a property of `FIXED_AT_CREATION`, where the API's version is not the SDK's.

Another version may report more there (`gpuProfile.driverType`), and what a refresh takes over must not replace a pool.
"""


def create_provider(name: str, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.ProviderResource:
    """Declare the provider for one cluster's subscription and tenant, by default those of the credentials."""
    place = {"subscriptionId": cluster.get("subscription_id"), "tenantId": cluster.get("tenant_id")}
    return register_provider("azure-native", name, {"environment": "public", **place}, opts)  # as the SDK's class does


def create_pool(name: str, plan: PoolPlan, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Declare the agent pool of a plan; return its name in AKS.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings = plan.settings(AksPoolPlan)
    cluster = _check_subscription(cluster, opts)
    inputs = declared_inputs(plan, cluster)["AgentPool"]
    token, name_key, below, properties = _AGENT_POOL, "agentPoolName", "", inputs
    if "properties" in inputs:
        token, name_key, below = "azure-native:resources:Resource", "resourceName", "properties."
        properties = inputs["properties"]
        if inputs["parentResourcePath"] is UNKNOWN:
            inputs["parentResourcePath"] = pulumi.Output.concat("managedClusters/", cluster["name"])
    if inputs[name_key] is UNKNOWN:
        decisive = pulumi.Output.all(**decisive_inputs(plan, properties))
        inputs[name_key] = decisive.apply(lambda known: pool_name(plan, known))
    own_name, own = inputs[name_key], _pool_options(settings, below)
    former = name.removesuffix(plan.name) + settings.first_name
    if not below:
        running, count_options = _node_count((f"{name}-pool", f"{former}-pool"), settings, inputs, opts)
        if running is not None:
            inputs["count"] = running
        # With nothing set by hand, what is left out inside these two is not to stay as it was made.
        whole = [] if plan.overrides else [key for key in ("securityProfile", "upgradeSettings") if key in inputs]
        adopted = import_options(settings.adopted, inputs, edit_tables().inputs, OVERRIDABLE["AgentPool"].inputs, whole)
        opts = pulumi.ResourceOptions.merge(opts, count_options)
        own = pulumi.ResourceOptions.merge(own, adopted)
    pool = register(token, f"{name}-pool", inputs, pulumi.ResourceOptions.merge(opts, own))
    # Through the URN, so that the name is known at preview and whoever uses it still waits for the pool.
    return pool.urn.apply(lambda _: own_name)


def _check_subscription(cluster: Given, opts: pulumi.ResourceOptions) -> Given:
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


def _node_count(
    names: tuple[str, ...], settings: AksPoolPlan, inputs: JsonObject, opts: pulumi.ResourceOptions
) -> tuple[int | None, pulumi.ResourceOptions | None]:
    """Return the number of running nodes to declare in place of the plan's, or how else an autoscaler keeps its own.

    Every update sends the whole pool, `count` with it, and AKS takes none that differs from what runs while it switches
    the autoscaler on (https://github.com/Azure/AKS/issues/1248). Left out, AKS keeps its own
    (https://github.com/kubernetes-sigs/cluster-api-provider-azure/pull/1991), but a new pool needs it, and the state
    would show a change for ever. So what runs is sent, also below a new minimum, which AKS's autoscaler does not
    enforce (https://learn.microsoft.com/azure/aks/cluster-autoscaler), as the Azure CLI does it.
    """
    if not settings.autoscaled:
        return None, None
    has, there = last_outputs(_AGENT_POOL, names)
    changes = {key: value for key, value in inputs.items() if key not in (*_ADDRESS, "count")}
    pool, own_name = None, inputs["agentPoolName"]
    if has is not None and "name" in has and not _contains(has, changes):
        if isinstance(own_name, str) and own_name != has["name"]:
            return None, None
        pool = has["name"]
    elif settings.adopted is not None and has is None and last_update() is not None:
        pool = settings.adopted.name  # taken over now: what runs is what it is to have
    if pool is not None:
        address = {key: inputs[key] for key in _ADDRESS} | {"agentPoolName": pool}
        count = invoke(_GET_AGENT_POOL, address, opts.parent).get("count")
        if count is not None:
            return int(count), None

    def sends(new: JsonObject, old: JsonObject) -> int | None:
        return int(new["count"])

    async def runs(new: JsonObject) -> int:
        address = {key: new[key] for key in _ADDRESS}
        found = await invoke_async(_GET_AGENT_POOL, address, opts.parent)
        return int(found["count"])

    ignored = pulumi.ResourceOptions(ignore_changes=["count"])
    return None, pulumi.ResourceOptions.merge(ignored, keep_node_count(names[0], sends, runs) if there else None)


def _contains(has: Any, wanted: Any) -> bool:
    """Return whether the cloud has all wanted values, as far as they are known before the program has run."""
    if isinstance(wanted, pulumi.Output):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(has, Mapping) and all(_contains(has.get(key), value) for key, value in wanted.items())
    return bool(has == wanted)


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
