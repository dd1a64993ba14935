"""Which settings of a pool AKS takes not, or not together, or not with the pool's size and software. Pure."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from gpupools.common.errors import Path, Problem, shown
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.azure.cluster import AksCluster
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
_ZONES = f"{_AKS}reliability-availability-zones-configure"
_PLACEMENT = f"{_AKS}reduce-latency-ppg"
_INFINIBAND = "Azure/aks-rdma-infiniband configs/nicclusterpolicy/base/nic.yaml"
_FIPS = f"{_AKS}enable-fips-nodes"
_TRUSTED_LAUNCH = f"{_AKS}use-trusted-launch"
_DISKS = f"{_AKS}concepts-storage"
_PODS = f"{_AKS}concepts-network-ip-address-planning"
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
    """List the settings that AKS does not take, or not together, or not with the pool's size and software."""
    at: Path = ("pools", request.name)
    grouped = isinstance(request.cluster, AksCluster) and request.cluster.proximity_placement_group_id is not None
    return [
        *(_without_autoscaler(at, request) if request.software == "cloud-managed" else ()),
        *_taints(at, request),
        *_adoption(at, request),
        *_disk_size(at, request),
        *_capacity(at, request),
        *_zones(at, request, grouped),
        *_image(at, request),
        *_secure_boot(at, request),
        *_disk(at, request),
        *_network(at, request),
        *_upgrade(at, request),
        *_tags(at, request),
        *_by_hand(at, request),
    ]


def _without_autoscaler(at: Path, request: PoolRequest) -> Iterator[Problem]:
    source = "https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes"
    none = "AKS has no cluster autoscaler for AKS-managed GPU nodes"
    if isinstance(request.spec.capacity, Spot):
        what = f"{none}, so capacity.mode spot does not go with software cloud-managed: evicted nodes would stay away"
        yield Problem((*at, "capacity", "mode"), what, "use software: device-plugin, or leave capacity out", source)
    elif request.spec.nodes.fixed is None:
        what = f"{none}, so software cloud-managed keeps one number of nodes"
        yield Problem((*at, "nodes"), what, "write nodes: {fixed: …}, or use software: device-plugin", source)


def _by_hand(at: Path, request: PoolRequest) -> list[Problem]:
    """Check the inputs set by hand; name both owners where one makes AKS manage GPUs that other software owns."""
    given = request.spec.overrides.get("azure", {})
    found = override_problems(at, given, "azure", OVERRIDABLE)
    mode = value_at(given, "AgentPool", "gpuProfile", "nvidia", "managementMode")
    if request.software == "cloud-managed" or mode != "Managed":
        return found
    where: Path = (*at, "overrides", "azure", "AgentPool", "gpuProfile")
    what = f"AKS (managementMode {mode}) and software: {request.software} would both own the GPUs"
    twice = Problem(where, what, "leave it out, or use software: cloud-managed", _MANAGED_SOURCE)
    return [twice, *(problem for problem in found if problem.path != where)]


POOL_NAME_LIMIT = 12
"""Characters of a Linux pool's name: lower-case letters and digits, a letter first
(https://learn.microsoft.com/azure/aks/create-node-pools)."""


def _adoption(at: Path, request: PoolRequest) -> Iterator[Problem]:
    """Refuse a name that no agent pool can have, a cluster without a known id, and what AKS itself looks after."""
    adopt, cluster = request.spec.adopt, request.cluster
    if adopt is None or not isinstance(cluster, AksCluster):
        return
    if not re.fullmatch(r"[a-z][a-z0-9]*", adopt.name) or len(adopt.name) > POOL_NAME_LIMIT:
        what = f"got {shown(adopt.name)}; an agent pool is named with {POOL_NAME_LIMIT} small letters and digits"
        yield Problem(
            (*at, "adopt", "name"), what, "write the name that az aks nodepool list shows", f"{_AKS}create-node-pools"
        )
    missing = [
        key for key in ("subscription_id", "resource_group", "name") if not isinstance(getattr(cluster, key), str)
    ]
    if missing == ["subscription_id"] and cluster.subscription_id is None:
        what = "the pool's id has its subscription, and the cluster leaves that to whoever is logged in"
        fix = "write the cluster's subscription_id, as az aks nodepool show --query id tells it"
        yield Problem((*at, "adopt", "name"), what, fix)
    elif missing:
        what = f"the pool's id has the cluster's {' and '.join(missing)}, which is not known before the program runs"
        yield Problem((*at, "adopt", "name"), what, "write it in the cluster as text")
    if request.software == "cloud-managed":
        what = "an AKS-managed GPU pool is a resource of another type, which cannot be taken over yet"
        yield Problem((*at, "adopt"), what, "leave it with what manages it", _MANAGED_SOURCE)


def _taints(at: Path, request: PoolRequest) -> Iterator[Problem]:
    for index, taint in enumerate(request.spec.taints):
        if not taint.value:
            what = f"got '{taint}'; AKS takes no taint without a value"
            yield Problem((*at, "taints", index), what, f"write '{taint.key}=true:{taint.effect.value}'", _TAINT_SOURCE)


def _disk_size(at: Path, request: PoolRequest) -> Iterator[Problem]:
    if request.spec.disk_gib > MAX_OS_DISK_GIB:
        what = f"got {request.spec.disk_gib}; an AKS node's disk has at most {MAX_OS_DISK_GIB} GiB"
        yield Problem((*at, "disk_gib"), what, f"use {MAX_OS_DISK_GIB} or less", _DISK_SOURCE)
    most, source = _largest_ephemeral_disk(request)
    if request.spec.disk.type == "Ephemeral" and most < request.spec.disk_gib <= MAX_OS_DISK_GIB:
        own = f"{request.instance.name}'s own disks, which take {most} GiB"
        what = f"got {request.spec.disk_gib}, and disk.type Ephemeral is on {own}"
        fix = f"write disk_gib: {most} or less, or disk.type: Managed"
        yield Problem((*at, "disk_gib"), what, fix, source)


def _largest_ephemeral_disk(request: PoolRequest) -> tuple[int, str]:
    """Return the most GiB of an ephemeral OS disk and who says so; the general limit where the size is not known."""
    own = request.instance.extra["ephemeral_gib"]
    if not own or int(own) > MAX_EPHEMERAL_GIB:
        return MAX_EPHEMERAL_GIB, _EPHEMERAL_SOURCE
    guest_state = 1 if request.spec.security.secure_boot else 0  # trusted launch keeps it on the same disk
    return int(own) - guest_state, request.instance.extra["ephemeral_source"]


def _capacity(at: Path, request: PoolRequest) -> Iterator[Problem]:
    capacity, size = request.spec.capacity, request.instance.name
    if isinstance(capacity, Spot):
        price = capacity.max_price_usd_per_hour
        if price is not None and -int(Decimal(str(price)).as_tuple().exponent) > 5:
            what = f"got {price}; AKS takes at most five decimals"
            yield Problem(
                (*at, "capacity", "max_price_usd_per_hour"), what, f"write {max(price, 0.00001):.5f}", SPOT_PAGE
            )
        # AKS-managed GPU nodes have no autoscaler; that is said of the software (`check_settings` in pool_plan.py).
        # A pool that runs so already is taken as it is.
        without = request.spec.nodes.fixed is not None and request.spec.adopt is None
        if without and request.software != "cloud-managed":
            what = "a spot pool without autoscaler loses its evicted nodes for good, so capacity.mode spot"
            what += f" does not go with nodes.fixed {request.spec.nodes.fixed}"
            yield Problem((*at, "nodes", "fixed"), what, "give nodes min and max", SPOT_PAGE)
    if isinstance(capacity, Reservation):
        if re.fullmatch(_RESERVATION_GROUP, capacity.name) is None:
            what = f"got {capacity.name!r}, which is no ARM id of a capacity reservation group"
            fix = (
                "write /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/"
                "capacityReservationGroups/<name>"
            )
            yield Problem((*at, "capacity", "name"), what, fix, _RESERVATIONS)
        if re.match(_NOT_RESERVABLE, size):
            what = f"Azure has no capacity reservations for the series of {size}"
            yield Problem((*at, "capacity", "mode"), what, "leave capacity out, or take another size", _RESERVABLE)
        if request.spec.network.placement is not None:
            what = "network.placement compact does not go with capacity.mode reservation"
            fix = "leave one of them out; machines of a reservation take no proximity placement group"
            yield Problem((*at, "network", "placement"), what, fix, _RESERVABLE)


def _zones(at: Path, request: PoolRequest, placement_group: bool) -> Iterator[Problem]:
    zones, network = request.spec.zones, request.spec.network
    for index, zone in enumerate(zones):
        if zone not in ("1", "2", "3"):
            what = f"got {zone!r}; availability zones of Azure are '1', '2' and '3'"
            yield Problem((*at, "zones", index), what, "write the number alone, as text", _ZONES)
        elif zone in zones[:index]:
            yield Problem((*at, "zones", index), f"zone {zone} is there twice", "leave one out")
    several = len(set(zones)) > 1
    if network.placement is not None:
        if several:
            what = f"network.placement compact does not go with zones {', '.join(zones)}: a proximity placement group"
            yield Problem((*at, "network", "placement"), f"{what} is in one zone", "name one zone", _PLACEMENT)
        if not placement_group:
            what = "compact needs a proximity placement group, and the cluster names none"
            fix = "give the cluster proximity_placement_group_id"
            yield Problem((*at, "network", "placement"), what, fix, _PLACEMENT)
    if network.rdma and several:
        what = f"network.rdma does not go with zones {', '.join(zones)}: no InfiniBand fabric spans zones"
        yield Problem((*at, "network", "rdma"), what, "name one zone", _INFINIBAND)


def _image(at: Path, request: PoolRequest) -> Iterator[Problem]:
    image, size = request.spec.image, request.instance
    if image.family not in (None, "ubuntu", "azure-linux"):
        what = f"AKS has no {image.family} nodes"
        yield Problem((*at, "image", "family"), what, "use ubuntu or azure-linux", f"{_AKS}use-nvidia-gpu")
    if image.family == "azure-linux":
        if size.gpu_model in _UBUNTU_ONLY:
            what = f"azure-linux has no driver for {size.name} ({size.gpu_model})"
            yield Problem((*at, "image", "family"), what, "use ubuntu", _IMAGES)
        if request.software == "gpu-operator":
            what = "image.family azure-linux does not go with software gpu-operator, which has no driver for it"
            fix = "use family: ubuntu, or software: device-plugin with AKS's driver"
            yield Problem((*at, "image", "family"), what, fix, _OPERATOR_SYSTEMS)
    if image.fips and size.architecture == "arm64":
        what = f"{size.name} is arm64, for which AKS has a FIPS image on Azure Linux only, and a GPU driver on Ubuntu"
        yield Problem((*at, "image", "fips"), f"{what} only", "leave fips out, or take an x86 size", _FIPS)


def _secure_boot(at: Path, request: PoolRequest) -> Iterator[Problem]:
    where: Path = (*at, "security", "secure_boot")
    image, size = request.spec.image, request.instance
    if not request.spec.security.secure_boot:
        return
    if size.architecture == "arm64":
        yield Problem(where, f"trusted launch is not for arm64 ({size.name})", "leave it out", _TRUSTED_LAUNCH)
    if size.name.startswith("Standard_NCC"):
        what = f"{size.name} is a confidential machine, which trusted launch is not for"
        yield Problem(where, what, "leave it out", _TRUSTED_LAUNCH)
    if request.software == "gpu-operator":
        if request.cluster.runtime.management == "managed":
            what = "security.secure_boot does not go with software gpu-operator, whose driver is built on the node and"
            what += " not signed"
            fix = "use image.family: azure-linux with software: device-plugin"
            yield Problem(where, what, f"{fix}, or run an operator of your own with signed drivers", _SIGNED)
    elif image.family != "azure-linux":
        software = request.software
        what = f"AKS's driver on Ubuntu is not signed, so security.secure_boot does not go with software {software}"
        yield Problem(where, f"{what} on image.family ubuntu", "use image.family: azure-linux", _TRUSTED_LAUNCH)
    if image.fips and image.family == "azure-linux":
        what = "security.secure_boot goes with image.fips on Ubuntu only, not with image.family azure-linux"
        yield Problem(where, what, "leave one of them out", _FIPS)


def _disk(at: Path, request: PoolRequest) -> Iterator[Problem]:
    kind = request.spec.disk.type
    if kind not in (None, "Managed", "Ephemeral"):
        yield Problem((*at, "disk", "type"), f"AKS has no disk type {kind!r}", "use Managed or Ephemeral", _DISKS)


def _network(at: Path, request: PoolRequest) -> Iterator[Problem]:
    network, size = request.spec.network, request.instance
    if network.rdma and size.rdma != "infiniband":
        what = f"{size.name} has no InfiniBand"
        yield Problem((*at, "network", "rdma"), what, "take an ND size with an r, or leave rdma out", size.source)
    if network.max_pods is not None and not 10 <= network.max_pods <= 250:
        what = f"got {network.max_pods}; AKS takes 10 to 250 pods on a node"
        yield Problem((*at, "network", "max_pods"), what, "choose a number from 10 to 250", _PODS)


def _upgrade(at: Path, request: PoolRequest) -> Iterator[Problem]:
    upgrade, given = request.spec.upgrade, given_settings(request.spec)
    if isinstance(request.spec.capacity, Spot):
        for key in ("max_surge", "max_unavailable", "drain_timeout_min"):
            if f"upgrade.{key}" in given:
                what = (
                    f"upgrade.{key} does not go with capacity.mode spot: AKS upgrades spot nodes without surge or drain"
                )
                yield Problem((*at, "upgrade", key), what, "leave it out", _SPOT_UPGRADES)
        return
    if upgrade.max_surge > 0 and upgrade.max_unavailable > 0 and "max_unavailable" in upgrade.model_fields_set:
        what = f"max_surge {upgrade.max_surge} with max_unavailable {upgrade.max_unavailable} is a preview of AKS"
        yield Problem((*at, "upgrade", "max_unavailable"), what, "leave one of them out", _UPGRADES)
    if upgrade.drain_timeout_min is not None and upgrade.drain_timeout_min < 5:
        what = f"got {upgrade.drain_timeout_min}; AKS waits at least 5 minutes"
        yield Problem((*at, "upgrade", "drain_timeout_min"), what, "write 5 or more", _UPGRADES)


def _tags(at: Path, request: PoolRequest) -> Iterator[Problem]:
    yield from _tag_problems((*at, "tags"), request.spec.tags, {})
    by_hand = value_at(request.spec.overrides, "azure", "AgentPool", "tags")
    if isinstance(by_hand, Mapping):
        given = {key: value for key, value in by_hand.items() if value is not None}
        yield from _tag_problems((*at, "overrides", "azure", "AgentPool", "tags"), given, request.spec.tags)


def _tag_problems(at: Path, tags: Mapping[str, object], beside: Mapping[str, str]) -> Iterator[Problem]:
    """Say what is wrong with tags, which stand beside others on the same pool."""
    seen = {key.casefold(): key for key in beside}
    most = len({*tags, *beside})
    if most > 50:
        yield Problem(at, f"got {most} tags; Azure takes 50", "leave some out", _TAGS)
    for key, value in tags.items():
        where: Path = (*at, str(key))
        if not isinstance(key, str) or not isinstance(value, str):
            yield Problem(where, f"got {shown(value)}, and a tag is text", "write it in quotes")
            continue
        first = seen.setdefault(key.casefold(), key)
        if first != key:
            what = f"{key!r} and {first!r} are one tag to Azure, whose tag names know no case"
            yield Problem(where, what, "keep one", f"{_AKS}use-tags")
        if key.casefold() in _SOFTWARE_TAGS:
            what = f"{key} switches AKS's GPU software, which the pool's software decides"
            yield Problem(where, what, "leave it out", f"{_AKS}aks-managed-gpu-nodes")
        if len(key) > _TAG_NAME:
            yield Problem(where, f"has {len(key)} characters; Azure takes {_TAG_NAME}", "shorten it", _TAGS)
        if re.search(r"[<>%&\\?/]", key) or not key.isprintable():
            yield Problem(
                where, f"{key!r} has a character no tag name may have", "do without <>%&\\?/ and line breaks", _TAGS
            )
        if len(value) > _TAG_VALUE:
            what = f"its value has {len(value)} characters; Azure takes {_TAG_VALUE}"
            yield Problem(where, what, "shorten it", _TAGS)
        if not value.isprintable():
            yield Problem(where, f"{shown(value)} has a character that cannot be seen", "leave it out", _TAGS)
