"""Kubernetes objects of other tools that create AKS nodes or virtual machines.

Sources, as repository and path: Azure/azure-service-operator v2/api/containerservice;
crossplane-contrib/provider-upjet-azure apis/containerservice; for lists of Azure Service Operator's objects
kubernetes-sigs/cluster-api-provider-azure api/v1beta1, azureasomanagedmachinepool_types.go and
azureasomanagedcontrolplane_types.go; for its machines api/v1beta1 and exp/api/v1beta1.
"""

from dataclasses import replace
from types import MappingProxyType

from gpupools.audit.cloud_kinds import CloudKinds, EmbeddedKinds, EmbeddedList, EmbeddedPool, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE, TEMPLATE
from gpupools.audit.embedded_pools import TERRAFORM, upbound

_AGENT_POOL = "azure-native:containerservice:AgentPool"
_CLUSTER = "azure-native:containerservice:ManagedCluster"
_CLASSIC_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
_CLASSIC_CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"
_ASO = "containerservice.azure.com"
_ASO_POOL, _ASO_CLUSTER = "ManagedClustersAgentPool", "ManagedCluster"
_UPBOUND = "containerservice.azure.upbound.io"
_SINGLE = frozenset({"kubeletConfig"})

_EMBEDDED: EmbeddedKinds = MappingProxyType(
    {
        (_ASO, _ASO_POOL): EmbeddedPool(_AGENT_POOL, single=_SINGLE),
        (_ASO, _ASO_CLUSTER): EmbeddedPool(_CLUSTER, single=_SINGLE),
        **upbound(
            *("azure", _UPBOUND, "KubernetesClusterNodePool"),
            EmbeddedPool(_CLASSIC_POOL, names=TERRAFORM, single=_SINGLE),
        ),
        **upbound(
            *("azure", _UPBOUND, "KubernetesCluster"),
            EmbeddedPool(_CLASSIC_CLUSTER, names=TERRAFORM, single=_SINGLE),
        ),
        (INFRASTRUCTURE, "AzureASOManagedControlPlane"): EmbeddedList("spec.resources", _ASO_CLUSTER, _CLUSTER),
        (INFRASTRUCTURE, "AzureASOManagedControlPlaneTemplate"): EmbeddedList(
            "spec.template.spec.resources", _ASO_CLUSTER, _CLUSTER
        ),
        (INFRASTRUCTURE, "AzureASOManagedMachinePool"): EmbeddedList("spec.resources", _ASO_POOL, _AGENT_POOL),
        (INFRASTRUCTURE, "AzureASOManagedMachinePoolTemplate"): EmbeddedList(
            "spec.template.spec.resources", _ASO_POOL, _AGENT_POOL
        ),
    }
)

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
    embedded=_EMBEDDED,
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    node_labels={"kubernetes.azure.com/accelerator": "nvidia"},
)
