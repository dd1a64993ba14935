"""Declares a planned pool on EKS: a launch template, a managed node group and the tags that let it scale from zero.

Translates only: which image, disks and settings a pool gets is decided in `providers/aws/settings.py`.
"""

import base64
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpupools.plan import PoolPlan
from gpupools.taints import Taint
from providers.aws import EFFECTS
from providers.aws.settings import EksSettings

with warnings.catch_warnings():
    # The SDK warns of a renamed resource of its own (EncryptionControl) when the module is first touched.
    warnings.simplefilter("ignore", DeprecationWarning)
    LaunchTemplate = aws.ec2.LaunchTemplate

_EFFECT_NAMES = {effect: name for name, effect in EFFECTS.items()}

_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
"""Prefix of the tags from which cluster-autoscaler learns what an empty group's nodes would be.

https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md
"""


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the AWS provider for a cluster's region; credentials come from the environment."""
    return aws.Provider(name, region=cluster["region"], opts=opts)


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the resources of one pool; returns the node group's name.

    Args:
        name: Prefix of every resource's name.
        plan: The pool, planned for EKS.
        cluster: The keys of `EksCluster`.
        opts: Go to every resource: parent and provider.

    Raises:
        TypeError: The plan is for another cloud.
    """
    if not isinstance(plan.settings, EksSettings):
        raise TypeError(f"the plan of pool {plan.name!r} is for {plan.cloud}, not for aws")
    tags: dict[str, pulumi.Input[str]] = {"gpupools:cluster": cluster["name"], "gpupools:pool": plan.name}
    template = _launch_template(name, plan.settings, tags, opts)
    group = aws.eks.NodeGroup(
        f"{name}-nodes",
        cluster_name=cluster["name"],
        node_role_arn=cluster["node_role_arn"],
        subnet_ids=cluster["subnet_ids"],
        ami_type=plan.settings.ami_type,
        instance_types=[plan.instance.name],
        launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
            id=template.id,
            # A number: `$Latest` would differ from what EKS reports at every preview.
            version=template.latest_version.apply(str),
        ),
        scaling_config=aws.eks.NodeGroupScalingConfigArgs(
            min_size=plan.min_nodes, desired_size=plan.min_nodes, max_size=plan.max_nodes
        ),
        labels=dict(plan.labels),
        taints=[
            aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=_EFFECT_NAMES[taint.effect])
            for taint in plan.taints
        ],
        # MINIMAL stops the old node before it starts the new one: a spare GPU node is often not to be had.
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
        update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
        node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
        tags=tags,
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                # Between min and max the autoscaler owns the number of nodes. A min above the desired size of the state
                # is refused at `up` (https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3306): scale the
                # group up first. Nested paths are taken in wire form only.
                ignore_changes=["scalingConfig.desiredSize"] if plan.min_nodes < plan.max_nodes else None,
                custom_timeouts=pulumi.CustomTimeouts(
                    create="60m", update=f"{plan.settings.update_timeout_minutes}m", delete="90m"
                ),
            ),
        ),
    )
    scaling_group = group.resources.apply(_autoscaling_group)
    for key, value in _scale_from_zero(plan).items():
        aws.autoscaling.Tag(
            f"{name}-{key.removeprefix(f'{_TEMPLATE}/')}",
            autoscaling_group_name=scaling_group,
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
            opts=opts,
        )
    return group.node_group_name


def _launch_template(
    name: str, settings: EksSettings, tags: Mapping[str, pulumi.Input[str]], opts: pulumi.ResourceOptions
) -> LaunchTemplate:
    # Instance type, subnets, disk size and remote access stay out: EKS refuses what is set in both places, and a key
    # pair without security groups would open port 22 to the world.
    # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    return LaunchTemplate(
        f"{name}-template",
        description=f"Nodes of the GPU pool {name}",
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            # Pods are one hop away: they get no credentials of the node.
            # https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
            http_put_response_hop_limit=1,
        ),
        block_device_mappings=[
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name=volume.device,
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    encrypted="true", volume_type="gp3", volume_size=volume.gib, delete_on_termination="true"
                ),
            )
            for volume in settings.volumes
        ],
        user_data=base64.b64encode(settings.user_data.encode()).decode() if settings.user_data else None,
        # The node group's own tags reach neither instances nor volumes.
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags={"Name": name, **tags})
            for kind in ("instance", "volume", "network-interface")
        ],
        tags=tags,
        opts=opts,
    )


def _scale_from_zero(plan: PoolPlan) -> dict[str, str]:
    """Return the tags that describe a node of the pool; taints in Kubernetes' own spelling."""
    return {
        **{f"{_TEMPLATE}/label/{key}": value for key, value in plan.labels.items()},
        **{f"{_TEMPLATE}/taint/{taint.key}": _taint_value(taint) for taint in plan.taints},
        **{f"{_TEMPLATE}/resources/{resource}": str(count) for resource, count in plan.capacity.items()},
    }


def _taint_value(taint: Taint) -> str:
    return f"{taint.value}:{taint.effect.value}"


def _autoscaling_group(resources: Sequence[Any] | None) -> str:
    """Name the group behind a node group; empty from an engine that stands in and creates none."""
    if not resources:
        return ""
    return str(resources[0].autoscaling_groups[0].name)
