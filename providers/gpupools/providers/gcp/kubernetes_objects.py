"""Kubernetes objects that bring GKE nodes or virtual machines into a cluster.

Sources, as repository and path: GoogleCloudPlatform/k8s-config-connector
crds/container_v1beta1_containernodepool.yaml and crds/container_v1beta1_containercluster.yaml;
crossplane-contrib/provider-upjet-gcp apis/container; crossplane-contrib/provider-gcp apis/container/v1beta1;
kubernetes-sigs/cluster-api-provider-gcp api/v1beta1 and exp/api/v1beta1.
"""

import re
from dataclasses import replace
from types import MappingProxyType

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import KubernetesObjects
from gpupools.plan.kubernetes_kinds import HeldPool, MachineKind, NestedKinds
from gpupools.providers.gcp.compute_class import read_compute_class
from gpupools.providers.gcp.karpenter import KARPENTER
from gpupools.readback.cluster_api import INFRASTRUCTURE, TEMPLATE
from gpupools.readback.embedded_pools import CROSSPLANE, TERRAFORM, upbound
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
# An account that another object stands for is one of the pool's own.
_REFERENCES = {"serviceAccount": ("serviceAccountRef", "serviceAccountSelector")}


def _without_default_pool(given: JsonObject) -> JsonObject:
    """Read Config Connector's annotation: https://docs.cloud.google.com/config-connector/docs/how-to/."""
    noted = mapping(at(given, "metadata.annotations"))
    taken_away = flag(noted.get("cnrm.cloud.google.com/remove-default-node-pool")) is True
    return {"removeDefaultNodePool": True} if taken_away else {}


_POOL = HeldPool(_NODE_POOL, names=_NAMES, single=_SINGLE, references=_REFERENCES)
_WHOLE = HeldPool(_CLUSTER, names=_NAMES, single=_SINGLE, references=_REFERENCES, beside=_without_default_pool)

_HELD: NestedKinds = MappingProxyType(
    {
        (_CONNECTOR, "ContainerNodePool"): _POOL,
        (_CONNECTOR, "ContainerCluster"): _WHOLE,
        **upbound("gcp", "container.gcp.upbound.io", "NodePool", _POOL),
        **upbound("gcp", "container.gcp.upbound.io", "Cluster", _WHOLE),
        ("container.gcp.crossplane.io", "NodePool"): HeldPool(
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

OBJECTS = KubernetesObjects(
    held=_HELD,
    pools={("cloud.google.com", "ComputeClass"): read_compute_class},
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    karpenter=KARPENTER,
    node_labels={"cloud.google.com/gke-accelerator": "nvidia", "cloud.google.com/gke-tpu-accelerator": "other"},
    machine_names=re.compile(r"(?:[a-z]\d{1,2}[a-z]{0,2}|custom|ct\w{2,4}|tpu\w+)(?:-[a-z0-9.]+)+(?:\+\S+)?"),
)
