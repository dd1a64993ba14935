"""GPU software that AKS nodes come with, by the GPU profile of the pool. Pure."""

from gpupools.plan.node_software import OPERATORS_DRIVER, NodeRuntime
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.plan.software_plan import Piece
from gpupools.providers.azure.pool_plan import AksPoolPlan

_GPU = "https://learn.microsoft.com/azure/aks/use-nvidia-gpu"

MANAGED = NodeRuntime(
    brings={
        Piece.DRIVER: "AKS",
        Piece.CONTAINER_TOOLKIT: "AKS",
        Piece.DEVICE_PLUGIN: "AKS",
        Piece.DCGM_EXPORTER: "AKS",
        Piece.MIG_MANAGER: "AKS",
    },
    why="AKS-managed GPU nodes run the device plugin and the DCGM exporter (port 19400) as services of the host",
    source="https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes",
)
WITH_DRIVER = NodeRuntime(
    brings={Piece.DRIVER: "AKS", Piece.CONTAINER_TOOLKIT: "AKS", Piece.MIG_MANAGER: "AKS"},
    why="AKS installs driver and container toolkit and makes the slices of the pool's GPU instance profile",
    source=_GPU,
    # The class is there already, and the operator's own `nvidia` has no handler on these nodes:
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/microsoft-aks.html.
    operator_values={"operator.runtimeClass": "nvidia-container-runtime"},
    # NVIDIA's runtime is the default one, and there is no class `nvidia`:
    # https://github.com/Azure/AgentBaker, pkg/agent/baker.go, containerdV2ConfigTemplate.
    kai_values={"admission.gpuFractionRuntimeClassName": ""},
)
WITHOUT_DRIVER = NodeRuntime(
    brings={},
    why="the pool skips AKS's driver, and the GPU Operator brings everything",
    source="https://learn.microsoft.com/azure/aks/nvidia-gpu-operator",
    # Azure hands GPUs to machines in passthrough, where Ampere takes a MIG layout only after a reboot:
    # https://github.com/NVIDIA/gpu-operator/issues/1606.
    mig_needs_reboot=True,
    dra_values=OPERATORS_DRIVER,
)
AZURE_LINUX = NodeRuntime(
    brings={},
    why="the pool skips AKS's driver, and the GPU Operator builds none on Azure Linux",
    source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html",
    refused="the GPU Operator builds no driver on Azure Linux; use the image ubuntu, or software: device-plugin",
)


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by the GPU profile of the pool."""
    if software == "cloud-managed":
        return MANAGED
    if not isinstance(settings, AksPoolPlan) or settings.gpu_driver == "Install":
        return WITH_DRIVER
    return AZURE_LINUX if settings.os_sku == "AzureLinux" else WITHOUT_DRIVER
