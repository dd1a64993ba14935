"""The configurations that device plugin and MIG manager read, and the node labels that choose among them.

A pool's labels are part of its plan, so that a node the autoscaler starts has them from its first second; they follow
from the pool alone, never from its neighbours.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import yaml
from pydantic import Field

from gpupools.capacity import GPU_RESOURCE, capacity, node_layouts
from gpupools.catalogue import InstanceType
from gpupools.mig import MigParted, mig_parted_config
from gpupools.model import Strict
from gpupools.runtime.spec import Trust
from gpupools.spec import Mig, Mps, TimeSlicing, WholeGpu

Sharing = WholeGpu | TimeSlicing | Mps | Mig

SOFTWARE_LABEL = "gpupools/software"
"""Node label with the pool's `software`: what DaemonSets of ours select, so that each stays on its own nodes."""

TRUST_LABEL = "gpupools/trust"
"""Node label and taint key of a pool that names who may use it, and the label of a team's namespaces."""

OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
"""Node label that, at `false`, keeps every operand of a GPU Operator off: ours, or one that somebody installs later.

https://github.com/NVIDIA/gpu-operator, controllers/state_manager.go, hasOperandsDisabled.
"""

PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Node label that names the entry of the device plugin's ConfigMap (https://github.com/NVIDIA/k8s-device-plugin)."""

MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""Node label that names the layout the MIG manager makes (https://github.com/NVIDIA/mig-parted)."""

OUR_LABELS = frozenset({SOFTWARE_LABEL, TRUST_LABEL, OPERANDS_LABEL, PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL})
"""Labels that a plan sets and a reader cannot."""

DEFAULT_CONFIG = "whole"
"""The plugin's entry for nodes without the label."""


# --- device plugin ----------------------------------------------------------------------------------------------------


class Flags(Strict):
    """`flags` of the plugin's configuration; all others keep the plugin's defaults."""

    migStrategy: Literal["none", "single", "mixed"] = "none"  # noqa: N815 - the plugin's spelling


class SharedResource(Strict):
    """One resource that is offered several times; `devices` and `rename` are left out, the plugin ignores them."""

    name: str = Field(pattern=r"^nvidia\.com/(gpu|mig-[0-9]+g\.[0-9]+gb(\.[a-z.]+|-[a-z]+)?)$")
    replicas: int = Field(ge=2)


class Replicated(Strict):
    """`sharing.timeSlicing` or `sharing.mps`."""

    # False keeps the name nvidia.com/gpu, so that ExtendedResourceToleration still works.
    renameByDefault: Literal[False] = False  # noqa: N815
    # A second replica may be on the same GPU, so asking for two gains nothing; the plugin's default is false.
    failRequestsGreaterThanOne: Literal[True] = True  # noqa: N815
    resources: list[SharedResource] = Field(min_length=1)


class PluginSharing(Strict):
    """`sharing`: one method or none; given both, the plugin takes MPS without a word."""

    timeSlicing: Replicated | None = None  # noqa: N815
    mps: Replicated | None = None


class PluginConfig(Strict):
    """One entry of the device plugin's ConfigMap.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/config.go and sharing.go.
    """

    version: Literal["v1"] = "v1"
    flags: Flags = Flags()
    sharing: PluginSharing | None = None

    def text(self) -> str:
        """Write the entry as YAML."""
        return yaml.safe_dump(self.model_dump(exclude_none=True), sort_keys=False)


def plugin_config_name(instance: InstanceType, sharing: Sharing) -> str:
    """Name the plugin's entry for a way of sharing; equal needs have equal names."""
    if isinstance(sharing, WholeGpu):
        return DEFAULT_CONFIG
    if not isinstance(sharing, Mig):
        return f"{sharing.mode}-{sharing.replicas}"
    name = f"mig-{sharing.naming}"
    if sharing.share is None:
        return name
    name = f"{name}-{sharing.share.mode}-{sharing.share.replicas}"
    if sharing.naming == "mixed":  # the entry lists the resources, so its name has to
        name = "-".join([name, *(each.removeprefix("nvidia.com/mig-") for each in _slices(instance, sharing))])
    return name if len(name) <= 63 else f"{name[:46]}-{_digest(name)}"


def plugin_config(instance: InstanceType, sharing: Sharing) -> PluginConfig:
    """Write the plugin's entry for a way of sharing.

    The MPS daemon gives each client an equal part of the GPU's memory and threads, the replicas say which; there is
    no setting for it (https://github.com/NVIDIA/k8s-device-plugin#with-cuda-mps).
    """
    flags = Flags(migStrategy=sharing.naming if isinstance(sharing, Mig) else "none")
    shared = sharing.share if isinstance(sharing, Mig) else sharing
    if not isinstance(shared, TimeSlicing | Mps):
        return PluginConfig(flags=flags)
    names = _slices(instance, sharing) if isinstance(sharing, Mig) and sharing.naming == "mixed" else [GPU_RESOURCE]
    entry = Replicated(resources=[SharedResource(name=name, replicas=shared.replicas) for name in names])
    is_mps = isinstance(shared, Mps)
    return PluginConfig(flags=flags, sharing=PluginSharing(mps=entry) if is_mps else PluginSharing(timeSlicing=entry))


def mps_limits(instance: InstanceType, sharing: Mps) -> tuple[float, float]:
    """Return what each MPS client gets at most: GiB of the GPU's memory, and percent of its threads.

    https://github.com/NVIDIA/k8s-device-plugin, cmd/mps-control-daemon/mps/daemon.go.
    """
    return round(instance.gpu_memory_gib / sharing.replicas, 1), round(100 / sharing.replicas, 1)


def _slices(instance: InstanceType, sharing: Mig) -> list[str]:
    return [name for name in capacity(instance, sharing) if name != GPU_RESOURCE]


# --- MIG manager ------------------------------------------------------------------------------------------------------


def mig_config(instance: InstanceType, sharing: Mig) -> MigParted:
    """Write the MIG manager's layout for a pool, under a name that no other GPU model uses.

    NVIDIA's own names (`all-balanced`, `all-1g.10gb`) mean different layouts on different models, and one ConfigMap
    serves every pool of a cluster.
    """
    made = mig_parted_config(instance.gpu_model, node_layouts(instance, sharing))
    name = f"{instance.gpu_model.lower()}-{made.name}"
    if len(name) > 63:
        name = f"{instance.gpu_model.lower()}-custom-{_digest(made.name)}"
    configs = {name if key == made.name else key: value for key, value in made.document["mig-configs"].items()}
    return MigParted(name, {**made.document, "mig-configs": configs})


def mig_configs(layouts: Iterable[MigParted]) -> dict[str, Any]:
    """Put the layouts of several pools into one document for the MIG manager."""
    found: dict[str, Any] = {}
    for layout in layouts:
        found |= layout.document["mig-configs"]
    return {"version": "v1", "mig-configs": dict(sorted(found.items()))}


# --- labels -----------------------------------------------------------------------------------------------------------


def pool_labels(
    name: str, instance: InstanceType, sharing: Sharing, software: str, trust: Trust | None, *, native: bool
) -> Mapping[str, str]:
    """Return the labels that tell GPU software in the cluster what to do on a pool's nodes.

    Args:
        name: The pool's key.
        instance: Its machine.
        sharing: How its GPUs are shared.
        software: Who brings the GPU software.
        trust: Who may use it.
        native: Whether the cloud's own pool does the sharing; then no MIG manager cuts the GPUs.
    """
    labels = {SOFTWARE_LABEL: software}
    if software != "gpu-operator":
        labels[OPERANDS_LABEL] = "false"
    if software in ("device-plugin", "gpu-operator") and not isinstance(sharing, WholeGpu):
        labels[PLUGIN_CONFIG_LABEL] = plugin_config_name(instance, sharing)
    if software == "gpu-operator" and isinstance(sharing, Mig) and not native:
        labels[MIG_CONFIG_LABEL] = mig_config(instance, sharing).name
    mark = trust.mark(name) if trust is not None else None
    if mark is not None:
        labels[TRUST_LABEL] = mark
    return labels


def content_name(base: str, data: Mapping[str, str]) -> str:
    """Name a ConfigMap after its content: neither operator nor plugin watches one, but a new name starts new pods.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
    """
    return f"{base}-{_digest(chr(0).join(f'{key}={value}' for key, value in sorted(data.items())))}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:10]
