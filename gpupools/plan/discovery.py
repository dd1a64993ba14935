"""Reads what a cloud's command line or Terraform prints about an existing cluster, for a new stack file."""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject


class Described(NamedTuple):
    """What an output says about a cluster."""

    keys: JsonObject
    """Keys of the cluster. `cpu_taints` has the taints of each group of CPU nodes; `kubernetes` is the version."""
    left_out: JsonObject = MappingProxyType({})
    """By key of the cluster: why the output has no value for it, and what to do, unless a flag sets it."""


def recognize_nothing(printed: JsonObject) -> Described | None:
    """Recognize no output."""
    return None


class Discovery(NamedTuple):
    """How the keys of an existing cluster are found for a new stack file."""

    commands: tuple[str, ...] = ()
    """Commands that print the cluster as JSON; names in capitals are placeholders."""
    read: Callable[[JsonObject], Described | None] = recognize_nothing
    """Return the cluster keys that the output contains; None where it is no cluster of this cloud.

    Rejects a cluster that cannot have node pools.
    """
    outputs: Callable[[JsonObject], Described | None] = recognize_nothing
    """Return the same from the values of Terraform outputs, named as the module for this cloud names them."""
    which: tuple[str, ...] = ("name",)
    """Keys that identify the cluster."""
    asked: tuple[str, ...] = ()
    """Further keys that a stack file needs."""


def inner(value: Any, *keys: str) -> Any:
    """Return the value under nested keys, None where one is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def maps(value: Any) -> list[JsonObject]:
    """Return the maps of a list or of a map of maps."""
    items: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [each for each in items if isinstance(each, Mapping)]


def texts(found: JsonObject) -> JsonDict:
    """Keep strings, lists of strings and true; other values under these names are no cluster keys."""

    def fits(value: Any) -> bool:
        several = value if isinstance(value, list) else [value]
        return value is True or (bool(several) and all(isinstance(each, str) and each for each in several))

    return {key: value for key, value in found.items() if fits(value)}


def minor_version(text: Any) -> str | None:
    """Return `1.34` of `1.34`, `1.34.3` and `1.34.1-gke.1829001`."""
    found = re.match(r"v?(1\.[0-9]+)(?:[.+-]|$)", text) if isinstance(text, str) else None
    return found[1] if found else None


_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html and NodeTaint of GKE's API name them alike."""


def taint_texts(taints: Any) -> list[str]:
    """Return taints of a node group as `kubectl taint` writes them, without those that only prefer."""
    found = []
    for each in maps(taints):
        effect = _EFFECTS.get(str(each.get("effect")), str(each.get("effect")))
        found.append(f"{each.get('key')}={each.get('value') or ''}:{effect}".replace("=:", ":"))
    return [each for each in found if not each.endswith(":PreferNoSchedule")]
