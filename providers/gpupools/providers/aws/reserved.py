"""Keys of node labels and taints that EKS keeps for itself, or that keep its nodes from joining."""

from collections.abc import Mapping

from gpupools.base.taints import Effect
from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule, kubelet_labels

EFFECTS: Mapping[str, Effect] = {
    "NO_SCHEDULE": Effect.NO_SCHEDULE,
    "PREFER_NO_SCHEDULE": Effect.PREFER_NO_SCHEDULE,
    "NO_EXECUTE": Effect.NO_EXECUTE,
}
"""Kubernetes' effects by the spelling of the EKS API (https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html)."""

_GPU_LABEL = (
    "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go"
)

# EKS takes any label, and the kubelet then does not start:
# https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3346, https://github.com/eksctl-io/eksctl/pull/6947.
LABELS: tuple[KeyRule, ...] = (
    KeyRule(
        pattern="eks.amazonaws.com/*",
        why="is of a name space that EKS keeps for itself",
        source="https://github.com/kubernetes/cloud-provider-aws/issues/242",
        on_nodes=True,
    ),
    KeyRule(
        pattern="k8s.amazonaws.com/accelerator",
        why="makes cluster-autoscaler wait for nvidia.com/gpu on every node",
        fix="leave it out; it is there where the pool's software offers that",
        source=_GPU_LABEL,
        on_nodes=True,
    ),
    KeyRule(pattern="k8s.amazonaws.com/*", source=_GPU_LABEL, on_nodes=True),
    *kubelet_labels("the kubelet of an EKS node"),
    *OPERATOR_LABELS,
)

TAINTS: tuple[KeyRule, ...] = (
    *CONDITION_TAINTS,
    # One report of what the API says; AWS's page on taints names no key (2026-11-22).
    KeyRule(
        pattern="kubernetes.io/*",
        why="is of a name space that EKS takes no taints of",
        source="https://github.com/alphagov/govuk-infrastructure/pull/1264",
    ),
)
