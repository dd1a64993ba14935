"""Plans the part of an agent pool that only AKS has. Pure."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.taints import Effect, Taint
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.fabric import Fabric
from gpupools.plan.hami import HAMI
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, skypilot_label
from gpupools.plan.node_resources import GPU_RESOURCE, node_layouts, node_resources
from gpupools.plan.provider_plan import NodeLabels, PoolRequest, ProviderPlan
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.azure.pool_settings import RDMA_LABEL, SPOT_KEY
from gpupools.spec.models import Mig
from gpupools.spec.pool_options import Reservation, Spot

if TYPE_CHECKING:
    from gpupools.catalog.mig import Profile

MIG_MODELS = frozenset({"A100-40GB", "A100-80GB", "H100-80GB", "H100-NVL-94GB", "H200-141GB"})
"""GPUs for which AKS has GPU instance profiles (https://learn.microsoft.com/azure/aks/gpu-multi-instance)."""

MANAGED_API_VERSION = "2026-08-01"
"""The first stable version of AKS's API with `gpuProfile.nvidia.managementMode`
(azure-mgmt-containerservice 41.8.0 of 2026-10-19, models.NvidiaGPUProfile).

AKS refuses a request with a field that the version does not know (https://github.com/Azure/azure-rest-api-specs/issues/40740);
the typed agent pool of pulumi-azure-native 3.29.0 speaks 2025-09-01 and leaves such a field out.
"""

MANAGED_MIG_API_VERSION = "2026-06-02-preview"
"""The version with `gpuProfile.nvidia.migStrategy`, which no stable one has (azure-mgmt-containerservice 41.7.0b1).

AKS switches a preview version off about a year after its date
(https://learn.microsoft.com/azure/aks/concepts-preview-api-life-cycle); another one is an update in place.
"""

MIG_PROFILES_API_VERSION = "2026-07-02-preview"
"""The first version with `gpuProfile.nvidia.migProfiles`, several sizes per GPU (azure-mgmt-containerservice 41.8.0b1).

They exclude the `gpuInstanceProfile` that Microsoft's page gives beside the strategy, so gpupools does not use them.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class AksPoolPlan(ProviderPlan):
    """The part of an agent pool that the portable plan does not have."""

    gpu_driver: Literal["Install", "None"]
    """Whether AKS installs its GPU driver; fixed for the life of the pool."""
    gpu_instance_profile: str | None
    """`MIG1g` to `MIG7g`: cuts every GPU of every node alike; None for whole GPUs."""
    management_mode: Literal["Managed"] | None = None
    """Whether AKS brings device plugin and DCGM exporter too: AKS-managed GPU nodes. Fixed for the life of the pool."""
    mig_strategy: Literal["Single", "Mixed"] | None = None
    """How AKS's own device plugin names the slices; None without slices, and where the plugin is not AKS's."""
    encryption_at_host: bool
    ssh_access: str
    os_sku: Literal["Ubuntu", "AzureLinux"] = "Ubuntu"
    fips: bool = False
    secure_boot: bool = False
    """With it comes the virtual TPM."""
    os_disk_type: Literal["Managed", "Ephemeral"] = "Managed"
    autoscaled: bool = True
    """False keeps the number of nodes at the plan's, which has min and max alike then."""
    spot_max_price: float | None = None
    """US dollars per hour, or -1 for the on-demand price; None for a pool that is not spot."""
    capacity_reservation_group_id: str | None = None
    availability_zones: tuple[str, ...] = ()
    """Empty for a pool that Azure places anywhere in the region. For Pulumi and the pool's name their order counts."""
    compact: bool = False
    """Whether the nodes go into the cluster's proximity placement group."""
    max_surge: int | None = 0
    max_unavailable: int | None = 1
    """Both None on a spot pool, which AKS refuses to have them on."""
    drain_timeout_min: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    autoscaler_tags: Mapping[str, str] = field(default_factory=dict)
    """What nodes offer besides the machine's GPUs, for the autoscaler of an empty pool."""
    create_min: int = 60
    update_min: int = 360
    delete_min: int = 60
    """Minutes Pulumi waits."""

    # A set in Azure, though its provider compares lists in order (pulumi/pulumi-azure-native
    # provider/pkg/provider/diff.go), and the pool's name is made of it.
    unordered: ClassVar[frozenset[str]] = frozenset({"availability_zones"})
    drained_together = ("max_surge", "max_unavailable")
    # https://learn.microsoft.com/azure/aks/use-labels#reserved-system-labels
    label_owners = ("azure.com", "agentpool", "accelerator", "storageprofile", "storagetier")
    # AKS's limit; the default depends on the cluster's network (30, 110 or 250).
    # https://learn.microsoft.com/azure/aks/quotas-skus-regions
    usual_pods = 250

    def ignored_inputs(self, *, is_fixed: bool) -> tuple[str, ...]:
        """Return the number of nodes of a pool that autoscales (`_node_count` in resources.py)."""
        return ("AgentPool.count",) if self.autoscaled else ()

    def node_groups(self, cluster: str, pool: str) -> tuple[str, Collection[str]]:
        """Return AKS's label (https://learn.microsoft.com/azure/aks/use-labels#reserved-system-labels)."""
        readable = self.first_name.replace("-", "")[:_SURE_PART_OF_NAME]
        return "kubernetes.azure.com/agentpool", {readable if self.adopted is None else self.adopted.name}

    def cloud_labels(self) -> NodeLabels:
        """Return AKS's labels, each of those with an older name under both.

        https://learn.microsoft.com/azure/aks/use-labels#reserved-system-labels
        """
        readable = self.first_name.replace("-", "")[:_SURE_PART_OF_NAME]
        name = self.adopted.name if self.adopted is not None else re.compile(re.escape(readable) + "[a-z0-9]*")
        labels: NodeLabels = {"agentpool": name, "accelerator": "nvidia"}
        own = {**labels, "mode": "user", "scalesetpriority": re.compile("[Rr]egular"), "os-sku": self.os_sku}
        return {**labels, **{f"kubernetes.azure.com/{key}": value for key, value in own.items()}}

    def partitions_gpus(self) -> bool:
        """Say whether the GPU instance profile cuts them; a device plugin then shares the slices."""
        return self.gpu_instance_profile is not None

    def has_scale_from_zero_resources(self) -> bool:
        """Return whether tags of the scale set tell the autoscaler all that nodes offer."""
        return bool(self.autoscaler_tags)

    def extra_resources(self) -> Mapping[str, str]:
        """Return the InfiniBand ports; of shared ones it is the team's plugin that says how many pods may use them."""
        fabric = self.fabric
        return {fabric.resource: str(fabric.devices)} if fabric is not None and not fabric.is_shared else {}

    @property
    def api_version(self) -> str | None:
        """Version of AKS's API that knows every input of the pool; None where the SDK's own does."""
        if self.management_mode is None:
            return None
        return MANAGED_API_VERSION if self.mig_strategy is None else MANAGED_MIG_API_VERSION


def build_provider_plan(request: PoolRequest) -> AksPoolPlan:
    """Return driver, MIG profile, hardening, capacity, image, disks and upgrades of a pool that passed all checks.

    Raises:
        TypeError: The cluster is not an AKS cluster.
    """
    cluster = request.cluster_as(AksCluster)
    spec, operator, managed = request.spec, request.software == "gpu-operator", request.software == "cloud-managed"
    spot = spec.capacity if isinstance(spec.capacity, Spot) else None
    surge, unavailable = spec.upgrade.max_surge, spec.upgrade.max_unavailable
    if surge > 0 and "max_unavailable" not in spec.upgrade.model_fields_set:
        unavailable = 0  # AKS has the two together as a preview only (`_upgrade` in pool_settings.py)
    create, update, delete = _timeouts_min(request, 1 if spot else max(1, surge + unavailable))
    fabric, mig = _fabric(request) if spec.network.rdma else None, spec.sharing.mig
    whole = whole_gpu_profile(request.instance, mig) if mig is not None and not operator else None
    return AksPoolPlan(
        labels={
            # The label calls a team's own plugin, which these nodes have no place for when AKS brings one.
            **({} if operator or managed or request.software == HAMI else {GPU_PRESENT_LABEL: "true"}),
            **({SPOT_KEY: "spot"} if spot else {}),
            **({RDMA_LABEL: "infiniband"} if spec.network.rdma else {}),
            **skypilot_label(request.instance.gpu_model, spec.labels),
        },
        fabric=fabric,
        # AKS adds both to a spot pool; undeclared they would be drift, and an update without them is refused
        # (https://github.com/pulumi/pulumi-azure-native/issues/959).
        taints=(Taint(SPOT_KEY, "spot", Effect.NO_SCHEDULE),) if spot else (),
        # The operator brings its own driver, and two drivers on a node break each other:
        # https://learn.microsoft.com/azure/aks/nvidia-gpu-operator, https://github.com/NVIDIA/gpu-operator/issues/525.
        gpu_driver="None" if operator else "Install",
        gpu_instance_profile=gpu_instance_profile(whole) if whole is not None else None,
        management_mode="Managed" if managed else None,
        mig_strategy=("Single" if mig.naming == "single" else "Mixed") if managed and mig is not None else None,
        encryption_at_host=cluster.encryption_at_host,
        ssh_access=cluster.ssh_access,
        # Ubuntu has AKS's driver for every size and gets security patches by itself; Azure Linux has neither:
        # https://learn.microsoft.com/azure/aks/use-nvidia-gpu, Azure/karpenter-provider-azure
        # pkg/utils/supported-gpus.yaml.
        os_sku="AzureLinux" if spec.image.family == "azure-linux" else "Ubuntu",
        fips=spec.image.fips,
        secure_boot=spec.security.secure_boot,
        # Without a type AKS takes an ephemeral disk where this size fits the local one; what a preview shows should
        # not depend on the machine.
        os_disk_type="Ephemeral" if spec.disk.type == "Ephemeral" else "Managed",
        autoscaled=spec.nodes.fixed is None,
        spot_max_price=(spot.max_price_usd_per_hour or -1) if spot else None,
        capacity_reservation_group_id=spec.capacity.name if isinstance(spec.capacity, Reservation) else None,
        availability_zones=tuple(sorted(spec.zones)),
        compact=spec.network.placement == "compact",
        # A surge node needs quota and capacity that scarce GPUs rarely have, so by default nodes are upgraded in
        # place, one by one: https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling.
        max_surge=None if spot else surge,
        max_unavailable=None if spot else unavailable,
        drain_timeout_min=spec.upgrade.drain_timeout_min,
        tags=dict(spec.tags),
        autoscaler_tags=_autoscaler_tags(request, fabric) if spec.nodes.fixed is None else {},
        create_min=create,
        update_min=update,
        delete_min=delete,
    )


_SURE_PART_OF_NAME = 8
"""Characters of its key with which a pool's name in the cloud begins (`pool_name` in declared_inputs.py)."""

_RESOURCE_TAG = "k8s.io_cluster-autoscaler_node-template_resources_"


def _autoscaler_tags(request: PoolRequest, fabric: Fabric | None) -> dict[str, str]:
    """Return tags with what nodes offer besides the machine's GPUs, without names that the autoscaler cannot read.

    It reads `_` as `/`: https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.34.5/cluster-autoscaler/
    cloudprovider/azure/azure_template.go, extractAllocatableResourcesFromScaleSet.
    """
    offered: dict[str, int] = {}
    if request.software != DRA_DRIVER:
        resources = node_resources(request.instance, request.spec.sharing)
        offered = {} if resources == {GPU_RESOURCE: request.instance.devices} else dict(resources)
    if offered and GPU_RESOURCE not in offered:
        offered[GPU_RESOURCE] = 0
    if fabric is not None and not fabric.is_shared:
        offered[fabric.resource] = fabric.devices
    readable = {name: count for name, count in offered.items() if "_" not in name}
    return {f"{_RESOURCE_TAG}{name.replace('/', '_')}": str(count) for name, count in readable.items()}


_RESOURCE, _SHARED_RESOURCE = "rdma/ib", "rdma/shared_ib"
"""What pods ask for with the two policies for the Network Operator that Microsoft's engineers recommend.

https://github.com/Azure/aks-rdma-infiniband, configs/nicclusterpolicy, with the pods of its documentation.
"""


def _fabric(request: PoolRequest) -> Fabric:
    """Return how pods get InfiniBand: from a device plugin that the team runs, since AKS has none."""
    theirs = request.cluster.runtime.existing.rdma_plugin
    shared = theirs is not None and theirs.shared
    return Fabric(
        devices=request.instance.rdma_interfaces or 1,
        resource=(theirs.resource if theirs is not None else None) or (_SHARED_RESOURCE if shared else _RESOURCE),
        is_shared=shared,
        locks_memory=True,
    )


def _timeouts_min(request: PoolRequest, at_once: int) -> tuple[int, int, int]:
    """Return the minutes for creation, update and deletion: from the stack file, else by the size of the pool.

    Driver installation and a MIG reboot precede readiness; an upgrade goes through the nodes, `at_once` at a time,
    and waits for each to drain (30 minutes unless told, https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling).
    """
    nodes, written = request.spec.nodes, request.spec.timeouts
    per_round = (request.spec.upgrade.drain_timeout_min or 30) + 15
    create = 60 + 30 * (nodes.min // 100)
    update = max(360, per_round * math.ceil(nodes.max / at_once))
    delete = 60 + 30 * (nodes.max // 100)
    return written.create_min or create, written.update_min or update, written.delete_min or delete


def gpu_instance_profile(wanted: "Profile") -> str | None:
    """Return the GPU instance profile that creates slices of this MIG profile; None if AKS has none.

    AKS's names carry the compute slices only, and its nodes create the plain profile with that many (GPU instance
    profile ids 19, 14, 9, 5 and 0: Azure/AgentBaker parts/linux/cloud-init/artifacts/mig-partition.sh): no double
    memory (`1g.20gb` of an 80 GB card) and no attributes such as `+me`.
    """
    if wanted.gpu not in MIG_MODELS or wanted not in plain_profiles(wanted.gpu):
        return None
    return f"MIG{wanted.compute_slices}g"


def plain_profiles(gpu: str) -> "tuple[Profile, ...]":
    """Return the profiles without attributes that take the least memory for their compute slices."""
    from gpupools.catalog.mig import profiles  # its tables are slow to load, and most pools cut nothing

    bare = [other_profile for other_profile in profiles(gpu) if not other_profile.plus and not other_profile.minus]
    least = {each.compute_slices: each.memory_slices for each in sorted(bare, key=lambda each: -each.memory_slices)}
    return tuple(profile for profile in bare if profile.memory_slices == least[profile.compute_slices])


def whole_gpu_profile(size: InstanceType, sharing: Mig) -> "Profile | None":
    """Return the one profile that fills every GPU of the node, None when the GPUs are cut in any other way."""
    first, *others = node_layouts(size, sharing)
    if any(layout != first for layout in others) or len(set(first)) != 1:
        return None
    from gpupools.catalog.mig import profile

    found = profile(size.gpu_model, first[0])
    return found if len(first) == found.max_instances else None
