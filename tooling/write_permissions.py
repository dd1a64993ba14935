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
from gpupools.ready.snapshot import READS
from gpupools.software.objects import MANAGED_BY

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference" / "permissions"
ACCOUNT = "123456789012"
"""The account of the vendors' own examples, for whoever copies a file to replace."""

Access = Literal["preview", "deploy"]
_TITLES: dict[Access, str] = {"preview": "GPU pools preview", "deploy": "GPU pools deploy"}
_MEANINGS: dict[Access, str] = {
    "preview": "Reads the GPU node pools that gpupools declares, for pulumi preview",
    "deploy": "Makes, changes and deletes the GPU node pools that gpupools declares",
}

_ON = {
    "*": ["*"],
    "nodegroup": [f"arn:aws:eks:*:{ACCOUNT}:cluster/*", f"arn:aws:eks:*:{ACCOUNT}:nodegroup/*/*/*"],
    "role": [f"arn:aws:iam::{ACCOUNT}:role/gpu-nodes"],
    "role to EKS": [f"arn:aws:iam::{ACCOUNT}:role/gpu-nodes"],
    "linked role": [f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/eks-nodegroup.amazonaws.com/*"],
}
"""What an action of AWS is allowed on; these are the narrowest that hold for every stack of an account."""
_CONDITIONS = {
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
    found["cluster-policy.json"] = _cluster_role("gpupools-policy", _policy_rules())
    found["cluster-mig-walk.json"] = _cluster_role("gpupools-mig-walk", _WALK_RULES)
    found["cluster-ready-smoke.json"] = _cluster_role("gpupools-ready-smoke", _SMOKE_RULES)
    return found


def _cluster_role(name: str, rules: Iterable[tuple[str, str, list[str], str]]) -> dict[str, Any]:
    """Return a role for `kubectl apply`: https://kubernetes.io/docs/reference/access-authn-authz/rbac/."""
    found = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs} | ({"resourceNames": [only]} if only else {})
        for group, resource, verbs, only in rules
    ]
    meta = {"name": name, "labels": MANAGED_BY}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": found}


def _ready_rules() -> Iterator[tuple[str, str, list[str], str]]:
    for read in READS:
        group = read.api.rpartition("/")[0]
        yield group, read.plural, ["get"] if read.name else ["list"], read.name.rpartition("/")[2]


def _policy_rules() -> Iterator[tuple[str, str, list[str], str]]:
    for read in cluster_objects.READS:
        yield read.api.rpartition("/")[0] if "/" in read.api else "", read.plural, ["list"], ""


_WALK_RULES = (
    ("", "nodes", ["get", "list", "patch"], ""),
    ("", "pods", ["list"], ""),
    ("", "pods/eviction", ["create"], ""),
    ("", "configmaps", ["get"], ""),
    ("nvidia.com", "clusterpolicies", ["list"], ""),
)
"""What `gpupools mig walk --yes` needs."""
_MAKES = ["create", "delete", "get"]
_SMOKE_RULES = (
    ("", "namespaces", _MAKES, ""),
    ("batch", "jobs", _MAKES, ""),
    ("resource.k8s.io", "resourceclaimtemplates", _MAKES, ""),
    ("", "pods", ["list"], ""),
    ("", "pods/log", ["get"], ""),
)
"""What `gpupools ready --smoke` needs in addition."""


def _allowed(found: Iterable[Row], access: Access) -> list[Row]:
    return [row for row in found if access == "deploy" or row.access == "read"]


def _iam_policy(found: Iterable[Row], access: Access) -> dict[str, Any]:
    """Return a policy of IAM: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html."""
    by_target = groupby(sorted(_allowed(found, access), key=lambda row: list(_ON).index(row.on)), lambda row: row.on)
    statements = []
    for on, those in by_target:
        said: dict[str, Any] = {
            "Sid": "".join(word.capitalize() for word in ("any" if on == "*" else on).split()),
            "Effect": "Allow",
            "Action": sorted({row.permission for row in those}),
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
        "includedPermissions": sorted({row.permission for row in _allowed(found, access)}),
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
