"""What Karpenter says of Google Cloud's machines: its labels. Pure.

Source, as repository and path: cloudpilot-ai/karpenter-provider-gcp pkg/apis/v1alpha1/labels.go.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.karpenter_provider import KarpenterProvider, Requirements
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, PoolFacts
from gpupools.providers.gcp.machines import INSTANCE_TYPES
from gpupools.readback.inputs import Machines, TaintsRead, at, flag, pool_facts
from gpupools.readback.karpenter import ARCHITECTURE, SYSTEM, TYPE

_GROUP = "karpenter.k8s.gcp"
_ACCELERATOR = "cloud.google.com/gke-accelerator"


def _accelerators(wanted: Requirements, accelerator: Callable[[str], Accelerator]) -> Iterator[tuple[Accelerator, str]]:
    for key, one, family in wanted.listed(f"{_GROUP}/instance-family"):
        found = accelerator(f"{family.partition('-')[0]}-standard-4")  # a family is what stands before the first dash
        yield replace(found, count=None), f"{one.path} {key} {family}"
    for key, one in wanted.of(_ACCELERATOR):
        if one.wants:
            yield Accelerator("nvidia", None), f"{one.path} {key} {', '.join(one.values)}".rstrip()


def _labels(machine: InstanceType) -> Mapping[str, str]:
    """Return what `computeRequirements` in pkg/providers/instancetype/types.go says of a machine type.

    Of those without GPUs built in, which it does not offer (docs/gpu-nodes.md), nothing.
    """
    if "+" in machine.name:
        return {}
    parts = machine.name.split("-")
    family, accelerator = parts[0], machine.extra["accelerator_type"]
    return {
        TYPE: machine.name,
        ARCHITECTURE: machine.architecture,
        SYSTEM: "linux",
        "instance-family": family,
        "instance-shape": parts[1],
        "instance-generation": family[-2 if len(family) == 3 else -1],
        "instance-size": parts[-2 if len(parts) > 3 else -1],
        "instance-cpu": str(machine.vcpus),
        "instance-memory": str(int((machine.memory_gib or 0) * 1024)),
        "instance-gpu-count": "1",  # entries of `accelerators`, of which a machine type has one
        "instance-gpu-name": accelerator,
        "instance-gpu-manufacturer": "",
        "instance-gpu-memory": "",
        _ACCELERATOR: accelerator,
    }


def _gce_node_class(spec: JsonObject) -> PoolFacts:
    """Read a GCENodeClass: pkg/apis/v1alpha1/gcenodeclass.go; `autoGPUTaint` taints nodes with GPUs only."""
    taints = at(spec, "autoGPUTaint")
    return replace(
        pool_facts("gcp", Machines(), TaintsRead([GPU_TAINT] if flag(taints) else [])),
        unresolved_taints=("spec.autoGPUTaint",) if taints is UNKNOWN else (),
        where="spec.autoGPUTaint",
    )


KARPENTER = KarpenterProvider(
    groups=(_GROUP,),
    classes={"GCENodeClass": _gce_node_class},
    classes_taint=True,
    part="instance-",
    shown=_accelerators,
    machines=INSTANCE_TYPES,
    machine_labels=_labels,
    newer={TYPE: "^[ag][2-9][a-z0-9]{0,8}-[a-z0-9-]+$", "instance-family": "^[ag][2-9][a-z0-9]{0,8}(-|$)"},
    without_gpus="instance-gpu-count",
)
