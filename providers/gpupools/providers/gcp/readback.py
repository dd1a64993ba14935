"""Reads GKE node pools back from their input properties. Never raises, whatever the properties are.

Read are node pools and clusters (pools inside one, its default pool, and node auto-provisioning) of the providers `gcp`
and `google-native`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import CLOUD_EFFECTS, GPU_TAINT
from gpupools.plan.cloud import KubernetesObjects, Readback
from gpupools.plan.pool_facts import (
    NO_ACCELERATOR,
    UNKNOWN,
    Accelerator,
    By,
    MissingTaint,
    PoolFacts,
    SharingFacts,
    SoftwareHints,
)
from gpupools.providers.gcp.added_taints import ARM, ARM_PAGE
from gpupools.providers.gcp.cluster import ZONE, is_default_account
from gpupools.providers.gcp.compute_class import read_compute_class
from gpupools.providers.gcp.karpenter import KARPENTER
from gpupools.providers.gcp.machines import INSTANCE_TYPES
from gpupools.providers.gcp.node_customization import customizations, node_customizations
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL, SHARING_STRATEGIES
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    as_object,
    at,
    controls,
    flag,
    is_list,
    items,
    listed_accelerator,
    mapping,
    number,
    pool_facts,
    retired_machines,
    string_map,
    text,
    wanted_taint,
)

NODE_POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"

# The API itself calls a pool's configuration `config` and has other names for accelerators:
# https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig#AcceleratorConfig
_NATIVE = re.compile(r"google-native:container/v1(?:beta1)?:(NodePool|Cluster)")

# Accelerator-optimized series (a2, a3, a4x, g2, …), so that one newer than the catalogue is still a GPU machine; g1 is
# a shared-core machine. The number before `g` counts the GPUs: a3-highgpu-8g.
# https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
_GPU_SERIES = re.compile(r"[ag][2-9][a-z0-9]{0,8}-[a-z0-9-]+")
_GPUS_IN_NAME = re.compile(r"-(\d{1,3})g(?:-|$)")

_GPUS_PAGE = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus"


def accelerator(machine_type: str) -> Accelerator:
    """Return the accelerator of a machine type, by its name, which does not include the GPUs of N1."""
    row = INSTANCE_TYPES.find(machine_type)
    if found := listed_accelerator(INSTANCE_TYPES, row, machine_type):
        return found
    if _GPU_SERIES.fullmatch(machine_type):
        match = _GPUS_IN_NAME.search(machine_type)
        return Accelerator("nvidia", Fraction(max(1, int(match[1])) if match else 1))
    return NO_ACCELERATOR


def read_pools(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read the pools a declared resource holds; nothing for a resource without.

    Args:
        type_token: The resource's Pulumi type.
        properties: Its inputs in wire form (camelCase), with `UNKNOWN` for what the engine does not know yet.
    """
    native = _NATIVE.fullmatch(type_token) if isinstance(type_token, str) else None
    given = mapping(properties)
    if type_token == NODE_POOL or (native is not None and native[1] == "NodePool"):
        return (_node_pool(given, "", "config" if native else "nodeConfig"),)
    if type_token == CLUSTER or native is not None:
        return tuple(_cluster(given, "config" if native else "nodeConfig"))
    return ()


def _cluster(given: JsonObject, key: str) -> Iterator[PoolFacts]:
    autopilot = at(given, "autopilot.enabled") if key == "config" else given.get("enableAutopilot")
    if flag(autopilot) is True:
        return  # pods ask for GPUs there, and nobody declares a pool
    late: list[str] = []
    pools = list(items(given.get("nodePools"), "nodePools", late))
    for where, one in pools:
        pool = mapping(one)
        found = _node_pool(pool, f"{where}.", key)
        zones = _zones(given, cluster=True) if found.zones is None and not found.zones_unknown else {}
        yield replace(found, pool=text(pool.get("name")), **zones)
    for path in late:
        yield PoolFacts("gcp", (), None, (), unknown=(path,), where=f"{path}.{key}.taints")
    # The cluster's own `nodeConfig` is for its default pool, which exists unless pools are given or it is removed.
    removed = given.get("removeDefaultNodePool")
    if not pools and not late and flag(removed) is not True and given.get("nodeConfig"):
        found, zones = _node_pool(given, "", "nodeConfig"), _zones(given, cluster=True)
        yield replace(found, pool="default-pool", in_cluster=None if removed is UNKNOWN else True, **zones)
    yield from _auto_provisioning(given, key)


def _auto_provisioning(given: JsonObject, key: str) -> Iterator[PoolFacts]:
    """Read what node auto-provisioning may add by itself: it takes GPU types as resources with a limit.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/node-auto-provisioning. GKE taints the GPU nodes that it
    adds (_GPUS_PAGE).
    """
    scaling = given.get("autoscaling" if key == "config" else "clusterAutoscaling")
    path = "autoscaling" if key == "config" else "clusterAutoscaling"
    on = at(scaling, "enableNodeAutoprovisioning" if key == "config" else "enabled")
    if flag(on) is not True and on is not UNKNOWN:
        return
    machines, late = Machines(), list[str]()
    for where, one in items(at(scaling, "resourceLimits"), f"{path}.resourceLimits", late):
        kind, maximum = at(one, "resourceType"), at(one, "maximum")
        if kind is UNKNOWN:
            late.append(f"{where}.resourceType")
        elif isinstance(kind, str) and "nvidia" in kind and (number(maximum) or maximum is UNKNOWN):
            machines.show(Accelerator("nvidia", None, kind), f"{where} {kind}")
    if not machines.evidence and not late:
        return  # without a limit on GPUs none are added
    hardening = Hardening()
    _harden(mapping(at(scaling, "autoProvisioningDefaults")), f"{path}.autoProvisioningDefaults", hardening, auto=True)
    yield replace(
        pool_facts("gcp", machines, TaintsRead([GPU_TAINT]), hardening),
        unknown=() if machines.evidence else tuple(late),
        gpus_per_node=None,
        pool="node auto-provisioning",
        where=f"{path}.resourceLimits",
        missing_taint=MissingTaint(f"{{key: {GPU_TAINT.key}, value: {GPU_TAINT.value}, effect: NO_SCHEDULE}}"),
        in_cluster=None if on is UNKNOWN else True,
        no_taint_field=True,
    )


def _node_pool(pool: JsonObject, prefix: str, key: str) -> PoolFacts:
    path = f"{prefix}{key}"
    declared = pool.get(key)
    config = mapping(declared)
    machines = Machines()
    accelerators = list(_accelerators(config, path, machines.unknown))
    machine = config.get("machineType")
    if declared is UNKNOWN:
        machines.unknown.append(path)
    elif machine is UNKNOWN:
        machines.unknown.append(f"{path}.machineType")
    machine = text(machine).rsplit("/", 1)[-1]  # Compute Engine's APIs take it as a URL too
    _count(machine, accelerators, path, machines)
    read = TaintsRead()
    read.objects(config.get("taints"), f"{path}.taints", CLOUD_EFFECTS)
    if ARM in read.taints:
        read.taints.remove(ARM)
        who = "pods that select Arm nodes, for which GKE adds the toleration"
        read.note(f"{path}.taints: {ARM} does not keep off {who} ({ARM_PAGE})")
    hardening = Hardening()
    _harden(config, path, hardening)
    hardening.check(pool, controls(__package__)["pool"], prefix)
    retired_machines(machines.names, INSTANCE_TYPES, f"{path}.machineType", hardening)
    # What is not known yet changes nothing once the known part shows a GPU; taints matter only then.
    undecided = machines.gpus is None
    unknown = (*machines.unknown, *read.unknown) if undecided else tuple(read.unknown) if machines.gpus else ()
    scaling = mapping(pool.get("autoscaling"))
    total = scaling.get("totalMaxNodeCount") is not None or scaling.get("totalMinNodeCount") is not None
    ends = ("totalMinNodeCount", "totalMaxNodeCount") if total else ("minNodeCount", "maxNodeCount")
    fixed = number(pool.get("nodeCount")) if not scaling else None
    least, most = (number(scaling.get(end)) for end in ends)
    return replace(
        pool_facts("gcp", machines, read, hardening),
        unknown=unknown,
        where=f"{path}.taints",
        missing_taint=as_object(wanted_taint(machines.accelerator), CLOUD_EFFECTS),
        cloud_taint="GKE adds the taint only while the cluster has a pool without GPUs; declare it",
        software=_software(config, path, machines.accelerator),
        sharing=_sharing(config, path),
        region="-".join(text(pool.get("location")).split("-")[:2]),
        is_spot=flag(config.get("spot")) is True,
        min_nodes=fixed if least is None else least,
        max_nodes=fixed if most is None else most,
        per_zone=not total,
        **_zones(pool),
        labels=string_map(config.get("labels")),
        tags=string_map(config.get("resourceLabels")),
        node_customizations=tuple(node_customizations(config, f"{path}.")),
        identity=(f"{path}.serviceAccount", config["serviceAccount"]) if config.get("serviceAccount") else None,
        deletion_protected=pool.get("deletionPolicy") == "PREVENT",
    )


def _zones(given: JsonObject, *, cluster: bool = False) -> JsonDict:
    """Return how many zones a pool or cluster names, and whether some that it names are not known yet."""
    named, location = given.get("nodeLocations", given.get("locations")), given.get("location")
    zonal = isinstance(location, str) and ZONE.fullmatch(location) is not None
    if is_list(named) and named:
        # The provider's cluster names the zones beside its own: registry.terraform.io, google_container_cluster.
        return {"zones": len({*map(text, named), *([text(location)] if cluster and zonal else [])})}
    if named is UNKNOWN or (location is UNKNOWN and not named):
        return {"zones": None, "zones_unknown": True}
    return {"zones": 1 if zonal else None}


def _blocks(config: JsonObject, path: str, unknown: list[str]) -> Iterator[tuple[str, JsonObject]]:
    """Yield the accelerator blocks in either provider's names."""
    for key in ("guestAccelerators", "accelerators"):
        for where, item in items(config.get(key), f"{path}.{key}", unknown):
            if isinstance(item, Mapping):
                yield where, item


def _accelerators(config: JsonObject, path: str, unknown: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the NVIDIA accelerators as (type, count)."""
    for where, item in _blocks(config, path, unknown):
        kind = item.get("type", item.get("acceleratorType"))
        count = item.get("count", item.get("acceleratorCount"))
        size = item.get("gpuPartitionSize")
        cut = isinstance(size, str) and size != ""
        may_be_gpu = kind is UNKNOWN or "nvidia" in text(kind)
        may_be_some = count is UNKNOWN or (number(count) or 0) > 0
        if not cut and may_be_gpu and may_be_some and UNKNOWN in (kind, count):
            unknown.append(f"{where}.{'type' if kind is UNKNOWN else 'count'}")
            continue
        name = text(kind).rsplit("/", 1)[-1]
        amount = max(number(count) or 0, 1 if cut else 0)
        if amount and (cut or "nvidia" in name):
            yield name or "GPU", amount


def _count(machine: str, accelerators: list[tuple[str, int]], path: str, machines: Machines) -> None:
    """Count the GPUs of a node and say what shows them; the catalogue first, for it knows parts of a GPU."""
    name = _instance_type(machine, accelerators)
    if name:
        machines.names.append(name)
    row = INSTANCE_TYPES.get(machine)
    if row is not None:
        machines.show(Accelerator("nvidia", row.gpus, row.gpu_model), f"{path}.machineType {machine}")
    elif accelerators:
        shown = ", ".join(f"{count} × {kind}" for kind, count in accelerators)
        total = Fraction(sum(count for _, count in accelerators))
        machines.show(Accelerator("nvidia", total), f"{path}.guestAccelerators {shown}")
    elif machine:
        machines.show(accelerator(machine), f"{path}.machineType {machine}")


def _instance_type(machine: str, accelerators: list[tuple[str, int]]) -> str:
    """Name the machine as the catalogue does: N1 together with its accelerators."""
    if not machine.startswith("n1-") or len(accelerators) != 1:
        return machine
    kind, count = accelerators[0]
    row = INSTANCE_TYPES.get(f"n1+{kind}:{count}")
    return row.name if row is not None and row.extra["machine_type"] == machine else f"{machine}+{kind}:{count}"


def _software(config: JsonObject, path: str, vendor: str) -> SoftwareHints:
    """Read who brings driver and plugin (_GPUS_PAGE).

    GKE's device plugin mounts the driver into pods itself. Where it is off, a GPU Operator brings its toolkit
    (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html), another plugin none.
    """
    if vendor != "nvidia":
        return SoftwareHints()
    said: list[str] = []
    driver = By.CLOUD  # GKE installs its default driver unless told otherwise, since 1.30.1-gke.1156000
    for where, item in _blocks(config, path, []):
        version = at(item, "gpuDriverInstallationConfig.gpuDriverVersion")
        if version is UNKNOWN:
            driver = By.UNSAID
        elif version == "INSTALLATION_DISABLED":
            driver = By.NOBODY
        if isinstance(version, str):
            said.append(f"{where}.gpuDriverInstallationConfig.gpuDriverVersion {version}")
    off = mapping(config.get("labels")).get(NO_DEVICE_PLUGIN_LABEL)
    if off is not None:
        said.append(f"{path}.labels {NO_DEVICE_PLUGIN_LABEL}")
    plugin = By.UNSAID if off is UNKNOWN else By.NOBODY if off == "true" else By.CLOUD
    return SoftwareHints(driver, By.CLOUD if plugin is By.CLOUD else By.UNSAID, plugin, tuple(said))


def _sharing(config: JsonObject, path: str) -> SharingFacts | None:
    """Read `gpuSharingConfig` and `gpuPartitionSize` of the first accelerator block that has one."""
    for where, item in _blocks(config, path, []):
        strategy = text(at(item, "gpuSharingConfig.gpuSharingStrategy"))
        way = next((mode for mode, name in SHARING_STRATEGIES.items() if name == strategy), "")
        clients = number(at(item, "gpuSharingConfig.maxSharedClientsPerGpu"))
        size = text(item.get("gpuPartitionSize"))
        kind = "+".join(part for part in ("mig-single" if size else "", way) if part)
        if kind:
            field = "gpuSharingConfig" if way else "gpuPartitionSize"
            return SharingFacts(kind, clients=clients if way else None, profile=size, said_by=f"{where}.{field}")
    return None


def _harden(config: JsonObject, path: str, hardening: Hardening, *, auto: bool = False) -> None:
    """Note what the baseline asks of the nodes' configuration.

    Args:
        config: `nodeConfig`, or with `auto` the defaults of node auto-provisioning, which have fewer fields.
        path: Where it is.
        hardening: Takes the findings.
        auto: See `config`.
    """
    rows, account = controls(__package__), config.get("serviceAccount")
    own = isinstance(account, str) and not is_default_account(account)
    hardening.judge(rows["identity"][0], account, own, f"{path}.")
    scopes = config.get("oauthScopes")
    known = [scope for scope in scopes if isinstance(scope, str)] if isinstance(scopes, list) else []
    broad = any(scope.endswith(("/cloud-platform", "cloud-platform")) for scope in known)
    given, narrow = "cloud-platform with the default account", not (broad and is_default_account(account))
    hardening.judge(rows["scopes"][0], given, narrow, f"{path}.")
    hardening.check(config, rows["nodes"], f"{path}.")
    if auto:
        return
    metadata = config.get("metadata")
    legacy = mapping(metadata).get("disable-legacy-endpoints") if metadata is not UNKNOWN else UNKNOWN
    hardening.judge(rows["endpoints"][0], legacy, not metadata or flag(legacy) is True, f"{path}.")
    hardening.check(config, rows["declared nodes"], f"{path}.")


TYPES = (NODE_POOL, CLUSTER, *(f"google-native:container/v1:{kind}" for kind in ("NodePool", "Cluster")))
"""Type tokens that are read, for people."""

READBACK = Readback(
    read_pools=read_pools,
    accelerator=accelerator,
    customizations=customizations,
    types=TYPES,
    objects=KubernetesObjects(pools={("cloud.google.com", "ComputeClass"): read_compute_class}, karpenter=KARPENTER),
)
