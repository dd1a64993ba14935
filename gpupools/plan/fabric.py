"""What pods of a pool ask for beside GPUs: its RDMA interfaces and, over the nodes of a rack, its NVLink domain.

A pod that asks for neither falls back to TCP without a word. RDMA interfaces are a resource of a device plugin in the
cluster (EFA, InfiniBand) or devices that the cloud's own network driver lets pods claim (GKE).
"""

from typing import NamedTuple

from gpupools.common.json_types import JsonDict

COMPUTE_DOMAINS_LABEL = "gpupools/compute-domains"
"""Node label, at `true`, of a pool with `network.compute_domains`: what the DRA driver for compute domains selects."""

RDMA_CLAIM = "rdma"
CHANNEL_CLAIM = "compute-domain"
"""How a pod calls its claims."""

CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
"""DeviceClass of the template that the controller of a ComputeDomain makes.

https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu tag v0.4.1, templates/compute-domain-workload-claim-template.
"""

_DOMAIN_API = "resource.nvidia.com/v1beta1"
# https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu tag v0.4.1, crds/resource.nvidia.com_computedomains.yaml

_MIB_PER_PAGE = 2


class Fabric(NamedTuple):
    """The RDMA interfaces of each node, and how pods get them."""

    devices: int
    """Interfaces of a node; with `is_shared` the pods that may use all of them at a time."""
    resource: str = ""
    """Resource of a device plugin in the cluster; empty where pods claim them."""
    device_class: str = ""
    """DeviceClass of the cloud's network driver."""
    is_shared: bool = False
    """Whether one unit of the resource is all interfaces, which pods share."""
    huge_pages_mib: int = 0
    """Huge pages of 2 MiB that the pods of a node ask for together."""
    locks_memory: bool = False
    """Whether a container needs the capability IPC_LOCK to register memory."""
    owner: str = ""
    """Who brings them with the nodes; empty where software in the cluster does."""
    whole_nodes: bool = False
    """Whether pods of a node cannot share them out."""
    beside: str = ""
    """What they need that no plan brings, and what happens without it, in words for people; empty for nothing."""

    def share(self, pods: int) -> int:
        """Return how many interfaces each of so many pods of a node asks for.

        None where a node has fewer of them: if each asked for one, the GPUs of the others would stay idle.
        """
        if self.whole_nodes and pods > 1:
            return 0
        return 1 if self.is_shared else self.devices // pods

    def limits(self, pods: int) -> JsonDict:
        """Return what each of so many pods of a node asks for; nothing where they claim devices."""
        if not self.resource or not self.share(pods):
            return {}
        pages = self.huge_pages_mib // pods // _MIB_PER_PAGE * _MIB_PER_PAGE
        return {self.resource: self.share(pods), **({"hugepages-2Mi": f"{pages}Mi"} if pages else {})}

    def claimed(self, pods: int) -> int:
        """Return how many devices each of so many pods of a node claims; 0 where pods ask for a resource."""
        return self.share(pods) if self.device_class else 0


def compute_domain(pool: str) -> JsonDict:
    """Return the ComputeDomain of one workload; its controller makes the template that `channel_name` names.

    Without a number of nodes, as its description recommends: a pod starts with its own node's daemon.
    """
    return {
        "apiVersion": _DOMAIN_API,
        "kind": "ComputeDomain",
        "metadata": {"name": f"gpupools-{pool}"},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": channel_name(pool)}}},
    }


def channel_name(pool: str) -> str:
    """Name the ResourceClaimTemplate of a ComputeDomain's channel."""
    return f"gpupools-{pool}-channel"


def rdma_name(pool: str, *, whole_node: bool) -> str:
    """Name the ResourceClaimTemplate of RDMA interfaces: one GPU's share, or a whole node's."""
    return f"gpupools-{pool}-node-rdma" if whole_node else f"gpupools-{pool}-rdma"


def template(name: str, request: str, device_class: str, count: int = 0, *, namespace: str = "") -> JsonDict:
    """Return a ResourceClaimTemplate for so many devices of a class; without a number, for one."""
    number = {"allocationMode": "ExactCount", "count": count} if count else {}
    exactly = {"deviceClassName": device_class, **number}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}}},
    }
