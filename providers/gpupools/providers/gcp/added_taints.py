"""The taints that GKE itself puts on a pool's nodes: not ours to declare, but to be tolerated. Data."""

from gpupools.common.taints import Effect, Taint

QUEUED = Taint("cloud.google.com/gke-queued", "true", Effect.NO_SCHEDULE)
"""On nodes that only queued provisioning brings; the label of the same name is for whoever makes the pool.

https://github.com/GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool/main.tf (2026-11-21)
"""

ARM = Taint("kubernetes.io/arch", "arm64", Effect.NO_SCHEDULE)
"""On every Arm node, unless `nodeConfig.taintConfig` says otherwise (`ARM_PAGE`, 2026-11-22)."""
ARM_PAGE = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment"


def added_taints(architecture: str, *, queued: bool) -> tuple[Taint, ...]:
    """Return what GKE puts on the nodes of such a pool."""
    return (*((QUEUED,) if queued else ()), *((ARM,) if architecture == "arm64" else ()))
