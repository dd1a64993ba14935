"""What a program receives of a value in a stack file: Pulumi's CLI reads YAML, and hands on text. Pure.

The CLI reads with go-yaml v3 (https://github.com/go-yaml/yaml/blob/v3.0.1/resolve.go) and hands each key's value on as
text: text as it is, anything else as JSON (https://github.com/pulumi/pulumi, sdk/go/common/resource/config/object.go).
`tests/gpupools/cli_readings.json` holds what the CLI made of every form; what it would change on the way, or what
another reader of YAML takes for something else, is refused here with the way to write it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.spec.models import LATE, Late

MAX_BYTES = 1024 * 1024
"""A stack file is written by people; a megabyte is thousands of pools."""
MAX_VALUES = 100_000
MAX_DEPTH = 60
TOO_MUCH = f"more than {MAX_VALUES} values, or values nested deeper than {MAX_DEPTH}"

Scalar = str | int | float | bool | None


class UnreadableValueError(ValueError):
    """A value that would not arrive as it is written; says what becomes of it and, after `; `, the cure."""


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
"""Characters of the longest number that is looked at: the longest one that is no infinity has about 310."""


def plain_scalar(text: str) -> Scalar:
    """Return what a program receives of an unquoted scalar.

    Raises:
        UnreadableValueError: It would receive something else than is written.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) < 19 and text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0"):
        return int(text)
    if re.fullmatch(_DATE, text):
        raise UnreadableValueError("is a date for Pulumi, which hands it on as another text; write it in quotes")
    if re.fullmatch(_NO_NUMBER, text):
        raise UnreadableValueError("is a number that JSON does not have; write it in quotes if it is text")
    digits = text.replace("_", "") if text[0] != "." else text
    if not (re.fullmatch(_INTEGER, digits) or re.fullmatch(_DECIMAL, digits)):
        return text
    if len(digits) > _LONGEST:
        raise UnreadableValueError("is a number too large to arrive as it is written; write it in quotes if it is text")
    if re.match(_LEADING_ZERO, digits):
        raise UnreadableValueError(
            "begins with 0, so that it is octal for one reader and decimal for another; "
            "leave the zero out, or write it in quotes if it is text"
        )
    return _integer(digits) if re.fullmatch(_INTEGER, digits) else json_number(float(digits))


def _integer(digits: str) -> int:
    bare = digits.lstrip("+-")
    base = _BASES.get(bare[1:2].lower(), 10)
    number = int(bare if base == 10 else bare[2:], base) * (-1 if digits[0] == "-" else 1)
    if not -(2**63) <= number < 2**63:
        raise UnreadableValueError("is a whole number that Pulumi rounds; write it in quotes if it is text")
    return number


def json_number(number: float) -> int | float:
    """Return a decimal number as it is after JSON: without a fraction it is a whole number.

    Go writes numbers from 1e21 on with an exponent (https://pkg.go.dev/encoding/json#Marshal), which stay decimal.

    Raises:
        UnreadableValueError: It is beyond what the type holds.
    """
    if number in (float("inf"), float("-inf")) or number != number:
        raise UnreadableValueError("is a number too large to arrive as it is written; write it in quotes if it is text")
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


def plain_key(text: str) -> str:
    """Return the key a program receives for an unquoted one: keys are text there.

    Raises:
        UnreadableValueError: It would receive another key than is written.
    """
    try:
        value = plain_scalar(text)
    except UnreadableValueError:
        value = None
    # Go writes true and 7 as they are; null becomes <nil>, True true, 0x1 1 and 1e3 1000.
    if isinstance(value, str) or text in ("true", "false") or (type(value) is int and str(value) == text):
        return text
    raise UnreadableValueError("is a key that Pulumi hands on as another text; write it in quotes")


def from_text(key: str, text: str) -> Any:
    """Return the value of one configuration key, which reaches a program as text or as JSON.

    Raises:
        Rejected: It is JSON that two readers would take for different things; the value is not repeated.
    """
    try:
        value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant, parse_float=_decimal)
    except UnreadableValueError as error:
        what, _, fix = str(error).partition("; ")
        raise Rejected([Problem((key,), f"is JSON and {what}", fix)]) from None
    except (ValueError, RecursionError):
        return text
    if _is_too_much(value):
        raise Rejected([Problem((key,), f"holds {TOO_MUCH}", "split the environment into several stacks")])
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> JsonDict:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableValueError("has a key twice in one map; keep one of them")
    return found


def _no_constant(_: str) -> None:
    raise UnreadableValueError("has NaN or Infinity; write a number, or text in quotes")


def _decimal(text: str) -> int | float:
    number = float(text)
    if abs(number) == float("inf"):
        raise UnreadableValueError("has a number too large to be one; write a smaller one, or text in quotes")
    return json_number(number)


def _is_too_much(value: Any) -> bool:
    """Say whether there are more values than anybody writes, without going as deep as they do."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        if not level or count > MAX_VALUES:
            return count > MAX_VALUES
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return True


_REWRITTEN = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)? [-+][0-9]{4} \S+"
"""How Go writes a time: https://pkg.go.dev/time#Time.String."""


def _is_rewritten(text: str) -> bool:
    return text[:4].isdecimal() and re.fullmatch(_REWRITTEN, text) is not None


def rewritten_dates(value: Any, at: Path) -> Iterator[Problem]:
    """Find dates that had no quotes: the CLI writes its own text in their place whenever it saves the file."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _is_rewritten(key):
                yield Problem((*at, key), "is Pulumi's text for a date without quotes", "write the date in quotes")
            yield from rewritten_dates(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from rewritten_dates(item, (*at, index))
    elif isinstance(value, str) and _is_rewritten(value):
        yield Problem(at, "is Pulumi's text for a date without quotes", "write the date in quotes")


class ValueMismatchError(Exception):
    """The two say different things; knows where, not what."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__()


def marked(value: Any, written: Any, at: Path) -> Any:
    """Return a decrypted value with `LATE` wherever the stack file has an encrypted one.

    Args:
        value: What Pulumi handed over.
        written: What the file has, with `LATE` for what is encrypted.
        at: Where they are.

    Raises:
        ValueMismatchError: They differ elsewhere too, so that the file does not tell what of the value is encrypted.
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
