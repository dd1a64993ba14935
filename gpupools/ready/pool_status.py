"""Judges pools: what is short of their promises."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import HARD_EFFECTS, KUBERNETES_EFFECTS, Taint
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, unshared
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.tolerations import selects, untolerated
from gpupools.ready.causes import SIGNALS, Finding, Seen, findings
from gpupools.ready.evidence import created, evidence, is_of, owner_of, parsed_time, unknown_to_autoscaler, waits_for
from gpupools.ready.promises import GPU_DRIVER, Promise
from gpupools.ready.same_cluster import Proof, prove
from gpupools.ready.snapshot import Snapshot, condition, full_name, is_ready
from gpupools.spec.models import Cluster

Since = datetime | None


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
        given = self._asdict()
        unseen, causes = given.pop("unseen"), [each.as_json() for each in given.pop("findings")]
        return {**given, "not_seen": unseen, "causes": causes}

    def summary(self) -> str:
        """Return the state on one line."""
        most = max(self.promised_nodes, self.nodes)
        nodes = f"{most} node{'s' if most > 1 else ''}"
        if self.is_ready:
            text = f"ready, {nodes if most else 'scales from zero'}"
        elif self.findings:
            counts = f"{self.ready_nodes} of {nodes} ready" if most else "no node yet"
            text = f"not ready, {counts}: {self.findings[0].cause.title}"
        else:
            text = f"not seen ({'; '.join(self.unseen)})"
        return f"{self.cluster}/{self.pool}: {text}"

    def lines(self, now: datetime | None) -> Iterator[str]:
        """Yield the summary, what is short and why; `now` is the server's time."""
        yield self.summary()
        shown = self.short[:_SHOWN]
        yield from (f"  {text}" for text in shown)
        if len(self.short) > _SHOWN:
            yield f"  and {len(self.short) - _SHOWN} more"
        for each in self.findings:
            since = f", since {each.since:%Y-%m-%d %H:%M:%S} UTC" if each.since is not None else ""
            if each.since is not None and now is not None:
                seconds = (now - each.since).total_seconds()
                since = f", since {seconds:.0f} s" if seconds < 120 else f", since {seconds / 60:.0f} min"
            others = f" and {each.others} more" if each.others else ""
            yield f"  cause: {each.cause.title}: {each.object}{others}{since}"
            if each.message and not any(each.message in text for text in shown):
                yield f"    {each.message}"
            if each.cause.cure:
                yield f"    fix: {each.cause.cure}"
            yield f"    next: {each.next}"
        yield from (f"  not seen: {text}" for text in self.unseen if self.findings)


_SHOWN = 3


def judge(
    promises: Iterable[Promise],
    snapshot: Snapshot,
    cluster: Cluster,
    clouds: Mapping[str, Cloud],
    file: str,
    proof: Proof | None = None,
) -> list[PoolStatus]:
    """Return the status of each pool of one cluster; `file` is the stack file, for commands."""
    proof = proof or prove(cluster, clouds[cluster.cloud], snapshot.of("nodes"))
    return [_judged(each, snapshot, proof.other, clouds.values(), file) for each in promises]


def _judged(promise: Promise, snapshot: Snapshot, foreign: str, clouds: Collection[Cloud], file: str) -> PoolStatus:
    pool = promise.pool
    nodes = snapshot.nodes_of_pool.get(pool.name, [])
    short, whole = [], 0
    for node in () if foreign else nodes:
        found = list(_short_of_node(promise, node, snapshot))
        whole += not found
        short += found
    if foreign:
        seen = short = [Seen("plan", f"Cluster {pool.cluster}", foreign, None, "wrong-cluster")]
    else:
        short += _short_of_pool(promise, len(nodes), snapshot)
        seen = [*short, *(evidence(promise, nodes, snapshot) if short else ())]
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
        bad = [one.state for one in SIGNALS if (one.kind, one.name) == ("condition", each["type"])]
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


def _resources(promise: Promise, node: JsonObject, at: str, since: Since) -> Iterator[Seen]:
    pool, has_mig = promise.pool, promise.pool.sharing.mig is not None
    offered, capacity = node["status"].get("allocatable") or {}, node["status"].get("capacity") or {}
    early = {GPU_RESOURCE: pool.instance.devices}
    early |= unshared(pool.instance, pool.sharing) if promise.resources else {}
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


def _devices(driver: str, promised: int, slices: Iterable[JsonObject], at: str, since: Since) -> Iterator[Seen]:
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
        what = f"devices of {driver}: promised {promised}, found {found}"
        what += f" ({', '.join(tainted)})" if tainted else ""
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
            if not is_ready(pod):
                yield Seen("plan", f"Pod {full_name(pod)}", f"the {piece} is not ready", created(pod))


def _why_not_there(piece: str, promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Seen:
    """Say why the owner of a component has no pod on a node; the DaemonSet controller reports nothing."""
    owner, cause = promise.daemons[piece], "plugin-not-scheduled"
    for name, (each, brings) in snapshot.bringers.items():
        if is_of(name, owner) and any(one.piece == piece for one in brings):
            why = _keeps_off(each["spec"]["template"]["spec"], node)
            what = f"no pod with the {piece} on {at}" + (f": {why}" if why else "")
            return Seen("plan", f"DaemonSet {name}", what, created(node), cause if why else "")
    return Seen("plan", at, f"no DaemonSet of {promise.owners[piece]} brings the {piece}", created(node), cause)


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


def quantity(text: object) -> float:
    """Return a quantity as a number; 0 for one that is missing or has another form."""
    from kubernetes.utils import parse_quantity

    try:
        return float(parse_quantity(str(text or "0")))  # type: ignore[no-untyped-call]
    except ValueError:
        return 0.0
