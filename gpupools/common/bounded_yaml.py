"""Parses untrusted YAML within limits, and keeps the line of each value.

A file in a pull request may be malicious, so depth, number of values (including those of aliases and merge keys) and
length of numbers are limited before anything is built.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.json_types import JsonDict

MAX_DEPTH = 200
"""Maximum nesting; a Terraform plan with nested modules has about 40."""
MAX_VALUES = 250_000
"""Maximum values of a YAML file with aliases expanded; the largest bundles of manifests have about 100,000.

Values below 50 levels count twice, below 100 levels three times, and so on: the path of each value is kept, so half a
megabyte of nested lists would need a thousand times its size in memory.
"""
_DEEP = 50

MAX_NUMBER = 64
"""Maximum characters of a number; longer ones stay text, because parsing takes quadratic time."""


@dataclass(frozen=True)
class Value:
    """One document of a file."""

    data: Any
    """dict, list, str, int, float, bool, None."""
    line: int | None = None
    """First line, from 1; None for JSON."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Line of each key and list item by path; empty for JSON."""


_Composer = yaml.composer.Composer


class TooMuchError(yaml.MarkedYAMLError):
    """A text has more values or levels than its loader allows."""


class BoundedLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes in Python, within limits, from the events of the fast parser.

    libyaml's composer has no depth limit and crashes the process on a hundred thousand brackets (measured with PyYAML
    6.0.3).
    """

    check_node, get_node, get_single_node = _Composer.check_node, _Composer.get_node, _Composer.get_single_node
    compose_document, compose_scalar_node = _Composer.compose_document, _Composer.compose_scalar_node
    compose_sequence_node, compose_mapping_node = _Composer.compose_sequence_node, _Composer.compose_mapping_node
    most: ClassVar[int] = MAX_VALUES
    deepest: ClassVar[int] = MAX_DEPTH + 1

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.anchors: dict[str, yaml.Node] = {}
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node, or that of an alias."""
        self._depth += 1
        self._nodes += 1
        if self._depth > self.deepest or self._nodes > self.most:
            raise TooMuchError(problem="has too many values", problem_mark=self.peek_event().start_mark)
        node: yaml.Node | None = _Composer.compose_node(self, parent, index)
        self._depth -= 1
        return node


def parse_yaml(
    text: str,
    most: int = MAX_VALUES,
    tagged: Callable[[str, Any], Any] | None = None,
    *,
    unique: bool = False,
) -> tuple[Value, ...]:
    """Return the documents of a YAML text.

    Args:
        text: One or more documents.
        most: Maximum number of values.
        tagged: Converts a value with a custom tag (`!Ref`), from the tag without `!` and the value. By default such
            tags are ignored.
        unique: Reject duplicate keys, of which parsers use either. By default the last one is used.

    Raises:
        Rejected: The text is not YAML, or exceeds the limits.
    """
    return tuple(_yaml(text, _Budget(most, tagged, unique)))


def _yaml(text: str, budget: _Budget) -> Iterator[Value]:
    try:
        for node in yaml.compose_all(text, Loader=BoundedLoader):
            if node is not None:
                lines: dict[Path, int] = {}
                data = _value_of(node, (), lines, budget)
                yield Value(data, node.start_mark.line + 1, lines)
    except TooMuchError as error:
        raise _too_much(error.problem_mark, budget.most) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Rejected([Problem((), f"{where}is not YAML: {what}", "check quotes, indentation and brackets")]) from None
    except (ValueError, RecursionError) as error:
        raise Rejected([Problem((), f"is not valid YAML: {error}")]) from None


def is_deep(value: Any) -> bool:
    """Return whether maps and lists are nested deeper than `MAX_DEPTH`, for code that uses recursion."""
    kinds = (dict, list)  # exact types: `json` creates no others, and isinstance takes twice as long
    level = [value] if type(value) in kinds else []
    for _ in range(MAX_DEPTH):
        inside = [one.values() if type(one) is dict else one for one in level]
        level = [item for items in inside for item in items if type(item) in kinds]
        if not level:
            return False
    return True


def _too_much(mark: Any, most: int) -> Rejected:
    what = f"line {mark.line + 1}: has more than {most} values, or more than {MAX_DEPTH} levels of nesting"
    fix = "give JSON, which has no such limit, or split the file" if most == MAX_VALUES else "split the file"
    return Rejected([Problem((), what, fix)])


def _twice(key: str, line: int, before: int | None) -> Rejected:
    what = f"line {line}: has the duplicate key {shown(key)}" + (f" (first on line {before})" if before else "")
    return Rejected([Problem((), what, "keep one: parsers differ in which one they use")])


class _Budget:
    """Counts the values that are built, including those of aliases."""

    def __init__(self, most: int, tagged: Callable[[str, Any], Any] | None, unique: bool) -> None:
        self.most = self._left = most
        self.tagged = tagged
        self.unique = unique

    def spend(self, node: yaml.Node, depth: int) -> None:
        self._left -= 1 + depth // _DEEP
        if self._left < 0 or depth > MAX_DEPTH:
            raise _too_much(node.start_mark, self.most)


_SCALARS = yaml.constructor.SafeConstructor()
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")}
_MERGE = "tag:yaml.org,2002:merge"


_BINARY = "tag:yaml.org,2002:binary"


def _decoded(value: str) -> str:
    """Decode base64 to text as Go's parser does (github.com/go-yaml/yaml, resolve.go)."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except ValueError:
        return value


def _value_of(node: yaml.Node, at: Path, lines: dict[Path, int], budget: _Budget) -> Any:
    """Return the data of a node."""
    value = _untagged(node, at, lines, budget)
    return budget.tagged(node.tag[1:], value) if budget.tagged and node.tag.startswith("!") else value


def _untagged(node: yaml.Node, at: Path, lines: dict[Path, int], budget: _Budget) -> Any:
    budget.spend(node, len(at))
    if isinstance(node, yaml.SequenceNode):
        values = []
        for index, item in enumerate(node.value):
            lines[*at, index] = item.start_mark.line + 1
            values.append(_value_of(item, (*at, index), lines, budget))
        return values
    if isinstance(node, yaml.MappingNode):
        merged: JsonDict = {}
        own: JsonDict = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in reversed(sources):
                    brought = _value_of(source, (*at, "<<"), {}, budget)
                    merged |= brought if isinstance(brought, dict) else {}
                continue
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            if budget.unique and key in own:
                raise _twice(key, key_node.start_mark.line + 1, lines.get((*at, key)))
            lines[*at, key] = key_node.start_mark.line + 1
            own[key] = _value_of(value_node, (*at, key), lines, budget)
        return merged | own
    if node.tag == _BINARY:
        return _decoded(node.value)
    # PyYAML reads 1:30 as a base-60 number, Kubernetes' parsers as text.
    if node.tag in _PLAIN and len(node.value) <= MAX_NUMBER and ":" not in node.value:
        try:
            return _SCALARS.construct_object(node)
        except (yaml.YAMLError, LookupError, ValueError, OverflowError):
            return node.value
    return node.value
