"""What a node group on EKS needs beyond the portable plan, and which pools it cannot be. Pure.

The node image follows from the software: `cloud-managed` takes Bottlerocket, the other two take Amazon Linux 2023.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpupools.cloud import Settings, Wish
from gpupools.errors import Problem
from gpupools.spec import Mig, Mps, TimeSlicing, WholeGpu
from gpupools.taints import GPU_TAINT

ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
"""Tells cluster-autoscaler that a node will have GPUs, so that it waits for them instead of adding more nodes.

https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md
"""

GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
"""Lets the device plugin chart onto the node where node-feature-discovery is not installed.

https://github.com/NVIDIA/k8s-device-plugin, deployments/helm/nvidia-device-plugin/values.yaml
"""


@dataclass(frozen=True)
class Volume:
    """An EBS volume of every node, encrypted and of type gp3."""

    device: str
    gib: int | None
    """None keeps the size of the image's own snapshot."""


@dataclass(frozen=True, kw_only=True)
class EksSettings(Settings):
    """The part of a plan that only EKS has."""

    ami_type: str
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"""
    volumes: tuple[Volume, ...]
    user_data: str
    """What the launch template adds to EKS's own user data, not yet base64; empty for nothing."""
    update_timeout_minutes: int
    """How long an update that replaces every node may take."""


@dataclass(frozen=True)
class Image:
    """An EKS-optimized accelerated image."""

    name: str
    ami_types: Mapping[str, str]
    """AMI type by CPU architecture."""
    families: Mapping[str, frozenset[str]]
    """Instance families whose GPUs the image drives, by CPU architecture."""


_IMAGES_PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_ULTRASERVER_PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html"
_MIG_MANAGER = "https://github.com/bottlerocket-os/bottlerocket-kernel-kit/tree/develop/sources/nvidia-migmanager"
_NODE_GROUP_API = "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html"
_TAINT_API = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html"
_AUTOSCALER_TAGS = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md"
_TAG_LIMITS = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html"

# Both images ship the 580 driver branch; g7 is in neither: https://github.com/awslabs/amazon-eks-ami,
# doc/usage/g7-ami.md. The families are the table of _IMAGES_PAGE.
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
)
IMAGES: Mapping[str, Image] = MappingProxyType(
    {"cloud-managed": BOTTLEROCKET, "device-plugin": AL2023, "gpu-operator": AL2023}
)
"""The node image by software."""

ULTRASERVER_FAMILIES = frozenset({"p6e-gb200", "p6e-gb300"})
"""Families that EC2 gives out only as UltraServers through Capacity Blocks, and whose GPUs the image keeps whole.

https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html. The image sets the driver to CDMM on
machines with coherent memory, which excludes MIG although the GPU can do it:
https://github.com/awslabs/amazon-eks-ami, templates/al2023/runtime/gpu/nvidia-kmod-load.sh
"""

BOTTLEROCKET_MIG: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "A100-40GB": ("a100.40gb", ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "7g.40gb")),
        "A100-80GB": ("a100.80gb", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb")),
        "H100-80GB": ("h100.80gb", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb")),
        "H200-141GB": ("h200.141gb", ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "7g.141gb")),
        "B200": ("b200.180gb", ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "7g.180gb")),
        "B300": ("b300.269gb", ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb")),
        "RTX-PRO-6000": ("rtxpro6000.96gb", ("1g.24gb", "2g.48gb", "4g.96gb")),
    }
)
"""How Bottlerocket's MIG manager calls a GPU model, and the profiles it cuts.

It takes any other profile of these models, such as 4g.20gb, without complaint and leaves the GPU in one piece.
https://github.com/bottlerocket-os/bottlerocket-kernel-kit, sources/nvidia-migmanager/src/mig_profile.rs; B200 came with
pull request 136, RTX PRO 6000 with 300 (kit 4.5.0), B300 with 323 (kit 4.6.0 of December 2025).
"""

KEY_LIMIT = 63
"""Most characters of a label's or taint's key in the EKS API (botocore, data/eks, shapes labelKey and taintKey)."""

TAG_LIMIT = 32
"""Labels and taints a pool may add: an Auto Scaling group holds 50 tags, of which EKS and this tool need the rest.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
"""


def family(instance_type: str) -> str:
    """Return the family of an instance type: `p6-b200` of `p6-b200.48xlarge`."""
    return instance_type.partition(".")[0]


def decide(wish: Wish) -> EksSettings:
    """Choose image, disks, node settings and labels for a pool that nothing refuses."""
    image = IMAGES[wish.software]
    disk = wish.spec.disk_gib
    labels = {ACCELERATOR_LABEL: accelerator_name(wish.instance.gpu_model)}
    if wish.software == "device-plugin":
        labels[GPU_PRESENT_LABEL] = "true"
    if image is BOTTLEROCKET:
        # The operating system is on xvda; images, logs and volumes of pods are on xvdb.
        # https://github.com/bottlerocket-os/bottlerocket#default-volumes, https://github.com/eksctl-io/eksctl/issues/4434
        volumes: tuple[Volume, ...] = (Volume("/dev/xvda", None), Volume("/dev/xvdb", disk))
        user_data = bottlerocket_user_data(wish.instance.gpu_model, wish.spec.sharing)
    else:
        volumes, user_data = (Volume("/dev/xvda", disk),), ""
    return EksSettings(
        ami_type=image.ami_types[wish.instance.architecture],
        volumes=volumes,
        user_data=user_data,
        # EKS gives the pods of each node 15 minutes to leave, then boots another one, one node after the other.
        # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
        update_timeout_minutes=min(60 + 30 * wish.spec.nodes.max, 24 * 60),
        labels=labels,
    )


def accelerator_name(gpu_model: str) -> str:
    """Name a GPU model as cluster-autoscaler's list of GPU types does: `nvidia-tesla-t4`, `nvidia-l40s`.

    The list is in https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go;
    models it does not have yet are named alike, which its GPU metrics then count as unknown.
    """
    bare = re.sub(r"-\d+GB$", "", gpu_model).lower()
    return f"nvidia-tesla-{bare}" if bare in ("a100", "k80", "p100", "t4", "v100") else f"nvidia-{bare}"


def bottlerocket_user_data(gpu_model: str, sharing: WholeGpu | TimeSlicing | Mps | Mig) -> str:
    """Write the settings of Bottlerocket's built-in device plugin as TOML; empty for whole GPUs.

    https://bottlerocket.dev/en/os/1.57.x/api/settings/kubelet-device-plugins/

    The resource keeps its name, against Bottlerocket's default, because pods ask for `nvidia.com/gpu`
    (https://github.com/bottlerocket-os/bottlerocket/issues/4250). Keys that need quotes stay below a bare table
    header: EKS's merge of user data rejects quoted keys inside a header
    (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    table = "settings.kubelet-device-plugins.nvidia"
    if isinstance(sharing, TimeSlicing):
        lines = [
            f"[{table}]",
            'device-sharing-strategy = "time-slicing"',
            "",
            f"[{table}.time-slicing]",
            f"replicas = {sharing.replicas}",
            "rename-by-default = false",
            # A second replica may be on the same GPU, so asking for two gains nothing.
            "fail-requests-greater-than-one = true",
        ]
    elif isinstance(sharing, Mps):
        lines = [
            f"[{table}]",
            'device-sharing-strategy = "mps"',
            "",
            f"[{table}.mps]",
            f"replicas = {sharing.replicas}",
            "rename-by-default = false",
        ]
    elif isinstance(sharing, Mig):
        lines = [
            f"[{table}]",
            'device-partitioning-strategy = "mig"',
            "",
            f"[{table}.mig.profile]",
            f'"{BOTTLEROCKET_MIG[gpu_model][0]}" = "{sharing.profile}"',
        ]
    else:
        return ""
    return "\n".join(lines) + "\n"


def refusals(wish: Wish) -> list[Problem]:
    """Refuse what EKS or the node image cannot carry out, beyond the capability matrix."""
    return [*_machine(wish), *_bottlerocket_mig(wish), *_names(wish)]


def _machine(wish: Wish) -> Iterator[Problem]:
    machine, kind, image = wish.instance, family(wish.instance.name), IMAGES[wish.software]
    path = ("pools", wish.name, "gpu" if wish.spec.instance_type is None else "instance_type")
    if kind in ULTRASERVER_FAMILIES:
        what = f"EC2 gives out {machine.name} only through Capacity Blocks, which a pool cannot name in this release"
        yield Problem(path, what, "choose a type that EC2 starts on demand", _ULTRASERVER_PAGE)
        if isinstance(wish.spec.sharing, Mig):
            what = f"EKS images run the {machine.gpu_model} of {machine.name} in CDMM mode, which excludes MIG"
            yield Problem(("pools", wish.name, "sharing", "mode"), what, "use whole GPUs", _ULTRASERVER_PAGE)
    if kind not in image.families[machine.architecture]:
        what = f"the EKS image {image.name} does not drive the {machine.gpu_model} of {machine.name}"
        ways = [name for name, other in IMAGES.items() if kind in other.families[machine.architecture]]
        if ways:
            yield Problem(path, what, f"use software: {' or '.join(ways)}", _IMAGES_PAGE)
        else:
            what = f"{what} ({machine.kubernetes.rstrip('.')})"
            yield Problem(path, what, "choose a type of another family", _IMAGES_PAGE)


def _bottlerocket_mig(wish: Wish) -> Iterator[Problem]:
    sharing, model = wish.spec.sharing, wish.instance.gpu_model
    if IMAGES[wish.software] is not BOTTLEROCKET or not isinstance(sharing, Mig):
        return
    if family(wish.instance.name) in ULTRASERVER_FAMILIES:
        return  # no image can cut these; `_machine` says so
    at = ("pools", wish.name, "sharing")
    if model not in BOTTLEROCKET_MIG:
        what = f"Bottlerocket's MIG manager does not know the {model} of {wish.instance.name}"
        yield Problem((*at, "mode"), what, "use software: gpu-operator", _MIG_MANAGER)
    elif sharing.profile is None:
        what = "Bottlerocket fills every GPU with slices of one profile and takes no layout"
        yield Problem((*at, "layout"), what, "give profile instead, or use software: gpu-operator", _MIG_MANAGER)
    elif sharing.profile not in BOTTLEROCKET_MIG[model][1]:
        what = f"Bottlerocket takes {sharing.profile} for an {model} but leaves the GPU in one piece"
        fix = f"use {', '.join(BOTTLEROCKET_MIG[model][1])}, or software: gpu-operator"
        yield Problem((*at, "profile"), what, fix, _MIG_MANAGER)


def _names(wish: Wish) -> Iterator[Problem]:
    spec, at = wish.spec, ("pools", wish.name)
    for key, value in spec.labels.items():
        if len(key) > KEY_LIMIT:
            what = f"is {len(key)} characters; EKS takes {KEY_LIMIT}"
            yield Problem((*at, "labels", key), what, "shorten the key", _NODE_GROUP_API)
        if not value:
            what = "is empty; EKS takes no label without a value"
            yield Problem((*at, "labels", key), what, "give it a value", _NODE_GROUP_API)
    for index, taint in enumerate(spec.taints):
        if len(taint.key) > KEY_LIMIT:
            what = f"the key has {len(taint.key)} characters; EKS takes {KEY_LIMIT}"
            yield Problem((*at, "taints", index), what, "shorten the key", _TAINT_API)
    yield from _one_effect_per_key(wish)
    wanted = len(spec.labels) + len(spec.taints)
    if wanted > TAG_LIMIT:
        what = f"{wanted} labels and taints; the Auto Scaling group has room for the tags of {TAG_LIMIT} more"
        fix = "use fewer: without the tags the pool does not scale from zero"
        yield Problem((*at, "labels"), what, fix, _TAG_LIMITS)


def _one_effect_per_key(wish: Wish) -> Iterable[Problem]:
    """Refuse a second taint of one key: the tag that tells cluster-autoscaler of it has the key as its name."""
    seen = {GPU_TAINT.key: GPU_TAINT}
    for index, taint in enumerate(wish.spec.taints):
        if seen.setdefault(taint.key, taint) != taint:
            what = f"{taint} is a second taint of the key {taint.key}; cluster-autoscaler's tags have room for one"
            yield Problem(("pools", wish.name, "taints", index), what, "use another key", _AUTOSCALER_TAGS)
