"""Finds inputs that run code on GKE nodes, open them or set their identity. Pure, and never raises."""

import re
from collections.abc import Iterator
from pathlib import Path

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, NodeCustomization
from gpupools.readback.inputs import mapping
from gpupools.readback.node_customization import customizations_in, input_rows

_METADATA = "https://docs.cloud.google.com/compute/docs/metadata/predefined-metadata-keys"
_ROWS, _OVERRIDES = (input_rows(Path(__file__).parent, resource) for resource in ("NodePool", "overrides"))
_SCRIPT = re.compile(r"(?:windows-)?(?:startup|shutdown)-script(?:-.*)?|user-data|configure-sh|containerd-configure-sh")
_KEYS = re.compile(r"ssh-?keys", re.IGNORECASE)


def node_customizations(config: JsonObject, prefix: str = "nodeConfig.") -> Iterator[NodeCustomization]:
    """Yield the customizations in the configuration of nodes.

    Args:
        config: `nodeConfig` by wire name; that of `overrides`, or all that is declared.
        prefix: Where it is in its resource.
    """
    metadata = config.get("metadata")
    if metadata is UNKNOWN:
        why = "what of it runs or lets in is not known yet"
        yield NodeCustomization("start-up-script", f"{prefix}metadata", why, _METADATA, True)
    for key, value in mapping(metadata).items():
        where, late = f"{prefix}metadata.{key}", value is UNKNOWN
        if value is not None and _SCRIPT.fullmatch(str(key)):
            yield NodeCustomization("start-up-script", where, "it runs on every node, as root", _METADATA, late)
        elif value is not None and _KEYS.fullmatch(str(key)):
            yield NodeCustomization("ssh-keys", where, "whoever has a key logs in to every node", _METADATA, late)
    yield from customizations_in(config, _ROWS, prefix)


def customizations(resource: str, inputs: JsonObject) -> Iterator[NodeCustomization]:
    """Yield what `overrides` set: the same, and an account that is not the cluster's."""
    config = mapping(inputs.get("nodeConfig"))
    yield from node_customizations(config)
    yield from customizations_in(config, _OVERRIDES, "nodeConfig.")
