"""Instance types of a cloud, one row each, from the CSV files in its folder."""

from collections.abc import Iterator, Mapping, ValuesView
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.patterns import FirstOf

COLUMNS = (
    "instance_type",
    "gpu_model",
    "gpus",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "architecture",
    "rdma",
    "rdma_interfaces",
    "local_disk_gb",
    "lifecycle",
    "lifecycle_date",
    "kubernetes",
    "source",
    "checked",
)
"""Of a cloud's `instance_types.csv`; a cloud may have more."""


class InstanceType(NamedTuple):
    """One machine that carries NVIDIA GPUs."""

    name: str
    """As the cloud writes it; GCE N1 with accelerators is `n1+<accelerator type>:<count>`."""
    gpu_model: str
    """A key of `gpupools.catalog.gpus.gpu_models()`."""
    gpus: Fraction
    """Physical GPUs; below 1 for a machine that gets a part of one."""
    gpu_memory_gib: float
    """Memory of one device as the machine sees it, GiB."""
    vcpus: int | None
    memory_gib: float | None
    architecture: str
    """`amd64` or `arm64`."""
    rdma: str
    """`efa`, `infiniband`, `gpudirect-tcpx`, `gpudirect-tcpxo`, `gpudirect-rdma`, or empty."""
    rdma_interfaces: int | None
    local_disk_gb: int | None
    """Local NVMe in all, GB; None when not known."""
    lifecycle: str
    """`current`, `preview`, `previous-generation` or `retired`."""
    lifecycle_date: str
    """ISO date of the retirement, where one is announced."""
    kubernetes: str
    """What the cloud's Kubernetes service says about it."""
    source: str
    checked: str
    """ISO date on which the row was compared with its source."""
    extra: Mapping[str, str]
    """The columns only this cloud has."""

    @property
    def devices(self) -> int:
        """GPUs the operating system sees: a part of a GPU is one device."""
        return max(1, int(self.gpus))

    @property
    def is_fraction(self) -> bool:
        """Say whether the machine gets only a part of a GPU."""
        return self.gpus < 1


class Catalogue(Mapping[str, InstanceType]):
    """The instance types of one cloud, read from its folder at the first look.

    Args:
        folder: Holds `instance_types.csv` and `other_accelerators.csv`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "instance_types.csv"

    @cached_property
    def _rows(self) -> Mapping[str, InstanceType]:
        rows = csv_rows(self.file)
        return MappingProxyType({row["instance_type"]: _instance_type(row) for row in rows})

    @cached_property
    def _others(self) -> tuple[tuple[str, ...], FirstOf]:
        rows = csv_rows(self._folder / "other_accelerators.csv")
        return tuple(f"{row['vendor']} {row['accelerator']}" for row in rows), FirstOf(row["pattern"] for row in rows)

    def __getitem__(self, name: str) -> InstanceType:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, name: str) -> InstanceType | None:
        """Look a written instance type up; a cloud with names in any case, or composed ones, has its own catalogue."""
        return self.get(name)

    def values(self) -> ValuesView[InstanceType]:
        """Return the machines in the order of the file."""
        return self._rows.values()

    @cached_property
    def gpu_models(self) -> frozenset[str]:
        """Return the GPU models of machines that are not retired."""
        return frozenset(row.gpu_model for row in self.values() if row.lifecycle != "retired")

    @cached_property
    def by_size(self) -> tuple[InstanceType, ...]:
        """Return those that can be had and of which vCPUs and memory are known, the smallest first."""
        known = [each for each in self.values() if each.lifecycle == "current" and each.vcpus and each.memory_gib]
        return tuple(sorted(known, key=lambda instance: (instance.vcpus, instance.memory_gib, instance.name)))

    def other_accelerator(self, name: str) -> str | None:
        """Name the accelerator of a machine that has one which is not an NVIDIA GPU, e.g. `AMD Radeon Pro V520`."""
        rows, first = self._others
        place = first(name)
        return None if place is None else rows[place]

    def with_gpus(self, model: str, gpus: Fraction) -> tuple[InstanceType, ...]:
        """Return the machines with this many GPUs of this model that can be bought today, smallest first.

        A row whose vCPUs are not published is left out: it can be named, not chosen.
        """
        return self._by_gpus.get((model, gpus), ())

    @cached_property
    def _by_gpus(self) -> Mapping[tuple[str, Fraction], tuple[InstanceType, ...]]:
        gpus: dict[tuple[str, Fraction], tuple[InstanceType, ...]] = {}
        bought = [row for row in self.values() if row.vcpus and row.lifecycle in _BOUGHT]
        for row in sorted(bought, key=lambda row: (_BOUGHT.index(row.lifecycle), *_size(row), row.name)):
            key = (row.gpu_model, row.gpus)
            gpus[key] = (*gpus.get(key, ()), row)
        return gpus


_BOUGHT = ("current", "previous-generation")


def _size(row: InstanceType) -> tuple[int, float]:
    return row.vcpus or 0, row.memory_gib or 0.0


def smallest(machines: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """Return the machines that share the least vCPUs and memory: one, or several that only a reader can tell apart."""
    if not machines:
        return ()
    first = machines[0]
    return tuple(row for row in machines if row.lifecycle == first.lifecycle and _size(row) == _size(first))


def _instance_type(row: Mapping[str, str]) -> InstanceType:
    return InstanceType(
        name=row["instance_type"],
        gpu_model=row["gpu_model"],
        gpus=Fraction(row["gpus"]),
        gpu_memory_gib=float(row["gpu_memory_gib"]),
        vcpus=int(row["vcpus"]) if row["vcpus"] else None,
        memory_gib=float(row["memory_gib"]) if row["memory_gib"] else None,
        architecture=row["architecture"],
        rdma=row["rdma"],
        rdma_interfaces=int(row["rdma_interfaces"]) if row["rdma_interfaces"] else None,
        local_disk_gb=int(row["local_disk_gb"]) if row["local_disk_gb"] else None,
        lifecycle=row["lifecycle"],
        lifecycle_date=row["lifecycle_date"],
        kubernetes=row["kubernetes"],
        source=row["source"],
        checked=row["checked"],
        extra=MappingProxyType({key: value for key, value in row.items() if key not in COLUMNS}),
    )
