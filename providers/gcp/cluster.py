"""The keys that a stack file gives for a GKE cluster."""

from typing import Literal

from gpupools.access import ReachableCluster
from gpupools.spec import Address


class GkeCluster(ReachableCluster):
    """An existing GKE Standard cluster."""

    cloud: Literal["gcp"]
    name: Address
    """Name of the cluster."""
    project: Address
    """Project that the cluster is in."""
    location: str
    """Where its control plane is: a region (`europe-west4`) or a zone (`europe-west4-a`)."""
    service_account: Address
    """E-mail address of the account the nodes run as: one of its own, with roles/container.defaultNodeServiceAccount.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/service-accounts
    """
    node_locations: list[str] | None = None
    """Zones of the nodes; name those that have the GPU. Left out: the cluster's own zones.

    https://docs.cloud.google.com/compute/docs/gpus/gpu-regions-zones
    """
