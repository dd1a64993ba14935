"""GPU software that GKE nodes come with, by image and by the software of the pool. Pure."""

from collections.abc import Sequence

from gpupools.plan.node_software import OPERATORS_DRIVER, DriverInstaller, NodeRuntime
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.plan.software_plan import DriverMount, KubernetesObject, Piece
from gpupools.providers.gcp.capabilities import INSTALLER_OWNER
from gpupools.providers.gcp.pool_plan import GkePoolPlan

_GPUS = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus"
_DCGM = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dcgm-metrics"
_OPERATOR = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html"
_CONTAINERD = "GKE node image (CDI)"
_POD = "each pod's own mount"

_NO_DRIVER = "INSTALLATION_DISABLED"
"""https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/GPUDriverInstallationConfig"""

_DRIVER_ROOT = "/home/kubernetes/bin/nvidia"
"""Where Google's installers put the driver: the only writable place of the image from which programs may run."""

_DRIVER_MOUNT = "/usr/local/nvidia"
"""Where GKE's own device plugin mounts the driver (https://github.com/GoogleCloudPlatform/container-engine-accelerators,
cmd/nvidia_gpu/nvidia_gpu.go); CUDA images before 12.8.1 look for libraries there unasked."""

_QUOTA = "GKE admits pods of the system-critical priority classes only where a quota names them"
"""Outside kube-system: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html."""


def _installer(pools: Sequence[PoolPlan]) -> KubernetesObject:
    # A command that installs nothing needs none of it.
    from gpupools.providers.gcp.driver_installer import cos_driver_installer

    return cos_driver_installer(pools)


_INSTALLER = DriverInstaller(INSTALLER_OWNER, _installer)

_NO_DCGM = (
    "the chart has no way to find a driver below /home/kubernetes/bin/nvidia; "
    "switch GKE's own DCGM metrics on (monitoring component DCGM), or use software: gpu-operator"
)

MANAGED = NodeRuntime(
    brings={
        Piece.DRIVER: "GKE",
        # Its device plugin mounts the driver into pods, which is a toolkit's work; the image has none.
        Piece.CONTAINER_TOOLKIT: "GKE",
        Piece.DEVICE_PLUGIN: "GKE",
        Piece.MIG_MANAGER: "GKE",
    },
    why="GKE installs a driver that fits the node version, its own device plugin, and cuts the GPUs",
    source=_GPUS,
    dra_values={"nvidiaDriverRoot": _DRIVER_ROOT},
    critical_pods_quota=_QUOTA,
    no_dcgm_chart=_NO_DCGM,
    no_dcgm_source=_DCGM,
)
COS_WITH_PLUGIN = NodeRuntime(
    brings={Piece.CONTAINER_TOOLKIT: _POD},
    why="GKE's driver installation and device plugin are off; Google's installer brings the driver",
    source="https://github.com/NVIDIA/k8s-device-plugin/issues/741",
    # No container toolkit is on the image, so nothing acts on the plugin's NVIDIA_VISIBLE_DEVICES: privileged, the
    # plugin sees the devices and hands their nodes to the pod (PASS_DEVICE_SPECS), and the pod mounts the libraries
    # as Google's own plugin would (https://github.com/GoogleCloudPlatform/container-engine-accelerators,
    # cmd/nvidia_gpu). Without nvidiaDevRoot it would look for the nodes below the driver's directory
    # (https://github.com/NVIDIA/k8s-device-plugin tag v0.20.0, api/config/v1/config.go).
    plugin_values={"nvidiaDriverRoot": _DRIVER_ROOT, "nvidiaDevRoot": "/", "compatWithCPUManager": True},
    dra_values={"nvidiaDriverRoot": _DRIVER_ROOT},
    pod_driver_mount=DriverMount(_DRIVER_ROOT, _DRIVER_MOUNT),
    driver_installer=_INSTALLER,
    critical_pods_quota=_QUOTA,
    no_dcgm_chart=_NO_DCGM,
    no_dcgm_source=_DCGM,
)
COS_WITH_DRA = NodeRuntime(
    brings={Piece.CONTAINER_TOOLKIT: _CONTAINERD},
    why="GKE's driver installation and device plugin are off; Google's installer brings the driver",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu (demo/clusters/gke)",
    dra_values={"nvidiaDriverRoot": _DRIVER_ROOT},
    driver_installer=_INSTALLER,
    critical_pods_quota=_QUOTA,
    no_dcgm_chart=_NO_DCGM,
    no_dcgm_source=_DCGM,
)
COS_WITH_OPERATOR = NodeRuntime(
    brings={},
    why="GKE's driver installation and device plugin are off; Google's installer brings the driver",
    source=_OPERATOR,
    operator_values={
        "hostPaths.driverInstallDir": _DRIVER_ROOT,
        "toolkit.installDir": _DRIVER_ROOT,
        # From GKE 1.33 on the toolkit otherwise reads the configuration from a command and writes one that containerd
        # does not take: https://github.com/NVIDIA/gpu-operator/issues/1679.
        "toolkit.env": [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}],
    },
    dra_values={"nvidiaDriverRoot": _DRIVER_ROOT},
    driver_installer=_INSTALLER,
    critical_pods_quota=_QUOTA,
    mig_needs_reboot=True,
)
UBUNTU_WITH_OPERATOR = NodeRuntime(
    brings={},
    why="GKE's driver installation and device plugin are off; on Ubuntu the GPU Operator builds the driver",
    source=_OPERATOR,
    operator_values={"toolkit.env": [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]},
    dra_values=OPERATORS_DRIVER,
    critical_pods_quota=_QUOTA,
    mig_needs_reboot=True,
)
UBUNTU_WITHOUT_DRIVER = NodeRuntime(
    brings={},
    why="GKE's driver installation is off, and Google's installer for Container-Optimized OS does not run on Ubuntu",
    source=_GPUS,
    critical_pods_quota=_QUOTA,
    refused="nothing brings a driver to Ubuntu nodes; use software: gpu-operator or cloud-managed, or the image cos",
)


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by image and software."""
    if software == "cloud-managed":
        return MANAGED
    own = settings if isinstance(settings, GkePoolPlan) else None
    ubuntu = own is not None and own.image_type.startswith("UBUNTU")
    if software == "gpu-operator":
        found = UBUNTU_WITH_OPERATOR if ubuntu else COS_WITH_OPERATOR
    elif ubuntu:
        found = UBUNTU_WITHOUT_DRIVER
    else:
        found = COS_WITH_DRA if software == "dra-driver" else COS_WITH_PLUGIN
    if own is not None and own.gpu_driver_version != _NO_DRIVER:
        what = f"GKE's default driver and software {software}, which needs it off, would both own the driver"
        return found._replace(refused=f"{what}; use software: cloud-managed, or gpuDriverVersion {_NO_DRIVER}")
    return found
