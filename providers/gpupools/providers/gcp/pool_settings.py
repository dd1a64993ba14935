"""The settings of a pool that GKE supports, what each becomes, and the inputs that overrides may set. Pure."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.plan.cloud_tables import read_overridable, read_settings

_HERE = Path(__file__).parent
SETTINGS = read_settings(_HERE)

SHARING_STRATEGIES: Mapping[str, str] = MappingProxyType({"time-slicing": "TIME_SHARING", "mps": "MPS"})
"""GKE's name of each sharing mode.

https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/GPUSharingConfig
"""

NO_DEVICE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Node label, value `true`, that switches GKE's own device plugin off.

https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
"""

RESERVED_METADATA = (
    *("cluster-location", "cluster-name", "cluster-uid", "configure-sh", "containerd-configure-sh", "enable-os-login"),
    *("gci-ensure-gke-docker", "gci-metrics-enabled", "gci-update-strategy", "instance-template", "kube-env"),
    *("startup-script", "user-data", "disable-address-manager", "windows-startup-script-ps1", "common-psm1"),
    *("k8s-node-setup-psm1", "install-ssh-psm1", "user-profile-psm1"),
)
"""Keys of `metadata` that GKE refuses: https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""

OVERRIDABLE = read_overridable(
    _HERE,
    {"NodePool": ("nodeConfig", "labels")},
    {("nodeConfig", "metadata", key): "GKE reserves this key of the metadata" for key in RESERVED_METADATA},
)
"""The resource behind a pool. What decides which pods fit and land there stays with the pool's own keys."""


IMAGE_TYPES = {"cos": "COS_CONTAINERD", "ubuntu": "UBUNTU_CONTAINERD"}
"""GKE's Linux images by the portable name."""
