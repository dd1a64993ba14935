"""Reads a declared GKE node pool back from its input properties. Never raises, whatever the properties are."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpupools.cloud import UNKNOWN, PoolFacts
from gpupools.taints import Effect, Taint
from providers.gcp.machines import INSTANCE_TYPES

NODE_POOL = "gcp:container/nodePool:NodePool"

EFFECTS = {
    Effect.NO_SCHEDULE: "NO_SCHEDULE",
    Effect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    Effect.NO_EXECUTE: "NO_EXECUTE",
}
"""Effects in the spelling of the GKE API, https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""

_KUBERNETES_EFFECT = {theirs: ours for ours, theirs in EFFECTS.items()}

# Accelerator-optimized series (a2, a3, a4x, g2, …), so that one newer than the catalogue is still a GPU machine; g1 is
# a shared-core machine. The number before `g` counts the GPUs: a3-highgpu-8g.
# https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
_GPU_SERIES = re.compile(r"[ag][2-9][a-z0-9]{0,8}-[a-z0-9-]+")
_GPUS_IN_NAME = re.compile(r"-(\d{1,3})g(?:-|$)")


def read_pool(type_token: str, properties: Mapping[str, Any]) -> PoolFacts | None:
    """Read a declared resource back; None when it is no GKE node pool.

    Args:
        type_token: The resource's Pulumi type.
        properties: Its inputs in wire form (camelCase), with `UNKNOWN` for what the engine does not know yet.
    """
    if type_token != NODE_POOL:
        return None
    config = properties.get("nodeConfig") if isinstance(properties, Mapping) else None
    if config is UNKNOWN:
        return PoolFacts("gcp", (), None, (), unknown=("nodeConfig",))
    if not isinstance(config, Mapping):
        return PoolFacts("gcp", (), Fraction(0), ())
    late: list[str] = []
    accelerators = _accelerators(config, late)
    machine = config.get("machineType")
    if machine is UNKNOWN:
        late.append("nodeConfig.machineType")
    machine = machine if isinstance(machine, str) else ""
    late_taints: list[str] = []
    taints = tuple(_taints(config, late_taints))
    gpus, evidence = _gpus(machine, accelerators)
    name = _instance_type(machine, accelerators)
    names = (name,) if name else ()
    if gpus:
        return PoolFacts("gcp", names, gpus, taints, evidence, tuple(late_taints))
    return PoolFacts("gcp", names, None if late else gpus, taints, unknown=(*late, *late_taints) if late else ())


def _items(value: object, path: str, unknown: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the maps of a list with their paths; note what is not known yet."""
    if value is UNKNOWN:
        unknown.append(path)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for index, item in enumerate(value):
            if item is UNKNOWN:
                unknown.append(f"{path}[{index}]")
            elif isinstance(item, Mapping):
                yield f"{path}[{index}]", item


def _accelerators(config: Mapping[str, Any], unknown: list[str]) -> list[tuple[str, int]]:
    """Return the NVIDIA accelerators as (type, count)."""
    found: list[tuple[str, int]] = []
    for path, item in _items(config.get("guestAccelerators"), "nodeConfig.guestAccelerators", unknown):
        kind, count = item.get("type"), item.get("count")
        if kind is UNKNOWN or count is UNKNOWN:
            unknown.append(f"{path}.{'type' if kind is UNKNOWN else 'count'}")
            continue
        name = kind.rsplit("/", 1)[-1] if isinstance(kind, str) else ""
        cut = isinstance(item.get("gpuPartitionSize"), str) and item["gpuPartitionSize"] != ""
        number = max(_count(count), 1 if cut else 0)
        if number and (cut or "nvidia" in name):
            found.append((name, number))
    return found


def _count(value: object) -> int:
    """Read a count as it comes over the wire; 0 for anything that is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
    if isinstance(value, float) and math.isfinite(value):
        return max(0, int(value))
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _gpus(machine: str, accelerators: list[tuple[str, int]]) -> tuple[Fraction, str]:
    """Count the GPUs of a node and say what shows them; the catalogue first, for it knows parts of a GPU."""
    row = INSTANCE_TYPES.get(machine)
    if row is not None:
        return row.gpus, f"machineType {machine}"
    if accelerators:
        shown = ", ".join(f"{count} × {kind}" for kind, count in accelerators)
        return Fraction(sum(count for _, count in accelerators)), f"guestAccelerators {shown}"
    if _GPU_SERIES.fullmatch(machine):
        match = _GPUS_IN_NAME.search(machine)
        return Fraction(max(1, int(match[1])) if match else 1), f"machineType {machine}"
    return Fraction(0), ""


def _instance_type(machine: str, accelerators: list[tuple[str, int]]) -> str:
    """Name the machine as the catalogue does: N1 together with its accelerators."""
    if not machine.startswith("n1-") or len(accelerators) != 1:
        return machine
    kind, count = accelerators[0]
    row = INSTANCE_TYPES.get(f"n1+{kind}:{count}")
    return row.name if row is not None and row.extra["machine_type"] == machine else f"{machine}+{kind}:{count}"


def _taints(config: Mapping[str, Any], unknown: list[str]) -> Iterator[Taint]:
    for path, item in _items(config.get("taints"), "nodeConfig.taints", unknown):
        late = [key for key in ("key", "value", "effect") if item.get(key) is UNKNOWN]
        if late:
            unknown.extend(f"{path}.{key}" for key in late)
            continue
        key, value, effect = item.get("key"), item.get("value", ""), item.get("effect")
        if isinstance(key, str) and key and isinstance(effect, str) and effect in _KUBERNETES_EFFECT:
            yield Taint(key, value if isinstance(value, str) else "", _KUBERNETES_EFFECT[effect])
