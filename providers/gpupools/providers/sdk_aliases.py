"""What the Pulumi SDK works out of aliases and nobody reads, left out.

An agent pool of AKS has 83 types in older versions of its API, each an alias, and the SDK makes the URN of each out of
several outputs. An engine that takes aliases as they are written (`RESOURCE_MONITOR_FEATURE_ALIAS_SPECS`) is sent no
such URN: `prepare_aliases` in https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/resource.py.
"""

from importlib import import_module
from typing import Any

import pulumi
from pulumi.runtime.proto import resource_pb2

REPLACED = ("pulumi.resource", "collapse_alias_to_urn")
"""The internal that is replaced: module and name. An SDK that has it no longer by its name runs as it is."""


def make_no_urns_of_aliases() -> None:
    """Let the SDK make no such URNs from now on, where the engine of this program needs none."""
    features = getattr(pulumi.runtime.settings.SETTINGS, "monitor_features", ())
    module, name = import_module(REPLACED[0]), REPLACED[1]
    if resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS in features and hasattr(module, name):
        setattr(module, name, urn_if_it_can_fail(getattr(module, name)))


def urn_if_it_can_fail(urn_of: Any) -> Any:
    """Return the SDK's function without its work for aliases that give a type or a name alone."""

    def urn_if_it_can_fail(alias: Any, *defaults: Any) -> Any:
        return None if _cannot_fail(alias) else urn_of(alias, *defaults)

    return urn_if_it_can_fail


def _cannot_fail(alias: Any) -> bool:
    """Tell whether an alias gives a type or a name as text and nothing else: its URN waits for nothing."""
    left_out: Any = ...
    return (
        isinstance(alias, pulumi.Alias)
        and all(part is left_out or isinstance(part, str) for part in (alias.type_, alias.name))
        and all(part is left_out for part in (alias.parent, alias.stack, alias.project))
    )
