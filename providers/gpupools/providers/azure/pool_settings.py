"""Which of a pool's settings AKS takes, what each becomes, and which of them stand against each other. Pure."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType

from gpupools.asked.overrides import Overridable
from gpupools.asked.pool_parts import Reservation, Spot, given_settings
from gpupools.base.errors import Path, Problem, shown
from gpupools.planned.cloud import Setting, Wish
from gpupools.planned.labels import OUR_LABELS
from gpupools.planned.plan import POOL_LABEL

_AKS = "https://learn.microsoft.com/azure/aks/"
_AZURE = "https://learn.microsoft.com/azure/"
_API = "Azure/azure-rest-api-specs Microsoft.ContainerService stable/2025-09-01 managedClusters.json, AgentPool"

SPOT_PAGE = f"{_AKS}spot-node-pool"
_RESERVATIONS = f"{_AKS}use-capacity-reservation-groups"
_RESERVABLE = f"{_AZURE}virtual-machines/capacity-reservation-overview"
_ZONES = f"{_AKS}reliability-availability-zones-configure"
_PLACEMENT = f"{_AKS}reduce-latency-ppg"
_INFINIBAND = "Azure/aks-rdma-infiniband configs/nicclusterpolicy/base/nic.yaml"
_IMAGES = "Azure/karpenter-provider-azure pkg/utils/supported-gpus.yaml"
_OPERATOR_SYSTEMS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html"
_FIPS = f"{_AKS}enable-fips-nodes"
_TRUSTED_LAUNCH = f"{_AKS}use-trusted-launch"
_SIGNED = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/install-precompiled-signed-drivers.html"
_DISKS = f"{_AKS}concepts-storage"
_DISK_KEYS = f"{_AKS}azure-disk-customer-managed-keys"
_PODS = f"{_AKS}concepts-network-ip-address-planning"
_UPGRADES = f"{_AKS}upgrade-aks-node-pools-rolling"
_SPOT_UPGRADES = "https://github.com/hashicorp/terraform-provider-azurerm/pull/31129"
_TAGS = f"{_AZURE}azure-resource-manager/management/tag-resources"
_PULUMI = "https://www.pulumi.com/docs/iac/concepts/resources/options/"

_NO_GOOGLE = "use mode: spot, or mode: reservation with a capacity reservation group"

RDMA_LABEL = "gpupools/rdma"
"""Node label, with the value `infiniband`, for the node affinity of the Network Operator's policy and of pods.

Microsoft's policy (`_INFINIBAND`) asks for a label that Node Feature Discovery sets on running nodes, so that no
autoscaler that starts at zero knows it; and AKS takes hardly any label of `kubernetes.io` on a pool
(https://github.com/Azure/AKS/issues/2866).
"""

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "capacity.spot": Setting(
            True, "scaleSetPriority Spot, scaleSetEvictionPolicy Delete, taint and label", SPOT_PAGE
        ),
        "capacity.reservation": Setting(True, "capacityReservationGroupID", _RESERVATIONS),
        "capacity.capacity-block": Setting(
            False, "Capacity Blocks are EC2's; use mode: reservation with a capacity reservation group", _RESERVATIONS
        ),
        "capacity.flex-start": Setting(False, f"flex-start is Google's; {_NO_GOOGLE}", _RESERVATIONS),
        "capacity.queued": Setting(False, f"queued provisioning is Google's; {_NO_GOOGLE}", _RESERVATIONS),
        "capacity.max_price_usd_per_hour": Setting(True, "spotMaxPrice", SPOT_PAGE),
        "image.family": Setting(True, "osSKU: Ubuntu or AzureLinux", f"{_AKS}use-nvidia-gpu"),
        "image.id": Setting(
            False, "AKS runs its own node images only; use family: ubuntu or azure-linux", f"{_AKS}node-images"
        ),
        "image.fips": Setting(True, "enableFIPS", _FIPS),
        "disk.type": Setting(True, "osDiskType: Managed or Ephemeral", _DISKS),
        "disk.encryption_key": Setting(
            False,
            "the disk encryption set belongs to the cluster and is chosen when that is created; "
            "give the cluster diskEncryptionSetID, which the nodes of every pool then use",
            _DISK_KEYS,
        ),
        "disk.local_nvme": Setting(
            False,
            "an agent pool has no field for local NVMe disks, its nodes have them raw; use disk.type: Ephemeral to put "
            "containerd and kubelet on the machine, or Azure Container Storage for pods",
            _DISKS,
        ),
        "network.rdma": Setting(
            True, f"a size with InfiniBand (all its ports), and the node label {RDMA_LABEL}=infiniband", _INFINIBAND
        ),
        "network.placement": Setting(
            True, "proximityPlacementGroupID, from the cluster's proximity_placement_group_id", _PLACEMENT
        ),
        "network.security_group_ids": Setting(
            False,
            "security groups of interfaces are EC2's, AKS keeps one network security group for all nodes; "
            "use overrides.azure.AgentPool.networkProfile.applicationSecurityGroups",
            _API,
        ),
        "network.max_pods": Setting(True, "maxPods", _PODS),
        "security.secure_boot": Setting(True, "securityProfile.enableSecureBoot and enableVTPM", _TRUSTED_LAUNCH),
        "security.imds_hop_limit": Setting(
            False,
            "the hop limit is EC2's; keep pods off 169.254.169.254 with a network policy",
            f"{_AKS}operator-best-practices-cluster-security",
        ),
        "upgrade.strategy": Setting(
            False, "an agent pool of API version 2025-09-01 only has rolling upgrades; use strategy: surge", _UPGRADES
        ),
        "upgrade.max_surge": Setting(True, "upgradeSettings.maxSurge", _UPGRADES),
        "upgrade.max_unavailable": Setting(True, "upgradeSettings.maxUnavailable", _UPGRADES),
        "upgrade.drain_timeout_min": Setting(True, "upgradeSettings.drainTimeoutInMinutes", _UPGRADES),
        "auto_repair": Setting(
            False, "AKS repairs the nodes of every pool, and nothing switches that off", f"{_AKS}node-auto-repair"
        ),
        "timeouts.create_min": Setting(True, "Pulumi's customTimeouts.create", f"{_PULUMI}customtimeouts/"),
        "timeouts.update_min": Setting(True, "Pulumi's customTimeouts.update", f"{_PULUMI}customtimeouts/"),
        "timeouts.delete_min": Setting(True, "Pulumi's customTimeouts.delete", f"{_PULUMI}customtimeouts/"),
        "zones": Setting(True, "availabilityZones", _ZONES),
        "tags": Setting(True, "tags of the pool, its scale set and its machines", f"{_AKS}use-tags"),
        "protect": Setting(True, "Pulumi's protect on the agent pool", f"{_PULUMI}protect/"),
        "renamed_from": Setting(True, "Pulumi aliases; the agent pool keeps its name", f"{_PULUMI}aliases/"),
        "first_name": Setting(True, "the agent pool's name begins with it", f"{_AKS}create-node-pools"),
        "overrides": Setting(True, "inputs of AgentPool, by wire name", _API),
        "nodes.fixed": Setting(True, "enableAutoScaling false and count", f"{_AKS}scale-cluster"),
    }
)
"""What AKS does with each of `gpupools.asked.pool_parts.SETTINGS`."""

_INPUTS = frozenset(
    {
        "agentPoolName",
        "availabilityZones",
        "capacityReservationGroupID",
        "count",
        "creationData",
        "enableAutoScaling",
        "enableEncryptionAtHost",
        "enableFIPS",
        "enableNodePublicIP",
        "enableUltraSSD",
        "gatewayProfile",
        "gpuInstanceProfile",
        "gpuProfile",
        "hostGroupID",
        "kubeletConfig",
        "kubeletDiskType",
        "linuxOSConfig",
        "localDNSProfile",
        "maxCount",
        "maxPods",
        "messageOfTheDay",
        "minCount",
        "mode",
        "networkProfile",
        "nodeLabels",
        "nodePublicIPPrefixID",
        "nodeTaints",
        "orchestratorVersion",
        "osDiskSizeGB",
        "osDiskType",
        "osSKU",
        "osType",
        "podIPAllocationMode",
        "podSubnetID",
        "powerState",
        "proximityPlacementGroupID",
        "resourceGroupName",
        "resourceName",
        "scaleDownMode",
        "scaleSetEvictionPolicy",
        "scaleSetPriority",
        "securityProfile",
        "spotMaxPrice",
        "tags",
        "type",
        "upgradeSettings",
        "virtualMachineNodesStatus",
        "virtualMachinesProfile",
        "vmSize",
        "vnetSubnetID",
        "windowsProfile",
        "workloadRuntime",
    }
)
"""Wire names of `AgentPoolArgs` of pulumi-azure-native 3.29.0."""

_PRIVATE = "the nodes of every pool are private; give their subnet a NAT gateway for what they fetch"

OVERRIDABLE: Mapping[str, Overridable] = MappingProxyType(
    {
        "AgentPool": Overridable(
            inputs=_INPUTS,
            kept=MappingProxyType(
                {
                    ("agentPoolName",): "the pool's key in the file names it",
                    **{
                        (key,): "write nodes: {min: …, max: …} or nodes: {fixed: …}, which every bound counts"
                        for key in ("count", "enableAutoScaling", "maxCount", "minCount")
                    },
                    ("type",): "it is VirtualMachineScaleSets: a pool of type VirtualMachines has sizes of its own",
                    **{
                        (key,): "it goes with type VirtualMachines, which has sizes and numbers of its own"
                        for key in ("virtualMachinesProfile", "virtualMachineNodesStatus")
                    },
                    ("mode",): "it is User: a System pool takes AKS's own pods, a Gateway pool routes",
                    ("gatewayProfile",): "it goes with mode Gateway, and the pool's mode is User",
                    ("osDiskSizeGB",): "write disk_gib",
                    ("resourceName",): "write the cluster's name",
                    ("resourceGroupName",): "write the cluster's resource_group",
                    ("spotMaxPrice",): "write capacity: {mode: spot, max_price_usd_per_hour: …}",
                    ("capacityReservationGroupID",): "write capacity: {mode: reservation, name: …}",
                    ("availabilityZones",): "write zones",
                    (
                        "proximityPlacementGroupID",
                    ): "write network: {placement: compact} and the cluster's proximity_placement_group_id",
                    ("enableNodePublicIP",): f"it is false: {_PRIVATE}",
                    ("nodePublicIPPrefixID",): f"it goes with enableNodePublicIP, which is false: {_PRIVATE}",
                    ("nodeTaints",): "write more taints under the pool's taints; the GPU taint stays",
                    ("nodeLabels", POOL_LABEL): "write more labels under the pool's labels",
                    **{
                        ("nodeLabels", key): "it follows from the pool's software, sharing and trust"
                        for key in sorted(OUR_LABELS)
                    },
                    ("scaleSetPriority",): "write capacity: {mode: spot}, which knows the taint AKS adds",
                    ("osType",): "it is Linux: AKS has no GPU software for Windows that this tool knows",
                    ("osSKU",): "write image: {family: …}; AKS has NVIDIA's driver on no other system",
                    ("enableFIPS",): "write image: {fips: …}",
                    ("securityProfile", "enableSecureBoot"): "write security: {secure_boot: …}, which asks for a driver"
                    " that is signed",
                    ("vmSize",): "write the pool's instance_type",
                    ("gpuProfile",): "write the pool's software, which decides who installs the driver",
                    ("gpuInstanceProfile",): "write the pool's sharing",
                }
            ),
            labels=("nodeLabels",),
        )
    }
)
"""The resources an AKS pool is made of."""

SPOT_KEY = "kubernetes.azure.com/scalesetpriority"
"""Label and taint key AKS itself puts on every spot pool (`SPOT_PAGE`)."""

_UBUNTU_ONLY = frozenset({"GB200", "GB300", "RTX-PRO-6000"})
"""GPUs for which AKS has a driver on Ubuntu only (`_IMAGES`)."""

_NOT_RESERVABLE = re.compile(r"Standard_ND|Standard_NC\d+adi?s_H100")
"""The ND series and NCads H100 v5 have no capacity reservations (`_RESERVABLE`)."""

_RESERVATION_GROUP = re.compile(
    r"/subscriptions/[^/\s]+/resourceGroups/[^/\s]+/providers/Microsoft\.Compute/capacityReservationGroups/[^/\s]+",
    re.IGNORECASE,
)

_SOFTWARE_TAGS = frozenset({"skipgpudriverinstall", "enablemanagedgpuexperience"})
"""Tags that switch AKS's GPU software (https://github.com/Azure/AKS/issues/4925, `_AKS`aks-managed-gpu-nodes)."""


def setting_refusals(at: Path, wish: Wish, *, placement_group: bool) -> Iterator[Problem]:
    """Yield what AKS refuses about a pool's settings: values it does not know, and settings against each other.

    Args:
        at: Path of the pool.
        wish: The pool.
        placement_group: Whether the cluster names a proximity placement group.
    """
    yield from _capacity(at, wish)
    yield from _zones(at, wish, placement_group)
    yield from _image(at, wish)
    yield from _secure_boot(at, wish)
    yield from _disk(at, wish)
    yield from _network(at, wish)
    yield from _upgrade(at, wish)
    yield from _tags(at, wish)


def _capacity(at: Path, wish: Wish) -> Iterator[Problem]:
    capacity, size = wish.spec.capacity, wish.instance.name
    if isinstance(capacity, Spot):
        price = capacity.max_price_usd_per_hour
        if price is not None and -int(Decimal(str(price)).as_tuple().exponent) > 5:
            what = f"got {price}; AKS takes at most five decimals"
            yield Problem(
                (*at, "capacity", "max_price_usd_per_hour"), what, f"write {max(price, 0.00001):.5f}", SPOT_PAGE
            )
        # AKS-managed GPU nodes have no autoscaler; that is said of the software (`conflicts` in settings.py).
        if wish.spec.nodes.fixed is not None and wish.software != "cloud-managed":
            what = "a spot pool without autoscaler loses its evicted nodes for good, so capacity.mode spot"
            what += f" does not go with nodes.fixed {wish.spec.nodes.fixed}"
            yield Problem((*at, "nodes", "fixed"), what, "give nodes min and max", SPOT_PAGE)
    if isinstance(capacity, Reservation):
        if _RESERVATION_GROUP.fullmatch(capacity.name) is None:
            what = f"got {capacity.name!r}, which is no ARM id of a capacity reservation group"
            fix = (
                "write /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/"
                "capacityReservationGroups/<name>"
            )
            yield Problem((*at, "capacity", "name"), what, fix, _RESERVATIONS)
        if _NOT_RESERVABLE.match(size):
            what = f"Azure has no capacity reservations for the series of {size}"
            yield Problem((*at, "capacity", "mode"), what, "leave capacity out, or take another size", _RESERVABLE)
        if wish.spec.network.placement is not None:
            what = "network.placement compact does not go with capacity.mode reservation"
            fix = "leave one of them out; machines of a reservation take no proximity placement group"
            yield Problem((*at, "network", "placement"), what, fix, _RESERVABLE)


def _zones(at: Path, wish: Wish, placement_group: bool) -> Iterator[Problem]:
    zones, network = wish.spec.zones, wish.spec.network
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


def _image(at: Path, wish: Wish) -> Iterator[Problem]:
    image, size = wish.spec.image, wish.instance
    if image.family not in (None, "ubuntu", "azure-linux"):
        what = f"AKS has no {image.family} nodes"
        yield Problem((*at, "image", "family"), what, "use ubuntu or azure-linux", f"{_AKS}use-nvidia-gpu")
    if image.family == "azure-linux":
        if size.gpu_model in _UBUNTU_ONLY:
            what = f"azure-linux has no driver for {size.name} ({size.gpu_model})"
            yield Problem((*at, "image", "family"), what, "use ubuntu", _IMAGES)
        if wish.software == "gpu-operator":
            what = "image.family azure-linux does not go with software gpu-operator, which has no driver for it"
            fix = "use family: ubuntu, or software: device-plugin with AKS's driver"
            yield Problem((*at, "image", "family"), what, fix, _OPERATOR_SYSTEMS)
    if image.fips and size.architecture == "arm64":
        what = f"{size.name} is arm64, for which AKS has a FIPS image on Azure Linux only, and a GPU driver on Ubuntu"
        yield Problem((*at, "image", "fips"), f"{what} only", "leave fips out, or take an x86 size", _FIPS)


def _secure_boot(at: Path, wish: Wish) -> Iterator[Problem]:
    where: Path = (*at, "security", "secure_boot")
    image, size = wish.spec.image, wish.instance
    if not wish.spec.security.secure_boot:
        return
    if size.architecture == "arm64":
        yield Problem(where, f"trusted launch is not for arm64 ({size.name})", "leave it out", _TRUSTED_LAUNCH)
    if size.name.startswith("Standard_NCC"):
        what = f"{size.name} is a confidential machine, which trusted launch is not for"
        yield Problem(where, what, "leave it out", _TRUSTED_LAUNCH)
    if wish.software == "gpu-operator":
        if wish.cluster.runtime.management == "managed":
            what = "security.secure_boot does not go with software gpu-operator, whose driver is built on the node and"
            what += " not signed"
            fix = "use image.family: azure-linux with software: device-plugin"
            yield Problem(where, what, f"{fix}, or run an operator of your own with signed drivers", _SIGNED)
    elif image.family != "azure-linux":
        what = (
            f"AKS's driver on Ubuntu is not signed, so security.secure_boot does not go with software {wish.software}"
        )
        yield Problem(where, f"{what} on image.family ubuntu", "use image.family: azure-linux", _TRUSTED_LAUNCH)
    if image.fips and image.family == "azure-linux":
        what = "security.secure_boot goes with image.fips on Ubuntu only, not with image.family azure-linux"
        yield Problem(where, what, "leave one of them out", _FIPS)


def _disk(at: Path, wish: Wish) -> Iterator[Problem]:
    kind = wish.spec.disk.type
    if kind not in (None, "Managed", "Ephemeral"):
        yield Problem((*at, "disk", "type"), f"AKS has no disk type {kind!r}", "use Managed or Ephemeral", _DISKS)


def _network(at: Path, wish: Wish) -> Iterator[Problem]:
    network, size = wish.spec.network, wish.instance
    if network.rdma and size.rdma != "infiniband":
        what = f"{size.name} has no InfiniBand"
        yield Problem((*at, "network", "rdma"), what, "take an ND size with an r, or leave rdma out", size.source)
    if network.max_pods is not None and not 10 <= network.max_pods <= 250:
        what = f"got {network.max_pods}; AKS takes 10 to 250 pods on a node"
        yield Problem((*at, "network", "max_pods"), what, "choose a number between", _PODS)


def _upgrade(at: Path, wish: Wish) -> Iterator[Problem]:
    upgrade, given = wish.spec.upgrade, given_settings(wish.spec)
    if isinstance(wish.spec.capacity, Spot):
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


def _tags(at: Path, wish: Wish) -> Iterator[Problem]:
    yield from _tag_problems((*at, "tags"), wish.spec.tags, {})
    by_hand = wish.spec.overrides.get("azure", {}).get("AgentPool", {}).get("tags")
    if isinstance(by_hand, Mapping):
        given = {key: value for key, value in by_hand.items() if value is not None}
        yield from _tag_problems((*at, "overrides", "azure", "AgentPool", "tags"), given, wish.spec.tags)


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


_TAG_NAME, _TAG_VALUE = 512, 256
