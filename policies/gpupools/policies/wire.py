"""Turns a resource's inputs into plain data: dict, list, str, float, bool, None, and `UNKNOWN`. Never raises.

Envelopes and values that stand for unknown ones: pulumi/pulumi `sdk/go/common/resource/sig/sig.go` and
`sdk/go/common/resource/plugin/rpc.go`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpupools.common.json_types import JsonDict
from gpupools.plan.pool_facts import UNKNOWN

if TYPE_CHECKING:  # whoever reads files needs no wire format and none of Pulumi's packages
    from google.protobuf import struct_pb2

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

UNKNOWN_VALUES = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # a boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # a number
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # a string
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # an array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # an asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # an archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # an object
        "[secret]",  # a secret in `pulumi preview --json`: pulumi/pulumi `pkg/backend/display/json.go`
    }
)


def decoded(struct: struct_pb2.Struct) -> JsonDict:
    """Decode a resource's properties; secrets are looked through.

    An asset or archive, which no input of a pool can be, becomes an empty dict: neither absent nor a value that could
    satisfy a rule.
    """
    return {key: plain(_value(value)) for key, value in struct.fields.items()}


def _value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {key: _value(item) for key, item in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_value(item) for item in value.list_value.values]
    return getattr(value, kind) if kind not in (None, "null_value") else None


def plain(value: Any, is_unknown: Callable[[str], bool] = UNKNOWN_VALUES.__contains__) -> Any:
    """Turn inputs in wire form, as Python's own types, into plain data.

    A secret in the clear, as `pulumi stack export --show-secrets` writes it, is looked through.

    Args:
        value: The inputs.
        is_unknown: Returns whether a text stands for a value that is not known.
    """
    if isinstance(value, str):
        return UNKNOWN if is_unknown(value) else value
    if value is None or value is UNKNOWN or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        signature = value.get(SIGNATURE)
        if SIGNATURE not in value:
            return {key: plain(item, is_unknown) for key, item in value.items()}
        return _secret(value) if isinstance(signature, str) and signature in (SECRET, OUTPUT_VALUE) else {}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(item, is_unknown) for item in value]
    return {}


def _secret(envelope: Mapping[str, Any]) -> Any:
    text = envelope.get("plaintext")
    if "value" in envelope or not isinstance(text, str):
        return plain(envelope.get("value", UNKNOWN))
    try:
        return plain(json.loads(text))
    except (ValueError, RecursionError):
        return UNKNOWN
