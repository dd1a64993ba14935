"""What a GKE node pool can do for each way of installing the software and each way of sharing, with sources."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.planned.cloud import Capability, Owners, SoftwareOption, Verdict
from gpupools.planned.dra import dra_capabilities
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL

_DOCS = "https://docs.cloud.google.com/kubernetes-engine/docs"
_GPUS = f"{_DOCS}/how-to/gpus"
_CONCEPT = f"{_DOCS}/concepts/gpus"
_TIME_SHARING = f"{_DOCS}/how-to/timesharing-gpus"
_MPS = f"{_DOCS}/how-to/nvidia-mps-gpus"
_MIG = f"{_DOCS}/how-to/gpus-multi"
_GKE_PLUGIN = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/pkg/gpu/nvidia"
_PARTITIONER = "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/partition_gpu"
_OPERATOR = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest"
_PLUGIN = "https://github.com/NVIDIA/k8s-device-plugin"
_DRA = f"{_DOCS}/how-to/set-up-dra"
_MPS_DAEMON = f"{_PLUGIN} tag v0.20.0, templates/daemonset-mps-control-daemon.yml and cmd/mps-control-daemon"
_PLUGIN_ON_GKE = f"{_PLUGIN}/issues/741"

_ONE_POOL_EACH = "one pool per profile with sharing {mode: mig, profile: …} and software cloud-managed"
_MANAGED = "software cloud-managed does it in the node pool itself"

_ONE_SIZE = (
    "gpuPartitionSize cuts every GPU of the pool into slices of one size, and GKE's device plugin names all of them "
    "nvidia.com/gpu"
)
_NO_PARTITIONER = (
    "GKE cuts the slices together with its own device plugin, which is off here, and NVIDIA's device plugin cuts none"
)
_NO_MPS_DAEMON = (
    "the MPS daemon of the device plugin's chart gets the driver from a container toolkit, and Container-Optimized OS "
    "has none"
)
_NO_MPS_ON_SLICES = "NVIDIA's device plugin does not run MPS on MIG slices"
_NO_MPS_WITH_OPERATOR = "Google does not support MPS on nodes of the GPU Operator"


def _native(why: str, source: str) -> Capability:
    return Capability(Verdict.NATIVE, why, source)


def _in_cluster(why: str, source: str) -> Capability:
    return Capability(Verdict.IN_CLUSTER, why, source)


def _refused(why: str, source: str, instead: str) -> Capability:
    return Capability(Verdict.REFUSED, why, source, instead)


_WITH_OPERATOR_TIME_SLICING = "the GPU Operator's device plugin advertises every slice several times"

_CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        ("cloud-managed", "none"): _native("GKE brings driver, runtime and device plugin with the node pool", _GPUS),
        ("cloud-managed", "time-slicing"): _native(
            "gpuSharingConfig TIME_SHARING advertises each GPU 2 to 48 times (GKE 1.23.7-gke.1400 or later); "
            "a container may ask for one",
            _TIME_SHARING,
        ),
        ("cloud-managed", "mps"): _native(
            "gpuSharingConfig MPS advertises each GPU 2 to 48 times (GKE 1.27.7-gke.1088000 or later)", _MPS
        ),
        ("cloud-managed", "mig-single"): _native(
            "gpuPartitionSize cuts every GPU of the pool alike; a slice is one nvidia.com/gpu", _MIG
        ),
        ("cloud-managed", "mig-mixed"): _refused(_ONE_SIZE, _PARTITIONER, _ONE_POOL_EACH),
        ("cloud-managed", "mig-single+time-slicing"): _native(
            "gpuPartitionSize and gpuSharingConfig TIME_SHARING together share every slice", _TIME_SHARING
        ),
        ("cloud-managed", "mig-mixed+time-slicing"): _refused(_ONE_SIZE, _PARTITIONER, _ONE_POOL_EACH),
        ("cloud-managed", "mig-single+mps"): _native(
            "gpuPartitionSize and gpuSharingConfig MPS together share every slice", _GKE_PLUGIN
        ),
        ("cloud-managed", "mig-mixed+mps"): _refused(_ONE_SIZE, _PARTITIONER, _ONE_POOL_EACH),
        ("device-plugin", "none"): _in_cluster(
            "the NVIDIA device plugin chart serves the GPUs once Google's installer has put the driver there; "
            "the image has no container toolkit, so each pod mounts the driver itself",
            _PLUGIN_ON_GKE,
        ),
        ("device-plugin", "time-slicing"): _in_cluster(
            "the plugin's sharing.timeSlicing advertises each GPU several times", _PLUGIN
        ),
        ("device-plugin", "mps"): _refused(_NO_MPS_DAEMON, _MPS_DAEMON, _MANAGED),
        ("device-plugin", "mig-single"): _refused(_NO_PARTITIONER, _PARTITIONER, _MANAGED),
        ("device-plugin", "mig-mixed"): _refused(_NO_PARTITIONER, _PARTITIONER, _ONE_POOL_EACH),
        ("device-plugin", "mig-single+time-slicing"): _refused(_NO_PARTITIONER, _PARTITIONER, _MANAGED),
        ("device-plugin", "mig-mixed+time-slicing"): _refused(_NO_PARTITIONER, _PARTITIONER, _ONE_POOL_EACH),
        ("device-plugin", "mig-single+mps"): _refused(_NO_MPS_ON_SLICES, _PLUGIN, _MANAGED),
        ("device-plugin", "mig-mixed+mps"): _refused(_NO_MPS_ON_SLICES, _PLUGIN, _ONE_POOL_EACH),
        ("gpu-operator", "none"): _in_cluster(
            "the GPU Operator serves the GPUs once Google's installer has put the driver there",
            f"{_OPERATOR}/google-gke.html",
        ),
        ("gpu-operator", "time-slicing"): _in_cluster(
            "the GPU Operator's device plugin advertises each GPU several times", f"{_OPERATOR}/gpu-sharing.html"
        ),
        ("gpu-operator", "mps"): _refused(_NO_MPS_WITH_OPERATOR, _CONCEPT, _MANAGED),
        ("gpu-operator", "mig-single"): _in_cluster(
            "the GPU Operator's MIG manager cuts the GPUs; on GKE it reboots the node for that",
            f"{_OPERATOR}/google-gke.html",
        ),
        ("gpu-operator", "mig-mixed"): _in_cluster(
            "the GPU Operator's MIG manager cuts the GPUs; on GKE it reboots the node for that",
            f"{_OPERATOR}/google-gke.html",
        ),
        ("gpu-operator", "mig-single+time-slicing"): _in_cluster(
            _WITH_OPERATOR_TIME_SLICING, f"{_OPERATOR}/gpu-sharing.html"
        ),
        ("gpu-operator", "mig-mixed+time-slicing"): _in_cluster(
            _WITH_OPERATOR_TIME_SLICING, f"{_OPERATOR}/gpu-sharing.html"
        ),
        ("gpu-operator", "mig-single+mps"): _refused(_NO_MPS_WITH_OPERATOR, _CONCEPT, _MANAGED),
        ("gpu-operator", "mig-mixed+mps"): _refused(_NO_MPS_WITH_OPERATOR, _CONCEPT, _ONE_POOL_EACH),
    }
)

CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        **_CAPABILITIES,
        **dra_capabilities(
            _in_cluster("NVIDIA's DRA driver serves claims once Google's installer has put the driver there", _DRA),
            _CAPABILITIES,
        ),
    }
)
"""(software, kind of sharing) to what becomes of it."""

INSTALLER_OWNER = "Google's driver installer DaemonSet"

SOFTWARE: Mapping[str, SoftwareOption] = MappingProxyType(
    {
        "cloud-managed": SoftwareOption(
            owners=Owners(driver="GKE", container_toolkit="GKE", device_plugin="GKE"),
            why="GKE installs a driver that fits the node version, and its own device plugin",
            source=_GPUS,
        ),
        "device-plugin": SoftwareOption(
            owners=Owners(
                driver=INSTALLER_OWNER, container_toolkit="each pod's own mount", device_plugin="NVIDIA device plugin"
            ),
            why=f"GKE's driver installation and, by the label {NO_DEVICE_PLUGIN_LABEL}, its device plugin are off",
            source="https://github.com/NVIDIA/k8s-device-plugin/issues/741",
        ),
        "gpu-operator": SoftwareOption(
            owners=Owners(driver=INSTALLER_OWNER, container_toolkit="GPU Operator", device_plugin="GPU Operator"),
            why="on Container-Optimized OS NVIDIA documents the operator without its driver, beside Google's installer",
            source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html",
        ),
        "dra-driver": SoftwareOption(
            owners=Owners(
                driver=INSTALLER_OWNER,
                container_toolkit="GKE node image (CDI)",
                device_plugin="none (NVIDIA DRA driver)",
            ),
            why=f"GKE's driver installation and, by the label {NO_DEVICE_PLUGIN_LABEL}, its device plugin are off",
            source="https://docs.cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra",
        ),
    }
)
"""Who brings what with each way of installing the GPU software."""

DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(
    {
        "none": "cloud-managed",
        "time-slicing": "cloud-managed",
        "mps": "cloud-managed",
        "mig-single": "cloud-managed",
        "mig-mixed": "gpu-operator",
        "mig-single+time-slicing": "cloud-managed",
        "mig-mixed+time-slicing": "gpu-operator",
        "mig-single+mps": "cloud-managed",
        "mig-mixed+mps": "cloud-managed",
    }
)
"""The software for each kind of sharing when the pool names none: GKE's own wherever it can do it."""
