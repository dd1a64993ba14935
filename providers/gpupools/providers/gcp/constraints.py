"""Settings of a pool that GKE does not take together, or not with this machine, each with what would work. Pure."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.common.errors import Path, Problem, shown
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.gcp.cluster import ZONE, GkeCluster, is_default_account
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL, OVERRIDABLE
from gpupools.spec.overrides import override_problems, value_at
from gpupools.spec.pool_options import FlexStart, Queued, Reservation

_HOW_TO = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to"
_MACHINES = "https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines"
# Google's own toolkit refuses the same combinations as preconditions of its node pool.
_UPGRADE_STRATEGIES = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies"
_TOOLKIT = "https://github.com/GoogleCloudPlatform/cluster-toolkit/blob/main/modules/compute/gke-node-pool/main.tf"
_NETWORKS = f"{_HOW_TO}/config-auto-net-for-accelerators"
_LABELS = f"{_HOW_TO}/creating-managing-labels"
_SHIELDED = f"{_HOW_TO}/shielded-gke-nodes"
_NODE_IMAGES = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-images"
_REGIONS = "https://docs.cloud.google.com/compute/docs/regions-zones"
_KEYS = f"{_HOW_TO}/using-cmek"
_RESERVATIONS = f"{_HOW_TO}/consuming-reservations"
_AUTOSCALER = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md"
_POOL_SCHEMA = (
    "https://github.com/hashicorp/terraform-provider-google/blob/main/google/services/container/"
    "resource_container_node_pool.go"
)

IMAGE_TYPES = {"cos": "COS_CONTAINERD", "ubuntu": "UBUNTU_CONTAINERD"}
"""GKE's Linux images by the portable name."""

# Machine types below begin with one of these names.

_SOLD_AS = {
    ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"): ("spot", "flex-start", "queued"),
    ("a3-ultragpu-", "a4-"): ("reservation", "spot", "flex-start", "queued"),
    ("a4x-",): ("reservation",),
    ("a3-edgegpu-",): ("on-demand", "reservation", "spot"),
}
"""How capacity for a machine can be had, where not in every way; each row is a note of the page in `_MACHINES`."""

_BOOT_DISKS = {
    ("a3-ultragpu-", "a4-", "a4x-", "g4-"): ("hyperdisk-balanced",),
    ("a3-",): ("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
    ("g2-",): ("pd-balanced", "pd-ssd"),
    ("a2-", "n1-"): ("pd-balanced", "pd-ssd", "pd-standard"),
}
"""From the same page and https://docs.cloud.google.com/compute/docs/disks/persistent-disks; the first row counts."""

# Machines for which GKE makes the networks itself; A3 High and A3 Edge are not on the page. That GKE's network driver
# hands out the four gVNICs of A3 High stands in the source of its autoscaler (k8s.io/gke-autoscaling,
# cluster-autoscaler/pkg/cloudprovider/gke/dynamicresources/dranet_test.go) and in `_TOOLKIT`
# (is_dranet_supported_machine).
_NETWORKED = ("a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")
_OWN_NETWORKS = "a3-highgpu-8g"
_TCPX = f"{_HOW_TO}/gpu-bandwidth-gpudirect-tcpx"
_NETWORK_NAME = r"(projects/[^/]+/(global/networks|regions/[^/]+/subnetworks)/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?"

_RACK_GPUS = 72
_NVLINK = "GoogleCloudPlatform/cluster-toolkit examples/gke-a4x/gke-a4x.yaml"

# Machines of the third generation and later have no VirtIO interface; G2 and older have both kinds.
# https://docs.cloud.google.com/compute/docs/networking/using-gvnic, https://github.com/siderolabs/pkgs/issues/1295
_GVNIC_ALONE = ("a3-", "a4-", "a4x-", "g4-")

_COMPACT_FLEX_START = ("a3-ultragpu-", "a4-")

_MOST_AT_A_TIME = 20
_MOST_LABELS = 64
_LABEL_LENGTH = 63
_KMS_KEY = r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+"
_RESERVATION = (
    r"(?:projects/[a-z0-9.:-]+/reservations/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
    r"(?:/reservationBlocks/[-a-z0-9]+(?:/reservationSubBlocks/[-a-z0-9]+)?)?"
)


def zones_of(request: PoolRequest) -> tuple[str, ...]:
    """Return the zones that the pool's nodes will be in; empty when only the cluster in the cloud knows them."""
    cluster = gke_cluster(request)
    if request.spec.zones:
        return tuple(request.spec.zones)
    if cluster.node_locations:
        return tuple(cluster.node_locations)
    return (cluster.location,) if ZONE.fullmatch(cluster.location) else ()


def gke_cluster(request: PoolRequest) -> GkeCluster:
    """Return the wish's cluster.

    Raises:
        TypeError: It is another cloud's.
    """
    if not isinstance(request.cluster, GkeCluster):
        raise TypeError(f"pool {request.name} goes to a cluster on {request.cluster.cloud}, not to GKE")
    return request.cluster


def check_settings(request: PoolRequest) -> list[Problem]:
    """Say which settings of the pool GKE will not take together, or not with the pool's machine."""
    return [
        *_not_sold_this_way(request),
        *_capacity(request),
        *_reserved_by_hand(request),
        *_zones(request),
        *_bare_metal(request),
        *_first_nodes(request),
        *_image(request),
        *_disk(request),
        *_rdma(request),
        *_pods(request),
        *_nvlink_domain(request),
        *_placement(request),
        *_secure_boot(request),
        *_upgrade(request),
        *_tags(request),
        *_adoption(request),
        *_overridden(request),
    ]


NAME_LIMIT = 40
"""Characters of a node pool's name (`_API`)."""
_NAME = r"[a-z](?:[-a-z0-9]*[a-z0-9])?"
_API = "https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools"


def _adoption(request: PoolRequest) -> Iterator[Problem]:
    """Refuse a name that no node pool can have, and a cluster whose address is not known before the program runs."""
    adopt, cluster, at = request.spec.adopt, gke_cluster(request), ("pools", request.name, "adopt", "name")
    if adopt is None:
        return
    if not re.fullmatch(_NAME, adopt.name) or len(adopt.name) > NAME_LIMIT:
        what = f"got {shown(adopt.name)}; a node pool of GKE is named with {NAME_LIMIT} small letters, digits and '-'"
        yield Problem(at, what, "write the name that gcloud container node-pools list shows", _API)
    if not isinstance(cluster.name, str) or not isinstance(cluster.project, str):
        what = "the pool's id has the cluster's name and project, and one of them is known only while the program runs"
        yield Problem(at, what, "write both in the cluster as text")


def _overridden(request: PoolRequest) -> list[Problem]:
    twice = [*_second_owners(request), *_scopes(request), *_surge_beside_blue_green(request), *_identity(request)]
    twice += _scaled_by_hand(request)
    told = {problem.path for problem in twice}
    found = override_problems(("pools", request.name), request.spec.overrides.get("gcp", {}), "gcp", OVERRIDABLE)
    return [*twice, *(problem for problem in found if problem.path not in told)]


def _second_owners(request: PoolRequest) -> Iterator[Problem]:
    """Name both owners where an input set by hand switches GKE's own software on beside the pool's."""
    if request.software == "cloud-managed":
        return
    accelerators, labels = (_by_hand(request, "nodeConfig", key) for key in ("guestAccelerators", "labels"))
    where = (*_OVERRIDES, "nodeConfig")
    for each in accelerators if isinstance(accelerators, list) else []:
        version = value_at(each, "gpuDriverInstallationConfig", "gpuDriverVersion")
        if version not in (None, "INSTALLATION_DISABLED"):
            what = f"GKE's driver ({shown(version)}) and software: {request.software} would both own the driver"
            fix = "leave it out, or use software: cloud-managed"
            yield Problem(_at(request, *where, "guestAccelerators"), what, fix, f"{_HOW_TO}/gpus")
    if isinstance(labels, Mapping) and NO_DEVICE_PLUGIN_LABEL in labels:
        what = f"GKE's device plugin and software: {request.software} would both own the GPUs"
        fix = "leave it out, or use software: cloud-managed"
        yield Problem(_at(request, *where, "labels", NO_DEVICE_PLUGIN_LABEL), what, fix, f"{_HOW_TO}/gpus")


_DRIVER_SCOPES = ("cloud-platform", "devstorage.read_only", "devstorage.read_write", "devstorage.full_control")


def _scopes(request: PoolRequest) -> Iterator[Problem]:
    """Refuse scopes with which the node cannot fetch the driver, which lies in Cloud Storage."""
    scopes = _by_hand(request, "nodeConfig", "oauthScopes")
    if isinstance(scopes, list) and not any(str(scope).endswith(_DRIVER_SCOPES) for scope in scopes):
        what = "lets no node read Cloud Storage, from where GKE's installer fetches the GPU driver"
        fix = "add https://www.googleapis.com/auth/devstorage.read_only, or leave it out"
        yield Problem(_at(request, *_OVERRIDES, "nodeConfig", "oauthScopes"), what, fix, f"{_HOW_TO}/gpus")


def _surge_beside_blue_green(request: PoolRequest) -> Iterator[Problem]:
    """Refuse what the two ways to upgrade become together; GKE's API refuses a surge beside the second set of nodes."""
    given = _by_hand(request, "upgradeSettings")
    if not isinstance(given, Mapping):
        return
    planned = request.spec.upgrade.strategy == "blue-green"
    if given.get("strategy", "BLUE_GREEN" if planned else "SURGE") != "BLUE_GREEN":
        return
    surge = [key for key in ("maxSurge", "maxUnavailable") if given.get(key, None if planned else 0) is not None]
    if surge:
        what = f"GKE takes no {' and '.join(surge)} with the strategy BLUE_GREEN"
        fix = "write upgrade: {strategy: blue-green}, and by hand blueGreenSettings alone"
        yield Problem(_at(request, *_OVERRIDES, "upgradeSettings"), what, fix, _POOL_SCHEMA)


def _identity(request: PoolRequest) -> Iterator[Problem]:
    """Refuse Google's default account, which can do far more than a node needs; another one is a line of the plan."""
    config = _by_hand(request, "nodeConfig")
    if isinstance(config, Mapping) and is_default_account(config.get("serviceAccount", "own")):
        what = "would run the nodes as Google's default account, which can do far more than a node needs"
        fix = "leave it out, or name an account with roles/container.defaultNodeServiceAccount"
        at = _at(request, *_OVERRIDES, "nodeConfig", "serviceAccount")
        yield Problem(at, what, fix, f"{_HOW_TO}/hardening-your-cluster")


def _scaled_by_hand(request: PoolRequest) -> Iterator[Problem]:
    fixed = request.spec.nodes.fixed
    if fixed is not None and _by_hand(request, "autoscaling") is not None:
        what = f"would hand the number of nodes to an autoscaler, and nodes.fixed is {fixed}"
        at = _at(request, *_OVERRIDES, "autoscaling")
        yield Problem(at, what, "leave it out, or write nodes: {max: …}", _POOL_SCHEMA)


_OVERRIDES = ("overrides", "gcp", "NodePool")


def _by_hand(request: PoolRequest, *path: str) -> Any:
    """Return what `overrides` sets at a path of the node pool; None where it sets nothing."""
    return value_at(request.spec.overrides, *_OVERRIDES[1:], *path)


def _at(request: PoolRequest, *keys: str | int) -> Path:
    return ("pools", request.name, *keys)


def _machine(request: PoolRequest) -> str:
    return request.instance.extra["machine_type"]


def _not_sold_this_way(request: PoolRequest) -> Iterator[Problem]:
    machine, mode = _machine(request), request.spec.capacity.mode
    ways = next((ways for names, ways in _SOLD_AS.items() if machine.startswith(names)), None)
    if ways is None or mode in ways or mode == "capacity-block":
        return
    keys = "reservation, name: …" if ways[0] == "reservation" else ways[0]
    others = f" (or {', '.join(ways[1:])})" if len(ways) > 1 else ""
    instead = "; or take a3-highgpu-8g" if machine.startswith("a3-highgpu-") and mode == "on-demand" else ""
    what = f"Google does not sell {machine} (instance_type) as {mode}"
    yield Problem(
        _at(request, "capacity", "mode"), what, f"write capacity: {{mode: {keys}}}{others}{instead}", _MACHINES
    )


def _capacity(request: PoolRequest) -> Iterator[Problem]:
    spec, capacity = request.spec, request.spec.capacity
    at = _at(request, "capacity", "mode")
    if isinstance(capacity, Reservation):
        if not re.fullmatch(_RESERVATION, capacity.name):
            what = f"{shown(capacity.name)} names no reservation of Compute Engine"
            fix = "write its name, or projects/<project>/reservations/<name> for one shared by another project"
            yield Problem(_at(request, "capacity", "name"), what, fix, _RESERVATIONS)
        if not zones_of(request):
            what = "a reservation belongs to zones, and the pool names none (zones)"
            yield Problem(at, what, "write zones: […], each with a reservation of this name", _RESERVATIONS)
    if not isinstance(capacity, FlexStart | Queued):
        return
    mode = capacity.mode
    if spec.nodes.fixed is not None:
        what = f"nodes.fixed asks for {spec.nodes.fixed} nodes at once, while {mode} gives them when there are some"
        yield Problem(at, what, "write nodes: {max: …} in place of fixed", _TOOLKIT)
    elif isinstance(capacity, Queued) and spec.nodes.min > 0:
        what = f"queued nodes come and go with the jobs that wait for them; nodes.min is {spec.nodes.min}"
        yield Problem(at, what, "leave nodes.min out", _TOOLKIT)
    if spec.auto_repair and "auto_repair" in spec.model_fields_set:
        what = f"{mode} goes without node repair, and auto_repair is true"
        yield Problem(at, what, "leave auto_repair out", _TOOLKIT)
    for key in sorted(spec.upgrade.model_fields_set):
        what = f"GKE lets {mode} nodes (capacity.mode) run until they end and upgrades none, so {key} says nothing"
        yield Problem(_at(request, "upgrade", key), what, "leave it out", _UPGRADE_STRATEGIES)


def _reserved_by_hand(request: PoolRequest) -> Iterator[Problem]:
    """Refuse to take machines out of a reservation that are bought another way: Google has no such machines."""
    mode, affinity = request.spec.capacity.mode, _by_hand(request, "nodeConfig", "reservationAffinity")
    if affinity is None or mode == "on-demand":
        return
    kind = affinity.get("consumeReservationType", "NO_RESERVATION") if isinstance(affinity, Mapping) else affinity
    if mode == "reservation" or kind != "NO_RESERVATION":
        at = _at(request, *_OVERRIDES, "nodeConfig", "reservationAffinity")
        what = f"stands against capacity.mode {mode}, which decides whether a reservation is used"
        yield Problem(at, what, "leave one of them out", _RESERVATIONS)


def _zones(request: PoolRequest) -> Iterator[Problem]:
    location = gke_cluster(request).location
    zone = ZONE.fullmatch(location)
    region = zone["region"] if zone else location
    for index, name in enumerate(request.spec.zones):
        found = ZONE.fullmatch(name)
        where = _at(request, "zones", index)
        if found is None:
            yield Problem(where, f"{shown(name)} is no zone of Google Cloud", f"write e.g. {region}-a", _REGIONS)
        elif found["region"] != region:
            what = f"{name} is in {found['region']}; the cluster's location is {location}"
            yield Problem(where, what, f"use zones of {region}", _REGIONS)
        elif name in request.spec.zones[:index]:
            yield Problem(where, f"{name} is given twice", "name each zone once")


def _bare_metal(request: PoolRequest) -> Iterator[Problem]:
    if _machine(request).startswith("a4x-max") and request.spec.nodes.fixed is None:
        what = f"{_machine(request)} (instance_type) is bare metal, which GKE's autoscaler starts none of"
        yield Problem(
            _at(request, "nodes"), what, "write nodes: {fixed: …}", f"{_HOW_TO}/allocate-network-resources-dra"
        )


def _first_nodes(request: PoolRequest) -> Iterator[Problem]:
    """Refuse a number of nodes that GKE cannot make: `nodeCount` and `initialNodeCount` count the nodes of each zone.

    A pool has to start at its minimum, since the cluster autoscaler does not lift it there by itself
    (`enforce-node-group-min-size` is off, _AUTOSCALER).
    """
    nodes, zones = request.spec.nodes, zones_of(request)
    if not nodes.min or (isinstance(request.spec.capacity, Queued) and nodes.fixed is None):
        return  # queued nodes have no minimum, which `_capacity` says
    if request.spec.adopt is not None and nodes.fixed is None:
        return  # it has its first nodes
    key, word = ("min", "the first") if nodes.fixed is None else ("fixed", "fixed")
    at, source = _at(request, "nodes", key), _POOL_SCHEMA if nodes.fixed is not None else _AUTOSCALER
    if not zones:
        what = f"GKE counts {word} nodes per zone, and neither zones nor the cluster's node_locations names them"
        yield Problem(at, what, "write zones: […]", source)
    elif nodes.min % len(zones):
        lower = nodes.min // len(zones) * len(zones)
        near = [lower] if lower or (nodes.fixed is None and request.software != DRA_DRIVER) else []
        near += [lower + len(zones)] if nodes.fixed is not None or lower + len(zones) <= nodes.max else []
        even = f"write {' or '.join(map(str, near))}, or name fewer zones" if near else "name fewer zones"
        count = f"{nodes.min} nodes do" if nodes.min > 1 else "1 node does"
        what = f"{count} not spread evenly over {len(zones)} zones ({', '.join(zones)}), as GKE wants it"
        yield Problem(at, what, even, source)


def _image(request: PoolRequest) -> Iterator[Problem]:
    family, at = request.spec.image.family, _at(request, "image", "family")
    if family is not None and family not in IMAGE_TYPES:
        yield Problem(at, f"GKE has no image {family}", f"use {' or '.join(IMAGE_TYPES)}", _NODE_IMAGES)
        return
    if family != "ubuntu":
        return
    if request.software in ("device-plugin", "dra-driver"):
        what = f"Google's installer of the driver runs on cos alone, and software: {request.software} brings none"
        yield Problem(at, what, "use family: cos, or software: cloud-managed or gpu-operator", f"{_HOW_TO}/gpus")
    if request.instance.is_fraction:
        what = f"a part of a GPU ({request.instance.name}) needs the image cos"
        yield Problem(at, what, "use family: cos", f"{_HOW_TO}/gpus")
    elif _machine(request).startswith(_GVNIC_ALONE):
        what = f"{_machine(request)} (instance_type) has gVNIC interfaces alone, which GKE drives on cos alone"
        yield Problem(at, what, "use family: cos", f"{_HOW_TO}/using-gvnic")


def _disk(request: PoolRequest) -> Iterator[Problem]:
    disk, machine = request.spec.disk, _machine(request)
    kinds = boot_disk_types(machine)
    if disk.type is not None and disk.type not in kinds:
        what = f"{machine} (instance_type) does not boot from {shown(disk.type)}"
        yield Problem(_at(request, "disk", "type"), what, f"use {' or '.join(kinds)}", _MACHINES)
    if disk.encryption_key is not None and not re.fullmatch(_KMS_KEY, disk.encryption_key):
        what = f"{shown(disk.encryption_key)} is no key of Cloud KMS"
        fix = "write projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>"
        yield Problem(_at(request, "disk", "encryption_key"), what, fix, _KEYS)
    if disk.local_nvme == "raid0" and not request.instance.local_disk_gb:
        what = f"{machine} (instance_type) comes without Local SSD, and how many to add is not said here"
        fix = "set overrides.gcp.NodePool.nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount"
        yield Problem(
            _at(request, "disk", "local_nvme"), what, fix, "https://docs.cloud.google.com/compute/docs/disks/local-ssd"
        )


def boot_disk_types(machine: str) -> tuple[str, ...]:
    """Return the disk types a machine type can boot from, the usual one first."""
    return next(kinds for names, kinds in _BOOT_DISKS.items() if machine.startswith(names))


def _rdma(request: PoolRequest) -> Iterator[Problem]:
    if not request.spec.network.rdma:
        if request.spec.network.gpu_networks:
            what = "gpu_networks are for GPUDirect interfaces, which the pool does not ask for"
            yield Problem(
                _at(request, "network", "gpu_networks"), what, "write rdma: true as well, or leave it out", _TCPX
            )
        return
    at, machine, zones = _at(request, "network", "rdma"), _machine(request), zones_of(request)
    if not request.instance.rdma:
        able = "a3-highgpu-8g, a3-megagpu-8g, a3-ultragpu-8g, a4-highgpu-8g, a4x-highgpu-4g, a4x-maxgpu-4g-metal"
        yield Problem(at, f"{machine} (instance_type) has no GPUDirect interfaces", f"take one of {able}", _MACHINES)
    elif not machine.startswith(_NETWORKED) and not machine.startswith(_OWN_NETWORKS):
        what = f"no page or source says that GKE's network driver hands out the interfaces of {machine} (instance_type)"
        fix = "take a3-highgpu-8g, whose four it hands out, or name networks of your own as"
        fix += " overrides.gcp.NodePool.networkConfig.additionalNodeNetworkConfigs and leave rdma out"
        yield Problem(at, what, fix, _TCPX)
    else:
        yield from _gpu_networks(request)
    if len(zones) != 1:
        what = f"the nodes are in {'several zones' if zones else 'zones that only the cluster knows'} (zones)"
        yield Problem(at, f"GPUDirect networks are of one zone; {what}", "name one zone under zones", _NETWORKS)


def _pods(request: PoolRequest) -> Iterator[Problem]:
    most = request.spec.network.max_pods
    if most is not None and not 8 <= most <= 256:
        what = f"got {most}; GKE takes 8 to 256 pods on a node"
        source = f"{_HOW_TO}/flexible-pod-cidr"
        yield Problem(_at(request, "network", "max_pods"), what, "choose a number from 8 to 256", source)


def _gpu_networks(request: PoolRequest) -> Iterator[Problem]:
    """Refuse networks that are not one for each GPUDirect interface, or that GKE makes itself."""
    at, machine, given = _at(request, "network", "gpu_networks"), _machine(request), request.spec.network.gpu_networks
    if not machine.startswith(_OWN_NETWORKS):
        if given:
            what = f"GKE makes the networks of {machine} (instance_type) itself"
            yield Problem(at, what, "leave it out", _NETWORKS)
        return
    needed = request.instance.rdma_interfaces or 0
    if len(given) != needed:
        what = (
            f"got {len(given)}, and each of the {needed} GPUDirect-TCPX interfaces of {machine} (instance_type) is in"
        )
        what += " a network of its own, which GKE does not make"
        yield Problem(at, what, "name them: gpu_networks: [{network: …, subnetwork: …}, …]", _TCPX)
    for index, each in enumerate(given):
        for key, name in (("network", each.network), ("subnetwork", each.subnetwork)):
            if not re.fullmatch(_NETWORK_NAME, name):
                what = f"{shown(name)} is no name of a {key}"
                yield Problem((*at, index, key), what, "write its name, or projects/… in full", _TCPX)
        if any(each.network == other.network for other in given[:index]):
            what = f"{shown(each.network)} is given twice, and a machine has one interface in a network"
            yield Problem((*at, index, "network"), what, "name another one", _TCPX)
    by_hand = _by_hand(request, "networkConfig")
    if isinstance(by_hand, Mapping) and "additionalNodeNetworkConfigs" in by_hand:
        where = _at(request, *_OVERRIDES, "networkConfig", "additionalNodeNetworkConfigs")
        yield Problem(where, "network.gpu_networks name the same interfaces", "leave one of both out", _TCPX)


def _nvlink_domain(request: PoolRequest) -> Iterator[Problem]:
    """Refuse what stands against the workload policy that puts nodes into one rack."""
    if not request.spec.network.compute_domains:
        return
    at, spec, zones = _at(request, "network", "compute_domains"), request.spec, zones_of(request)
    if len(zones) != 1 or len(spec.zones) != 1:
        yield Problem(at, "the nodes of an NVLink domain are in one zone (zones)", "name one zone under zones", _NVLINK)
    most = _RACK_GPUS // (request.instance.devices or 1)
    if spec.nodes.max > most:
        what = f"got up to {spec.nodes.max} nodes, and a rack has {most} of {_machine(request)} (instance_type)"
        yield Problem(_at(request, "nodes"), what, f"write {most} or fewer, and another pool for another rack", _NVLINK)
    if spec.network.placement is not None:
        what = "network.placement and compute_domains would each give the pool a placement policy"
        yield Problem(at, what, "leave placement out: the nodes of a rack are close together", _NVLINK)
    if spec.upgrade.strategy == "blue-green":
        what = "a placement policy and upgrade.strategy blue-green exclude each other"
        yield Problem(at, what, "use strategy: surge", _TOOLKIT)


def _placement(request: PoolRequest) -> Iterator[Problem]:
    spec, zones = request.spec, zones_of(request)
    if spec.network.placement is None:
        return
    at = _at(request, "network", "placement")
    if len(zones) != 1:
        what = f"compact nodes are in one zone; these are in {len(zones) or 'an unknown number of'} zones (zones)"
        yield Problem(at, what, "name one zone under zones", _TOOLKIT)
    if spec.upgrade.strategy == "blue-green":
        what = "compact placement and upgrade.strategy blue-green exclude each other"
        yield Problem(at, what, "use strategy: surge", _TOOLKIT)
    if isinstance(spec.capacity, Queued):
        what = "queued nodes (capacity.mode) cannot be placed compactly"
        yield Problem(at, what, "leave placement out", _TOOLKIT)
    if isinstance(spec.capacity, FlexStart) and not _machine(request).startswith(_COMPACT_FLEX_START):
        what = f"flex-start (capacity.mode) places {_machine(request)} not compactly, only A3 Ultra and A4"
        yield Problem(at, what, "leave placement out", _TOOLKIT)


def _secure_boot(request: PoolRequest) -> Iterator[Problem]:
    """Allow Secure Boot where every kernel module is signed by Google: its driver, on its image."""
    if not request.spec.security.secure_boot:
        return
    at = _at(request, "security", "secure_boot")
    if request.software != "cloud-managed":
        software = request.software
        what = f"Secure Boot refuses unsigned drivers, and with software {software} GKE does not bring its signed one"
        yield Problem(at, what, "use software: cloud-managed", _SHIELDED)
    if request.spec.image.family == "ubuntu":
        what = "Secure Boot refuses unsigned drivers, and on image.family ubuntu the driver is built on the node"
        yield Problem(at, what, "use image: {family: cos}", _SHIELDED)


def _upgrade(request: PoolRequest) -> Iterator[Problem]:
    upgrade = request.spec.upgrade
    if upgrade.strategy == "blue-green":
        if "max_surge" in upgrade.model_fields_set:
            what = "upgrade.strategy blue-green makes a whole second set of nodes, so max_surge says nothing"
            yield Problem(_at(request, "upgrade", "max_surge"), what, "leave it out", _POOL_SCHEMA)
        if not upgrade.max_unavailable:
            what = "with upgrade.strategy blue-green it is the number of nodes drained at a time, at least 1"
            yield Problem(_at(request, "upgrade", "max_unavailable"), what, "write 1 or more", _POOL_SCHEMA)
    elif upgrade.max_surge + upgrade.max_unavailable > _MOST_AT_A_TIME:
        what = f"max_surge {upgrade.max_surge} and max_unavailable {upgrade.max_unavailable} are more than GKE upgrades"
        yield Problem(_at(request, "upgrade", "max_surge"), what, f"keep the sum at {_MOST_AT_A_TIME}", _POOL_SCHEMA)


def _tags(request: PoolRequest) -> Iterator[Problem]:
    yield from _resource_labels(_at(request, "tags"), request.spec.tags, {})
    by_hand = _by_hand(request, "nodeConfig", "resourceLabels")
    if isinstance(by_hand, Mapping):
        given = {key: value for key, value in by_hand.items() if value is not None}
        at = _at(request, *_OVERRIDES, "nodeConfig", "resourceLabels")
        yield from _resource_labels(at, given, request.spec.tags)


def _resource_labels(at: Path, labels: Mapping[str, object], beside: Mapping[str, str]) -> Iterator[Problem]:
    """Say what is wrong with labels of Google Cloud, which stand beside others on the same pool."""
    most = len({*labels, *beside})
    if most > _MOST_LABELS:
        what = f"{most} tags; a resource of Google Cloud has {_MOST_LABELS} labels at most"
        yield Problem(at, what, "drop some", _LABELS)
    for key, value in labels.items():
        if not isinstance(key, str) or not isinstance(value, str):
            yield Problem((*at, str(key)), f"got {shown(value)}, and a label is text", "write it in quotes")
            continue
        if not key or not _is_label(key) or not key[0].isalpha():
            what = f"{shown(key)} is no label key of Google Cloud"
            fix = "start with a lower-case letter; then lower-case letters, digits, '_' and '-', 63 in all"
            yield Problem((*at, key), what, fix, _LABELS)
        elif key.startswith("goog-"):
            yield Problem((*at, key), "Google keeps labels that start with goog- for itself", "rename it", _LABELS)
        if value and not _is_label(value):
            what = f"{shown(value)} is no label value of Google Cloud"
            fix = "use at most 63 lower-case letters, digits, '_' and '-'"
            yield Problem((*at, key), what, fix, _LABELS)


def _is_label(text: str) -> bool:
    """Say whether Google Cloud takes the characters: letters without capitals of any script, digits, `_` and `-`."""
    kinds = {"Ll", "Lo", "Nd"}
    return len(text) <= _LABEL_LENGTH and all(each in "_-" or unicodedata.category(each) in kinds for each in text)
