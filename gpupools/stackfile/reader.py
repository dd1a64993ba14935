"""Reads a stack file: the one place in the domain that opens what a user names; keeps the line of every key."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from gpupools.common.bounded_yaml import MERGE, BoundedLoader, NodeReader, TooMuchError, line_of, yaml_fault
from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict, JsonObject, with_items
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    TOO_MUCH,
    Scalar,
    UnreadableValueError,
    from_text,
    plain_key,
    plain_scalar,
    rewritten_dates,
)
from gpupools.stackfile.stack_validation import KEYS

NAMESPACE = "gpupools"
"""Path that means standard input; a file of that name is `./-`."""
_NEEDED = ("clusters", "pools")
_CONFIG = (("config",), ("environment", "values", "pulumiConfig"))
"""Paths of the configuration in a file."""


@dataclass(frozen=True)
class StackFile:
    """The configuration of gpupools in a stack file."""

    path: FilePath
    stack: str
    """Name of the stack: `dev` for `Pulumi.dev.yaml`."""
    config: JsonObject
    """Values under `gpupools:`, by key without the namespace."""
    others: JsonObject = field(default_factory=dict)
    """Values of other namespaces, by full key."""
    environments: tuple[str, ...] = ()
    """ESC environments that the stack imports."""
    is_configured: bool = True
    """Whether the file has a map `config:`."""
    nodes: Mapping[Path, tuple[yaml.Node, yaml.Node]] = field(default_factory=dict)
    """YAML nodes of each key and its value, or of each list item twice, by path."""
    text: str = ""

    @property
    def note(self) -> str:
        """Return a note about configuration outside the file; empty if there is none."""
        if not self.environments:
            return ""
        named = ", ".join(map(shown, self.environments))
        return (
            f"values from the ESC environment {named} are not checked here; pulumi preview reads them from Pulumi Cloud"
        )

    def line(self, path: Path) -> int:
        """Return the line of a path, or of its nearest parent in the file."""
        nodes = self._nearest(path)
        return line_of(nodes[0]) if nodes is not None else 1

    def span(self, path: Path, *, of_key: bool = False) -> "Span | None":
        """Return the position of a value or its key, or of its nearest parent in the file."""
        if of_key and (nodes := self.nodes.get((_name(str(path[0])) or path[0], *path[1:]))) is not None:
            return _span(nodes[0], nodes[0])
        nodes = self._nearest(path)
        return _span(*nodes) if nodes is not None else None

    def _nearest(self, path: Path) -> tuple[yaml.Node, yaml.Node] | None:
        found = (self._nodes_of_text.get(tuple(map(str, path[:length]))) for length in range(len(path), 0, -1))
        return next(filter(None, found), None)

    @cached_property
    def _nodes_of_text(self) -> Mapping[tuple[str, ...], tuple[yaml.Node, yaml.Node]]:
        # A GPU index is a number in YAML but text in JSON.
        return {tuple(map(str, path)): nodes for path, nodes in self.nodes.items()}


class Span(NamedTuple):
    """Characters of one line."""

    line: int
    """From 1, like the columns."""
    column: int
    end: int
    """Column after the last character."""


class FileRejected(Rejected):
    """A file that was read is invalid; has the file for the lines."""

    def __init__(self, problems: Iterable[Problem], file: StackFile, misread: Iterable[Path] = ()) -> None:
        super().__init__(problems)
        self.file = file
        self.misread = frozenset(misread)
        """Paths of unreadable values; the rest of `file.config` is as written."""


class NotYaml(Rejected):
    """Text is not YAML; has the position of the error."""

    def __init__(self, problem: Problem, span: Span | None, text: str) -> None:
        super().__init__([problem])
        if span is not None:  # for callers without a file, such as the stack program
            self.args = (f"line {span.line}, column {span.column}: {problem}",)
        self.span = span
        self.text = text


class _Loader(BoundedLoader):
    """Parses YAML and leaves the interpretation of scalars to `_Reader`."""

    most, deepest = MAX_VALUES, MAX_DEPTH

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        event = self.get_event()
        plain = MERGE if event.value == _MERGE else _PLAIN
        tag = plain if event.tag is None and event.implicit[0] else event.tag or _TEXT
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style)
        if anchor is not None:
            self.anchors[anchor] = node
        return node


_ONE_DOCUMENT = "expected a single document in the stream"  # PyYAML's words
_PLAIN = "unquoted"
_TEXT = "tag:yaml.org,2002:str"
_TAGS = {_PLAIN, _TEXT, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_MERGE = "<<"


def read_stack_file(path: FilePath) -> StackFile:
    """Return one stack file.

    Raises:
        Rejected: It cannot be read, is not YAML, has a duplicate key, or has no configuration of gpupools.
    """
    file = read_values(path)
    if file.config:
        return file
    what = f"has neither {NAMESPACE}:clusters nor {NAMESPACE}:pools"
    if file.environments:
        raise FileRejected([Problem(("environment",), what, f"{file.note}; or move them to config:")], file)
    if not file.is_configured:
        raise Rejected([Problem((), "has no config: map", "add config: with gpupools:clusters and gpupools:pools")])
    close = next((key for key in file.others if key.rpartition(":")[2] in _NEEDED), None)
    raise FileRejected([Problem(("config",), what, nearest(close, [f"{NAMESPACE}:{key}" for key in _NEEDED]))], file)


def read_values(path: FilePath) -> StackFile:
    """Return one stack file, also without configuration of gpupools.

    Raises:
        Rejected: It cannot be read, is not YAML, has a duplicate key, or has ambiguous values.
    """
    text = _file_text(path)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _broken(error, text) from None
    if root is None:
        raise Rejected([Problem((), "the file is empty", "add config: with gpupools:clusters and gpupools:pools")])
    reader = _Reader()
    document = reader.value(root, ())
    document = document if isinstance(document, dict) else {}
    environments, inline = _environment(document.get("environment"))
    config = document.get("config")
    problems = reader.problems
    ours, others = _by_name(config, reader.nodes, problems)
    below, others_below = _by_name(inline, reader.nodes, problems)
    ours |= {name: merged(ours[name], value) if name in ours else value for name, value in below.items()}
    handed_on: JsonDict = {}
    for name, value in ours.items():
        try:
            handed_on[name] = _program_value(name, value)
        except Rejected as rejected:
            problems += rejected.problems
    problems += rewritten_dates(handed_on, ())
    file = StackFile(
        path,
        stack_name(path),
        handed_on,
        others_below | others,
        environments,
        is_configured=isinstance(config, dict),
        nodes=reader.nodes,
        text=text,
    )
    if problems:
        raise FileRejected(problems, file, misread={problem.path for problem in problems})
    return file


def _by_name(
    config: Any, nodes: dict[Path, tuple[yaml.Node, yaml.Node]], problems: list[Problem]
) -> tuple[JsonDict, JsonDict]:
    """Return our values by key without the namespace, and all others by full key."""
    ours: JsonDict = {}
    others: JsonDict = {}
    for key, value in config.items() if isinstance(config, dict) else ():
        name = _name(key)
        if name is None:
            others[key] = value
            nodes[key,] = next(nodes[(*above, key)] for above in _CONFIG if (*above, key) in nodes)
            continue
        if name in ours:
            what = f"is set twice, as {name} and as {NAMESPACE}:{name}"
            problems.append(Problem((name,), what, "keep one"))
        ours[name] = value
        if name not in KEYS:
            nodes[f"{NAMESPACE}:{name}",] = nodes[name,]
    return ours, others


def _environment(value: Any) -> tuple[tuple[str, ...], Any]:
    """Return the ESC environments that a stack imports, and the values of an inline environment.

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
    """Replace values that only Pulumi Cloud can resolve with `LATE`: secrets, functions, references."""
    is_function = isinstance(value, dict) and any(key.startswith("fn::") for key in value)
    if is_function or (isinstance(value, str) and "${" in value):
        return LATE
    return with_items(value, _evaluated)


def merged(value: Any, below: Any) -> Any:
    """Merge a value of the stack's configuration into that of its environment as Pulumi does, map by map.

    https://github.com/pulumi/pulumi, sdk/go/common/resource/config/object.go, Merge.
    """
    if isinstance(value, dict) and isinstance(below, dict):
        both = {key: merged(item, below[key]) if key in below else item for key, item in value.items()}
        return {**both, **{key: item for key, item in below.items() if key not in value}}
    return value


def _name(key: str) -> str | None:
    """Return a key of `config:` without our namespace; None for another namespace.

    Pulumi reads a key without a namespace as a key of the project, and `gpupools:config:x` as `gpupools:x`
    (https://github.com/pulumi/pulumi, sdk/go/common/resource/config/key.go).
    """
    namespace, _, name = key.rpartition(":")
    return name if namespace in ("", NAMESPACE, f"{NAMESPACE}:config") else None


def _program_value(name: str, value: Any) -> Any:
    """Return a key's value as a program receives it: text that is valid JSON is parsed."""
    if value is None:
        return ""  # https://github.com/pulumi/pulumi, sdk/go/common/workspace/loaders.go, checkForEmptyConfig
    return from_text(name, value) if isinstance(value, str) else value


def stack_name(path: FilePath) -> str:
    """Return the stack that a file configures: `<stack>` of `Pulumi.<stack>.yaml`, else the name without suffix."""
    name = path.name.removesuffix(".yaml").removesuffix(".yml")
    return name.removeprefix("Pulumi.") or name


def _file_text(path: FilePath) -> str:
    try:
        return read_bytes(path, MAX_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("Pulumi.*.yaml")) if path.parent.is_dir() else []
        fix = f"stack files in that folder: {', '.join(near)}" if near else "use a file, e.g. stacks/Pulumi.dev.yaml"
        raise Rejected([Problem((), "does not exist", fix)]) from None
    except UnicodeDecodeError as error:
        raise Rejected([Problem((), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Rejected(
            [Problem((), f"cannot be read: {reason}", "use a stack file, e.g. stacks/Pulumi.dev.yaml")]
        ) from None


_NO_BLANK = ("could not find expected ':'", "mapping values are not allowed in this context")
"""Messages of libyaml after text that looks like a key."""


def _broken(error: Exception, text: str) -> NotYaml:
    what, mark = yaml_fault(error)
    span = Span(mark.line + 1, mark.column + 1, mark.column + 2) if mark is not None else None
    if what in _NO_BLANK and span is not None:
        # A key without a space after its colon is text that continues on the next line, where libyaml fails.
        before = text.splitlines()[: span.line]
        for number, line in list(enumerate(before, 1))[-2:]:
            key = re.match(r"\s*([\w./-]+):(?=[^ \t:/])", line)
            if key is not None:
                here = Span(number, key.start(1) + 1, key.end() + 1)
                problem = Problem((), f"is not YAML: no space after {key[1]}:", "add a space after the colon")
                return NotYaml(problem, here, text)
    return NotYaml(_broken_at(error, what, span, text), span, text)


def _broken_at(error: Exception, what: str, span: Span | None, text: str) -> Problem:
    if getattr(error, "context", None) == _ONE_DOCUMENT:
        return Problem((), "has a second YAML document", "keep one; a stack file has one document")
    if isinstance(error, TooMuchError):
        return Problem((), f"holds {TOO_MUCH}", "split the stack into several stacks")
    lines = text.splitlines()
    if span is not None and span.line <= len(lines):
        before = lines[span.line - 1][: span.column]
        if "\t" in before and not before.strip():
            what = f"is not YAML: this line{_more_tabs(lines, span.line)} is indented with a tab"
            return Problem((), what, "indent with spaces")
    return Problem((), f"is not YAML: {what}", "check quotes, indentation and brackets")


def _more_tabs(lines: Sequence[str], line: int) -> str:
    """Return the later lines that are indented with a tab, which the parser does not reach."""
    more = [str(at) for at, text in enumerate(lines[line:], line + 1) if "\t" in text[: -len(text.lstrip()) or None]]
    named = ", ".join(more[:8]) + (f" and {len(more) - 8} more" if len(more) > 8 else "")
    return f" (and line{'s' if len(more) > 1 else ''} {named})" if more else ""


class _Reader(NodeReader):
    """Converts YAML nodes to what a program receives, and collects their places and problems."""

    def __init__(self) -> None:
        super().__init__(MAX_VALUES, MAX_DEPTH)
        self.nodes: dict[Path, tuple[yaml.Node, yaml.Node]] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, at: Path) -> Any:
        value = self.plain(node, at)
        # Pulumi's form of an encrypted value.
        return (
            LATE if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str) else value
        )

    def enter(self, node: yaml.Node, at: Path) -> bool:
        try:
            super().enter(node, at)
        except TooMuchError:
            if not any(problem.what.endswith(TOO_MUCH) for problem in self.problems):
                self._report(at[:2], f"holds {TOO_MUCH}", "remove nested aliases")
            return False
        # `pulumi config set` writes every << with its tag.
        if node.tag not in _TAGS and not (node.tag == MERGE and node.value == _MERGE):
            self._report(at, f"has the tag {shown(node.tag)}", "remove the tag")
            return False
        return True

    def scalar(self, node: yaml.Node, at: Path) -> Any:
        return self._as_received(plain_scalar, node, at)

    def key(self, node: yaml.Node, at: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._report(at, "has a key that is not text", "write keys as text")
            return None
        if node.tag not in (_PLAIN, _TEXT):
            self._report((*at, node.value), f"has the tag {shown(node.tag)}", "remove the tag")
        elif node.value == _MERGE:
            # go-yaml merges for a quoted << as well.
            self._report(at, "has the key << in quotes", "remove the quotes or the key")
        return str(self._as_received(plain_key, node, (*at, node.value)))

    def keep(self, path: Path, key: yaml.Node, value: yaml.Node) -> None:
        self.nodes[_ours(path)] = (key, value)

    def twice(self, path: Path, first: yaml.Node, again: yaml.Node) -> None:
        what = f"is set twice, on lines {line_of(first)} and {line_of(again)}"
        self._report(path, what, "keep one of them", of_key=True)

    def merged(self, node: yaml.MappingNode, at: Path) -> Any:
        return self.plain(node, at)

    def wrong_merge(self, at: Path, what: str, fix: str) -> None:
        self._report(at, what, fix)

    def _as_received(self, read: Callable[[str], Scalar], node: yaml.Node, at: Path) -> Any:
        """Return a scalar as a program receives it; report one of ours that changes, without repeating it."""
        try:
            return read(node.value) if node.tag == _PLAIN else node.value
        except UnreadableValueError as error:
            if _below_config(at) and _name(str(_below_config(at)[0])) is not None:
                what, _, fix = str(error).partition("; ")
                self._report(at, what, fix)
            return node.value

    def _report(self, at: Path, what: str, fix: str, *, of_key: bool = False) -> None:
        self.problems.append(Problem(_ours(at), what, fix, of_key=of_key))


def _span(key: yaml.Node, value: yaml.Node) -> Span:
    """Return the position of a one-line value that follows its key, else that of the key."""
    start, end = value.start_mark, value.end_mark
    written_here = start.index > key.end_mark.index or value is key
    if not (isinstance(value, yaml.ScalarNode) and value.value and start.line == end.line and written_here):
        start, end = key.start_mark, key.end_mark
    ends = end.column if end.line == start.line else start.column + 1
    return Span(start.line + 1, start.column + 1, max(ends, start.column + 1) + 1)


def _below_config(path: Path) -> Path:
    """Return a path of the file relative to the configuration; empty outside it."""
    for prefix in _CONFIG:
        if path[: len(prefix)] == prefix:
            return path[len(prefix) :]
    return ()


def _ours(path: Path) -> Path:
    """Convert a path of the file to one of the configuration: `config.gpupools:pools.a` to `pools.a`."""
    inner = _below_config(path)
    name = _name(str(inner[0])) if inner else None
    return (name, *inner[1:]) if name is not None else path


def is_in_checkout(path: str, folder: FilePath) -> bool:
    """Return whether a path, absolute or with `~/`, leads into the checkout or project of a stack file's folder."""
    here = folder.resolve()
    # A home folder may itself be a repository (dotfiles), with a kubeconfig in it.
    above = [parent for parent in (here, *here.parents) if parent.exists() and not holds_home(parent)] or [here]
    # The outermost one: a pull request may also change what surrounds a submodule.
    tops = (root for mark in (".git", "Pulumi.yaml") for root in above[::-1] if (root / mark).exists())
    top = next(tops, above[0])
    try:
        named = FilePath(path).expanduser().resolve()
        # Each folder, because a part of the checkout may be mounted at another place.
        return any(_is_within(named, each) for each in above[: above.index(top) + 1])
    except (OSError, RuntimeError, ValueError):  # no home folder, or a loop of links
        return True


def holds_home(folder: FilePath) -> bool:
    """Return whether a folder is the home folder of the account or above it. `HOME` may be the checkout of a CI job."""
    try:
        import pwd

        home = pwd.getpwuid(os.getuid()).pw_dir
    except ImportError:  # Windows
        home = os.path.expanduser("~")  # noqa: PTH111 - never raises
    except KeyError:  # a container runs as a number that has no account
        return False
    return _is_within(FilePath("/", home).resolve(), folder)


def _is_within(path: FilePath, folder: FilePath) -> bool:
    """Compare folders themselves, not names: a disk may ignore case, and a folder be mounted twice."""
    return any(parent.exists() and parent.samefile(folder) for parent in (path, *path.parents))
