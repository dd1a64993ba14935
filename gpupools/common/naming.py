"""Names of pools in the cloud that change exactly when the pool must be replaced."""

import hashlib
import json
from collections.abc import Mapping

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def replacement_name(base: str, decisive: Mapping[str, object], *, limit: int, separator: str = "-") -> str:
    """Build a pool's name in the cloud from its own name and everything that forces its replacement.

    A pool's name is unique per cluster, so the new pool can only be created before the old one is deleted when the
    two are called differently. Microsoft's own module solves it the same way
    (https://github.com/Azure/terraform-azurerm-avm-res-containerservice-managedcluster, modules/agentpool).

    Args:
        base: The pool's name in the stack file.
        decisive: The inputs whose change makes the cloud replace the pool. Entries that are None do not count, so
            that a later release may add a setting without renaming (and so replacing) anybody's pool.
        limit: The most characters the cloud takes.
        separator: Stands before the four characters of the hash; empty where the cloud allows no hyphen, which
            takes the hyphens out of `base` too.
    """
    counted = {key: value for key, value in decisive.items() if value is not None}
    text = json.dumps([base, counted], sort_keys=True, separators=(",", ":"), default=str)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    suffix = ""
    for _ in range(4):
        number, digit = divmod(number, len(_DIGITS))
        suffix += _DIGITS[digit]
    readable = base if separator else base.replace("-", "")
    return readable[: limit - len(suffix) - len(separator)].rstrip("-") + separator + suffix
