"""The configurations that device plugin and MIG manager read; `gpupools.plan.node_labels` chooses among them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonDict
from gpupools.plan.node_resources import GPU_RESOURCE, node_layouts, unshared
from gpupools.spec.models import SHARED_MODES, Mig, SharedGpu, SharingMode

if TYPE_CHECKING:
    from gpupools.catalog.mig_nodes import MigParted

DEFAULT_CONFIG = "whole"
"""The plugin's entry for nodes without the label."""


# --- device plugin ----------------------------------------------------------------------------------------------------


def plugin_config_name(instance: InstanceType, sharing: SharingMode) -> str:
    """Name the plugin's entry for a way of sharing; equal needs have equal names."""
    mig, clients = sharing.mig, sharing.clients
    parts = [f"mig-{mig.naming}"] if mig is not None else []
    if clients is not None:
        packed = "-packed" if clients.placement == "pack" else ""
        parts.append(f"{clients.mode}-{clients.replicas}" + ("-shared" if clients.rename else "") + packed)
    name = "-".join(parts) or DEFAULT_CONFIG
    if mig is not None and clients is not None and mig.naming == "mixed":  # the entry lists the resources: so has it
        name = "-".join([name, *(slice_.removeprefix("nvidia.com/mig-") for slice_ in _slices(instance, sharing))])
    return name if len(name) <= 63 else f"{name[:46]}-{_digest(name)}"


def plugin_config(instance: InstanceType, sharing: SharingMode) -> str:
    """Write the plugin's entry for a way of sharing, as YAML.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/config.go and sharing.go. The MPS daemon gives each
    client an equal part of the GPU's memory and threads, according to the replicas; there is no setting for it
    (https://github.com/NVIDIA/k8s-device-plugin#with-cuda-mps).
    """
    mig, clients = sharing.mig, sharing.clients
    strategy = mig.naming if mig is not None else "none"
    if clients is None:
        return _entry(strategy)
    names = _slices(instance, sharing) if mig is not None and mig.naming == "mixed" else [GPU_RESOURCE]
    packs = clients.placement == "pack"
    return _entry(strategy, clients.facts.plugin_block, names, clients.replicas, rename=clients.rename, packs=packs)


def plugin_config_examples() -> dict[str, str]:
    """Return an entry for whole GPUs and one per way of sharing, by its block."""
    blocks = [mode.facts.plugin_block for mode in SHARED_MODES.values()]
    return {DEFAULT_CONFIG: _entry()} | {block: _entry("mixed", block, [GPU_RESOURCE], 2) for block in blocks}


def _entry(
    strategy: str = "none",
    block: str = "",
    names: Sequence[str] = (),
    replicas: int = 1,
    *,
    rename: bool = False,
    packs: bool = False,
) -> str:
    # `distributed` is the default: NVIDIA/k8s-device-plugin v0.20.0, internal/rm/nvml_manager.go.
    policy = {"plugin": {"sharedDevicesAllocationPolicy": "packed"}} if packs else {}
    entry: JsonDict = {"version": "v1", "flags": {"migStrategy": strategy, **policy}}
    if block:
        shared = {
            # False keeps the name nvidia.com/gpu, so that ExtendedResourceToleration still works.
            "renameByDefault": rename,
            # A second replica may be on the same GPU, so asking for two gains nothing; the plugin's default is false.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": name, "replicas": replicas} for name in names],
        }
        entry["sharing"] = {block: shared}
    return yaml.safe_dump(entry, sort_keys=False)


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
    from gpupools.catalog.mig_nodes import (  # its tables are slow to load, and most pools cut nothing
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


# --- existing nodes ---------------------------------------------------------------------------------------------------


def read_sharing(model: str, native: JsonDict | None, plugin: str, mig: str) -> JsonDict | None:
    """Return the sharing keys of an existing pool whose node labels name configurations as this module names them.

    Args:
        model: The GPU model.
        native: What the cloud's own pool says about sharing.
        plugin: Configuration of the device plugin; a name of any other form tells nothing.
        mig: Configuration of the MIG manager, with NVIDIA's name or the one of a stack.

    Raises:
        ValueError: The name of the MIG configuration does not tell its layout.
    """
    strategy, clients = read_plugin_name(plugin)
    found = dict(native or {})
    if mig and not native:
        from gpupools.catalog.mig_nodes import named_layouts  # its tables are slow to load

        layouts = named_layouts(model, mig.removeprefix(f"{model.lower()}-"))
        if layouts is None:
            raise ValueError(f"is cut by the MIG configuration {mig!r}, whose layout its name does not tell")
        every = layouts.get(None, [])
        if mig.partition("all-")[2] and len(set(every)) == 1:
            found = {"mode": "mig", "profile": every[0]}
        elif layouts:
            found = {"mode": "mig", "layout": every or layouts}
    if found.get("mode") != "mig":
        return found or clients
    default = "single" if "profile" in found else "mixed"
    found |= {"strategy": strategy} if strategy not in ("", default) else {}
    return found | ({"share": clients} if clients is not None and "share" not in found else {})


def read_plugin_name(name: str) -> tuple[str, JsonDict | None]:
    """Return MIG strategy and shared mode of a name that `plugin_config_name` makes; nothing for any other."""
    strategy = next((choice for choice in ("single", "mixed") if f"{name}-".startswith(f"mig-{choice}-")), "")
    rest = name.removeprefix(f"mig-{strategy}").removeprefix("-") if strategy else name
    for mode in SHARED_MODES:
        replicas, _, tail = rest.removeprefix(f"{mode}-").partition("-") if rest.startswith(f"{mode}-") else ("",) * 3
        words = tail.split("-") if tail else []
        renamed, packed = ((words.pop(0) if words[:1] == [word] else "") for word in ("shared", "packed"))
        if replicas.isdecimal() and (not words or strategy == "mixed"):
            said: JsonDict = {"rename": True} if renamed else {}
            said |= {"placement": "pack"} if packed else {}
            return strategy, {"mode": mode, "replicas": int(replicas), **said}
    return "" if rest else strategy, None


# --- names -----------------------------------------------------------------------------------------------------------


def content_name(base: str, data: Mapping[str, str]) -> str:
    """Name a ConfigMap after its content: neither operator nor plugin watches one, but a new name starts new pods.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html
    """
    return f"{base}-{_digest(chr(0).join(f'{key}={value}' for key, value in sorted(data.items())))}"


def _digest(text: str) -> str:
    from hashlib import sha256  # slow to import, and most pools share no GPU

    return sha256(text.encode()).hexdigest()[:10]
