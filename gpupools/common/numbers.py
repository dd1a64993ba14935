"""Parses numbers in untrusted text."""

import re
from decimal import Decimal
from functools import lru_cache


def whole_number(text: str, *, digits: int = 9) -> int | None:
    """Return a non-negative integer; None if the text is not one, or has too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_SUFFIXES = {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(1000)}
_SUFFIXES |= {suffix: Decimal(1000) ** power for power, suffix in enumerate("MGTPE", start=2)}
_SUFFIXES |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}


def quantity(value: object) -> Decimal | None:
    """Return a quantity of Kubernetes as a number; None for what is none."""
    is_given = isinstance(value, str | float) or (isinstance(value, int) and value.bit_length() < 999)
    return _quantity(str(value)) if is_given and not isinstance(value, bool) else None


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Decimal | None:
    match = _QUANTITY.fullmatch(text) if len(text) < 64 else None
    if match is None:
        return None
    number = Decimal(match[1] + (match[2] or "")) * _SUFFIXES[match[3] or ""]
    # The API server rounds up to 1n and cuts at 2^63 - 1: apimachinery/pkg/api/resource/quantity.go.
    return max(_LEAST, min(abs(number), _MOST)).copy_sign(number) if number else number


_LEAST, _MOST = Decimal("1e-9"), Decimal(2**63 - 1)
