"""Evaluates the expressions of Azure Resource Manager's templates, as far as the template itself decides them. Pure.

What only a deployment can know (`reference`, `resourceGroup`, a parameter without a value) is `UNKNOWN`, and so is
what a function makes that is not known here.
https://learn.microsoft.com/azure/azure-resource-manager/templates/template-expressions and
https://learn.microsoft.com/azure/azure-resource-manager/templates/template-functions.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.read.inputs import is_list, mapping, text

MOST_VALUES = 100_000
"""Values of one template that are looked at."""
_LONGEST = 100_000
"""Characters of a text that a function makes."""
_MOST_TURNS = 800
"""Of a loop: https://learn.microsoft.com/azure/azure-resource-manager/templates/copy-resources#copy-limits."""
_DEEPEST = 100
PLACEHOLDER = "${VALUE}"
_SCRIPTS = frozenset({"scriptContent", "script", "commandToExecute", "customData", "userData", "arguments"})
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?![\w.]))|(?P<name>\w+(?:\.\w+(?=\s*\())?)|(?P<sign>[()\[\],.]))"
)


@dataclass
class _Left:
    values: int = MOST_VALUES


@dataclass(frozen=True)
class Loop:
    """A list that a loop makes."""

    given: Mapping[str, Any]
    """With `name`, `count` and `input`."""


@dataclass(frozen=True)
class Scope:
    """What expressions mean in a template, or in one turn of a loop of it."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    """Expressions or values, by name in small letters."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those that have a value, which is known by then."""
    turns: Mapping[str, Any] = field(default_factory=dict)
    """Number of the turn by the name of the loop; of the innermost one by an empty name too."""
    written: bool = False
    """Whether a text is a script, of which what is known counts: the rest becomes `PLACEHOLDER`."""
    certain: bool = True
    """Whether parameters have the values of a deployment, not those that a file has by default."""
    left: _Left = field(default_factory=_Left)

    def __call__(self, value: Any, depth: int = 0) -> Any:
        """Return a value of the template with `UNKNOWN` for what is not known of it."""
        self.left.values -= 1
        if self.left.values < 0 or depth > _DEEPEST:
            return UNKNOWN
        if isinstance(value, str):
            if value.startswith("[["):
                return value[1:]
            return _Expression(self, value[1:-1], depth).made() if is_expression(value) else value
        if isinstance(value, Loop):
            turns = self.of(value.given)
            return UNKNOWN if turns is None else [turn(value.given.get("input"), depth + 1) for turn in turns]
        if isinstance(value, Mapping):
            return dict(self._entries(value, depth + 1))
        return [self(item, depth + 1) for item in value] if is_list(value) else value

    def _entries(self, value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            if key == "copy" and is_list(item):
                for loop in map(mapping, item):
                    yield text(loop.get("name")), self(Loop(loop), depth)
            else:
                found = self(item, depth)
                if found is UNKNOWN and key in _SCRIPTS:
                    found = replace(self, written=True)(item, depth)
                yield key, found

    def of(self, loop: Any) -> "list[Scope] | None":
        """Return the scope of each turn of a loop; None where their number is not known."""
        count, name = self(mapping(loop).get("count")), text(mapping(loop).get("name")).casefold()
        if not isinstance(count, int) or isinstance(count, bool) or count > _MOST_TURNS:
            return None
        if count == 0 and not self.certain:
            return None  # it may be given more
        return [self.turn(name, turn) for turn in range(count)]

    def turn(self, name: str, number: Any) -> "Scope":
        """Return the scope of one turn of a loop, `UNKNOWN` for any."""
        return replace(self, turns={**self.turns, "": number, name: number})


def is_expression(value: Any) -> bool:
    """Say whether a text is one, and not a text in brackets."""
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


class _Unreadable(Exception):
    """An expression that is none."""


class _Expression:
    """Reads one expression and makes its value at once."""

    def __init__(self, scope: Scope, given: str, depth: int) -> None:
        self.scope, self.given, self.depth, self.at = scope, given, depth, 0

    def made(self) -> Any:
        try:
            value = self._value()
            return UNKNOWN if self._next()[0] else value
        except (_Unreadable, RecursionError):
            return UNKNOWN

    def _next(self, *, take: bool = True) -> tuple[str, str]:
        match = _TOKEN.match(self.given, self.at)
        if match is None or match.lastgroup is None:
            if self.given[self.at :].strip():
                raise _Unreadable
            return "", ""
        self.at = match.end() if take else self.at
        return match.lastgroup, match[match.lastgroup]

    def _value(self) -> Any:
        self.scope.left.values -= 1
        if self.scope.left.values < 0:
            raise _Unreadable
        kind, word = self._next()
        if kind == "text":
            value: Any = word[1:-1].replace("''", "'")
        elif kind == "number":
            value = int(word) if len(word) < 20 else UNKNOWN
        elif kind == "name":
            if self._next() != ("sign", "("):
                raise _Unreadable
            value = self._called(word.casefold().removeprefix("sys."), [*self._listed(")")])
        else:
            raise _Unreadable
        while (sign := self._next(take=False)) in (("sign", "."), ("sign", "[")):
            self._next()
            if sign[1] == ".":
                kind, key = self._next()
                value = _inside(value, key if kind == "name" else UNKNOWN)
            else:
                [key_] = [*self._listed("]")] or [UNKNOWN]
                value = _inside(value, key_)
        return value

    def _listed(self, end: str) -> Iterator[Any]:
        if self._next(take=False) == ("sign", end):
            self._next()
            return
        while True:
            yield self._value()
            sign = self._next()
            if sign == ("sign", end):
                return
            if sign != ("sign", ","):
                raise _Unreadable

    def _called(self, name: str, given: list[Any]) -> Any:
        scope = self.scope
        first = given[0].casefold() if given and isinstance(given[0], str) else ""
        if name == "variables":
            return scope(scope.variables.get(first, UNKNOWN), self.depth + 1)
        if name == "parameters":
            return scope(scope.parameters.get(first, UNKNOWN), self.depth + 1)
        if name == "copyindex":
            turn, offset = scope.turns.get(first, UNKNOWN), given[-1] if given and isinstance(given[-1], int) else 0
            return turn + offset if isinstance(turn, int) else UNKNOWN
        if name in _LAZY:
            return _LAZY[name](given)
        if UNKNOWN in given and not (scope.written and name in _OF_TEXTS) and name not in _OF_PARTS:
            return UNKNOWN
        function = _FUNCTIONS.get(name)
        if function is None:
            return UNKNOWN
        known = [PLACEHOLDER if one is UNKNOWN and name in _OF_TEXTS else one for one in given]
        try:
            value = function(*known)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return UNKNOWN
        self.scope.left.values -= len(value) // 10 if isinstance(value, str | list | dict) else 0
        return UNKNOWN if isinstance(value, str) and len(value) > _LONGEST else value


def _inside(value: Any, key: Any, absent: Any = UNKNOWN) -> Any:
    if isinstance(value, Mapping) and isinstance(key, str):
        return next((item for name, item in value.items() if text(name).casefold() == key.casefold()), absent)
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    return absent


def _if(given: list[Any]) -> Any:
    chosen, other = given[1:3] if len(given) == 3 else (UNKNOWN, UNKNOWN)
    if isinstance(given[0] if given else None, bool):
        return chosen if given[0] else other
    return chosen if type(chosen) is type(other) and chosen == other else UNKNOWN


def _and(given: list[Any]) -> Any:
    return False if any(one is False for one in given) else UNKNOWN if UNKNOWN in given else True


def _or(given: list[Any]) -> Any:
    return True if any(one is True for one in given) else UNKNOWN if UNKNOWN in given else False


def _coalesce(given: list[Any]) -> Any:
    return next((one for one in given if one is not None), None)


_LAZY: Mapping[str, Callable[[list[Any]], Any]] = {"if": _if, "and": _and, "or": _or, "coalesce": _coalesce}
"""Functions whose value may be known though that of an argument is not."""


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, str | int):
        return str(value)
    raise TypeError


def _concat(*given: Any) -> Any:
    if all(isinstance(one, list) for one in given):
        return [*chain.from_iterable(given)]
    return "".join(map(_said, given))


def _format(sentence: str, *given: Any) -> str:
    if sum(len(_said(one)) for one in given) * max(sentence.count("{"), 1) > _LONGEST:
        raise ValueError
    if re.search(r"\{\d+[^}\d]", sentence):  # with a way of writing numbers
        raise ValueError
    return re.sub(r"\{(\d{1,3})\}", lambda match: _said(given[int(match[1])]), sentence)


def _replace(value: str, old: str, new: str) -> str:
    if not old or value.count(old) * len(new) > _LONGEST:
        raise ValueError
    return value.replace(old, new)


def _union(*given: Any) -> Any:
    if all(isinstance(one, dict) for one in given):
        made: dict[str, Any] = {}
        for one in given:
            for key, item in one.items():
                both = isinstance(item, dict) and isinstance(made.get(key), dict)
                made[key] = _union(made[key], item) if both else item
        return made
    found: list[Any] = []
    for item in chain.from_iterable(given) if all(isinstance(one, list) for one in given) else _fail():
        found += [item] if item not in found[:_MOST_TURNS] else []
    return found


def _fail() -> Any:
    raise TypeError


def _holds_unknown(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_unknown, value.values() if isinstance(value, dict) else value))
    return value is UNKNOWN


def _equals(one: Any, other: Any) -> Any:
    if _holds_unknown(one) or _holds_unknown(other):
        return UNKNOWN
    return type(one) is type(other) and bool(one == other)


def _contains(value: Any, wanted: Any) -> Any:
    if isinstance(value, dict):
        return any(key.casefold() == wanted.casefold() for key in value)
    return wanted in value or (UNKNOWN if _holds_unknown(value) else False)


def _numbers(one: Any, other: Any) -> None:
    if not isinstance(one, int) or not isinstance(other, int) or max(abs(one), abs(other)) > 1 << 62:
        raise TypeError


def _arithmetic(function: Callable[[int, int], Any]) -> Callable[..., Any]:
    def made(one: Any, other: Any) -> Any:
        _numbers(one, other)
        return function(one, other)

    return made


def _range(first: int, count: int) -> list[int]:
    return [*range(first, first + count)] if 0 <= count <= _MOST_TURNS else _fail()


def _try_get(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is UNKNOWN:
            return UNKNOWN
        value = _inside(value, key, None)
    return value


_OF_PARTS = frozenset({"createarray", "createobject"})
_OF_TEXTS = frozenset({"concat", "format", "base64", "base64tostring", "string", "join", "replace", "uri"})
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": _arithmetic(lambda one, other: one + other),
        "array": lambda one: one if isinstance(one, list) else [one],
        "base64": lambda one: one,  # what reads a script reads it packed or not
        "bool": lambda one: {"true": True, "false": False}[str(one).casefold()],
        "concat": _concat,
        "contains": _contains,
        "createarray": lambda *given: [*given],
        "createobject": lambda *given: dict(zip(map(text, given[::2]), given[1::2], strict=True)),
        "empty": lambda one: one is None or len(one) == 0,
        "endswith": lambda one, end: one.casefold().endswith(end.casefold()),
        "equals": _equals,
        "false": lambda: False,
        "first": lambda one: one[0],
        "format": _format,
        "greater": lambda one, other: one > other,
        "greaterorequals": lambda one, other: one >= other,
        "int": int,
        "join": lambda listed, sign: sign.join(map(_said, listed)),
        "json": json.loads,
        "last": lambda one: one[-1],
        "length": len,
        "less": lambda one, other: one < other,
        "lessorequals": lambda one, other: one <= other,
        "max": lambda *given: max(given[0] if len(given) == 1 else given),
        "min": lambda *given: min(given[0] if len(given) == 1 else given),
        "mod": _arithmetic(lambda one, other: one % other),
        "mul": _arithmetic(lambda one, other: one * other),
        "not": lambda one: not one if isinstance(one, bool) else _fail(),
        "null": lambda: None,
        "range": _range,
        "replace": _replace,
        "skip": lambda one, count: one[max(count, 0) :],
        "split": lambda one, sign: one.split(sign) if isinstance(sign, str) else _fail(),
        "startswith": lambda one, start: one.casefold().startswith(start.casefold()),
        "string": lambda one: one if isinstance(one, str) else json.dumps(one, separators=(",", ":")),
        "sub": _arithmetic(lambda one, other: one - other),
        "substring": lambda one, start, *count: one[start : start + count[0]] if count else one[start:],
        "take": lambda one, count: one[: max(count, 0)],
        "tolower": lambda one: one.lower(),
        "toupper": lambda one: one.upper(),
        "trim": lambda one: one.strip(),
        "true": lambda: True,
        "tryget": _try_get,
        "union": _union,
    }
)
