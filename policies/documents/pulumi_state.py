"""`pulumi stack export`: what exists now (pulumi/pulumi `sdk/go/common/apitype/core.go`, DeploymentV3)."""

from typing import Any

from policies.documents.document import Document
from policies.documents.pulumi_preview import resource
from policies.documents.text import Text

FORM = "Pulumi state"


def recognises(data: Any) -> bool:
    """Say whether this is an exported state; that of a new stack has no resources."""
    return isinstance(data, dict) and isinstance(data.get("deployment"), dict) and "version" in data


def read(text: Text) -> Document:
    """Read every resource but those a running replacement is about to delete."""
    found = text.values[0].data["deployment"].get("resources")
    kept = [
        state
        for state in (found if isinstance(found, list) else [])
        if isinstance(state, dict) and not state.get("delete")
    ]
    return Document(FORM, tuple(resource(state, text) for state in kept))
