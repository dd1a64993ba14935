"""Readback a stack file: the one place in the domain that opens what a user names; keeps the line of every key."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    TOO_MUCH,
    UnreadableValueError,
    from_text,
    plain_key,
    plain_scalar,
    rewritten_dates,
)
from gpupools.stackfile.stack import KEYS

NAMESPACE = "gpupools"
STANDARD_INPUT = FilePath("-")
"""The name of a file that is piped in; a file of that name is `./-`."""
_NEEDED = ("clusters", "pools")
_CONFIG = (("config",), ("environment", "values", "pulumiConfig"))
"""Where keys of the configuration stand in a file."""


@dataclass(frozen=True)
class StackFile:
    """The part of a stack file this tool owns."""

    path: FilePath
    stack: str
    """The stack's name: `dev` for `Pulumi.dev.yaml`."""
    config: JsonObject
    """Values under `gpupools:`, by key without the namespace."""
    others: JsonObject = field(default_factory=dict)
    """Values of all other namespaces, by whole key."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Line (from 1) of every key and list item, by path."""
    environments: tuple[str, ...] = ()
    """ESC environments that the stack takes values from besides."""
    is_configured: bool = True
    """Whether it has a map `config:`."""
    nodes: Mapping[Path, tuple[yaml.Node, yaml.Node]] = field(default_factory=dict)
    """Every key with its value, and every list item twice, by path."""
    text: str = ""

    @property
    def note(self) -> str:
        """Say what of the configuration is not in the file; empty when all of it is."""
        if not self.environments:
            return ""
        named = ", ".join(map(shown, self.environments))
        return (
            f"what the environment {named} adds is in Pulumi Cloud, where pulumi preview reads it and nothing here does"
        )

    def line(self, path: Path) -> int:
        """Return the line of a key, or of the nearest thing around it that is in the file."""
        for length in range(len(path), 0, -1):
            line = self._lines_of_text.get(tuple(map(str, path[:length])))
            if line is not None:
                return line
        return 1

    def span(self, path: Path, *, of_key: bool = False) -> "Span | None":
        """Return where a value, or its key, stands, or the nearest thing around it that is in the file."""
        if of_key and (nodes := self.nodes.get((_name(str(path[0])) or path[0], *path[1:]))) is not None:
            return _span(nodes[0], nodes[0])
        for length in range(len(path), 0, -1):
            nodes = self._nodes_of_text.get(tuple(map(str, path[:length])))
            if nodes is not None:
                return _span(*nodes)
        return None

    @cached_property
    def _nodes_of_text(self) -> Mapping[tuple[str, ...], tuple[yaml.Node, yaml.Node]]:
        return {tuple(map(str, path)): nodes for path, nodes in self.nodes.items()}

    @cached_property
    def _lines_of_text(self) -> Mapping[tuple[str, ...], int]:
        # A GPU index is a number in YAML, but text once it went through JSON; both mean the same place.
        return {tuple(map(str, path)): line for path, line in self.lines.items()}


class Span(NamedTuple):
    """Characters of one line."""

    line: int
    """From 1, as the others are."""
    column: int
    end: int
    """The column behind the last."""


class FileRejected(Rejected):
    """A file was read, but what it asks for cannot be built; knows the lines."""

    def __init__(self, problems: Iterable[Problem], file: StackFile, misread: Iterable[Path] = ()) -> None:
        super().__init__(problems)
        self.file = file
        self.misread = frozenset(misread)
        """Where the file has what nobody can judge; the rest of `file.config` is as written."""


class NotYaml(Rejected):
    """A text is no YAML; knows the place where that showed."""

    def __init__(self, problem: Problem, span: Span | None, text: str) -> None:
        super().__init__([problem])
        if span is not None:  # for whoever knows no file, such as the stack program
            self.args = (f"line {span.line}, column {span.column}: {problem}",)
        self.span = span
        self.text = text


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Parses YAML, and leaves what a scalar means to `_Reader`.

    Nodes are put together in Python, from the events of the fast parser: libyaml's own composer has no limit of depth
    and ends the process on a hundred thousand brackets (measured with PyYAML 6.0.3).
    """

    get_single_node = yaml.composer.Composer.get_single_node
    compose_document = yaml.composer.Composer.compose_document
    compose_sequence_node = yaml.composer.Composer.compose_sequence_node
    compose_mapping_node = yaml.composer.Composer.compose_mapping_node

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.anchors: dict[str, yaml.Node] = {}
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH or self._nodes > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem=TOO_MUCH, problem_mark=self.peek_event().start_mark)
        node: yaml.Node | None = yaml.composer.Composer.compose_node(self, parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: str | None) -> yaml.ScalarNode:
        event = self.get_event()
        # `pulumi config set` writes every << with its tag.
        plain = event.implicit[0] if event.tag is None else (event.tag, event.value) == (_MERGE_TAG, _MERGE)
        tag = _PLAIN if plain else event.tag or _TEXT
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style)
        if anchor is not None:
            self.anchors[anchor] = node
        return node


_ONE_DOCUMENT = "expected a single document in the stream"  # PyYAML's words
_PLAIN = "unquoted"
_TEXT = "tag:yaml.org,2002:str"
_TAGS = {_PLAIN, _TEXT, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_MERGE, _MERGE_TAG = "<<", "tag:yaml.org,2002:merge"


def read_stack_file(path: FilePath) -> StackFile:
    """Read one stack file.

    Raises:
        Rejected: It cannot be read, is no YAML, has a key twice, or has no configuration of ours.
    """
    file = read_values(path)
    if file.config:
        return file
    what = f"has no {NAMESPACE}:clusters and no {NAMESPACE}:pools"
    if file.environments:
        raise FileRejected([Problem(("environment",), what, f"{file.note}, or put them under config:")], file)
    if not file.is_configured:
        raise Rejected([Problem((), "has no config: map", "put gpupools:clusters and gpupools:pools under config:")])
    close = next((key for key in file.others if key.rpartition(":")[2] in _NEEDED), None)
    raise FileRejected([Problem(("config",), what, nearest(close, [f"{NAMESPACE}:{key}" for key in _NEEDED]))], file)


def read_values(path: FilePath) -> StackFile:
    """Read what a stack file says under our namespace, which may be nothing.

    Raises:
        Rejected: It cannot be read, is no YAML, has a key twice, or has values that no two readers read alike.
    """
    text = _text(path)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _broken(error, text) from None
    if root is None:
        raise Rejected([Problem((), "the file is empty", "give it config: with gpupools:clusters and gpupools:pools")])
    reader = _Reader()
    document = reader.plain(root, ())
    document = document if isinstance(document, dict) else {}
    environments, inline = _environment(document.get("environment"))
    config = document.get("config")
    problems = reader.problems
    ours, others = _by_name(config, reader.lines, problems)
    below, others_below = _by_name(inline, reader.lines, problems)
    ours |= {name: merged(ours[name], value) if name in ours else value for name, value in below.items()}
    handed_on: JsonDict = {}
    for name, value in ours.items():
        try:
            handed_on[name] = _as_handed_on(name, value)
        except Rejected as rejected:
            problems += rejected.problems
    problems += rewritten_dates(handed_on, ())
    file = StackFile(
        path,
        stack_name(path),
        handed_on,
        others_below | others,
        reader.lines,
        environments,
        is_configured=isinstance(config, dict),
        nodes=reader.nodes,
        text=text,
    )
    if problems:
        raise FileRejected(problems, file, misread={problem.path for problem in problems})
    return file


def _by_name(config: Any, lines: dict[Path, int], problems: list[Problem]) -> tuple[JsonDict, JsonDict]:
    """Return the values under our namespace, by key without it, and all others, by whole key."""
    ours: JsonDict = {}
    others: JsonDict = {}
    for key, value in config.items() if isinstance(config, dict) else ():
        name = _name(key)
        if name is None:
            others[key] = value
            lines[key,] = next(lines[(*above, key)] for above in _CONFIG if (*above, key) in lines)
            continue
        if name in ours:
            what = f"is given twice, as {name} and as {NAMESPACE}:{name}"
            problems.append(Problem((name,), what, "keep one"))
        ours[name] = value
        if name not in KEYS:
            lines[f"{NAMESPACE}:{name}",] = lines[name,]
    return ours, others


def _environment(value: Any) -> tuple[tuple[str, ...], Any]:
    """Return the ESC environments a stack takes values from, and the values that stand in the file itself.

    https://www.pulumi.com/docs/esc/environments/syntax/: `environment:` is a list of names, or a definition.
    """
    if isinstance(value, list):
        return tuple(map(_imported, value)), {}
    if not isinstance(value, dict):
        return (), {}
    imports, values = value.get("imports"), value.get("values")
    config = values.get("pulumiConfig") if isinstance(values, dict) else None
    return tuple(map(_imported, imports if isinstance(imports, list) else ())), _evaluated(config)


def _imported(entry: Any) -> str:
    """Return the name of an import: `name`, or `name: {merge: …}`."""
    return str(next(iter(entry), "")) if isinstance(entry, dict) else str(entry)


def _evaluated(value: Any) -> Any:
    """Put `LATE` where only Pulumi Cloud says what a value of an environment is: secrets, functions, references."""
    if isinstance(value, dict):
        if any(key.startswith("fn::") for key in value):
            return LATE
        return {key: _evaluated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_evaluated(item) for item in value]
    return LATE if isinstance(value, str) and "${" in value else value


def merged(value: Any, below: Any) -> Any:
    """Lay a value of the stack's configuration over that of its environment, as Pulumi does: maps key by key.

    https://github.com/pulumi/pulumi, sdk/go/common/resource/config/object.go, Merge.
    """
    if isinstance(value, dict) and isinstance(below, dict):
        both = {key: merged(item, below[key]) if key in below else item for key, item in value.items()}
        return {**both, **{key: item for key, item in below.items() if key not in value}}
    return value


def _name(key: str) -> str | None:
    """Return a key of `config:` without our namespace; None for another's.

    Pulumi takes a key without a namespace as one of the project's own, and `gpupools:config:x` as `gpupools:x`
    (https://github.com/pulumi/pulumi, sdk/go/common/resource/config/key.go).
    """
    namespace, _, name = key.rpartition(":")
    return name if namespace in ("", NAMESPACE, f"{NAMESPACE}:config") else None


def _as_handed_on(name: str, value: Any) -> Any:
    """Return a key's value as a program gets it: there, text that is JSON means what the JSON says."""
    if value is None:
        return ""  # https://github.com/pulumi/pulumi, sdk/go/common/workspace/loaders.go, checkForEmptyConfig
    return from_text(name, value) if isinstance(value, str) else value


def stack_name(path: FilePath) -> str:
    """Return the stack a file configures: the middle of `Pulumi.<stack>.yaml`, else the name without its ending."""
    name = path.name.removesuffix(".yaml").removesuffix(".yml")
    return name.removeprefix("Pulumi.") or name


def _text(path: FilePath) -> str:
    try:
        if path == STANDARD_INPUT:
            content = _standard_input()
        elif path.is_dir():
            raise Rejected([Problem((), "is a folder", "name a file, e.g. stacks/Pulumi.dev.yaml")])
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            what = f"has more than {MAX_BYTES} bytes"
            raise Rejected([Problem((), what, "name a stack file, or split the environment into several stacks")])
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("Pulumi.*.yaml")) if path.parent.is_dir() else []
        fix = f"in that folder: {', '.join(near)}" if near else "name a file, e.g. stacks/Pulumi.dev.yaml"
        raise Rejected([Problem((), "there is no such file", fix)]) from None
    except UnicodeDecodeError as error:
        raise Rejected([Problem((), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Rejected(
            [Problem((), f"cannot be read: {reason}", "name a file that whoever runs this may read")]
        ) from None


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise Rejected([Problem((), "standard input is closed", "pipe a stack file into it, or name one")])
    return sys.stdin.buffer.read(MAX_BYTES + 1)


_NO_BLANK = ("could not find expected ':'", "mapping values are not allowed in this context")
"""What libyaml says at the end of a text that looks like a key."""


def _broken(error: Exception, text: str) -> NotYaml:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    span = Span(mark.line + 1, mark.column + 1, mark.column + 2) if mark is not None else None
    if getattr(error, "problem", None) in _NO_BLANK and span is not None:
        # A key without a blank behind its colon is a text that goes on in the next line, where libyaml ends.
        before = text.splitlines()[: span.line]
        for number, line in list(enumerate(before, 1))[-2:]:
            key = re.match(r"\s*([\w./-]+):(?=[^ \t:/])", line)
            if key is not None:
                here = Span(number, key.start(1) + 1, key.end() + 1)
                problem = Problem((), f"is not YAML: no blank follows {key[1]}:", "write one behind the colon")
                return NotYaml(problem, here, text)
    return NotYaml(_broken_at(error, span, text), span, text)


def _broken_at(error: Exception, span: Span | None, text: str) -> Problem:
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    if getattr(error, "context", None) == _ONE_DOCUMENT:
        return Problem((), "a second document begins", "keep one; a stack file holds one document")
    if what == TOO_MUCH:
        return Problem((), f"holds {what}", "split the environment into several stacks")
    lines = text.splitlines()
    if span is not None and span.line <= len(lines):
        before = lines[span.line - 1][: span.column]
        if "\t" in before and not before.strip():
            what = f"is not YAML: a tab indents this line{_more_tabs(lines, span.line)}"
            return Problem((), what, "indent with blanks")
    return Problem((), f"is not YAML: {what}", "check quotes, indentation and brackets there")


def _more_tabs(lines: Sequence[str], line: int) -> str:
    """Name the lines after this one that a tab indents too: no reader gets as far as them."""
    more = [str(at) for at, text in enumerate(lines[line:], line + 1) if "\t" in text[: -len(text.lstrip()) or None]]
    named = ", ".join(more[:8]) + (f" and {len(more) - 8} more" if len(more) > 8 else "")
    return f", and line{'s' if len(more) > 1 else ''} {named} too" if more else ""


class _Reader:
    """Turns YAML nodes into plain data, collecting lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.nodes: dict[Path, tuple[yaml.Node, yaml.Node]] = {}
        self.problems: list[Problem] = []
        self._values = self._depth = 0

    def plain(self, node: yaml.Node, at: Path) -> Any:
        """Return the node's value."""
        if isinstance(node, yaml.MappingNode):
            result = self._mapping(node, at)
            # How Pulumi writes an encrypted value inside an object.
            return LATE if set(result) == {"secure"} and isinstance(result["secure"], str) else result
        if not self._enter(node, at):
            return None
        value = self._sequence(node, at) if isinstance(node, yaml.SequenceNode) else self._scalar(node, at)
        self._depth -= 1
        return value

    def _enter(self, node: yaml.Node, at: Path) -> bool:
        """Count a visit, so that aliases of aliases cannot grow without end."""
        self._values += 1
        if self._values > MAX_VALUES or self._depth >= MAX_DEPTH:
            if not any(problem.what.endswith(TOO_MUCH) for problem in self.problems):
                what, fix = f"holds {TOO_MUCH}", "write the values out without nested aliases"
                self.problems.append(Problem(_ours(at[:2]), what, fix))
            return False
        if node.tag not in _TAGS:
            self.problems.append(Problem(_ours(at), f"has the tag {shown(node.tag)}", "leave the tag out"))
            return False
        self._depth += 1
        return True

    def _scalar(self, node: yaml.Node, at: Path) -> Any:
        if node.tag != _PLAIN:
            return node.value
        try:
            return plain_scalar(node.value)
        except UnreadableValueError as error:
            self._misread(error, at)
            return node.value

    def _misread(self, error: UnreadableValueError, at: Path) -> None:
        """Refuse a value that arrives otherwise than it is written, where it is ours to judge; it is not repeated."""
        if _below_config(at) and _name(str(_below_config(at)[0])) is not None:
            what, _, fix = str(error).partition("; ")
            self.problems.append(Problem(_ours(at), what, fix))

    def _sequence(self, node: yaml.SequenceNode, at: Path) -> list[Any]:
        values = []
        for index, item in enumerate(node.value):
            place = _ours((*at, index))
            self.lines[place] = item.start_mark.line + 1
            self.nodes[place] = (item, item)
            values.append(self.plain(item, (*at, index)))
        return values

    def _mapping(self, node: yaml.MappingNode, at: Path) -> dict[Any, Any]:
        if not self._enter(node, at):
            return {}
        result = self._merged(node, at)
        own: dict[str, int] = {}
        for key_node, value_node in node.value:
            if _merges(key_node):
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(_ours(at), "has a key that is not text", "write keys as plain text"))
                continue
            key = self._key(key_node, at)
            place = (*at, key)
            line = key_node.start_mark.line + 1
            if key in own:
                what = f"is given twice, on lines {own[key]} and {line}"
                self.problems.append(Problem(_ours(place), what, "keep one of them", of_key=True))
            ours = _ours(place)
            own[key] = self.lines[ours] = line
            self.nodes[ours] = (key_node, value_node)
            result[key] = self.plain(value_node, place)
        self._depth -= 1
        return result

    def _key(self, node: yaml.ScalarNode, at: Path) -> str:
        key: str = node.value
        if node.tag not in (_PLAIN, _TEXT):
            self.problems.append(Problem(_ours((*at, key)), f"has the tag {shown(node.tag)}", "leave the tag out"))
        elif key == _MERGE:
            # go-yaml merges for a quoted << as well.
            self.problems.append(Problem(_ours(at), "has << in quotes as a key", "take the quotes off, or the key out"))
        elif node.tag == _PLAIN:
            try:
                return plain_key(key)
            except UnreadableValueError as error:
                self.lines.setdefault(_ours((*at, key)), node.start_mark.line + 1)
                self._misread(error, (*at, key))
        return key

    def _merged(self, node: yaml.MappingNode, at: Path) -> JsonDict:
        """Return what `<<` brings in: https://yaml.org/type/merge.html, where the first of several maps wins."""
        result: JsonDict = {}
        merges = [value for key, value in node.value if _merges(key)]
        if len(merges) > 1:
            self.problems.append(Problem(_ours(at), "has << twice", "write one: <<: [*first, *second]"))
        for value_node in merges:
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in reversed(sources):
                if isinstance(source, yaml.MappingNode):
                    result |= self._mapping(source, at)
                else:
                    self.problems.append(Problem(_ours(at), "<< merges something that is no map", "name a map"))
        return result


def _span(key: yaml.Node, value: yaml.Node) -> Span:
    """Return where a value of one line stands that is written behind its key; else where the key does."""
    start, end = value.start_mark, value.end_mark
    written_here = start.index > key.end_mark.index or value is key
    if not (isinstance(value, yaml.ScalarNode) and value.value and start.line == end.line and written_here):
        start, end = key.start_mark, key.end_mark
    ends = end.column if end.line == start.line else start.column + 1
    return Span(start.line + 1, start.column + 1, max(ends, start.column + 1) + 1)


def _merges(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag == _PLAIN and key.value == _MERGE


def _below_config(path: Path) -> Path:
    """Return a path from the top of the file without what leads to a key of the configuration; empty elsewhere."""
    for prefix in _CONFIG:
        if path[: len(prefix)] == prefix:
            return path[len(prefix) :]
    return ()


def _ours(path: Path) -> Path:
    """Turn a path from the top of the file into one of the configuration: `config.gpupools:pools.a` to `pools.a`."""
    inner = _below_config(path)
    name = _name(str(inner[0])) if inner else None
    return (name, *inner[1:]) if name is not None else path


def is_in_checkout(path: str, folder: FilePath) -> bool:
    """Say whether a path leads into the checkout, or the project, that a folder is part of.

    Args:
        path: Absolute, or beginning with `~/`.
        folder: Where the stack file is.
    """
    here, home = folder.resolve(), FilePath(os.path.expanduser("~")).resolve()  # noqa: PTH111 - never raises
    # People keep their dotfiles in a repository, and their kubeconfig below it.
    above = [each for each in (here, *here.parents) if not home.is_relative_to(each)]
    # The outermost, since a pull request may also bring what is around a submodule.
    top = next((each for mark in (".git", "Pulumi.yaml") for each in above[::-1] if (each / mark).exists()), here)
    try:
        return FilePath(path).expanduser().resolve().is_relative_to(top)
    except (OSError, RuntimeError, ValueError):  # no home, a loop of links
        return True
