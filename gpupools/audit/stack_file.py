"""A stack file: recognized only to name the commands for it."""

from typing import Any

from gpupools.audit.document import Document
from gpupools.common.errors import Problem, Rejected
from gpupools.common.structured_text import Text

FORM = "Pulumi stack file"
_KEYS = {"config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment"}


def recognises(data: Any) -> bool:
    """Return whether this is a stack file: pulumi/pulumi `sdk/go/common/workspace/project.go`, ProjectStack."""
    if not isinstance(data, dict) or not data or not data.keys() <= _KEYS:
        return False
    return isinstance(data.get("config"), dict) or bool(data.keys() & {"encryptionsalt", "encryptedkey"})


def read(text: Text) -> Document:
    """Reject the file.

    Raises:
        Rejected: Always.
    """
    fix = "use gpupools check FILE, or gpupools preview FILE, which applies the same rules"
    raise Rejected([Problem((), "is a stack file, not its output", fix)])
