"""A folder of `.tf` files, read as the plan that its literals, the defaults of its variables and its locals give.

What needs a provider, a state or a function is unknown, and modules are named as not read. The result goes through the
reader of plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from gpupools.audit.document import Document
from gpupools.audit.terraform_constants import read_value, references
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
_META = frozenset({"count", "for_each", "provider", "depends_on", "lifecycle", "provisioner", "connection"})
"""https://developer.hashicorp.com/terraform/language/meta-arguments"""


def read_configuration(folder: FilePath) -> Document:
    """Read the `.tf` files of a folder.

    Raises:
        Rejected: A file cannot be read, or the parser is not installed.
    """
    if find_spec("hcl2") is None:
        raise Rejected(
            [Problem((), "has .tf files, which are not read without a parser", f"install {NEED_FOR_SOURCES}")]
        )
    root = _Configuration(folder)
    unread = dict.fromkeys(f"module.{name}" for (name,), _ in root.called("module", 1))
    plan = Plan(Text("", (), is_json=True), {(): root.configuration()})
    for (kind, name), block in root.called("resource", 2):  # one that is repeated counts once
        plan.add(TerraformResource(kind, f"{kind}.{name}", root.values(block), name=name))
    gaps = tuple(Gap("modules-not-read", "modules are not read from the configuration", _PLAN, each) for each in unread)
    return Document(FORM, tuple(plan.resources()), gaps)


@dataclass
class _Configuration:
    folder: FilePath
    _locals: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _blocks(self) -> list[tuple[list[str], Block]]:
        files = sorted(self.folder.glob("*.tf"))
        if any(self.folder.glob("*override.tf")) or any(self.folder.glob("*.tf.json")):
            raise Rejected([Problem((), "has override files or .tf.json files, which are not read", _PLAN)])
        if any(not file.resolve().is_relative_to(repository_of(self.folder)) for file in files):
            raise Rejected([Problem((), "has links that lead out of the repository", "commit the files")])
        if sum(file.stat().st_size for file in files) > _MOST_BYTES:
            raise Rejected([Problem((), "has .tf files that are larger than 1 MB together", _PLAN)])
        return [each for file in files for each in blocks_of(file)]

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
        return defaults | written

    def _attributes(self, block: Block) -> JsonDict:
        return {name: self._read(found[0].expression) for name, found in block.inside.items() if found[0].expression}

    def _read(self, expression: Tree[Any] | None) -> Any:
        value = read_value(expression, self._named) if expression is not None else UNKNOWN
        return value if _is_small(value) else UNKNOWN

    def _named(self, name: str) -> Any:
        """Return the value of `var.NAME` or `local.NAME`."""
        kind, _, rest = name.partition(".")
        if kind == "var":
            return self._variables.get(rest, UNKNOWN)
        if kind == "local":
            if name not in self._locals:
                self._locals[name] = UNKNOWN  # for a local that refers to itself
                found = [block.inside[rest] for _, block in self.called("locals", 0) if rest in block.inside]
                self._locals[name] = self._read(found[0][0].expression) if found else UNKNOWN
            return self._locals[name]
        return UNKNOWN

    def values(self, block: Block) -> JsonDict:
        """Return the values of a resource, or of a block in it."""
        values: JsonDict = {}
        for name, found in block.inside.items():
            if found[0].expression is not None:
                values[name] = self._read(found[0].expression)
            else:
                dynamic = any(one.is_dynamic for one in found)
                values[name] = UNKNOWN if dynamic else [self.values(one) for one in found]
        return {name: value for name, value in values.items() if name not in _META}

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
        each = left.pop()
        count += 1
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return count <= _MOST_VALUES


def _refers(block: Block) -> JsonDict:
    return {
        name: {"references": references(found[0].expression)} if found[0].expression else [*map(_refers, found)]
        for name, found in block.inside.items()
        if name not in _META
    }
