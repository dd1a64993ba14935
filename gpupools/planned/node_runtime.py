"""What a cloud's folder must say about the GPU software of its nodes; data, one row per way of installing it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.planned.runtime_plan import Piece


@dataclass(frozen=True, kw_only=True)
class NodeRuntime:
    """What the nodes of a pool bring, and what software installed in the cluster must be told about them."""

    brings: Mapping[Piece, str]
    """Pieces that are there without any chart, with their owner in words for people."""
    why: str
    """One sentence."""
    source: str
    plugin_values: Mapping[str, Any] = field(default_factory=dict)
    """Value path to value that the device plugin's chart needs on these nodes."""
    operator_values: Mapping[str, Any] = field(default_factory=dict)
    """Value path to value that the GPU Operator's chart needs on these nodes."""
    dra_values: Mapping[str, Any] = field(default_factory=dict)
    """Value path to value that the DRA driver's chart needs on these nodes."""
    runtime_class_handler: str | None = None
    """containerd handler for which a RuntimeClass `nvidia` is worth having, because nobody else declares one."""
    pod_runtime_class: str | None = None
    """RuntimeClass that pods must name; None where NVIDIA's runtime is the default or CDI does the work."""
    pod_driver_directory: str = ""
    """Directory of the host with the driver that each pod mounts itself; empty where that is done for it."""
    cos_driver_installer: bool = False
    """Whether Google's driver installer has to run on the nodes."""
    critical_pods_need_quota: bool = False
    """Whether system-critical pods outside kube-system need a ResourceQuota that admits them."""
    mig_needs_reboot: bool = False
    """Whether the MIG manager must be allowed to reboot the node."""
    efa: bool = False
    """Whether the nodes have EFA interfaces, which pods get from a device plugin of their own."""
    no_dcgm_chart: str = ""
    """Why the DCGM exporter's chart cannot run here and what does instead; empty where it can."""
    no_dcgm_source: str = ""
    refused: str = ""
    """Why the software cannot run on this image, with the cure after a semicolon; empty where it can."""
