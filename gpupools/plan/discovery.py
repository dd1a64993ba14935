"""Reads what a cloud's command line or Terraform prints about an existing cluster, for a new stack file.

What stands where is the table `discovery.csv` in the cloud's folder, `source,path,key,note`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import CLOUD_EFFECTS
from gpupools.spec.overrides import value_at


class Described(NamedTuple):
    """What an output says about a cluster."""

    keys: JsonObject
    """Keys of the cluster, with an empty list for values that the output does not name.

    `cpu_taints` has the taints of each group of CPU nodes; `kubernetes` is the version.
    """
    left_out: JsonObject = MappingProxyType({})
    """By key of the cluster: why the output has no value for it, and what to do, unless a flag sets it."""


def listed(table: Path, source: str) -> list[str]:
    """Return what a table lists, one per row.

    `command`: commands that print the cluster, with placeholders in capitals. `identity`: keys that identify it.
    `asked`: further keys of which a stack file needs one, the usual one first.
    `gpu`: paths with a value in a group of nodes with GPUs.
    """
    return [row["path"] for row in csv_rows(table) if row["source"] == source]


def read_description(table: Path, told: JsonObject, *, outputs: bool = False) -> Described | None:
    """Return the cluster keys in a document, or in Terraform `outputs`; None where it is no cluster of this cloud.

    The rows of a `source` other than `outputs` and those of `listed` are for documents. The `path` has keys between
    dots: `[].` stands for each item of a list or map, `[*].` for them if all say the same, and a pattern of the whole
    text follows `~`. Of several rows for a `key` the first with a value counts; `key=text` sets this text, `key[]` a
    list. The `note` says why a key is left out without a value, with several after `[].`, and of `-key`, which is
    then empty, with one. A value for `?` shows whose document it is, without such a row the keys of its identity do;
    one for `!` rejects it, and `*` has further keys.

    Raises:
        Rejected: The cluster cannot have node pools.
    """
    rows = csv_rows(table)
    for source in dict.fromkeys(row["source"] for row in rows if row["key"]):
        if (source == "outputs") == outputs:
            described = _read(table, [row for row in rows if row["source"] == source], told)
            if described is not None:
                return described
    return None


def _read(table: Path, rows: Sequence[Mapping[str, str]], told: JsonObject) -> Described | None:
    keys: JsonDict = {}
    left: JsonDict = {}
    shown: dict[str, list[str]] = {}
    for path, key, note in ((row["path"], row["key"], row["note"]) for row in rows):
        name, _, text = key.removesuffix("[]").partition("=")
        if name == "cpu_taints" and path:
            groups = _at(told, path, listed(table, "gpu"))
            keys |= {name: [_taints(group) for group in groups]} if groups else {}
            continue
        values = [item for item in _at(told, path) if item]
        several = note and "[]." in path and len(set(map(str, values))) > 1
        if name == "*":
            told = {**told, **(values[0] if values else {})}
        elif name in ("?", "!"):
            shown[name] = [*shown.get(name, []), *(note for _ in values)]
        elif name.startswith("-") or several:
            left |= {name.removeprefix("-"): note} if values else {}
            keys = {name[1:]: [], **keys} if values and name.startswith("-") else keys
        elif name not in keys and (fits := [value for value in values if _is_text(value)]):
            found: Any = text or (fits if key.endswith("[]") else fits[0])
            # An older CLI of Azure shows westeurope as West Europe.
            keys[name] = found.replace(" ", "").casefold() if name == "location" else found
        elif note and "[]." not in path:
            left[name] = note
    if not (shown["?"] if "?" in shown else set(listed(table, "identity")) <= keys.keys()):
        return None
    if shown.get("!"):
        raise Rejected([Problem((), shown["!"][0])])
    return Described(keys, left)


def _at(told: Any, path: str, without: Sequence[str] = ()) -> list[Any]:
    """Return the values at a path; of items, those that have no value at any path in `without`."""
    path, _, form = path.partition("~")
    first, brackets, rest = re.fullmatch(r"([^[]*)(\[\*?\]\.)?(.*)", path).groups()  # type: ignore[union-attr]
    found = [value_at(told, *filter(None, first.split(".")))] if path else []
    if brackets:
        items = [item for item in _maps(found[0]) if not any(one for other in without for one in _at(item, other))]
        found = [value_at(item, *rest.split(".")) for item in items]
    if form:
        found = [match[1] if (match := re.fullmatch(form, str(value))) else None for value in found]
    return found if brackets != "[*]." or len(set(map(str, found))) == 1 else []


def _maps(value: Any) -> list[JsonObject]:
    """Return the maps of a list or of a map of maps."""
    items: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, Mapping)]


def _is_text(value: Any) -> bool:
    """Return whether a value is a string, a list of strings or true; others are no cluster keys."""
    several = value if isinstance(value, list) else [value]
    return value is True or all(isinstance(item, str) and item for item in several)


def _taints(given: Any) -> list[str]:
    """Return taints of a node group as `kubectl taint` writes them, without those that only prefer."""
    found = [item for item in given or () if isinstance(item, str)] if isinstance(given, list) else []
    for item in _maps(given):
        effect = CLOUD_EFFECTS.get(str(item.get("effect")), str(item.get("effect")))
        found.append(f"{item.get('key')}={item.get('value') or ''}:{effect}".replace("=:", ":"))
    return [taint for taint in found if not taint.endswith(":PreferNoSchedule")]
