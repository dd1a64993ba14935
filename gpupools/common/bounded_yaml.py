"""Parses untrusted YAML within limits: plain values with lines, and the walk over nodes that other readings share.

A file in a pull request may be malicious, so depth, number of values (including those of aliases and merge keys) and
length of numbers are limited before anything is built.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
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


MERGE = "tag:yaml.org,2002:merge"
_SCALARS = yaml.constructor.SafeConstructor()
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")}
_BINARY = "tag:yaml.org,2002:binary"


class NodeReader:
    """Converts composed nodes to plain values within limits, as Kubernetes' parsers do; keeps the lines of a document.

    Subclasses read scalars and keys in another way, keep other things, or report what is wrong. The values that `<<`
    merges come first, and of several merged maps the first wins: https://yaml.org/type/merge.html.
    """

    def __init__(
        self,
        most: int,
        deepest: int,
        tagged: Callable[[str, Any], Any] | None = None,
        *,
        unique: bool = False,
        private: bool = False,
    ) -> None:
        self.most, self.deepest = most, deepest
        self.tagged, self.unique, self.private = tagged, unique, private
        self.lines: dict[Path, int] = {}
        self._spent = self._depth = 0

    def scalar(self, node: yaml.Node, at: Path) -> Any:
        """Return the value of a scalar at a path."""
        if node.tag == _BINARY:
            return _decoded(node.value)
        # PyYAML reads 1:30 as a base-60 number, Kubernetes' parsers as text.
        if node.tag in _PLAIN and len(node.value) <= MAX_NUMBER and ":" not in node.value:
            try:
                return _SCALARS.construct_object(node)
            except (yaml.YAMLError, LookupError, ValueError, OverflowError):
                return node.value
        return node.value

    def key(self, node: yaml.Node, at: Path) -> str | None:
        """Return a key of the map at a path; None for one that is ignored."""
        return node.value if isinstance(node, yaml.ScalarNode) else "?"

    def keep(self, path: Path, key: yaml.Node, value: yaml.Node) -> None:
        """Keep what is needed later of a key and its value, or of a list item, which is both."""
        self.lines[path] = line_of(key)

    def twice(self, path: Path, first: yaml.Node, again: yaml.Node) -> None:
        """Reject a duplicate key, or do nothing to use the last one."""
        if self.unique:
            key = "a duplicate key" if self.private else f"the duplicate key {shown(path[-1])}"
            what = f"line {line_of(again)}: has {key} (first on line {line_of(first)})"
            raise Rejected([Problem((), what, "keep one: parsers differ in which one they use")])

    def merged(self, node: yaml.MappingNode, at: Path) -> Any:
        """Return a map that is merged into the map at a path."""
        lines, self.lines = self.lines, {}  # a merged key is on no line of the map
        brought = self.value(node, at)
        self.lines = lines
        return brought

    def wrong_merge(self, at: Path, what: str, fix: str) -> None:
        """Report what parsers do not agree on, or do nothing."""

    def enter(self, node: yaml.Node, at: Path) -> bool:
        """Count a visit, which limits nested aliases; return whether the node is read.

        Raises:
            TooMuchError: It is beyond the limits.
        """
        self._spent += 1 + self._depth // _DEEP
        if self._spent > self.most or self._depth >= self.deepest:
            raise TooMuchError(problem_mark=node.start_mark)
        return True

    def value(self, node: yaml.Node, at: Path) -> Any:
        """Return the value of a node at a path."""
        value = self.plain(node, at)
        return self.tagged(node.tag[1:], value) if self.tagged and node.tag.startswith("!") else value

    def plain(self, node: yaml.Node, at: Path) -> Any:
        """Return the value that a node has but for its tag; an empty one if it is not read."""
        if not self.enter(node, at):
            return {} if isinstance(node, yaml.MappingNode) else None
        self._depth += 1
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self._map(node, at)
        elif isinstance(node, yaml.SequenceNode):
            value = []
            for index, item in enumerate(node.value):
                self.keep((*at, index), item, item)
                value.append(self.value(item, (*at, index)))
        else:
            value = self.scalar(node, at)
        self._depth -= 1
        return value

    def _map(self, node: yaml.MappingNode, at: Path) -> JsonDict:
        result: JsonDict = {}
        merges = [value for key, value in node.value if _merges(key)]
        if len(merges) > 1:
            self.wrong_merge(at, "has << twice", "write <<: [*first, *second]")
        for value_node in merges:
            for source in reversed(value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]):
                if isinstance(source, yaml.MappingNode):
                    result |= self.merged(source, at)
                else:
                    self.wrong_merge(at, "<< merges a value that is not a map", "merge a map")
        own: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = None if _merges(key_node) else self.key(key_node, at)
            if key is None:
                continue
            path = (*at, key)
            if key in own:
                self.twice(path, own[key], key_node)
            own[key] = key_node
            self.keep(path, key_node, value_node)
            result[key] = self.value(value_node, path)
        return result


def _merges(key: yaml.Node) -> bool:
    return key.tag == MERGE and key.value == "<<"


def line_of(node: yaml.Node) -> int:
    """Return the line of a node, from 1."""
    return int(node.start_mark.line) + 1


def yaml_fault(error: Exception) -> tuple[str, yaml.Mark | None]:
    """Return what is wrong with a text that is not YAML, and where if that is known."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return getattr(error, "problem", None) or str(error).splitlines()[0], mark


def parse_yaml(
    text: str,
    most: int = MAX_VALUES,
    tagged: Callable[[str, Any], Any] | None = None,
    *,
    unique: bool = False,
    private: bool = False,
) -> tuple[Value, ...]:
    """Return the documents of a YAML text.

    Args:
        text: One or more documents.
        most: Maximum number of values.
        tagged: Converts a value with a custom tag (`!Ref`), from the tag without `!` and the value. By default such
            tags are ignored.
        unique: Reject duplicate keys, of which parsers use either. By default the last one is used.
        private: Repeat nothing of the text in problems, because names in it may be secrets.

    Raises:
        Rejected: The text is not YAML, or exceeds the limits.
    """
    reader, found = NodeReader(most, MAX_DEPTH + 1, tagged, unique=unique, private=private), list[Value]()
    try:
        for node in yaml.compose_all(text, Loader=BoundedLoader):
            if node is not None:
                reader.lines = {}
                found.append(Value(reader.value(node, ()), line_of(node), reader.lines))
    except yaml.YAMLError as error:
        what, mark = yaml_fault(error)
        line, column = (f"line {mark.line + 1}", f", column {mark.column + 1}: ") if mark is not None else ("", "")
        if not isinstance(error, TooMuchError):
            what, fix = (
                f"{line}{column}is not YAML{'' if private else f': {what}'}",
                "check quotes, indentation and brackets",
            )
        else:
            what = f"{line}: has more than {most} values, or more than {MAX_DEPTH} levels of nesting"
            fix = f"{'give JSON, which has no such limit, or ' if most == MAX_VALUES else ''}split the file"
        raise Rejected([Problem((), what, fix)]) from None
    except (ValueError, RecursionError) as error:
        raise Rejected([Problem((), "is not valid YAML" if private else f"is not valid YAML: {error}")]) from None
    return tuple(found)


def is_deep(value: Any, deepest: int = MAX_DEPTH, most: float = inf) -> bool:
    """Return whether maps and lists are nested too deeply for code that uses recursion, or have too many values."""
    kinds = (dict, list)  # exact types: `json` creates no others, and isinstance takes twice as long
    level = [value] if type(value) in kinds else []
    for _ in range(deepest):
        inside = [one.values() if type(one) is dict else one for one in level]
        most -= sum(map(len, inside))
        level = [item for items in inside for item in items if type(item) in kinds] if most >= 0 else level
        if not level or most < 0:
            return most < 0
    return True


def _decoded(value: str) -> str:
    """Decode base64 to text as Go's parser does (github.com/go-yaml/yaml, resolve.go)."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except ValueError:
        return value
