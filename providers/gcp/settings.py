"""What a GKE node pool needs beyond the portable plan, and what GKE refuses beyond the matrix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpupools.catalogue import InstanceType
from gpupools.cloud import Settings, Verdict, Wish
from gpupools.errors import Path, Problem
from gpupools.spec import Mig, Mps, TimeSlicing
from providers.gcp.cluster import GkeCluster
from providers.gcp.machines import n1_most_vcpus

NO_DEVICE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Node label, value `true`, that keeps GKE's own device plugin off.

https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
"""

MOST_SHARED_CLIENTS = 48
"""Most containers per GPU under time-sharing or MPS; 2 is the least.

The bound is in the schema of GKE's ComputeClass; the node-pool reference names none.
"""
_CLIENTS_SOURCE = "https://github.com/kcl-lang/modules/pull/358"

MIG_PARTITIONS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "A100-40GB": {"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1},
        "A100-80GB": {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
        "H100-80GB": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
        "H200-141GB": {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1},
        "B200": {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1},
        "RTX-PRO-6000": {
            "1g.24gb": 4,
            "1g.24gb+me": 1,
            "1g.24gb+gfx": 4,
            "1g.24gb+me.all": 1,
            "1g.24gb-me": 4,
            "2g.48gb": 2,
            "2g.48gb+gfx": 2,
            "2g.48gb+me.all": 1,
            "2g.48gb-me": 2,
            "4g.96gb": 1,
            "4g.96gb+gfx": 1,
        },
    }
)
"""Slices per GPU for each `gpuPartitionSize` by GPU model: GKE always cuts as many as fit.

The file that says so has sizes for GB200 too; they are left out here for the reason in `COHERENT_MEMORY`.
"""
_PARTITIONS_SOURCE = (
    "https://github.com/GoogleCloudPlatform/container-engine-accelerators/blob/master/pkg/gpu/nvidia/mig/mig.go"
)

COHERENT_MEMORY = frozenset({"GB200", "GB300"})
"""GPUs whose driver on GKE manages memory coherently (CDMM), which rules MIG out."""
_COHERENT_SOURCE = "https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute"

_HYPERDISK_ONLY = ("a3-ultragpu-", "a4-", "a4x-", "g4-")
# The series that boot from Hyperdisk Balanced alone; every other GPU series takes Persistent Disk. Go module
# k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/machinetypes, and for A3 Ultra
# https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute.

_ZONES_OF_A_REGION = 3
# A regional cluster puts nodes into three zones unless told otherwise,
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters.


@dataclass(frozen=True, kw_only=True)
class GkeSettings(Settings):
    """GKE's own part of a plan."""

    machine_type: str
    accelerator_type: str
    """As GKE names the GPU, e.g. `nvidia-l4`."""
    accelerator_count: int
    """GPUs per node; 1 for a machine with a part of one, which is how GKE wants it."""
    gpu_driver_version: str
    """`DEFAULT`, or `INSTALLATION_DISABLED` where GKE is not to install the driver."""
    boot_disk_type: str
    initial_nodes_per_zone: int
    """Nodes in each zone when the pool is made; the autoscaler decides from then on."""
    local_ssd_count: int = 0
    """Local SSDs that come with the machine, used for the pods' ephemeral storage."""
    gpu_sharing_strategy: str | None = None
    """`TIME_SHARING` or `MPS`."""
    max_shared_clients_per_gpu: int | None = None
    """Containers per GPU, or per slice of a GPU that is cut."""
    gpu_partition_size: str | None = None
    """MIG profile of every slice of every GPU."""


def decide(wish: Wish) -> GkeSettings:
    """Choose what the node pool of a wish needs; the wish is one that nothing refuses."""
    instance, sharing = wish.instance, wish.spec.sharing
    native = wish.capability.verdict is Verdict.NATIVE
    clients = _clients(sharing) if native else None
    return GkeSettings(
        labels=_labels(wish.software),
        machine_type=instance.extra["machine_type"],
        accelerator_type=instance.extra["accelerator_type"],
        accelerator_count=instance.devices,
        gpu_driver_version="DEFAULT" if wish.software == "cloud-managed" else "INSTALLATION_DISABLED",
        boot_disk_type=_boot_disk_type(instance),
        initial_nodes_per_zone=_initial_nodes_per_zone(wish),
        local_ssd_count=(instance.local_disk_gb or 0) // _local_ssd_gb(instance),
        gpu_sharing_strategy={TimeSlicing: "TIME_SHARING", Mps: "MPS"}[type(clients)] if clients else None,
        max_shared_clients_per_gpu=clients.replicas if clients else None,
        gpu_partition_size=_uniform_profile(sharing) if native and isinstance(sharing, Mig) else None,
    )


def refusals(wish: Wish) -> list[Problem]:
    """Refuse what GKE's fields cannot express, GPUs it does not cut, and N1 machines too large for their GPUs."""
    return [*_too_many_clients(wish), *_inexpressible_mig(wish), *_too_large_n1(wish)]


def _labels(software: str) -> dict[str, str]:
    if software == "cloud-managed":
        return {}
    labels = {NO_DEVICE_PLUGIN_LABEL: "true"}
    if software == "device-plugin":
        # The chart runs on nodes that node-feature-discovery or this label marks:
        # https://github.com/NVIDIA/k8s-device-plugin, deployments/helm/nvidia-device-plugin/values.yaml.
        labels["nvidia.com/gpu.present"] = "true"
    return labels


def _boot_disk_type(instance: InstanceType) -> str:
    return "hyperdisk-balanced" if instance.extra["machine_type"].startswith(_HYPERDISK_ONLY) else "pd-balanced"


def _local_ssd_gb(instance: InstanceType) -> int:
    """Return the size of one Local SSD, https://docs.cloud.google.com/compute/docs/disks/local-ssd."""
    return 3000 if instance.name.startswith("a4x-") else 375


def _initial_nodes_per_zone(wish: Wish) -> int:
    """Spread the pool's minimum over its zones; GKE counts the first nodes per zone, unlike the total limits.

    The cluster autoscaler does not lift a group to its minimum by itself (`enforce-node-group-min-size` is off,
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md), so the pool has to start there.
    """
    cluster = wish.cluster
    if not isinstance(cluster, GkeCluster):
        raise TypeError(f"pool {wish.name} goes to a cluster on {cluster.cloud}, not to GKE")
    is_zone = cluster.location.count("-") > 1
    count = len(cluster.node_locations or ()) or (1 if is_zone else _ZONES_OF_A_REGION)
    rounded_up = -(-wish.spec.nodes.min // count)
    return rounded_up if rounded_up * count <= wish.spec.nodes.max else wish.spec.nodes.min // count


def _clients(sharing: object) -> TimeSlicing | Mps | None:
    shared = sharing.share if isinstance(sharing, Mig) else sharing
    return shared if isinstance(shared, TimeSlicing | Mps) else None


def _uniform_profile(sharing: Mig) -> str:
    """Return the one profile of a uniform layout."""
    return sharing.profile if sharing.profile is not None else next(iter(sharing.gpu_layouts().values()))[0]


def _at_sharing(wish: Wish, *keys: str) -> Path:
    return ("pools", wish.name, "sharing", *keys)


def _too_many_clients(wish: Wish) -> Iterator[Problem]:
    clients = _clients(wish.spec.sharing)
    if clients is not None and clients.replicas > MOST_SHARED_CLIENTS:
        where = ("share", "replicas") if isinstance(wish.spec.sharing, Mig) else ("replicas",)
        what = f"got {clients.replicas}; GKE shares a GPU between {MOST_SHARED_CLIENTS} containers at most"
        yield Problem(_at_sharing(wish, *where), what, f"use {MOST_SHARED_CLIENTS} or fewer", _CLIENTS_SOURCE)


def _inexpressible_mig(wish: Wish) -> Iterator[Problem]:
    sharing, model = wish.spec.sharing, wish.instance.gpu_model
    if not isinstance(sharing, Mig):
        return
    if model in COHERENT_MEMORY:
        what = f"GKE cannot cut {model} GPUs: their driver manages memory coherently (CDMM), which rules MIG out"
        fix = f"use time-slicing or mps, or a GPU that GKE cuts: {', '.join(MIG_PARTITIONS)}"
        yield Problem(_at_sharing(wish, "mode"), what, fix, _COHERENT_SOURCE)
        return
    if wish.capability.verdict is not Verdict.NATIVE:
        return
    partitions, size = MIG_PARTITIONS.get(model, {}), _uniform_profile(sharing)
    key = "profile" if sharing.profile is not None else "layout"
    if size not in partitions:
        known = ", ".join(f"{name} ({count} per GPU)" for name, count in partitions.items())
        fix = f"GKE takes: {known}" if known else "GKE cuts no GPU of this model; use time-slicing or mps"
        yield Problem(_at_sharing(wish, key), f"GKE does not cut {model} GPUs into {size}", fix, _PARTITIONS_SOURCE)
    elif key == "layout" and len(next(iter(sharing.gpu_layouts().values()))) != partitions[size]:
        what = f"GKE cuts a whole {model}: {partitions[size]} × {size}, and leaves nothing over"
        yield Problem(_at_sharing(wish, key), what, f"write profile: {size}", _PARTITIONS_SOURCE)


def _too_large_n1(wish: Wish) -> Iterator[Problem]:
    instance = wish.instance
    most = n1_most_vcpus(instance)
    if most is not None and instance.vcpus is not None and instance.vcpus > most:
        machine, accelerator = instance.extra["machine_type"], instance.extra["accelerator_type"]
        what = f"{machine} has {instance.vcpus} vCPUs; with {instance.devices} × {accelerator} {most} is the most"
        fix = "take a smaller N1 machine or more GPUs"
        yield Problem(
            ("pools", wish.name, "instance_type"), what, fix, "https://docs.cloud.google.com/compute/docs/gpus"
        )
