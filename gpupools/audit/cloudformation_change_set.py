"""A change set of CloudFormation, in which functions are evaluated.

`aws cloudformation describe-change-set --include-property-values` prints it. Each change has the properties of its
resource as JSON text: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ResourceChange.html.
"""

from __future__ import annotations

from typing import Any

from gpupools.audit import cloudformation_template
from gpupools.audit.document import Document
from gpupools.common.bounded_yaml import Value
from gpupools.common.json_types import JsonDict
from gpupools.common.structured_text import Text, all_maps, damaged, one_map, parsed_json
from gpupools.policies.wire import plain

FORM = "CloudFormation change set"


def recognises(data: Any) -> bool:
    """Return whether this is a described change set."""
    return isinstance(data, dict) and "ChangeSetName" in data and "Changes" in data


def read(text: Text) -> Document:
    """Read every resource that the change set adds, modifies or imports; it lists no others.

    Raises:
        Rejected: A change has no properties, or the file is damaged.
    """
    resources: JsonDict = {}
    for index, item in enumerate(all_maps(text.values[0].data["Changes"], ("Changes",))):
        change = one_map(item.get("ResourceChange"), ("Changes", index, "ResourceChange"))
        if change.get("Action") == "Remove" or not change:
            continue
        after = parsed_json(str(change.get("AfterContext")))
        if not isinstance(after, dict):
            raise damaged(("Changes", index, "ResourceChange", "AfterContext"), change.get("AfterContext"))
        # `{{changeSet:KNOWN_AFTER_APPLY}}` and dynamic references
        properties = plain(after.get("Properties", {}), lambda given: "{{" in given)
        made = {"Type": change.get("ResourceType"), "Properties": properties, "Metadata": after.get("Metadata")}
        resources[str(change.get("LogicalResourceId"))] = made
    return Document(FORM, tuple(cloudformation_template.resources(Value({"Resources": resources}), text)))
