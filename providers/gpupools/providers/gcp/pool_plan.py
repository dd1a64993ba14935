"""Plans the part of a node pool that only GKE has. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from gpupools.common.taints import Effect, Taint
from gpupools.plan.capability import Owners, Verdict
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.fabric import Fabric
from gpupools.plan.node_labels import GPU_PRESENT_LABEL
from gpupools.plan.pool_plan import GROUP_LABEL
from gpupools.plan.provider_plan import NodeLabels, PoolRequest, ProviderPlan, QueuedProvisioning
from gpupools.providers.gcp.added_taints import QUEUED, added_taints
from gpupools.providers.gcp.cluster import GkeCluster
from gpupools.providers.gcp.machines import boot_disk_types
from gpupools.providers.gcp.pool_settings import IMAGE_TYPES, NO_DEVICE_PLUGIN_LABEL, SHARING_STRATEGIES
from gpupools.spec.models import Mig
from gpupools.spec.pool_options import FlexStart, Queued, Reservation, Upgrade

CLASS_KEY = "cloud.google.com/compute-class"
"""Node label and taint of the pools of a ComputeClass."""

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

_SURE_PART_OF_GROUP = 16
# In gke-<cluster>-<pool>-<hash>-grp, cluster and pool have 32 characters together: the group of the pool
# yaroslav-power-node-pool is gke-nonprod-shared-c-yaroslav-power-n-81341ed6-grp.

_SURE_PART_OF_NAME = 20
# Characters of its key with which a pool's name in the cloud begins (`pool_name` in declared_inputs.py).

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


@dataclass(frozen=True, kw_only=True, eq=False)
class GkePoolPlan(ProviderPlan):
    """GKE's own part of a plan."""

    machine_type: str
    accelerator_type: str
    """As GKE names the GPU, e.g. `nvidia-l4`."""
    accelerator_count: int
    """GPUs per node; 1 for a machine with a part of one, which is how GKE wants it."""
    gpu_driver_version: str
    """`DEFAULT` or `LATEST`, or `INSTALLATION_DISABLED` where GKE is not to install the driver."""
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
    network_profile: str | None = None
    """`auto`: GKE makes the networks of the GPUDirect interfaces."""
    gpu_networks: tuple[tuple[str, str], ...] = ()
    """Network and subnetwork of each GPUDirect interface, where GKE makes none."""
    huge_pages: int = 0
    """Huge pages of 2 MiB that each node sets aside."""
    compact: bool = False
    placement_policy: str | None = None
    """Name of an existing compact placement policy; None lets GKE create one."""
    accelerator_topology: str | None = None
    """`1x72`: the nodes are of one NVLink domain, by a workload policy of their own."""
    secure_boot: bool = False
    upgrade: GkeUpgrade
    auto_repair: bool = True
    resource_labels: Mapping[str, str] = field(default_factory=dict)
    create_min: int
    """Minutes to wait for the cloud."""
    update_min: int
    delete_min: int

    unordered: ClassVar[frozenset[str]] = frozenset({"zones"})
    usual_pods = 110
    """https://docs.cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr"""
    drained_together = ("upgrade.max_surge", "upgrade.max_unavailable", "upgrade.batch_node_count")
    label_owners = ("google.com", "gke.io")

    def ignored_inputs(self, *, is_fixed: bool) -> tuple[str, ...]:
        """Return the number of nodes that a new pool starts with: resizing a pool changes it, a change replaces."""
        return ("NodePool.initialNodeCount",)

    def has_auto_repair(self) -> bool:
        """Say whether GKE replaces nodes that it calls broken."""
        return self.auto_repair

    def may_wait_for_capacity(self) -> bool:
        """Say whether the nodes wait for room (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws)."""
        return self.flex_start

    def pod_labels(self) -> Mapping[str, str]:
        """Return the label of the ComputeClass, which alone makes GKE's autoscaler follow its order."""
        return {CLASS_KEY: self.labels[CLASS_KEY]} if CLASS_KEY in self.labels else {}

    def node_groups(self, cluster: str, pool: str) -> tuple[str, Collection[str]]:
        """Return GKE's label, and as much of the pool's name as GKE leaves in names of instance groups.

        https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pools
        """
        name = self.first_name if self.adopted is None else self.adopted.name
        return "cloud.google.com/gke-nodepool", {name[:_SURE_PART_OF_GROUP]}

    def cloud_labels(self) -> NodeLabels:
        """Return GKE's labels of machine, GPUs and capacity.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (gke-accelerator, gke-gpu-driver-version),
        how-to/timesharing-gpus, how-to/gpus-multi (gke-gpu-partition-size), concepts/spot-vms and
        how-to/custom-compute-classes beside it. No page says that GPU nodes of GKE Standard have
        gke-accelerator-count.
        """
        shared, is_short = self.gpu_sharing_strategy, self.flex_start or self.queued
        name = re.compile(re.escape(self.first_name[:_SURE_PART_OF_NAME]) + "[a-z0-9-]*")
        labels = {
            "gke-nodepool": self.adopted.name if self.adopted is not None else name,
            "gke-accelerator": self.accelerator_type,
            "gke-gpu-partition-size": self.gpu_partition_size,
            "gke-gpu-sharing-strategy": shared.lower().replace("_", "-") if shared is not None else None,
            "gke-max-shared-clients-per-gpu": str(self.max_shared_clients_per_gpu) if shared is not None else None,
            "gke-spot": "true" if self.spot else None,
            "gke-preemptible": None,
            "gke-tpu-accelerator": None,
            "gke-tpu-topology": None,
            "gke-queued": None,
            "compute-class": None,
            "machine-family": self.machine_type.partition("-")[0],
            "gke-boot-disk": self.boot_disk_type,
            "gke-os-distribution": self.image_type.partition("_")[0].lower(),
        }
        labels |= {} if is_short else {"gke-provisioning": "spot" if self.spot else "standard", "gke-flex-start": None}
        if self.gpu_driver_version != "INSTALLATION_DISABLED":
            labels["gke-gpu-driver-version"] = self.gpu_driver_version.lower()
        return {f"cloud.google.com/{key}": value for key, value in labels.items()}

    def queued_provisioning(self) -> QueuedProvisioning | None:
        """Return Google's class for pools with queued provisioning."""
        source = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest"
        kind = "queued-provisioning.gke.io"
        return QueuedProvisioning(kind, "capacity.mode is queued", source) if self.queued else None

    def topology_levels(self, instance_type: str) -> tuple[str, ...]:
        """Return the labels of machines whose place in the network GKE knows, where the pool is compact.

        https://docs.cloud.google.com/ai-hypercomputer/docs/workloads/schedule-gke-workloads-tas
        """
        if not self.compact or not instance_type.startswith(("a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")):
            return ()
        levels = ("block", "subblock", "host")
        return (*(f"cloud.google.com/gce-topology-{level}" for level in levels), "kubernetes.io/hostname")

    def requires_gpu_resource(self) -> bool:
        """Return whether software in the cluster names the GPUs, which GKE's autoscaler does not know."""
        return not self.has_scale_from_zero_resources()

    def has_scale_from_zero_resources(self) -> bool:
        """Return True where GKE itself shares or cuts the GPUs, or a label says that pods claim them.

        Its autoscaler reads both from the node pool.
        """
        claimed = _GPU_DRIVER_LABEL in self.labels
        return claimed or self.gpu_sharing_strategy is not None or self.gpu_partition_size is not None


def build_provider_plan(request: PoolRequest) -> GkePoolPlan:
    """Return machine, GPUs, capacity, image, disks and upgrades of a pool that passed all checks."""
    instance, spec = request.instance, request.spec
    capacity, fixed, machine = spec.capacity, spec.nodes.fixed, instance.extra["machine_type"]
    driver = "LATEST" if spec.driver == "latest" else "DEFAULT"
    short_lived = isinstance(capacity, FlexStart | Queued)
    is_native = request.capability.verdict is Verdict.NATIVE  # then the node pool itself shares and cuts the GPUs
    mig, clients = (spec.sharing.mig, spec.sharing.clients) if is_native else (None, None)
    # The autoscaler lifts no pool to its minimum, so that a pool has to start there; `_nodes` in constraints.py.
    each_zone = spec.nodes.min // (len(node_zones(request)) or 1) if spec.nodes.min else 0
    return GkePoolPlan(
        labels=_labels(request),
        taints=(*added_taints(instance.architecture, queued=isinstance(capacity, Queued)), *_class_taint(request)),
        owners=_OPERATOR_ON_UBUNTU if spec.image.family == "ubuntu" and request.software == "gpu-operator" else None,
        fabric=_fabric(request) if spec.network.rdma else None,
        machine_type=machine,
        accelerator_type=instance.extra["accelerator_type"],
        accelerator_count=instance.devices,
        gpu_driver_version=driver if request.software == "cloud-managed" else "INSTALLATION_DISABLED",
        boot_disk_type=spec.disk.type or boot_disk_types(machine)[0],
        initial_nodes_per_zone=each_zone if fixed is None else None,
        fixed_nodes_per_zone=each_zone if fixed is not None else None,
        # The size of one: https://docs.cloud.google.com/compute/docs/disks/local-ssd.
        local_ssd_count=(instance.local_disk_gb or 0) // (3000 if instance.name.startswith("a4x-") else 375),
        local_ssd_for_pods=spec.disk.local_nvme != "none",
        gpu_sharing_strategy=SHARING_STRATEGIES[clients.mode] if clients is not None else None,
        max_shared_clients_per_gpu=clients.replicas if clients is not None else None,
        gpu_partition_size=uniform_profile(mig) if mig is not None else None,
        spot=capacity.mode == "spot",
        flex_start=short_lived,
        queued=isinstance(capacity, Queued),
        max_run_s=capacity.max_run_s if isinstance(capacity, FlexStart | Queued) else None,
        reservation=capacity.name if isinstance(capacity, Reservation) else None,
        no_reservation=short_lived or capacity.mode == "spot",
        zones=tuple(sorted(spec.zones)) or None,
        image_type=IMAGE_TYPES[spec.image.family or "cos"],
        network_profile="auto" if spec.network.rdma and not spec.network.gpu_networks else None,
        gpu_networks=tuple((network.network, network.subnetwork) for network in spec.network.gpu_networks),
        huge_pages=_ASAPD_PAGES if spec.network.rdma and _is_bare_metal(request) else 0,
        compact=spec.network.placement is not None,
        placement_policy=spec.network.placement_policy,
        accelerator_topology=NVLINK_TOPOLOGY if spec.network.compute_domains else None,
        secure_boot=spec.security.secure_boot,
        upgrade=_upgrade(spec.upgrade),
        auto_repair=spec.auto_repair and not short_lived,
        resource_labels=dict(spec.tags),
        create_min=spec.timeouts.create_min or (60 if spec.nodes.min <= _MANY_NODES else 120),
        update_min=spec.timeouts.update_min or _update_min(request),
        delete_min=spec.timeouts.delete_min or 60 + 30 * (spec.nodes.max // 100),
    )


def _upgrade(wanted: Upgrade) -> GkeUpgrade:
    is_surge = wanted.strategy != "blue-green"
    return GkeUpgrade(
        strategy="SURGE" if is_surge else "BLUE_GREEN",
        max_surge=wanted.max_surge if is_surge else None,
        max_unavailable=wanted.max_unavailable if is_surge else None,
        batch_node_count=None if is_surge else wanted.max_unavailable,
        drain_timeout_s=wanted.drain_timeout_min * 60 if wanted.drain_timeout_min is not None else None,
    )


def _update_min(request: PoolRequest) -> int:
    """Return the minutes to upgrade the maximum number of nodes, between two hours and a day."""
    upgrade = request.spec.upgrade
    surge = 0 if upgrade.strategy == "blue-green" else upgrade.max_surge
    turns = -(-request.spec.nodes.max // (surge + upgrade.max_unavailable))
    drain = upgrade.drain_timeout_min or 0
    return min(max(120, turns * (_UPGRADE_OF_A_NODE_MIN + drain)), _LONGEST_MIN)


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


def class_name(pool: str) -> str:
    """Return the ComputeClass of a pool with several steps; the name `default` alone would be that of all pods."""
    return f"gpupools-{pool}"


def _class_taint(request: PoolRequest) -> tuple[Taint, ...]:
    """Return the taint of a pool that a ComputeClass names, with the value of its label.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/custom-compute-classes#manual-node-pools
    """
    group, nodes = request.spec.labels.get(GROUP_LABEL), request.spec.nodes
    scales = group is not None and nodes.min < nodes.max
    return (Taint(CLASS_KEY, class_name(group or ""), Effect.NO_SCHEDULE),) if scales else ()


def _labels(request: PoolRequest) -> dict[str, str]:
    labels = {taint.key: taint.value for taint in _class_taint(request)}
    if isinstance(request.spec.capacity, Queued):
        labels[QUEUED.key] = QUEUED.value
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


def uniform_profile(sharing: Mig) -> str:
    """Return the one profile of a uniform layout."""
    return sharing.profile if sharing.profile is not None else next(iter(sharing.gpu_layouts().values()))[0]


def node_zones(request: PoolRequest) -> tuple[str, ...]:
    """Return the zones of the pool's nodes; empty if only the cluster in the cloud knows them."""
    return tuple(request.spec.zones or request.cluster_as(GkeCluster).own_zones())
