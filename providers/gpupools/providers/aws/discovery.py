"""Reads an EKS cluster and its node groups from the output of the AWS CLI, or of terraform-aws-eks."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.discovery import Described, Discovery, inner, maps, minor_version, taint_texts, texts

_GROUPS = (
    "the security groups of the nodes are not in it, and this cluster has further ones: find those of a running node"
    " with aws ec2 describe-instances, and set security_group_ids, or pods on the new nodes may get no DNS"
    " (https://github.com/terraform-aws-modules/terraform-aws-eks/issues/1877)"
)


def _read_cluster(output: JsonObject) -> Described | None:
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
            "kubernetes": minor_version(group.get("version")),
        }
        has_gpu = "NVIDIA" in str(group.get("amiType")) or "GPU" in str(group.get("amiType"))
        return Described(texts(found) | ({} if has_gpu else {"cpu_taints": [taint_texts(group.get("taints"))]}))
    if not isinstance(cluster, Mapping) or ":eks:" not in str(cluster.get("arn", "")):
        return None
    network = cluster.get("resourcesVpcConfig")
    found = {
        "name": cluster.get("name"),
        "region": _region(cluster["arn"]),
        "subnet_ids": inner(network, "subnetIds"),
        "endpoint": cluster.get("endpoint"),
        "certificate_authority": inner(cluster, "certificateAuthority", "data"),
        "kubernetes": minor_version(cluster.get("version")),
        "karpenter": "EKS Auto Mode" if inner(cluster, "computeConfig", "enabled") is True else None,
    }
    return Described(texts(found), {"security_group_ids": _GROUPS} if inner(network, "securityGroupIds") else {})


def _read_outputs(outputs: JsonObject) -> Described | None:
    """Return the keys of a cluster from outputs of terraform-aws-eks and, for the subnets, terraform-aws-vpc.

    https://registry.terraform.io/modules/terraform-aws-modules/eks/aws/latest?tab=outputs. Its nodes are in the group
    of node_security_group_id alone, unless attach_cluster_primary_security_group is set.
    """
    arn = outputs.get("cluster_arn")
    if ":eks:" not in str(arn) and not isinstance(outputs.get("node_security_group_id"), str):
        return None
    groups = [*maps(outputs.get("eks_managed_node_groups")), *maps(outputs.get("self_managed_node_groups"))]
    roles = [each.get("iam_role_arn") for each in groups]
    found: JsonDict = {
        "name": outputs.get("cluster_name") or str(arn).rpartition("/")[2],
        "region": _region(arn) or outputs.get("region"),
        "subnet_ids": outputs.get("private_subnets") or outputs.get("subnet_ids") or outputs.get("private_subnet_ids"),
        "node_role_arn": next((each for each in roles if each), None) or outputs.get("node_role_arn"),
        "endpoint": outputs.get("cluster_endpoint"),
        "certificate_authority": outputs.get("cluster_certificate_authority_data"),
        "kubernetes": minor_version(outputs.get("cluster_version")),
        "security_group_ids": [outputs.get("node_security_group_id")],
    }
    taints = [taint_texts(each.get("node_group_taints")) for each in groups if "node_group_taints" in each]
    groups_fix = _GROUPS.replace("find those", "output node_security_group_id, or find those")
    return Described(texts(found) | ({"cpu_taints": taints} if taints else {}), {"security_group_ids": groups_fix})


def _region(arn: Any) -> str:
    """Return the region that an ARN names: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html."""
    return [*str(arn).split(":"), "", "", "", ""][3]


DISCOVERY = Discovery(
    commands=(
        "aws eks describe-cluster --name NAME",
        "aws eks describe-nodegroup --cluster-name NAME --nodegroup-name NODEGROUP",
    ),
    read=_read_cluster,
    outputs=_read_outputs,
    which=("name", "region"),
    asked=("subnet_ids",),
)
