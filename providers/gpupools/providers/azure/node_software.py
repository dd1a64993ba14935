"""GPU software that AKS nodes come with, by the GPU profile of the pool. Pure."""

from pathlib import Path

from gpupools.plan.node_software import NodeRuntime, read_runtimes
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers.azure.pool_plan import AksPoolPlan


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by the GPU profile of the pool."""
    runtimes = read_runtimes(Path(__file__).parent)
    if software == "cloud-managed":
        return runtimes["managed"]
    if not isinstance(settings, AksPoolPlan) or settings.gpu_driver == "Install":
        return runtimes["with-driver"]
    return runtimes["azure-linux" if settings.os_sku == "AzureLinux" else "without-driver"]
