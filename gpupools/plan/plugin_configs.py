"""The configurations that device plugin and MIG manager read; `gpupools.plan.node_labels` chooses among them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import Field

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonDict
from gpupools.common.model import StrictModel
from gpupools.plan.node_resources import GPU_RESOURCE, node_layouts, unshared
from gpupools.spec.models import Mig, SharedGpu, SharingMode

if TYPE_CHECKING:
    from gpupools.catalog.mig import MigParted

DEFAULT_CONFIG = "whole"
"""The plugin's entry for nodes without the label."""


# --- device plugin ----------------------------------------------------------------------------------------------------


class Flags(StrictModel):
    """`flags` of the plugin's configuration; all others keep the plugin's defaults."""

    migStrategy: Literal["none", "single", "mixed"] = "none"  # noqa: N815 - the plugin's spelling


class SharedResource(StrictModel):
    """One resource that is offered several times; `devices` and `rename` are left out, the plugin ignores them."""

    name: str = Field(pattern=r"^nvidia\.com/(gpu|mig-[0-9]+g\.[0-9]+gb(\.[a-z.]+|-[a-z]+)?)$")
    replicas: int = Field(ge=2)


class Replicated(StrictModel):
    """`sharing.timeSlicing` or `sharing.mps`."""

    # False keeps the name nvidia.com/gpu, so that ExtendedResourceToleration still works.
    renameByDefault: bool = False  # noqa: N815
    # A second replica may be on the same GPU, so asking for two gains nothing; the plugin's default is false.
    failRequestsGreaterThanOne: Literal[True] = True  # noqa: N815
    resources: list[SharedResource] = Field(min_length=1)


class PluginSharing(StrictModel):
    """`sharing`: one method or none; given both, the plugin takes MPS without a word."""

    timeSlicing: Replicated | None = None  # noqa: N815
    mps: Replicated | None = None


class PluginConfig(StrictModel):
    """One entry of the device plugin's ConfigMap.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/config.go and sharing.go.
    """

    version: Literal["v1"] = "v1"
    flags: Flags = Flags.model_construct()
    sharing: PluginSharing | None = None

    def text(self) -> str:
        """Write the entry as YAML."""
        return yaml.safe_dump(self.model_dump(exclude_none=True), sort_keys=False)


def plugin_config_name(instance: InstanceType, sharing: SharingMode) -> str:
    """Name the plugin's entry for a way of sharing; equal needs have equal names."""
    mig, clients = sharing.mig, sharing.clients
    parts = [f"mig-{mig.naming}"] if mig is not None else []
    if clients is not None:
        parts.append(f"{clients.mode}-{clients.replicas}" + ("-shared" if clients.rename else ""))
    name = "-".join(parts) or DEFAULT_CONFIG
    if mig is not None and clients is not None and mig.naming == "mixed":  # the entry lists the resources: so has it
        name = "-".join([name, *(each.removeprefix("nvidia.com/mig-") for each in _slices(instance, sharing))])
    return name if len(name) <= 63 else f"{name[:46]}-{_digest(name)}"


def plugin_config(instance: InstanceType, sharing: SharingMode) -> PluginConfig:
    """Write the plugin's entry for a way of sharing.

    The MPS daemon gives each client an equal part of the GPU's memory and threads, the replicas say which; there is
    no setting for it (https://github.com/NVIDIA/k8s-device-plugin#with-cuda-mps).
    """
    mig, clients = sharing.mig, sharing.clients
    flags = Flags(migStrategy=mig.naming if mig is not None else "none")
    if clients is None:
        return PluginConfig(flags=flags)
    names = _slices(instance, sharing) if mig is not None and mig.naming == "mixed" else [GPU_RESOURCE]
    resources = [SharedResource(name=name, replicas=clients.replicas) for name in names]
    entry = Replicated(renameByDefault=clients.rename, resources=resources)
    return PluginConfig(flags=flags, sharing=PluginSharing.model_validate({clients.facts.plugin_block: entry}))


def client_limits(instance: InstanceType, clients: SharedGpu) -> tuple[float, int]:
    """Return what each client of a GPU shared in equal parts gets: GiB of its memory, and whole percent of its threads.

    https://github.com/NVIDIA/k8s-device-plugin, cmd/mps-control-daemon/mps/daemon.go;
    https://github.com/GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia/manager.go.
    """
    return round(instance.gpu_memory_gib / clients.replicas, 1), 100 // clients.replicas


def _slices(instance: InstanceType, sharing: SharingMode) -> list[str]:
    """Return the resources of the slices by the names they have before they are shared."""
    return [name for name in unshared(instance, sharing) if name != GPU_RESOURCE]


# --- MIG manager ------------------------------------------------------------------------------------------------------


def mig_config(instance: InstanceType, sharing: Mig) -> "MigParted":
    """Write the MIG manager's layout for a pool, under a name that no other GPU model uses.

    NVIDIA's own names (`all-balanced`, `all-1g.10gb`) mean different layouts on different models, and one ConfigMap
    serves every pool of a cluster.
    """
    from gpupools.catalog.mig import (  # its tables are slow to load, and most pools cut nothing
        MigParted,
        mig_parted_config,
    )

    made = mig_parted_config(instance.gpu_model, node_layouts(instance, sharing))
    name = f"{instance.gpu_model.lower()}-{made.name}"
    if len(name) > 63:
        name = f"{instance.gpu_model.lower()}-custom-{_digest(made.name)}"
    configs = {name if key == made.name else key: value for key, value in made.document["mig-configs"].items()}
    return MigParted(name, {**made.document, "mig-configs": configs})


def mig_configs(layouts: "Iterable[MigParted]") -> JsonDict:
    """Put the layouts of several pools into one document for the MIG manager."""
    found: JsonDict = {}
    for layout in layouts:
        found |= layout.document["mig-configs"]
    return {"version": "v1", "mig-configs": dict(sorted(found.items()))}


# --- names -----------------------------------------------------------------------------------------------------------


def content_name(base: str, data: Mapping[str, str]) -> str:
    """Name a ConfigMap after its content: neither operator nor plugin watches one, but a new name starts new pods.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
    """
    return f"{base}-{_digest(chr(0).join(f'{key}={value}' for key, value in sorted(data.items())))}"


def _digest(text: str) -> str:
    from hashlib import sha256  # slow to import, and most pools share no GPU

    return sha256(text.encode()).hexdigest()[:10]
