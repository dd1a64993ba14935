"""Kubernetes objects of other tools that create GKE nodes or virtual machines.

Source, as repository and path: kubernetes-sigs/cluster-api-provider-gcp api/v1beta1 and exp/api/v1beta1.
"""

from dataclasses import replace

from gpupools.audit.cloud_kinds import CloudKinds, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE, TEMPLATE

_MANAGED = MachineKind(
    "gcp",
    ("machineType", "instanceType"),
    taints="kubernetesTaints",
    labels="kubernetesLabels",
    bounds=("scaling.minCount", "scaling.maxCount"),
)
_MACHINE = MachineKind("gcp", ("instanceType",), accelerators="guestAccelerators")

_MACHINES = {
    "GCPManagedMachinePool": _MANAGED,
    "GCPManagedMachinePoolTemplate": replace(_MANAGED, below=TEMPLATE),
    "GCPMachinePool": _MACHINE,
    "GCPMachineTemplate": replace(_MACHINE, below=TEMPLATE),
    "GCPMachine": _MACHINE,
}

KINDS = CloudKinds(
    cloud="gcp",
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    node_labels={"cloud.google.com/gke-accelerator": "nvidia", "cloud.google.com/gke-tpu-accelerator": "other"},
)
