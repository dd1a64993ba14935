"""`pulumi preview --json`: the steps of an update that was not run (pulumi/pulumi `pkg/display/json.go`)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpupools.audit.document import Document, Resource
from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonObject
from gpupools.common.structured_text import Text, all_maps, damaged, one_map
from gpupools.policies.declared_stack import Gap
from gpupools.policies.wire import plain

FORM = "Pulumi preview"


def recognises(data: Any) -> bool:
    """Return whether this is a preview; one that fails before its first step has no steps."""
    if not isinstance(data, dict):
        return False
    steps = data.get("steps")
    return (isinstance(steps, list) and all(isinstance(step, dict) and "op" in step for step in steps)) or (
        "steps" not in data and "changeSummary" in data and "duration" in data
    )


def read(text: Text) -> Document:
    """Read every resource that will exist after the update.

    Raises:
        Rejected: The preview ended with an error, so that resources may be missing, or the file is damaged.
    """
    data = text.values[0].data
    errors = [
        str(diagnostic.get("message", "")).strip().splitlines()
        for diagnostic in all_maps(data.get("diagnostics"), ("diagnostics",))
        if diagnostic.get("severity") == "error"
    ]
    if errors:
        first = next((lines[0] for lines in errors if lines), "")[:200]
        what = f"the preview failed, so resources may be missing: {first}"
        raise Rejected([Problem((), what, "fix the error and preview again")])
    steps = data.get("steps") or []
    return Document(FORM, tuple(_step_resources(steps, text)), tuple(_gaps(data, steps)), tuple(_ending(steps, text)))


def _ending(steps: list[Any], text: Text) -> Iterator[Resource]:
    """Yield the resources that the update deletes or replaces, as they are."""
    for index, step in enumerate(steps):
        state = one_map(step.get("oldState"), ("steps", index, "oldState"))
        if state and step["op"] in ("delete", "replace"):
            ends = "deletes" if step["op"] == "delete" else "recreates"
            yield replace(resource(state, ("steps", index, "oldState"), text), ends=ends)


def _gaps(data: JsonObject, steps: list[Any]) -> Iterator[Gap]:
    """Yield a gap where unchanged resources are counted and not listed, as the CLI does without --show-sames."""
    summary = one_map(data.get("changeSummary"), ("changeSummary",))
    for op in ("same", *_SHOWN):
        counted = summary.get(op, 0)
        if not isinstance(counted, int) or isinstance(counted, bool):
            raise damaged(("changeSummary", op), counted)
        left_out = counted - sum(step["op"] == op for step in steps)
        if left_out > 0 and op != "same":
            raise damaged(("changeSummary", op), f"{counted}, of which {left_out} have no step")
    left_out = summary.get("same", 0) - sum(step["op"] == "same" for step in steps)
    if left_out > 0:
        yield Gap(
            "unchanged-resources",
            f"{left_out} unchanged resource{'s are' if left_out > 1 else ' is'} counted and not listed, "
            "so their inputs cannot be verified",
            "preview again with: pulumi preview --json --show-sames",
        )


_SHOWN = ("create", "update")
"""Operations of which every step is shown (`shouldShow` in pkg/backend/display/display.go of pulumi/pulumi)."""


def _step_resources(steps: list[Any], text: Text) -> Iterator[Resource]:
    seen = set()
    for index, step in enumerate(steps):
        at = ("steps", index)
        state, urn, op = one_map(step.get("newState"), (*at, "newState")), str(step.get("urn", "")), step["op"]
        if not isinstance(op, str):
            raise damaged((*at, "op"), op)
        # A replacement has three steps (create, replace, delete) with one new state; a deletion and a read have none.
        if not state and op in _SHOWN:
            raise damaged((*at, "newState"), step.get("newState"))
        if state and urn not in seen and not op.startswith(("delete", "discard", "remove")):
            seen.add(urn)
            yield resource(state, (*at, "newState"), text)


def resource(state: JsonObject, at: Path, text: Text) -> Resource:
    """Return a resource of a preview or a state (pulumi/pulumi `apitype.ResourceV3`).

    Args:
        state: The resource.
        at: Its path in the file.
        text: The file.

    Raises:
        Rejected: It has no type, or inputs that are none.
    """
    if not isinstance(state.get("type"), str):
        raise damaged((*at, "type"), state.get("type"))
    inputs, refers = one_map(state.get("inputs"), (*at, "inputs")), state.get("propertyDependencies")
    urn = str(state.get("urn", ""))
    return Resource(
        address=urn,
        type=state["type"],
        inputs=plain(dict(inputs)),
        line=text.line_of(urn),
        id=str(state.get("id", "")),
        refers={
            key: tuple(map(str, urns))
            for key, urns in (refers.items() if isinstance(refers, dict) else ())
            if isinstance(urns, list)
        },
        depends=tuple(map(str, depends)) if isinstance(depends := state.get("dependencies"), list) else (),
        parent=str(state.get("parent") or ""),
        provider=str(state.get("provider") or "").rpartition("::")[0],  # <urn>::<id>
        protect=state.get("protect") is True,
        # urn:pulumi:<stack>::<project>::<types>::<name>
        component=state.get("custom") is False,
        stack=urn.removeprefix("urn:pulumi:").partition("::")[0] if urn.startswith("urn:pulumi:") else "",
    )
