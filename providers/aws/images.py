"""The node images of EKS with NVIDIA's driver, and which one a pool gets. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpupools.cloud import Wish


@dataclass(frozen=True)
class Image:
    """A node image."""

    name: str
    ami_types: Mapping[str, str]
    """AMI type by CPU architecture; empty for an image of one's own, which EKS has no type for.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html
    """
    families: Mapping[str, frozenset[str]]
    """Instance families whose GPUs the image drives, by CPU architecture; empty where the image is one's own."""
    fips_ami_types: Mapping[str, str] = field(default_factory=dict)
    """AMI type of the FIPS 140 variant by CPU architecture."""


# Both images ship the 580 driver branch; g7 is in neither: https://github.com/awslabs/amazon-eks-ami,
# doc/usage/g7-ami.md. The families are the table of
# https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html.
_AMD64_FAMILIES = frozenset(
    {"g4dn", "g5", "g6", "g6e", "g6f", "g7e", "gr6", "gr6f"}
    | {"p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300"}
)

AL2023 = Image(
    name="AL2023 NVIDIA",
    ami_types=MappingProxyType({"amd64": "AL2023_x86_64_NVIDIA", "arm64": "AL2023_ARM_64_NVIDIA"}),
    families=MappingProxyType({"amd64": _AMD64_FAMILIES, "arm64": frozenset({"g5g", "p6e-gb200", "p6e-gb300"})}),
)
BOTTLEROCKET = Image(
    name="Bottlerocket NVIDIA",
    ami_types=MappingProxyType({"amd64": "BOTTLEROCKET_x86_64_NVIDIA", "arm64": "BOTTLEROCKET_ARM_64_NVIDIA"}),
    families=MappingProxyType({"amd64": _AMD64_FAMILIES, "arm64": frozenset({"g5g"})}),
    fips_ami_types=MappingProxyType(
        {"amd64": "BOTTLEROCKET_x86_64_NVIDIA_FIPS", "arm64": "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"}
    ),
)
OWN = Image(name="of your own", ami_types=MappingProxyType({}), families=MappingProxyType({}))

IMAGES: Mapping[str, Image] = MappingProxyType(
    {"cloud-managed": BOTTLEROCKET, "device-plugin": AL2023, "gpu-operator": AL2023, "dra-driver": AL2023}
)
"""The node image by software."""

_BY_FAMILY: Mapping[str, Image] = MappingProxyType({"al2023": AL2023, "bottlerocket": BOTTLEROCKET, "custom": OWN})

ULTRASERVER_FAMILIES = frozenset({"p6e-gb200", "p6e-gb300"})
"""Families that EC2 gives out only as UltraServers through Capacity Blocks, and whose GPUs the image keeps whole.

https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html. The image sets the driver to CDMM on
machines with coherent memory, which excludes MIG although the GPU can do it:
https://github.com/awslabs/amazon-eks-ami, templates/al2023/runtime/gpu/nvidia-kmod-load.sh
"""


def family(instance_type: str) -> str:
    """Return the family of an instance type: `p6-b200` of `p6-b200.48xlarge`."""
    return instance_type.partition(".")[0]


def image_of(wish: Wish) -> Image:
    """Return the image the pool names, else the one that fits its software."""
    named = wish.spec.image.family
    return _BY_FAMILY.get(named or "", IMAGES[wish.software])
