"""What a cloud's folder must say about the GPU software of its nodes; data, one row per way of installing it."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.software_plan import DriverMount, KubernetesObject, Piece

if TYPE_CHECKING:
    from gpupools.plan.pool_plan import PoolPlan


class DriverInstaller(NamedTuple):
    """What installs the driver of nodes."""

    owner: str
    """In words for people."""
    declare: "Callable[[Sequence[PoolPlan]], KubernetesObject]"
    """Declare it for the nodes of these pools; the object says what it installs (`KubernetesObject.installs`)."""


class NodeChart(NamedTuple):
    """A chart that nodes need."""

    chart: str
    """A row of `data/charts.csv`."""
    values: "Callable[[Sequence[PoolPlan]], JsonDict]"
    """By value path, for the pools that need it."""
    decisions: tuple[str, ...]
    """What happens to CRDs and leftovers, as `Release.decisions`."""
    existing: str = ""
    """The key of `runtime.existing` with software of the team's that takes its place; empty for none."""


class NodeRuntime(NamedTuple):
    """GPU software on the nodes of a pool, and settings that software in the cluster needs for them."""

    brings: Mapping[Piece, str]
    """Pieces that are there without any chart, with their owner in words for people."""
    why: str
    """One sentence."""
    source: str
    plugin_values: JsonObject = MappingProxyType({})
    """Value path to value that the device plugin's chart needs on these nodes."""
    operator_values: JsonObject = MappingProxyType({})
    """Value path to value that the GPU Operator's chart needs on these nodes."""
    dra_values: JsonObject = MappingProxyType({})
    """Value path to value that the DRA driver's chart needs on these nodes.

    The GPU Operator puts a driver that it builds at /run/nvidia/driver: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu
    tag v0.4.1, values.yaml, nvidiaDriverRoot.
    """
    kai_values: JsonObject = MappingProxyType(
        {"admission.gpuFractionRuntimeClassName": "nvidia", "binder.runtimeClassName": "nvidia"}
    )
    """Value path to value that KAI's chart needs on these nodes for fractions: the class with NVIDIA's runtime."""
    runtime_class_handler: str | None = None
    """containerd handler for which a RuntimeClass `nvidia` is worth having, because nobody else declares one."""
    pod_runtime_class: str | None = None
    """RuntimeClass that pods must name; None where NVIDIA's runtime is the default or CDI does the work."""
    pod_driver_mount: DriverMount | None = None
    """Where each pod mounts the driver itself; None where that is done for it."""
    driver_installer: DriverInstaller | None = None
    """What has to run on the nodes to install their driver, where neither image nor charts do."""
    critical_pods_quota: str = ""
    """Why system-critical pods outside kube-system need a ResourceQuota that admits them; empty where they do not."""
    mig_needs_reboot: bool = False
    """Whether the MIG manager must be allowed to reboot the node."""
    charts: tuple[NodeChart, ...] = ()
    """Charts that the nodes need for what they offer beside GPUs."""
    no_dcgm_chart: str = ""
    """Why the DCGM exporter's chart cannot run here and what does instead; empty where it can."""
    no_dcgm_source: str = ""
    refused: str = ""
    """Why the software cannot run on this image, with the cure after a semicolon; empty where it can."""


@cache
def read_runtimes(folder: Path) -> Mapping[str, NodeRuntime]:
    """Return the rows of a cloud's `node_software.toml`, whose keys are the fields of `NodeRuntime`."""
    rows = tomllib.loads((folder / "node_software.toml").read_text(encoding="utf-8"))
    for row in rows.values():
        row["brings"] = {Piece(piece): owner for piece, owner in row.get("brings", {}).items()}
        if "pod_driver_mount" in row:
            row["pod_driver_mount"] = DriverMount(**row["pod_driver_mount"])
    return {name: NodeRuntime(**row) for name, row in rows.items()}
