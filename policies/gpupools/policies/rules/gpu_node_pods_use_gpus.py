"""Pods on GPU nodes ask for a GPU, unless they belong to the node."""

from collections.abc import Iterator
from typing import Any

from gpupools.common.json_types import JsonObject
from gpupools.plan.node_resources import ACCELERATOR_RESOURCES, FRACTION_ANNOTATIONS, KAI_SCHEDULER
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described

_OF_NODES = frozenset({"DaemonSet", "Node"})
"""Owners whose pods belong to a node: https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/"""


NETWORK_DEVICE_CLASSES = ("mrdma.google.com", "netdev.google.com", "compute-domain-default-channel.nvidia.com")
"""DeviceClasses of network devices and of ComputeDomains, whose claims bring no GPU.

https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra and
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu tag v0.4.1, deployments/helm.
"""


def takes_no_gpu(pod: JsonObject) -> bool:
    """Return whether a pod asks for no accelerator, fraction of one or claim, and could run on another node.

    The variables `asks` and `of_node` of `audit/admission_policies.yaml` say the same at the cluster's door.
    """
    spec = pod.get("spec") or {}
    owners = {reference.get("kind") for reference in pod.get("metadata", {}).get("ownerReferences") or ()}
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    is_fractional = spec.get("schedulerName") == KAI_SCHEDULER and _annotations(pod) & {*FRACTION_ANNOTATIONS}
    asks = spec.get("resourceClaims") or is_fractional or any(_requests(container) for container in containers)
    return not (ended or owners & _OF_NODES or asks)


def _annotations(pod: JsonObject) -> set[str]:
    return {*(pod.get("metadata", {}).get("annotations") or ())}


def _requests(container: JsonObject) -> bool:
    resources: dict[str, Any] = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return any(name.startswith(ACCELERATOR_RESOURCES) and str(count) != "0" for name, count in amounts.items())


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    nodes = {
        resource.inputs.get("metadata", {}).get("name")
        for resource in stack.resources
        if resource.type == "kubernetes:v1:Node" and any(pool.has_gpus for pool in resource.pools)
    }
    for resource in stack.resources if nodes else ():
        node = resource.inputs.get("spec", {}).get("nodeName") if resource.type == "kubernetes:v1:Pod" else None
        if node in nodes and takes_no_gpu(resource.inputs):
            what = f"runs on GPU node {node} and asks for no GPU"
            yield resource.urn, Finding(what=what, fix="remove its toleration of the GPU taint, or taint the node")


RULE = Rule(
    **described(__name__),
    stack=_findings,
)
