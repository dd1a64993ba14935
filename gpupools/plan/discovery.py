"""Reads what a cloud's command line prints about an existing cluster, for a new stack file."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpupools.common.json_types import JsonObject


def recognize_nothing(printed: JsonObject) -> JsonObject | None:
    """Recognize no output."""
    return None


class Discovery(NamedTuple):
    """How the keys of an existing cluster are found for a new stack file."""

    commands: tuple[str, ...] = ()
    """Commands that print the cluster as JSON; names in capitals are placeholders."""
    read: Callable[[JsonObject], JsonObject | None] = recognize_nothing
    """Return the cluster keys that the output contains; None where it is no cluster of this cloud.

    Rejects a cluster that cannot have node pools.
    """
    which: tuple[str, ...] = ("name",)
    """Keys that identify the cluster."""
    asked: tuple[str, ...] = ()
    """Further keys that a stack file needs."""


def inner(value: Any, *keys: str) -> Any:
    """Return the value under nested keys, None where one is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def texts(found: JsonObject) -> JsonObject:
    """Keep strings and lists of strings; other values under these names are no cluster keys."""

    def fits(value: Any) -> bool:
        several = value if isinstance(value, list) else [value]
        return bool(several) and all(isinstance(each, str) and each for each in several)

    return {key: value for key, value in found.items() if fits(value)}
