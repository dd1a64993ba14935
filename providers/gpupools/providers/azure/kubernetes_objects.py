"""Kubernetes objects whose specification is an AKS agent pool or cluster.

Sources, as repository and path: Azure/azure-service-operator v2/api/containerservice;
crossplane-contrib/provider-upjet-azure apis/containerservice; for lists of Azure Service Operator's objects
kubernetes-sigs/cluster-api-provider-azure api/v1beta1, azureasomanagedmachinepool_types.go and
azureasomanagedcontrolplane_types.go.
"""

from types import MappingProxyType

from gpupools.read.embedded_pools import TERRAFORM, HeldKinds, HeldList, HeldPool, upbound

_AGENT_POOL = "azure-native:containerservice:AgentPool"
_CLUSTER = "azure-native:containerservice:ManagedCluster"
_CLASSIC_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
_CLASSIC_CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"
_ASO = "containerservice.azure.com"
_ASO_POOL, _ASO_CLUSTER = "ManagedClustersAgentPool", "ManagedCluster"
_CLUSTER_API = "infrastructure.cluster.x-k8s.io"
_UPBOUND = "containerservice.azure.upbound.io"
_SINGLE = frozenset({"kubeletConfig"})

OBJECTS: HeldKinds = MappingProxyType(
    {
        (_ASO, _ASO_POOL): HeldPool(_AGENT_POOL, single=_SINGLE),
        (_ASO, _ASO_CLUSTER): HeldPool(_CLUSTER, single=_SINGLE),
        **upbound(
            *("azure", _UPBOUND, "KubernetesClusterNodePool"),
            HeldPool(_CLASSIC_POOL, names=TERRAFORM, single=_SINGLE),
        ),
        **upbound(
            *("azure", _UPBOUND, "KubernetesCluster"),
            HeldPool(_CLASSIC_CLUSTER, names=TERRAFORM, single=_SINGLE),
        ),
        (_CLUSTER_API, "AzureASOManagedControlPlane"): HeldList("spec.resources", _ASO_CLUSTER, _CLUSTER),
        (_CLUSTER_API, "AzureASOManagedControlPlaneTemplate"): HeldList(
            "spec.template.spec.resources", _ASO_CLUSTER, _CLUSTER
        ),
        (_CLUSTER_API, "AzureASOManagedMachinePool"): HeldList("spec.resources", _ASO_POOL, _AGENT_POOL),
        (_CLUSTER_API, "AzureASOManagedMachinePoolTemplate"): HeldList(
            "spec.template.spec.resources", _ASO_POOL, _AGENT_POOL
        ),
    }
)
