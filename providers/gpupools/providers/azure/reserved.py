"""Keys of node labels and taints that AKS reserves, or that keep its nodes from joining."""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules, kubelet_labels

_TABLE = Path(__file__).with_name("reserved.csv")

# Labels of node-role.kubernetes.io were refused until 2024 at least (https://github.com/Azure/AKS/issues/4613).
LABELS = (
    *key_rules(_TABLE, "label"),
    *kubelet_labels("AKS", "https://github.com/Azure/AKS/issues/2866"),
    *OPERATOR_LABELS,
)
TAINTS = (*CONDITION_TAINTS, *key_rules(_TABLE, "taint"))
