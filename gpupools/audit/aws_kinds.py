"""Kubernetes objects of other tools that create EKS nodes or EC2 machines.

Source, as repository and path: kubernetes-sigs/cluster-api-provider-aws api/v1beta2, exp/api/v1beta2 and
bootstrap/eks/api.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupools.audit.cloud_kinds import CloudKinds, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE, TEMPLATE, kubelet_argument, kubelet_taints, taint_facts
from gpupools.audit.eksctl import read_cluster_config
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT, KUBERNETES_EFFECTS, Effect
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback import kubelet
from gpupools.readback.inputs import TaintsRead, as_object, at, is_list

# The provider spells effects differently: exp/api/v1beta2/types.go, `TaintEffect`.
_EFFECTS: Mapping[str, Effect] = {
    "no-schedule": Effect.NO_SCHEDULE,
    "no-execute": Effect.NO_EXECUTE,
    "prefer-no-schedule": Effect.PREFER_NO_SCHEDULE,
}
_IMAGE = ("amiType", r"AL2_x86_64_GPU|\w+_NVIDIA(?:_FIPS)?")
_OVERRIDES = ("mixedInstancesPolicy.overrides", "instanceType")
_SSH = "https://docs.aws.amazon.com/eks/latest/APIReference/API_RemoteAccessConfig.html"
_MACHINE = MachineKind("aws", ("instanceType",))

_MACHINES = {
    "AWSManagedMachinePool": MachineKind(
        "aws",
        ("instanceType", "awsLaunchTemplate.instanceType"),
        taints="taints",
        effects=_EFFECTS,
        labels="labels",
        bounds=("scaling.minSize", "scaling.maxSize"),
        image=_IMAGE,
        open={"remoteAccess.sshKeyName": ("remote-access", _SSH)},
    ),
    "AWSMachinePool": MachineKind(
        "aws", ("awsLaunchTemplate.instanceType",), bounds=("minSize", "maxSize"), several=_OVERRIDES
    ),
    "AWSMachineTemplate": replace(_MACHINE, below=TEMPLATE),
    "AWSMachine": _MACHINE,
    "ROSAMachinePool": MachineKind(
        "aws",
        ("instanceType",),
        taints="taints",
        labels="labels",
        bounds=("autoscaling.minReplicas", "autoscaling.maxReplicas"),
    ),
}


def _eks(spec: JsonObject, path: str) -> PoolFacts:
    return kubelet_taints(kubelet_argument(spec.get("kubeletExtraArgs")), f"{path}.kubeletExtraArgs")


def _nodeadm(spec: JsonObject, path: str) -> PoolFacts:
    """Read a NodeadmConfig; the kubelet's flags override its configuration."""
    flags = at(spec, "kubelet.flags")
    listed = flags if is_list(flags) else []
    where = f"{path}.kubelet.config.registerWithTaints"
    read = TaintsRead()
    argument: Any = kubelet.last(kubelet.FLAG, kubelet.words(one for one in listed if isinstance(one, str)))
    if argument is None:
        kubelet.configured(at(spec, "kubelet.config.registerWithTaints"), where, read)
    if flags is UNKNOWN or UNKNOWN in listed:
        argument = UNKNOWN
    if argument is None:
        return taint_facts(read, where, as_object(GPU_TAINT, KUBERNETES_EFFECTS))
    return kubelet_taints(argument, f"{path}.kubelet.flags", read)


KINDS = CloudKinds(
    cloud="aws",
    pools={("eksctl.io", "ClusterConfig"): read_cluster_config},
    machines={(INFRASTRUCTURE, kind): known for kind, known in _MACHINES.items()},
    bootstraps={"EKSConfig": _eks, "NodeadmConfig": _nodeadm},
    node_labels={"k8s.amazonaws.com/accelerator": "nvidia"},
)
