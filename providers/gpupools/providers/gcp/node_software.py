"""GPU software that GKE nodes come with, by image and by the software of the pool. Pure."""

from pathlib import Path

from gpupools.plan.cloud import call_later
from gpupools.plan.node_software import DriverInstaller, NodeRuntime, read_runtimes
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers.gcp.pool_plan import GkePoolPlan

_NO_DRIVER = "INSTALLATION_DISABLED"
"""https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/GPUDriverInstallationConfig"""

_QUOTA = "GKE admits pods of the system-critical priority classes only where a quota names them"
"""Outside kube-system: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html."""

INSTALLER_OWNER = "Google's driver installer DaemonSet"

_INSTALLER = DriverInstaller(INSTALLER_OWNER, call_later(f"{__package__}.driver_installer", "cos_driver_installer"))


def node_runtime(software: str, settings: ProviderPlan) -> NodeRuntime:
    """Return the GPU software of the nodes, by image and software."""
    runtimes = read_runtimes(Path(__file__).parent)
    if software == "cloud-managed":
        return runtimes["managed"]._replace(critical_pods_quota=_QUOTA)
    own = settings if isinstance(settings, GkePoolPlan) else None
    if own is not None and own.image_type.startswith("UBUNTU"):
        found = runtimes["ubuntu-with-operator" if software == "gpu-operator" else "ubuntu-without-driver"]
    else:
        row = {"gpu-operator": "cos-with-operator", "dra-driver": "cos-with-dra"}.get(software, "cos-with-plugin")
        found = runtimes[row]._replace(driver_installer=_INSTALLER)
    if own is not None and own.gpu_driver_version != _NO_DRIVER:
        what = f"GKE's default driver and software {software}, which needs it off, would both own the driver"
        found = found._replace(refused=f"{what}; use software: cloud-managed, or gpuDriverVersion {_NO_DRIVER}")
    return found._replace(critical_pods_quota=_QUOTA)
