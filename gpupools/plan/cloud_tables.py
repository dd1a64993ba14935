"""Reads the tables in a cloud's folder: capabilities, software, pool settings, and inputs to set by hand."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.capability import Capability, Owners, Setting, SoftwareOption, Verdict
from gpupools.plan.input_types import read_input_types
from gpupools.plan.node_labels import OUR_LABELS
from gpupools.spec.overrides import Kept, Nested, Overridable


def read_capabilities(folder: Path) -> Mapping[tuple[str, str], Capability]:
    """Return the capability matrix of `capabilities.csv` by software and kind of sharing."""
    return {
        (row["software"], row["sharing"]): Capability(
            Verdict(row["verdict"]), row["why"], row["source"], row["instead"]
        )
        for row in csv_rows(folder / "capabilities.csv")
    }


def read_software(folder: Path) -> Mapping[str, SoftwareOption]:
    """Return the ways to install the GPU software of `software.csv`."""
    owners = ("driver", "container_toolkit", "device_plugin")
    return MappingProxyType(
        {
            row["software"]: SoftwareOption(Owners(*(row[each] for each in owners)), row["why"], row["source"])
            for row in csv_rows(folder / "software.csv")
        }
    )


def read_settings(folder: Path) -> Mapping[str, Setting]:
    """Return what the cloud does with each setting of `gpupools.spec.pool_options.SETTINGS`: `pool_settings.csv`."""
    return MappingProxyType(
        {
            row["setting"]: Setting(row["taken"] == "yes", row["why"], row["source"])
            for row in csv_rows(folder / "pool_settings.csv")
        }
    )


def read_overridable(
    folder: Path, labels: Mapping[str, tuple[str, ...]], kept: Kept = MappingProxyType({})
) -> Mapping[str, Overridable]:
    """Return the resources of a pool with the inputs to set by hand: `inputs.csv`.

    A row with `instead` is an input that stays ours; the other rows are inputs at the top of the resource.

    Args:
        folder: The cloud's folder.
        labels: By resource, the path of its map of node labels. Our own labels in it stay ours, too.
        kept: More inputs that stay ours, of the resource with labels.
    """
    found: dict[str, Overridable] = {}
    rows = csv_rows(folder / "inputs.csv")
    for name in dict.fromkeys(row["resource"] for row in rows):
        own = {tuple(row["input"].split(".")): row["instead"] for row in rows if row["resource"] == name}
        stay = {path: instead for path, instead in own.items() if instead}
        if name in labels:
            why = "it follows from the pool's software, sharing and trust"
            stay |= {(*labels[name], key): why for key in sorted(OUR_LABELS) if (*labels[name], key) not in stay}
            stay |= kept
        inputs = frozenset(path[0] for path in own if len(path) == 1)
        found[name] = Overridable(inputs, MappingProxyType(stay), labels.get(name, ()), partial(_nested, folder))
    return MappingProxyType(found)


@cache
def _nested(folder: Path) -> Nested:
    """Return the types of inputs, on any level: `input_types.json`, which `tooling/write_inputs.py` writes."""
    types = read_input_types(folder / "input_types.json").types
    enums = {name for name, fields in types.items() if not isinstance(fields, Mapping)}

    def kind(text: str) -> str:
        """Return a type as overrides have it: an enum is a text."""
        item = text.lstrip("[]*(")
        names = [name for name in item.split("|") if name != "str" and name not in enums]
        return text[: len(text) - len(item)] + (names[0] if names else "")

    return {
        name: {key.removesuffix("!"): kind(text) for key, text in fields.items()}
        for name, fields in types.items()
        if isinstance(fields, Mapping)
    }
