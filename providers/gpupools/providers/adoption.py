"""Pulumi options of a pool's resource on every cloud: import and timeouts."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pulumi

from gpupools.common.json_types import JsonObject
from gpupools.plan.provider_plan import AdoptedPool


def import_options(
    adopted: AdoptedPool | None,
    inputs: JsonObject,
    paths: Iterable[str],
    known: Collection[str],
    whole: Collection[str] = (),
) -> pulumi.ResourceOptions | None:
    """Return the options that import an existing pool; None for a new pool.

    What its inputs do not say stays as it was made, and so does what it is told to keep: an import brings the inputs
    that the provider reads into the state (pulumi/pulumi pkg/resource/deploy/step.go, `ImportStep`), and what the
    program leaves out would be a change, for many inputs one that replaces the pool.

    Args:
        adopted: The pool in the cloud.
        inputs: What is declared, by wire name.
        paths: Every input of a pool, dotted.
        known: What its resource takes: a pool may have other resources, too.
        whole: Inputs that are declared as a whole, so that what is left out inside them is not to stay.
    """
    if adopted is None:
        return None
    told = (path for path in paths if path.partition(".")[0] in known)
    unsaid = {_missing_path(path, inputs) for path in told if path.partition(".")[0] not in whole} - {""}
    ignored = {*unsaid, *adopted.kept}
    return pulumi.ResourceOptions(import_=adopted.id, ignore_changes=sorted(ignored))


def _missing_path(path: str, inputs: JsonObject) -> str:
    """Return the first part of a path that the inputs lack; empty if they have the whole path."""
    reached: Any = inputs
    for key in (keys := path.split(".")):
        if not isinstance(reached, Mapping):
            return ""
        if reached.get(key) is None:
            return ".".join(keys[: keys.index(key) + 1])
        reached = reached[key]
    return ""


def custom_timeouts(create: int, update: int, delete: int) -> pulumi.CustomTimeouts:
    """Return Pulumi's timeouts in minutes."""
    return pulumi.CustomTimeouts(create=f"{create}m", update=f"{update}m", delete=f"{delete}m")
