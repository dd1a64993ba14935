"""What is missing of a cloud, one sentence each: the contract as far as types cannot hold it."""

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Rejected
from gpupools.plan.cloud import Cloud
from gpupools.providers import clouds
from gpupools.spec.models import SHARING_KINDS
from gpupools.spec.overrides import Nested
from gpupools.spec.pool_options import SETTINGS
from gpupools.stackfile.stack_validation import parse_cluster

PACKAGE = clouds.__module__
SOFTWARE = ("cloud-managed", "device-plugin", "gpu-operator", "dra-driver", "hami")

FILES: Mapping[str, str] = {
    "node_customization.py": "which inputs set by hand run on nodes or open them",
    "cluster.py": "the keys of a cluster",
    "constraints.py": "which settings exclude each other",
    "inputs.csv": "which key becomes each input, who sets it, and what an edit of it does",
    "declared_inputs.py": "the inputs of a pool's resources",
    "edit_conditions.csv": "what an edit of a key does under conditions",
    "edit_effects.py": "the tables of edits",
    "edit_sentences.csv": "the sentences that several of their rows have",
    "instance_types.csv": "the machines with NVIDIA GPUs",
    "machines.py": "the catalogue",
    "other_accelerators.csv": "the machines with another accelerator",
    "pool_settings.py": "which settings a pool takes",
    "readback.py": "reading back what was declared",
    "resources.py": "declaring",
    "node_software.py": "what nodes bring of the GPU software",
    "pool_plan.py": "the cloud's part of a plan",
}
"""What is in every cloud's folder, by the same name everywhere."""


PLAN_FIELDS = (
    "instance_type",
    "software",
    "sharing",
    "sharing.rename",
    "sharing.share.rename",
    "sharing.memory",
    "trust",
    "taints",
    "labels",
    "nodes.min",
    "nodes.max",
    "disk_gib",
)
"""The portable fields of `planned_values`."""


def folders() -> tuple[str, ...]:
    """Return every folder that is there for a cloud, with an entry or without."""
    root = Path(str(importlib.import_module(PACKAGE).__file__)).parent
    return tuple(sorted(each.name for each in root.iterdir() if (each / "__init__.py").exists()))


def missing(name: str) -> list[str]:
    """Say what a cloud's folder lacks; of a part that others stand on, that alone."""
    return list(_files(name)) or list(_types(name)) or list(_tables(clouds()[name]))


def _files(name: str) -> Iterator[str]:
    if name not in clouds():
        yield f"{name} has no entry in providers/__init__.py"
    folder = _folder(name)
    for file, what in FILES.items():
        if not (folder / file).exists():
            yield f"{name} has no {file}: {what}"


def _types(name: str) -> Iterator[str]:
    """Make every part; what a part's own type requires is said by Python, for the reader who runs no type checker."""
    found: list[Callable[[], object]] = [lambda: clouds()[name]]
    found += [lambda: clouds()[name].readback(), lambda: clouds()[name].node_pools.resources()]
    found += [lambda: clouds()[name].node_pools.edits()]
    for make in found:
        try:
            make()
        except TypeError as error:
            parts = re.findall(r"'(\w+)'", str(error))
            yield f"{name} has no {', '.join(parts)}: {error}"
            return
        except (ImportError, AttributeError, NameError) as error:
            yield f"{name}: {error}"
            return


def _tables(cloud: Cloud) -> Iterator[str]:
    name, tables = cloud.name, cloud.node_pools.edits()
    yield from _absent(name, "catalogue", ["a machine"] if not len(cloud.instance_types) else [])
    cells = {(software, kind) for software in SOFTWARE for kind in SHARING_KINDS}
    yield from _absent(name, "matrix", (" × ".join(each) for each in cells - set(cloud.capabilities)))
    yield from _absent(name, "software", set(SOFTWARE) - set(cloud.software))
    yield from _absent(name, "default software", set(SHARING_KINDS) - set(cloud.default_software))
    yield from _absent(name, "settings", set(SETTINGS) - set(cloud.node_pools.settings))
    try:
        parse_cluster((), dict(cloud.example_cluster), {name: cloud})
    except Rejected as rejected:
        yield f"{name}: its example cluster is refused: {rejected}"
    told = {row.field for row in tables.plan if not row.when}
    yield from _absent(name, "inputs.csv", fields_of(cloud) - told)
    inputs = {each for row in tables.plan for each in row.inputs}
    yield from _absent(name, "inputs.csv", (f"the input {each}" for each in inputs - set(tables.inputs)))
    rows = csv_rows(_folder(name) / "inputs.csv")
    yield from row_faults(cloud, [(row["resource"], row["input"]) for row in rows])


def row_faults(cloud: Cloud, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Say which rows of `inputs.csv`, by resource and input, are there twice or for an input that no resource has."""
    for (resource, path), count in Counter(rows).items():
        if count > 1:
            yield f"{cloud.name}: inputs.csv has {count} rows for {resource}.{path}"
        known = cloud.node_pools.overridable.get(resource)
        if known is not None and known.nested and not _has_input(known.nested, resource, path):
            yield f"{cloud.name}: inputs.csv has a row for {path}, which is no input of {resource}"


def _has_input(nested: Nested, kind: str, path: str) -> bool:
    key, _, inner = path.partition(".")
    kind = kind.removeprefix("[]")
    below = kind[1:] if kind.startswith("*") else nested.get(kind, {}).get(key)
    return below is not None and (not inner or _has_input(nested, below, inner))


def edited_inputs(cloud: str) -> dict[str, Mapping[str, str]]:
    """Return the rows of `inputs.csv` that say what an edit does, by the name of their input."""
    several = cloud == "aws"
    rows = [row for row in csv_rows(_folder(cloud) / "inputs.csv") if row["pods"]]
    return {f"{row['resource']}.{row['input']}" if several else row["input"]: row for row in rows}


def _folder(name: str) -> Path:
    return Path(str(importlib.import_module(PACKAGE).__file__)).parent / name


def _absent(cloud: str, table: str, entries: Iterable[str]) -> Iterator[str]:
    for entry in sorted(entries):
        yield f"{cloud}: {table} has nothing for {entry}"


_IN_EVERY_PLAN = {"adopted": "adopt", "first_name": "first_name"}


def fields_of(cloud: Cloud) -> set[str]:
    """Return what a plan on this cloud is compared by, as rows of edits name it."""
    settings = get_type_hints(cloud.decide)["return"]
    # These three stand in the plan's own labels and taints, and by their full path.
    own = {each.name for each in fields(settings)} - {
        "labels",
        "taints",
        "overrides",
        "key_values",
        "fabric",
        "most_pods",
    }
    # A cloud that refuses the key needs no row for what every plan has a place for.
    own -= {
        kept
        for kept, key in _IN_EVERY_PLAN.items()
        if not getattr(cloud.node_pools.settings.get(key), "supported", True)
    }
    addresses = {f"cluster.{key}" for key in cloud.cluster.model_fields if key not in cloud.cluster.not_pool_inputs}
    if "cluster.subnets_by_zone" in addresses:
        addresses.remove("cluster.subnets_by_zone")  # compared as subnet_ids
    keys = {key for resource in cloud.node_pools.overridable.values() for key, *_ in resource.keys}
    return own | addresses | keys | set(PLAN_FIELDS)
