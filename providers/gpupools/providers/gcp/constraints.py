"""Rejects pools that GKE cannot run: GPUs, sharing, and settings that exclude each other. Pure."""

import pathlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpupools.common.errors import Path, Problem, shown
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud_tables import read_capabilities
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.gcp.cluster import ZONE, GkeCluster, is_default_account
from gpupools.providers.gcp.machines import boot_disk_types, n1_most_vcpus
from gpupools.providers.gcp.pool_plan import node_zones, uniform_profile
from gpupools.providers.gcp.pool_settings import IMAGE_TYPES, NO_DEVICE_PLUGIN_LABEL, OVERRIDABLE
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
_COMPACT = f"{_HOW_TO}/compact-placement"
# Lists the supported machines; dstackai/dstack issue 2591 has the API's refusal of N1.
_PLACEMENT_POLICIES = "https://docs.cloud.google.com/ai-hypercomputer/docs/placement-policy-and-workload-policy"
_AUTOSCALER = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md"
_POOL_SCHEMA = (
    "https://github.com/hashicorp/terraform-provider-google/blob/main/google/services/container/"
    "resource_container_node_pool.go"
)

# Machine types below begin with one of these names.

_CAPACITY_MODES = {
    ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"): ("spot", "flex-start", "queued"),
    ("a3-ultragpu-", "a4-"): ("reservation", "spot", "flex-start", "queued"),
    ("a4x-",): ("reservation",),
    ("a3-edgegpu-",): ("on-demand", "reservation", "spot"),
}
"""How capacity for a machine can be had, where not in every way; each row is a note of the page in `_MACHINES`."""

# Machines for which GKE makes the networks itself; A3 High and A3 Edge are not on the page. That GKE's network driver
# gives pods the four gVNICs of A3 High stands in the source of its autoscaler (k8s.io/gke-autoscaling,
# cluster-autoscaler/pkg/cloudprovider/gke/dynamicresources/dranet_test.go) and in `_TOOLKIT`
# (is_dranet_supported_machine).
_AUTO_NETWORKS = ("a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")
_OWN_NETWORKS = "a3-highgpu-8g"
_TCPX = f"{_HOW_TO}/gpu-bandwidth-gpudirect-tcpx"
_NETWORK_NAME = r"(projects/[^/]+/(global/networks|regions/[^/]+/subnetworks)/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?"

_RACK_GPUS = 72
_NVLINK = "GoogleCloudPlatform/cluster-toolkit examples/gke-a4x/gke-a4x.yaml"

# Machines of the third generation and later have no VirtIO interface; G2 and older have both kinds.
# https://docs.cloud.google.com/compute/docs/networking/using-gvnic, https://github.com/siderolabs/pkgs/issues/1295
_GVNIC_ALONE = ("a3-", "a4-", "a4x-", "g4-")

_COMPACT_FLEX_START = ("a3-ultragpu-", "a4-")

_MAX_UPGRADED = 20
_MAX_LABELS = 64
_LABEL_LENGTH = 63
_KMS_KEY = r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+"
_RESERVATION = (
    r"(?:projects/[a-z0-9.:-]+/reservations/)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
    r"(?:/reservationBlocks/[-a-z0-9]+(?:/reservationSubBlocks/[-a-z0-9]+)?)?"
)


def check_settings(request: PoolRequest) -> list[Problem]:
    """Return the settings that GKE rejects, alone, together, or with the pool's machine type."""
    return [
        *_capacity_mode(request),
        *_capacity(request),
        *_reservation_override(request),
        *_zones(request),
        *_nodes(request),
        *_image(request),
        *_driver(request),
        *_disk(request),
        *_rdma(request),
        *_nvlink_domain(request),
        *_placement(request),
        *_secure_boot(request),
        *_upgrade(request),
        *_tags(request),
        *_adoption(request),
        *_overrides(request),
    ]


NAME_LIMIT = 40
"""Characters of a node pool's name (`_API`)."""
_NAME = r"[a-z](?:[-a-z0-9]*[a-z0-9])?"
_API = "https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools"


def _adoption(request: PoolRequest) -> Iterator[Problem]:
    """Reject an invalid node pool name, and a cluster whose name or project is not known yet."""
    adopt, cluster, at = request.spec.adopt, request.cluster_as(GkeCluster), ("adopt", "name")
    if adopt is None:
        return
    if not re.fullmatch(_NAME, adopt.name) or len(adopt.name) > NAME_LIMIT:
        what = f"{shown(adopt.name)} is not a node pool name: up to {NAME_LIMIT} lower-case letters, digits and '-'"
        yield Problem(at, what, "use a name that gcloud container node-pools list prints", _API)
    if not isinstance(cluster.name, str) or not isinstance(cluster.project, str):
        what = "importing a pool needs the cluster's name and project before the program runs"
        yield Problem(at, what, "write both in the cluster as text")


def _overrides(request: PoolRequest) -> list[Problem]:
    twice = [
        *_software_overrides(request),
        *_scope_override(request),
        *_surge_override(request),
        *_service_account_override(request),
        *_autoscaling_override(request),
    ]
    reported = {problem.path for problem in twice}
    problems = override_problems((), request.spec.overrides.get("gcp", {}), "gcp", OVERRIDABLE)
    return [*twice, *(problem for problem in problems if problem.path not in reported)]


def _software_overrides(request: PoolRequest) -> Iterator[Problem]:
    """Name both owners where overrides switch GKE's own software on in addition to the pool's."""
    if request.software == "cloud-managed":
        return
    accelerators, labels = (_override(request, "nodeConfig", key) for key in ("guestAccelerators", "labels"))
    where = (*_OVERRIDES, "nodeConfig")
    for accelerator in accelerators if isinstance(accelerators, list) else []:
        version = value_at(accelerator, "gpuDriverInstallationConfig", "gpuDriverVersion")
        if version not in (None, "INSTALLATION_DISABLED"):
            what = f"GKE's driver ({shown(version)}) and software: {request.software} would both own the driver"
            fix = "remove it, or use software: cloud-managed"
            yield Problem((*where, "guestAccelerators"), what, fix, f"{_HOW_TO}/gpus")
    if isinstance(labels, Mapping) and NO_DEVICE_PLUGIN_LABEL in labels:
        what = f"GKE's device plugin and software: {request.software} would both own the GPUs"
        fix = "remove it, or use software: cloud-managed"
        yield Problem((*where, "labels", NO_DEVICE_PLUGIN_LABEL), what, fix, f"{_HOW_TO}/gpus")


_DRIVER_SCOPES = ("cloud-platform", "devstorage.read_only", "devstorage.read_write", "devstorage.full_control")


def _scope_override(request: PoolRequest) -> Iterator[Problem]:
    """Reject scopes with which nodes cannot download the driver from Cloud Storage."""
    scopes = _override(request, "nodeConfig", "oauthScopes")
    if isinstance(scopes, list) and not any(str(scope).endswith(_DRIVER_SCOPES) for scope in scopes):
        what = "does not let nodes read Cloud Storage, from which GKE's installer downloads the GPU driver"
        fix = "add https://www.googleapis.com/auth/devstorage.read_only, or leave it out"
        yield Problem((*_OVERRIDES, "nodeConfig", "oauthScopes"), what, fix, f"{_HOW_TO}/gpus")


def _surge_override(request: PoolRequest) -> Iterator[Problem]:
    """Reject surge settings with blue-green upgrades, which GKE's API rejects."""
    given = _override(request, "upgradeSettings")
    if not isinstance(given, Mapping):
        return
    planned = request.spec.upgrade.strategy == "blue-green"
    if given.get("strategy", "BLUE_GREEN" if planned else "SURGE") != "BLUE_GREEN":
        return
    surge = [key for key in ("maxSurge", "maxUnavailable") if given.get(key, None if planned else 0) is not None]
    if surge:
        what = f"GKE rejects {' and '.join(surge)} with the strategy BLUE_GREEN"
        fix = "set upgrade: {strategy: blue-green}, and only blueGreenSettings in overrides"
        yield Problem((*_OVERRIDES, "upgradeSettings"), what, fix, _POOL_SCHEMA)


def _service_account_override(request: PoolRequest) -> Iterator[Problem]:
    """Reject Google's default service account, which has far more permissions than a node needs."""
    config = _override(request, "nodeConfig")
    if isinstance(config, Mapping) and is_default_account(config.get("serviceAccount", "own")):
        what = "runs the nodes as Google's default account, which has far more permissions than a node needs"
        fix = "remove it, or use an account with roles/container.defaultNodeServiceAccount"
        yield Problem((*_OVERRIDES, "nodeConfig", "serviceAccount"), what, fix, f"{_HOW_TO}/hardening-your-cluster")


def _autoscaling_override(request: PoolRequest) -> Iterator[Problem]:
    fixed = request.spec.nodes.fixed
    if fixed is not None and _override(request, "autoscaling") is not None:
        what = f"cannot be combined with nodes.fixed {fixed}"
        yield Problem((*_OVERRIDES, "autoscaling"), what, "remove it, or set nodes: {max: …}", _POOL_SCHEMA)


_OVERRIDES = ("overrides", "gcp", "NodePool")


def _override(request: PoolRequest, *path: str) -> Any:
    """Return the value in `overrides` at a path of the node pool; None if there is none."""
    return value_at(request.spec.overrides, *_OVERRIDES[1:], *path)


def _machine(request: PoolRequest) -> str:
    return request.instance.extra["machine_type"]


def _capacity_mode(request: PoolRequest) -> Iterator[Problem]:
    machine, mode = _machine(request), request.spec.capacity.mode
    ways = next((ways for names, ways in _CAPACITY_MODES.items() if machine.startswith(names)), None)
    if ways is None or mode in ways or mode == "capacity-block":
        return
    keys = "reservation, name: …" if ways[0] == "reservation" else ways[0]
    others = f" (or {', '.join(ways[1:])})" if len(ways) > 1 else ""
    instead = "; or use a3-highgpu-8g" if machine.startswith("a3-highgpu-") and mode == "on-demand" else ""
    what = f"{machine} (instance_type) is not available as {mode}"
    yield Problem(("capacity", "mode"), what, f"set capacity: {{mode: {keys}}}{others}{instead}", _MACHINES)


def _capacity(request: PoolRequest) -> Iterator[Problem]:
    spec, capacity = request.spec, request.spec.capacity
    at = ("capacity", "mode")
    if isinstance(capacity, Reservation):
        if not re.fullmatch(_RESERVATION, capacity.name):
            what = f"{shown(capacity.name)} is not the name of a Compute Engine reservation"
            fix = "use its name, or projects/<project>/reservations/<name> for one that another project shares"
            yield Problem(("capacity", "name"), what, fix, _RESERVATIONS)
        if not node_zones(request):
            what = "a reservation is zonal, and the pool sets no zones"
            yield Problem(at, what, "write zones: […], each with a reservation of this name", _RESERVATIONS)
    if not isinstance(capacity, FlexStart | Queued):
        return
    mode = capacity.mode
    if spec.nodes.fixed is not None:
        what = f"nodes.fixed {spec.nodes.fixed} does not work with {mode}, which waits for capacity"
        yield Problem(at, what, "set nodes: {max: …} instead of fixed", _TOOLKIT)
    elif isinstance(capacity, Queued) and spec.nodes.min > 0:
        what = f"nodes.min {spec.nodes.min} does not work with queued, whose nodes exist only while their jobs run"
        yield Problem(at, what, "leave nodes.min out", _TOOLKIT)
    if spec.auto_repair and "auto_repair" in spec.model_fields_set:
        what = f"{mode} does not support node repair, but auto_repair is true"
        yield Problem(at, what, "leave auto_repair out", _TOOLKIT)
    for key in sorted(spec.upgrade.model_fields_set):
        what = f"GKE does not upgrade {mode} nodes (capacity.mode), so {key} has no effect"
        yield Problem(("upgrade", key), what, "leave it out", _UPGRADE_STRATEGIES)


def _reservation_override(request: PoolRequest) -> Iterator[Problem]:
    """Reject a reservation in overrides with a capacity mode that excludes reservations."""
    mode, affinity = request.spec.capacity.mode, _override(request, "nodeConfig", "reservationAffinity")
    if affinity is None or mode == "on-demand":
        return
    kind = affinity.get("consumeReservationType", "NO_RESERVATION") if isinstance(affinity, Mapping) else affinity
    if mode == "reservation" or kind != "NO_RESERVATION":
        at = (*_OVERRIDES, "nodeConfig", "reservationAffinity")
        what = f"conflicts with capacity.mode {mode}, which decides whether a reservation is used"
        yield Problem(at, what, "remove one of them", _RESERVATIONS)


def _zones(request: PoolRequest) -> Iterator[Problem]:
    location = request.cluster_as(GkeCluster).location
    zone = ZONE.fullmatch(location)
    region = zone["region"] if zone else location
    for index, name in enumerate(request.spec.zones):
        match = ZONE.fullmatch(name)
        where = ("zones", index)
        if match is None:
            yield Problem(where, f"{shown(name)} is not a zone of Google Cloud", f"use e.g. {region}-a", _REGIONS)
        elif match["region"] != region:
            what = f"{name} is in {match['region']}, but the cluster is in {location}"
            yield Problem(where, what, f"use zones of {region}", _REGIONS)
        elif (places := request.cluster.known_places()).has_zone(name, region) is False:
            yield Problem(where, f"{name} does not exist", places.zone_fix(region), _REGIONS)
        elif name in request.spec.zones[:index]:
            yield Problem(where, f"{name} is listed twice", "list each zone once")


def _nodes(request: PoolRequest) -> Iterator[Problem]:
    """Reject an autoscaler of bare metal, and a number of nodes that does not divide by zones.

    `nodeCount` and `initialNodeCount` count per zone. A pool has to start at its minimum, since the cluster autoscaler
    does not lift it there by itself
    (`enforce-node-group-min-size` is off, _AUTOSCALER).
    """
    if _machine(request).startswith("a4x-max") and request.spec.nodes.fixed is None:
        what = f"{_machine(request)} (instance_type) is bare metal, which GKE's autoscaler does not start"
        yield Problem(("nodes",), what, "set nodes: {fixed: …}", f"{_HOW_TO}/allocate-network-resources-dra")
    nodes, zones = request.spec.nodes, node_zones(request)
    if not nodes.min or (isinstance(request.spec.capacity, Queued) and nodes.fixed is None):
        return  # `_capacity` reports that queued nodes have no minimum
    if request.spec.adopt is not None and nodes.fixed is None:
        return  # an adopted pool has its first nodes
    key, word = ("min", "the first") if nodes.fixed is None else ("fixed", "fixed")
    at, source = ("nodes", key), _POOL_SCHEMA if nodes.fixed is not None else _AUTOSCALER
    if not zones:
        what = f"GKE counts {word} nodes per zone, and neither zones nor the cluster's node_locations is set"
        yield Problem(at, what, "write zones: […]", source)
    elif nodes.min % len(zones):
        lower = nodes.min // len(zones) * len(zones)
        near = [lower] if lower or (nodes.fixed is None and request.software != DRA_DRIVER) else []
        near += [lower + len(zones)] if nodes.fixed is not None or lower + len(zones) <= nodes.max else []
        even = f"use {' or '.join(map(str, near))}, or fewer zones" if near else "use fewer zones"
        what = f"got {nodes.min}; GKE needs the same number of nodes in each of {len(zones)} zones ({', '.join(zones)})"
        yield Problem(at, what, even, source)


def _image(request: PoolRequest) -> Iterator[Problem]:
    family, at = request.spec.image.family, ("image", "family")
    if family is not None and family not in IMAGE_TYPES:
        yield Problem(at, f"GKE has no image {family}", f"use {' or '.join(IMAGE_TYPES)}", _NODE_IMAGES)
        return
    if family != "ubuntu":
        return
    if request.software in ("device-plugin", "dra-driver"):
        what = f"Google's driver installer runs on cos only, and software: {request.software} does not install a driver"
        yield Problem(at, what, "use family: cos, or software: cloud-managed or gpu-operator", f"{_HOW_TO}/gpus")
    if request.instance.is_fraction:
        what = f"a fractional GPU ({request.instance.name}) needs the image cos"
        yield Problem(at, what, "use family: cos", f"{_HOW_TO}/gpus")
    elif _machine(request).startswith(_GVNIC_ALONE):
        what = f"{_machine(request)} (instance_type) has gVNIC interfaces only, which GKE supports on cos only"
        yield Problem(at, what, "use family: cos", f"{_HOW_TO}/using-gvnic")


def _disk(request: PoolRequest) -> Iterator[Problem]:
    disk, machine = request.spec.disk, _machine(request)
    kinds = boot_disk_types(machine)
    if disk.type is not None and disk.type not in kinds:
        what = f"{machine} (instance_type) cannot boot from {shown(disk.type)}"
        yield Problem(("disk", "type"), what, f"use {' or '.join(kinds)}", _MACHINES)
    if disk.encryption_key is not None and not re.fullmatch(_KMS_KEY, disk.encryption_key):
        what = f"{shown(disk.encryption_key)} is not a Cloud KMS key"
        fix = "use projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>"
        yield Problem(("disk", "encryption_key"), what, fix, _KEYS)
    if disk.local_nvme == "raid0" and not request.instance.local_disk_gb:
        what = f"{machine} (instance_type) has no Local SSD by default, and raid0 does not set how many to add"
        fix = "set overrides.gcp.NodePool.nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount"
        yield Problem(("disk", "local_nvme"), what, fix, "https://docs.cloud.google.com/compute/docs/disks/local-ssd")


def _rdma(request: PoolRequest) -> Iterator[Problem]:
    if not request.spec.network.rdma:
        if request.spec.network.gpu_networks:
            what = "gpu_networks is for GPUDirect interfaces, which need rdma: true"
            yield Problem(("network", "gpu_networks"), what, "set rdma: true, or leave it out", _TCPX)
        return
    at, machine, zones = ("network", "rdma"), _machine(request), node_zones(request)
    if not request.instance.rdma:
        able = "a3-highgpu-8g, a3-megagpu-8g, a3-ultragpu-8g, a4-highgpu-8g, a4x-highgpu-4g, a4x-maxgpu-4g-metal"
        yield Problem(at, f"{machine} (instance_type) has no GPUDirect interfaces", f"use one of {able}", _MACHINES)
    elif not machine.startswith(_AUTO_NETWORKS) and not machine.startswith(_OWN_NETWORKS):
        what = f"support of GKE's network driver for the interfaces of {machine} (instance_type) is not documented"
        fix = "use a3-highgpu-8g, whose four interfaces it supports, or set networks of your own in"
        fix += " overrides.gcp.NodePool.networkConfig.additionalNodeNetworkConfigs and leave rdma out"
        yield Problem(at, what, fix, _TCPX)
    else:
        yield from _gpu_networks(request)
    if len(zones) != 1:
        what = f"the nodes are in {'several zones' if zones else 'zones that only the cluster knows'}"
        yield Problem(at, f"GPUDirect networks are limited to one zone, but {what}", "set one zone in zones", _NETWORKS)


def _gpu_networks(request: PoolRequest) -> Iterator[Problem]:
    """Reject networks that do not match the GPUDirect interfaces, or that GKE creates itself."""
    at, machine, given = ("network", "gpu_networks"), _machine(request), request.spec.network.gpu_networks
    if not machine.startswith(_OWN_NETWORKS):
        if given:
            what = f"GKE creates the networks of {machine} (instance_type) itself"
            yield Problem(at, what, "leave it out", _NETWORKS)
        return
    needed = request.instance.rdma_interfaces or 0
    if len(given) != needed:
        what = f"got {len(given)}; each of the {needed} GPUDirect-TCPX interfaces of {machine} (instance_type) needs a"
        what += " network of its own, which GKE does not create"
        yield Problem(at, what, "list them: gpu_networks: [{network: …, subnetwork: …}, …]", _TCPX)
    for index, network in enumerate(given):
        for key, name in (("network", network.network), ("subnetwork", network.subnetwork)):
            if not re.fullmatch(_NETWORK_NAME, name):
                what = f"{shown(name)} is not a {key} name"
                yield Problem((*at, index, key), what, "use its name, or the full projects/… path", _TCPX)
        if any(network.network == other.network for other in given[:index]):
            what = f"{shown(network.network)} is listed twice; a machine can have one interface per network"
            yield Problem((*at, index, "network"), what, "use another network", _TCPX)
    by_hand = _override(request, "networkConfig")
    if isinstance(by_hand, Mapping) and "additionalNodeNetworkConfigs" in by_hand:
        where = (*_OVERRIDES, "networkConfig", "additionalNodeNetworkConfigs")
        yield Problem(where, "cannot be combined with network.gpu_networks", "remove one of them", _TCPX)


def _nvlink_domain(request: PoolRequest) -> Iterator[Problem]:
    """Reject settings that conflict with the workload policy that puts all nodes into one rack."""
    if not request.spec.network.compute_domains:
        return
    at, spec, zones = ("network", "compute_domains"), request.spec, node_zones(request)
    if len(zones) != 1 or len(spec.zones) != 1:
        yield Problem(at, "the nodes of an NVLink domain must be in one zone", "set one zone in zones", _NVLINK)
    most = _RACK_GPUS // (request.instance.devices or 1)
    if spec.nodes.max > most:
        what = f"got up to {spec.nodes.max} nodes; a rack has {most} of {_machine(request)} (instance_type)"
        yield Problem(("nodes",), what, f"use {most} or fewer, and one pool per rack", _NVLINK)
    if spec.network.placement is not None:
        what = "network.placement and compute_domains each need the one placement policy of the pool"
        yield Problem(at, what, "leave placement out; the nodes of a rack are close together", _NVLINK)
    if spec.upgrade.strategy == "blue-green":
        what = "a placement policy and upgrade.strategy blue-green exclude each other"
        yield Problem(at, what, "use strategy: surge", _TOOLKIT)


def _driver(request: PoolRequest) -> Iterator[Problem]:
    """Reject a driver version where GKE does not install the driver, or has only one."""
    driver, at = request.spec.driver, ("driver",)
    if driver is not None and request.software != "cloud-managed":
        what = f"GKE installs the driver only with software: cloud-managed, not {request.software}"
        yield Problem(at, what, "leave driver out, or use software: cloud-managed", f"{_HOW_TO}/gpus")
    elif driver == "latest" and request.spec.image.family == "ubuntu":
        what = "GKE has no latest driver for Ubuntu nodes"
        yield Problem(at, what, "use driver: default, or image: {family: cos}", f"{_HOW_TO}/gpus")


def _placement(request: PoolRequest) -> Iterator[Problem]:
    spec, zones, policy_at = request.spec, node_zones(request), ("network", "placement_policy")
    if spec.network.placement is None:
        if spec.network.placement_policy is not None:
            yield Problem(policy_at, "placement_policy requires compact placement", "add placement: compact", _COMPACT)
        return
    at = ("network", "placement")
    if _machine(request).startswith("n1-"):
        what = f"Compute Engine has no compact placement for N1 machines, such as {_machine(request)}"
        yield Problem(at, what, "leave placement out, or use another GPU", _PLACEMENT_POLICIES)
    if isinstance(spec.capacity, Reservation) and spec.network.placement_policy is None:
        # https://github.com/AI-Hypercomputer/xpk issue 1073, pull request 1074
        what = "compact placement would create a new placement policy, but the machines of a reservation have their own"
        fix = "set network.placement_policy to the policy of the reservation; if it has none, leave placement out"
        yield Problem(at, what, fix, _COMPACT)
    if len(zones) != 1:
        what = f"compact placement needs one zone; the nodes are in {len(zones) or 'an unknown number of'} zones"
        yield Problem(at, what, "set one zone in zones", _TOOLKIT)
    if spec.upgrade.strategy == "blue-green":
        what = "compact placement and upgrade.strategy blue-green exclude each other"
        yield Problem(at, what, "use strategy: surge", _TOOLKIT)
    if isinstance(spec.capacity, Queued):
        what = "compact placement does not work with capacity.mode queued"
        yield Problem(at, what, "leave placement out", _TOOLKIT)
    if isinstance(spec.capacity, FlexStart) and not _machine(request).startswith(_COMPACT_FLEX_START):
        what = f"with capacity.mode flex-start, compact placement needs A3 Ultra or A4, not {_machine(request)}"
        yield Problem(at, what, "leave placement out", _TOOLKIT)


def _secure_boot(request: PoolRequest) -> Iterator[Problem]:
    """Reject Secure Boot unless Google signs every kernel module: its own driver on its own image."""
    if not request.spec.security.secure_boot:
        return
    at = ("security", "secure_boot")
    if request.software != "cloud-managed":
        software = request.software
        what = f"Secure Boot rejects unsigned drivers, and with software {software} GKE does not install its signed one"
        yield Problem(at, what, "use software: cloud-managed", _SHIELDED)
    if request.spec.image.family == "ubuntu":
        what = "Secure Boot rejects unsigned drivers, and on image.family ubuntu the driver is built on the node"
        yield Problem(at, what, "use image: {family: cos}", _SHIELDED)


def _upgrade(request: PoolRequest) -> Iterator[Problem]:
    upgrade = request.spec.upgrade
    if upgrade.strategy == "blue-green":
        if "max_surge" in upgrade.model_fields_set:
            what = "max_surge has no effect with upgrade.strategy blue-green, which creates a second set of nodes"
            yield Problem(("upgrade", "max_surge"), what, "leave it out", _POOL_SCHEMA)
        if not upgrade.max_unavailable:
            what = "got 0; with upgrade.strategy blue-green it is the number of nodes to drain at a time"
            yield Problem(("upgrade", "max_unavailable"), what, "use 1 or more", _POOL_SCHEMA)
    elif upgrade.max_surge + upgrade.max_unavailable > _MAX_UPGRADED:
        what = f"got {upgrade.max_surge} + max_unavailable {upgrade.max_unavailable}; GKE allows {_MAX_UPGRADED}"
        yield Problem(("upgrade", "max_surge"), what, f"keep the sum <= {_MAX_UPGRADED}", _POOL_SCHEMA)


def _tags(request: PoolRequest) -> Iterator[Problem]:
    yield from _resource_labels(("tags",), request.spec.tags, {})
    by_hand = _override(request, "nodeConfig", "resourceLabels")
    if isinstance(by_hand, Mapping):
        given = {key: value for key, value in by_hand.items() if isinstance(key, str) and isinstance(value, str)}
        at = (*_OVERRIDES, "nodeConfig", "resourceLabels")
        yield from _resource_labels(at, given, request.spec.tags)


def _resource_labels(at: Path, labels: Mapping[str, str], beside: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of Google Cloud labels that are merged with others of the same pool."""
    most = len({*labels, *beside})
    if most > _MAX_LABELS:
        what = f"got {most} tags; Google Cloud allows {_MAX_LABELS} labels on a resource"
        yield Problem(at, what, "remove some", _LABELS)
    for key, value in labels.items():
        if not key or not _is_label(key) or not key[0].isalpha():
            what = f"{shown(key)} is not a Google Cloud label key"
            fix = "start with a lower-case letter; then lower-case letters, digits, '_' and '-', 63 in all"
            yield Problem((*at, key), what, fix, _LABELS)
        elif key.startswith("goog-"):
            yield Problem((*at, key), "Google reserves labels that start with goog-", "rename it", _LABELS)
        if value and not _is_label(value):
            what = f"{shown(value)} is not a Google Cloud label value"
            fix = "use at most 63 lower-case letters, digits, '_' and '-'"
            yield Problem((*at, key), what, fix, _LABELS)


def _is_label(text: str) -> bool:
    """Return whether Google Cloud accepts the text: letters of any script without capitals, digits, `_` and `-`."""
    kinds = {"Ll", "Lo", "Nd"}
    return len(text) <= _LABEL_LENGTH and all(glyph in "_-" or unicodedata.category(glyph) in kinds for glyph in text)


MOST_SHARED_CLIENTS = 48
"""Most containers per GPU under time-sharing or MPS; 2 is the least.

The bounds are those of `maxSharedClientsPerGPU` in the reference of GKE's ComputeClass, as
https://github.com/kcl-lang/modules/pull/358 quotes it; the reference of node pools names none.
"""
_CLIENTS_SOURCE = "https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass"
_NAME_SOURCE = "https://github.com/GoogleCloudPlatform/container-engine-accelerators (pkg/gpu/nvidia/manager.go)"

MIG_PARTITIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "A100-40GB": ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"),
        "A100-80GB": ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"),
        "H100-80GB": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb"),
        "H200-141GB": ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
        "B200": ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
        "RTX-PRO-6000": (
            *("1g.24gb", "1g.24gb+me", "1g.24gb+gfx", "1g.24gb+me.all", "1g.24gb-me"),
            *("2g.48gb", "2g.48gb+gfx", "2g.48gb+me.all", "2g.48gb-me", "4g.96gb", "4g.96gb+gfx"),
        ),
    }
)
"""Values of `gpuPartitionSize` by GPU model: GKE always cuts as many as fit.

The file that says so has sizes for GB200 too; they are left out here for the reason in `COHERENT_MEMORY`.
"""
_PARTITIONS = (
    "https://github.com/GoogleCloudPlatform/container-engine-accelerators/blob/master/pkg/gpu/nvidia/mig/mig.go"
)

COHERENT_MEMORY = frozenset({"GB200", "GB300"})
"""GPUs whose driver on GKE manages memory coherently (CDMM), which rules MIG out."""
_COHERENT_SOURCE = "https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute"


def check_pool(request: PoolRequest) -> list[Problem]:
    """Reject sharing that GKE has no field for, GPUs that it cannot cut, and N1 machines too large for their GPUs."""
    return [
        *_clients(request),
        *_inexpressible_mig(request),
        *_too_large_n1(request),
    ]


def _clients(request: PoolRequest) -> Iterator[Problem]:
    machine, clients = request.instance, request.spec.sharing.clients
    if clients is None:
        return
    if machine.is_fraction:
        what = f"{machine.name} has {machine.gpus} of an {machine.gpu_model}, which GKE does not share"
        fix = "leave sharing out, or use a machine with a whole GPU"
        yield Problem(("sharing", "mode"), what, fix, machine.source)
    at = ("sharing", *request.spec.sharing.clients_at)
    if clients.replicas > MOST_SHARED_CLIENTS:
        what = f"got {clients.replicas}; GKE shares a GPU among at most {MOST_SHARED_CLIENTS} containers"
        yield Problem((*at, "replicas"), what, f"use {MOST_SHARED_CLIENTS} or fewer", _CLIENTS_SOURCE)
    if clients.rename and request.software == "cloud-managed":
        cells = read_capabilities(pathlib.Path(__file__).parent).items()
        ways = [name for (name, kind), cell in cells if kind == request.sharing and cell.verdict is Verdict.IN_CLUSTER]
        what = "GKE's device plugin calls every replica nvidia.com/gpu, and the node pool has no field for another name"
        instead = f"use software: {' or '.join(ways)}"
        fix = f"leave it out, or {instead}" if ways else "leave it out; pods request nvidia.com/gpu"
        yield Problem((*at, "rename"), what, fix, _NAME_SOURCE)


def _inexpressible_mig(request: PoolRequest) -> Iterator[Problem]:
    sharing, model = request.spec.sharing.mig, request.instance.gpu_model
    if sharing is None:
        return
    if model in COHERENT_MEMORY:
        what = f"GKE cannot cut {model} GPUs: their driver manages memory coherently (CDMM), which excludes MIG"
        fix = f"use time-slicing or mps, or a GPU that GKE cuts: {', '.join(MIG_PARTITIONS)}"
        yield Problem(("sharing", "mode"), what, fix, _COHERENT_SOURCE)
        return
    if request.capability.verdict is not Verdict.NATIVE:
        return
    from gpupools.catalog.mig import profile  # its tables are slow to load, and most pools cut nothing

    partitions = {name: profile(model, name).max_instances for name in MIG_PARTITIONS.get(model, ())}
    size = uniform_profile(sharing)
    key = "profile" if sharing.profile is not None else "layout"
    if size not in partitions:
        known = ", ".join(f"{name} ({count} per GPU)" for name, count in partitions.items())
        fix = f"GKE supports: {known}" if known else "GKE cuts no GPU of this model; use time-slicing or mps"
        yield Problem(("sharing", key), f"GKE cannot cut {model} GPUs into {size}", fix, _PARTITIONS)
    elif key == "layout" and len(next(iter(sharing.gpu_layouts().values()))) != partitions[size]:
        what = f"GKE cuts the whole {model} into {partitions[size]} × {size}"
        yield Problem(("sharing", key), what, f"use profile: {size}", _PARTITIONS)


def _too_large_n1(request: PoolRequest) -> Iterator[Problem]:
    instance = request.instance
    most = n1_most_vcpus(instance)
    if most is not None and instance.vcpus is not None and instance.vcpus > most:
        machine, accelerator = instance.extra["machine_type"], instance.extra["accelerator_type"]
        what = f"{machine} has {instance.vcpus} vCPUs; {instance.devices} × {accelerator} allows at most {most}"
        fix = "use a smaller N1 machine or more GPUs"
        yield Problem(("instance_type",), what, fix, "https://docs.cloud.google.com/compute/docs/gpus")
