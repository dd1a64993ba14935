"""Write docs/reference/permissions: the permissions to deploy and preview in each cloud, and to read a live cluster.

    python tooling/write_permissions.py           writes the files
    python tooling/write_permissions.py --check   fails if one is stale

The rows of permissions.csv name, for each type of resource that plans declare, the permissions that the provider's
calls for it need, with their source. Tests hold them to the types that are declared and to the clouds' own API models.
"""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from gpupools.audit import cluster_objects
from gpupools.fit import live
from gpupools.providers.aws.declared_inputs import NODE_TEMPLATE
from gpupools.ready.snapshot import READS, Read
from gpupools.software.objects import MANAGED_BY, SMOKE_NAMESPACE

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference" / "permissions"
ACCOUNT = "123456789012"
"""The account of the vendors' own examples, for whoever copies a file to replace."""
REGION = "eu-central-1"
"""Also to be replaced, or listed with others."""

Access = Literal["preview", "deploy"]
_TITLES: dict[Access, str] = {"preview": "GPU pools preview", "deploy": "GPU pools deploy"}
_MEANINGS: dict[Access, str] = {
    "preview": "Reads the GPU node pools that gpupools declares, for pulumi preview",
    "deploy": "Makes, changes and deletes the GPU node pools that gpupools declares",
}

_ON = {
    "*": ["*"],
    "new machine": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:{kind}/*" for kind in ("launch-template", "placement-group")],
    "new tags": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:*/*"],
    "own machine": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:{kind}/*" for kind in ("launch-template", "placement-group")],
    "scaling group": [f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/eks-*"],
    "node group": [f"arn:aws:eks:{REGION}:{ACCOUNT}:{kind}" for kind in ("cluster/*", "nodegroup/*/*/*")],
    "new node group": [f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/*"],
    "new group tags": [f"arn:aws:eks:{REGION}:{ACCOUNT}:nodegroup/*/*/*"],
    "own node group": [f"arn:aws:eks:{REGION}:{ACCOUNT}:nodegroup/*/*/*"],
    "role": [f"arn:aws:iam::{ACCOUNT}:role/gpu-nodes"],
    "role to EKS": [f"arn:aws:iam::{ACCOUNT}:role/gpu-nodes"],
    "linked role": [f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/eks-nodegroup.amazonaws.com/*"],
}
"""What an action of AWS is allowed on; these are the narrowest that hold for every stack of an account."""
_TAG = "gpupools:pool"
"""Every node group, launch template and placement group of a pool has it from its creation."""
_OWN = {"Null": {f"aws:ResourceTag/{_TAG}": "false"}}
_NEW = {"Null": {f"aws:RequestTag/{_TAG}": "false"}}
# https://docs.aws.amazon.com/service-authorization/latest/reference/ has the keys of each action.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
# EKS tags its groups: https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSServiceRoleForAmazonEKSNodegroup.html
_CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    "*": {"StringEquals": {"aws:RequestedRegion": REGION}},
    "new machine": _NEW,
    # Otherwise the tag could be given to what others made.
    "new tags": {
        "StringEquals": {"ec2:CreateAction": ["CreateLaunchTemplate", "CreatePlacementGroup", "RunInstances"]}
    },
    "own machine": _OWN,
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/tag-permissions.html
    "scaling group": {
        "Null": {"aws:ResourceTag/eks:nodegroup-name": "false"},
        "ForAllValues:StringLike": {"aws:TagKeys": [f"{NODE_TEMPLATE}/*"]},
    },
    "new node group": _NEW,
    # EKS asks for it on the group, not on the cluster: https://github.com/aws/karpenter-provider-aws/pull/4434
    "new group tags": _NEW,
    "own node group": _OWN,
    "role to EKS": {"StringEquals": {"iam:PassedToService": "eks.amazonaws.com"}},
    "linked role": {"StringEquals": {"iam:AWSServiceName": "eks-nodegroup.amazonaws.com"}},
}


@dataclass(frozen=True)
class Row:
    """A permission that declaring a type of resource needs."""

    cloud: str
    resource: str
    permission: str
    access: str
    """`read` or `write`."""
    call: str
    """The calls that ask for it, as the cloud's own client library names them, where it has one here."""
    on: str
    when: str
    """What asks for it beside the type; empty where every resource of the type does."""
    source: str


def rows(cloud: str = "") -> list[Row]:
    """Return the rows, or those of one cloud."""
    with (ROOT / "tooling" / "permissions.csv").open(encoding="utf-8", newline="") as file:
        found = [Row(**each) for each in csv.DictReader(file, strict=True)]
    return [row for row in found if cloud in ("", row.cloud)]


def documents() -> dict[str, Any]:
    """Return what each file holds, by its name."""
    of = {"aws": _iam_policy, "azure": _azure_role, "gcp": _google_role}
    found = {f"{cloud}-{access}.json": write(rows(cloud), access) for cloud, write in of.items() for access in _TITLES}
    found["cluster-ready.json"] = _cluster_role("gpupools-ready", _ready_rules())
    found["cluster-fit.json"] = _cluster_role("gpupools-fit", _list_rules((*live.READS, *live.GROUPS.values())))
    found["cluster-policy.json"] = _cluster_role("gpupools-policy", _list_rules(cluster_objects.READS))
    found["cluster-mig-walk.json"] = _cluster_role("gpupools-mig-walk", _WALK_RULES)
    found["namespace-mig-walk.json"] = _cluster_role("gpupools-mig-walk", _WALK_CONFIG_RULES, "gpu-operator")
    found["namespace-ready.json"] = _cluster_role("gpupools-ready", _ready_rules(in_namespace=True), "kube-system")
    found["namespace-ready-smoke.json"] = _cluster_role("gpupools-ready-smoke", _SMOKE_RULES, SMOKE_NAMESPACE)
    return found


def _cluster_role(name: str, rules: Iterable[tuple[str, str, list[str], str]], space: str = "") -> dict[str, Any]:
    """Return a role of the cluster or of a namespace for `kubectl apply`: https://kubernetes.io/docs/reference/access-authn-authz/rbac/."""
    found = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs} | ({"resourceNames": [only]} if only else {})
        for group, resource, verbs, only in rules
    ]
    meta = {"name": name, **({"namespace": space} if space else {}), "labels": MANAGED_BY}
    kind = "Role" if space else "ClusterRole"
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta, "rules": found}


def _ready_rules(*, in_namespace: bool = False) -> Iterator[tuple[str, str, list[str], str]]:
    for read in (each for each in READS if bool(each.name) == in_namespace):
        group = read.api.rpartition("/")[0]
        yield group, read.plural, ["get"] if read.name else ["list"], read.name.rpartition("/")[2]


def _list_rules(reads: Iterable[Read]) -> Iterator[tuple[str, str, list[str], str]]:
    for read in reads:
        yield read.api.rpartition("/")[0] if "/" in read.api else "", read.plural, ["list"], ""


_WALK_RULES = (
    ("", "nodes", ["get", "list", "patch"], ""),
    ("", "pods", ["list"], ""),
    ("", "pods/eviction", ["create"], ""),
    ("nvidia.com", "clusterpolicies", ["list"], ""),
)
"""What `gpupools mig walk --yes` needs of nodes, and of pods in all namespaces."""
_WALK_CONFIG_RULES = (("", "configmaps", ["get"], ""),)
"""It reads the layouts of the MIG manager."""
_SMOKE_RULES = (
    # Kubernetes asks a namespace's own roles about the namespace.
    ("", "namespaces", ["get"], SMOKE_NAMESPACE),
    ("batch", "jobs", ["create", "delete", "get"], ""),
    ("resource.k8s.io", "resourceclaimtemplates", ["create", "delete", "get"], ""),
    ("", "pods", ["list"], ""),
    ("", "pods/log", ["get"], ""),
)
"""What `gpupools ready --smoke` needs in addition, in a namespace that an administrator creates."""


def _allowed(found: Iterable[Row], access: Access) -> list[Row]:
    return [row for row in found if access == "deploy" or row.access == "read"]


def _iam_policy(found: Iterable[Row], access: Access) -> dict[str, Any]:
    """Return a policy of IAM: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html."""
    on_each = [(on, row) for row in _allowed(found, access) for on in row.on.split("; ")]
    by_target = groupby(sorted(on_each, key=lambda each: list(_ON).index(each[0])), lambda each: each[0])
    statements = []
    for on, those in by_target:
        said: dict[str, Any] = {
            "Sid": "".join(word.capitalize() for word in ("any" if on == "*" else on).split()),
            "Effect": "Allow",
            "Action": sorted({row.permission for _, row in those}),
            "Resource": _ON[on],
        }
        statements.append(said | ({"Condition": _CONDITIONS[on]} if on in _CONDITIONS else {}))
    return {"Version": "2012-10-17", "Statement": statements}


def _azure_role(found: Iterable[Row], access: Access) -> dict[str, Any]:
    """Return a role for `az role definition create`.

    https://learn.microsoft.com/azure/role-based-access-control/custom-roles-cli
    """
    return {
        "Name": _TITLES[access],
        "IsCustom": True,
        "Description": _MEANINGS[access],
        "Actions": sorted({row.permission for row in _allowed(found, access)}),
        "NotActions": [],
        "DataActions": [],
        "NotDataActions": [],
        "AssignableScopes": ["/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml-prod"],
    }


def _google_role(found: Iterable[Row], access: Access) -> dict[str, Any]:
    """Return a role for `gcloud iam roles create --file`: https://docs.cloud.google.com/iam/docs/creating-custom-roles."""
    return {
        "title": _TITLES[access],
        "description": _MEANINGS[access],
        "stage": "GA",
        "includedPermissions": sorted({row.permission for row in _allowed(found, access) if not row.on}),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` compare them; return the exit code."""
    wanted = {name: json.dumps(said, indent=2) + "\n" for name, said in documents().items()}
    there = {file.name: file.read_text("utf-8") for file in FOLDER.glob("*.json")}
    if arguments == ["--check"]:
        stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
        for name in stale:
            print(f"docs/reference/permissions/{name}: stale; run python tooling/write_permissions.py", file=sys.stderr)
        return 1 if stale else 0
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
