"""A what-if result of Azure Resource Manager, in which expressions are evaluated.

`az deployment group what-if --no-pretty-print` prints it:
https://learn.microsoft.com/rest/api/resources/deployments/what-if#whatifoperationresult. What each type of change
means: https://learn.microsoft.com/azure/azure-resource-manager/templates/deploy-what-if#change-types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupools.audit import arm_template
from gpupools.audit.document import Document, Resource
from gpupools.common.errors import Problem, Rejected
from gpupools.common.structured_text import Text, all_maps

FORM = "ARM what-if result"


def recognises(data: Any) -> bool:
    """Return whether this is a what-if result."""
    return isinstance(data, dict) and "changes" in data and "status" in data and "error" in data


def read(text: Text) -> Document:
    """Read every resource that the deployment creates, modifies or leaves as it is.

    Raises:
        Rejected: The operation failed, or the file is damaged.
    """
    data = text.values[0].data
    if data["error"] or data["status"] != "Succeeded":
        raise Rejected(
            [Problem((), "is a what-if operation that failed", "correct the deployment and run what-if again")]
        )
    resources: list[Resource] = []
    for change in all_maps(data["changes"], ("changes",)):
        kind, after, address = change.get("changeType"), change.get("after"), str(change.get("resourceId"))
        if kind == "Delete" or (kind == "Ignore" and change.get("before")):
            continue  # one that exists and is not part of the deployment is ignored
        if isinstance(after, dict) and "type" in after and kind != "Unsupported":
            found = arm_template.resources({"resources": [after]}, text)
            resources += (replace(resource, address=address) for resource in found)
        else:
            why = f"what-if does not show its values (changeType {kind})"
            resources.append(Resource(address, f"arm:{kind}", {}, line=text.line_of(address), opaque=why))
    return Document(FORM, tuple(resources))
