"""Reads an EKS cluster and its node groups from the output of the AWS CLI."""

from collections.abc import Mapping

from gpupools.common.json_types import JsonObject
from gpupools.plan.discovery import Discovery, inner, texts


def _read_cluster(output: JsonObject) -> JsonObject | None:
    """Return the keys of a cluster from the cluster or one of its node groups, which has role and subnets.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html,
    https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html
    """
    cluster, group = output.get("cluster"), output.get("nodegroup")
    if isinstance(group, Mapping) and str(group.get("nodegroupArn", "")).startswith("arn:aws"):
        found = {
            "name": group.get("clusterName"),
            "region": _region(group["nodegroupArn"]),
            "subnet_ids": group.get("subnets"),
            "node_role_arn": group.get("nodeRole"),
        }
    elif isinstance(cluster, Mapping) and ":eks:" in str(cluster.get("arn", "")):
        found = {
            "name": cluster.get("name"),
            "region": _region(cluster["arn"]),
            "subnet_ids": inner(cluster, "resourcesVpcConfig", "subnetIds"),
            "endpoint": cluster.get("endpoint"),
            "certificate_authority": inner(cluster, "certificateAuthority", "data"),
        }
    else:
        return None
    return texts(found)


def _region(arn: object) -> str:
    """Return the region that an ARN names: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html."""
    return [*str(arn).split(":"), "", "", "", ""][3]


DISCOVERY = Discovery(
    commands=(
        "aws eks describe-cluster --name NAME",
        "aws eks describe-nodegroup --cluster-name NAME --nodegroup-name NODEGROUP",
    ),
    read=_read_cluster,
    which=("name", "region"),
    asked=("subnet_ids",),
)
