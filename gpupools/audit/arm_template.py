"""A template of Azure Resource Manager as JSON, by hand or from `bicep build`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpupools.audit import arm_resources
from gpupools.audit.document import Document, Resource
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import mapping

FORM = "ARM template"


def recognises(data: Any) -> bool:
    """Return whether this is an ARM template, of any scope."""
    schema = data.get("$schema") if isinstance(data, dict) else None
    return isinstance(schema, str) and "deploymenttemplate.json" in schema.casefold() and "resources" in data


def read(text: Text) -> Document:
    """Read every resource, including those of nested templates."""
    return Document(FORM, tuple(resources(text.values[0].data, text)))


# https://learn.microsoft.com/azure/azure-resource-manager/bicep/bicep-kubernetes-extension
_EXTENDED = re.compile(r"(?P<group>[\w.-]+)/(?P<kind>\w+)@(?P<version>\w+)")


def resources(template: Any, text: Text) -> Iterator[Resource]:
    """Yield the resources of a template."""
    for part in arm_resources.parts(arm_resources.with_defaults(template)):
        extended = _EXTENDED.fullmatch(part.type)
        if extended:  # a Kubernetes object
            group = extended["group"]
            version = extended["version"] if group == "core" else f"{group}/{extended['version']}"
            body = {"apiVersion": version, "kind": extended["kind"], **mapping(part.properties)}
            body = body if part.properties is not UNKNOWN else {**body, "spec": UNKNOWN}
            line = text.line_of(part.name)
            yield Resource(part.path, f"kubernetes:{version}:{extended['kind']}", body, line=line)
            continue
        token = arm_resources.POOLS.get(part.type.casefold())
        closed = arm_resources.closed_part(part)
        inputs = part.properties if isinstance(part.properties, dict) else {}
        if token is not None and not isinstance(part.properties, dict):
            closed = "properties is not literal"
        yield Resource(
            address=part.path,
            type=token or f"arm:{part.type}",
            inputs={"name": part.name, **({"sku": part.sku} if part.sku and token is None else {}), **inputs},
            line=text.line_of(part.name),
            opaque=closed,
        )
