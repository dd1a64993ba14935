"""A folder of `.tf` files, read as the plan that its literals, the defaults of its variables and its locals give.

What needs a provider, a state or a function is unknown. Local modules are followed with their arguments; other modules
are named as not read. The result goes through the reader of plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from gpupools.audit import terraform_plan
from gpupools.audit.document import Document
from gpupools.audit.terraform_constants import read_value, references
from gpupools.audit.terraform_sources import Block, blocks_of, repository_of
from gpupools.common.bounded_yaml import Value
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_SOURCES
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_stack import Gap

if TYPE_CHECKING:
    from lark import Tree

FORM = "Terraform configuration"

_PLAN = "plan it, and give this the output of terraform show -json PLAN"
_MOST_BYTES = 1_000_000
"""Of all files together; the parser reads about 50 kB a second."""
_META = frozenset({"count", "for_each", "provider", "depends_on", "lifecycle", "provisioner", "connection"})
"""https://developer.hashicorp.com/terraform/language/meta-arguments"""


def read_configuration(folder: FilePath) -> Document:
    """Read the `.tf` files of a folder, and the local modules that they call.

    Raises:
        Rejected: A file cannot be read, or the parser is not installed.
    """
    if find_spec("hcl2") is None:
        raise Rejected(
            [Problem((), "has .tf files, which are not read without a parser", f"install {NEED_FOR_SOURCES}")]
        )
    root = _Module(folder, (), {}, repository_of(folder))
    changes, unread = list(root.changes()), root.unread()
    plan = {
        "format_version": "1.2",
        "resource_changes": changes,
        "configuration": {"root_module": root.configuration()},
    }
    document = terraform_plan.read(Text("", (Value(plan),), is_json=True))
    what = f"modules are not read from the configuration: {', '.join(unread)}"
    return replace(document, form=FORM, gaps=(Gap("modules-not-read", what, _PLAN),) if unread else ())


def roots_of(folders: Sequence[FilePath]) -> list[FilePath]:
    """Return the folders that no other of them reads as a module; of those that call each other, the first."""
    calls = {folder.resolve(): {*_called(folder)} for folder in folders}
    called = set[FilePath]().union(*calls.values())
    roots: list[FilePath] = []
    seen: set[FilePath] = set()
    for folder in sorted(folders, key=lambda each: each.resolve() in called):
        if folder.resolve() not in seen:
            roots.append(folder)
        left = [folder.resolve()]
        while left:
            each = left.pop()
            if each not in seen:
                seen.add(each)
                left += calls.get(each, ())
    return roots


def _called(folder: FilePath) -> Iterator[FilePath]:
    """Yield the folders of the local modules that a folder calls."""
    for file in folder.glob("*.tf") if find_spec("hcl2") is not None else ():
        with suppress(Rejected, OSError, ValueError):  # the report on the folder says so
            blocks = blocks_of(file) if _LOCAL.search(file.read_text(encoding="utf-8")) else []
            given = [
                block.inside["source"][0].expression
                for words, block in blocks
                if words[:1] == ["module"] and "source" in block.inside
            ]
            sources = [read_value(each, lambda _: UNKNOWN) for each in given if each is not None]
            inner = ((folder / each).resolve() for each in sources if str(each).startswith(("./", "../")))
            yield from (each for each in inner if each.is_relative_to(repository_of(folder)))


_LOCAL = re.compile(r'\bsource[ \t]*=[ \t]*"\.')
"""Hint of a local module; most files have none, and parsing is slow."""


@dataclass
class _Module:
    folder: FilePath
    calls: tuple[str, ...]
    given: Mapping[str, Any]
    """The arguments of the call."""
    repository: FilePath
    """Around the root; nothing outside is opened."""
    parsed: dict[FilePath, list[tuple[list[str], Block]]] = field(default_factory=dict)
    """Blocks by folder, for modules that are called several times."""
    source: str = ""
    within: tuple[FilePath, ...] = ()
    """Folders of the calling modules."""
    _locals: dict[str, Any] = field(default_factory=dict)

    @property
    def _blocks(self) -> list[tuple[list[str], Block]]:
        if self.folder not in self.parsed:
            self.parsed[self.folder] = self._parse()
        return self.parsed[self.folder]

    def _parse(self) -> list[tuple[list[str], Block]]:
        files = sorted(self.folder.glob("*.tf"))
        if any(self.folder.glob("*override.tf")) or any(self.folder.glob("*.tf.json")):
            raise Rejected(
                [Problem((), f"{self.folder} has override files or .tf.json files, which are not read", _PLAN)]
            )
        if any(not file.resolve().is_relative_to(self.repository) for file in files):
            raise Rejected(
                [Problem((), f"{self.folder} has links that lead out of the repository", "commit the files")]
            )
        if sum(file.stat().st_size for file in files) > _MOST_BYTES:
            raise Rejected([Problem((), f"the .tf files of {self.folder} are larger than 1 MB together", _PLAN)])
        return [each for file in files for each in blocks_of(file)]

    def _called(self, *words: str) -> Iterator[tuple[list[str], Block]]:
        return ((named, block) for named, block in self._blocks if named[: len(words)] == [*words])

    @cached_property
    def _variables(self) -> Mapping[str, Any]:
        files = (
            [] if self.calls else [*self.folder.glob("terraform.tfvars"), *sorted(self.folder.glob("*.auto.tfvars"))]
        )
        written = {name: value for file in files for name, value in self._attributes(blocks_of(file)[0][1]).items()}
        return {
            **{named[1]: self._attributes(block).get("default", UNKNOWN) for named, block in self._called("variable")},
            **written,
            **self.given,
        }

    def _attributes(self, block: Block, each: Mapping[str, Any] | None = None) -> JsonDict:
        return {
            name: self._read(found[0].expression, each) for name, found in block.inside.items() if found[0].expression
        }

    def _read(self, expression: Tree[Any] | None, each: Mapping[str, Any] | None = None) -> Any:
        if expression is None:
            return UNKNOWN
        value = read_value(expression, lambda name: self._named(name, each or {}))
        return value if _is_small(value) else UNKNOWN

    def _named(self, name: str, each: Mapping[str, Any]) -> Any:
        """Return the value of `var.NAME`, `local.NAME`, `each.key` or `each.value`."""
        kind, _, rest = name.partition(".")
        if kind == "var":
            return self._variables.get(rest, UNKNOWN)
        if kind == "local":
            if name not in self._locals:
                self._locals[name] = UNKNOWN  # for a local that refers to itself
                found = [block.inside[rest] for _, block in self._called("locals") if rest in block.inside]
                self._locals[name] = self._read(found[0][0].expression) if found else UNKNOWN
            return self._locals[name]
        return each.get(name, UNKNOWN)

    @cached_property
    def _modules(self) -> Mapping[str, _Module]:
        """Local modules by the names of their calls."""
        found = {}
        for (_, name), block in self._called("module"):
            arguments = self._attributes(block)
            source = arguments.pop("source", UNKNOWN)
            inner, folders = (self.folder / str(source)).resolve(), (*self.within, self.folder.resolve())
            is_inside = inner.is_relative_to(self.repository) and inner not in folders
            if str(source).startswith(("./", "../")) and inner.is_dir() and is_inside:
                calls = (*self.calls, name)
                found[name] = _Module(inner, calls, arguments, self.repository, self.parsed, str(source), folders)
        return found

    def unread(self) -> list[str]:
        others = [name for (_, name), _ in self._called("module") if name not in self._modules]
        own = [".".join(f"module.{each}" for each in (*self.calls, name)) for name in others]
        return [*own, *(each for module in self._modules.values() for each in module.unread())]

    def changes(self) -> Iterator[JsonDict]:
        """Yield what a plan that creates everything says of each resource."""
        prefix = ".".join(f"module.{each}" for each in self.calls)
        for (_, kind, name), block in self._called("resource"):
            for index, each in self._instances(block):
                after, unknown = self._planned(block, each)
                address = f"{kind}.{name}" + ("" if index is None else f'["{index}"]')
                yield {
                    "address": f"{prefix}.{address}" if prefix else address,
                    "module_address": prefix,
                    "mode": "managed",
                    "type": kind,
                    "name": name,
                    "index": index,
                    "change": {"actions": ["create"], "before": None, "after": after, "after_unknown": unknown},
                }
        for module in self._modules.values():
            yield from module.changes()

    def _instances(self, block: Block) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
        repeated = self._attributes(block)
        items = repeated.get("for_each")
        if isinstance(items, dict):
            yield from ((key, {"each.key": key, "each.value": value}) for key, value in items.items())
        elif repeated.get("count") != 0:
            yield None, {}

    def _planned(self, block: Block, each: Mapping[str, Any]) -> tuple[JsonDict, JsonDict]:
        after, unknown = {}, {}
        for name, found in block.inside.items():
            if name in _META:
                continue
            if found[0].expression is not None:
                after[name], unknown[name] = _split(self._read(found[0].expression, each))
            elif any(one.is_dynamic for one in found):
                unknown[name] = True
            else:
                made = [self._planned(one, each) for one in found]
                after[name], unknown[name] = [one for one, _ in made], [mark for _, mark in made]
        return after, unknown

    def configuration(self) -> JsonDict:
        """Return the configuration in a plan's form: which resources an input refers to."""
        resources = [
            {"mode": "managed", "type": kind, "name": name, "address": f"{kind}.{name}", "expressions": _refers(block)}
            for (_, kind, name), block in self._called("resource")
        ]
        calls = {
            name: {"source": module.source, "module": module.configuration()} for name, module in self._modules.items()
        }
        return {"resources": resources, "module_calls": calls}


_MOST_VALUES = 10_000
"""In one expression, and resources of one block: locals that double each other would fill any memory."""


def _is_small(value: Any) -> bool:
    """Say whether it holds few values, each counted as often as it occurs."""
    left, count = [value], 0
    while left and count <= _MOST_VALUES:
        each = left.pop()
        count += 1
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return count <= _MOST_VALUES


def _split(value: Any) -> tuple[Any, Any]:
    """Return a value as a plan shows it: what is known, and true for what is not."""
    if isinstance(value, dict):
        pairs = {key: _split(item) for key, item in value.items()}
        return {key: known for key, (known, _) in pairs.items()}, {
            key: mark for key, (_, mark) in pairs.items() if mark
        }
    if isinstance(value, list):
        items = [_split(item) for item in value]
        return [known for known, _ in items], [mark for _, mark in items]
    return (None, True) if value is UNKNOWN else (value, False)


def _refers(block: Block) -> JsonDict:
    return {
        name: {"references": references(found[0].expression)} if found[0].expression else [*map(_refers, found)]
        for name, found in block.inside.items()
        if name not in _META
    }
