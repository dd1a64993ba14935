"""Keys of node labels and taints that GKE keeps for itself, or that keep its nodes from joining."""

from gpupools.base.taints import Effect
from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule
from gpupools.providers.gcp.added_taints import ARM, QUEUED
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL

EFFECTS = {
    Effect.NO_SCHEDULE: "NO_SCHEDULE",
    Effect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    Effect.NO_EXECUTE: "NO_EXECUTE",
}
"""Effects in the spelling of the GKE API, https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""

# Google documents no list of what GKE sets itself. Its API refuses what it "manages": the pull request quotes it,
# of a key that Google's pages have people write by now. Labels for DRA drivers are people's own.
LABELS: tuple[KeyRule, ...] = (
    KeyRule(
        pattern="cloud.google.com/gke-*-dra-driver",
        source="https://github.com/modelplaneai/modelplane/pull/332",
        on_nodes=True,
    ),
    *(
        KeyRule(
            pattern=pattern,
            why="is a label that GKE keeps for itself",
            source="https://github.com/hashicorp/terraform-provider-google/pull/19677",
            on_nodes=True,
        )
        for pattern in ("cloud.google.com/gke-*", "cloud.google.com/machine-family", "topology.gke.io/*")
    ),
    KeyRule(
        pattern="sandbox.gke.io/runtime",
        why="is a label that GKE keeps for itself",
        source="https://github.com/crossplane-contrib/provider-gcp/pull/187",
        on_nodes=True,
    ),
    KeyRule(
        pattern=NO_DEVICE_PLUGIN_LABEL,
        why="switches GKE's device plugin off",
        fix="leave it out; software says who brings it",
        source="https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus",
        on_nodes=True,
    ),
    *(
        KeyRule(
            pattern=pattern,
            why="is refused by GKE, which takes no label of kubernetes.io and k8s.io",
            source="https://github.com/hashicorp/terraform-provider-google/issues/6003",
            on_nodes=True,
        )
        for pattern in ("kubernetes.io/*", "*.kubernetes.io/*", "k8s.io/*", "*.k8s.io/*")
    ),
    *OPERATOR_LABELS,
)

TAINTS: tuple[KeyRule, ...] = (
    *CONDITION_TAINTS,
    KeyRule(
        pattern="cloud.google.com/gke-queued",
        why="is the taint of queued pools, which GKE adds",
        fix="write capacity: {mode: queued, …}",
        source=QUEUED.source,
    ),
    KeyRule(
        pattern=ARM.taint.key,
        why="is one that GKE puts on Arm nodes itself",
        fix="leave it out",
        source=ARM.source,
    ),
    KeyRule(
        pattern="sandbox.gke.io/runtime",
        why="is one that GKE puts on nodes itself",
        fix="leave it out",
        source="https://github.com/crossplane-contrib/provider-gcp/pull/187",
    ),
)
