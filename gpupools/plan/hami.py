"""HAMi: what its pods ask for, and which sharing it is refused beside.

Its device plugin offers each GPU ten times, and its scheduler gives each pod the memory and the cores that it asks for.
Fields: https://github.com/Project-HAMi/HAMi tag v2.10.0, charts/hami/values.yaml.
"""

from collections.abc import Mapping

from gpupools.common.json_types import JsonDict
from gpupools.plan.capability import Capability, Verdict
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.spec.models import SHARING_KINDS

HAMI = "hami"
"""The pool's `software`, its chart, and how containers share the GPUs."""

HAMI_SCHEDULER = "hami-scheduler"
"""The `schedulerName` of pods on such a pool."""

HAMI_LABEL = "gpu"
"""Node label with the value `on`, which HAMi's device plugin selects."""

PODS_PER_GPU = 10
"""How often HAMi's device plugin offers each GPU; a cluster has one number."""

_PLUGIN = "https://github.com/Project-HAMi/HAMi tag v2.10.0, charts/hami/values.yaml"


def hami_capabilities(
    none: Capability, others: Mapping[tuple[str, str], Capability]
) -> dict[tuple[str, str], Capability]:
    """Return a cloud's row of the matrix for HAMi: GPUs by memory and cores, and every kind of sharing refused.

    Args:
        none: What the cloud says of HAMi.
        others: The rows of its other software, one of which is the cure.
    """
    capabilities = {(HAMI, "none"): none}
    for kind in SHARING_KINDS[1:]:
        ways = [name for (name, key), cell in others.items() if key == kind and cell.verdict is not Verdict.REFUSED]
        why = "HAMi itself divides whole GPUs by the memory and cores that pods request"
        instead = f"leave sharing out, or use software: {' or '.join(ways)}" if ways else "leave sharing out"
        capabilities[HAMI, kind] = Capability(Verdict.REFUSED, why, _PLUGIN, instead)
    return capabilities


def hami_limits() -> JsonDict:
    """Return what a pod requests to get one of `PODS_PER_GPU` equal parts of a GPU."""
    part = 100 // PODS_PER_GPU
    return {GPU_RESOURCE: 1, "nvidia.com/gpumem-percentage": part, "nvidia.com/gpucores": part}
