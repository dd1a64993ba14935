"""`gpupools preview --json`: resources that the offline preview declared."""

from typing import Any

from gpupools.audit.document import Document
from gpupools.audit.pulumi_preview import resource
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import Text, all_maps
from gpupools.policies.wire import plain
from gpupools.spec.overrides import NOT_SHOWN

FORM = "gpupools preview"


def recognises(data: Any) -> bool:
    """Return whether this is a gpupools preview."""
    return isinstance(data, dict) and {"pools", "resources", "policy", "problems"} <= data.keys()


def read(text: Text) -> Document:
    """Read every resource.

    Raises:
        Rejected: The preview was refused (its problems are not repeated), or the file is damaged.
    """
    data = text.values[0].data
    problems = data["problems"]
    if problems:
        count = len(problems) if isinstance(problems, list) else 1
        what = f"is a preview that was rejected for {count} {'problem' if count == 1 else 'problems'}"
        raise Rejected([Problem((), what, "fix them (gpupools check shows them) and preview again")])
    states = enumerate(map(_as_in_a_state, all_maps(data["resources"], ("resources",))))
    return Document(FORM, tuple(resource(state, ("resources", index), text) for index, state in states))


def _as_in_a_state(state: JsonObject) -> JsonDict:
    """Return a resource with its options in the places that a Pulumi state has for them."""
    given = state.get("options")
    options = given if isinstance(given, dict) else {}
    places = {"provider": "provider", "protect": "protect", "propertyDependencies": "propertyDependencies"}
    places["dependencies"] = "dependsOn"
    return {
        **state,
        "inputs": plain(state.get("inputs"), lambda text: text.endswith(NOT_SHOWN)),
        **{key: options[option] for key, option in places.items() if option in options},
    }
