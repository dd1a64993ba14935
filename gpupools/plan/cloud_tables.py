"""Reads the tables in a cloud's folder: capabilities, software, pool settings, and inputs to set by hand."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.capability import Capability, Owners, Setting, SoftwareOption, Verdict
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities
from gpupools.plan.node_labels import OUR_LABELS
from gpupools.spec.overrides import Kept, Nested, Overridable


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
    """Return the types of inputs, on any level: `nested_inputs.csv`, which `tooling/write_inputs.py` writes."""
    return {
        row["type"]: {name: kind for name, _, kind in (each.partition(":") for each in row["inputs"].split())}
        for row in csv_rows(folder / "nested_inputs.csv")
    }
