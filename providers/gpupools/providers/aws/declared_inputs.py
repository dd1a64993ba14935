"""The inputs that a pool declares on EKS: a launch template, a managed node group, and tags to scale from zero. Pure.

Translates only: which image, disks and settings a pool gets is decided in `pool_plan.py`.
"""

import base64
from collections.abc import Sequence
from itertools import chain
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.aws.pool_plan import EksPoolPlan, Interface, Volume
from gpupools.providers.aws.pool_settings import OVERRIDABLE
from gpupools.spec.overrides import without_none

NODE_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
"""Prefix of the tags from which cluster-autoscaler learns what an empty group's nodes would be.

https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md
"""


def declared_inputs(plan: PoolPlan, cluster: JsonObject, name: str = "") -> dict[str, JsonDict]:
    """Return the inputs of a pool's resources by wire name, merged with overrides; of all tags key to value, as `Tag`.

    What another resource or a late subnet list decides is `UNKNOWN`; the other values of the cluster pass through.

    Args:
        plan: The planned pool.
        cluster: The keys of its cluster; values may be late.
        name: Name of the pool's component; left out: its name in a stack file's program.

    Raises:
        TypeError: The plan is for another cloud.
    """
    settings, name = plan.settings(EksPoolPlan), name or f"{plan.cluster}-{plan.name}"
    # The provider of a program of one's own may have another region; its own, written out, changes nothing
    # (https://hashicorp.github.io/terraform-provider-aws/enhanced-region-support).
    region = {"region": cluster["region"]}
    tags = {**settings.tags, "gpupools:cluster": cluster["name"], "gpupools:pool": plan.name}
    inputs: dict[str, JsonDict] = {}
    if settings.adopted is None:
        # A renamed pool keeps the tags of its machines: any other text here would replace every node.
        first = settings.first_name
        stem = f"{name.removesuffix(plan.name)}{first}" if name.endswith(plan.name) else name
        own = {**tags, "gpupools:pool": first}
        if settings.placement_group:
            inputs["PlacementGroup"] = {**region, "strategy": "cluster", "tags": {"Name": stem, **own}}
        inputs["LaunchTemplate"] = {**region, **_launch_template(plan, settings, stem, own)}
    inputs["NodeGroup"] = {**region, **_node_group(plan, settings, cluster), "tags": tags}
    merged = {
        kind: OVERRIDABLE[kind].merge(value, settings.key_values, settings.overrides.get(kind, {}))
        for kind, value in inputs.items()
    }
    return {**without_none(merged), "Tag": _scale_from_zero(plan, settings)}


def _node_group(plan: PoolPlan, settings: EksPoolPlan, cluster: JsonObject) -> JsonDict:
    template, version = settings.template_id, str(settings.template_version)
    theirs = {"id": template, "version": version} if template is not None else None  # of an adopted group
    return {
        "clusterName": cluster["name"],
        "nodeGroupName": settings.adopted.name if settings.adopted is not None else None,
        "nodeRoleArn": cluster["node_role_arn"],
        "subnetIds": _subnets(cluster, settings.zones),
        "amiType": settings.ami_type or None,
        "capacityType": settings.capacity_type,
        # EKS wants the type of a Capacity Block in the launch template, and takes it in one place only.
        # https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
        "instanceTypes": None if settings.is_capacity_block else [plan.instance.name],
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN} if settings.adopted is None else theirs,
        "scalingConfig": {"minSize": plan.min_nodes, "desiredSize": plan.min_nodes, "maxSize": plan.max_nodes},
        "labels": dict(plan.labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect.name} for taint in plan.node_taints],
        # MINIMAL stops the old node before it starts the new one: a spare GPU node is often not to be had.
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
        "updateConfig": {"maxUnavailable": settings.max_unavailable, "updateStrategy": "MINIMAL"},
        "nodeRepairConfig": {"enabled": settings.auto_repair},
    }


def _subnets(cluster: JsonObject, zones: Sequence[str]) -> Any:
    by_zone = cluster.get("subnets_by_zone")
    if by_zone is None:
        return cluster["subnet_ids"]
    lists = [by_zone[zone] for zone in zones or sorted(by_zone)]
    return list(chain.from_iterable(lists)) if all(isinstance(item, list | tuple) for item in lists) else UNKNOWN


def _launch_template(plan: PoolPlan, settings: EksPoolPlan, stem: str, tags: JsonDict) -> JsonDict:
    """Return the inputs of the launch template.

    Instance type (but see Capacity Blocks), subnets, disk size and remote access stay out: EKS refuses what is set in
    both places, and a key pair without security groups would open port 22 to the world.
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    group, reservation = settings.reservation_group_arn, settings.reservation_id
    target = {"capacityReservationResourceGroupArn": group, "capacityReservationId": reservation}
    return {
        "description": f"Nodes of the GPU pool {stem}",
        "imageId": settings.image_id,
        "instanceType": plan.instance.name if settings.is_capacity_block else None,
        "instanceMarketOptions": {"marketType": "capacity-block"} if settings.is_capacity_block else None,
        "capacityReservationSpecification": {"capacityReservationTarget": target} if any(target.values()) else None,
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            # With 1, pods are one hop too far away to get credentials of the node.
            # https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
            "httpPutResponseHopLimit": settings.imds_hop_limit,
        },
        "blockDeviceMappings": [_block_device(volume) for volume in settings.volumes] or None,
        "networkInterfaces": [_interface(interface, settings) for interface in settings.interfaces] or None,
        # EC2 takes security groups of the machine or of its interfaces, not of both.
        "vpcSecurityGroupIds": None if settings.interfaces else list(settings.security_group_ids) or None,
        "placement": {"groupName": UNKNOWN} if settings.placement_group else None,
        "userData": base64.b64encode(settings.user_data.encode()).decode() if settings.user_data else None,
        # The node group's own tags reach neither instances nor volumes.
        "tagSpecifications": [
            {"resourceType": kind, "tags": {"Name": stem, **tags}}
            for kind in ("instance", "volume", "network-interface")
        ],
        "tags": tags,
    }


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
    # The same function asks EKS for the group's own labels and taints; those that EKS adds to nodes are not among them.
    labels, taints = ({}, ()) if settings.autoscaler_reads_group else (plan.labels, plan.taints)
    labels = {**labels, **settings.node_labels}
    resources = {**{name: str(count) for name, count in offered.items()}, **settings.node_resources}
    return {
        **{f"{NODE_TEMPLATE}/label/{key}": value for key, value in labels.items()},
        **{f"{NODE_TEMPLATE}/taint/{taint.key}": f"{taint.value}:{taint.effect.value}" for taint in taints},
        **{f"{NODE_TEMPLATE}/resources/{resource}": count for resource, count in resources.items()},
    }
