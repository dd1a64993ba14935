"""Rejects pools that AKS or its GPU software cannot run: GPUs, sharing, and settings that exclude each other. Pure."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from gpupools.common.errors import Path, Problem, shown
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.azure.machines import GRID_MODELS
from gpupools.providers.azure.pool_plan import (
    MIG_MODELS,
    MIG_PROFILES_API_VERSION,
    gpu_instance_profile,
    plain_profiles,
    whole_gpu_profile,
)
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SPOT_PAGE
from gpupools.spec.overrides import override_problems, value_at
from gpupools.spec.pool_options import Reservation, Spot, given_settings

MAX_OS_DISK_GIB = 2048
"""Upper bound of `osDiskSizeGB`."""

MAX_EPHEMERAL_GIB = 2040
"""Largest ephemeral OS disk, whatever the machine's own disks (`_EPHEMERAL_SOURCE`, 2026-09-08)."""
_EPHEMERAL_SOURCE = "https://learn.microsoft.com/azure/virtual-machines/ephemeral-os-disks"
_TAINT_SOURCE = "Azure/azure-cli src/azure-cli/azure/cli/command_modules/acs/_validators.py, validate_taint"
_DISK_SOURCE = "Azure/azure-sdk-for-python azure-mgmt-containerservice 16.0.0, class AgentPool"
_MANAGED_SOURCE = "https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes"
_AKS = "https://learn.microsoft.com/azure/aks/"
_RESERVATIONS = f"{_AKS}use-capacity-reservation-groups"
_AUTO = "auto"
"""AKS selects the zones, everywhere since https://github.com/Azure/AKS/releases/tag/2026-08-07."""
_AUTO_ZONES = f"{_AKS}configure-automatic-zone-placement"
_ZONES = f"{_AKS}reliability-availability-zones-configure"
_PLACEMENT = f"{_AKS}reduce-latency-ppg"
_INFINIBAND = "Azure/aks-rdma-infiniband configs/nicclusterpolicy/base/nic.yaml"
_FIPS = f"{_AKS}enable-fips-nodes"
_TRUSTED_LAUNCH = f"{_AKS}use-trusted-launch"
_DISKS = f"{_AKS}concepts-storage"
_UPGRADES = f"{_AKS}upgrade-aks-node-pools-rolling"
_AZURE = "https://learn.microsoft.com/azure/"
_RESERVABLE = f"{_AZURE}virtual-machines/capacity-reservation-overview"
_IMAGES = "Azure/karpenter-provider-azure pkg/utils/supported-gpus.yaml"
_OPERATOR_SYSTEMS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html"
_SIGNED = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/install-precompiled-signed-drivers.html"
_SPOT_UPGRADES = "https://github.com/hashicorp/terraform-provider-azurerm/pull/31129"
_TAGS = f"{_AZURE}azure-resource-manager/management/tag-resources"

_UBUNTU_ONLY = frozenset({"GB200", "GB300", "RTX-PRO-6000"})
"""GPUs for which AKS has a driver on Ubuntu only (`_IMAGES`)."""

_NOT_RESERVABLE = r"Standard_ND|Standard_NC\d+adi?s_H100"
"""The ND series and NCads H100 v5 have no capacity reservations (`_RESERVABLE`)."""
_RESERVATION_GROUP = (
    r"(?i)/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/Microsoft\.Compute/capacityReservationGroups/[^/\s]+"
)

_SOFTWARE_TAGS = frozenset({"skipgpudriverinstall", "enablemanagedgpuexperience"})
"""Tags that switch AKS's GPU software (https://github.com/Azure/AKS/issues/4925, `_AKS`aks-managed-gpu-nodes)."""

_TAG_NAME, _TAG_VALUE = 512, 256


def check_settings(request: PoolRequest) -> list[Problem]:
    """Return the settings that AKS rejects, alone, together, or with the pool's size and software."""
    return [
        *(_autoscaler(request) if request.software == "cloud-managed" else ()),
        *_taints(request),
        *_adoption(request),
        *_disk_size(request),
        *_capacity(request),
        *_zones(request),
        *_image(request),
        *_secure_boot(request),
        *_disk(request),
        *_network(request),
        *_upgrade(request),
        *_tags(request),
        *_overrides(request),
    ]


def _autoscaler(request: PoolRequest) -> Iterator[Problem]:
    none = "AKS has no cluster autoscaler for AKS-managed GPU nodes"
    if isinstance(request.spec.capacity, Spot):
        what = f"{none}, so capacity.mode spot would lose evicted nodes with software cloud-managed"
        yield Problem(("capacity", "mode"), what, "use software: device-plugin, or leave capacity out", _MANAGED_SOURCE)
    elif request.spec.nodes.fixed is None:
        what = f"{none}, so software cloud-managed needs a fixed number of nodes"
        yield Problem(("nodes",), what, "set nodes: {fixed: …}, or use software: device-plugin", _MANAGED_SOURCE)


def _overrides(request: PoolRequest) -> list[Problem]:
    """Check the overrides; name both owners where one lets AKS manage GPUs that other software owns."""
    given = request.spec.overrides.get("azure", {})
    overrides = override_problems((), given, "azure", OVERRIDABLE)
    mode = value_at(given, "AgentPool", "gpuProfile", "nvidia", "managementMode")
    if request.software == "cloud-managed" or mode != "Managed":
        return overrides
    where: Path = ("overrides", "azure", "AgentPool", "gpuProfile")
    what = f"AKS (managementMode {mode}) and software: {request.software} would both own the GPUs"
    twice = Problem(where, what, "remove it, or use software: cloud-managed", _MANAGED_SOURCE)
    return [twice, *(problem for problem in overrides if problem.path != where)]


POOL_NAME_LIMIT = 12
"""Characters of a Linux pool's name: lower-case letters and digits, a letter first
(https://learn.microsoft.com/azure/aks/create-node-pools)."""


def _adoption(request: PoolRequest) -> Iterator[Problem]:
    """Reject an invalid agent pool name, a cluster id that is not known yet, and pools that AKS manages."""
    adopt, cluster = request.spec.adopt, request.cluster_as(AksCluster)
    if adopt is None:
        return
    if not re.fullmatch(r"[a-z][a-z0-9]*", adopt.name) or len(adopt.name) > POOL_NAME_LIMIT:
        what = f"{shown(adopt.name)} is not an agent pool name: up to {POOL_NAME_LIMIT} lower-case letters and digits"
        fix = "use a name that az aks nodepool list prints"
        yield Problem(("adopt", "name"), what, fix, f"{_AKS}create-node-pools")
    keys = ("subscription_id", "resource_group", "name")
    missing = [key for key in keys if not isinstance(getattr(cluster, key), str)]
    if missing == ["subscription_id"] and cluster.subscription_id is None:
        what = "importing a pool needs its subscription, which the cluster does not name"
        fix = "set subscription_id of the cluster, which az aks nodepool show --query id prints"
        yield Problem(("adopt", "name"), what, fix)
    elif missing:
        what = f"importing a pool needs the cluster's {' and '.join(missing)} before the program runs"
        yield Problem(("adopt", "name"), what, "write it in the cluster as text")
    if request.software == "cloud-managed":
        what = "an AKS-managed GPU pool is a resource of another type, which gpupools cannot import yet"
        yield Problem(("adopt",), what, "leave it to the tool that manages it", _MANAGED_SOURCE)


def _taints(request: PoolRequest) -> Iterator[Problem]:
    for index, taint in enumerate(request.spec.taints):
        if not taint.value:
            what = f"got '{taint}'; AKS rejects taints without a value"
            yield Problem(("taints", index), what, f"write '{taint.key}=true:{taint.effect.value}'", _TAINT_SOURCE)


def _disk_size(request: PoolRequest) -> Iterator[Problem]:
    if request.spec.disk_gib > MAX_OS_DISK_GIB:
        what = f"got {request.spec.disk_gib}; AKS allows at most {MAX_OS_DISK_GIB} GiB"
        yield Problem(("disk_gib",), what, f"use {MAX_OS_DISK_GIB} or less", _DISK_SOURCE)
    most, source = _max_ephemeral_gib(request)
    if request.spec.disk.type == "Ephemeral" and most < request.spec.disk_gib <= MAX_OS_DISK_GIB:
        what = f"got {request.spec.disk_gib}; with disk.type Ephemeral, {request.instance.name} has {most} GiB"
        fix = f"use disk_gib: {most} or less, or disk.type: Managed"
        yield Problem(("disk_gib",), what, fix, source)


def _max_ephemeral_gib(request: PoolRequest) -> tuple[int, str]:
    """Return the maximum GiB of an ephemeral OS disk and its source; the general limit for an unknown size."""
    own = request.instance.extra["ephemeral_gib"]
    if not own or int(own) > MAX_EPHEMERAL_GIB:
        return MAX_EPHEMERAL_GIB, _EPHEMERAL_SOURCE
    guest_state = 1 if request.spec.security.secure_boot else 0  # trusted launch keeps it on the same disk
    return int(own) - guest_state, request.instance.extra["ephemeral_source"]


def _capacity(request: PoolRequest) -> Iterator[Problem]:
    capacity, size = request.spec.capacity, request.instance.name
    if isinstance(capacity, Spot):
        price = capacity.max_price_usd_per_hour
        if price is not None and -int(Decimal(str(price)).as_tuple().exponent) > 5:
            what = f"got {price}; AKS allows at most five decimals"
            yield Problem(("capacity", "max_price_usd_per_hour"), what, f"use {max(price, 0.00001):.5f}", SPOT_PAGE)
        # `_autoscaler` reports AKS-managed GPU nodes, which have none. An adopted pool is accepted as it runs.
        without = request.spec.nodes.fixed is not None and request.spec.adopt is None
        if without and request.software != "cloud-managed":
            what = f"nodes.fixed {request.spec.nodes.fixed} excludes capacity.mode spot: without an autoscaler"
            what += " evicted nodes do not come back"
            yield Problem(("nodes", "fixed"), what, "set nodes.min and nodes.max", SPOT_PAGE)
    if isinstance(capacity, Reservation):
        if re.fullmatch(_RESERVATION_GROUP, capacity.name) is None:
            what = f"{capacity.name!r} is not the ARM id of a capacity reservation group"
            fix = (
                "use /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/"
                "capacityReservationGroups/<name>"
            )
            yield Problem(("capacity", "name"), what, fix, _RESERVATIONS)
        if re.match(_NOT_RESERVABLE, size):
            what = f"Azure has no capacity reservations for the series of {size}"
            yield Problem(("capacity", "mode"), what, "leave capacity out, or use another size", _RESERVABLE)
        if request.spec.network.placement is not None:
            what = "network.placement compact does not work with capacity.mode reservation"
            fix = "remove one of them; reserved machines cannot be in a proximity placement group"
            yield Problem(("network", "placement"), what, fix, _RESERVABLE)


def _zones(request: PoolRequest) -> Iterator[Problem]:
    zones, network = request.spec.zones, request.spec.network
    for index, zone in enumerate(zones):
        if zone == _AUTO and len(zones) > 1:
            yield Problem(("zones", index), "auto excludes other zones", "remove it or the others", _AUTO_ZONES)
        elif zone not in ("1", "2", "3", _AUTO):
            what = f"got {zone!r}; Azure's availability zones are '1', '2' and '3'"
            yield Problem(("zones", index), what, "use the number in quotes, or auto alone", _ZONES)
        elif zone in zones[:index]:
            yield Problem(("zones", index), f"zone {zone} is listed twice", "remove one")
    several = len(set(zones)) > 1 or _AUTO in zones
    if network.placement is not None:
        if several:
            what = f"network.placement compact does not work with zones {', '.join(zones)}: a proximity placement group"
            yield Problem(("network", "placement"), f"{what} is in one zone", "name one zone", _PLACEMENT)
        if request.cluster_as(AksCluster).proximity_placement_group_id is None:
            what = "compact needs a proximity placement group, which the cluster does not name"
            fix = "set proximity_placement_group_id of the cluster"
            yield Problem(("network", "placement"), what, fix, _PLACEMENT)
    if network.rdma and several:
        what = f"network.rdma does not work with zones {', '.join(zones)}: InfiniBand does not span zones"
        yield Problem(("network", "rdma"), what, "name one zone", _INFINIBAND)


def _image(request: PoolRequest) -> Iterator[Problem]:
    image, size = request.spec.image, request.instance
    if image.family not in (None, "ubuntu", "azure-linux"):
        what = f"AKS has no {image.family} node image"
        yield Problem(("image", "family"), what, "use ubuntu or azure-linux", f"{_AKS}use-nvidia-gpu")
    if image.family == "azure-linux":
        if size.gpu_model in _UBUNTU_ONLY:
            what = f"AKS has no driver for {size.name} ({size.gpu_model}) on azure-linux"
            yield Problem(("image", "family"), what, "use ubuntu", _IMAGES)
        if request.software == "gpu-operator":
            what = "image.family azure-linux does not work with software gpu-operator, which has no driver for it"
            fix = "use family: ubuntu, or software: device-plugin with AKS's driver"
            yield Problem(("image", "family"), what, fix, _OPERATOR_SYSTEMS)
    if image.fips and size.architecture == "arm64":
        what = f"on arm64 ({size.name}), AKS has FIPS images of Azure Linux only and GPU drivers for Ubuntu only"
        yield Problem(("image", "fips"), what, "leave fips out, or use an x86 size", _FIPS)


def _secure_boot(request: PoolRequest) -> Iterator[Problem]:
    where: Path = ("security", "secure_boot")
    image, size = request.spec.image, request.instance
    if not request.spec.security.secure_boot:
        return
    if size.architecture == "arm64":
        yield Problem(where, f"trusted launch does not support arm64 ({size.name})", "leave it out", _TRUSTED_LAUNCH)
    if size.name.startswith("Standard_NCC"):
        what = f"{size.name} is a confidential VM, which trusted launch does not support"
        yield Problem(where, what, "leave it out", _TRUSTED_LAUNCH)
    if request.software == "gpu-operator":
        if request.cluster.runtime.management == "managed":
            what = "security.secure_boot does not work with software gpu-operator, which builds an unsigned driver"
            fix = "use image.family: azure-linux with software: device-plugin"
            yield Problem(where, what, f"{fix}, or run your own operator with signed drivers", _SIGNED)
    elif image.family != "azure-linux":
        software = request.software
        what = f"security.secure_boot does not work with software {software} on image.family ubuntu: AKS's driver there"
        yield Problem(where, f"{what} is not signed", "use image.family: azure-linux", _TRUSTED_LAUNCH)
    if image.fips and image.family == "azure-linux":
        what = "security.secure_boot and image.fips work together on Ubuntu only, not on image.family azure-linux"
        yield Problem(where, what, "leave one of them out", _FIPS)


def _disk(request: PoolRequest) -> Iterator[Problem]:
    kind = request.spec.disk.type
    if kind not in (None, "Managed", "Ephemeral"):
        yield Problem(("disk", "type"), f"AKS has no disk type {kind!r}", "use Managed or Ephemeral", _DISKS)


def _network(request: PoolRequest) -> Iterator[Problem]:
    network, size = request.spec.network, request.instance
    if network.rdma and size.rdma != "infiniband":
        what = f"{size.name} has no InfiniBand"
        yield Problem(("network", "rdma"), what, "use an ND size with an r, or leave rdma out", size.source)


def _upgrade(request: PoolRequest) -> Iterator[Problem]:
    upgrade, given = request.spec.upgrade, given_settings(request.spec)
    if isinstance(request.spec.capacity, Spot):
        for key in ("max_surge", "max_unavailable", "drain_timeout_min"):
            if f"upgrade.{key}" in given:
                what = f"upgrade.{key} does not work with capacity.mode spot, whose upgrades have no surge and no drain"
                yield Problem(("upgrade", key), what, "leave it out", _SPOT_UPGRADES)
        return
    if upgrade.max_surge > 0 and upgrade.max_unavailable > 0 and "max_unavailable" in upgrade.model_fields_set:
        what = f"max_surge {upgrade.max_surge} with max_unavailable {upgrade.max_unavailable} is an AKS preview"
        yield Problem(("upgrade", "max_unavailable"), what, "leave one of them out", _UPGRADES)
    if upgrade.drain_timeout_min is not None and upgrade.drain_timeout_min < 5:
        what = f"got {upgrade.drain_timeout_min}; AKS needs at least 5 minutes"
        yield Problem(("upgrade", "drain_timeout_min"), what, "use 5 or more", _UPGRADES)


def _tags(request: PoolRequest) -> Iterator[Problem]:
    yield from _tag_problems(("tags",), request.spec.tags, {})
    by_hand = value_at(request.spec.overrides, "azure", "AgentPool", "tags")
    if isinstance(by_hand, Mapping):
        given = {key: value for key, value in by_hand.items() if isinstance(key, str) and isinstance(value, str)}
        yield from _tag_problems(("overrides", "azure", "AgentPool", "tags"), given, request.spec.tags)


def _tag_problems(at: Path, tags: Mapping[str, str], beside: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of tags that are merged with others of the same pool."""
    seen = {key.casefold(): key for key in beside}
    most = len({*tags, *beside})
    if most > 50:
        yield Problem(at, f"got {most} tags; Azure allows 50", "remove some", _TAGS)
    for key, value in tags.items():
        where: Path = (*at, key)
        first = seen.setdefault(key.casefold(), key)
        if first != key:
            what = f"{key!r} and {first!r} are the same tag: Azure ignores case in tag names"
            yield Problem(where, what, "keep one", f"{_AKS}use-tags")
        if key.casefold() in _SOFTWARE_TAGS:
            what = f"{key} switches AKS's GPU software on or off, which the pool's software decides"
            yield Problem(where, what, "leave it out", f"{_AKS}aks-managed-gpu-nodes")
        if len(key) > _TAG_NAME:
            yield Problem(where, f"has {len(key)} characters; Azure allows {_TAG_NAME}", "shorten it", _TAGS)
        if re.search(r"[<>%&\\?/]", key) or not key.isprintable():
            yield Problem(where, f"{key!r} has a character that Azure rejects", "remove <>%&\\?/ and breaks", _TAGS)
        if len(value) > _TAG_VALUE:
            what = f"its value has {len(value)} characters; Azure allows {_TAG_VALUE}"
            yield Problem(where, what, "shorten it", _TAGS)
        if not value.isprintable():
            yield Problem(where, f"{shown(value)} has an invisible character", "remove it", _TAGS)


COHERENT_MEMORY = frozenset({"GB200", "GB300"})
"""GPUs with memory that is coherent with the CPU's, which the GPU Operator's driver container sets to be managed by the
driver (`_COHERENT_SOURCE`); AWS and Google say the same of their images."""

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


_MIG_SOURCE = "https://learn.microsoft.com/azure/aks/gpu-multi-instance"
_COHERENT_SOURCE = "https://github.com/NVIDIA/gpu-driver-container/pull/390"
_GRID_SOURCE = "Azure/AgentBaker pkg/agent/datamodel/gpu_components.go"


def check_pool(request: PoolRequest) -> list[Problem]:
    """Reject GPUs that AKS or the pool's software has no driver for or cannot cut, beyond the capability matrix."""
    return [*_driver(request), *_mig(request)]


def _driver(request: PoolRequest) -> Iterator[Problem]:
    size, operator = request.instance, request.software == "gpu-operator"
    if operator and size.gpu_model in GRID_MODELS:
        what = f"{size.name} needs NVIDIA's GRID driver, which the GPU Operator does not install"
        yield Problem(("software",), what, "use software: device-plugin, with which AKS installs it", _GRID_SOURCE)
    if not operator and size.name in WITHOUT_AKS_DRIVER:
        where = "instance_type" if request.spec.instance_type else "gpu"
        what = f"AKS installs no GPU driver on {size.name}"
        fix = "use software: gpu-operator, which installs a driver, or another size"
        yield Problem((where,), what, fix, "https://learn.microsoft.com/azure/aks/use-nvidia-gpu")


def _mig(request: PoolRequest) -> Iterator[Problem]:
    sharing, size = request.spec.sharing.mig, request.instance
    if sharing is not None and request.software == "gpu-operator" and size.gpu_model in COHERENT_MEMORY:
        what = f"the coherent memory (CDMM) of the GPU Operator's driver excludes MIG on {size.gpu_model} GPUs"
        fix = f"use whole GPUs, time-slicing or mps, or a size with {', '.join(sorted(MIG_MODELS))}"
        yield Problem(("sharing", "mode"), what, fix, _COHERENT_SOURCE)
    if sharing is None or request.software == "gpu-operator":
        return
    if size.gpu_model not in MIG_MODELS:
        what = f"AKS has no GPU instance profile for {size.name} ({size.gpu_model})"
        yield Problem(("sharing", "mode"), what, f"use a size with {', '.join(sorted(MIG_MODELS))}", _MIG_SOURCE)
        return
    whole = whole_gpu_profile(size, sharing)
    if whole is None:
        what = "AKS cuts every GPU of a pool fully into slices of one profile, which this layout does not"
        fix = f"set a profile instead: {_profile_names(size.gpu_model)}"
        fix += "; or use software: gpu-operator, whose MIG manager cuts several sizes"
        if request.software == "cloud-managed":
            what += (
                f" (its API takes several with migProfiles from {MIG_PROFILES_API_VERSION}, which gpupools cannot use)"
            )
        yield Problem(("sharing", "layout"), what, fix, _MIG_SOURCE)
    elif gpu_instance_profile(whole) is None:
        key = "profile" if sharing.profile is not None else "layout"
        made = next(each.name for each in plain_profiles(size.gpu_model) if each.compute_slices == whole.compute_slices)
        what = f"AKS cannot make {whole.name}: its MIG{whole.compute_slices}g is {made} on an {size.gpu_model}"
        yield Problem(("sharing", key), what, f"use one of {_profile_names(size.gpu_model)}", _MIG_SOURCE)


def _profile_names(gpu: str) -> str:
    return ", ".join(profile.name for profile in plain_profiles(gpu))
