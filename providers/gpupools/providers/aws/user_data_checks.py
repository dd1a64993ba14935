"""Checks the user data that a pool sets by hand, without reading what it does. Pure."""

import base64
import re
import tomllib
import zlib
from contextlib import suppress

from gpupools.common.taints import GPU_TAINT
from gpupools.providers.aws.bootstrap import MOST_USER_DATA

_MOST_UNPACKED = 262_144
_QUOTED_HEADER = re.compile(r"(?m)^[ \t]*\[+[^\]\n\"']*[\"']")


def decode_user_data(given: str) -> str | None:
    """Undo base64 and gzip once each; return None where no text comes of it, or more than a machine starts with."""
    raw = given.encode(errors="replace")
    with suppress(ValueError):
        raw = base64.b64decode(b"".join(raw.split()), validate=True)
    try:
        if raw.startswith(b"\x1f\x8b") and len(raw) <= MOST_USER_DATA:
            unpacker = zlib.decompressobj(wbits=31)
            unpacked = unpacker.decompress(raw, _MOST_UNPACKED)
            return unpacked.decode() if unpacker.eof and not unpacker.unused_data else None
        return raw.decode() if len(raw) <= MOST_USER_DATA else None
    except (zlib.error, UnicodeDecodeError):
        return None


def is_mime(raw: bytes) -> bool:
    """Say whether user data is in MIME parts, as EKS requires it for Amazon Linux."""
    from email import message_from_bytes  # slow to import and rarely needed

    message = message_from_bytes(raw.lstrip())
    return message.is_multipart() and any(not part.is_multipart() for part in message.walk())


def toml_error(raw: bytes) -> str:
    """Say why EKS cannot merge user data into that of Bottlerocket; empty where it can."""
    try:
        settings = tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        return "it is no text"
    except tomllib.TOMLDecodeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    if set(settings) - {"settings"}:
        return f"it has {', '.join(sorted(set(settings) - {'settings'}))[:60]} beside settings"
    if _QUOTED_HEADER.search(raw.decode()):
        return "a table's header has a quoted key, which EKS does not read; put that key below the header"
    return ""


def mentions_taints(given: str) -> bool:
    """Say whether user data mentions a taint."""
    return "taint" in (decode_user_data(given) or "").casefold()


def registers_gpu_taint(given: str) -> bool:
    """Say whether user data has the GPU taint outside of comments, as an argument of the kubelet or as a setting."""
    lines = (decode_user_data(given) or "").splitlines()
    commands = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    is_set = "registerWithTaints" in commands or "node-taints" in commands
    return str(GPU_TAINT) in commands or (is_set and GPU_TAINT.key in commands)
