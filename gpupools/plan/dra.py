"""NVIDIA's DRA driver: what its pods write instead of a resource name, and which sharing it is refused.

The driver publishes every GPU as a device in a ResourceSlice. A pod names a ResourceClaimTemplate of its namespace,
whose claim asks the driver's DeviceClass for devices:
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/.
"""

from collections.abc import Mapping

from gpupools.common.json_types import JsonDict
from gpupools.plan.capability import Capability, Verdict
from gpupools.plan.fabric import template
from gpupools.spec.models import SHARING_KINDS, shared_mode

DRA_DRIVER = "dra-driver"
"""The pool's `software` whose GPUs pods claim."""

DRA_CHART = "dra-driver-nvidia-gpu"
"""The chart that brings it."""

DEVICE_CLASS = "gpu.nvidia.com"
"""DeviceClass of whole GPUs, which the chart makes.

https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu, templates/deviceclass-gpu.yaml.
"""

CLAIM_QUOTA = f"{DEVICE_CLASS}.deviceclass.resource.k8s.io/devices"
"""What a ResourceQuota counts the claimed devices of the class by.

https://kubernetes.io/docs/concepts/policy/resource-quotas/.
"""

GPU_CLAIM = "gpu"
"""How a pod calls its claim of GPUs."""

_GATES = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu tag v0.4.1, pkg/featuregates/featuregates.go"
_NO_MIG = "NVIDIA's DRA driver cuts GPUs only by an alpha feature gate (DynamicMIG), and no MIG manager runs beside it"

_NO_FRACTIONS = "KAI places no fractions on nodes whose GPUs pods claim"
_KAI_NODES = "https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/scheduler/api/node_info/node_info.go"


def dra_capabilities(
    whole: Capability, others: Mapping[tuple[str, str], Capability]
) -> dict[tuple[str, str], Capability]:
    """Return a cloud's row of the matrix for the DRA driver: whole GPUs, and every kind of sharing refused.

    Args:
        whole: What the cloud says of whole GPUs.
        others: The rows of its other software, one of which is the cure.
    """
    capabilities = {(DRA_DRIVER, "none"): whole}
    for kind in SHARING_KINDS[1:]:
        clients = shared_mode(kind)
        why = clients.facts.not_claimable if clients is not None and not kind.startswith("mig") else _NO_MIG
        why = _NO_FRACTIONS if kind == "fractions" else why
        ways = [name for (name, key), cell in others.items() if key == kind and cell.verdict is not Verdict.REFUSED]
        instead = f"use software: {' or '.join(ways)}" if ways else "leave sharing out for whole GPUs"
        source = _KAI_NODES if kind == "fractions" else _GATES
        capabilities[DRA_DRIVER, kind] = Capability(Verdict.REFUSED, why, source, instead)
    return capabilities


def claim_template(pool: str, namespace: str = "", *, node_gpus: int = 0) -> JsonDict:
    """Return the ResourceClaimTemplate of one GPU, or of all GPUs of a node, which namespaces need that use the pool.

    The class is the cluster's, so which pool the GPU is of follows from the pod's node selector.
    """
    name = claim_name(pool, whole_node=bool(node_gpus))
    return template(name, GPU_CLAIM, DEVICE_CLASS, node_gpus, namespace=namespace)


def claim_name(pool: str, *, whole_node: bool = False) -> str:
    """Name a pool's ResourceClaimTemplate."""
    return f"gpupools-{pool}-node" if whole_node else f"gpupools-{pool}"
