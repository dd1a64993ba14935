"""What a cluster has for pods that wait for GPUs, and what its running pods hold: all that `ready` does not read."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity, whole_number
from gpupools.common.taints import HARD_EFFECTS
from gpupools.fit.offers import Amount, Offer
from gpupools.fit.requests import Amounts, requests_of
from gpupools.fit.workloads import CLAIMED, Manifests, PodTemplate
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
GROUPS = {
    "kai": Read("podgroups", "scheduling.run.ai/v2alpha2", "how many pods start together"),
    "volcano": Read("podgroups", "scheduling.volcano.sh/v1beta1", "how many pods start together"),
}
"""The same, of the scheduler of teams; Kueue's pods have it themselves."""
_GROUP_NAMES = ("pod-group-name", "scheduling.k8s.io/group-name", "kueue.x-k8s.io/pod-group-name")
"""Annotations of KAI and Volcano, and label or annotation of Kueue, that name the group of a pod."""
_GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"
# In what pods of one Job or Deployment differ.
_OWN_NAMES = re.compile(r'kube-api-access-\w+|"batch.kubernetes.io/job-completion-index": "\d+"|"hostname": "[^"]*"')


class Gang(NamedTuple):
    """Pods that start together or not at all."""

    least: int
    """How many, of those that are there."""
    templates: Mapping[str, PodTemplate]
    """Of those that have no node, by what is alike in them."""


class Live(NamedTuple):
    """What was read of a cluster."""

    snapshot: Snapshot
    pods: Sequence[JsonObject]
    """Those that are asked about."""
    gangs: Mapping[tuple[str, str], Gang]
    """By namespace and group."""
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
    groups = [GROUPS[each] for each in (cluster.runtime.scheduler,) if each in GROUPS]
    with api.look():
        snapshot = read_snapshot(api, cluster, cloud, (*READS, *groups))
        waiting = list(api.items(path, "", fieldSelector="status.phase=Pending"))
        asked = list(api.items(path, "", fieldSelector=f"metadata.name={name}")) if pod else waiting
        others = () if "pods" in snapshot.unseen else api.items("/api/v1/pods", "", keeps=False, fieldSelector=bound)
        held = held_on(snapshot, others, api.kept)
        return Live(snapshot, asked, gangs_of(snapshot, waiting), held, manifests_of(snapshot))


def group_of(pod: JsonObject) -> tuple[str, str]:
    """Return namespace and name of the group of a pod; an empty name for none."""
    meta = pod["metadata"]
    marks = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    return meta["namespace"], next((marks[key] for key in _GROUP_NAMES if key in marks), "")


def alike(pod: JsonObject) -> str:
    """Return what pods of one Job or Deployment have in common."""
    return _OWN_NAMES.sub("", json.dumps([pod["metadata"].get("annotations"), pod["spec"]]))


def gangs_of(snapshot: Snapshot, pods: Iterable[JsonObject]) -> Mapping[tuple[str, str], Gang]:
    """Return the gangs of pods that wait, with those of their pods that have no node.

    Sources: https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/apis/scheduling/v2alpha2/podgroup_types.go
    (a group of groups has no `minMember`); https://github.com/volcano-sh/volcano tag v1.15.1, pkg/scheduler/api;
    https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/.
    """
    least = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): whole_number(str(each["spec"].get("minMember"))) or 0
        for each in snapshot.of("podgroups")
    }
    found = defaultdict[tuple[str, str], dict[str, PodTemplate]](dict)
    for pod in (each for each in pods if not each["spec"].get("nodeName")):
        key, count, same = group_of(pod), (pod["metadata"].get("annotations") or {}).get(_GROUP_COUNT, ""), alike(pod)
        least.setdefault(key, whole_number(count) or 0)
        before = found[key][same].pods or 0 if same in found[key] else 0
        found[key][same] = PodTemplate("", None, pod["metadata"], pod["spec"], before + 1)
    # Of pods that are not there, nothing is known.
    seen = {key: sum(each.pods or 0 for each in own.values()) for key, own in found.items()}
    return {key: Gang(min(least[key], seen[key]), own) for key, own in found.items() if min(least[key], seen[key]) > 1}


def manifests_of(snapshot: Snapshot) -> Manifests:
    """Return claims and labels of namespaces as the judges know them."""
    claims = {
        (kind, each["metadata"].get("namespace", ""), each["metadata"]["name"]): at(each, devices) or {}
        for kind, devices in CLAIMED.items()
        for each in snapshot.of(f"{kind.lower()}s")
    }
    spaces = (each["metadata"] for each in snapshot.of("namespaces"))
    return Manifests((), claims, {each["name"]: each.get("labels", {}) for each in spaces})


def held_on(snapshot: Snapshot, pods: Iterable[JsonObject], kept: Callable[[Any], None]) -> Mapping[str, Amounts]:
    """Return what pods that have not finished hold on nodes: resources, `pods`, and devices by their driver.

    `kept` counts what stays in memory.
    """
    held = {node["metadata"]["name"]: defaultdict[str, Decimal](Decimal) for node in snapshot.of("nodes")}
    for pod in (each for each in pods if each["spec"].get("nodeName") in held):
        there = held[pod["spec"]["nodeName"]]
        for name, amount in (*requests_of(pod["spec"]).amounts.items(), ("pods", Decimal(1))):
            if name not in there:
                kept([name, amount])
            there[name] += amount
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
