"""Reading a stack file: the one place in the domain that opens what a user names; keeps the line of every key."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import yaml

from gpupools.errors import Path, Problem, Rejected, nearest, shown
from gpupools.spec import LATE
from gpupools.stack import KEYS

NAMESPACE = "gpupools"
MAX_BYTES = 1024 * 1024
"""A stack file is written by people; a megabyte is thousands of pools."""
_NEEDED = ("clusters", "pools")
_MAX_VALUES = 100_000
_MAX_DEPTH = 60


@dataclass(frozen=True)
class StackFile:
    """The part of a stack file this tool owns."""

    path: FilePath
    stack: str
    """The stack's name: `dev` for `Pulumi.dev.yaml`."""
    config: Mapping[str, Any]
    """Values under `gpupools:`, by key without the namespace."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Values of all other namespaces, by whole key."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Line (from 1) of every key and list item, by path."""

    def line(self, path: Path) -> int:
        """Return the line of a key, or of the nearest thing around it that is in the file."""
        for length in range(len(path), 0, -1):
            line = self._lines_of_text.get(tuple(map(str, path[:length])))
            if line is not None:
                return line
        return 1

    @cached_property
    def _lines_of_text(self) -> Mapping[tuple[str, ...], int]:
        # A GPU index is a number in YAML, but text once it went through JSON; both mean the same place.
        return {tuple(map(str, path)): line for path, line in self.lines.items()}


class FileRejected(Rejected):
    """A file was read, but what it asks for cannot be built; knows the lines."""

    def __init__(self, problems: Iterable[Problem], file: StackFile) -> None:
        super().__init__(problems)
        self.file = file


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as Pulumi's CLI does: yes, no, on and off are text (go-yaml v3), only true and false are not.

    Nodes are put together in Python, from the events of the fast parser: libyaml's own composer has no limit of depth
    and ends the process on a hundred thousand brackets (measured with PyYAML 6.0.3).
    """

    get_single_node = yaml.composer.Composer.get_single_node
    compose_document = yaml.composer.Composer.compose_document
    compose_scalar_node = yaml.composer.Composer.compose_scalar_node
    compose_sequence_node = yaml.composer.Composer.compose_sequence_node
    compose_mapping_node = yaml.composer.Composer.compose_mapping_node

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.anchors: dict[str, yaml.Node] = {}
        self._depth = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        self._nodes += 1
        if self._depth > _MAX_DEPTH or self._nodes > _MAX_VALUES:
            raise yaml.MarkedYAMLError(problem=_TOO_MUCH, problem_mark=self.peek_event().start_mark)
        node: yaml.Node | None = yaml.composer.Composer.compose_node(self, parent, index)
        self._depth -= 1
        return node


_TOO_MUCH = f"more than {_MAX_VALUES} values, or values nested deeper than {_MAX_DEPTH}"
_ONE_DOCUMENT = "expected a single document in the stream"  # PyYAML's words
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"


# As go-yaml v3 reads them: no base 60, which YAML 1.1 has and PyYAML with it, and 1e3 is a number.
# https://github.com/go-yaml/yaml, resolve.go
_NUMBERS = {
    "int": re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    "float": re.compile(
        r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))$"
        r"|\.(?:nan|NaN|NAN)$"
    ),
}


def _is_resolved(first: str, tag: str) -> bool:
    """Say whether plain text that starts with `first` may be something else than text."""
    kind = tag.rpartition(":")[2]
    return kind not in ("timestamp", "value") and not (kind == "bool" and first in ("y", "Y", "n", "N", "o", "O"))


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _NUMBERS.get(tag.rpartition(":")[2], pattern)) for tag, pattern in resolvers if _is_resolved(first, tag)
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_stack_file(path: FilePath) -> StackFile:
    """Read one stack file.

    Raises:
        Rejected: It cannot be read, is no YAML, has a key twice, or has no configuration of ours.
    """
    text = _text(path)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Rejected([_broken(error)]) from None
    if root is None:
        raise Rejected([Problem((), "the file is empty", "give it config: with gpupools:clusters and gpupools:pools")])
    reader = _Reader()
    document = reader.plain(root, ())
    file = StackFile(path, stack_name(path), {}, {}, reader.lines)
    if reader.problems:
        raise FileRejected(reader.problems, file)
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise Rejected([Problem((), "has no config: map", "put gpupools:clusters and gpupools:pools under config:")])
    ours: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in config.items():
        # Pulumi takes a key without a namespace as one of the project's own.
        namespace, _, name = str(key).rpartition(":")
        if namespace in (NAMESPACE, ""):
            if name in ours:
                what = f"is given twice, as {name} and as {NAMESPACE}:{name}"
                raise FileRejected([Problem((name,), what, "keep one")], file)
            ours[name] = value
            if name not in KEYS:
                reader.lines[f"{NAMESPACE}:{name}",] = reader.lines[_ours(("config", key))]
        else:
            others[str(key)] = value
            reader.lines[str(key),] = reader.lines["config", key]
    if not ours:
        close = next((key for key in map(str, config) if key.rpartition(":")[2] in _NEEDED), None)
        what = f"has no {NAMESPACE}:clusters and no {NAMESPACE}:pools"
        raise FileRejected(
            [Problem(("config",), what, nearest(close, [f"{NAMESPACE}:{key}" for key in _NEEDED]))], file
        )
    return StackFile(path, stack_name(path), ours, others, reader.lines)


def stack_name(path: FilePath) -> str:
    """Return the stack a file configures: the middle of `Pulumi.<stack>.yaml`, else the name without its ending."""
    name = path.name.removesuffix(".yaml").removesuffix(".yml")
    return name.removeprefix("Pulumi.") or name


def _text(path: FilePath) -> str:
    try:
        if path.is_dir():
            raise Rejected([Problem((), "is a folder", "name a file, e.g. stacks/Pulumi.dev.yaml")])
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
        raise Rejected([Problem((), f"cannot be read: {reason}")]) from None


def _broken(error: Exception) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    if getattr(error, "context", None) == _ONE_DOCUMENT:
        return Problem((), f"{where}a second document begins", "keep one; a stack file holds one document")
    if what == _TOO_MUCH:
        return Problem((), f"{where}holds {what}", "split the environment into several stacks")
    return Problem((), f"{where}is not YAML: {what}", "check quotes, indentation and brackets there")


class _Reader:
    """Turns YAML nodes into plain data, collecting lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._values = self._depth = 0
        self._scalars = yaml.constructor.SafeConstructor()

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
        if self._values > _MAX_VALUES or self._depth >= _MAX_DEPTH:
            if not any(problem.what.endswith(_TOO_MUCH) for problem in self.problems):
                what, fix = f"holds {_TOO_MUCH}", "write the values out without nested aliases"
                self.problems.append(Problem(_ours(at[:2]), what, fix))
            return False
        if node.tag not in _TAGS and not (isinstance(node, yaml.ScalarNode) and node.tag == _MERGE):
            self.problems.append(Problem(_ours(at), f"has the tag {shown(node.tag)}", "leave the tag out"))
            return False
        self._depth += 1
        return True

    def _scalar(self, node: yaml.Node, at: Path) -> Any:
        if node.tag in (_TEXT, _MERGE):
            return node.value
        try:
            value = self._scalars.construct_object(node)
            return value if not isinstance(value, int) or abs(value) < 2**64 else float(value)  # as go-yaml v3 does
        except (yaml.YAMLError, LookupError, ValueError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            self.problems.append(Problem(_ours(at), f"cannot read {shown(node.value)} as {kind}", "quote it"))
            return None

    def _sequence(self, node: yaml.SequenceNode, at: Path) -> list[Any]:
        values = []
        for index, item in enumerate(node.value):
            self.lines[_ours((*at, index))] = item.start_mark.line + 1
            values.append(self.plain(item, (*at, index)))
        return values

    def _mapping(self, node: yaml.MappingNode, at: Path) -> dict[Any, Any]:
        if not self._enter(node, at):
            return {}
        result = self._merged(node, at)
        own: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(_ours(at), "has a key that is not text", "write keys as plain text"))
                continue
            key = self._scalar(key_node, at)
            key = key if isinstance(key, str | int) and not isinstance(key, bool) else key_node.value
            place = (*at, key)
            line = key_node.start_mark.line + 1
            if key in own:
                what = f"is given twice, on lines {own[key]} and {line}"
                self.problems.append(Problem(_ours(place), what, "keep one of them"))
            own[key] = self.lines[_ours(place)] = line
            result[key] = self.plain(value_node, place)
        self._depth -= 1
        return result

    def _merged(self, node: yaml.MappingNode, at: Path) -> dict[Any, Any]:
        """Return what `<<` brings in: https://yaml.org/type/merge.html, where the first of several maps wins."""
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in reversed(sources):
                    if isinstance(source, yaml.MappingNode):
                        result |= self._mapping(source, at)
                    else:
                        self.problems.append(Problem(_ours(at), "<< merges something that is no map", "name a map"))
        return result


def _ours(path: Path) -> Path:
    """Turn a path from the top of the file into one of the configuration: `config.gpupools:pools.a` to `pools.a`."""
    if path[:1] == ("config",) and len(path) > 1:
        name = str(path[1]).removeprefix(f"{NAMESPACE}:")
        return (name, *path[2:]) if ":" not in name else path
    return path


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
