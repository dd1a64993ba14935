"""Node groups of EKS that were made by other means: they are told apart, and refused with the reason. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.base.errors import Rejected
from gpupools.planned.outside import Found, Outside, refuse

_TOKEN = "aws:eks/nodeGroup:NodeGroup"


def _refused(name: object) -> Rejected:
    what = (
        "is a node group of EKS: what its nodes are stands in a launch template, of its own or of EKS's making, and to "
        "give it another replaces every node"
    )
    fix = "leave it with what manages it, and let a new pool take its pods over"
    return refuse(name, what, fix, "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")


def _described(data: Mapping[str, Any]) -> Found | None:
    group = data.get("nodegroup")
    if isinstance(group, Mapping) and "nodegroupName" in group:
        raise _refused(group["nodegroupName"])
    return None


def _declared(kind: str, inputs: Mapping[str, Any], identifier: str) -> Found | None:
    if kind == _TOKEN:
        raise _refused(inputs.get("nodeGroupName") or identifier)
    return None


def _keys(found: Found) -> tuple[dict[str, Any], dict[str, Any]]:
    raise _refused(found.name)


OUTSIDE = Outside(resource="NodeGroup", described=_described, declared=_declared, keys=_keys)
