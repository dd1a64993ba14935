"""Finds the line of a resource of a Terraform plan, or of one of its inputs, in the configuration beside the plan.

The configuration is at hand where the plan lies in the folder it was made in. Modules are found through
`.terraform/modules/modules.json`, which `terraform init` writes, or by a local source; nothing outside of the
repository is opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from gpupools.audit.terraform_constants import line_of_key, read_object
from gpupools.common.errors import Problem, Rejected
from gpupools.common.input_files import read_bytes
from gpupools.common.sdk import NEED_FOR_SOURCES
from gpupools.plan.pool_facts import UNKNOWN

if TYPE_CHECKING:
    from lark import Tree

Calls = tuple[str, ...]
"""Names of the module calls that lead to a module; empty for the root."""

_MOST_BYTES = 1_000_000
"""Of all files together; the parser reads about 50 kB a second."""

_ADDRESS = re.compile(
    r'(?P<modules>(?:module\.[\w-]+(?:\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?\.)*)(?P<type>[\w-]+)\.(?P<name>[\w-]+)'
)
_PLAIN = ("NAME", "STRING_CHARS")
_POOL = re.compile(r'\bmodule\.[\w-]{1,99}(?:\[[^][]{0,99}\])?\.([\w-]{1,99})(?:\["([^"]{0,99})"\])?$')
"""A pool that a module's argument names."""
_MODULE = re.compile(r'module\.([\w-]+)(?:\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?(?:\.|$)')


def module_calls(module: str) -> Calls:
    """Return the names in a module's address: `module.a["x"].module.b` is (a, b)."""
    return tuple(_MODULE.findall(module))


@dataclass
class Block:
    """A block of a configuration: its line, and those of what is inside."""

    line: int
    inside: dict[str, list[Block]] = field(default_factory=dict)
    """Attributes and blocks by name; a `dynamic` block by the name of what it makes."""
    expression: Tree[Any] | None = None
    """Of an attribute."""
    repeats: Tree[Any] | None = None
    """`for_each` of a `dynamic` block."""
    iterator: str = ""
    """Of a `dynamic` block: the name of the repeated value in it; empty for any other."""

    def at(self, path: str) -> int:
        """Return the line of an input, or of what is nearest around it."""
        name, bracket, rest = re.match(r"([^.\[]*)(\[\d+\])?\.?(.*)", path).groups()  # type: ignore[union-attr]
        found = self.inside.get(name)
        if not found:
            return (line_of_key(self.expression, path) if self.expression is not None else None) or self.line
        place = int(bracket[1:-1]) if bracket else 0
        return found[place if place < len(found) else 0].at(rest) if rest else found[min(place, len(found) - 1)].line


def missing_parser(folders: Iterable[FilePath]) -> str:
    """Return what to install where a folder has .tf files that cannot be parsed; empty where nothing is missing."""
    if find_spec("hcl2") is not None or not any(file for folder in folders for file in folder.glob("*.tf")):
        return ""
    return f"findings have the lines of the plan; lines of its .tf files need {NEED_FOR_SOURCES}"


class Sources:
    """The configuration beside a plan."""

    def __init__(self, folder: FilePath, sources: Mapping[Calls, str]) -> None:
        """Take a configuration.

        Args:
            folder: The plan's.
            sources: What each module call names as the module's source.
        """
        self._folder, self._sources = folder, sources
        self._left = _MOST_BYTES
        self._read: dict[FilePath, dict[tuple[str, str], tuple[FilePath, Block]]] = {}

    def folders(self) -> Iterator[FilePath]:
        """Yield the folders of the local modules."""
        fromkeys = dict.fromkeys(self._folder_of(calls) for calls, source in self._sources.items() if source[:1] == ".")
        return (folder for folder in fromkeys if folder is not None and self._is_within(folder))

    def place(self, address: str, path: str) -> tuple[FilePath, int] | None:
        """Return file and line of an input of a resource; None where the configuration is not at hand.

        Args:
            address: Terraform's address of the resource.
            path: The input in Terraform's names, or what is nearest around it.
        """
        found = self._block(address)
        where = path.partition(" ")[0]
        in_module = (
            _POOL.search(address) if found is not None and where.partition(".")[0] not in found[1].inside else None
        )
        if in_module is not None:
            where = ".".join(filter(None, in_module.groups()))
        return (found[0], found[1].at(where)) if found is not None else None

    def object_of(self, address: str, attribute: str) -> Any:
        """Return the object that an attribute of a resource is as far as it is constant; else `UNKNOWN`."""
        found = self._block(address)
        given = found[1].inside.get(attribute, ()) if found is not None else ()
        expression = given[0].expression if len(given) == 1 else None
        try:
            return (
                read_object(expression, partial(self._file_text, found[0].parent)) if found and expression else UNKNOWN
            )
        except (ValueError, IndexError, RecursionError):
            return UNKNOWN

    def _file_text(self, folder: FilePath, path: str) -> str | None:
        """Return the text of a file of a module; None where it cannot be read, is large, or is outside."""
        file = folder / path
        try:
            return read_bytes(file, _MOST_BYTES).decode("utf-8") if self._is_within(file) else None
        except (OSError, ValueError):
            return None

    def _block(self, address: str) -> tuple[FilePath, Block] | None:
        match = _ADDRESS.match(address)
        if match is None:
            return None
        folder = self._folder_of(module_calls(match["modules"]))
        return self._blocks(folder).get((match["type"], match["name"])) if folder is not None else None

    @cached_property
    def _repository(self) -> FilePath:
        return repository_of(self._folder)

    def _is_within(self, path: FilePath) -> bool:
        return path.resolve().is_relative_to(self._repository)

    @cached_property
    def _installed(self) -> Mapping[str, str]:
        """The folders that `terraform init` notes, by the names of calls with dots between."""
        manifest = self._folder / ".terraform" / "modules" / "modules.json"
        try:
            if not self._is_within(manifest):
                return {}
            modules = json.loads(read_bytes(manifest, _MOST_BYTES))["Modules"]
            return {module["Key"]: module["Dir"] for module in modules if isinstance(module["Dir"], str)}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}

    def _folder_of(self, calls: Calls) -> FilePath | None:
        if not calls:
            return self._folder
        if ".".join(calls) in self._installed:
            return self._folder / self._installed[".".join(calls)]
        source, parent = self._sources.get(calls, ""), self._folder_of(calls[:-1])
        is_local = source.startswith(("./", "../"))
        return FilePath(os.path.normpath(parent / source)) if parent is not None and is_local else None

    def _blocks(self, folder: FilePath) -> Mapping[tuple[str, str], tuple[FilePath, Block]]:
        if folder not in self._read:
            found = self._read[folder] = {}
            try:
                # Override files come first, since what they say counts; those in JSON are not read.
                readable = self._is_within(folder) and not any(folder.glob("*override.tf.json"))
                files = sorted(folder.glob("*.tf") if readable else ())
                files.sort(key=lambda file: not file.stem.endswith("override"))
            except OSError:
                files = []
            for file in files:
                for kind, block in self._named_blocks(file):
                    found.setdefault(kind, (file, block))
        return self._read[folder]

    def _named_blocks(self, file: FilePath) -> Iterator[tuple[tuple[str, str], Block]]:
        """Yield type, name and block of each resource and module of a file; nothing of one that cannot be read."""
        with suppress(Rejected, OSError, ImportError):  # `missing_parser` says what to install
            if file.is_file() and self._is_within(file) and file.stat().st_size <= self._left:
                self._left -= file.stat().st_size
                for words, block in blocks_of(file):
                    if (words[:1], len(words)) in ((["resource"], 3), (["module"], 2)):
                        yield (words[-2], words[-1]), block


def blocks_of(file: FilePath) -> list[tuple[list[str], Block]]:
    """Return the words and contents of each block of a file, and first, without words, its own attributes.

    Raises:
        Rejected: It cannot be read.
    """
    try:
        stat = file.stat()
    except OSError:
        raise _unreadable(file) from None
    return _parsed_blocks(file.resolve(), stat.st_mtime_ns, stat.st_size)


def _unreadable(file: FilePath) -> Rejected:
    return Rejected([Problem((), f"{file} cannot be read as Terraform", "format it with terraform fmt")])


@lru_cache(maxsize=2_048)  # a module is read for each of its calls, and for the lines of findings
def _parsed_blocks(file: FilePath, changed: int, size: int) -> list[tuple[list[str], Block]]:
    from hcl2 import parses_to_tree  # slow to import, and only findings need it
    from lark.exceptions import LarkError

    try:
        body = next(_children(parses_to_tree(read_bytes(file, _MOST_BYTES).decode("utf-8")), "body"), None)
    except (OSError, ValueError, LarkError, RecursionError):
        raise _unreadable(file) from None
    return [([], _inside(body, 1)), *((_words(block), _read(block)) for block in _blocks(body))]


def repository_of(folder: FilePath) -> FilePath:
    """Return the repository around a folder, or the folder itself."""
    here = folder.resolve()
    return next((path for path in (here, *here.parents) if (path / ".git").exists()), here)


def _children(tree: Tree[Any] | None, kind: str) -> Iterator[Tree[Any]]:
    for child in tree.children if tree is not None else ():
        if getattr(child, "data", None) == kind:
            yield child


def _blocks(body: Tree[Any] | None) -> Iterator[Tree[Any]]:
    return _children(body, "block")


def _words(block: Tree[Any]) -> list[str]:
    """Return the words before a block's brace."""
    # resource "type" "name"
    return [_source_text(child) for kind in ("identifier", "string") for child in _children(block, kind)]


def _source_text(tree: Tree[Any]) -> str:
    return "".join(token for token in tree.scan_values(lambda token: getattr(token, "type", "") in _PLAIN))


def _read(block: Tree[Any]) -> Block:
    return _inside(next(_children(block, "body"), None), block.meta.line)


def _inside(body: Tree[Any] | None, line: int) -> Block:
    made = Block(line)
    for attribute in _children(body, "attribute"):
        name = str(attribute.children[0].children[0])  # for `for_each`, the parser has a token of its own
        expression = next((child for child in reversed(attribute.children) if hasattr(child, "data")), None)
        made.inside.setdefault(name, []).append(Block(attribute.meta.line, expression=expression))
    for inner in _blocks(body):
        words = _words(inner)
        if words[0] == "dynamic" and len(words) == 2:
            content = next((block for block in _blocks(next(_children(inner, "body"), None))), inner)
            given = _read(inner).inside
            repeats = given["for_each"][0].expression if "for_each" in given else None
            named = given["iterator"][0].expression if "iterator" in given else None
            iterator = _source_text(named) if named is not None else words[1]
            made.inside.setdefault(words[1], []).append(replace(_read(content), repeats=repeats, iterator=iterator))
        else:
            made.inside.setdefault(words[0], []).append(_read(inner))
    return made
