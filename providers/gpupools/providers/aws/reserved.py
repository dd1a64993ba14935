"""Keys of node labels and taints that EKS reserves, or that keep its nodes from joining."""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules, kubelet_labels
from gpupools.common.taints import CLOUD_EFFECTS

EFFECTS = CLOUD_EFFECTS
_TABLE = Path(__file__).with_name("reserved.csv")

# EKS takes any label, and the kubelet then does not start:
# https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3346, https://github.com/eksctl-io/eksctl/pull/6947.
LABELS = (*key_rules(_TABLE, "label"), *kubelet_labels("the kubelet of an EKS node"), *OPERATOR_LABELS)

# Of kubernetes.io there is one report of what the API says; AWS's page on taints names no key (2026-11-22).
TAINTS = (*CONDITION_TAINTS, *key_rules(_TABLE, "taint"))
