"""What a GKE node pool needs beyond the portable plan, and what GKE refuses beyond the matrix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypedDict

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.errors import Path, Problem
from gpupools.common.json_types import JsonObject
from gpupools.plan.capability import Owners, Verdict
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.fabric import Fabric
from gpupools.plan.node_labels import GPU_PRESENT_LABEL
from gpupools.plan.provider_plan import AdoptedPool, AutoscalingBlocker, PoolRequest, ProviderPlan
from gpupools.providers.gcp.added_taints import QUEUED, added_taints
from gpupools.providers.gcp.capabilities import CAPABILITIES
from gpupools.providers.gcp.constraints import IMAGE_TYPES, boot_disk_types, gke_cluster, zones_of
from gpupools.providers.gcp.machines import n1_most_vcpus
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL, SHARING_STRATEGIES
from gpupools.spec.models import Mig
from gpupools.spec.pool_options import Capacity, FlexStart, Queued, Reservation, Spot, Upgrade

MOST_SHARED_CLIENTS = 48
"""Most containers per GPU under time-sharing or MPS; 2 is the least.

The bounds are those of `maxSharedClientsPerGPU` in the reference of GKE's ComputeClass, as
https://github.com/kcl-lang/modules/pull/358 quotes it; the reference of node pools names none.
"""
_CLIENTS_SOURCE = "https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass"
_NAME_SOURCE = "https://github.com/GoogleCloudPlatform/container-engine-accelerators (pkg/gpu/nvidia/manager.go)"

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


_NETWORK_DRIVER_LABEL = "cloud.google.com/gke-networking-dra-driver"
# Puts GKE's network driver on the node, which hands the GPUDirect interfaces to pods,
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra.

_GPU_DRIVER_LABEL = "cloud.google.com/gke-nvidia-gpu-dra-driver"
# Tells GKE's autoscaler that the nodes of a pool, an empty one too, publish GPUs for claims. It is the label of GKE's
# own autoscaler (k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/labels, DraGpuNodeLabel) and of
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra. The label gke-gpu-dra-driver of
# https://github.com/kubernetes/autoscaler tags 1.34.3 to 1.36.1, cluster-autoscaler/cloudprovider/gce/
# dynamicresources.go, is read by an autoscaler that people run themselves on Compute Engine, and never on GKE.

_DEVICE_CLASSES = {
    "gpudirect-rdma": "mrdma.google.com",
    "gpudirect-tcpxo": "netdev.google.com",
    "gpudirect-tcpx": "netdev.google.com",
}
# The classes that GKE makes for its network driver: RDMA interfaces, and gVNICs, which GPUDirect-TCPX and TCPXO go
# over. https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra; the interfaces of
# each machine stand in k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/dynamicresources.

_WORKLOADS = "which the workload brings; NCCL goes over TCP otherwise"
_BESIDE = {
    "gpudirect-tcpx": "the receiver tcpgpudmarxd 2.0.12 and the NCCL plugin of Google's nccl-tcpx-installer 3.1.9,"
    f" or later ones, {_WORKLOADS}",
    "gpudirect-tcpxo": f"a receiver and the NCCL plugin of Google's nccl-tcpxo-installer, {_WORKLOADS}",
}
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx; the versions are those for
# GKE 1.34 and later, which its network driver needs: GKE's release notes, known issue tcpx-cos125.

BARE_METAL = "a4x-maxgpu-4g-metal"
_ASAPD = "Google's DaemonSet asapd-lite, which makes them and which the team installs; their claims wait otherwise"
_ASAPD_PAGES = 4096
_UNIFIED_CNI = {"cloud.google.com/gke-dpv2-unified-cni": "cni-migration"}
# The DaemonSet takes 8 GiB of huge pages: https://github.com/GoogleCloudPlatform/container-engine-accelerators,
# asapd-lite-installer/asapd-lite-installer-a4x-max-bm-cos.yaml; label and pages of the pool are those of
# https://github.com/GoogleCloudPlatform/cluster-toolkit, examples/gke-a4x-max-bm/gke-a4x-max-bm.yaml. That pods of a
# node cannot share the interfaces out says https://docs.nvidia.com/aicr/integrator-guide/gke-a-4-x-max-networking.md,
# after https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-create-a4x-max.

NVLINK_TOPOLOGY = "1x72"
# https://github.com/GoogleCloudPlatform/cluster-toolkit, examples/gke-a4x/gke-a4x.yaml, workload_policy

# One node's turn in an upgrade: drain, boot, driver. GKE lets disruption budgets hold a drain up for an hour,
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies.
_UPGRADE_OF_A_NODE_MIN = 20
_MANY_NODES = 50
_LONGEST_MIN = 1440


_OPERATOR = "GPU Operator"
_OPERATOR_ON_UBUNTU = Owners(driver=_OPERATOR, container_toolkit=_OPERATOR, device_plugin=_OPERATOR)
# Google's installer of the driver is for Container-Optimized OS; on Ubuntu the operator builds it itself,
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html.


class GkeUpgrade(NamedTuple):
    """How GKE replaces the pool's nodes."""

    strategy: str
    """`SURGE` or `BLUE_GREEN`."""
    max_surge: int | None = None
    max_unavailable: int | None = None
    batch_node_count: int | None = None
    """Nodes of the old set drained at a time; blue-green only."""
    drain_timeout_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class GkePoolPlan(ProviderPlan):
    """GKE's own part of a plan."""

    first_name: str
    """The pool's key when it was made: its name in GKE is built from that, so that a renamed pool keeps it."""
    adopted: AdoptedPool | None = None
    """A pool that was made by other means; None for one that is made here."""
    machine_type: str
    accelerator_type: str
    """As GKE names the GPU, e.g. `nvidia-l4`."""
    accelerator_count: int
    """GPUs per node; 1 for a machine with a part of one, which is how GKE wants it."""
    gpu_driver_version: str
    """`DEFAULT`, or `INSTALLATION_DISABLED` where GKE is not to install the driver."""
    boot_disk_type: str
    initial_nodes_per_zone: int | None
    """Nodes in each zone when the pool is made; the autoscaler decides from then on. None: the number is fixed."""
    fixed_nodes_per_zone: int | None = None
    """Nodes in each zone, without an autoscaler."""
    local_ssd_count: int = 0
    """Local SSDs that come with the machine."""
    local_ssd_for_pods: bool = True
    """Whether they are one disk under containerd and kubelet, or raw devices for pods to mount."""
    gpu_sharing_strategy: str | None = None
    """`TIME_SHARING` or `MPS`."""
    max_shared_clients_per_gpu: int | None = None
    """Containers per GPU, or per slice of a GPU that is cut."""
    gpu_partition_size: str | None = None
    """MIG profile of every slice of every GPU."""
    spot: bool = False
    flex_start: bool = False
    queued: bool = False
    max_run_s: int | None = None
    reservation: str | None = None
    """Name or path of the one reservation to use."""
    no_reservation: bool = False
    zones: tuple[str, ...] | None = None
    """Zones of the nodes; None for those of the cluster."""
    image_type: str = "COS_CONTAINERD"
    boot_disk_key: str | None = None
    network_profile: str | None = None
    """`auto`: GKE makes the networks of the GPUDirect interfaces."""
    gpu_networks: tuple[tuple[str, str], ...] = ()
    """Network and subnetwork of each GPUDirect interface, where GKE makes none."""
    huge_pages: int = 0
    """Huge pages of 2 MiB that each node sets aside."""
    compact: bool = False
    accelerator_topology: str | None = None
    """`1x72`: the nodes are of one NVLink domain, by a workload policy of their own."""
    max_pods: int | None = None
    secure_boot: bool = False
    upgrade: GkeUpgrade
    auto_repair: bool = True
    resource_labels: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    create_min: int
    """Minutes to wait for the cloud."""
    update_min: int
    delete_min: int
    overrides: JsonObject = field(default_factory=dict)
    """Inputs of the node pool set by hand, by wire name."""

    unordered: ClassVar[frozenset[str]] = frozenset({"zones"})

    def adopted_pool(self) -> AdoptedPool | None:
        """Return the node pool that was made by other means."""
        return self.adopted

    def has_auto_repair(self) -> bool:
        """Say whether GKE replaces nodes that it calls broken."""
        return self.auto_repair

    def may_wait_for_capacity(self) -> bool:
        """Say whether the nodes wait for room (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws)."""
        return self.flex_start

    def autoscaling_blocker(self) -> AutoscalingBlocker | None:
        """Say whether a ProvisioningRequest is needed."""
        source = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest"
        return AutoscalingBlocker("capacity.mode is queued", source) if self.queued else None

    def has_scale_from_zero_resources(self) -> bool:
        """Return True where GKE itself shares or cuts the GPUs, or a label says that pods claim them.

        Its autoscaler reads both from the node pool.
        """
        claimed = _GPU_DRIVER_LABEL in self.labels
        return claimed or self.gpu_sharing_strategy is not None or self.gpu_partition_size is not None


def decide(request: PoolRequest) -> GkePoolPlan:
    """Choose what the node pool of a wish needs; the wish is one that nothing refuses."""
    instance, spec = request.instance, request.spec
    capacity, fixed, machine = spec.capacity, spec.nodes.fixed, instance.extra["machine_type"]
    short_lived = isinstance(capacity, FlexStart | Queued)
    # The autoscaler lifts no pool to its minimum, so that a pool has to start there; `_first_nodes` in constraints.py.
    each_zone = spec.nodes.min // (len(zones_of(request)) or 1) if spec.nodes.min else 0
    return GkePoolPlan(
        labels=_labels(request),
        taints=added_taints(instance.architecture, queued=isinstance(capacity, Queued)),
        owners=_OPERATOR_ON_UBUNTU if spec.image.family == "ubuntu" and request.software == "gpu-operator" else None,
        fabric=_fabric(request) if spec.network.rdma else None,
        first_name=spec.named_after(request.name),
        adopted=_adopted(request),
        machine_type=machine,
        accelerator_type=instance.extra["accelerator_type"],
        accelerator_count=instance.devices,
        gpu_driver_version="DEFAULT" if request.software == "cloud-managed" else "INSTALLATION_DISABLED",
        boot_disk_type=spec.disk.type or boot_disk_types(machine)[0],
        initial_nodes_per_zone=each_zone if fixed is None else None,
        fixed_nodes_per_zone=each_zone if fixed is not None else None,
        local_ssd_count=(instance.local_disk_gb or 0) // _local_ssd_gb(instance),
        local_ssd_for_pods=spec.disk.local_nvme != "none",
        **_shared(request),
        **_bought(capacity),
        zones=tuple(sorted(spec.zones)) or None,
        image_type=IMAGE_TYPES[spec.image.family or "cos"],
        boot_disk_key=spec.disk.encryption_key,
        network_profile="auto" if spec.network.rdma and not spec.network.gpu_networks else None,
        gpu_networks=tuple((each.network, each.subnetwork) for each in spec.network.gpu_networks),
        huge_pages=_ASAPD_PAGES if spec.network.rdma and _is_bare_metal(request) else 0,
        compact=spec.network.placement is not None,
        accelerator_topology=NVLINK_TOPOLOGY if spec.network.compute_domains else None,
        max_pods=spec.network.max_pods,
        secure_boot=spec.security.secure_boot,
        upgrade=_upgrade(spec.upgrade),
        auto_repair=spec.auto_repair and not short_lived,
        resource_labels=dict(spec.tags),
        protect=spec.protect,
        create_min=spec.timeouts.create_min or (60 if spec.nodes.min <= _MANY_NODES else 120),
        update_min=spec.timeouts.update_min or _update_min(request),
        delete_min=spec.timeouts.delete_min or 60 + 30 * (spec.nodes.max // 100),
        overrides=spec.overrides.get("gcp", {}).get("NodePool", {}),
    )


class _Shared(TypedDict, total=False):
    gpu_sharing_strategy: str
    max_shared_clients_per_gpu: int
    gpu_partition_size: str


def _shared(request: PoolRequest) -> _Shared:
    """Return how the node pool itself shares or cuts its GPUs."""
    sharing, found = request.spec.sharing, _Shared()
    if request.capability.verdict is not Verdict.NATIVE:
        return found
    if sharing.clients is not None:
        found["gpu_sharing_strategy"] = SHARING_STRATEGIES[sharing.clients.mode]
        found["max_shared_clients_per_gpu"] = sharing.clients.replicas
    if sharing.mig is not None:
        found["gpu_partition_size"] = _uniform_profile(sharing.mig)
    return found


class _Bought(TypedDict, total=False):
    spot: bool
    flex_start: bool
    queued: bool
    max_run_s: int | None
    reservation: str
    no_reservation: bool


def _bought(capacity: Capacity) -> _Bought:
    """Return how Google sells the machines."""
    if isinstance(capacity, FlexStart | Queued):
        queued = isinstance(capacity, Queued)
        return {"flex_start": True, "queued": queued, "max_run_s": capacity.max_run_s, "no_reservation": True}
    if isinstance(capacity, Reservation):
        return {"reservation": capacity.name}
    return {"spot": True, "no_reservation": True} if isinstance(capacity, Spot) else {}


def _adopted(request: PoolRequest) -> AdoptedPool | None:
    adopt, cluster = request.spec.adopt, gke_cluster(request)
    if adopt is None:
        return None
    # https://github.com/hashicorp/terraform-provider-google google/services/container/resource_container_node_pool.go,
    # resourceContainerNodePoolStateImporter
    place = f"projects/{cluster.project}/locations/{cluster.location}/clusters/{cluster.name}"
    return AdoptedPool(adopt.name, f"{place}/nodePools/{adopt.name}", tuple(sorted(adopt.keep)))


def _upgrade(wanted: Upgrade) -> GkeUpgrade:
    drain_timeout_s = wanted.drain_timeout_min * 60 if wanted.drain_timeout_min is not None else None
    if wanted.strategy == "blue-green":
        return GkeUpgrade(
            strategy="BLUE_GREEN", batch_node_count=wanted.max_unavailable, drain_timeout_s=drain_timeout_s
        )
    return GkeUpgrade(
        strategy="SURGE",
        max_surge=wanted.max_surge,
        max_unavailable=wanted.max_unavailable,
        drain_timeout_s=drain_timeout_s,
    )


def _update_min(request: PoolRequest) -> int:
    """Return the time for an upgrade of all nodes the pool may have, within two hours and a day."""
    upgrade = request.spec.upgrade
    surge = 0 if upgrade.strategy == "blue-green" else upgrade.max_surge
    turns = -(-request.spec.nodes.max // (surge + upgrade.max_unavailable))
    drain = upgrade.drain_timeout_min or 0
    return min(max(120, turns * (_UPGRADE_OF_A_NODE_MIN + drain)), _LONGEST_MIN)


def check_pool(request: PoolRequest) -> list[Problem]:
    """Refuse what GKE's fields cannot express, GPUs it does not cut, and N1 machines too large for their GPUs."""
    return [
        *_part_of_a_gpu(request),
        *_too_many_clients(request),
        *_not_renamed(request),
        *_inexpressible_mig(request),
        *_too_large_n1(request),
    ]


def _fabric(request: PoolRequest) -> Fabric:
    device_class = _DEVICE_CLASSES[request.instance.rdma]
    return Fabric(
        devices=request.instance.rdma_interfaces or 1,
        device_class=device_class,
        owner="GKE (DRANET)",
        whole_nodes=_is_bare_metal(request),
        beside=_ASAPD if _is_bare_metal(request) else _BESIDE.get(request.instance.rdma, ""),
    )


def _is_bare_metal(request: PoolRequest) -> bool:
    return request.instance.extra["machine_type"].startswith(BARE_METAL)


def _labels(request: PoolRequest) -> dict[str, str]:
    labels: dict[str, str] = {}
    if isinstance(request.spec.capacity, Queued):
        labels[QUEUED.taint.key] = QUEUED.taint.value
    if request.spec.network.rdma:
        labels[_NETWORK_DRIVER_LABEL] = "true"
        labels |= _UNIFIED_CNI if _is_bare_metal(request) else {}
    if request.software == "cloud-managed":
        return labels
    labels[NO_DEVICE_PLUGIN_LABEL] = "true"
    if request.software in ("device-plugin", "dra-driver"):
        labels[GPU_PRESENT_LABEL] = "true"
    if request.software == DRA_DRIVER:
        labels[_GPU_DRIVER_LABEL] = "true"
    return labels


def _local_ssd_gb(instance: InstanceType) -> int:
    """Return the size of one Local SSD, https://docs.cloud.google.com/compute/docs/disks/local-ssd."""
    return 3000 if instance.name.startswith("a4x-") else 375


def _uniform_profile(sharing: Mig) -> str:
    """Return the one profile of a uniform layout."""
    return sharing.profile if sharing.profile is not None else next(iter(sharing.gpu_layouts().values()))[0]


def _at_sharing(request: PoolRequest, *keys: str) -> Path:
    return ("pools", request.name, "sharing", *keys)


def _part_of_a_gpu(request: PoolRequest) -> Iterator[Problem]:
    if request.instance.is_fraction and request.spec.sharing.clients is not None:
        machine = request.instance
        what = f"{machine.name} has {machine.gpus} of an {machine.gpu_model}, which GKE does not share"
        fix = "leave sharing out, or take a machine with a whole GPU"
        yield Problem(_at_sharing(request, "mode"), what, fix, request.instance.source)


def _too_many_clients(request: PoolRequest) -> Iterator[Problem]:
    clients = request.spec.sharing.clients
    if clients is not None and clients.replicas > MOST_SHARED_CLIENTS:
        where = (*request.spec.sharing.clients_at, "replicas")
        what = f"got {clients.replicas}; GKE shares a GPU between {MOST_SHARED_CLIENTS} containers at most"
        yield Problem(_at_sharing(request, *where), what, f"use {MOST_SHARED_CLIENTS} or fewer", _CLIENTS_SOURCE)


def _not_renamed(request: PoolRequest) -> Iterator[Problem]:
    clients = request.spec.sharing.clients
    if clients is None or not clients.rename or request.software != "cloud-managed":
        return
    cells = {name: cell for (name, kind), cell in CAPABILITIES.items() if kind == request.sharing}
    ways = [name for name, cell in cells.items() if cell.verdict is Verdict.IN_CLUSTER]
    where = (*request.spec.sharing.clients_at, "rename")
    what = "GKE's device plugin calls every replica nvidia.com/gpu, and the node pool has no field for another name"
    fix = f"leave it out, or use software: {' or '.join(ways)}" if ways else "leave it out; pods ask for nvidia.com/gpu"
    yield Problem(_at_sharing(request, *where), what, fix, _NAME_SOURCE)


def _inexpressible_mig(request: PoolRequest) -> Iterator[Problem]:
    sharing, model = request.spec.sharing.mig, request.instance.gpu_model
    if sharing is None:
        return
    if model in COHERENT_MEMORY:
        what = f"GKE cannot cut {model} GPUs: their driver manages memory coherently (CDMM), which rules MIG out"
        fix = f"use time-slicing or mps, or a GPU that GKE cuts: {', '.join(MIG_PARTITIONS)}"
        yield Problem(_at_sharing(request, "mode"), what, fix, _COHERENT_SOURCE)
        return
    if request.capability.verdict is not Verdict.NATIVE:
        return
    partitions, size = MIG_PARTITIONS.get(model, {}), _uniform_profile(sharing)
    key = "profile" if sharing.profile is not None else "layout"
    if size not in partitions:
        known = ", ".join(f"{name} ({count} per GPU)" for name, count in partitions.items())
        fix = f"GKE takes: {known}" if known else "GKE cuts no GPU of this model; use time-slicing or mps"
        yield Problem(_at_sharing(request, key), f"GKE does not cut {model} GPUs into {size}", fix, _PARTITIONS_SOURCE)
    elif key == "layout" and len(next(iter(sharing.gpu_layouts().values()))) != partitions[size]:
        what = f"GKE cuts a whole {model}: {partitions[size]} × {size}, and leaves nothing over"
        yield Problem(_at_sharing(request, key), what, f"write profile: {size}", _PARTITIONS_SOURCE)


def _too_large_n1(request: PoolRequest) -> Iterator[Problem]:
    instance = request.instance
    most = n1_most_vcpus(instance)
    if most is not None and instance.vcpus is not None and instance.vcpus > most:
        machine, accelerator = instance.extra["machine_type"], instance.extra["accelerator_type"]
        what = f"{machine} has {instance.vcpus} vCPUs; with {instance.devices} × {accelerator} {most} is the most"
        fix = "take a smaller N1 machine or more GPUs"
        yield Problem(
            ("pools", request.name, "instance_type"), what, fix, "https://docs.cloud.google.com/compute/docs/gpus"
        )
