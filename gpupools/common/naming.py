"""Names of pools in the cloud, which change if and only if the pool must be replaced; and the case of keys."""

import hashlib
import json
import re
from collections.abc import Mapping

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def replacement_name(base: str, decisive: Mapping[str, object], *, limit: int, separator: str = "-") -> str:
    """Return a pool's name in the cloud, built from its key and a hash of the inputs that force replacement.

    Names are unique per cluster, so a replacement can only be created before the old pool is deleted if their names
    differ. Microsoft's module does the same
    (https://github.com/Azure/terraform-azurerm-avm-res-containerservice-managedcluster, modules/agentpool).

    Args:
        base: Key of the pool in the stack file.
        decisive: Inputs whose change replaces the pool. None values are ignored, so that a later release can add a
            setting without renaming (and so replacing) existing pools.
        limit: Maximum length of a name.
        separator: Separates the four characters of the hash; empty if the cloud does not allow hyphens, which are
            then also removed from `base`.
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


def camel(key: str) -> str:
    """Return a key in camelCase, as the wire form has it."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def snake(key: str) -> str:
    """Return a key in snake_case, as Terraform and Pulumi's SDKs: `nodePublicIPPrefixID`, node_public_ip_prefix_id."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key).lower()
