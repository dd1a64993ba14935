"""Pulumi's wire form as it is written in JSON: unknown values, secrets, assets."""

import json
from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.wire import OUTPUT_VALUE, SECRET, SIGNATURE, UNKNOWN_VALUES

_HIDDEN = "[secret]"
"""How `pulumi preview --json` writes a secret: pulumi/pulumi `pkg/backend/display/json.go`."""


def plain(value: Any) -> Any:
    """Turn inputs as they stand in a file into plain data with `UNKNOWN`.

    Looks through a secret that is written in the clear (`pulumi stack export --show-secrets`); an encrypted one is
    unknown. An asset or archive, which no input of a pool can be, becomes an empty map.
    """
    if isinstance(value, str):
        return UNKNOWN if value == _HIDDEN or value in UNKNOWN_VALUES else value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    match value.get(SIGNATURE):
        case None:
            return {key: plain(item) for key, item in value.items()}
        case signature if signature in (SECRET, OUTPUT_VALUE):
            return _secret_value(value)
        case _:
            return {}


def _secret_value(envelope: JsonObject) -> Any:
    if "value" in envelope:
        return plain(envelope["value"])
    text = envelope.get("plaintext")
    if not isinstance(text, str):
        return UNKNOWN
    try:
        return plain(json.loads(text))
    except (ValueError, RecursionError):
        return UNKNOWN
