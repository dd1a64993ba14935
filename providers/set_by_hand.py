"""Puts the inputs that a reader set by hand into an SDK's own arguments; the one place where that happens.

Part of every cloud's `resources.py`, and like them never imported by the pure parts.
"""

from collections.abc import Mapping
from typing import Any

# The SDK's own map between Python and wire names; `pulumi.runtime.rpc` uses the same functions for every registration.
from pulumi._types import (  # noqa: TID251 - see above
    input_type_py_to_pulumi_names,
    input_type_to_dict,
    is_input_type,
)

from gpupools.overrides import apply_overrides


def keyword_arguments(args: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a resource's constructor, with overrides merged in.

    Args:
        args: An instance of the resource's `…Args` class; nested values are `…Args` too, not dictionaries.
        overrides: Inputs by wire name, checked by `gpupools.overrides.override_problems`.
    """
    if not overrides:
        return {key: value for key, value in vars(args).items() if value is not None}
    merged = apply_overrides(_plain(args), overrides)
    names = input_type_py_to_pulumi_names(type(args))
    return {key: merged[wire] for key, wire in names.items() if merged.get(wire) is not None}


def wire_inputs(args: object, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs by wire name, for a resource that has no class of its own, with overrides merged in.

    Args:
        args: An instance of the `…Args` class of the resource that does have one.
        overrides: Inputs by wire name, checked by `gpupools.overrides.override_problems`.
    """
    return {key: value for key, value in apply_overrides(_plain(args), overrides).items() if value is not None}


def _plain(value: Any) -> Any:
    """Return maps by wire name in place of the SDK's classes; late values stay as they are."""
    if is_input_type(type(value)):
        return {key: _plain(inner) for key, inner in input_type_to_dict(value).items()}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
