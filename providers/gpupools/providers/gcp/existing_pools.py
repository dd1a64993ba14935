"""Existing node pools of GKE, as gcloud, Terraform and Pulumi describe them. Pure.

The names of the REST API: https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.plan.existing_pools import (
    ExistingPools,
    Found,
    There,
    fixed_nodes,
    list_of,
    number_of,
    other_taints,
    refuse,
    sharing_keys,
    taint_texts,
    text_of,
    without_nothing,
)
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.providers.gcp.added_taints import ARM, QUEUED
from gpupools.providers.gcp.machines import INSTANCE_TYPES
from gpupools.providers.gcp.pool_settings import IMAGE_TYPES, NO_DEVICE_PLUGIN_LABEL
from gpupools.providers.gcp.readback import NODE_POOL, read_pools

_LINK = r"https://.*/projects/([^/]+)/(?:locations|zones)/([^/]+)/clusters/([^/]+)/nodePools/([^/]+)"
_ID = r"(?:projects/)?([^/]+)/(?:locations/)?([^/]+)/(?:clusters/)?([^/]+)/(?:nodePools/)?([^/]+)"

_SHARED_KEYS = (
    *("management", "networkConfig", "placementPolicy", "queuedProvisioning", "upgradeSettings", "version"),
    *("bestEffortProvisioning", "maintenancePolicies"),
)
"""Keys with the same name in the API and in the provider."""


def _pool_from_cli(data: JsonObject) -> Found | None:
    place = text_of(data.get("selfLink"), _LINK)
    config = data.get("config")
    if not place or not isinstance(config, Mapping):
        return None
    project, location, cluster, name = place
    scaling, constraint = mapping(data.get("autoscaling")), mapping(data.get("maxPodsConstraint"))
    on = bool(scaling.get("enabled"))
    inputs = {
        **{key: data[key] for key in _SHARED_KEYS if key in data},
        "initialNodeCount": data.get("initialNodeCount"),
        "nodeCount": None if on else data.get("initialNodeCount"),
        "autoscaling": _autoscaling(scaling) if on else None,
        "maxPodsPerNode": number_of(constraint.get("maxPodsPerNode"), "maxPodsPerNode") or None,
        "nodeLocations": sorted(list_of(str, data.get("locations"), "locations")),
        "nodeConfig": _node_config(config),
    }
    upgrade = mapping(data.get("upgradeSettings"))
    if upgrade.get("strategy", "SURGE") == "SURGE":  # the API leaves zeros out
        inputs["upgradeSettings"] = {"maxSurge": 0, "maxUnavailable": 0, "strategy": "SURGE", **upgrade}
    notes: tuple[str, ...] = ()
    if not on:
        taken = "gcloud does not print how many nodes run, so initialNodeCount is used"
        notes = (f"{taken}; correct nodes.fixed if the pool was resized since",)
    where = {"cloud": "gcp", "name": cluster, "project": project, "location": location}
    return Found(name, where, without_nothing(inputs), notes)


def _autoscaling(scaling: JsonObject) -> JsonDict:
    """Return the limits, with the zeros that the API leaves out."""
    least = "totalMinNodeCount" if "totalMaxNodeCount" in scaling else "minNodeCount"
    return {least: 0} | {key: value for key, value in scaling.items() if key != "enabled"}


def _node_config(config: JsonObject) -> JsonDict:
    found = {
        key: value for key, value in config.items() if key not in ("accelerators", "loggingConfig", "kubeletConfig")
    }
    gpus: list[JsonDict] = [
        {
            **{key: value for key, value in accelerator.items() if key not in ("acceleratorCount", "acceleratorType")},
            "type": accelerator.get("acceleratorType"),
            "count": number_of(accelerator.get("acceleratorCount"), "acceleratorCount"),
            "gpuSharingConfig": {
                key: number_of(value, key) if key == "maxSharedClientsPerGpu" else value
                for key, value in mapping(accelerator.get("gpuSharingConfig")).items()
            },
        }
        for accelerator in list_of(Mapping, config.get("accelerators"), "accelerators")
    ]
    found["guestAccelerators"] = [without_nothing(gpu) for gpu in gpus]
    found["loggingVariant"] = mapping(mapping(config.get("loggingConfig")).get("variantConfig")).get("variant")
    if isinstance(config.get("shieldedInstanceConfig"), Mapping):
        unsaid = dict.fromkeys(("enableIntegrityMonitoring", "enableSecureBoot"), False)
        found["shieldedInstanceConfig"] = unsaid | dict(config["shieldedInstanceConfig"])
    kubelet = dict(mapping(config.get("kubeletConfig")))
    port = "insecureKubeletReadonlyPortEnabled"
    if isinstance(kubelet.get(port), bool):
        kubelet[port] = str(kubelet[port]).upper()  # text for Terraform and Pulumi
    found["kubeletConfig"] = kubelet
    return found


def _gpus(inputs: JsonObject) -> Any:
    """Return the accelerators of a pool; pools without any are not imported."""
    return mapping(inputs.get("nodeConfig")).get("guestAccelerators") or []


def _pool_from_state(kind: str, inputs: JsonObject, identifier: str) -> Found | None:
    if kind != NODE_POOL or not _gpus(inputs):
        return None
    found = text_of(identifier, _ID)
    names = ("project", "location", "cluster", "name")
    project, location, cluster, name = found or [str(inputs.get(key) or "") for key in names]
    if not all((project, location, cluster, name)):
        raise refuse(inputs.get("name"), "has neither project nor cluster", "describe it with gcloud")
    where = {"cloud": "gcp", "name": cluster.rpartition("/")[2], "project": project, "location": location}
    own = {key: value for key, value in inputs.items() if key not in (*names, "__defaults", "namePrefix", "id")}
    return Found(name, where, without_nothing(own))


def _pool_keys(found: Found) -> tuple[JsonDict, JsonDict]:
    inputs = found.inputs
    config = mapping(inputs.get("nodeConfig"))
    accelerators = _gpus(inputs)
    if len(accelerators) != 1:
        raise refuse(found.name, f"has {len(accelerators)} GPU types")
    gpu = accelerators[0]
    zones = list(inputs.get("nodeLocations") or [])
    driver = mapping(gpu.get("gpuDriverInstallationConfig")).get("gpuDriverVersion")
    labels = dict(mapping(config.get("labels")))
    apart = labels.pop(NO_DEVICE_PLUGIN_LABEL, None) == "true" or driver == "INSTALLATION_DISABLED"
    upgrade, network = mapping(inputs.get("upgradeSettings")), mapping(inputs.get("networkConfig"))
    images = {value: key for key, value in IMAGE_TYPES.items()}
    pool = {
        "instance_type": _machine(found.name, config, gpu),
        "nodes": _nodes(found, max(1, len(zones))),
        "sharing": sharing_keys(read_pools(NODE_POOL, inputs)[0].sharing),
        "software": "gpu-operator" if apart else "cloud-managed",
        "capacity": _capacity(inputs, config),
        "zones": zones,
        "driver": "latest" if driver == "LATEST" else None,
        "image": {"family": images.get(str(config.get("imageType")).upper())},
        "disk_gib": config.get("diskSizeGb"),
        "disk": {
            "type": config.get("diskType"),
            "local_nvme": "none" if config.get("localNvmeSsdBlockConfig") else None,
        },
        "network": {
            "placement": "compact" if mapping(inputs.get("placementPolicy")).get("type") == "COMPACT" else None,
            "placement_policy": mapping(inputs.get("placementPolicy")).get("policyName"),
            "rdma": True if network.get("acceleratorNetworkProfile") == "auto" else None,
        },
        "security": {"secure_boot": mapping(config.get("shieldedInstanceConfig")).get("enableSecureBoot") or None},
        "upgrade": _upgrade(upgrade),
        "auto_repair": False if mapping(inputs.get("management")).get("autoRepair") is not True else None,
        "labels": labels,
        "taints": other_taints(taint_texts(config.get("taints")), tuple(map(str, (QUEUED, ARM)))),
        "tags": dict(mapping(config.get("resourceLabels"))),
    }
    return {"service_account": config.get("serviceAccount") or "default"}, without_nothing(pool)


def _machine(name: str, config: JsonObject, gpu: JsonObject) -> str:
    machine, model, count = config.get("machineType"), gpu.get("type"), number_of(gpu.get("count"), "count")
    for written in (str(machine), f"{machine}+{model}:{count}"):
        row = INSTANCE_TYPES.find(written)
        if row is not None and (row.extra["accelerator_type"], row.devices) == (model, count):
            return written
    raise refuse(name, f"runs on {machine} with {count} × {model}, which is not in the catalogue")


def _nodes(found: Found, zones: int) -> dict[str, int]:
    scaling = mapping(found.inputs.get("autoscaling"))
    if not scaling:
        per_zone = number_of(found.inputs.get("nodeCount", found.inputs.get("initialNodeCount")), "initialNodeCount")
        return fixed_nodes(found.name, per_zone * zones)
    total = number_of(scaling.get("totalMaxNodeCount"), "totalMaxNodeCount")
    if total:
        return {"min": number_of(scaling.get("totalMinNodeCount"), "totalMinNodeCount"), "max": total}
    most, least = (number_of(scaling.get(key), key) for key in ("maxNodeCount", "minNodeCount"))
    if not most:
        raise refuse(found.name, "has an autoscaler without a maximum", "set one, and describe it again")
    return {"min": least * zones, "max": most * zones}


def _capacity(inputs: JsonObject, config: JsonObject) -> JsonDict | None:
    seconds = text_of(config.get("maxRunDuration"), r"(\d+)s")
    longest = {"max_run_s": int(seconds[0])} if seconds else {}
    if mapping(inputs.get("queuedProvisioning")).get("enabled"):
        return {"mode": "queued", **longest}
    if config.get("flexStart"):
        return {"mode": "flex-start", **longest}
    if config.get("spot"):
        return {"mode": "spot"}
    affinity = mapping(config.get("reservationAffinity"))
    values = affinity.get("values") or []
    if affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION" and len(values) == 1:
        return {"mode": "reservation", "name": values[0]}
    return None


def _upgrade(settings: JsonObject) -> JsonDict:
    if settings.get("strategy") == "BLUE_GREEN":
        rollout = mapping(mapping(settings.get("blueGreenSettings")).get("standardRolloutPolicy"))
        return {"strategy": "blue-green", "max_unavailable": number_of(rollout.get("batchNodeCount"), "batchNodeCount")}
    return {
        "max_surge": number_of(settings.get("maxSurge"), "maxSurge"),
        "max_unavailable": number_of(settings.get("maxUnavailable"), "maxUnavailable"),
    }


def _existing_resources(data: JsonObject) -> Iterator[There]:
    """Read a node pool, or a policy that puts nodes together: `gcloud compute resource-policies list`."""
    place, config = text_of(data.get("selfLink"), _LINK), data.get("config")
    if place and isinstance(config, Mapping):
        project, location, cluster, name = place
        where = {"project": project, "location": location, "cluster": cluster, "name": name}
        at = ["--cluster", cluster, "--location", location, "--project", project]
        yield There(
            name=name,
            id=f"projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
            forms=((NODE_POOL, where),),
            tags={},
            cluster=cluster,
            pool=str(mapping(config.get("labels")).get(POOL_LABEL, "")),
            delete=shlex.join(["gcloud", "container", "node-pools", "delete", name, *at]),
        )
    policy = text_of(data.get("selfLink"), r"https://.*/projects/([^/]+)/regions/([^/]+)/resourcePolicies/([^/]+)")
    if policy:
        project, region, name = policy
        at = ["--region", region, "--project", project]
        yield There(
            name=name,
            id=f"projects/{project}/regions/{region}/resourcePolicies/{name}",
            forms=(("gcp:compute/resourcePolicy:ResourcePolicy", {"project": project, "name": name}),),
            tags={},
            delete=shlex.join(["gcloud", "compute", "resource-policies", "delete", name, *at]),
        )


EXISTING_POOLS = ExistingPools(
    resource="NodePool",
    described=_pool_from_cli,
    declared=_pool_from_state,
    keys=_pool_keys,
    joined=lambda found, _: found if _gpus(found.inputs) else None,
    there=_existing_resources,
)
