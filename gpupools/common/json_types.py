"""Types of data from JSON or YAML, whose values are checked where they are used."""

from collections.abc import Callable, Mapping
from typing import Any

JsonObject = Mapping[str, Any]
"""A read-only map, e.g. the inputs of a resource or a manifest."""

JsonDict = dict[str, Any]
"""A map that is being built."""

_NOTHING: JsonObject = {}


def mapping(value: object) -> JsonObject:
    """Return a map unchanged, and an empty map for any other value."""
    return value if isinstance(value, Mapping) else _NOTHING


def with_items(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a map or list with its items converted, as dict or list, and any other value unchanged."""
    if isinstance(value, Mapping):
        return {key: convert(item) for key, item in value.items()}
    return [convert(item) for item in value] if isinstance(value, list | tuple) else value
