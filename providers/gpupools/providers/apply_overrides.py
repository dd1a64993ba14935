"""Merges overrides into the arguments of an SDK's resource.

Part of every cloud's `resources.py`, and like them never imported by the pure parts.
"""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.providers.sdk_internals import is_input_type, wire_names, wire_values
from gpupools.spec.overrides import apply_overrides


def python_arguments(kind: type, inputs: JsonObject) -> JsonDict:
    """Return the keyword arguments of a resource's constructor from its inputs by wire name; None means left out.

    Args:
        kind: The resource's `…Args` class. Nested inputs may be maps by wire name.
        inputs: By wire name, with overrides merged in.
    """
    names = {wire: python for python, wire in wire_names(kind).items()}
    return {names[wire]: value for wire, value in inputs.items() if value is not None}


def wire_inputs(args: object, overrides: JsonObject) -> JsonDict:
    """Return inputs by wire name with overrides merged in.

    Args:
        args: An instance of the resource's `…Args` class, or a map by wire name.
        overrides: Inputs by wire name, checked by `gpupools.spec.overrides.override_problems`.
    """
    return {key: value for key, value in apply_overrides(_wire_value(args), overrides).items() if value is not None}


def _wire_value(value: Any) -> Any:
    """Return maps by wire name in place of the SDK's classes, without null; late values stay as they are."""
    if is_input_type(type(value)):
        return {key: _wire_value(inner) for key, inner in wire_values(value).items()}
    if isinstance(value, Mapping):
        return {key: _wire_value(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_wire_value(inner) for inner in value]
    return value
