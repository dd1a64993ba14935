"""Renders `Stack` objects of the Pulumi Kubernetes Operator v2 for the stacks of a repository.

The fields: pulumi/pulumi-kubernetes-operator v2.9.0, deploy/crds/pulumi.com_stacks.yaml.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.repository import Placed


class Origin(NamedTuple):
    """Repository and organization of the stacks."""

    repository: str
    branch: str
    organization: str


def stack_objects(
    stacks: Sequence[tuple[Placed, Sequence[tuple[str, Placed | None]]]], origin: Origin, root: Path
) -> str:
    """Return one object per stack as YAML, with its prerequisites; `root` is the top of the repository.

    Raises:
        Rejected: Two stacks would have the same object name, or a project is outside the folder.
    """
    found: dict[str, JsonDict] = {}
    for placed, after in stacks:
        name = _object_name(placed)
        if name in found:
            what = f"two stacks would have the object name {name}"
            raise Rejected([Problem((placed.name,), what, "rename one of the two")])
        top = root.absolute().resolve()
        folder = placed.project.folder.absolute().resolve()
        if not folder.is_relative_to(top):
            what = f"its Pulumi.yaml is above {root}, so its path in the repository is unknown"
            raise Rejected([Problem((placed.name,), what, "run the command at the top of the repository")])
        found[name] = _object(
            name, placed, [one for _, one in after if one is not None], origin, folder.relative_to(top)
        )
    return yaml.safe_dump_all(found.values(), sort_keys=False, explicit_start=True).removesuffix("\n")


def _object(name: str, placed: Placed, before: Sequence[Placed], origin: Origin, folder: Path) -> JsonDict:
    spec: JsonDict = {
        "stack": f"{origin.organization}/{placed.project.name}/{stack_name(placed.file)}",
        "projectRepo": origin.repository,
        "branch": origin.branch if origin.branch.startswith("refs/") else f"refs/heads/{origin.branch}",
        "repoDir": folder.as_posix(),
        "serviceAccountName": "pulumi",
        # A typing error must not create a stack, and deleting the object must not destroy one.
        "useLocalStackOnly": True,
        "destroyOnFinalize": False,
    }
    if before:
        spec["prerequisites"] = [{"name": _object_name(each)} for each in before]
    return {"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": name}, "spec": spec}


def _object_name(placed: Placed) -> str:
    """Return a valid Kubernetes object name: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/."""
    return re.sub(r"[^a-z0-9]+", "-", placed.name.casefold()).strip("-")[:63].rstrip("-")
