"""Reads Kubernetes objects whose specification is a cloud's own node pool: one table for all of their kind. Pure.

AWS Controllers for Kubernetes and Azure Service Operator take the API's own form below `spec`. Config Connector and
Crossplane take Terraform's: blocks in the singular (`taint`, `guestAccelerator`), in Crossplane below
`spec.forProvider`, where older versions wrap single blocks in lists. So a specification is read by the reader of the
cloud's own resource, and paths are told in the spelling of the object.

Sources, as repository and path: aws-controllers-k8s/eks-controller apis/v1alpha1/nodegroup.go;
Azure/azure-service-operator v2/api/containerservice; GoogleCloudPlatform/k8s-config-connector
crds/container_v1beta1_containernodepool.yaml and crds/container_v1beta1_containercluster.yaml;
crossplane-contrib/provider-upjet-aws examples/eks; crossplane-contrib/provider-upjet-azure apis/containerservice;
crossplane-contrib/provider-upjet-gcp apis/container; crossplane-contrib/provider-aws apis/eks/manualv1alpha1;
crossplane-contrib/provider-gcp apis/container/v1beta1.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpupools.planned.pool_facts import UNKNOWN, PoolFacts
from gpupools.read.inputs import at, flag, is_list, items, mapping, relocated, text

if TYPE_CHECKING:
    from gpupools.planned.cloud import Cloud

EKS = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AKS = "azure-native:containerservice:AgentPool"
AKS_CLUSTER = "azure-native:containerservice:ManagedCluster"
CLASSIC_AKS = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
CLASSIC_AKS_CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"
GKE = "gcp:container/nodePool:NodePool"
GKE_CLUSTER = "gcp:container/cluster:Cluster"
API_GKE = "google-native:container/v1:NodePool"

_TERRAFORM: Mapping[str, str] = {
    "taints": "taint",
    "guestAccelerators": "guestAccelerator",
    "nodePools": "nodePool",
}
"""Names of properties in Terraform's form, by the name that the cloud's reader looks for."""

# Blocks that are there once at most. A list of one counts as its item.
_SINGLE = frozenset(
    {
        "autoProvisioningDefaults",
        "autoscaling",
        "clusterAutoscaling",
        "gpuDriverInstallationConfig",
        "gpuSharingConfig",
        "iamInstanceProfile",
        "instanceRequirements",
        "kubeletConfig",
        "launchTemplate",
        "metadataOptions",
        "networkConfig",
        "nodeConfig",
        "remoteAccess",
        "scalingConfig",
        "shieldedInstanceConfig",
        "workloadMetadataConfig",
    }
)

# An account that another object stands for is one of the pool's own.
_REFERENCES = {"serviceAccount": ("serviceAccountRef", "serviceAccountSelector")}


@dataclass(frozen=True)
class _Kind:
    """What an object holds."""

    cloud: str
    token: str
    """Pulumi type of the cloud's resource of this form."""
    below: tuple[str, ...] = ("spec",)
    """Where; what an earlier place says wins."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The object's names for properties."""


_CROSSPLANE = ("spec.forProvider", "spec.initProvider")


def _upbound(cloud: str, group: str, kind: str, token: str) -> dict[tuple[str, str], _Kind]:
    """Make the entries of one of Upbound's providers: of the cluster, and since version 2 of a namespace."""
    service, _, rest = group.partition(f".{cloud}.")
    known = _Kind(cloud, token, _CROSSPLANE, _TERRAFORM)
    return {(f"{service}.{cloud}.{middle}{rest}", kind): known for middle in ("", "m.")}


KINDS: Mapping[tuple[str, str], _Kind] = MappingProxyType(
    {
        ("eks.services.k8s.aws", "Nodegroup"): _Kind("aws", EKS),
        ("containerservice.azure.com", "ManagedClustersAgentPool"): _Kind("azure", AKS),
        ("containerservice.azure.com", "ManagedCluster"): _Kind("azure", AKS_CLUSTER),
        ("container.cnrm.cloud.google.com", "ContainerNodePool"): _Kind("gcp", GKE, names=_TERRAFORM),
        ("container.cnrm.cloud.google.com", "ContainerCluster"): _Kind("gcp", GKE_CLUSTER, names=_TERRAFORM),
        **_upbound("aws", "eks.aws.upbound.io", "NodeGroup", EKS),
        **_upbound("aws", "ec2.aws.upbound.io", "LaunchTemplate", TEMPLATE),
        **_upbound("azure", "containerservice.azure.upbound.io", "KubernetesClusterNodePool", CLASSIC_AKS),
        **_upbound("azure", "containerservice.azure.upbound.io", "KubernetesCluster", CLASSIC_AKS_CLUSTER),
        **_upbound("gcp", "container.gcp.upbound.io", "NodePool", GKE),
        **_upbound("gcp", "container.gcp.upbound.io", "Cluster", GKE_CLUSTER),
        ("eks.aws.crossplane.io", "NodeGroup"): _Kind("aws", EKS, _CROSSPLANE, {"ec2SshKey": "ec2SSHKey"}),
        ("container.gcp.crossplane.io", "NodePool"): _Kind("gcp", API_GKE, _CROSSPLANE),
    }
)
"""By group and kind."""


def read_embedded(
    given: Mapping[str, Any], group: str, kind: str, clouds: Mapping[str, "Cloud"]
) -> Iterator[PoolFacts]:
    """Read the pools of an object that holds a cloud's own form.

    Args:
        given: The object.
        group: Of its API version.
        kind: With `group` a key of `KINDS`.
        clouds: Read their own forms.
    """
    known = KINDS[group, kind]
    if known.cloud not in clouds:
        return
    first = known.below[0]
    if at(given, first) is UNKNOWN:
        yield PoolFacts(known.cloud, (), None, (), unknown=(first,), where=first)
        return
    places: dict[str, str] = {}
    held: dict[str, Any] = {}
    for below in reversed(known.below):
        for key, value in mapping(at(given, below)).items():
            held[key] = value
            places[key] = below
    ours = {theirs: name for name, theirs in known.names.items()}
    wire = _as_resource(held, ours)
    if known.token == GKE_CLUSTER and _without_default_pool(given):
        wire = {**wire, "removeDefaultNodePool": True}
    late = tuple(below for below in known.below if at(given, below) is UNKNOWN)
    for pool in clouds[known.cloud].read_pools(known.token, wire):
        place = _Places(given, places, first, known.names)
        found = relocated(pool, place, place.said)
        late_gpus = None if late and not found.evidence else found.gpus_per_node
        # What is not known yet may hold the taints as well.
        unknown = (*found.unknown, *late, found.where) if late else found.unknown
        yield replace(found, unknown=unknown, gpus_per_node=late_gpus)


def _without_default_pool(given: Mapping[str, Any]) -> bool:
    """Read Config Connector's annotation: https://docs.cloud.google.com/config-connector/docs/how-to/."""
    noted = mapping(at(given, "metadata.annotations"))
    return flag(noted.get("cnrm.cloud.google.com/remove-default-node-pool")) is True


def _as_resource(value: Any, ours: Mapping[str, str]) -> Any:
    """Write a specification in the names and nesting of the cloud's resource."""
    if is_list(value):
        return [_as_resource(item, ours) for item in value]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key in ours.values():
            continue  # the name of another API, which this one does not know
        name = ours.get(key, key)
        single = name in _SINGLE and is_list(item) and len(item) == 1
        found[name] = _as_resource(item[0] if single else item, ours)
    for name, references in _REFERENCES.items():
        named = next((mapping(value[each]) for each in references if each in value), None)
        if named is not None and found.get(name) is None:
            found[name] = text(named.get("external")) or text(named.get("name")) or "chosen by its labels"
    return found


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
# The path that a sentence begins with; a key in brackets may hold anything but the closing one.
_PATH = re.compile(r"[A-Za-z][\w.]*(?:\[[^\]]*\][\w.]*)*")


@dataclass(frozen=True)
class _Places:
    """Turns the reader's paths into those of the object."""

    given: Mapping[str, Any]
    places: Mapping[str, str]
    """Where each property of the resource stands, by its name in the object."""
    first: str
    names: Mapping[str, str]

    def __call__(self, path: str) -> str:
        """Return the path in the object, as `gpupools.read.inputs.with_taint` takes it."""
        written = ""
        value: Any = None
        for match in _STEP.finditer(path):
            if match[2]:
                index = int(match[2])
                written += f"[{index}]"
                value = value[index] if is_list(value) and index < len(value) else None
                continue
            name = match[1]
            key = self.names.get(name, name)
            if not written:
                written = self.places.get(key, self.first)
                value = at(self.given, written)
            written += f".{key}"
            value = mapping(value).get(key)
            if name in _SINGLE and is_list(value) and len(value) == 1:
                written += "[0]"
                value = value[0]
        return written

    def said(self, sentence: str) -> str:
        """Return a sentence that begins with a path."""
        match = _PATH.match(sentence)
        return f"{self(match[0])}{sentence[match.end() :]}" if match else sentence


def read_aso_pools(given: Mapping[str, Any], path: str, clouds: Mapping[str, "Cloud"]) -> Iterator[PoolFacts]:
    """Read an AzureASOManagedMachinePool or its template, which holds Azure Service Operator's objects.

    kubernetes-sigs/cluster-api-provider-azure api/v1beta1/azureasomanagedmachinepool_types.go.

    Args:
        given: The object.
        path: Of the list of objects.
        clouds: Read their own forms.
    """
    late: list[str] = []
    for where, one in items(at(given, path), path, late):
        if at(one, "kind") == "ManagedClustersAgentPool" and "azure" in clouds:
            spec = mapping(at(one, "spec"))
            place = _Places(given, {}, f"{where}.spec", {})
            for found in clouds["azure"].read_pools(AKS, spec):
                yield replace(relocated(found, place, place.said), pool=text(at(one, "metadata.name")))
    for name in late:
        yield PoolFacts("azure", (), None, (), unknown=(name,), where=name)
