"""Amazon EKS, as data and pure functions: what managed node groups with NVIDIA GPUs can be, and how to read one back.

Owns the AWS facts; only `resources.py`, which registers a plan's resources, imports Pulumi.
"""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules, kubelet_labels
from gpupools.plan.cloud import Cloud, NodePools, PodLimits, PoolOrder, RegisteredResource, call_later, get_later
from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_provider_settings, read_software
from gpupools.providers.aws.cluster import EksCluster
from gpupools.providers.aws.constraints import check_pool, check_settings
from gpupools.providers.aws.machines import INSTANCE_TYPES
from gpupools.providers.aws.node_software import node_runtime
from gpupools.providers.aws.pool_plan import build_provider_plan
from gpupools.providers.aws.pool_settings import OVERRIDABLE, SETTINGS
from gpupools.providers.aws.registries import own_registry, registry_login

_HERE = Path(__file__).parent

CLOUD = Cloud(
    name="aws",
    service="Amazon EKS",
    instance_types=INSTANCE_TYPES,
    folder=_HERE,
    cluster=EksCluster,
    example_cluster={
        "cloud": "aws",
        "name": "train-dev",
        "region": "eu-central-1",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    # Bottlerocket carries the device plugin and a MIG manager as host services, which user data configures; Amazon
    # Linux 2023 carries driver and container toolkit only. The default needs nothing in the cluster where it can.
    # Time-sliced MIG stays with the GPU Operator, for which NVIDIA documents it; of Bottlerocket its makers and AWS's
    # page say different things (`capabilities.csv`).
    software=read_software(_HERE),
    default_software=read_default_software(_HERE),
    capabilities=read_capabilities(_HERE),
    decide=build_provider_plan,
    check_pool=check_pool,
    check_settings=check_settings,
    # https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html
    provider_settings=read_provider_settings(_HERE, "aws", "aws-native"),
    pool_command="aws autoscaling describe-scaling-activities --region {region} --max-items 20 --output text"
    " --query 'Activities[].[StartTime,AutoScalingGroupName,StatusMessage]'",
    cluster_label="alpha.eksctl.io/cluster-name",
    node_runtime=node_runtime,
    supports_dra_from_zero=False,
    own_registry=own_registry,
    registry_login=registry_login,
    helpers={
        "cluster_autoscaler": "https://docs.aws.amazon.com/eks/latest/userguide/autoscaling.html",
        "node_monitoring_agent": "https://docs.aws.amazon.com/eks/latest/userguide/node-health.html",
    },
    # A node group's name has 63 characters at most, and `-nodes` and Pulumi's own eight go behind the component's.
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
    component_name_limit=63 - len("-nodes") - 8,
    # EKS takes any label, and the kubelet then does not start:
    # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3346, https://github.com/eksctl-io/eksctl/pull/6947.
    pod_limits=PodLimits(8, 256, "https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html"),
    reserved_labels=(
        *key_rules(_HERE / "reserved.csv", "label"),
        *kubelet_labels("the kubelet of an EKS node"),
        *OPERATOR_LABELS,
    ),
    # Of kubernetes.io there is one report of what the API says; AWS's page on taints names no key (2026-11-22).
    reserved_taints=(*CONDITION_TAINTS, *key_rules(_HERE / "reserved.csv", "taint")),
    node_pools=NodePools(
        settings=SETTINGS,
        overridable=OVERRIDABLE,
        edits=call_later(f"{__name__}.edit_effects", "edit_tables"),
        resources=get_later(f"{__name__}.resources", "RESOURCES"),
        declared_inputs=call_later(f"{__name__}.declared_inputs", "declared_inputs"),
        # A node group's name ends in hexadecimal digits of Pulumi, that of its Auto Scaling group in a UUID.
        order=PoolOrder(
            names=lambda plan, cluster: tuple(sorted(plan.provider_plan.node_groups(plan.cluster, plan.name)[1])),
            group_id="^eks-{}-[0-9a-f-]+$",
        ),
        registered={
            "PlacementGroup": RegisteredResource("placement"),
            "LaunchTemplate": RegisteredResource("template", {"placement": "PlacementGroup"}),
            "NodeGroup": RegisteredResource("nodes", {"launchTemplate": "LaunchTemplate"}),
        },
        existing_pools=get_later(f"{__name__}.existing_pools", "EXISTING_POOLS"),
        autoscaler_id="eks-{name}(-[0-9a-f]{{7}})?-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}",
    ),
    readback=get_later(f"{__name__}.readback", "READBACK"),
)
