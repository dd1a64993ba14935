"""The capability matrix of EKS as data: who installs the GPU software, and what each way of sharing gets from it.

EKS itself has no field for sharing. What decides is the node image: Bottlerocket carries the device plugin and a MIG
manager as host services that read their settings from the launch template's user data; Amazon Linux 2023 carries
driver and container toolkit only.
"""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.planned.cloud import Capability, Owners, SoftwareOption, Verdict
from gpupools.planned.dra import dra_capabilities

_IMAGES = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_MIG = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html"
_TIME_SLICING = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-time-slicing.html"
_BOTTLEROCKET = "https://bottlerocket.dev/en/os/1.57.x/api/settings/kubelet-device-plugins/"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus"
_DRA = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html"
_OPERATOR_SHARING = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html"

_BOTTLEROCKET_OWNER = "node image (Bottlerocket NVIDIA)"
_AL2023_OWNER = "node image (AL2023 NVIDIA)"

SOFTWARE: Mapping[str, SoftwareOption] = MappingProxyType(
    {
        "cloud-managed": SoftwareOption(
            owners=Owners(_BOTTLEROCKET_OWNER, _BOTTLEROCKET_OWNER, _BOTTLEROCKET_OWNER),
            why="the Bottlerocket image brings driver, container toolkit and the device plugin, a service of the host",
            source=_IMAGES,
        ),
        "device-plugin": SoftwareOption(
            owners=Owners(_AL2023_OWNER, _AL2023_OWNER, "NVIDIA device plugin"),
            why="the AL2023 image brings driver and container toolkit and leaves the device plugin to the cluster",
            source="https://github.com/awslabs/amazon-eks-ami/issues/2342",
        ),
        "gpu-operator": SoftwareOption(
            owners=Owners(_AL2023_OWNER, _AL2023_OWNER, "GPU Operator"),
            why="the AL2023 image brings driver and container toolkit, which the operator must not install again",
            source=_IMAGES,
        ),
        "dra-driver": SoftwareOption(
            owners=Owners(_AL2023_OWNER, _AL2023_OWNER, "none (NVIDIA DRA driver)"),
            why="the AL2023 image brings driver and container toolkit, and NVIDIA's DRA driver serves claims",
            source=_DRA,
        ),
    }
)

DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(
    {
        "none": "cloud-managed",
        "time-slicing": "cloud-managed",
        "mps": "cloud-managed",
        "mig-single": "cloud-managed",
        "mig-mixed": "gpu-operator",
        "mig-single+time-slicing": "gpu-operator",
        "mig-mixed+time-slicing": "gpu-operator",
        "mig-single+mps": "gpu-operator",
        "mig-mixed+mps": "gpu-operator",
    }
)
"""The way that needs nothing in the cluster where there is one, else the one that can do it at all.

Time-sliced MIG stays with the GPU Operator, for which NVIDIA documents it; of Bottlerocket its makers and AWS's page
say different things (`CAPABILITIES`).
"""


def _native(why: str, source: str) -> Capability:
    return Capability(Verdict.NATIVE, why, source)


def _in_cluster(why: str, source: str) -> Capability:
    return Capability(Verdict.IN_CLUSTER, why, source)


def _refused(why: str, source: str, instead: str) -> Capability:
    return Capability(Verdict.REFUSED, why, source, instead)


_MPS_ON_MIG = _refused(
    "the NVIDIA device plugin rejects MPS on MIG devices under both naming strategies",
    "https://github.com/NVIDIA/k8s-device-plugin#with-cuda-mps",
    "use mode mps on whole GPUs, or mode mig alone with software: cloud-managed",
)
_NO_MIG_MANAGER = _refused(
    "nothing cuts the GPUs: the AL2023 image has no MIG manager and the device plugin only finds slices made before",
    _MIG,
    "use software: cloud-managed for slices of one profile, or gpu-operator, which brings the MIG manager",
)
_ONE_SIZE = _refused(
    "Bottlerocket's device plugin knows the single strategy only, so every slice of the node has one profile",
    "https://github.com/bottlerocket-os/bottlerocket/issues/4483",
    "give sharing.profile with strategy single, or use software: gpu-operator",
)

_CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        ("cloud-managed", "none"): _native(
            "driver, toolkit and device plugin come with the Bottlerocket image", _IMAGES
        ),
        ("cloud-managed", "time-slicing"): _native(
            "Bottlerocket's device plugin takes replicas from the launch template's user data (since 1.25)",
            _TIME_SLICING,
        ),
        ("cloud-managed", "mps"): _native(
            "Bottlerocket's device plugin takes 2 to 48 MPS replicas from the launch template's user data (since 1.54)",
            _BOTTLEROCKET,
        ),
        ("cloud-managed", "mig-single"): _native(
            "Bottlerocket cuts every GPU at boot by the one profile in the launch template's user data (since 1.34)",
            _MIG,
        ),
        ("cloud-managed", "mig-mixed"): _ONE_SIZE,
        ("cloud-managed", "mig-single+time-slicing"): _native(
            "Bottlerocket's device plugin offers each slice several times (since 1.34), as its pull request 4418 shows "
            f"on a node; AWS's page ({_MIG}) says that time-slicing has no effect on MIG, so this is no default",
            "https://github.com/bottlerocket-os/bottlerocket/pull/4418",
        ),
        ("cloud-managed", "mig-mixed+time-slicing"): _ONE_SIZE,
        ("cloud-managed", "mig-single+mps"): _refused(
            "with MIG and MPS both set Bottlerocket's device plugin does not start and the node offers no GPU",
            _BOTTLEROCKET,
            "use mode mig without share, or mode mps on whole GPUs",
        ),
        ("cloud-managed", "mig-mixed+mps"): _MPS_ON_MIG,
        ("device-plugin", "none"): _in_cluster(
            "the device plugin chart must run on the pool before its nodes offer GPUs", _DRA
        ),
        ("device-plugin", "time-slicing"): _in_cluster(
            "the device plugin chart reads the number of replicas from its ConfigMap", _TIME_SLICING
        ),
        ("device-plugin", "mps"): _in_cluster(
            "the device plugin chart runs the MPS daemon and reads the number of replicas from its ConfigMap", _PLUGIN
        ),
        ("device-plugin", "mig-single"): _NO_MIG_MANAGER,
        ("device-plugin", "mig-mixed"): _NO_MIG_MANAGER,
        ("device-plugin", "mig-single+time-slicing"): _NO_MIG_MANAGER,
        ("device-plugin", "mig-mixed+time-slicing"): _NO_MIG_MANAGER,
        ("device-plugin", "mig-single+mps"): _MPS_ON_MIG,
        ("device-plugin", "mig-mixed+mps"): _MPS_ON_MIG,
        ("gpu-operator", "none"): _in_cluster(
            "the GPU Operator, with its driver and toolkit switched off, must run on the pool before nodes offer GPUs",
            _IMAGES,
        ),
        ("gpu-operator", "time-slicing"): _in_cluster(
            "the operator's device plugin reads the number of replicas from a ConfigMap", _OPERATOR_SHARING
        ),
        ("gpu-operator", "mps"): _in_cluster(
            "the operator's device plugin runs the MPS daemon and reads the number of replicas from a ConfigMap",
            _OPERATOR_SHARING,
        ),
        ("gpu-operator", "mig-single"): _in_cluster(
            "the operator's MIG manager cuts the GPUs of a labelled node", _MIG
        ),
        ("gpu-operator", "mig-mixed"): _in_cluster("the operator's MIG manager cuts the GPUs of a labelled node", _MIG),
        ("gpu-operator", "mig-single+time-slicing"): _in_cluster(
            "the MIG manager cuts the GPUs and the device plugin offers each slice several times", _OPERATOR_SHARING
        ),
        ("gpu-operator", "mig-mixed+time-slicing"): _in_cluster(
            "the MIG manager cuts the GPUs and the device plugin offers each slice several times", _OPERATOR_SHARING
        ),
        ("gpu-operator", "mig-single+mps"): _MPS_ON_MIG,
        ("gpu-operator", "mig-mixed+mps"): _MPS_ON_MIG,
    }
)

CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        **_CAPABILITIES,
        **dra_capabilities(_in_cluster("pods claim GPUs, AWS's advice from Kubernetes 1.34 on", _DRA), _CAPABILITIES),
    }
)
