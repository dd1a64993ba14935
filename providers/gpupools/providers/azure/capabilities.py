"""The capability matrix of AKS: what each way of installing the GPU software does for each way of sharing."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.asked.spec import SHARING_KINDS
from gpupools.planned.cloud import Capability, Owners, SoftwareOption, Verdict
from gpupools.planned.dra import dra_capabilities

_AKS = "https://learn.microsoft.com/azure/aks/"
_GPU = f"{_AKS}use-nvidia-gpu"
_MIG = f"{_AKS}gpu-multi-instance"
_OPERATOR = f"{_AKS}nvidia-gpu-operator"
_PARTITIONING = f"{_AKS}concepts-gpu-partitioning"
_DRA = "https://blog.aks.azure.com/2026/03/06/dra-with-vGPUs-on-aks"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin"
_SHARING_DOC = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html"
_MIG_DOC = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html"

_NO_MPS_ON_MIG = Capability(
    verdict=Verdict.REFUSED,
    why="NVIDIA's device plugin does not run MPS on MIG slices, under the GPU Operator neither",
    source=_PLUGIN,
    instead="leave share out of mig, or use mode: mps on whole GPUs",
)


_MANAGED = f"{_AKS}aks-managed-gpu-nodes"
_UNSHARED = Capability(
    verdict=Verdict.REFUSED,
    why="AKS-managed GPU nodes run AKS's own device plugin as a host service, with a MIG strategy and no replicas",
    source=(
        "https://github.com/Azure/AgentBaker parts/linux/cloud-init/artifacts/cse_config.sh, "
        "startNvidiaManagedExpServices"
    ),
    instead="use software: device-plugin",
)


def _managed(what: str) -> Capability:
    return Capability(
        verdict=Verdict.NATIVE,
        why=(
            f"{what}; a preview (subscription feature ManagedGPUExperiencePreview) without cluster autoscaler, so only "
            "with nodes.fixed; not tried here, and AKS is reported to refuse the location that the provider adds to it "
            "(docs/reference/gpu-software.md)"
        ),
        source=_MANAGED,
    )


_CAPABILITIES: Mapping[tuple[str, str], Capability] = {
    ("cloud-managed", "none"): _managed(
        "by the pool's gpuProfile.nvidia.managementMode AKS installs and renews driver, device plugin and DCGM exporter"
    ),
    ("cloud-managed", "time-slicing"): _UNSHARED,
    ("cloud-managed", "mps"): _UNSHARED,
    ("cloud-managed", "mig-single"): _managed(
        "the pool's GPU instance profile cuts every GPU alike, and AKS's device plugin with migStrategy Single offers "
        "the slices as nvidia.com/gpu"
    ),
    ("cloud-managed", "mig-mixed"): _managed(
        "the pool's GPU instance profile cuts every GPU alike, and AKS's device plugin with migStrategy Mixed names "
        "the slices by profile"
    ),
    ("cloud-managed", "mig-single+time-slicing"): _UNSHARED,
    ("cloud-managed", "mig-mixed+time-slicing"): _UNSHARED,
    ("cloud-managed", "mig-single+mps"): _NO_MPS_ON_MIG,
    ("cloud-managed", "mig-mixed+mps"): _NO_MPS_ON_MIG,
    ("device-plugin", "none"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="AKS installs driver and container toolkit, the device plugin comes with its chart",
        source=_GPU,
    ),
    ("device-plugin", "time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="AKS has no pool field for it; the device plugin's configuration sets the replicas",
        source=_PLUGIN,
    ),
    ("device-plugin", "mps"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="AKS has no pool field for it; the device plugin starts an MPS control daemon on each node of the pool",
        source=_PLUGIN,
    ),
    ("device-plugin", "mig-single"): Capability(
        verdict=Verdict.NATIVE,
        why=(
            "the pool's GPU instance profile cuts every GPU alike, for good; "
            "the device plugin with migStrategy single offers the slices as nvidia.com/gpu"
        ),
        source=_MIG,
    ),
    ("device-plugin", "mig-mixed"): Capability(
        verdict=Verdict.NATIVE,
        why=(
            "the pool's GPU instance profile cuts every GPU alike, for good; the device plugin with migStrategy mixed "
            "names the slices by profile (slices of several sizes on a node need the GPU Operator)"
        ),
        source=_MIG,
    ),
    ("device-plugin", "mig-single+time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the pool's GPU instance profile cuts the GPUs, the device plugin's configuration sets the replicas",
        source=_SHARING_DOC,
    ),
    ("device-plugin", "mig-mixed+time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the pool's GPU instance profile cuts the GPUs, the device plugin's configuration sets the replicas",
        source=_SHARING_DOC,
    ),
    ("device-plugin", "mig-single+mps"): _NO_MPS_ON_MIG,
    ("device-plugin", "mig-mixed+mps"): _NO_MPS_ON_MIG,
    ("gpu-operator", "none"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the pool skips AKS's driver, and the GPU Operator brings driver, container toolkit and device plugin",
        source=_OPERATOR,
    ),
    ("gpu-operator", "time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="Microsoft allows it and leaves the GPU Operator and its configuration to the cluster's owner",
        source=_PARTITIONING,
    ),
    ("gpu-operator", "mps"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="Microsoft allows it and leaves the GPU Operator and its configuration to the cluster's owner",
        source=_PARTITIONING,
    ),
    ("gpu-operator", "mig-single"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="without AKS's driver the pool's GPU instance profile does nothing, so the MIG manager cuts the GPUs",
        source=_MIG_DOC,
    ),
    ("gpu-operator", "mig-mixed"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the MIG manager cuts the GPUs, into slices of several sizes too",
        source=_MIG_DOC,
    ),
    ("gpu-operator", "mig-single+time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the MIG manager cuts the GPUs, the device plugin's configuration sets the replicas",
        source=_SHARING_DOC,
    ),
    ("gpu-operator", "mig-mixed+time-slicing"): Capability(
        verdict=Verdict.IN_CLUSTER,
        why="the MIG manager cuts the GPUs, the device plugin's configuration sets the replicas",
        source=_SHARING_DOC,
    ),
    ("gpu-operator", "mig-single+mps"): _NO_MPS_ON_MIG,
    ("gpu-operator", "mig-mixed+mps"): _NO_MPS_ON_MIG,
}

CAPABILITIES: Mapping[tuple[str, str], Capability] = {
    **_CAPABILITIES,
    **dra_capabilities(
        Capability(
            verdict=Verdict.IN_CLUSTER,
            why="AKS installs driver and container toolkit, and NVIDIA's DRA driver serves claims (Kubernetes 1.34)",
            source=_DRA,
        ),
        _CAPABILITIES,
    ),
}
"""Verdict by (software, kind of sharing), without gaps."""

SOFTWARE: Mapping[str, SoftwareOption] = MappingProxyType(
    {
        "cloud-managed": SoftwareOption(
            owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="AKS"),
            why="AKS-managed GPU nodes bring driver, device plugin and DCGM exporter",
            source="https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes",
        ),
        "device-plugin": SoftwareOption(
            owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="NVIDIA device plugin"),
            why="AKS installs the driver by default and leaves the device plugin to the cluster's owner",
            source="https://learn.microsoft.com/azure/aks/use-nvidia-gpu",
        ),
        "gpu-operator": SoftwareOption(
            owners=Owners(driver="GPU Operator", container_toolkit="GPU Operator", device_plugin="GPU Operator"),
            why="Microsoft's way with the GPU Operator skips AKS's driver, so that the operator owns all of it",
            source="https://learn.microsoft.com/azure/aks/nvidia-gpu-operator",
        ),
        "dra-driver": SoftwareOption(
            owners=Owners(driver="AKS", container_toolkit="AKS", device_plugin="none (NVIDIA DRA driver)"),
            why="AKS installs the driver, and NVIDIA's DRA driver serves claims",
            source="https://blog.aks.azure.com/2026/03/06/dra-with-vGPUs-on-aks",
        ),
    }
)
"""Who brings what with each way of installing the GPU software."""

# AKS's driver is there unless it is switched off, and its MIG profiles work only with it.
DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(dict.fromkeys(SHARING_KINDS, "device-plugin"))
