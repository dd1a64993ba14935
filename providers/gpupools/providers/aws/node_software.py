"""GPU software that EKS nodes come with, by node image. Pure."""

from pathlib import Path

from gpupools.plan.node_software import NodeChart, NodeRuntime, read_runtimes
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers.aws.pool_plan import EksPoolPlan

_EFA = NodeChart(
    "aws-efa-k8s-device-plugin",
    lambda pools: {"supportedInstanceLabels.values": sorted({pool.instance.name for pool in pools})},
    ("the chart has no CRDs",),
    existing="rdma_plugin",
)
"""The plugin that offers EFA interfaces to pods: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html."""


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by their AMI type."""
    runtimes = read_runtimes(Path(__file__).parent)
    runtime = runtimes[{"gpu-operator": "bare", "cloud-managed": "own-with-all"}.get(software, "own-with-driver")]
    if not isinstance(settings, EksPoolPlan):
        return runtime
    if settings.ami_type.startswith("BOTTLEROCKET_"):
        runtime = runtimes["bottlerocket"]
    elif settings.ami_type.startswith("AL2023_"):
        runtime = runtimes["al2023"]
    efa = any(interface.type is not None for interface in settings.interfaces)
    return runtime._replace(charts=(_EFA,)) if efa else runtime
