"""Google's driver installer, as the Kubernetes object that runs it. Pure."""

from collections.abc import Sequence

from gpupools.plan.node_labels import SOFTWARE_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Installs, KubernetesObject, Piece
from gpupools.plan.tolerations import node_affinity, tolerations_for
from gpupools.providers.gcp.node_software import INSTALLER_OWNER
from gpupools.software.objects import MANAGED_BY, NOBODY, RESTRICTED, SECURITY_NOTE

_NAME = "gpupools-driver-installer"
_ACCELERATOR = "cloud.google.com/gke-accelerator"
"""A label that GKE itself sets on every node with a GPU."""

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
"""Does nothing, for a DaemonSet whose work is done by its init container."""

# Where the installer expects what of the host: https://github.com/GoogleCloudPlatform/container-engine-accelerators,
# nvidia-driver-installer/cos/daemonset-preloaded.yaml at commit f2cf4197a5c3f0f20133be15d5fad8b7453beed5.
_INSTALLER_MOUNTS = (
    ("nvidia-install-dir-host", "/home/kubernetes/bin/nvidia", "/usr/local/nvidia", "NVIDIA_INSTALL_DIR"),
    ("vulkan-icd-mount", "/home/kubernetes/bin/nvidia/vulkan/icd.d", "/etc/vulkan/icd.d", "VULKAN_ICD_DIR"),
    ("cos-tools", "/var/lib/cos-tools", "/build/cos-tools", "COS_TOOLS_DIR"),
    ("root-mount", "/", "/root", ""),
    ("dev", "/dev", "/dev", ""),
)


def cos_driver_installer(pools: Sequence[PoolPlan]) -> KubernetesObject:
    """Declare Google's driver installer for nodes with Container-Optimized OS on which GKE installs no driver.

    The installer's image is on every node (`cos-nvidia-installer:fixed`, never pulled) and fits the node's version.
    Google's own DaemonSet also cuts GPUs by GKE's partition size, which these pools do not have; that part is left
    out. It waits for GKE's accelerator label, so it never runs on a node without GPU.
    """
    environment = [
        {"name": f"{prefix}_{side}", "value": path}
        for _, host, inside, prefix in _INSTALLER_MOUNTS
        if prefix
        for side, path in (("HOST", host), ("CONTAINER", inside))
    ]
    labels = {"app.kubernetes.io/name": _NAME}
    affinity = node_affinity(
        {"key": _ACCELERATOR, "operator": "Exists"},
        {"key": "cloud.google.com/gke-gpu-driver-version", "operator": "DoesNotExist"},
        {"key": "cloud.google.com/gke-confidential-nodes-instance-type", "operator": "DoesNotExist"},
        {"key": SOFTWARE_LABEL, "operator": "In", "values": sorted({pool.software for pool in pools})},
    )
    installer = {
        "name": "install",
        "image": "cos-nvidia-installer:fixed",
        "imagePullPolicy": "Never",
        # A second installation into a running kernel fails; after a reboot the module is gone and this runs again.
        "command": ["/bin/bash", "-c", "test -e /proc/driver/nvidia/version || exec /cos-gpu-installer install"],
        "env": [*environment, {"name": "ROOT_MOUNT_DIR", "value": "/root"}],
        "resources": {"requests": {"cpu": "150m"}},
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": name, "mountPath": inside} for name, _, inside, _ in _INSTALLER_MOUNTS],
    }
    pause = {
        "name": "pause",
        "image": PAUSE_IMAGE,
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
        "securityContext": {**NOBODY, **RESTRICTED, "readOnlyRootFilesystem": True},
    }
    pod = {
        # It asks the API server for nothing.
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "hostNetwork": True,
        "hostPID": True,
        "affinity": affinity,
        "tolerations": tolerations_for(pools),
        "initContainers": [installer],
        "containers": [pause],
        "volumes": [{"name": name, "hostPath": {"path": host}} for name, host, _, _ in _INSTALLER_MOUNTS],
    }
    notes = {
        SECURITY_NOTE: "install is privileged, with the network and processes of the host: it loads the driver into "
        "the kernel, puts it into the host's files, and asks the machine's metadata server which image this is"
    }
    return KubernetesObject(
        name="driver-installer",
        manifest={
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            # kube-system admits system-critical pods on GKE without a quota.
            "metadata": {
                "name": _NAME,
                "namespace": "kube-system",
                "labels": {**MANAGED_BY, **labels},
                "annotations": notes,
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": pod},
            },
        },
        why="brings the driver that fits the node's version of Container-Optimized OS",
        await_ready=False,
        installs=Installs(Piece.DRIVER, INSTALLER_OWNER, {_ACCELERATOR: "present"}),
    )
