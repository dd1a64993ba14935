"""Converts names and shapes of Terraform to Pulumi's wire form and back, from two tables of data.

`terraform_names.json` is written by `tooling/write_terraform_names.py`; `terraform_azure.json` is kept by hand, since
azure-native is no bridged provider: azurerm's names are those of
https://registry.terraform.io/providers/hashicorp/azurerm/latest/docs/resources/kubernetes_cluster_node_pool, v3 and v4;
what each becomes is in hashicorp/terraform-provider-azurerm `internal/services/containers/kubernetes_nodepool.go`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.naming import camel, snake
from gpupools.plan.pool_facts import UNKNOWN


@dataclass(frozen=True)
class Names:
    """How one Terraform type becomes a Pulumi resource."""

    type: str
    """Pulumi type token."""
    objects: frozenset[str]
    """Wire paths of blocks that occur at most once: objects in the wire form, lists in Terraform."""
    renamed: Mapping[str, str]
    """Wire path of the parent with the Terraform name, to the wire name; with a dot when it goes into an object."""
    left_out: frozenset[str] = frozenset()
    """Arguments that only Terraform uses."""
    only: frozenset[str] = frozenset()
    """If set, the only arguments that are converted."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Wire path to Terraform's name, where it is not just the snake case of the wire name."""

    def wire(self, values: JsonObject, at: str = "") -> JsonDict:
        """Convert one resource's values, or one block's."""
        result: JsonDict = {}
        for name, value in values.items():
            # Terraform's SDK writes "" and [] for what was not given (hashicorp/terraform-plugin-sdk).
            if value is None or value in ("", []):
                continue
            theirs = name if name.islower() else snake(name)  # bridged packages of Pulumi have camelCase
            if not at and (theirs in self.left_out or (self.only and theirs not in self.only)):
                continue
            target = self.renamed.get(f"{at}.{theirs}" if at else theirs) or camel(name)
            *parents, last = target.split(".")
            into = result
            for parent in parents:
                into = into.setdefault(parent, {})
            into[last] = self._wire_value(value, f"{at}.{target}" if at else target)
        return result

    @cached_property
    def _blocks(self) -> frozenset[str]:
        """Wire paths of blocks, as far as the tables know them."""
        return self.objects | {path.rpartition(".")[0] for path in self.renamed}

    def _wire_value(self, value: Any, path: str) -> Any:
        if isinstance(value, dict) and path in self._blocks:  # a block of a bridged package, not in a list
            value = [value]
        if not isinstance(value, list):
            return value  # a map's keys are its author's
        items = [self.wire(item, path) if isinstance(item, Mapping) else item for item in value]
        if path not in self.objects:
            return items
        return items[0] if items else UNKNOWN

    def path(self, wire_path: str) -> str:
        """Write a wire path as Terraform does: `nodeConfig.taints` as `node_config.taint`."""
        at, words = "", []
        for segment in wire_path.split("."):
            name, bracket, index = segment.partition("[")
            at = f"{at}.{name}" if at else name
            spelled = self.spelled.get(at, self.spelled.get(f"…{name}", snake(name)))
            words.append(f"{spelled}{bracket}{index}")
        return ".".join(word for word in words if word)

    def says(self, text: str) -> str:
        """Write the property paths inside a sentence as Terraform does."""

        def spelled(match: re.Match[str]) -> str:
            path = match[0]
            # A word in camel case is a property; `taints` is one only where a path is due, and a plain word elsewhere.
            is_property = re.search(r"[a-z][A-Z]|[.\[]", path) or (
                path == "taints" and re.search(r"(?:found|in|to|wanted) $", text[: match.start()])
            )
            return self.path(path) if is_property else path

        return _PATH.sub(spelled, text)


# Not what stands in quotes or is part of a taint, a label, an address, a file name: `team/gpuPool=a:NoSchedule`.
_PATH = re.compile(
    r"""(?<![\w./'"=:#-])[a-z][A-Za-z0-9]*+(?:\[\d+\])?(?:\.[a-z][A-Za-z0-9]*(?:\[\d+\])?)*(?![\w/'"=-]|:\S|\.\w)"""
)


_BOOKKEEPING = frozenset({"timeouts"})


@cache
def terraform_names() -> Mapping[str, Names]:
    """Return the table by Terraform type."""
    here = files(__package__)
    bridged = json.loads((here / "terraform_names.json").read_text(encoding="utf-8"))
    azure = json.loads((here / "terraform_azure.json").read_text(encoding="utf-8"))
    return {
        **{kind: _bridged(entry) for kind, entry in bridged.items()},
        **{kind: _azure(entry, azure) for kind, entry in azure.items()},
    }


def _bridged(entry: JsonObject) -> Names:
    # A list of blocks has a singular name in Terraform. One of plain values mostly has the plural too, so it is read
    # by either name and written with the plural.
    names = _names(entry["type"], entry["objects"], entry["blocks"])
    return replace(names, renamed={**names.renamed, **entry["values"]})


def _azure(entry: JsonObject, table: JsonObject) -> Names:
    """Give a cluster the names of the pool inside it."""
    objects, renamed, inside = list(entry.get("objects", ())), dict(entry["renamed"]), entry.get("pool")
    if inside:
        pool = table["azurerm_kubernetes_cluster_node_pool"]
        objects += [f"{inside}.{path}" for path in pool["objects"]]
        renamed = {f"{inside}.{path}": name for path, name in pool["renamed"].items()} | renamed
    left_out, only = frozenset(entry.get("left_out", ())), frozenset(entry.get("only", ()))
    return replace(_names(entry["type"], objects, renamed), left_out=left_out, only=only)


def _names(token: str, objects: list[str], renamed: dict[str, str]) -> Names:
    return Names(
        token, frozenset(objects), renamed, left_out=_BOOKKEEPING, spelled=dict(_terraform_names_by_path(renamed))
    )


def _terraform_names_by_path(renamed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, target in renamed.items():
        parent, _, name = path.rpartition(".")
        *into, last = target.split(".")
        at = parent
        for step in into:  # an object Terraform does not have
            at = f"{at}.{step}" if at else step
            yield at, ""
        yield f"{at}.{last}" if at else last, name
        if at:  # evidence is often told by the last name alone
            yield f"…{last}", name
