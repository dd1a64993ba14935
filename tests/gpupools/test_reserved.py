"""Keys of labels and taints that each cloud's own API or kubelet refuses, and those beside them that it takes."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.catalog.reserved_keys import first_rule
from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from tests.rows import each_row

CLOUDS = ("aws", "azure", "gcp")


def said(cloud: str, **keys: Any) -> list[str]:
    """Return what is wrong with a pool on a cloud."""
    cluster = {**clouds()[cloud].example_cluster, "kubeconfig": {"path": "~/.kube/config"}}
    pool: Mapping[str, Any] = {"clusters": ["here"], "gpu": "T4", "nodes": {"max": 2}, **keys}
    try:
        plan_config({"clusters": {"here": cluster}, "pools": {"p": pool}}, clouds())
    except Rejected as rejected:
        return [str(problem) for problem in rejected.problems]
    return []


KUBELET = "takes no label of kubernetes.io and k8s.io but node.kubernetes.io and kubelet.kubernetes.io"


@each_row(
    ("cloud", "key", "words"),
    [
        # AKS: https://github.com/Azure/AKS/issues/2866 quotes the API.
        ("azure", "node-restriction.kubernetes.io/mvis", f"is refused by AKS, which {KUBELET}"),
        ("azure", "x.k8s.io/y", "is refused by AKS"),
        ("azure", "kubernetes.io/role", "is refused by AKS"),
        ("azure", "kubernetes.azure.com/mode", "that AKS reserves"),
        # GKE: https://github.com/hashicorp/terraform-provider-google/issues/6003
        ("gcp", "node-role.kubernetes.io/gpu", "is rejected by GKE"),
        ("gcp", "node.kubernetes.io/team", "is rejected by GKE"),
        ("gcp", "x.k8s.io/y", "is rejected by GKE"),
        ("gcp", "cloud.google.com/gke-spot", "that GKE reserves"),
        ("gcp", "sandbox.gke.io/runtime", "that GKE reserves"),
        # EKS takes it, and the kubelet does not start: terraform-aws-modules/terraform-aws-eks issue 3346.
        ("aws", "node-role.kubernetes.io/worker", f"is refused by the kubelet of an EKS node, which {KUBELET}"),
        ("aws", "kubernetes.io/team", "is refused by the kubelet"),
        ("aws", "eks.amazonaws.com/nodegroup", "that EKS reserves"),
        ("aws", "k8s.amazonaws.com/accelerator", "makes Cluster Autoscaler wait"),
        *(
            (cloud, key, "enables or disables parts of the GPU Operator")
            for cloud in CLOUDS
            for key in (
                "nvidia.com/gpu.deploy.driver",
                "nvidia.com/gpu.deploy.device-plugin",
                "nvidia.com/gpu.workload.config",
            )
        ),
        *((cloud, "node.kubernetes.io/instance-type", "") for cloud in CLOUDS),
        *((cloud, "kubernetes.io/arch", "") for cloud in CLOUDS),
    ],
)
def test_a_label_that_the_cloud_or_its_kubelet_refuses_is_refused(cloud: str, key: str, words: str) -> None:
    (problem,) = said(cloud, labels={key: "x"})
    resource, path = {
        "aws": ("NodeGroup", ("labels",)),
        "azure": ("AgentPool", ("nodeLabels",)),
        "gcp": ("NodePool", ("nodeConfig", "labels")),
    }[cloud]
    by_hand: Any = {key: "x"}
    for part in reversed(path):
        by_hand = {part: by_hand}
    (again,) = said(cloud, overrides={cloud: {resource: by_hand}})

    assert problem.startswith(f"pools.p.labels.{key}: ")
    assert words in problem
    assert again == f"pools.p.overrides.{cloud}.{resource}.{'.'.join(path)}.{key}" + problem.removeprefix(
        f"pools.p.labels.{key}"
    )


@each_row(
    ("cloud", "key"),
    [
        *(
            (cloud, key)
            for cloud in ("aws", "azure")
            for key in (
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "gpu.node.kubernetes.io/rack",
                "kubelet.kubernetes.io/team",
                "x.kubelet.kubernetes.io/team",
            )
        ),
        *((cloud, key) for cloud in CLOUDS for key in ("example.com/team", "nvidia.com/vgpu.config", "ourk8s.io/x")),
        ("gcp", "cloud.google.com/compute-class"),
        ("gcp", "cloud.google.com/gke-nvidia-gpu-dra-driver"),
        ("azure", "node-role.kubernetes.io/gpu"),
        ("aws", "k8s.amazonaws.com/team"),
    ],
)
def test_a_label_that_the_cloud_and_its_kubelet_take_is_taken(cloud: str, key: str) -> None:
    assert said(cloud, labels={key: "x"}) == []


@pytest.mark.parametrize(
    ("cloud", "taint", "words"),
    [
        ("azure", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule", "use capacity: {mode: spot}"),
        ("azure", "kubernetes.azure.com/mode=gateway:NoSchedule", "whose taints AKS rejects"),
        ("gcp", "cloud.google.com/gke-queued=true:NoSchedule", "use capacity: {mode: queued"),
        ("gcp", "sandbox.gke.io/runtime=gvisor:NoSchedule", "GKE adds to nodes"),
        ("gcp", "kubernetes.io/arch=arm64:NoSchedule", "GKE adds to Arm nodes"),
        ("aws", "kubernetes.io/team=x:NoSchedule", "whose taints EKS rejects"),
        *(
            (cloud, f"{key}=true:NoSchedule", "Kubernetes adds and removes itself")
            for cloud in CLOUDS
            for key in ("node.kubernetes.io/unschedulable", "node.cloudprovider.kubernetes.io/uninitialized")
        ),
        *((cloud, "node.kubernetes.io/out-of-service=x:NoExecute", "deletes its pods") for cloud in CLOUDS),
    ],
)
def test_a_taint_that_the_cloud_or_kubernetes_puts_itself_is_refused(cloud: str, taint: str, words: str) -> None:
    (problem,) = said(cloud, taints=["team=vision:NoSchedule", taint])

    assert problem.startswith("pools.p.taints[1]: ")
    assert words in problem


@pytest.mark.parametrize(
    ("cloud", "taint", "keys"),
    [
        *((cloud, "node.cilium.io/agent-not-ready=true:NoExecute", {}) for cloud in CLOUDS),
        *((cloud, "example.com/team=vision:NoSchedule", {}) for cloud in CLOUDS),
        ("azure", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule", {"capacity": {"mode": "spot"}}),
        *((cloud, "node.kubernetes.io/team=vision:NoSchedule", {}) for cloud in CLOUDS),
        ("aws", "eks.amazonaws.com/team=vision:NoSchedule", {}),
        ("gcp", "kubernetes.io/team=vision:NoSchedule", {}),
        ("gcp", "cloud.google.com/gke-quick-remove=true:NoSchedule", {}),
        ("gcp", "cloud.google.com/gke-spot=true:NoSchedule", {"capacity": {"mode": "spot"}}),
        ("gcp", "cloud.google.com/compute-class=train:NoSchedule", {}),
    ],
)
def test_a_taint_of_ones_own_and_one_that_is_there_anyway_are_taken(
    cloud: str, taint: str, keys: Mapping[str, Any]
) -> None:
    assert said(cloud, taints=[taint], **keys) == []


@pytest.mark.parametrize(
    ("cloud", "key"),
    [
        ("aws", "eks.amazonaws.com/nodegroup"),
        ("aws", "k8s.amazonaws.com/accelerator"),
        ("azure", "kubernetes.azure.com/agentpool"),
        ("azure", "node-role.kubernetes.io/agent"),
        ("gcp", "cloud.google.com/gke-nodepool"),
        ("gcp", "cloud.google.com/gke-accelerator"),
        *((cloud, "kubernetes.io/arch") for cloud in ("aws", "azure", "gcp")),
    ],
)
def test_a_label_that_the_cloud_puts_on_nodes_is_known_to_be_there(cloud: str, key: str) -> None:
    rule = first_rule(key, clouds()[cloud].reserved_labels)

    assert rule is not None
    assert rule.on_nodes
