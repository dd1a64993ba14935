"""Kubernetes objects of other tools that create AKS nodes or virtual machines.

Source, as repository and path: kubernetes-sigs/cluster-api-provider-azure api/v1beta1 and exp/api/v1beta1.
"""

from dataclasses import replace

from gpupools.audit.cloud_kinds import CloudKinds, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE, TEMPLATE

_PUBLIC = "https://learn.microsoft.com/azure/aks/use-node-public-ips"
_MANAGED = MachineKind(
    "azure",
    ("sku",),
    taints="taints",
    labels="nodeLabels",
    bounds=("scaling.minSize", "scaling.maxSize"),
    open={"enableNodePublicIP": ("public-address", _PUBLIC)},
)
_MACHINE = MachineKind("azure", ("vmSize",))

_MACHINES = {
    "AzureManagedMachinePool": _MANAGED,
    "AzureManagedMachinePoolTemplate": replace(_MANAGED, below=TEMPLATE),
    "AzureMachinePool": MachineKind("azure", ("template.vmSize",)),
    "AzureMachineTemplate": replace(_MACHINE, below=TEMPLATE),
    "AzureMachine": _MACHINE,
}

KINDS = CloudKinds(
    cloud="azure",
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    node_labels={"kubernetes.azure.com/accelerator": "nvidia"},
)
