"""Reads the tables in a cloud's folder: capabilities, software, pool settings, and inputs to set by hand."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.capability import Capability, Owners, Setting, SoftwareOption, Verdict
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities
from gpupools.plan.input_types import read_input_types
from gpupools.plan.node_labels import OUR_LABELS
from gpupools.spec.overrides import Kept, KeyInput, Nested, Overridable
from gpupools.spec.pool_options import input_keys


def read_capabilities(folder: Path) -> Mapping[tuple[str, str], Capability]:
    """Return the capability matrix by software and kind of sharing: `capabilities.csv`, with rows of DRA and HAMi."""
    rows = {
        (row["software"], row["sharing"]): Capability(
            Verdict(row["verdict"]), row["why"], row["source"], row["instead"]
        )
        for row in csv_rows(folder / "capabilities.csv")
    }
    dra, hami = dra_capabilities(rows[DRA_DRIVER, "none"], rows), hami_capabilities(rows[HAMI, "none"], rows)
    return MappingProxyType({**rows, **dra, **hami})


def read_default_software(folder: Path) -> Mapping[str, str]:
    """Return the software of a pool that names none, by kind of sharing: the default rows of `capabilities.csv`."""
    rows = csv_rows(folder / "capabilities.csv")
    return MappingProxyType({row["sharing"]: row["software"] for row in rows if row["default"] == "yes"})


def read_software(folder: Path) -> Mapping[str, SoftwareOption]:
    """Return the ways to install the GPU software of `software.csv`."""
    owners = ("driver", "container_toolkit", "device_plugin")
    return MappingProxyType(
        {
            row["software"]: SoftwareOption(Owners(*(row[owner] for owner in owners)), row["why"], row["source"])
            for row in csv_rows(folder / "software.csv")
        }
    )


def read_provider_settings(folder: Path, *packages: str) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of a cloud's providers and what to use instead, the same for each of its Pulumi packages."""
    settings = {row["setting"]: row["instead"] for row in csv_rows(folder / "provider_settings.csv")}
    return dict.fromkeys(packages, settings)


def read_settings(folder: Path, words: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, Setting]:
    """Return what the cloud does with each setting of `gpupools.spec.pool_options.SETTINGS`.

    A setting is refused, or needs more words than the path of an input, by a row of `pool_settings.csv`. Any other is
    the inputs of `inputs.csv` that have it as key.

    Args:
        folder: The cloud's folder.
        words: By resource that is no resource of the cloud, what to say of its inputs, with `{}` for the path.
    """
    texts: dict[str, list[str]] = {}
    sources: dict[str, str] = {}
    for row in csv_rows(folder / "inputs.csv"):
        for key in input_keys(row["key"]).settings:
            texts.setdefault(key, []).append(words.get(row["resource"], "{}").format(row["input"].partition(":")[0]))
            sources[key] = row["source"]
    found = {key: Setting(True, ", ".join(inputs), sources[key]) for key, inputs in texts.items()}
    rows = csv_rows(folder / "pool_settings.csv")
    found |= {row["setting"]: Setting(row["taken"] == "yes", row["why"], row["source"]) for row in rows}
    return MappingProxyType(found)


def read_key_inputs(folder: Path, resource: str) -> tuple[KeyInput, ...]:
    """Return the keys of the stack file that become one input of a resource; `:str` after the input: as text."""
    return tuple(
        KeyInput(field, key, tuple(path.split(".")), kind == "str")
        for row in csv_rows(folder / "inputs.csv")
        for path, _, kind in [row["input"].partition(":")]
        for field, key in input_keys(row["key"]).direct.items()
        if row["resource"] == resource
    )


def read_overridable(
    folder: Path, labels: Mapping[str, tuple[str, ...]], kept: Kept = MappingProxyType({})
) -> Mapping[str, Overridable]:
    """Return the resources of a pool with the inputs to set by hand.

    Their inputs are those of the SDK. A row of `inputs.csv` with text in the column `ours` is an input that stays ours;
    resources without such a row cannot be overridden.

    Args:
        folder: The cloud's folder.
        labels: By resource, the path of its map of node labels. Our own labels in it stay ours, too.
        kept: More inputs that stay ours, of the resource with labels.
    """
    nested = _nested(folder)
    found: dict[str, Overridable] = {}
    rows = csv_rows(folder / "inputs.csv")
    for name in dict.fromkeys(row["resource"] for row in rows if row["ours"]):
        own = [row for row in rows if row["resource"] == name]
        keys = read_key_inputs(folder, name)
        stay = {tuple(row["input"].split(".")): row["ours"] for row in own if row["ours"]}
        stay |= {path: f"use {key}" for field, key, path, _ in keys if field == key}
        if name in labels:
            why = "it follows from the pool's software, sharing and trust"
            stay |= {(*labels[name], key): why for key in sorted(OUR_LABELS) if (*labels[name], key) not in stay}
            stay |= kept
        found[name] = Overridable(frozenset(nested[name]), MappingProxyType(stay), labels.get(name, ()), keys, nested)
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
