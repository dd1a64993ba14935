"""Keys of node labels and taints that AKS keeps for itself, or that keep its nodes from joining."""

from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule, kubelet_labels
from gpupools.providers.azure.pool_settings import SPOT_PAGE

LABELS: tuple[KeyRule, ...] = (
    KeyRule(
        pattern="kubernetes.azure.com/*",
        why="is of a name space that AKS keeps for itself",
        source="https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes",
        on_nodes=True,
    ),
    # Refused until 2024 at least (https://github.com/Azure/AKS/issues/4613), and released since.
    KeyRule(pattern="node-role.kubernetes.io/*", source="https://github.com/Azure/AKS/issues/4628", on_nodes=True),
    *kubelet_labels("AKS", "https://github.com/Azure/AKS/issues/2866"),
    *OPERATOR_LABELS,
)

TAINTS: tuple[KeyRule, ...] = (
    *CONDITION_TAINTS,
    KeyRule(
        pattern="kubernetes.azure.com/scalesetpriority",
        why="is the taint of spot pools, which AKS adds",
        fix="write capacity: {mode: spot}",
        source=SPOT_PAGE,
    ),
    KeyRule(
        pattern="kubernetes.azure.com/*",
        why="is of a name space that AKS takes no taints of",
        source="https://github.com/Azure/karpenter-provider-azure/issues/1830",
    ),
)
