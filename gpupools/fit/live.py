"""What a cluster has for pods that wait for GPUs, and what its running pods hold: all that `ready` does not read."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import quote

from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity
from gpupools.common.taints import HARD_EFFECTS
from gpupools.fit.offers import Amount, Offer
from gpupools.fit.requests import Amounts, requests_of
from gpupools.fit.workloads import CLAIMED, Manifests
from gpupools.plan.cloud import Cloud
from gpupools.readback.inputs import at
from gpupools.ready.live_cluster import ClusterApi, read_snapshot
from gpupools.ready.pool_status import devices_of, newest, taints_of
from gpupools.ready.promises import GPU_DRIVER, NETWORK_DRIVER
from gpupools.ready.snapshot import Read, Snapshot
from gpupools.spec.models import Cluster

READS = (
    Read("namespaces", "v1", "labels, by which pools trust them"),
    Read("resourceclaims", "resource.k8s.io/v1", "what pods claim, and which devices are in use"),
    Read("resourceclaimtemplates", "resource.k8s.io/v1", "what pods claim"),
)
"""What is read in addition to `ready`'s; the ClusterRole in docs/reference/permissions is generated from it."""


class Live(NamedTuple):
    """What was read of a cluster."""

    snapshot: Snapshot
    pods: Sequence[JsonObject]
    """Those that are asked about."""
    held: Mapping[str, Amounts]
    """By node."""
    manifests: Manifests
    """Claims, and labels of namespaces."""


def read_live(api: ClusterApi, cluster: Cluster, cloud: Cloud, pod: str = "") -> Live:
    """Return what a cluster has and says about one pod, `namespace/name`, or about all that wait.

    Raises:
        PermissionError: Nodes or the pods may not be read.
        Unreachable: The API does not answer as one.
    """
    space, _, name = pod.partition("/")
    path = f"/api/v1/namespaces/{quote(space, safe='')}/pods" if pod else "/api/v1/pods"
    bound = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    with api.look():
        snapshot = read_snapshot(api, cluster, cloud, READS)
        asked = list(api.items(path, "", fieldSelector=f"metadata.name={name}" if pod else "status.phase=Pending"))
        others = () if "pods" in snapshot.unseen else api.items("/api/v1/pods", "", keeps=False, fieldSelector=bound)
        return Live(snapshot, asked, held_on(snapshot, others), manifests_of(snapshot))


def manifests_of(snapshot: Snapshot) -> Manifests:
    """Return claims and labels of namespaces as the judges know them."""
    claims = {
        (kind, each["metadata"].get("namespace", ""), each["metadata"]["name"]): at(each, devices) or {}
        for kind, devices in CLAIMED.items()
        for each in snapshot.of(f"{kind.lower()}s")
    }
    spaces = (each["metadata"] for each in snapshot.of("namespaces"))
    return Manifests((), claims, {each["name"]: each.get("labels", {}) for each in spaces})


def held_on(snapshot: Snapshot, pods: Iterable[JsonObject]) -> Mapping[str, Amounts]:
    """Return what pods that have not finished hold on nodes: resources, `pods`, and devices by their driver."""
    held = {node["metadata"]["name"]: defaultdict[str, Decimal](Decimal) for node in snapshot.of("nodes")}
    for pod in (each for each in pods if each["spec"].get("nodeName") in held):
        for name, amount in (*requests_of(pod["spec"]).amounts.items(), ("pods", Decimal(1))):
            held[pod["spec"]["nodeName"]][name] += amount
    for claim in snapshot.of("resourceclaims"):
        for result in at(claim, "status.allocation.devices.results") or ():
            if result.get("pool") in held:  # drivers name pools of devices as the nodes
                held[result["pool"]][result["driver"]] += 1
    return held


class NodeOffers(NamedTuple):
    """What a running node of a pool offers."""

    now: Offer
    """Beside what its pods hold."""
    planned: Offer
    """Beside what its pods hold, if the node held the plan."""
    empty: Offer
    """If it held the plan and no pod."""


def node_offers(node: JsonObject, pool: Offer, live: Live) -> NodeOffers:
    """Return what a running node of a pool offers."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    held, given = live.held[name], node["status"].get("allocatable") or {}
    has = {key: quantity(value) or Decimal(0) for key, value in given.items()}
    promised = {**has, **{key: pool.amounts[key].sure for key in pool.promise.resources}}
    devices, left_devices = dict(pool.devices), dict(pool.devices)
    for key, count in pool.devices.items():
        if count is not None:
            driver = GPU_DRIVER if key == GPU_DRIVER else NETWORK_DRIVER
            found, tainted = devices_of(newest(live.snapshot.slices_on.get((name, driver), ())))
            in_use = int(held.get(driver, 0))
            devices[key], left_devices[key] = len(found) - len(tainted) - in_use, count - in_use
    planned = pool._replace(where=name, labels={**labels, **pool.promise.labels}, has_all_labels=True)
    pods = int(has["pods"] - held.get("pods", 0)) if "pods" in has else None
    planned = planned._replace(amounts=_left(promised, held), pods=pods, devices=left_devices)
    taints = tuple(each for each in taints_of(node) if each.effect in HARD_EFFECTS)
    now = planned._replace(labels=labels, taints=taints, amounts=_left(has, held), devices=devices)
    return NodeOffers(now, planned, planned._replace(amounts=_left(promised, {}), pods=None, devices=pool.devices))


def _left(amounts: Amounts, held: Amounts) -> dict[str, Amount]:
    free = {key: amount - held.get(key, Decimal(0)) for key, amount in amounts.items()}
    return {key: Amount(amount, amount) for key, amount in free.items()}
