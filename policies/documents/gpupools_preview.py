"""`gpupools preview --json`: what this project's own offline preview declared."""

from typing import Any

from gpupools.errors import Problem, Rejected
from policies.documents.document import Document
from policies.documents.pulumi_preview import resource
from policies.documents.text import Text

FORM = "gpupools preview"


def recognises(data: Any) -> bool:
    """Say whether this is such an output."""
    return isinstance(data, dict) and {"pools", "resources", "policy", "problems"} <= data.keys()


def read(text: Text) -> Document:
    """Read every resource.

    Raises:
        Rejected: The preview was refused; its problems are not repeated.
    """
    data = text.values[0].data
    problems, found = data["problems"], data["resources"]
    if problems:
        count = len(problems) if isinstance(problems, list) else 1
        what = f"is a preview that was refused for {count} {'problem' if count == 1 else 'problems'}"
        raise Rejected([Problem((), what, "cure them (gpupools check shows them) and preview again")])
    states = [state for state in (found if isinstance(found, list) else []) if isinstance(state, dict)]
    return Document(FORM, tuple(resource(state, text) for state in states))
