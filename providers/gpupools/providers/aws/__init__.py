"""Amazon EKS, as data and pure functions: what managed node groups with NVIDIA GPUs can be, and how to read one back.

Owns the AWS facts. `resources.py` beside it is the only place that imports the AWS SDK.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from gpupools.asked.access import ReachableCluster
from gpupools.asked.spec import Address, Addresses
from gpupools.base.errors import shown
from gpupools.known.catalogue import Catalogue
from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule, kubelet_labels
from gpupools.planned.cloud import Cloud, when_called
from gpupools.providers.aws.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from gpupools.providers.aws.pool_settings import LAUNCH_TEMPLATE, NODE_GROUP, PLACEMENT_GROUP, SETTINGS
from gpupools.providers.aws.runtime import node_runtime
from gpupools.providers.aws.settings import conflicts, decide, refusals

_ROLE = re.compile(r"arn:aws(?:-[a-z]+)*:iam::([0-9]{12}):role/.+")
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"""


def account_of(role_arn: str) -> str:
    """Return the account that an IAM role is in.

    Raises:
        ValueError: The text is no role's ARN.
    """
    match = _ROLE.fullmatch(role_arn)
    if match is None:
        raise ValueError(f"got {shown(role_arn)}; write the role's ARN: arn:aws:iam::<account>:role/<name>")
    return match[1]


class EksCluster(ReachableCluster):
    """An existing EKS cluster and where its nodes go."""

    cloud: Literal["aws"]
    name: Address
    """Name of the EKS cluster."""
    region: str
    """AWS region of the cluster, e.g. `eu-central-1`."""
    subnet_ids: Addresses | None = None
    """Private subnets for the nodes; whether a node gets a public address is the subnet's own setting."""
    subnets_by_zone: dict[str, Addresses] | None = None
    """The same by availability zone, instead of subnet_ids, for pools that name their zones."""
    node_role_arn: Address
    """IAM role of the nodes: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html."""

    @field_validator("region")
    @classmethod
    def _is_a_region(cls, region: str) -> str:
        # https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html
        if not re.fullmatch(r"[a-z]{2,4}(-[a-z]+){1,2}-[0-9]{1,2}", region):
            raise ValueError(f"got {shown(region)}; write a region such as eu-central-1")
        return region

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: Any) -> Any:
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
        if isinstance(name, str) and not re.fullmatch(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", name):
            raise ValueError(f"got {shown(name)}; write the name of an EKS cluster: letters, digits, - and _")
        return name

    @classmethod
    def place_of(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return account (that of the nodes' role: EKS takes no other's), region and name."""
        role = given["node_role_arn"]
        account = account_of(role) if isinstance(role, str) else role
        return {"account": account, "region": given["region"], "name": given["name"]}

    @field_validator("node_role_arn")
    @classmethod
    def _is_a_role(cls, role: object) -> object:
        if isinstance(role, str):
            account_of(role)
        return role

    @model_validator(mode="after")
    def _one_way_to_name_subnets(self) -> Self:
        if (self.subnet_ids is None) == (self.subnets_by_zone is None):
            raise ValueError("give either subnet_ids or subnets_by_zone, not both and not neither")
        for zone in self.subnets_by_zone or {}:
            # Local zones have longer names: `us-east-1-dfw-2a`.
            if not zone.startswith(self.region) or zone == self.region:
                raise ValueError(f"subnets_by_zone has {shown(zone)}, which is no zone of {self.region}; correct one")
        if self.subnets_by_zone == {}:
            raise ValueError("subnets_by_zone is empty; name the subnets of at least one zone")
        return self


_ONE_ACCOUNT = "take it out: the account in node_role_arn is the only one allowed"
_ASSUMED = "name the role as role_arn in a profile of the AWS configuration, and set AWS_PROFILE where Pulumi runs"
_KEYS = "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN where Pulumi runs"

# https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html
_PROVIDER_SETTINGS = {
    "region": "write the cluster's region",
    "allowedAccountIds": _ONE_ACCOUNT,
    "forbiddenAccountIds": _ONE_ACCOUNT,
    "profile": "set AWS_PROFILE where Pulumi runs",
    **dict.fromkeys(("assumeRole", "assumeRoles", "assumeRoleWithWebIdentity"), _ASSUMED),
    **dict.fromkeys(("accessKey", "secretKey", "token"), _KEYS),
    "defaultTags": "write tags of the pools",
}

_CATALOGUE = Catalogue(Path(__file__).parent)

_GPU_LABEL = (
    "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go"
)

CLOUD = Cloud(
    name="aws",
    service="Amazon EKS",
    instance_types=_CATALOGUE,
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
    decide=decide,
    read_pools=when_called("gpupools.providers.aws.read_back", "read_pools", _CATALOGUE),
    accelerator=when_called("gpupools.providers.aws.read_back", "accelerator", _CATALOGUE),
    unread=when_called("gpupools.providers.aws.cloudformation", "unread"),
    held_types=when_called("gpupools.providers.aws.cloudformation", "held_types"),
    read_template=when_called("gpupools.providers.aws.read_back", "read_template", _CATALOGUE),
    customised=when_called("gpupools.providers.aws.by_hand", "overridden"),
    refusals=refusals,
    conflicts=conflicts,
    provider_settings=dict.fromkeys(("aws", "aws-native"), _PROVIDER_SETTINGS),
    settings=SETTINGS,
    node_runtime=node_runtime,
    # A node group's name has 63 characters at most, and `-nodes` and Pulumi's own eight go behind the component's.
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
    component_name_limit=63 - len("-nodes") - 8,
    # EKS takes any label, and the kubelet then does not start:
    # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3346, https://github.com/eksctl-io/eksctl/pull/6947.
    reserved_labels=(
        KeyRule(
            pattern="eks.amazonaws.com/*",
            why="is of a name space that EKS keeps for itself",
            source="https://github.com/kubernetes/cloud-provider-aws/issues/242",
            on_nodes=True,
        ),
        KeyRule(
            pattern="k8s.amazonaws.com/accelerator",
            why="makes cluster-autoscaler wait for nvidia.com/gpu on every node",
            fix="leave it out; it is there where the pool's software offers that",
            source=_GPU_LABEL,
            on_nodes=True,
        ),
        KeyRule(pattern="k8s.amazonaws.com/*", source=_GPU_LABEL, on_nodes=True),
        *kubelet_labels("the kubelet of an EKS node"),
        *OPERATOR_LABELS,
    ),
    reserved_taints=(
        *CONDITION_TAINTS,
        # One report of what the API says; AWS's page on taints names no key (2026-11-22).
        KeyRule(
            pattern="kubernetes.io/*",
            why="is of a name space that EKS takes no taints of",
            source="https://github.com/alphagov/govuk-infrastructure/pull/1264",
        ),
    ),
    overridable={"NodeGroup": NODE_GROUP, "LaunchTemplate": LAUNCH_TEMPLATE, "PlacementGroup": PLACEMENT_GROUP},
)
