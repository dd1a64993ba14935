"""`pulumi stack export`: what exists now (pulumi/pulumi `sdk/go/common/apitype/core.go`, DeploymentV3)."""

from typing import Any

from gpupools.audit.document import Document
from gpupools.audit.pulumi_preview import resource
from gpupools.common.structured_text import Text, all_maps

FORM = "Pulumi state"


def recognises(data: Any) -> bool:
    """Return whether this is an exported state; that of a new stack has no resources."""
    return isinstance(data, dict) and isinstance(data.get("deployment"), dict) and "version" in data


def read(text: Text) -> Document:
    """Read every resource but those a running replacement is about to delete.

    Raises:
        Rejected: The file is damaged.
    """
    at = ("deployment", "resources")
    states = all_maps(text.values[0].data["deployment"].get("resources"), at)
    found = ((state, (*at, index)) for index, state in enumerate(states) if not state.get("delete"))
    return Document(FORM, tuple(resource(state, where, text) for state, where in found))
