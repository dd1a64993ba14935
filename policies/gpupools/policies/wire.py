"""Turns a resource's inputs into plain data: dict, list, str, float, bool, None, and `UNKNOWN`. Never raises.

Envelopes and values that stand for unknown ones: pulumi/pulumi `sdk/go/common/resource/sig/sig.go` and
`sdk/go/common/resource/plugin/rpc.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    }
)


def decoded(struct: struct_pb2.Struct) -> JsonDict:
    """Decode a resource's properties; secrets are looked through.

    An asset or archive, which no input of a pool can be, becomes an empty dict: neither absent nor a value that could
    satisfy a rule.
    """
    return {key: _value(value) for key, value in struct.fields.items()}


def _value(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            text = value.string_value
            return UNKNOWN if text in UNKNOWN_VALUES else text
        case "struct_value":
            fields = value.struct_value.fields
            if SIGNATURE in fields:
                if fields[SIGNATURE].string_value not in (SECRET, OUTPUT_VALUE):
                    return {}
                return _value(fields["value"]) if "value" in fields else UNKNOWN
            return {key: _value(item) for key, item in fields.items()}
        case "list_value":
            return [_value(item) for item in value.list_value.values]
        case "number_value":
            return value.number_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def plain(value: Any) -> Any:
    """Turn inputs in wire form, as Python's own types, into plain data, as `decoded` does."""
    if isinstance(value, str):
        return UNKNOWN if value in UNKNOWN_VALUES else value
    if value is None or value is UNKNOWN or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        if SIGNATURE in value:
            known = value[SIGNATURE] in (SECRET, OUTPUT_VALUE) if isinstance(value[SIGNATURE], str) else False
            return plain(value.get("value", UNKNOWN)) if known else {}
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    return {}
