"""A Terraform state as JSON (`terraform show -json` without a plan): what exists now, where every value is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.documents.document import Document, Resource
from policies.documents.terraform_plan import Found, check_version, resources_of
from policies.documents.text import Text

FORM = "Terraform state"


def recognises(data: Any) -> bool:
    """Say whether this is a state; an empty one has no values."""
    return (
        isinstance(data, dict) and "format_version" in data and ("values" in data or data.keys() == {"format_version"})
    )


def read(text: Text) -> Document:
    """Read every managed resource of every module.

    Raises:
        Rejected: The format is newer than this reader.
    """
    data = text.values[0].data
    check_version(data)
    values = data.get("values")
    root = values.get("root_module") if isinstance(values, dict) else None
    return Document(FORM, tuple(_resources(root, text)))


def _resources(module: Any, text: Text) -> Iterator[Resource]:
    if not isinstance(module, dict):
        return
    for resource in module.get("resources") or []:
        if isinstance(resource, dict) and resource.get("mode") == "managed":
            given = resource.get("values")
            values = given if isinstance(given, dict) else {}
            found = Found(
                type=str(resource.get("type")),
                name=str(resource.get("name")),
                address=str(resource.get("address")),
                module=str(module.get("address", "")),
                index=resource.get("index"),
                id=str(values.get("id") or ""),
                values=values,
            )
            yield from resources_of(found, values, {}, text)
    for child in module.get("child_modules") or []:
        yield from _resources(child, text)
