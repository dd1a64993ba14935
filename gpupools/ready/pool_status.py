"""Judges pools: what is short of their promises."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import HARD_EFFECTS, KUBERNETES_EFFECTS, Taint
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_labels import MIG_CONFIG_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, unshared
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.tolerations import selects, untolerated
from gpupools.ready.causes import Finding, Seen, findings, signals
from gpupools.ready.evidence import created, evidence, is_of, owner_of, parsed_time, unknown_to_autoscaler, waits_for
from gpupools.ready.promises import GPU_DRIVER, Promise
from gpupools.ready.snapshot import Snapshot, condition, full_name
from gpupools.spec.models import Cluster

MIG_STATE_LABEL = f"{MIG_CONFIG_LABEL}.state"
"""https://github.com/NVIDIA/mig-parted, cmd/nvidia-mig-manager/main.go"""


class PoolStatus(NamedTuple):
    """Whether a pool is ready."""

    cluster: str
    pool: str
    state: str
    """`ready`, `not ready`, or `not seen` if permissions are missing."""
    nodes: int
    ready_nodes: int
    promised_nodes: int
    short: tuple[str, ...]
    """What is short, with its object."""
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    """What could not be read, with the reason."""

    @property
    def is_ready(self) -> bool:
        """Return whether the pool holds its plan."""
        return self.state == "ready"

    def as_json(self) -> JsonDict:
        """Return the status as JSON types."""
        names = {"findings": "causes", "unseen": "not_seen"}
        given = {names.get(key, key): value for key, value in self._asdict().items()}
        return {
            **given,
            "short": list(self.short),
            "not_seen": list(self.unseen),
            "causes": [each.as_json() for each in self.findings],
        }


def judge(
    promises: Iterable[Promise], snapshot: Snapshot, cluster: Cluster, clouds: Mapping[str, Cloud], file: str
) -> list[PoolStatus]:
    """Return the status of each pool of one cluster; `file` is the stack file, for commands."""
    # Nodes of other machines may join a cluster, such as hybrid nodes.
    reasons = [clouds[cluster.cloud].foreign_node(cluster, node) for node in snapshot.of("nodes")]
    foreign = reasons[0] if reasons and all(reasons) else ""
    return [_judged(each, snapshot, foreign, clouds.values(), file) for each in promises]


def _judged(promise: Promise, snapshot: Snapshot, foreign: str, clouds: Iterable[Cloud], file: str) -> PoolStatus:
    pool = promise.pool
    nodes = snapshot.nodes_of_pool.get(pool.name, [])
    short, whole = [], 0
    if foreign:
        short = [Seen("plan", f"Cluster {pool.cluster}", foreign, None, "wrong-cluster")]
    else:
        for node in nodes:
            found = list(_short_of_node(promise, node, snapshot))
            whole += not found
            short += found
        short += _short_of_pool(promise, len(nodes), snapshot)
    seen = [*short, *(evidence(promise, nodes, snapshot) if short and not foreign else ())]
    needed = {"nodes", "daemonsets", "pods"}
    needed |= {"resourceslices"} if promise.devices and nodes else set()
    needed |= {"runtimeclasses"} if promise.runtime_class and nodes else set()
    unseen = tuple(f"{kind}: {why}" for kind, why in snapshot.unseen.items() if kind in needed)
    state = "not ready" if short else "not seen" if unseen else "ready"
    texts = tuple(dict.fromkeys(f"{each.object}: {each.message}" for each in short))
    counts = (len(nodes), whole, pool.min_nodes)
    return PoolStatus(pool.cluster, pool.name, state, *counts, texts, tuple(findings(seen, clouds, file)), unseen)


def _short_of_pool(promise: Promise, nodes: int, snapshot: Snapshot) -> Iterator[Seen]:
    pool, at = promise.pool, f"Pool {promise.pool.cluster}/{promise.pool.name}"
    waiting = [] if nodes else [pod for pod in snapshot.pods_on.get("", ()) if waits_for(pod, promise)]
    if nodes < pool.min_nodes:
        yield Seen("plan", at, f"promised {pool.min_nodes} node(s), found {nodes}")
        for node in snapshot.nodes_of_pool.get("", ()):
            if node["metadata"].get("labels", {}).get("node.kubernetes.io/instance-type") == pool.instance.name:
                what = f"is a {pool.instance.name} without the label {POOL_LABEL}"
                yield Seen("plan", f"Node {full_name(node)}", what, created(node), "label-or-taint")
    elif waiting:
        what = f"{len(waiting)} pod(s) wait for the first node, e.g. {full_name(waiting[0])}"
        yield Seen("plan", at, what, created(waiting[0]))
    if waiting:
        yield from unknown_to_autoscaler(promise, waiting, snapshot)
    classes = {"", *(each["metadata"]["name"] for each in snapshot.of("runtimeclasses"))}
    if nodes and promise.runtime_class not in classes and "runtimeclasses" not in snapshot.unseen:
        what = f"does not exist, but pods of {pool.name} name it"
        yield Seen("plan", f"RuntimeClass {promise.runtime_class}", what, None, "runtime")


def _short_of_node(promise: Promise, node: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    at, since = f"Node {full_name(node)}", created(node)
    labels = node["metadata"].get("labels", {})
    for each in node["status"].get("conditions") or ():
        message = f"condition {each['type']} is {each['status']}: {each.get('reason', '')} {each.get('message', '')}"
        changed = parsed_time(each.get("lastTransitionTime"))
        bad = [one.state for one in signals() if (one.kind, one.name) == ("condition", each["type"])]
        if each["status"] in bad or (each["type"] == "Ready" and each["status"] != "True"):
            yield Seen("condition", at, message.strip(), changed, name=each["type"], state=each["status"])
    if not condition(node, "Ready"):
        yield Seen("plan", at, "the kubelet has not reported yet", since)
    for key, value in promise.labels.items():
        if labels.get(key) != value:
            what = f"label {key}: promised {value}, found {labels.get(key, 'none')}"
            yield Seen("plan", at, what, since, "label-or-taint")
    taints = _taints_of(node)
    for taint in (each for each in promise.pool.taints if each not in taints):
        yield Seen("plan", at, f"taint {taint} is missing", since, "label-or-taint")
    for taint in (each for each in taints if each not in promise.pool.taints and each.effect in HARD_EFFECTS):
        yield Seen("taint", at, f"taint {taint} keeps pods off", since, name=taint.key)
    state = labels.get(MIG_STATE_LABEL, "")
    if MIG_CONFIG_LABEL in promise.labels and state != "success":
        what = f"label {MIG_STATE_LABEL} is {state or 'missing'}"
        yield Seen("label", at, what, since, name=MIG_STATE_LABEL, state=state)
    yield from _resources(promise, node, at, since)
    for driver, count in promise.devices.items() if "resourceslices" not in snapshot.unseen else ():
        yield from _devices(driver, count, snapshot.slices_on.get((node["metadata"]["name"], driver), ()), at, since)
    yield from _daemons(promise, node, at, snapshot)


def _taints_of(node: JsonObject) -> list[Taint]:
    given = (each for each in node["spec"].get("taints") or () if each.get("effect") in KUBERNETES_EFFECTS)
    return [Taint(each["key"], each.get("value") or "", KUBERNETES_EFFECTS[each["effect"]]) for each in given]


def _resources(promise: Promise, node: JsonObject, at: str, since: datetime | None) -> Iterator[Seen]:
    pool, has_mig = promise.pool, promise.pool.sharing.mig is not None
    offered, capacity = node["status"].get("allocatable") or {}, node["status"].get("capacity") or {}
    early = {
        GPU_RESOURCE: pool.instance.devices,
        **(unshared(pool.instance, pool.sharing) if promise.resources else {}),
    }
    uncut = has_mig and node["metadata"].get("labels", {}).get(MIG_STATE_LABEL, "success") == "success"
    for name, promised in promise.resources.items():
        wanted, found = quantity(promised), quantity(offered.get(name))
        if found == wanted or (found > wanted and not promised.isdigit()):
            continue
        what = f"{name}: promised {promised}, allocatable {offered.get(name, 0)}"
        what += f" of {capacity[name]}" if quantity(capacity.get(name)) > found else ""
        cause = ""
        if name in promise.fabric_resources:
            cause = "fabric"
        elif uncut and name == GPU_RESOURCE and found == pool.instance.devices:
            cause = "mig-layout"
        elif found and found == early.get(name):
            cause = "plugin-config"
        elif 0 < found < wanted and found * pool.instance.devices % wanted == 0:
            cause = "fewer-gpus"
        yield Seen("plan", at, what, since, cause)
    for name in sorted(each for each in offered if each.startswith("nvidia.com/") and each not in promise.resources):
        if quantity(offered[name]) > 0:
            cause = "mig-layout" if uncut else "plugin-config" if name in early and not has_mig else ""
            cause = "two-owners" if GPU_DRIVER in promise.devices else cause
            yield Seen("plan", at, f"{name}: not promised, allocatable {offered[name]}", since, cause)


def _devices(
    driver: str, promised: int, slices: Iterable[JsonObject], at: str, since: datetime | None
) -> Iterator[Seen]:
    """Compare the devices of the newest ResourceSlices, without those that a taint keeps from pods."""
    generations = [(each.get("pool", {}).get("generation", 0), each) for each in slices]
    newest = max((number for number, _ in generations), default=0)
    devices = [device for number, each in generations if number == newest for device in each.get("devices") or ()]
    tainted = [
        f"{device['name']} has taint {taint['key']}"
        for device in devices
        for taint in [each for each in device.get("taints") or () if each.get("effect") in HARD_EFFECTS][:1]
    ]
    found = len(devices) - len(tainted)
    if found < promised or (found > promised and driver == GPU_DRIVER):
        what = f"devices of {driver}: promised {promised}, found {found}" + (
            f" ({', '.join(tainted)})" if tainted else ""
        )
        cause = "fabric" if driver != GPU_DRIVER else "fewer-gpus" if devices else ""
        yield Seen("plan", at, what, since, cause)


def _daemons(promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Require a ready pod of the owner of each component, and none of anybody else."""
    own: dict[str, list[JsonObject]] = {}
    for pod in snapshot.pods_on.get(node["metadata"]["name"], ()):
        name = owner_of(pod)
        for daemon in snapshot.bringers[name][1] if name in snapshot.bringers else ():
            owner = promise.daemons.get(daemon.piece, "")
            if is_of(name, owner) if owner else daemon.by_cloud:
                own.setdefault(daemon.piece, []).append(pod)
            elif daemon.piece in promise.owners:
                what = f"DaemonSet {name} brings the {daemon.piece} beside {promise.owners[daemon.piece]}"
                yield Seen("plan", at, what, created(pod), "two-owners")
    for piece in promise.daemons if not {"daemonsets", "pods"} & snapshot.unseen.keys() else ():
        if piece in promise.required and piece not in own:
            yield _why_not_there(piece, promise, node, at, snapshot)
        for pod in own.get(piece, ()):
            if condition(pod, "Ready").get("status") != "True":
                yield Seen("plan", f"Pod {full_name(pod)}", f"the {piece} is not ready", created(pod))


def _why_not_there(piece: str, promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Seen:
    """Say why the owner of a component has no pod on a node; the DaemonSet controller reports nothing."""
    owner, since = promise.daemons[piece], created(node)
    for name, (each, brings) in snapshot.bringers.items():
        if is_of(name, owner) and any(one.piece == piece for one in brings):
            why = _keeps_off(each["spec"]["template"]["spec"], node)
            what = f"no pod with the {piece} on {at}" + (f": {why}" if why else "")
            return Seen("plan", f"DaemonSet {name}", what, since, "plugin-not-scheduled" if why else "")
    return Seen(
        "plan", at, f"no DaemonSet of {promise.owners[piece]} brings the {piece}", since, "plugin-not-scheduled"
    )


def _keeps_off(pod: JsonObject, node: JsonObject) -> str:
    """Return which missing toleration or selector keeps a DaemonSet's pods off a node; empty for none."""
    # The controller adds tolerations of the taints of node.kubernetes.io to every daemon.
    taints = [each for each in _taints_of(node) if not each.key.startswith("node.kubernetes.io/")]
    if missing := untolerated(pod.get("tolerations") or (), taints):
        return f"it does not tolerate {missing[0]}"
    selector, labels = pod.get("nodeSelector") or {}, node["metadata"].get("labels", {})
    unmet = next((f"{key}={value}" for key, value in selector.items() if labels.get(key) != value), "")
    try:
        fits = selects({}, pod.get("affinity") or {}, labels)
    except KeyError:  # a form that no chart here uses
        fits = True
    return f"it selects {unmet}" if unmet else "" if fits else "its node affinity excludes the node"


_UNITS = {"": 1, "m": 0.001, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text: object) -> float:
    """Return a quantity as a number; 0 for one that is missing or has another form.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    given = str(text or "0")
    number = given.rstrip("mkMGTi")
    try:
        return float(number) * _UNITS[given[len(number) :]]
    except (ValueError, KeyError):
        return 0.0
