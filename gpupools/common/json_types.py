"""Types of data from JSON or YAML, whose values are checked where they are used."""

from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]
"""A read-only map, e.g. the inputs of a resource or a manifest."""

JsonDict = dict[str, Any]
"""A map that is being built."""

_NOTHING: JsonObject = {}


def mapping(value: object) -> JsonObject:
    """Return a map unchanged, and an empty map for any other value."""
    return value if isinstance(value, Mapping) else _NOTHING
