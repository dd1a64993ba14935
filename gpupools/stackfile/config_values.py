"""Converts values of a stack file to what a Pulumi program receives. Pure.

Pulumi's CLI parses YAML with go-yaml v3 (https://github.com/go-yaml/yaml/blob/v3.0.1/resolve.go) and passes each value
to the program as text: text unchanged, anything else as JSON
(https://github.com/pulumi/pulumi, sdk/go/common/resource/config/object.go). `tests/gpupools/cli_readings.json` has the
CLI's result for every form. Values that the CLI changes, or that YAML parsers read differently, are rejected.
"""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpupools.common.bounded_yaml import is_deep
from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.spec.models import LATE, Late

MAX_BYTES = 1024 * 1024
"""Limit for a stack file, enough for thousands of pools."""
MAX_VALUES = 100_000
MAX_DEPTH = 60
TOO_MUCH = f"more than {MAX_VALUES} values, or more than {MAX_DEPTH} levels of nesting"

Scalar = str | int | float | bool | None


class UnreadableValueError(ValueError):
    """A value that a program would not receive as written. The message is `what; fix`."""


_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_DATE = r"(?s)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9]{1,2}:.*)?"
_NO_NUMBER = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_INTEGER = r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0|[1-9][0-9]*)"
_DECIMAL = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_LEADING_ZERO = r"[-+]?0[0-9]"
_BASES = {"x": 16, "b": 2, "o": 8}
_LONGEST = 400
"""Maximum characters of a number; the longest finite one has about 310."""


def plain_scalar(text: str) -> Scalar:
    """Return what a program receives for an unquoted scalar.

    Raises:
        UnreadableValueError: The program would receive another value.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) < 19 and text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0"):
        return int(text)
    if re.fullmatch(_DATE, text):
        raise UnreadableValueError("is a date, which Pulumi would convert to other text; write it in quotes")
    if re.fullmatch(_NO_NUMBER, text):
        raise UnreadableValueError("is not a finite number; write it in quotes if it is text")
    digits = text.replace("_", "") if text[0] != "." else text
    if not (re.fullmatch(_INTEGER, digits) or re.fullmatch(_DECIMAL, digits)):
        return text
    if len(digits) > _LONGEST:
        raise UnreadableValueError("is a number that is too large; write it in quotes if it is text")
    if re.match(_LEADING_ZERO, digits):
        raise UnreadableValueError(
            "starts with 0, which some YAML parsers read as octal and others as decimal; "
            "remove the zero, or write it in quotes if it is text"
        )
    return _integer(digits) if re.fullmatch(_INTEGER, digits) else json_number(float(digits))


def _integer(digits: str) -> int:
    bare = digits.lstrip("+-")
    base = _BASES.get(bare[1:2].lower(), 10)
    number = int(bare if base == 10 else bare[2:], base) * (-1 if digits[0] == "-" else 1)
    if not -(2**63) <= number < 2**63:
        raise UnreadableValueError("is an integer that Pulumi would round; write it in quotes if it is text")
    return number


def json_number(number: float) -> int | float:
    """Return a number as JSON passes it on: an integer if it has no fraction.

    Go writes numbers from 1e21 with an exponent (https://pkg.go.dev/encoding/json#Marshal), so they stay floats.

    Raises:
        UnreadableValueError: The number is not finite.
    """
    if number in (float("inf"), float("-inf")) or number != number:
        raise UnreadableValueError("is a number that is too large; write it in quotes if it is text")
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


def plain_key(text: str) -> str:
    """Return the key that a program receives for an unquoted key, which is always text.

    Raises:
        UnreadableValueError: The program would receive another key.
    """
    try:
        value = plain_scalar(text)
    except UnreadableValueError:
        value = None
    # Go writes true and 7 as they are; null becomes <nil>, True true, 0x1 1 and 1e3 1000.
    if isinstance(value, str) or text in ("true", "false") or (type(value) is int and str(value) == text):
        return text
    raise UnreadableValueError("is a key that Pulumi would convert to other text; write it in quotes")


def from_text(key: str, text: str) -> Any:
    """Return the value of one configuration key, which a program receives as text or as JSON.

    Raises:
        Rejected: It is ambiguous JSON. The value is not repeated.
    """
    try:
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant, parse_float=_decimal)
    except UnreadableValueError as error:
        what, _, fix = str(error).partition("; ")
        raise Rejected([Problem((key,), f"is JSON and {what}", fix)]) from None
    except (ValueError, RecursionError):
        return text
    if is_deep(value, MAX_DEPTH - 1, MAX_VALUES - 1):
        raise Rejected([Problem((key,), f"holds {TOO_MUCH}", "split the stack into several stacks")])
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> JsonDict:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableValueError("has a duplicate key in a map; keep one of them")
    return found


def _no_constant(_: str) -> None:
    raise UnreadableValueError("contains NaN or Infinity; write a finite number, or text in quotes")


def _decimal(text: str) -> int | float:
    number = float(text)
    if abs(number) == float("inf"):
        raise UnreadableValueError("contains a number that is too large; write a smaller one, or text in quotes")
    return json_number(number)


_REWRITTEN = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)? [-+][0-9]{4} \S+"
"""Go's format of a time: https://pkg.go.dev/time#Time.String."""


def _is_rewritten(text: str) -> bool:
    return text[:4].isdecimal() and re.fullmatch(_REWRITTEN, text) is not None


def rewritten_dates(value: Any, at: Path) -> Iterator[Problem]:
    """Find dates that were not quoted: the CLI replaces them with Go's format when it saves the file."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _is_rewritten(key):
                yield Problem((*at, key), "is an unquoted date that Pulumi rewrote", "write the date in quotes")
            yield from rewritten_dates(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from rewritten_dates(item, (*at, index))
    elif isinstance(value, str) and _is_rewritten(value):
        yield Problem(at, "is an unquoted date that Pulumi rewrote", "write the date in quotes")


class ValueMismatchError(Exception):
    """Two values differ; has the path but not the values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__()


def marked(value: Any, written: Any, at: Path) -> Any:
    """Return a decrypted value with `LATE` for each value that the stack file (`written`) has encrypted.

    Raises:
        ValueMismatchError: The values also differ elsewhere, so the encrypted parts cannot be located.
    """
    if isinstance(written, Late):
        return LATE
    if isinstance(value, Mapping) and isinstance(written, Mapping):
        for key in [*written, *value]:
            if key not in value or key not in written:
                raise ValueMismatchError((*at, key))
        return {key: marked(item, written[key], (*at, key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(written, list) and len(value) == len(written):
        return [marked(item, written[index], (*at, index)) for index, item in enumerate(value)]
    if type(value) is not type(written) or value != written:
        raise ValueMismatchError(at)
    return value
