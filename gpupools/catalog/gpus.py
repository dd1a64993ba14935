"""The NVIDIA GPU models that the clouds offer, and what every sharing mode needs to know of each.

Owns `data/gpu_models.csv`. MIG profiles are in `gpupools.catalog.mig`, instance types in each cloud's folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import nearest


class GpuModel(NamedTuple):
    """One GPU model; models that differ in memory are different models (`A100-40GB`, `A100-80GB`)."""

    name: str
    """Canonical name without spaces, such as `H100-NVL-94GB`."""
    architecture: str
    compute_capability: tuple[int, int]
    """https://developer.nvidia.com/cuda-gpus and https://developer.nvidia.com/cuda-legacy-gpus"""
    memory_gb: int
    """Nominal memory of the board; clouds report up to 8 % less, because they count GiB or leave out what ECC takes."""
    mig_profiles: str | None
    """Set of MIG profiles in `data/mig_profiles.csv`, None when the model cannot do MIG."""
    mps_max_clients: int
    """Most replicas under MPS that NVIDIA's device plugin accepts: 48 from compute capability 7.5, else 16
    (NVIDIA/k8s-device-plugin `cmd/mps-control-daemon/mps/device.go`)."""
    min_mig_driver: str | None
    """First driver version with MIG on this model, None without MIG or when no source states it
    (https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html)."""
    last_driver_branch: int | None
    """Last driver branch that still supports the model (580 for Maxwell, Pascal and Volta), None when none is announced
    (https://docs.nvidia.com/datacenter/tesla/drivers/)."""
    nvlink_over_nodes: bool
    """Whether machines with it are racks of one NVLink domain (Multi-Node NVLink, NVL72)
    (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html)."""
    note: str
    """What a reader should know besides, may be empty."""
    status: str
    """How sure name, memory and compute capability are: `verified`, `derived` or `unverified`."""
    source: str
    """Page that states the compute capability."""


@cache
def gpu_models() -> Mapping[str, GpuModel]:
    """Give every known model by its canonical name, oldest architecture first; the file is read once."""
    models = [_model(row) for row in data_rows("gpu_models.csv")]
    return MappingProxyType({model.name: model for model in models})


def match_gpu_model(request: str) -> tuple[str, ...]:
    """Name the models that `request` can mean: the model of that name, else all whose name goes on after `<wish>-`.

    `A100` gives both sizes, `H200` gives the one there is, an unknown name gives nothing. Case does not matter.
    """
    folded = request.strip().casefold()
    exact = tuple(name for name in gpu_models() if name.casefold() == folded)
    if exact or not folded:
        return exact
    return tuple(name for name in gpu_models() if name.casefold().startswith(f"{folded}-"))


def nearest_gpu_model(name: str, offered: Collection[str] | None = None) -> str:
    """Return a fix that names the models which an unknown name may mean, or the closest ones.

    Args:
        name: As written, e.g. as GKE, SkyPilot or a product page has it: `nvidia-tesla-t4`, `NVIDIA L4`.
        offered: The models to choose from; all of them if left out.
    """
    known = gpu_models() if offered is None else offered
    bare = re.sub(r"(?:nvidia|tesla|geforce|quadro)[ _-]*", "", name.casefold())
    written = (re.sub(r"[ _]+", sign, bare) for sign in ("-", ""))  # `A100 80GB`, `H 100`
    meant = next(filter(None, ([model for model in match_gpu_model(one) if model in known] for one in written)), [])
    return f"write {' or '.join(meant)}" if meant else nearest(name, known, most=12 if offered is None else 40)


def _model(row: Mapping[str, str]) -> GpuModel:
    major, minor = row["compute_capability"].split(".")
    return GpuModel(
        name=row["name"],
        architecture=row["architecture"],
        compute_capability=(int(major), int(minor)),
        memory_gb=int(row["memory_gb"]),
        mig_profiles=row["mig_profiles"] or None,
        mps_max_clients=int(row["mps_max_clients"]),
        min_mig_driver=row["min_mig_driver"] or None,
        last_driver_branch=int(row["last_driver_branch"]) if row["last_driver_branch"] else None,
        nvlink_over_nodes=row["nvlink_over_nodes"] == "yes",
        note=row["note"],
        status=row["status"],
        source=row["source"],
    )
