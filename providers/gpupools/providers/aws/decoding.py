"""Undoes what user data is packed in on its way to a machine, and says what of it no program takes. Pure."""

import base64
import binascii
import re
import zlib
from contextlib import suppress

from gpupools.providers.aws.boot import MOST_USER_DATA
from gpupools.providers.aws.cloud_init import MOST_UNPACKED, gunzipped
from gpupools.read.packed import decoded as text_of
from gpupools.read.packed import looks_encoded, unpacked

GZIP = b"\x1f\x8b"


def decoded(given: str) -> str:
    """Undo base64 and gzip, where user data is so encoded; what is beyond the limits is cut off."""
    content = as_text(_bytes(given))
    return given[:MOST_UNPACKED] if is_broken(content) else content  # which may only look like base64


def as_text(raw: bytes) -> str:
    """Read bytes as text, with a mark in place of each that is none."""
    try:
        return text_of(raw)
    except UnicodeDecodeError:
        return raw.decode(errors="replace")


def is_broken(content: str) -> bool:
    """Say whether what was read as text is none; one of another alphabet, or cut off, has few odd characters."""
    return content.count("\0") + content.count("\ufffd") > len(content) // _MOST_BROKEN


def _bytes(given: str) -> bytes:
    raw = without_base64(given[: 2 * MOST_UNPACKED])
    if looks_encoded(within := raw.decode("latin-1")):
        # Once by whoever wrote it and once by the tool: cloud-init since 24.1 and nodeadm undo both.
        again = without_base64(within)
        raw = again if again.startswith(GZIP) or not is_broken(as_text(again)) else raw
    if raw.startswith(GZIP):
        try:
            raw = gunzipped(raw)
        except (zlib.error, EOFError):
            return given[:MOST_UNPACKED].encode(errors="replace")
    return raw[:MOST_UNPACKED]


_LEAST_BYTES = 12
_MOST_BROKEN = 20
"""Characters of a text for each that is none."""
# What Terraform's provider kept in place of a text before its version 6: `userDataHashSum` of
# hashicorp/terraform-provider-aws, internal/service/ec2/ec2_instance.go.
_HASH = re.compile(r"[0-9a-f]{40}")


def is_no_text(given: str) -> bool:
    """Say whether user data is bytes in which no reader here finds a text, or only the hash of one."""
    if _HASH.fullmatch(given):
        return True
    raw = _bytes(given)
    if len(raw) < _LEAST_BYTES or not is_broken(as_text(raw)):
        return False
    return not any(one.text != given for one in unpacked(given) if not one.opaque)


def unzipped(raw: bytes) -> str:
    """Undo gzip, where a part is so packed."""
    if raw.startswith(GZIP):
        try:
            raw = gunzipped(raw)
        except (zlib.error, EOFError):
            return ""
    return as_text(raw[:MOST_UNPACKED])


def without_base64(given: str) -> bytes:
    """Undo base64, where a text is so encoded."""
    raw = given.encode(errors="replace")
    try:
        return base64.b64decode(b"".join(raw.split()), validate=True)
    except (binascii.Error, ValueError):
        return raw


def is_too_large(given: str) -> bool:
    """Say whether user data has more bytes than EC2 takes, or unpacks to more than is read here."""
    raw, unpacked_ = without_base64(given), b""
    if raw.startswith(GZIP):
        with suppress(zlib.error, EOFError):
            unpacked_ = gunzipped(raw)
    return len(raw) > MOST_USER_DATA or len(unpacked_) > MOST_UNPACKED


def is_mime(raw: bytes) -> bool:
    """Say whether user data is in MIME parts, as EKS wants it for Amazon Linux."""
    from email import message_from_bytes  # slow to import and rarely needed

    message = message_from_bytes(raw.lstrip())
    return message.is_multipart() and any(not part.is_multipart() for part in message.walk())
