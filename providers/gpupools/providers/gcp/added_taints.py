"""The taints that GKE itself puts on a pool's nodes: not ours to declare, but to be tolerated. Data."""

from typing import NamedTuple

from gpupools.common.taints import Effect, Taint


class AddedTaint(NamedTuple):
    """One taint of GKE's own."""

    taint: Taint
    passed_by: str
    """Pods without a GPU that get past it anyway, in words for people; empty where there are none."""
    source: str
    checked: str
    """ISO date on which the row was compared with its source."""


QUEUED = AddedTaint(
    Taint("cloud.google.com/gke-queued", "true", Effect.NO_SCHEDULE),
    "",
    "https://github.com/GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool/main.tf",
    "2026-11-21",
)
"""On nodes that only queued provisioning brings; the label of the same name is for whoever makes the pool."""

ARM = AddedTaint(
    Taint("kubernetes.io/arch", "arm64", Effect.NO_SCHEDULE),
    "pods that select Arm nodes, for which GKE adds the toleration",
    "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment",
    "2026-11-22",
)
"""On every Arm node, unless `nodeConfig.taintConfig` says otherwise."""


def added_taints(architecture: str, *, queued: bool) -> tuple[Taint, ...]:
    """Return what GKE puts on the nodes of such a pool."""
    return (*((QUEUED.taint,) if queued else ()), *((ARM.taint,) if architecture == "arm64" else ()))
