"""Amazon EKS, as data and pure functions: what managed node groups with NVIDIA GPUs can be, and how to read one back.

Owns the AWS facts; only `resources.py`, which registers a plan's resources, imports Pulumi.
"""

from pathlib import Path

from gpupools.plan.cloud import Cloud, NodePools, PoolOrder, RegisteredResource, call_later, get_later
from gpupools.plan.cloud_tables import read_provider_settings
from gpupools.providers.aws.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from gpupools.providers.aws.cluster import EksCluster, kubeconfig_name, node_pattern
from gpupools.providers.aws.constraints import check_pool, check_settings
from gpupools.providers.aws.machines import INSTANCE_TYPES
from gpupools.providers.aws.node_software import node_runtime
from gpupools.providers.aws.pool_plan import build_provider_plan
from gpupools.providers.aws.pool_settings import OVERRIDABLE, SETTINGS
from gpupools.providers.aws.registries import own_registry, registry_login
from gpupools.providers.aws.reserved import LABELS, TAINTS

CLOUD = Cloud(
    name="aws",
    service="Amazon EKS",
    instance_types=INSTANCE_TYPES,
    quotas_file=Path(__file__).parent / "quotas.csv",
    launch_errors_file=Path(__file__).parent / "launch_errors.csv",
    prices_file=Path(__file__).parent / "prices.csv",
    input_types_file=Path(__file__).parent / "input_types.json",
    cluster=EksCluster,
    example_cluster={
        "cloud": "aws",
        "name": "train-dev",
        "region": "eu-central-1",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    decide=build_provider_plan,
    check_pool=check_pool,
    check_settings=check_settings,
    # https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html
    provider_settings=read_provider_settings(Path(__file__).parent, "aws", "aws-native"),
    access=call_later(f"{__name__}.access", "exec_plugin"),
    discovery_file=Path(__file__).parent / "discovery.csv",
    node_pattern=node_pattern,
    pool_command="aws autoscaling describe-scaling-activities --region {region} --max-items 20 --output text"
    " --query 'Activities[].[StartTime,AutoScalingGroupName,StatusMessage]'",
    cluster_label="alpha.eksctl.io/cluster-name",
    kubeconfig_name=kubeconfig_name,
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
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
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
    ),
    readback=get_later(f"{__name__}.readback", "READBACK"),
)
