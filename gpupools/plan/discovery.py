"""What a cloud's own command says of a cluster that exists, for a new stack file."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpupools.common.json_types import JsonObject


def says_nothing(told: JsonObject) -> JsonObject | None:
    """Know no command."""
    return None


class Discovery(NamedTuple):
    """How a cluster of a cloud is looked up by whoever writes a stack file."""

    commands: tuple[str, ...] = ()
    """What prints it as JSON; names in capitals are the reader's."""
    read: Callable[[JsonObject], JsonObject | None] = says_nothing
    """Return the keys of a cluster that such an answer tells; None where it is not one of this cloud's.

    A cluster that can have no node pool is rejected.
    """
    which: tuple[str, ...] = ("name",)
    """Keys that say which cluster it is."""
    asked: tuple[str, ...] = ()
    """Keys that a file needs besides those every cluster must have."""


def inner(told: Any, *keys: str) -> Any:
    """Return what stands below some keys, None where that is not there."""
    for key in keys:
        told = told.get(key) if isinstance(told, Mapping) else None
    return told


def texts(found: JsonObject) -> JsonObject:
    """Keep texts and lists of texts; whatever else a file has under these names is no cluster's key."""

    def fits(value: Any) -> bool:
        several = value if isinstance(value, list) else [value]
        return bool(several) and all(isinstance(each, str) and each for each in several)

    return {key: value for key, value in found.items() if fits(value)}
