"""The keys that a stack file gives for an EKS cluster."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, field_validator

from gpupools.catalog.places import read_places
from gpupools.common.errors import Path, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.cluster_access import ReachableCluster
from gpupools.spec.identifiers import CERTIFICATE, Form, pattern, pattern_of
from gpupools.spec.models import Address, Addresses, ExecPlugin, PoolSpec

_IDENTIFIERS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"
_ROLE = re.compile(r"arn:(aws[a-z-]*):iam::([0-9]{12}):role/[\w+=,.@/-]+", re.ASCII)
_SUBNETS = pattern(
    "subnet-(?:[0-9a-f]{8}|[0-9a-f]{17})",
    "write a subnet id: subnet- and 8 or 17 digits or letters from a to f",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html",
)
SECURITY_GROUP = pattern(
    "sg-(?:[0-9a-f]{8}|[0-9a-f]{17})",
    "write a security group id, such as sg-0a1b2c3d4e5f60718",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html",
)
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
"""Partition by the start of the region: https://github.com/boto/botocore/blob/develop/botocore/data/partitions.json"""
_DIRECTIONS = "north|south|east|west|central|northeast|northwest|southeast|southwest"
_CONSOLES = {
    "aws": "console.aws.amazon.com",
    "aws-us-gov": "console.amazonaws-us-gov.com",
    "aws-cn": "console.amazonaws.cn",
}
"""https://docs.aws.amazon.com/general/latest/gr/console-service.html (2026-11)"""


def account_of(role_arn: str) -> str:
    """Return the account that an IAM role is in.

    Raises:
        ValueError: The text is no role's ARN.
    """
    match = _ROLE.fullmatch(role_arn)
    if match is None:
        raise ValueError(f"got {shown(role_arn)}; {_ROLE_FORM.fix}")
    return match[2]


_ROLE_FORM = pattern(_ROLE.pattern, "write the role's ARN: arn:aws:iam::<account>:role/<name>", _IDENTIFIERS)


def partition_of(region: str) -> str:
    """Return the partition of a region."""
    return next((partition for start, partition in _PARTITIONS.items() if region.startswith(start)), "aws")


def other_partition(arn: str, region: str) -> tuple[str, str] | None:
    """Return problem and fix of an ARN of another partition than the region's; None if it is the same."""
    own = partition_of(region)
    given = arn.split(":")[1]
    return None if given == own else (f"is in partition {given}, but {region} is in {own}", f"write arn:{own}:…")


def _require_quotes(account: object) -> object:
    if isinstance(account, int) and not isinstance(account, bool):
        # Unquoted digits lose leading zeros, or are read to base 8.
        raise ValueError("is a number; write the 12 digits in quotes")
    return account


_PLACES = FilePath(__file__).parent / "places.csv"


class EksCluster(ReachableCluster):
    """An existing EKS cluster and where its nodes go."""

    cloud: Literal["aws"]
    name: Address
    """Name of the EKS cluster."""
    region: str
    """AWS region of the cluster, e.g. `eu-central-1`."""
    subnet_ids: Addresses | None = None
    """Private subnets for the nodes; the subnet decides whether nodes get a public address."""
    subnets_by_zone: dict[str, Addresses] | None = None
    """The same by availability zone, instead of subnet_ids, for pools that name their zones."""
    security_group_ids: list[str] | None = None
    """Security groups of the nodes, for pools that name none under `network`. Default: the cluster's own group.

    An empty list means that the cluster has further groups, of which nobody has said yet which ones nodes need.
    Nodes of terraform-aws-eks are in a group of their own, and nodes outside of it get no DNS from them
    (https://github.com/terraform-aws-modules/terraform-aws-eks/issues/1877).
    """
    node_role_arn: Address
    """IAM role of the nodes: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html."""
    account: Annotated[str, BeforeValidator(_require_quotes)] | None = None
    """AWS account of the cluster, in quotes: credentials of any other are refused. Left out: that of node_role_arn."""
    profile: str | None = None
    """Profile of the AWS configuration where Pulumi runs, for its credentials; left out: those of the environment."""
    assume_role: str | None = None
    """ARN of the IAM role to act as, in the account of the cluster; left out: none."""

    identity: ClassVar[tuple[str, ...]] = ("account", "profile", "assume_role")
    region_key: ClassVar[str] = "region"
    account_key: ClassVar[str] = "account"
    places_file: ClassVar[FilePath | None] = _PLACES
    api_hosts: ClassVar[str] = (
        r"([a-z0-9-]+\.)+(eks\.amazonaws\.com(\.cn)?|api\.aws)"  # https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
    )
    forms: ClassVar[Mapping[str, Form]] = {
        "name": pattern(
            "[0-9A-Za-z][A-Za-z0-9_-]{0,99}",
            "write the name of an EKS cluster: letters, digits, - and _",
            "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html",
        ),
        "subnet_ids": _SUBNETS,
        "subnets_by_zone": _SUBNETS,
        "security_group_ids": SECURITY_GROUP,
        "node_role_arn": _ROLE_FORM,
        "assume_role": _ROLE_FORM,
        "account": pattern("[0-9]{12}", "write the 12 digits of an AWS account", _IDENTIFIERS),
        "profile": pattern(
            r"\w[\w@./+=: -]{0,127}",
            "write the name of a profile of the AWS configuration",
            "https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html",
        ),
        "certificate_authority": CERTIFICATE,
    }
    not_pool_inputs: ClassVar[frozenset[str]] = ReachableCluster.not_pool_inputs | {*identity, "security_group_ids"}
    # `schema.TypeSet` in https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go.
    unordered: ClassVar[frozenset[str]] = frozenset({"subnet_ids"})

    def console_domain(self) -> str:
        """Return the domain of the partition's console; empty if it is not public."""
        return _CONSOLES.get(partition_of(self.region), "")

    def pool_inputs(self, zones: Sequence[str]) -> JsonDict:
        """Return what a pool is told; of subnets those of its zones, however they are written."""
        inputs = super().pool_inputs(zones)
        by_zone = inputs.pop("subnets_by_zone")
        if isinstance(by_zone, Mapping):
            lists = [by_zone[zone] for zone in zones or by_zone if zone in by_zone]
            inputs["subnet_ids"] = [subnet for ids in lists for subnet in (ids if isinstance(ids, list) else [ids])]
        if isinstance(inputs["subnet_ids"], list):
            inputs["subnet_ids"] = sorted(inputs["subnet_ids"], key=str)
        return inputs

    def pool_id(self, name: str) -> str:
        """Return `cluster:group`, https://www.pulumi.com/registry/packages/aws/api-docs/eks/nodegroup/#import."""
        return f"{self.name}:{name}"

    def completed(self, pool: PoolSpec) -> PoolSpec:
        """Return a pool with the cluster's security groups, unless the pool names groups or has its own template."""
        template = pool.overrides.get("aws", {}).get("LaunchTemplate", {})
        own = {"vpcSecurityGroupIds", "networkInterfaces"} & template.keys()
        if not self.security_group_ids or pool.network.security_group_ids or pool.adopt is not None or own:
            return pool
        network = pool.network.model_copy(update={"security_group_ids": self.security_group_ids})
        return pool.model_copy(update={"network": network})

    @field_validator("region")
    @classmethod
    def _is_a_region(cls, region: str) -> str:
        # Which there are changes; that each is named after a direction does not:
        # https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html (2026-11-22)
        if not re.fullmatch(rf"[a-z]{{2,4}}(-[a-z]+)?-({_DIRECTIONS})-[0-9]{{1,2}}", region):
            raise ValueError(f"got {shown(region)}; {read_places(_PLACES).region_fix(region)}")
        return region

    @classmethod
    def place_of(cls, given: JsonObject) -> JsonObject:
        """Return account (that of the nodes' role: EKS takes no other's), region and name."""
        role = given["node_role_arn"]
        account = given.get("account") or (account_of(role) if isinstance(role, str) else role)
        return {"account": account, "region": given["region"], "name": given["name"]}

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject two accounts, both kinds of subnet keys, and subnets in another region."""
        yield from super().conflicting_keys()
        role = self.node_role_arn
        account = self.account or (account_of(role) if isinstance(role, str) else None)
        for key in ("node_role_arn", "assume_role"):
            given = getattr(self, key)
            if isinstance(given, str) and (wrong := other_partition(given, self.region)):
                yield (key,), "; ".join(wrong)
            if account is not None and isinstance(given, str) and account_of(given) != account:
                first = "account" if self.account else "node_role_arn"
                what = f"is in account {account_of(given)}, but {first} names {account}"
                yield (key,), f"{what}; the cluster, its node role and assume_role must be in one account"
        if (self.subnet_ids is None) == (self.subnets_by_zone is None):
            yield ("subnet_ids",), "set exactly one of subnet_ids and subnets_by_zone"
        for zone in self.subnets_by_zone or {}:
            # https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html: the letters
            # differ by account, up to f. Local zones have longer names: `us-east-1-dfw-2a`.
            if not re.fullmatch(f"{self.region}(?:[a-f]|-.+)", zone):
                yield ("subnets_by_zone", zone), f"{shown(zone)} is not a zone of {self.region}; correct one of them"
        if self.subnets_by_zone == {}:
            yield ("subnets_by_zone",), "is empty; set the subnets of at least one zone"

    @classmethod
    def exec_plugin(cls, given: JsonObject) -> ExecPlugin:
        """Return the AWS CLI, which signs in with the credentials that Pulumi's AWS provider has too.

        The arguments are those `aws eks update-kubeconfig` writes
        (https://github.com/aws/aws-cli, awscli/customizations/eks/update_kubeconfig.py); the output is named, because a
        reader's own setting (`table`, `text`) would make it unreadable. Profile and role are the cluster's, as they are
        the provider's (awscli/customizations/eks/get_token.py).
        """
        profile, role = given.get("profile"), given.get("assume_role")
        where = (*(("--profile", profile) if profile else ()), "--region", given["region"])
        token = ("eks", "get-token", "--cluster-name", given["name"], *(("--role-arn", role) if role else ()))
        return ExecPlugin(
            command="aws",
            args=(*where, *token, "--output", "json"),
            install_hint="Install the AWS CLI: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
        )

    def node_pattern(self) -> str:
        """Return a pattern of a node's provider id, its region and the label of eksctl.

        https://docs.aws.amazon.com/eks/latest/eksctl/nodegroups.html
        """
        named = f"(?P<named>{pattern_of(self.name)})|$" if isinstance(self.name, str) else ""
        return rf"aws:\S* ({pattern_of(self.region)}|) \S+ ({named})"

    def kubeconfig_name(self) -> str:
        """Return a pattern of the ARN that `aws eks update-kubeconfig` takes as name.

        https://github.com/aws/aws-cli, awscli/customizations/eks/update_kubeconfig.py
        """
        place = self.place_of(dict(self))
        region, account, name = (pattern_of(place[key]) for key in ("region", "account", "name"))
        return f"arn:[a-z-]+:eks:{region}:{account}:cluster/{name}"
