"""Reads JSON and YAML files into plain values with line numbers, within limits.

A file from a pull request may be hostile: its size, depth and aliases are limited before any value is built.
"""

from __future__ import annotations

import codecs
import gc
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from gpupools.common.bounded_yaml import MAX_DEPTH, Value, is_deep, parse_yaml
from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict, JsonObject

MAX_BYTES = 64 * 1024 * 1024
"""A plan of ten thousand resources has about 40 MB."""

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class Text:
    """What a file holds."""

    text: str
    values: tuple[Value, ...]
    is_json: bool

    @cached_property
    def has_placeholders(self) -> bool:
        """Say whether something may be filled in later: `${X}`, `$(X)`, `{{ x }}`."""
        return any(mark in self.text for mark in ("${", "$(", "{{")) or (not self.is_json and "{ {" in self.text)

    def line_of(self, name: str) -> int | None:
        """Find the line of a JSON text on which something is named first; None in a file of one line."""
        return self._lines_of_names.get(name)

    @cached_property
    def _lines_of_names(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        lines = self.text.splitlines() if self.is_json else []
        for number, line in enumerate(lines if len(lines) > 1 else [], start=1):
            for match in _NAME.finditer(line):
                found.setdefault(_unquoted(match[1]), number)
        return found


def one_map(value: Any, at: Path) -> JsonObject:
    """Return an object that a program wrote; an empty one where it is left out.

    Raises:
        Rejected: It is something else, so what it should have held would be passed over.
    """
    if value is None or isinstance(value, dict):
        return value or {}
    raise damaged(at, value)


def all_maps(value: Any, at: Path) -> list[JsonObject]:
    """Return the objects of a list that a program wrote; none where it is left out.

    Raises:
        Rejected: It is no list, or something in it is no object.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise damaged(at, value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise damaged((*at, index), item)
    return value


def damaged(at: Path, value: Any) -> Rejected:
    """Return what refuses a file that no program writes this way."""
    return Rejected([Problem(at, f"got {shown(value)}", "the file is damaged; generate it again")])


_NAME = re.compile(r'"(?:address|urn|name|generateName)"\s*:\s*("(?:[^"\\]|\\.)*")')


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text


class NotStructured(Rejected):
    """A file is neither JSON nor YAML."""


def read_text(path: FilePath, *, without: str = "") -> Text:
    """Read a JSON file, or a YAML file of one or more documents.

    Args:
        path: The file.
        without: A kind of Kubernetes whose YAML documents are not parsed, since they are many and large.

    Raises:
        NotStructured: It is neither.
        Rejected: It cannot be read, or is beyond the limits.
    """
    text = _decoded(path)
    if without and f"kind: {without}" in text:
        parts = ((part, map(str.rstrip, part.splitlines())) for part in _BETWEEN.split(text))
        text = "".join("\n" * part.count("\n") if f"kind: {without}" in lines else part for part, lines in parts)
    if text.lstrip()[:1] not in ("{", "["):
        return Text(text, _yaml(text), False)
    try:
        return Text(text, tuple(Value(data) for data in _json(text)), True)
    except _NotJson as error:
        broken = error.problem
    try:  # braces also begin YAML in its flow style, and the templates of Helm, which are neither
        return Text(text, parse_yaml(text, unique=True), False)
    except Rejected:
        raise NotStructured([_rendered(text, broken)]) from None


_BETWEEN = re.compile(r"(^---(?:[ \t][^\n]*)?$)", re.MULTILINE)
"""What separates YAML documents, also inside block scalars."""


def _yaml(text: str) -> tuple[Value, ...]:
    try:
        return parse_yaml(text, unique=True)
    except Rejected as rejected:
        kind = NotStructured if any(" is not " in problem.what for problem in rejected.problems) else Rejected
        raise kind([_rendered(text, problem) for problem in rejected.problems]) from None


def _rendered(text: str, problem: Problem) -> Problem:
    """Give the cure for a template of Helm, which is YAML only once it is rendered."""
    if "{{" not in text or " is not " not in problem.what:
        return problem
    what = "is a template" if text.lstrip().startswith("{{") else f"{problem.what} (a template?)"
    return Problem(problem.path, what, "check what it renders: helm template CHART > FILE")


def _decoded(path: FilePath) -> str:
    try:
        content = read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        raise Rejected([Problem((), "there is no such file")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Rejected([Problem((), f"cannot be read: {reason}")]) from None
    if content.startswith(_ZIP):
        what, fix = "is a binary file, such as a saved Terraform plan", "write it with: terraform show -json PLAN"
        raise Rejected([Problem((), what, fix)])
    # PowerShell before version 6 writes `terraform show -json > plan.json` in UTF-16.
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Rejected([Problem((), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")]) from None
    if not text.strip():
        raise NotStructured([Problem((), "the file is empty")])
    return text


@contextmanager
def without_collecting() -> Iterator[None]:
    """Look for no circles meanwhile: among a million values that have none it takes longer than reading them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def parsed_json(text: str) -> Any:
    """Return a JSON text inside a file as a value; None if it is no JSON, or nested too deeply."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_deep(value) else value


class _NotJson(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _json(text: str) -> Iterator[Any]:
    """Yield the values of a JSON text: one, or one after the other as logs and `kubectl` streams have them."""
    decoder, at = json.JSONDecoder(object_pairs_hook=_unique), 0
    try:
        while match := _NEXT.search(text, at):
            value, at = decoder.raw_decode(text, match.start())
            if is_deep(value):
                raise _too_deep(text)
            yield value
    except _Twice as twice:
        what = f"has the key {shown(twice.key)} twice in one object"
        raise Rejected([Problem((), what, "keep one: programs differ in which one they use")]) from None
    except RecursionError:
        raise _too_deep(text) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _NotJson(Problem((), f"{where}: is not JSON: {error.msg.lower()}", "export the file again")) from None
    except ValueError as error:  # a whole number of more than 4300 digits
        raise _NotJson(Problem((), f"is not JSON that can be read: {error}")) from None


_NEXT = re.compile(r"\S")
# A text without an end reaches to the end: looking for one from each of its quotes takes the square of its size.
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> JsonDict:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return made


def _too_deep(text: str) -> Rejected:
    """Say on which line brackets are nested beyond the limit."""
    depth = 0
    for match in _BRACKET.finditer(text):
        first = match[0][0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                line = text.count("\n", 0, match.start()) + 1
                return Rejected([Problem((), f"line {line}: values are nested deeper than {MAX_DEPTH}")])
        elif first in "]}":
            depth -= 1
    return Rejected([Problem((), f"values are nested deeper than {MAX_DEPTH}")])
