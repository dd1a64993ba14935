"""Write `terraform_names.json` of the policies' documents: where Pulumi's names and shapes differ from Terraform's.

Pulumi's AWS and Google Cloud providers are made from Terraform's, by two rules that cannot be undone without the
schema (https://github.com/pulumi/pulumi-terraform-bridge, `pkg/tfbridge/names.go`): a block that may stand once becomes
an object, and a list gets a plural name (`blocks`, `values`). The installed SDKs know which ones; everything else is
snake case against camel case. Azure's resources are other ones, mapped by hand in
`gpupools/audit/terraform_azure.json`.

Run it after an SDK was updated: `python -m tooling.write_terraform_names`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpupools.plan.input_types import InputTypes
from tooling.sdk_types import input_types

FILE = Path(str(files("gpupools.audit") / "terraform_names.json"))

TOKENS = {
    "aws_autoscaling_group": "aws:autoscaling/group:Group",
    "aws_ec2_fleet": "aws:ec2/fleet:Fleet",
    "aws_eks_cluster": "aws:eks/cluster:Cluster",
    "aws_eks_node_group": "aws:eks/nodeGroup:NodeGroup",
    "aws_instance": "aws:ec2/instance:Instance",
    "aws_launch_configuration": "aws:ec2/launchConfiguration:LaunchConfiguration",
    "aws_launch_template": "aws:ec2/launchTemplate:LaunchTemplate",
    "aws_spot_fleet_request": "aws:ec2/spotFleetRequest:SpotFleetRequest",
    "aws_spot_instance_request": "aws:ec2/spotInstanceRequest:SpotInstanceRequest",
    "google_compute_instance": "gcp:compute/instance:Instance",
    "google_compute_instance_group_manager": "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "google_compute_instance_template": "gcp:compute/instanceTemplate:InstanceTemplate",
    "google_compute_region_instance_group_manager": "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "google_compute_region_instance_template": "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    "google_container_cluster": "gcp:container/cluster:Cluster",
    "google_container_node_pool": "gcp:container/nodePool:NodePool",
}
"""Pulumi's type token of each Terraform type."""


def names() -> dict[str, Any]:
    """Return the table, made from the installed SDKs."""
    return {kind: _entry(token) for kind, token in TOKENS.items()}


def _entry(token: str) -> dict[str, Any]:
    types = input_types([token])
    found = sorted(_differences(types, types.resources[token], ()))
    return {
        "type": token,
        "objects": [path for kind, path, _ in found if kind == "objects"],
        **{
            kind: {terraform: path.rpartition(".")[2] for given, path, terraform in found if given == kind}
            for kind in ("blocks", "values")
        },
    }


def _differences(of: InputTypes, kind: str, at: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, path and Terraform's path of each object, and of each list whose name is a plural."""
    shape = of.types.get(kind)
    for key, text in shape.items() if isinstance(shape, Mapping) else ():
        name = key.removesuffix("!")
        path = (*at, name)
        is_list = text.startswith("[]")
        inner = [part for part in text.removeprefix("[]").split("|") if isinstance(of.types.get(part), Mapping)]
        if is_list and (one := singular(name)) != name:
            yield "blocks" if inner else "values", ".".join(path), ".".join((*at, snake(one)))
        for part in inner:
            if not is_list:
                yield "objects", ".".join(path), ""
            yield from _differences(of, part, path)


def singular(name: str) -> str:
    """Undo the bridge's plural: `taints` to `taint`, `capacities` to `capacity`."""
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if re.search(r"(ss|x|ch|sh)es$", name):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def snake(name: str) -> str:
    """Write a camel-case name in snake case."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


if __name__ == "__main__":
    FILE.write_text(json.dumps(names(), indent=1) + "\n", encoding="utf-8")
