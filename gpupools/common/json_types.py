"""Types of data that comes from JSON or YAML, whose values are checked where they are read."""

from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]
"""A map that is only read, e.g. the inputs of a resource or a manifest."""

JsonDict = dict[str, Any]
"""A map that is being built."""
