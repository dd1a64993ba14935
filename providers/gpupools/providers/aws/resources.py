"""Registers the inputs that a pool declares on EKS: a launch template, a managed node group and its tags."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pulumi
from pulumi.runtime import rpc

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Given, ResourceFactory
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import AdoptedPool
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.aws.cluster import account_of
from gpupools.providers.aws.declared_inputs import NODE_TEMPLATE, declared_inputs
from gpupools.providers.aws.edit_effects import edit_tables
from gpupools.providers.aws.pool_plan import EksPoolPlan
from gpupools.providers.aws.pool_settings import GROUP_PREFIX, NODE_GROUP
from gpupools.providers.previous_state import (
    before_create,
    invoke,
    invoke_async,
    keep_node_count,
    last_outputs,
    last_update,
)
from gpupools.providers.registration import output_of, register, register_provider

_PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
_LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_TAG = "aws:autoscaling/tag:Tag"
_GET_NODE_GROUPS = "aws:eks/getNodeGroups:getNodeGroups"
_GET_NODE_GROUP = "aws:eks/getNodeGroup:getNodeGroup"


def create_provider(name: str, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.ProviderResource:
    """Declare the AWS provider for a cluster's region and account, with the cluster's profile and role.

    Credentials of another account are refused before anything is made. The provider changes in place when these do:
    only a setting marked `ForcesProviderReplace` replaces it (https://github.com/pulumi/pulumi-terraform-bridge
    pkg/tfbridge/provider.go, configDiffer), and that is the region (https://github.com/pulumi/pulumi-aws/pull/4000).
    """
    role, own = cluster["node_role_arn"], cluster.get("account")
    late = partial(_late_account, own, cluster.get("assume_role"))
    account = account_of(role) if isinstance(role, str) else pulumi.Output.from_input(role).apply(late)
    assumed = cluster.get("assume_role")
    inputs = {
        "region": cluster["region"],
        "allowedAccountIds": [account],
        "profile": cluster.get("profile"),
        "assumeRoles": None if assumed is None else [{"roleArn": assumed}],
        # Added by the SDK's class.
        "skipCredentialsValidation": False,
        "skipRegionValidation": True,
    }
    return register_provider("aws", name, inputs, opts, secret_outputs=("accessKey", "secretKey", "token"))


def _late_account(own: Any, assumed: Any, role: Any) -> str:
    """Return the account of a role that only now is known; it may be a secret, so it is not shown.

    Raises (while the program runs):
        pulumi.RunError: It is no role, or one of another account than the file says.
    """
    if role == rpc.UNKNOWN:  # encrypted, in an offline preview
        return rpc.UNKNOWN
    try:
        account = account_of(role)
    except (TypeError, ValueError):
        raise pulumi.RunError("a node_role_arn is no role's ARN; give arn:aws:iam::<account>:role/<name>") from None
    wanted = own or (account if assumed is None else account_of(assumed))
    if account != wanted:
        key = "account" if own else "assume_role"
        raise pulumi.RunError(f"a node_role_arn is of another account than {wanted}, which {key} says; correct one")
    return account


def create_pool(name: str, plan: PoolPlan, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Declare the resources of one pool; return the node group's name.

    Raises:
        TypeError: The plan is for another cloud.
    """
    declared, settings = declared_inputs(plan, cluster, name), plan.settings(EksPoolPlan)
    kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True if settings.protect else None))
    late: dict[str, Any] = {}
    if "PlacementGroup" in declared:
        placement = register(_PLACEMENT_GROUP, f"{name}-placement", declared["PlacementGroup"], kept, outputs=["name"])
        late["placement"] = {"groupName": output_of(placement, "name")}
    if "LaunchTemplate" in declared:
        inputs = _filled(declared["LaunchTemplate"], late)
        template = register(_LAUNCH_TEMPLATE, f"{name}-template", inputs, kept, outputs=["latestVersion"])
        # A number: `$Latest` would differ from what EKS reports at every preview.
        number = output_of(template, "latestVersion").apply(lambda latest: str(latest).removesuffix(".0"))
        late["launchTemplate"] = {"id": template.id, "version": number}
    group = declared["NodeGroup"]
    if group.get("subnetIds") is UNKNOWN:
        late["subnetIds"] = _late_subnets(cluster, settings)
    desired, autoscaled = _desired_size(name, plan, settings, cluster["region"], opts)
    inputs = {**_filled(group, late), "scalingConfig": {**group["scalingConfig"], "desiredSize": desired}}
    beside = _orphan_check(name, plan, opts) if settings.adopted is None else _import_options(settings.adopted, inputs)
    minutes = (settings.create_timeout_minutes, settings.update_timeout_minutes, settings.delete_timeout_minutes)
    options = pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(kept, autoscaled), beside)
    options = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(custom_timeouts=custom_timeouts(*minutes)))
    made = register(_NODE_GROUP, f"{name}-nodes", inputs, options, outputs=["nodeGroupName", "resources"])
    scaling_group = output_of(made, "resources").apply(_autoscaling_group)
    for key, value in declared["Tag"].items():
        tag = {"key": key, "value": value, "propagateAtLaunch": False}
        inputs = {"autoscalingGroupName": scaling_group, "tag": tag, "region": cluster["region"]}
        register(_TAG, f"{name}-{key.removeprefix(f'{NODE_TEMPLATE}/')}", inputs, opts)
    return output_of(made, "nodeGroupName")


def _filled(inputs: Any, late: Any) -> Any:
    """Return inputs with outputs in place of `UNKNOWN`."""
    if isinstance(inputs, Mapping) and isinstance(late, Mapping):
        return {key: _filled(value, late.get(key)) for key, value in inputs.items()}
    return late if inputs is UNKNOWN else inputs


def _late_subnets(cluster: Given, settings: EksPoolPlan) -> pulumi.Output[list[str]]:
    by_zone: Any = cluster["subnets_by_zone"]
    lists = pulumi.Output.all(*(by_zone[zone] for zone in settings.zones or sorted(by_zone)))
    return lists.apply(lambda subnets: list(chain.from_iterable(subnets)))


def _import_options(adopted: AdoptedPool, declared: JsonObject) -> pulumi.ResourceOptions | None:
    """Return the options that import a node group, without its launch template, which gpupools does not manage."""
    own = [path.removeprefix(GROUP_PREFIX) for path in edit_tables().inputs if path.startswith(GROUP_PREFIX)]
    own += ["diskSize", "remoteAccess", "warmPoolConfig"]  # which nobody may set
    kept = tuple(path.removeprefix(GROUP_PREFIX) for path in adopted.kept)
    return import_options(adopted._replace(kept=kept), declared, own, NODE_GROUP.inputs)


def _desired_size(
    name: str, plan: PoolPlan, settings: EksPoolPlan, region: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> tuple[int, pulumi.ResourceOptions]:
    """Return the number of nodes to declare, and the options that leave it to the autoscaler.

    The provider wants a number, and sends the whole scaling configuration when any part of it changes
    (https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go). So a change of
    minimum or maximum takes the number that runs along; EKS wants it between the two. Otherwise nothing is sent.
    """
    if plan.min_nodes == plan.max_nodes:
        return plan.min_nodes, pulumi.ResourceOptions()
    former = name.removesuffix(plan.name) + settings.first_name
    has, there = last_outputs(_NODE_GROUP, (f"{name}-nodes", f"{former}-nodes"))
    ends = {"minSize": plan.min_nodes, "maxSize": plan.max_nodes}
    if has is not None and not _same_bounds(ends, has["scalingConfig"]):
        place = {"region": region, **{key: has[key] for key in ("clusterName", "nodeGroupName")}}
        group = invoke(_GET_NODE_GROUP, place, opts.parent)
        if group:
            return _within_bounds(plan, int(group["scalingConfigs"][0]["desiredSize"])), pulumi.ResourceOptions()

    def sends(new: JsonObject, old: JsonObject) -> int | None:
        # The provider leaves an ignored path as it was read last (pulumi/pulumi-terraform-bridge
        # pkg/tfshim/sdk-v2/provider2.go, processIgnoreChanges).
        return None if _same_bounds(new["scalingConfig"], old["scalingConfig"]) else old["scalingConfig"]["desiredSize"]

    async def runs(new: JsonObject) -> int:
        place = {key: new[key] for key in ("clusterName", "nodeGroupName", "region")}
        group = await invoke_async(_GET_NODE_GROUP, place, opts.parent)
        return _within_bounds(plan, int(group["scalingConfigs"][0]["desiredSize"]))

    # Nested paths are taken in wire form only.
    ignored = pulumi.ResourceOptions(ignore_changes=["scalingConfig.desiredSize"])
    guard = keep_node_count(f"{name}-nodes", sends, runs) if there else None
    return plan.min_nodes, pulumi.ResourceOptions.merge(ignored, guard)


def _orphan_check(name: str, plan: PoolPlan, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions | None:
    """Return options that reject a new node group while an orphaned one of the same pool exists.

    EKS has no name to refuse, since every attempt makes one up: docs/explanation/architecture.md#decisions.
    """
    try:
        if last_update() is None:
            return None
    except Exception:  # the SDK raises nothing narrower; the program has told that the state cannot be read
        return None

    return pulumi.ResourceOptions(hooks=before_create(name, partial(_reject_orphan, name, plan.name, opts.parent)))


async def _reject_orphan(name: str, pool: str, parent: pulumi.Resource | None, args: pulumi.ResourceHookArgs) -> None:
    new, left = args.new_inputs or {}, []
    cluster, place = new["clusterName"], {key: new[key] for key in ("clusterName", "region")}
    if isinstance(cluster, pulumi.Output):  # a secret, which no message may show
        pulumi.log.warn(f"{name}-nodes: could not check for an orphaned node group: the cluster's name is a secret")
        return
    try:
        state = (last_update() or {}).values()
        outputs = [item.get("outputs") or {} for item in state if item.get("type") == _NODE_GROUP]
        has = {str(output.get("nodeGroupName")) for output in outputs}
        for group_name in (await invoke_async(_GET_NODE_GROUPS, place, parent))["names"]:
            if group_name.startswith(f"{name}-nodes-") and group_name not in has:
                group = await invoke_async(_GET_NODE_GROUP, {**place, "nodeGroupName": group_name}, parent)
                if (group.get("tags") or {}).get("gpupools:pool") == pool:
                    left.append(group_name)
    except Exception as error:  # no permission, for one; the SDK raises nothing narrower
        pulumi.log.warn(f"{name}-nodes: could not check for an orphaned node group: {error}")
    if left:
        what = f"{name}-nodes: EKS has {', '.join(left)} of this pool in {cluster}, but the state does not"
        fix = "import or delete it, as gpupools leftovers shows (docs/how-to/recover.md), or rename this pool"
        raise pulumi.RunError(f"{what}: an interrupted update left it, or another stack owns it; {fix}")


def _same_bounds(one: JsonObject, other: JsonObject) -> bool:
    return all(one[end] == other[end] for end in ("minSize", "maxSize"))


def _within_bounds(plan: PoolPlan, running: int) -> int:
    return min(max(running, plan.min_nodes), plan.max_nodes)


def _autoscaling_group(resources: Sequence[Any] | None) -> str:
    """Name the group behind a node group; empty from an engine that stands in and creates none."""
    if not resources:
        return ""
    return str(resources[0]["autoscalingGroups"][0]["name"])


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
