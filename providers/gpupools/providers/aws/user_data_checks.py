"""Checks user data from overrides, without evaluating what it does. Pure."""

import base64
import re
import tomllib
import zlib
from contextlib import suppress

from gpupools.common.taints import GPU_TAINT
from gpupools.providers.aws.bootstrap import MOST_USER_DATA

_MOST_UNPACKED = 262_144
_QUOTED_HEADER = re.compile(r"(?m)^[ \t]*\[++[^\]\n\"']*[\"']")


def decode_user_data(given: str) -> str | None:
    """Return user data after base64 and gzip decoding, once each; None if it is no text or too large."""
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
    """Return whether user data is multipart MIME, which EKS requires for Amazon Linux."""
    from email import message_from_bytes  # slow to import and rarely needed

    message = message_from_bytes(raw.lstrip())
    return message.is_multipart() and any(not part.is_multipart() for part in message.walk())


def toml_error(raw: bytes) -> str:
    """Return why EKS cannot merge user data into that of Bottlerocket; empty if it can."""
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
    """Return whether user data mentions a taint."""
    return "taint" in (decode_user_data(given) or "").casefold()


def registers_gpu_taint(given: str) -> bool:
    """Return whether user data sets the GPU taint, as an argument of the kubelet or as a setting, not in a comment."""
    lines = (decode_user_data(given) or "").splitlines()
    commands = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    is_set = "registerWithTaints" in commands or "node-taints" in commands
    return str(GPU_TAINT) in commands or (is_set and GPU_TAINT.key in commands)
