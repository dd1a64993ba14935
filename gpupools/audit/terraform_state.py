"""A Terraform state as JSON (`terraform show -json` without a plan): what exists now, where every value is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupools.audit.document import Document, Resource
from gpupools.audit.terraform_plan import check_version
from gpupools.audit.terraform_resources import instance_of, resources_of
from gpupools.common.errors import Path
from gpupools.common.structured_text import Text, all_maps, damaged, one_map

FORM = "Terraform state"


def recognises(data: Any) -> bool:
    """Say whether this is a state; an empty one has no values."""
    return (
        isinstance(data, dict) and "format_version" in data and ("values" in data or data.keys() == {"format_version"})
    )


def read(text: Text) -> Document:
    """Read every managed resource of every module.

    Raises:
        Rejected: The format is newer than this reader, or the file is damaged.
    """
    data = text.values[0].data
    check_version(data)
    root = one_map(data.get("values"), ("values",)).get("root_module")
    return Document(FORM, tuple(_state_resources(root, ("values", "root_module"), text)))


def _state_resources(given: Any, at: Path, text: Text) -> Iterator[Resource]:
    module = one_map(given, at)
    for index, resource in enumerate(all_maps(module.get("resources"), (*at, "resources"))):
        for key in ("mode", "type"):
            if not isinstance(resource.get(key), str):
                raise damaged((*at, "resources", index, key), resource.get(key))
        if resource["mode"] == "managed":
            values = one_map(resource.get("values"), (*at, "resources", index, "values"))
            yield from resources_of(instance_of(resource, values, module.get("address")), text)
    for index, child in enumerate(all_maps(module.get("child_modules"), (*at, "child_modules"))):
        yield from _state_resources(child, (*at, "child_modules", index), text)
