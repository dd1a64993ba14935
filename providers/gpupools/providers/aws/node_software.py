"""GPU software that EKS nodes come with, by node image. Pure."""

from collections.abc import Sequence

from gpupools.common.json_types import JsonDict
from gpupools.plan.node_software import OPERATORS_DRIVER, NodeChart, NodeRuntime
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.plan.software_plan import Piece
from gpupools.providers.aws.pool_plan import EksPoolPlan

_IMAGES = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_BOTTLEROCKET = "https://bottlerocket.dev/en/os/1.57.x/api/settings/kubelet-device-plugins/"

_BOTTLEROCKET_OWNER = "node image (Bottlerocket NVIDIA)"
_AL2023_OWNER = "node image (AL2023 NVIDIA)"
_OWN_OWNER = "node image (your own)"

BOTTLEROCKET = NodeRuntime(
    brings={
        Piece.DRIVER: _BOTTLEROCKET_OWNER,
        Piece.CONTAINER_TOOLKIT: _BOTTLEROCKET_OWNER,
        # The RuntimeClasses nvidia-cdi and nvidia-legacy are the image's business; pods need to name neither.
        Piece.RUNTIME_CLASS: _BOTTLEROCKET_OWNER,
        Piece.DEVICE_PLUGIN: _BOTTLEROCKET_OWNER,
        Piece.MIG_MANAGER: _BOTTLEROCKET_OWNER,
    },
    why="driver, toolkit, device plugin and MIG manager are services of the host, set through user data",
    source=_BOTTLEROCKET,
)
AL2023 = NodeRuntime(
    brings={Piece.DRIVER: _AL2023_OWNER, Piece.CONTAINER_TOOLKIT: _AL2023_OWNER},
    why="the image brings driver and container toolkit and makes NVIDIA's runtime the default one of containerd",
    source=_IMAGES,
    # nodeadm registers the handler: https://github.com/awslabs/amazon-eks-ami, nodeadm/internal/containerd.
    runtime_class_handler="nvidia",
)
BARE = NodeRuntime(
    brings={},
    why="an image without NVIDIA software, on which the GPU Operator builds the driver",
    source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/amazon-eks.html",
    dra_values=OPERATORS_DRIVER,
)
OWN_WITH_DRIVER = NodeRuntime(
    brings={Piece.DRIVER: _OWN_OWNER, Piece.CONTAINER_TOOLKIT: _OWN_OWNER},
    why="an image of your own for the device plugin has driver and container toolkit, since the plugin brings neither",
    source="https://github.com/NVIDIA/k8s-device-plugin#prerequisites",
    runtime_class_handler="nvidia",
)
OWN_WITH_ALL = NodeRuntime(
    brings=dict.fromkeys((*OWN_WITH_DRIVER.brings, Piece.DEVICE_PLUGIN, Piece.MIG_MANAGER), _OWN_OWNER),
    why="an image of your own that is said to bring everything",
    source=_IMAGES,
)
_OWN = {
    "gpu-operator": BARE,
    "device-plugin": OWN_WITH_DRIVER,
    "cloud-managed": OWN_WITH_ALL,
    "dra-driver": OWN_WITH_DRIVER,
    "hami": OWN_WITH_DRIVER,
}


def _efa_values(pools: Sequence[PoolPlan]) -> JsonDict:
    return {"supportedInstanceLabels.values": sorted({pool.instance.name for pool in pools})}


_EFA = NodeChart("aws-efa-k8s-device-plugin", _efa_values, ("the chart has no CRDs",), existing="rdma_plugin")
"""The plugin that offers EFA interfaces to pods: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html."""


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by their AMI type."""
    found = _OWN[software]
    if not isinstance(settings, EksPoolPlan):
        return found
    if settings.ami_type.startswith("BOTTLEROCKET_"):
        found = BOTTLEROCKET
    elif settings.ami_type.startswith("AL2023_"):
        found = AL2023
    efa = any(interface.type is not None for interface in settings.interfaces)
    return found._replace(charts=(_EFA,)) if efa else found
