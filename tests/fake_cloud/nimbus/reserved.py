"""Keys of labels and taints that Nimbus keeps for itself."""

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule, kubelet_labels

LABELS = (
    KeyRule(pattern="nimbus.example.com/*", why="is the cloud's own", source="https://example.com/labels"),
    *kubelet_labels("Nimbus"),
    *OPERATOR_LABELS,
)
TAINTS = CONDITION_TAINTS
