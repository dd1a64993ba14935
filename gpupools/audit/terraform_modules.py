"""Reads the node pools that the arguments of a registry module name, by `terraform_modules.csv`.

Each row says for some major versions of a module which argument holds the pools, where their machines and taints stand
in it, and what else may set taints. `key:path` names the path in the resource that the module creates. Sources, as
repository and path: terraform-aws-modules/terraform-aws-eks variables.tf, Azure/terraform-azurerm-aks main.tf,
terraform-google-modules/terraform-google-kubernetes-engine modules/private-cluster/cluster.tf.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_facts import UNKNOWN


class ModuleRow(NamedTuple):
    """One row of the table; `keys`, `more_taints` and `unread` are lists with blanks."""

    source: str
    versions: str
    argument: str
    """Holds the pools, by name or as a list of maps; empty where the module is one pool."""
    defaults: str
    type: str
    keys: str
    taints: str
    """Of a pool, or an argument with the taints of all pools by their name and `all`."""
    more_taints: str
    unread: str
    """Arguments whose pools are not read."""


@lru_cache
def _rows() -> tuple[ModuleRow, ...]:
    return tuple(ModuleRow(*row.values()) for row in csv_rows(Path(__file__).with_name("terraform_modules.csv")))


_VARIANT = re.compile(
    r"(terraform-google-modules/kubernetes-engine/google)//modules/\S*(?:-|^)cluster(?:-update-variant)?"
)
_WITHOUT_POOLS = re.compile(
    r"autopilot|//modules/(?!eks-managed-node-group|\S{0,99}cluster|gke-node-pool|self-managed)"
)


def rows_of(source: str) -> tuple[ModuleRow, ...]:
    """Return the rows of a registry module; none for one that is not in the table."""
    source = source.removeprefix("registry.terraform.io/").rstrip("/")
    variant = _VARIANT.fullmatch(source) if not _WITHOUT_POOLS.search(source) else None
    return tuple(row for row in _rows() if row.source == (variant[1] if variant else source))


def unknown_version(row: ModuleRow, version: Any) -> str:
    """Return what is wrong with a version constraint that allows versions the row does not describe; empty for none."""
    least, most = map(int, row.versions.split("-"))
    given = re.findall(r"([=~<>!]{0,2})\s{0,9}(\d{1,9})[\d.]*", version) if isinstance(version, str) else []
    bounded = [sign for sign, _ in given if sign in ("", "=", "~>") or sign.startswith("<")]
    if bounded and all(least <= int(major) <= most + (sign == "<") for sign, major in given):
        return ""
    what = "has no version" if version is None else f"allows versions that are not known ({version})"
    return f"{what}; the inputs of {least} to {most} are read"


def pools_of(row: ModuleRow, given: JsonObject) -> Iterator[tuple[str, JsonDict]]:
    """Yield address within the module and values of each pool that the arguments name."""
    pools = given.get(row.argument) if row.argument else given
    if pools is None or pools == {}:
        return
    named: list[tuple[str, Any]] = [("", pools)]
    if row.argument and isinstance(pools, dict):
        named = [
            (f'["{name}"]', {"name": name, **pool} if isinstance(pool, dict) else pool) for name, pool in pools.items()
        ]
    elif isinstance(pools, list):
        named = [(f'["{_name(pool, place)}"]', pool) for place, pool in enumerate(pools)]
    for suffix, pool in named:
        if isinstance(pool, dict) and pool.get("create") is False:
            continue
        yield f".{row.argument or row.type}{suffix}", _values(row, pool, given)


def _name(pool: Any, place: int) -> str:
    name = pool.get("name") if isinstance(pool, dict) else None
    return name if isinstance(name, str) else str(place)


def _values(row: ModuleRow, pool: Any, given: JsonObject) -> JsonDict:
    defaults = given.get(row.defaults) or {} if row.defaults else {}
    is_known = isinstance(pool, dict) and isinstance(defaults, dict)
    pool = defaults | {key: value for key, value in pool.items() if value is not None} if is_known else {}
    if isinstance(tags := given.get("tags"), dict):
        pool["tags"] = tags | (pool.get("tags") or {})
    if pool.get("ami_id"):  # terraform-aws-eks then sets no ami_type, and EKS calls the image CUSTOM
        pool["ami_type"] = "CUSTOM"
    values: JsonDict = {}
    for key in row.keys.split():
        ours, _, path = key.partition(":")
        value = pool.get(ours) if is_known else UNKNOWN
        if value is not None:
            _put(values, (path or ours).split("."), value)
    key, _, path = row.taints.partition(":")
    taints = _of_all_pools(given.get(key), pool.get("name")) if key.endswith("_pools_taints") else pool.get(key)
    if isinstance(taints, dict):
        taints = [*taints.values()]
    more = [pool[key] for key in row.more_taints.split() if pool.get(key)]
    if not is_known or (not taints and any("taint" in _as_text(item) for item in more)):
        taints = UNKNOWN
    if taints is not None:
        _put(values, path.split("."), taints)
    return values


def _put(values: JsonDict, path: list[str], value: Any) -> None:
    """Set a value inside blocks, each of which is a list of one."""
    for step in path[:-1]:
        values = values.setdefault(step, [{}])[0]
    values[path[-1]] = value


def _as_text(value: Any) -> str:
    return json.dumps(value, default=lambda _: "taint")  # what is not known may set one


def _of_all_pools(taints: Any, name: Any) -> Any:
    """Return the taints of one pool and of all: `{all = […], NAME = […]}`."""
    if taints is None or not isinstance(taints, dict) or not isinstance(name, str):
        return taints and UNKNOWN
    both = [taints.get(key) or [] for key in ("all", name)]
    return [one for part in both for one in part] if all(isinstance(part, list) for part in both) else UNKNOWN
