"""Declares a planned pool on EKS: a launch template, a managed node group and the tags that let it scale from zero.

Translates only: which image, disks and settings a pool gets is decided in `pool_plan.py`.
"""

import base64
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import chain
from typing import Any, TypeVar

import pulumi
import pulumi_aws as aws
from pulumi.runtime.rpc import UNKNOWN

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.cloud import ResourceFactory
from gpupools.plan.edit_tables import EditTables
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.apply_overrides import python_arguments, wire_inputs
from gpupools.providers.aws.cluster import account_of
from gpupools.providers.aws.edit_effects import edit_tables
from gpupools.providers.aws.pool_plan import EksPoolPlan, Interface, Volume
from gpupools.providers.aws.pool_settings import GROUP_PREFIX, NODE_GROUP
from gpupools.providers.aws.reserved import EFFECTS
from gpupools.providers.previous_state import (
    before_create,
    invoke,
    invoke_async,
    keep_node_count,
    last_outputs,
    last_update,
)

with warnings.catch_warnings():
    # The SDK warns of a renamed resource of its own (EncryptionControl) when the module is first touched.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pulumi_aws.ec2 import LaunchTemplate

_EFFECT_NAMES = {effect: name for name, effect in EFFECTS.items()}

_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_GET_NODE_GROUPS = "aws:eks/getNodeGroups:getNodeGroups"
_GET_NODE_GROUP = "aws:eks/getNodeGroup:getNodeGroup"
_VERSION = version("pulumi_aws")

_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
"""Prefix of the tags from which cluster-autoscaler learns what an empty group's nodes would be.

https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md
"""


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the AWS provider for a cluster's region and account, with the cluster's profile and role.

    Credentials of another account are refused before anything is made. The provider changes in place when these do:
    only a setting marked `ForcesProviderReplace` replaces it (https://github.com/pulumi/pulumi-terraform-bridge
    pkg/tfbridge/provider.go, configDiffer), and that is the region (https://github.com/pulumi/pulumi-aws/pull/4000).
    """
    role, own = cluster["node_role_arn"], cluster.get("account")
    late = partial(_late_account, own, cluster.get("assume_role"))
    account = account_of(role) if isinstance(role, str) else pulumi.Output.from_input(role).apply(late)
    assumed = cluster.get("assume_role")
    return aws.Provider(
        name,
        region=cluster["region"],
        allowed_account_ids=[account],
        profile=cluster.get("profile"),
        assume_roles=None if assumed is None else [aws.ProviderAssumeRoleArgs(role_arn=assumed)],
        opts=opts,
    )


def _late_account(own: Any, assumed: Any, role: Any) -> str:
    """Return the account of a role that only now is known; it may be a secret, so it is not shown.

    Raises (while the program runs):
        pulumi.RunError: It is no role, or one of another account than the file says.
    """
    if role == UNKNOWN:  # encrypted, in an offline preview
        return UNKNOWN
    try:
        account = account_of(role)
    except (TypeError, ValueError):
        raise pulumi.RunError("a node_role_arn is no role's ARN; give arn:aws:iam::<account>:role/<name>") from None
    wanted = own or (account if assumed is None else account_of(assumed))
    if account != wanted:
        key = "account" if own else "assume_role"
        raise pulumi.RunError(f"a node_role_arn is of another account than {wanted}, which {key} says; correct one")
    return account


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the resources of one pool; return the node group's name.

    Raises:
        TypeError: The plan is for another cloud.
    """
    settings = plan.provider_plan
    if not isinstance(settings, EksPoolPlan):
        raise TypeError(f"the plan of pool {plan.name!r} is for {plan.cloud}, not for aws")
    kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True if settings.protect else None))
    tags = {**settings.tags, "gpupools:cluster": cluster["name"], "gpupools:pool": plan.name}
    launch_template = _template_reference(name, plan, settings, cluster, kept)
    desired, autoscaled = _desired_size(name, plan, settings, cluster["region"], opts)
    inputs = {
        **_region_input(cluster),
        "clusterName": cluster["name"],
        "nodeGroupName": settings.adopted.name if settings.adopted is not None else None,
        "nodeRoleArn": cluster["node_role_arn"],
        "subnetIds": _subnets(cluster, settings.zones),
        "amiType": settings.ami_type or None,
        "capacityType": settings.capacity_type,
        # EKS wants the type of a Capacity Block in the launch template, and takes it in one place only.
        # https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
        "instanceTypes": None if settings.is_capacity_block else [plan.instance.name],
        "launchTemplate": launch_template,
        "scalingConfig": {"minSize": plan.min_nodes, "desiredSize": desired, "maxSize": plan.max_nodes},
        "labels": dict(plan.labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": _EFFECT_NAMES[taint.effect]}
            for taint in plan.node_taints
        ],
        # MINIMAL stops the old node before it starts the new one: a spare GPU node is often not to be had.
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
        "updateConfig": {"maxUnavailable": settings.max_unavailable, "updateStrategy": "MINIMAL"},
        "nodeRepairConfig": {"enabled": settings.auto_repair},
        "tags": tags,
    }
    beside = _orphan_check(name, plan, opts) if settings.adopted is None else _import_options(settings, inputs)
    options = pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(kept, autoscaled), beside)
    limits = custom_timeouts(
        settings.create_timeout_minutes, settings.update_timeout_minutes, settings.delete_timeout_minutes
    )
    group = _declare(
        aws.eks.NodeGroup,
        aws.eks.NodeGroupArgs,
        f"{name}-nodes",
        inputs,
        settings,
        pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(custom_timeouts=limits)),
    )
    scaling_group = group.resources.apply(_autoscaling_group)
    for key, value in _scale_from_zero(plan, settings).items():
        aws.autoscaling.Tag(
            f"{name}-{key.removeprefix(f'{_TEMPLATE}/')}",
            autoscaling_group_name=scaling_group,
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
            **_region_input(cluster),
            opts=opts,
        )
    return group.node_group_name


def _import_options(settings: EksPoolPlan, declared: JsonObject) -> pulumi.ResourceOptions | None:
    """Return the options that import a node group, without its launch template, which gpupools does not manage."""
    if settings.adopted is None:
        return None
    own = {
        path.removeprefix(GROUP_PREFIX): edit
        for path, edit in edit_tables().inputs.items()
        if path.startswith(GROUP_PREFIX)
    }
    kept = tuple(path.removeprefix(GROUP_PREFIX) for path in settings.adopted.kept)
    return import_options(
        settings.adopted._replace(kept=kept),
        wire_inputs(declared, settings.overrides.get("NodeGroup", {})),
        EditTables((), own),
        NODE_GROUP.inputs,
        beside=("diskSize", "remoteAccess", "warmPoolConfig"),
    )


def _template_reference(
    name: str,
    plan: PoolPlan,
    settings: EksPoolPlan,
    cluster: Mapping[str, pulumi.Input[Any]],
    opts: pulumi.ResourceOptions,
) -> dict[str, pulumi.Input[str]] | None:
    """Return id and version of the launch template; None for an adopted group without one of its own."""
    if settings.adopted is not None:
        theirs = settings.template_id
        return None if theirs is None else {"id": theirs, "version": str(settings.template_version)}
    template = _launch_template(name, plan, settings, cluster, opts)
    # A number: `$Latest` would differ from what EKS reports at every preview.
    return {"id": template.id, "version": template.latest_version.apply(str)}


def _region_input(cluster: Mapping[str, pulumi.Input[Any]]) -> JsonDict:
    """Return the region as every resource takes it: the provider of a program of one's own may have another one.

    The provider's own region, written out, changes nothing
    (https://hashicorp.github.io/terraform-provider-aws/enhanced-region-support).
    """
    return {"region": cluster["region"]}


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
        group = invoke(_GET_NODE_GROUP, place, opts.parent, _VERSION)
        if group:
            return _within_bounds(plan, int(group["scalingConfigs"][0]["desiredSize"])), pulumi.ResourceOptions()

    def sends(new: JsonObject, old: JsonObject) -> int | None:
        # The provider leaves an ignored path as it was read last (pulumi/pulumi-terraform-bridge
        # pkg/tfshim/sdk-v2/provider2.go, processIgnoreChanges).
        return None if _same_bounds(new["scalingConfig"], old["scalingConfig"]) else old["scalingConfig"]["desiredSize"]

    async def runs(new: JsonObject) -> int:
        options = pulumi.InvokeOutputOptions(parent=opts.parent)
        group = aws.eks.get_node_group_output(new["clusterName"], new["nodeGroupName"], new["region"], opts=options)
        return _within_bounds(plan, (await group.future()).scaling_configs[0].desired_size)

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
    try:
        has = _node_group_names()
        for each in (await invoke_async(_GET_NODE_GROUPS, place, parent, _VERSION))["names"]:
            if each.startswith(f"{name}-nodes-") and each not in has:
                group = await invoke_async(_GET_NODE_GROUP, {**place, "nodeGroupName": each}, parent, _VERSION)
                if (group.get("tags") or {}).get("gpupools:pool") == pool:
                    left.append(each)
    except Exception as error:  # no permission, for one; the SDK raises nothing narrower
        pulumi.log.warn(f"{name}-nodes: could not check for an orphaned node group: {error}")
    if left:
        what = f"{name}-nodes: EKS has {', '.join(left)} of this pool in {cluster}, but the state does not"
        fix = "import or delete it, as gpupools leftovers shows (docs/how-to/recover.md), or rename this pool"
        raise pulumi.RunError(f"{what}: an interrupted update left it, or another stack owns it; {fix}")


def _node_group_names() -> set[str]:
    """Return the names of the node groups in the state."""
    state = last_update() or {}
    ours = [each.get("outputs") or {} for each in state.values() if each.get("type") == _NODE_GROUP]
    return {str(each.get("nodeGroupName")) for each in ours}


def _same_bounds(one: JsonObject, other: JsonObject) -> bool:
    return all(one[end] == other[end] for end in ("minSize", "maxSize"))


def _within_bounds(plan: PoolPlan, running: int) -> int:
    return min(max(running, plan.min_nodes), plan.max_nodes)


RESOURCE = TypeVar("RESOURCE", bound=pulumi.CustomResource)


def _declare(
    kind: type[RESOURCE],
    args: type,
    name: str,
    inputs: JsonObject,
    settings: EksPoolPlan,
    opts: pulumi.ResourceOptions,
) -> RESOURCE:
    """Declare a resource from its inputs by wire name, merged with overrides; None means left out."""
    merged = wire_inputs(inputs, settings.overrides.get(kind.__name__, {}))
    return kind(name, opts=opts, **python_arguments(args, merged))


def _subnets(cluster: Mapping[str, pulumi.Input[Any]], zones: Sequence[str]) -> pulumi.Input[Any]:
    by_zone: Any = cluster.get("subnets_by_zone")
    if by_zone is None:
        return cluster["subnet_ids"]
    lists = pulumi.Output.all(*(by_zone[zone] for zone in zones or sorted(by_zone)))
    return lists.apply(lambda each: list(chain.from_iterable(each)))


def _launch_template(
    name: str,
    plan: PoolPlan,
    settings: EksPoolPlan,
    cluster: Mapping[str, pulumi.Input[Any]],
    opts: pulumi.ResourceOptions,
) -> LaunchTemplate:
    """Declare the launch template, and the placement group it names.

    Instance type (but see Capacity Blocks), subnets, disk size and remote access stay out: EKS refuses what is set in
    both places, and a key pair without security groups would open port 22 to the world.
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    # A renamed pool keeps the tags of its machines: any other text here would replace every node.
    first = settings.first_name
    stem = f"{name.removesuffix(plan.name)}{first}" if name.endswith(plan.name) else name
    tags = {**settings.tags, "gpupools:cluster": cluster["name"], "gpupools:pool": first}
    placement = None
    if settings.placement_group:
        group = _declare(
            aws.ec2.PlacementGroup,
            aws.ec2.PlacementGroupArgs,
            f"{name}-placement",
            {**_region_input(cluster), "strategy": "cluster", "tags": {"Name": stem, **tags}},
            settings,
            opts,
        )
        placement = {"groupName": group.name}
    inputs = {
        **_region_input(cluster),
        "description": f"Nodes of the GPU pool {stem}",
        "imageId": settings.image_id,
        "instanceType": plan.instance.name if settings.is_capacity_block else None,
        "instanceMarketOptions": {"marketType": "capacity-block"} if settings.is_capacity_block else None,
        "capacityReservationSpecification": _reservation(settings),
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            # With 1, pods are one hop too far away to get credentials of the node.
            # https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
            "httpPutResponseHopLimit": settings.imds_hop_limit,
        },
        "blockDeviceMappings": [_block_device(volume) for volume in settings.volumes] or None,
        "networkInterfaces": [_interface(each, settings) for each in settings.interfaces] or None,
        # EC2 takes security groups of the machine or of its interfaces, not of both.
        "vpcSecurityGroupIds": None if settings.interfaces else list(settings.security_group_ids) or None,
        "placement": placement,
        "userData": base64.b64encode(settings.user_data.encode()).decode() if settings.user_data else None,
        # The node group's own tags reach neither instances nor volumes.
        "tagSpecifications": [
            {"resourceType": kind, "tags": {"Name": stem, **tags}}
            for kind in ("instance", "volume", "network-interface")
        ],
        "tags": tags,
    }
    return _declare(LaunchTemplate, aws.ec2.LaunchTemplateArgs, f"{name}-template", inputs, settings, opts)


def _reservation(settings: EksPoolPlan) -> JsonDict | None:
    if settings.reservation_group_arn is not None:
        return {"capacityReservationTarget": {"capacityReservationResourceGroupArn": settings.reservation_group_arn}}
    if settings.reservation_id is not None:
        return {"capacityReservationTarget": {"capacityReservationId": settings.reservation_id}}
    return None


def _block_device(volume: Volume) -> JsonDict:
    ebs = {
        "encrypted": "true",
        "volumeType": volume.type,
        "volumeSize": volume.gib,
        "iops": volume.iops,
        "kmsKeyId": volume.kms_key,
        "deleteOnTermination": "true",
    }
    return {"deviceName": volume.device, "ebs": ebs}


def _interface(interface: Interface, settings: EksPoolPlan) -> JsonDict:
    return {
        "networkCardIndex": interface.card,
        "deviceIndex": interface.device,
        "interfaceType": interface.type,
        "securityGroups": list(settings.security_group_ids),
        "associatePublicIpAddress": "false",
        "deleteOnTermination": "true",
    }


def _scale_from_zero(plan: PoolPlan, settings: EksPoolPlan) -> dict[str, str]:
    """Return the tags that describe a node of the pool; taints in Kubernetes' own spelling."""
    if not settings.autoscaled:
        return {}
    # The autoscaler counts the GPUs of the instance type unless a tag says otherwise; sliced ones may all go by
    # another name. kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/aws_manager.go, buildNodeFromTemplate.
    offered = {GPU_RESOURCE: 0, **plan.node_resources}
    labels = {**plan.labels, **settings.node_labels}
    resources = {**{name: str(count) for name, count in offered.items()}, **settings.node_resources}
    return {
        **{f"{_TEMPLATE}/label/{key}": value for key, value in labels.items()},
        **{f"{_TEMPLATE}/taint/{taint.key}": f"{taint.value}:{taint.effect.value}" for taint in plan.taints},
        **{f"{_TEMPLATE}/resources/{resource}": count for resource, count in resources.items()},
    }


def _autoscaling_group(resources: Sequence[Any] | None) -> str:
    """Name the group behind a node group; empty from an engine that stands in and creates none."""
    if not resources:
        return ""
    return str(resources[0].autoscaling_groups[0].name)


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
