"""Renders `Stack` objects of the Pulumi Kubernetes Operator v2 for the stacks of a repository.

The fields: pulumi/pulumi-kubernetes-operator v2.9.0, deploy/crds/pulumi.com_stacks.yaml.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.repository import Placed


def stack_objects(
    stacks: Sequence[tuple[Placed, Sequence[tuple[str, Placed | None]]]],
    repository: str,
    branch: str,
    organization: str,
    root: Path,
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
        top, folder = root.absolute().resolve(), placed.project.folder.absolute().resolve()
        if not folder.is_relative_to(top):
            what = f"its Pulumi.yaml is above {root}, so its path in the repository is unknown"
            raise Rejected([Problem((placed.name,), what, "run the command at the top of the repository")])
        spec: JsonDict = {
            "stack": f"{organization}/{placed.project.name}/{stack_name(placed.file)}",
            "projectRepo": repository,
            "branch": branch if branch.startswith("refs/") else f"refs/heads/{branch}",
            "repoDir": folder.relative_to(top).as_posix(),
            "serviceAccountName": "pulumi",
            # A typing error must not create a stack, and deleting the object must not destroy one.
            "useLocalStackOnly": True,
            "destroyOnFinalize": False,
        }
        if before := [{"name": _object_name(other)} for _, other in after if other is not None]:
            spec["prerequisites"] = before
        found[name] = {"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump_all(found.values(), sort_keys=False, explicit_start=True).removesuffix("\n")


def _object_name(placed: Placed) -> str:
    """Return a valid Kubernetes object name: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/."""
    return re.sub(r"[^a-z0-9]+", "-", placed.name.casefold()).strip("-")[:63].rstrip("-")
