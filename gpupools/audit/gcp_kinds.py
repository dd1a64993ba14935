"""Kubernetes objects of other tools that create GKE nodes or virtual machines.

Sources, as repository and path: GoogleCloudPlatform/k8s-config-connector
crds/container_v1beta1_containernodepool.yaml and crds/container_v1beta1_containercluster.yaml;
crossplane-contrib/provider-upjet-gcp apis/container; crossplane-contrib/provider-gcp apis/container/v1beta1;
kubernetes-sigs/cluster-api-provider-gcp api/v1beta1 and exp/api/v1beta1.
"""

from dataclasses import replace
from types import MappingProxyType

from gpupools.audit.cloud_kinds import CloudKinds, EmbeddedKinds, EmbeddedPool, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE, TEMPLATE
from gpupools.audit.embedded_pools import CROSSPLANE, TERRAFORM, upbound
from gpupools.common.json_types import JsonObject
from gpupools.readback.inputs import at, flag, mapping

_NODE_POOL = "gcp:container/nodePool:NodePool"
_CLUSTER = "gcp:container/cluster:Cluster"
_API_POOL = "google-native:container/v1:NodePool"
_CONNECTOR = "container.cnrm.cloud.google.com"
_NAMES = {**TERRAFORM, "guestAccelerators": "guestAccelerator", "nodePools": "nodePool"}
_SINGLE = frozenset(
    {
        "autoProvisioningDefaults",
        "autoscaling",
        "clusterAutoscaling",
        "gpuDriverInstallationConfig",
        "gpuSharingConfig",
        "kubeletConfig",
        "networkConfig",
        "nodeConfig",
        "shieldedInstanceConfig",
        "workloadMetadataConfig",
    }
)
# A reference to an account object counts as the pool's own account.
_REFERENCES = {"serviceAccount": ("serviceAccountRef", "serviceAccountSelector")}


def _without_default_pool(given: JsonObject) -> JsonObject:
    """Read Config Connector's annotation: https://docs.cloud.google.com/config-connector/docs/how-to/."""
    noted = mapping(at(given, "metadata.annotations"))
    taken_away = flag(noted.get("cnrm.cloud.google.com/remove-default-node-pool")) is True
    return {"removeDefaultNodePool": True} if taken_away else {}


_POOL = EmbeddedPool(_NODE_POOL, names=_NAMES, single=_SINGLE, references=_REFERENCES)
_WHOLE = EmbeddedPool(_CLUSTER, names=_NAMES, single=_SINGLE, references=_REFERENCES, beside=_without_default_pool)

_EMBEDDED: EmbeddedKinds = MappingProxyType(
    {
        (_CONNECTOR, "ContainerNodePool"): _POOL,
        (_CONNECTOR, "ContainerCluster"): _WHOLE,
        **upbound("gcp", "container.gcp.upbound.io", "NodePool", _POOL),
        **upbound("gcp", "container.gcp.upbound.io", "Cluster", _WHOLE),
        ("container.gcp.crossplane.io", "NodePool"): EmbeddedPool(
            _API_POOL, CROSSPLANE, single=_SINGLE, references=_REFERENCES
        ),
    }
)

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
    embedded=_EMBEDDED,
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    node_labels={"cloud.google.com/gke-accelerator": "nvidia", "cloud.google.com/gke-tpu-accelerator": "other"},
)
