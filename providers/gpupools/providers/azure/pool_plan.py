"""What AKS needs to know beyond the portable plan, and what it refuses beyond the capability matrix. Pure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.errors import Path, Problem
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import Effect, Taint
from gpupools.plan.fabric import Fabric
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, skypilot_label
from gpupools.plan.node_resources import node_layouts
from gpupools.plan.provider_plan import AdoptedPool, PoolRequest, ProviderPlan
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.azure.pool_settings import RDMA_LABEL, SPOT_KEY
from gpupools.spec.models import Mig
from gpupools.spec.pool_options import Reservation, Spot

if TYPE_CHECKING:
    from gpupools.catalog.mig import Profile

MIG_MODELS = frozenset({"A100-40GB", "A100-80GB", "H100-80GB", "H100-NVL-94GB", "H200-141GB"})
"""GPUs on whose sizes AKS offers a GPU instance profile (`_MIG_SOURCE`)."""

COHERENT_MEMORY = frozenset({"GB200", "GB300"})
"""GPUs with memory that is coherent with the CPU's, which the GPU Operator's driver container sets to be managed by the
driver (`_COHERENT_SOURCE`); AWS and Google say the same of their images."""

GRID_MODELS = frozenset({"A10", "RTX-PRO-6000"})
"""GPUs that Azure hands to a machine by SR-IOV, so that only NVIDIA's GRID driver drives them; any other fails to
install (`_GRID_SOURCE`)."""

WITHOUT_AKS_DRIVER = frozenset(
    {
        "Standard_NCC40ads_H100_v5",
        "Standard_ND128isrG5_GB300_v6",
        "Standard_NV6s_v2",
        "Standard_NV12s_v2",
        "Standard_NV24s_v2",
    }
)
"""Sizes of the catalogue, retired ones aside, that AKS's own list leaves out, so that it installs no driver on them
(Azure/karpenter-provider-azure pkg/utils/supported-gpus.yaml; https://learn.microsoft.com/azure/aks/use-nvidia-gpu)."""


MANAGED_API_VERSION = "2026-08-01"
"""The first stable version of AKS's API with `gpuProfile.nvidia.managementMode`
(azure-mgmt-containerservice 41.8.0 of 2026-10-19, models.NvidiaGPUProfile).

AKS refuses a request with a field that the version does not know (https://github.com/Azure/azure-rest-api-specs/issues/40740);
the typed agent pool of pulumi-azure-native 3.29.0 speaks 2025-09-01 and leaves such a field out.
"""

MANAGED_MIG_API_VERSION = "2026-06-02-preview"
"""The version with `gpuProfile.nvidia.migStrategy`, which no stable one has (azure-mgmt-containerservice 41.7.0b1).

The next preview adds `migProfiles`, which exclude the `gpuInstanceProfile` that Microsoft's page gives beside the
strategy. AKS switches a preview version off about a year after its date
(https://learn.microsoft.com/azure/aks/concepts-preview-api-life-cycle); another one is an update in place.
"""

_MIG_SOURCE = "https://learn.microsoft.com/azure/aks/gpu-multi-instance"
_COHERENT_SOURCE = "https://github.com/NVIDIA/gpu-driver-container/pull/390"
_GRID_SOURCE = "Azure/AgentBaker pkg/agent/datamodel/gpu_components.go"


@dataclass(frozen=True, kw_only=True)
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
    max_pods: int | None = None
    """None leaves it to the cluster's network."""
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
    protect: bool = False
    first_name: str
    """The pool's key in the stack file when it was created, which its name in AKS is made of."""
    adopted: AdoptedPool | None = None
    """A pool that was made by other means; None for one that is made here."""
    create_min: int = 60
    update_min: int = 360
    delete_min: int = 60
    """Minutes Pulumi waits."""
    overrides: JsonObject = field(default_factory=dict)
    """Inputs of the agent pool set by hand, by wire name."""

    # A set in Azure, though its provider compares lists in order (pulumi/pulumi-azure-native
    # provider/pkg/provider/diff.go), and the pool's name is made of it.
    unordered: ClassVar[frozenset[str]] = frozenset({"availability_zones"})

    def adopted_pool(self) -> AdoptedPool | None:
        """Return the agent pool that was made by other means."""
        return self.adopted

    def partitions_gpus(self) -> bool:
        """Say whether the GPU instance profile cuts them; a device plugin then shares the slices."""
        return self.gpu_instance_profile is not None

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


def decide(request: PoolRequest) -> AksPoolPlan:
    """Choose driver, MIG profile, hardening, capacity, image, disks and upgrades of the pool.

    Raises:
        TypeError: The wish's cluster is not an AKS cluster.
    """
    if not isinstance(request.cluster, AksCluster):
        raise TypeError(f"an AKS pool needs an AksCluster, got {type(request.cluster).__name__}")
    spec, operator, managed = request.spec, request.software == "gpu-operator", request.software == "cloud-managed"
    spot = spec.capacity if isinstance(spec.capacity, Spot) else None
    surge, unavailable = spec.upgrade.max_surge, spec.upgrade.max_unavailable
    if surge > 0 and "max_unavailable" not in spec.upgrade.model_fields_set:
        unavailable = 0  # AKS has the two together as a preview only (`_upgrade` in pool_settings.py)
    create, update, delete = _timeouts_min(request, 1 if spot else max(1, surge + unavailable))
    return AksPoolPlan(
        labels={
            # The label calls a team's own plugin, which these nodes have no place for when AKS brings one.
            **({} if operator or managed else {GPU_PRESENT_LABEL: "true"}),
            **({SPOT_KEY: "spot"} if spot else {}),
            **({RDMA_LABEL: "infiniband"} if spec.network.rdma else {}),
            **skypilot_label(request.instance.gpu_model, spec.labels),
        },
        fabric=_fabric(request) if spec.network.rdma else None,
        # AKS adds both to a spot pool; undeclared they would be drift, and an update without them is refused
        # (https://github.com/pulumi/pulumi-azure-native/issues/959).
        taints=(Taint(SPOT_KEY, "spot", Effect.NO_SCHEDULE),) if spot else (),
        # The operator brings its own driver, and two drivers on a node break each other:
        # https://learn.microsoft.com/azure/aks/nvidia-gpu-operator, https://github.com/NVIDIA/gpu-operator/issues/525.
        gpu_driver="None" if operator else "Install",
        gpu_instance_profile=_pool_profile(request),
        management_mode="Managed" if managed else None,
        mig_strategy=_mig_strategy(spec.sharing.mig) if managed else None,
        encryption_at_host=request.cluster.encryption_at_host,
        ssh_access=request.cluster.ssh_access,
        # Ubuntu has AKS's driver for every size and gets security patches by itself; Azure Linux has neither:
        # https://learn.microsoft.com/azure/aks/use-nvidia-gpu, Azure/karpenter-provider-azure
        # pkg/utils/supported-gpus.yaml.
        os_sku="AzureLinux" if spec.image.family == "azure-linux" else "Ubuntu",
        fips=spec.image.fips,
        secure_boot=spec.security.secure_boot,
        # Without a type AKS takes an ephemeral disk where this size fits the local one; what a preview shows should
        # not depend on the machine.
        os_disk_type="Ephemeral" if spec.disk.type == "Ephemeral" else "Managed",
        max_pods=spec.network.max_pods,
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
        protect=spec.protect,
        first_name=spec.named_after(request.name),
        adopted=_adopted(request, request.cluster),
        create_min=create,
        update_min=update,
        delete_min=delete,
        overrides=dict(spec.overrides.get("azure", {}).get("AgentPool", {})),
    )


_RESOURCE, _SHARED_RESOURCE = "rdma/ib", "rdma/shared_ib"
"""What pods ask for with the two policies for the Network Operator that Microsoft's engineers recommend.

https://github.com/Azure/aks-rdma-infiniband, configs/nicclusterpolicy, with the pods of its documentation.
"""


def _fabric(request: PoolRequest) -> Fabric:
    """Say how pods get InfiniBand: by a device plugin that the team runs, since AKS brings none."""
    theirs = request.cluster.runtime.existing.rdma_plugin
    shared = theirs is not None and theirs.shared
    return Fabric(
        devices=request.instance.rdma_interfaces or 1,
        resource=(theirs.resource if theirs is not None else None) or (_SHARED_RESOURCE if shared else _RESOURCE),
        is_shared=shared,
        locks_memory=True,
    )


def _adopted(request: PoolRequest, cluster: AksCluster) -> AdoptedPool | None:
    adopt = request.spec.adopt
    if adopt is None:
        return None
    group = f"/subscriptions/{cluster.subscription_id}/resourceGroups/{cluster.resource_group}"
    pool = f"Microsoft.ContainerService/managedClusters/{cluster.name}/agentPools/{adopt.name}"
    return AdoptedPool(adopt.name, f"{group}/providers/{pool}", tuple(sorted(adopt.keep)))


def _timeouts_min(request: PoolRequest, at_once: int) -> tuple[int, int, int]:
    """Return the minutes for creation, update and deletion: what is written, else what the pool's size calls for.

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
    """Name the GPU instance profile that makes slices of this MIG profile, None when AKS has none.

    AKS's names carry the compute slices only, and its nodes create the plain profile with that many (GPU instance
    profile ids 19, 14, 9, 5 and 0: Azure/AgentBaker parts/linux/cloud-init/artifacts/mig-partition.sh): no double
    memory (`1g.20gb` of an 80 GB card) and no attributes such as `+me`.
    """
    if wanted.gpu not in MIG_MODELS or wanted not in _plain(wanted.gpu):
        return None
    return f"MIG{wanted.compute_slices}g"


def _plain(gpu: str) -> "tuple[Profile, ...]":
    """Return the profiles without attributes that take the least memory for their compute slices."""
    from gpupools.catalog.mig import profiles  # its tables are slow to load, and most pools cut nothing

    bare = [each for each in profiles(gpu) if not each.plus and not each.minus]
    return tuple(
        each
        for each in bare
        if all(
            each.memory_slices <= other.memory_slices for other in bare if other.compute_slices == each.compute_slices
        )
    )


def check_pool(request: PoolRequest) -> list[Problem]:
    """List the GPUs that AKS or the chosen software does not drive or cut, although the matrix allows the sharing."""
    at: Path = ("pools", request.name)
    return [*_driver(at, request), *_mig(at, request)]


def _driver(at: Path, request: PoolRequest) -> Iterator[Problem]:
    size, operator = request.instance, request.software == "gpu-operator"
    if operator and size.gpu_model in GRID_MODELS:
        what = f"{size.name} needs NVIDIA's GRID driver, which the GPU Operator does not bring"
        yield Problem((*at, "software"), what, "use software: device-plugin, with which AKS installs it", _GRID_SOURCE)
    if not operator and size.name in WITHOUT_AKS_DRIVER:
        where = "instance_type" if request.spec.instance_type else "gpu"
        what = f"AKS installs no GPU driver on {size.name}"
        fix = "use software: gpu-operator, which brings a driver, or another size"
        yield Problem((*at, where), what, fix, "https://learn.microsoft.com/azure/aks/use-nvidia-gpu")


def _mig(at: Path, request: PoolRequest) -> Iterator[Problem]:
    sharing, size = request.spec.sharing.mig, request.instance
    if sharing is not None and request.software == "gpu-operator" and size.gpu_model in COHERENT_MEMORY:
        what = (
            f"the GPU Operator's driver manages the memory of {size.gpu_model} GPUs coherently (CDMM), where MIG is not"
        )
        fix = f"use whole GPUs, time-slicing or mps, or a size with {', '.join(sorted(MIG_MODELS))}"
        yield Problem((*at, "sharing", "mode"), f"{what} supported", fix, _COHERENT_SOURCE)
    if sharing is None or request.software == "gpu-operator":
        return
    if size.gpu_model not in MIG_MODELS:
        what = f"AKS offers no GPU instance profile on {size.name} ({size.gpu_model})"
        yield Problem((*at, "sharing", "mode"), what, f"take a size with {', '.join(sorted(MIG_MODELS))}", _MIG_SOURCE)
        return
    whole = _whole_profile(size, sharing)
    if whole is None:
        what = "AKS fills every GPU of a pool with slices of one profile, and this layout is another"
        fix = f"give a profile instead: {_offer(size.gpu_model)}"
        if request.software == "device-plugin":
            fix += "; or use software: gpu-operator, whose MIG manager cuts several sizes"
        yield Problem((*at, "sharing", "layout"), what, fix, _MIG_SOURCE)
    elif gpu_instance_profile(whole) is None:
        key = "profile" if sharing.profile is not None else "layout"
        made = next(each.name for each in _plain(size.gpu_model) if each.compute_slices == whole.compute_slices)
        what = f"AKS cannot make {whole.name}: its MIG{whole.compute_slices}g is {made} on an {size.gpu_model}"
        yield Problem((*at, "sharing", key), what, f"use one of {_offer(size.gpu_model)}", _MIG_SOURCE)


def _mig_strategy(sharing: Mig | None) -> Literal["Single", "Mixed"] | None:
    if sharing is None:
        return None
    return "Single" if sharing.naming == "single" else "Mixed"


def _offer(gpu: str) -> str:
    return ", ".join(each.name for each in _plain(gpu))


def _pool_profile(request: PoolRequest) -> str | None:
    sharing = request.spec.sharing.mig
    if sharing is None or request.software == "gpu-operator":
        return None
    whole = _whole_profile(request.instance, sharing)
    return gpu_instance_profile(whole) if whole is not None else None


def _whole_profile(size: InstanceType, sharing: Mig) -> "Profile | None":
    """Return the one profile that fills every GPU of the node, None when the GPUs are cut in any other way."""
    first, *others = node_layouts(size, sharing)
    if any(layout != first for layout in others) or len(set(first)) != 1:
        return None
    from gpupools.catalog.mig import profile

    found = profile(size.gpu_model, first[0])
    return found if len(first) == found.max_instances else None
