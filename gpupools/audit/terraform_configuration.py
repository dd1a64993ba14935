"""A folder of `.tf` files, read as the plan that its literals, the defaults of its variables and its locals give.

Local modules are read with the arguments of each call, and three modules of the registry by `terraform_modules`. What
needs a provider, a state or a function is unknown, and other modules are named as not read. The result goes through
the reader of plans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpupools.audit.document import Document, Resource
from gpupools.audit.terraform_constants import read_value, references
from gpupools.audit.terraform_modules import ModuleRow, pools_of, rows_of, unknown_version
from gpupools.audit.terraform_names import terraform_names
from gpupools.audit.terraform_plan import Plan
from gpupools.audit.terraform_resources import TerraformResource
from gpupools.audit.terraform_sources import Block, blocks_of, repository_of
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
_META = frozenset(
    {"count", "for_each", "provider", "providers", "depends_on", "lifecycle", "provisioner", "connection"}
)
"""https://developer.hashicorp.com/terraform/language/meta-arguments"""


def read_configuration(folder: FilePath) -> Document:
    """Read the `.tf` files of a folder, and the local modules that it calls with the arguments of each call.

    Raises:
        Rejected: A file cannot be read, or the parser is not installed.
    """
    if find_spec("hcl2") is None:
        raise Rejected(
            [Problem((), "has .tf files, which are not read without a parser", f"install {NEED_FOR_SOURCES}")]
        )
    run = _Run(repository_of(folder))
    run.read(_Configuration(folder, run), "", ())
    plan = Plan(Text("", (), is_json=True), run.modules, [(resource, None) for resource in run.resources])
    what = "modules are not read from the configuration"
    gaps = (*(Gap("modules-not-read", what, _PLAN, address) for address in run.unread), *run.gaps)
    written = (
        replace(one, spelled=run.spelled[one.address], is_partial=True) if one.address in run.spelled else one
        for one in plan.resources()
    )
    return Document(FORM, tuple(map(run.with_repeats, written)), gaps, modules=run.sources, folders=tuple(run.folders))


Scope = Mapping[str, Any]
"""Values of `each.key`, `each.value`, `count.index` and of the iterators of dynamic blocks."""
_NO_SCOPE: Scope = MappingProxyType({})
_MOST_REPEATS = 2_000
"""Resources, modules and blocks that `for_each` and `count` make of one folder; the rest counts once, unknown."""
_MOST_CALLS = 8
"""Modules within each other."""


@dataclass
class _Run:
    """What the configuration of a folder and its local modules make."""

    repository: FilePath
    resources: list[TerraformResource] = field(default_factory=list)
    modules: dict[tuple[str, ...], JsonDict] = field(default_factory=dict)
    sources: dict[tuple[str, ...], str] = field(default_factory=dict)
    spelled: dict[str, Callable[[str], str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    folders: dict[FilePath, None] = field(default_factory=dict)
    """Folders of local modules that were read, in order."""
    repeats: dict[str, str] = field(default_factory=dict)
    """What a block is repeated over where that is not known, by the block's address."""
    left: int = _MOST_REPEATS
    """Repetitions that are still made."""

    def read(self, root: _Configuration, address: str, calls: tuple[str, ...]) -> None:
        """Add what a module makes, whose address ends with a dot."""
        self.modules[calls] = root.configuration()
        for (kind, name), block in root.called("resource", 2):
            for index, scope in root.repeated(block):
                here = self._place(block, f"{address}{kind}.{name}", index)
                values, module = root.values(block, scope), address.rstrip(".")
                self.resources.append(TerraformResource(kind, here, values, name=name, module=module, index=index))
        for (name,), block in root.called("module", 1):
            for index, scope in root.repeated(block):
                here = self._place(block, f"{address}module.{name}", index)
                self._call(root, here, (*calls, name), root.values(block, scope))

    def _place(self, block: Block, address: str, index: Any) -> str:
        """Return the address of an instance of a block, and keep what an unknown number of them is made from."""
        if index is not None:
            return f"{address}[{json.dumps(index)}]"
        for key in ("for_each", "count"):
            if key in block.inside and (given := block.inside[key][0].expression) is not None:
                names = references(given)
                whole = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
                self.repeats[address] = f"{key} uses {', '.join(whole)}"
        return address

    def with_repeats(self, resource: Resource) -> Resource:
        """Return a resource whose sentences say what it is repeated over, where that is not known."""
        around = (why for at, why in self.repeats.items() if f"{resource.address}.".startswith((f"{at}.", f"{at}[")))
        if (why := next(around, "")) == "":
            return resource
        spelled, late = resource.spelled, "not known yet"
        return replace(resource, spelled=lambda said: spelled(said).replace(late, f"{late} ({why})", 1))

    def _call(self, caller: _Configuration, address: str, calls: tuple[str, ...], given: JsonDict) -> None:
        source, version = (given.pop(key, None) for key in ("source", "version"))
        source = source if isinstance(source, str) else ""
        self.sources[calls] = source
        if rows := rows_of(source):
            self._registry(rows, address, version, given)
            return
        folder = (caller.folder / source).resolve()
        if not source.startswith(("./", "../")) or not folder.is_relative_to(self.repository):
            self._not_read(address)
        elif folder in caller.above:
            self.gaps.append(Gap("module-cycle", f"calls itself through {source}", "remove that call", address))
        elif len(calls) > _MOST_CALLS:
            self._not_read(address)
        else:
            kept = len(self.resources)
            try:
                self.read(_Configuration(folder, self, given, (*caller.above, folder)), f"{address}.", calls)
                self.folders[folder] = None
            except Rejected:
                del self.resources[kept:]
                self._not_read(address)

    def _not_read(self, address: str) -> None:
        if (name := re.sub(r"\[[^][]*\]", "", address)) not in self.unread:
            self.unread.append(name)

    def _registry(self, rows: tuple[ModuleRow, ...], address: str, version: Any, given: JsonDict) -> None:
        if why := unknown_version(rows[0], version):
            most = rows[0].versions.partition("-")[2]
            self.gaps.append(Gap("module-version", why, f'set version = "~> {most}.0", or {_PLAN}', address))
            return
        self.unread += [f"{address}.{key}" for row in rows for key in row.unread.split() if given.get(key)]
        for row in rows:
            for inner, values in pools_of(row, given):
                resource = TerraformResource(row.type, f"{address}{inner}", values, name=inner)
                self.resources.append(resource)
                self.spelled[resource.address] = partial(_in_words_of, row)


_PATHS = re.compile(r"(?<![\w.])(?:[a-z]+[._][a-z_.]*[a-z]|(?<=(?:found|.. to|.. in) )taint)(?![\w.])")
"""Names of inputs in a sentence; a plain word such as `taint` is one only where one is due."""


def _in_words_of(row: ModuleRow, sentence: str) -> str:
    """Return a sentence about the resource that a module creates with the names of the module's arguments."""
    pairs = (key.partition(":") for key in (row.taints, *row.keys.split()))
    ours = {path: key for key, _, path in pairs if path}
    written = terraform_names()[row.type].says(sentence).replace("default_node_pool[0]", "default_node_pool")
    return _PATHS.sub(lambda match: ours.get(match[0], match[0]), written)


@dataclass
class _Configuration:
    folder: FilePath
    run: _Run
    given: Mapping[str, Any] | None = None
    """Arguments of the call of a module; None for the root."""
    above: tuple[FilePath, ...] = ()
    """Folders of the modules around it."""
    _locals: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.above = self.above or (self.folder.resolve(),)

    @cached_property
    def _blocks(self) -> list[tuple[list[str], Block]]:
        files = sorted(self.folder.glob("*.tf"))
        if any(self.folder.glob("*override.tf")) or any(self.folder.glob("*.tf.json")):
            raise Rejected([Problem((), "has override files or .tf.json files, which are not read", _PLAN)])
        if any(not file.resolve().is_relative_to(self.run.repository) for file in files):
            raise Rejected([Problem((), "has links that lead out of the repository", "commit the files")])
        if sum(file.stat().st_size for file in files) > _MOST_BYTES:
            raise Rejected([Problem((), "has .tf files that are larger than 1 MB together", _PLAN)])
        return [block for file in files for block in blocks_of(file)]

    def called(self, kind: str, names: int) -> Iterator[tuple[list[str], Block]]:
        """Yield the names behind a kind of block, such as `resource`, and its contents."""
        return ((named[1:], block) for named, block in self._blocks if named[:1] == [kind] and len(named) == names + 1)

    @cached_property
    def _variables(self) -> Mapping[str, Any]:
        files = [*self.folder.glob("terraform.tfvars"), *sorted(self.folder.glob("*.auto.tfvars"))]
        written = {name: value for file in files for name, value in self._attributes(blocks_of(file)[0][1]).items()}
        defaults = {
            name: self._attributes(block).get("default", UNKNOWN) for (name,), block in self.called("variable", 1)
        }
        return {**defaults, **(written if self.given is None else self.given)}

    def _attributes(self, block: Block) -> JsonDict:
        return {name: self._read(found[0].expression) for name, found in block.inside.items() if found[0].expression}

    def _read(self, expression: Tree[Any] | None, scope: Scope = _NO_SCOPE) -> Any:
        value = read_value(expression, partial(self._named, scope)) if expression is not None else UNKNOWN
        return value if _is_small(value) else UNKNOWN

    def _named(self, scope: Scope, name: str) -> Any:
        """Return the value of `var.NAME` or `local.NAME`, or of what repeats a block."""
        kind, _, rest = name.partition(".")
        if name in scope:
            return scope[name]
        if kind == "var":
            return self._variables.get(rest, UNKNOWN)
        if kind == "local":
            if name not in self._locals:
                self._locals[name] = UNKNOWN  # for a local that refers to itself
                found = [block.inside[rest] for _, block in self.called("locals", 0) if rest in block.inside]
                self._locals[name] = self._read(found[0][0].expression) if found else UNKNOWN
            return self._locals[name]
        return UNKNOWN

    def repeated(self, block: Block) -> Iterator[tuple[Any, Scope]]:
        """Yield index and values of each instance of a block; one where it is not known how many there are."""
        if "for_each" in block.inside:
            items = self._items(block.inside["for_each"][0].expression, _NO_SCOPE)
            instances = items and [(key, {"each.key": key, "each.value": item}) for key, item in items]
        elif "count" in block.inside:
            number = self._read(block.inside["count"][0].expression)
            known = type(number) is int and self._spend(number)
            instances = [(place, {"count.index": place}) for place in range(number)] if known else None
        else:
            instances = [(None, _NO_SCOPE)]
        yield from [(None, _NO_SCOPE)] if instances is None else instances

    def _items(self, expression: Tree[Any] | None, scope: Scope) -> list[tuple[Any, Any]] | None:
        """Return keys and values over which a block is repeated; None where they are not known."""
        given = self._read(expression, scope)
        pairs = [*given.items()] if isinstance(given, dict) else None
        if isinstance(given, list):
            pairs = [(one if isinstance(one, str) else place, one) for place, one in enumerate(given)]
        return pairs if pairs is not None and self._spend(len(pairs)) else None

    def _spend(self, number: int) -> bool:
        self.run.left -= number
        return self.run.left >= 0

    def values(self, block: Block, scope: Scope) -> JsonDict:
        """Return the values of a resource, or of a block in it."""
        values: JsonDict = {}
        for name, found in block.inside.items():
            if found[0].expression is not None:
                values[name] = self._read(found[0].expression, scope)
            else:
                made = [value for one in found for value in self._block_values(one, scope)]
                values[name] = UNKNOWN if UNKNOWN in made else made
        return {name: value for name, value in values.items() if name not in _META}

    def _block_values(self, block: Block, scope: Scope) -> Iterator[Any]:
        """Yield the values of a block, or of each that a dynamic one makes."""
        if not block.iterator:
            yield self.values(block, scope)
            return
        items = self._items(block.repeats, scope)
        for key, item in [] if items is None else items:
            yield self.values(block, {**scope, f"{block.iterator}.key": key, f"{block.iterator}.value": item})
        if items is None:
            yield UNKNOWN

    def configuration(self) -> JsonDict:
        """Return the configuration in a plan's form: which resources an input refers to."""
        resources = [
            {"mode": "managed", "type": kind, "name": name, "address": f"{kind}.{name}", "expressions": _refers(block)}
            for (kind, name), block in self.called("resource", 2)
        ]
        return {"resources": resources}


_MOST_VALUES = 10_000
"""In one expression: locals that double each other would fill any memory."""


def _is_small(value: Any) -> bool:
    """Say whether it holds few values, each counted as often as it occurs."""
    left, count = [value], 0
    while left and count <= _MOST_VALUES:
        part = left.pop()
        count += 1
        left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return count <= _MOST_VALUES


def _refers(block: Block) -> JsonDict:
    return {
        name: {"references": references(found[0].expression)} if found[0].expression else [*map(_refers, found)]
        for name, found in block.inside.items()
        if name not in _META
    }
