"""The node images of EKS with NVIDIA's driver, and which one a pool gets. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gpupools.plan.provider_plan import PoolRequest


class EksImage(NamedTuple):
    """A node image."""

    name: str
    ami_types: Mapping[str, str]
    """AMI type by CPU architecture; empty for an image of one's own, which EKS has no type for.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html
    """
    families: Mapping[str, frozenset[str]]
    """Instance families whose GPUs the image drives, by CPU architecture; empty where the image is one's own."""
    fips_ami_types: Mapping[str, str] = MappingProxyType({})
    """AMI type of the FIPS 140 variant by CPU architecture."""

    def all_ami_types(self) -> frozenset[str]:
        """Return the AMI types of every architecture and variant."""
        return frozenset(self.ami_types.values()) | frozenset(self.fips_ami_types.values())


# The families are the table of https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html. Both images
# ship the 580 driver branch. g7 needs 595, which AL2023 has beside it since release v20260917 and chooses at the first
# boot (https://github.com/awslabs/amazon-eks-ami/issues/2768, 2026-09-21), and Bottlerocket has not
# (https://docs.aws.amazon.com/eks/latest/userguide/bottlerocket-custom-variant.html, 2026-11-22).
_AMD64_FAMILIES = frozenset(
    {"g4dn", "g5", "g6", "g6e", "g6f", "g7e", "gr6", "gr6f"}
    | {"p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300"}
)

AL2023 = EksImage(
    name="AL2023 NVIDIA",
    ami_types=MappingProxyType({"amd64": "AL2023_x86_64_NVIDIA", "arm64": "AL2023_ARM_64_NVIDIA"}),
    families=MappingProxyType(
        {"amd64": _AMD64_FAMILIES | {"g7"}, "arm64": frozenset({"g5g", "p6e-gb200", "p6e-gb300"})}
    ),
)
BOTTLEROCKET = EksImage(
    name="Bottlerocket NVIDIA",
    ami_types=MappingProxyType({"amd64": "BOTTLEROCKET_x86_64_NVIDIA", "arm64": "BOTTLEROCKET_ARM_64_NVIDIA"}),
    families=MappingProxyType({"amd64": _AMD64_FAMILIES, "arm64": frozenset({"g5g"})}),
    fips_ami_types=MappingProxyType(
        {"amd64": "BOTTLEROCKET_x86_64_NVIDIA_FIPS", "arm64": "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"}
    ),
)
CUSTOM = EksImage(name="of your own", ami_types=MappingProxyType({}), families=MappingProxyType({}))

IMAGES: Mapping[str, EksImage] = MappingProxyType(
    {
        "cloud-managed": BOTTLEROCKET,
        **dict.fromkeys(("device-plugin", "gpu-operator", "dra-driver", "hami"), AL2023),
    }
)
"""The node image by software."""

BY_FAMILY: Mapping[str, EksImage] = MappingProxyType({"al2023": AL2023, "bottlerocket": BOTTLEROCKET, "custom": CUSTOM})
"""The node image by `image.family`."""

ULTRASERVER_FAMILIES = frozenset({"p6e-gb200", "p6e-gb300"})
"""Families that EC2 gives out only as UltraServers through Capacity Blocks, and whose GPUs the image keeps whole.

https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html. The image sets the driver to CDMM on
machines with coherent memory, which excludes MIG although the GPU can do it:
https://github.com/awslabs/amazon-eks-ami, templates/al2023/runtime/gpu/nvidia-kmod-load.sh
"""


def instance_family(instance_type: str) -> str:
    """Return the family of an instance type: `p6-b200` of `p6-b200.48xlarge`."""
    return instance_type.partition(".")[0]


def node_image(request: PoolRequest) -> EksImage:
    """Return the image the pool names, else the one that fits its software."""
    named = request.spec.image.family
    return BY_FAMILY.get(named or "", IMAGES[request.software])


RELEASE_OF_FAMILY: Mapping[str, int] = MappingProxyType({"g7": 20260917})
"""The first AL2023 release, by its date, that drives a family (see `AL2023`); earlier than any pin for the others."""

BOTTLEROCKET_SINCE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"sharing.mode: time-slicing": (1, 25), "sharing.mode: mps": (1, 54), "sharing.mode: mig": (1, 34)}
    | {"disk.local_nvme: raid0": (1, 22)}
)
"""The first Bottlerocket with the settings that a pool's key becomes (checked 2026-11-22).

https://github.com/bottlerocket-os/bottlerocket, CHANGELOG.md: time-slicing (pull request 4230), bootstrap commands
(4131), MIG (4418); https://bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins/ for MPS.
"""
