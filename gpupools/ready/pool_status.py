"""Judges pools: what is short of their promises."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from shlex import quote
from typing import NamedTuple

from gpupools.common import numbers
from gpupools.common.errors import amount_of
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import HARD_EFFECTS, KUBERNETES_EFFECTS, STARTUP_TAINT, Taint
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, unshared
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.tolerations import selects, untolerated
from gpupools.readback.inputs import at as value_at
from gpupools.ready.causes import CAUSES, SIGNALS, STARTUP_GATE, UNKNOWN, Finding, Seen, cause_of, findings
from gpupools.ready.evidence import (
    BOOT,
    created,
    evidence,
    failing_operator_in,
    is_fault,
    is_of,
    is_recent,
    owner_of,
    parsed_time,
    restarts,
    unknown_to_autoscaler,
    waits_for,
)
from gpupools.ready.promises import GPU_DRIVER, VALIDATOR, Promise
from gpupools.ready.same_cluster import OwnGroup, other_group, own_group, prove
from gpupools.ready.snapshot import Snapshot, condition, full_name, has_ended, is_leaving, is_ready
from gpupools.spec.models import Cluster

Since = datetime | None
Clouds = Collection[Cloud]
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


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
    notes: tuple[str, ...] = ()
    """What a ready pool does not show yet."""

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
        most = self.ready_nodes if self.is_ready else max(self.promised_nodes, self.nodes)
        nodes = amount_of(most, "node")
        if self.is_ready:
            text = "; ".join((f"ready, {nodes if most else 'scales from zero'}", *self.notes))
        elif self.findings:
            counts = f"{self.ready_nodes} of {nodes} ready:" if most else "no node yet:"
            counts = f"{nodes} as planned, but" if most == self.ready_nodes > 0 else counts
            text = f"not ready, {counts} {self.findings[0].cause.title}"
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
        for finding in self.findings:
            since = f", since {finding.since:%Y-%m-%d %H:%M:%S} UTC" if finding.since is not None else ""
            if finding.since is not None and now is not None:
                seconds = (now - finding.since).total_seconds()
                since = f", since {seconds:.0f} s" if seconds < 120 else f", since {seconds / 60:.0f} min"
            others = f" and {finding.others} more" if finding.others else ""
            yield f"  cause: {finding.cause.title}: {finding.object}{others}{since}"
            if finding.message and not any(finding.message in text for text in shown):
                yield f"    {finding.message}"
            if finding.cause.cure:
                yield f"    fix: {finding.cause.cure}"
            yield f"    next: {finding.next}"
        yield from (f"  not seen: {text}" for text in self.unseen if self.findings)


_SHOWN = 3


def judge(
    promises: Iterable[Promise], snapshot: Snapshot, cluster: Cluster, clouds: Mapping[str, Cloud], file: str
) -> list[PoolStatus]:
    """Return the status of each pool of one cluster; `file` is the stack file, for commands."""
    foreign = prove(cluster, clouds[cluster.cloud], snapshot.of("nodes"), snapshot.where).other
    command = pool_command(cluster, clouds[cluster.cloud])
    groups = ((promise, own_group(promise.pool, cluster, clouds[cluster.cloud])) for promise in promises)
    return [_judged(each, snapshot, foreign, is_own, clouds.values(), file, command) for each, is_own in groups]


def pool_command(cluster: Cluster, cloud: Cloud) -> str:
    """Return the cloud's command about the pools of a cluster."""
    given = {key: value if isinstance(value, str) else key.upper() for key, value in cluster}
    return cloud.pool_command.format(**{key: quote(value) for key, value in given.items()})


def _judged(
    promise: Promise, snapshot: Snapshot, foreign: str, is_own: OwnGroup, clouds: Clouds, file: str, command: str
) -> PoolStatus:
    pool = promise.pool
    nodes = snapshot.nodes_of_pool.get(pool.name, [])
    by_node = [] if foreign else [(node, list(_short_of_node(promise, node, snapshot))) for node in nodes]
    whole = sum(not found for _, found in by_node)
    starting = [
        node for node, found in by_node if found and _only_boots(promise, node, found, snapshot, is_own, clouds)
    ]
    # The autoscaler may add nodes at any time; those that boot break no promise.
    starting = starting if whole >= max(pool.min_nodes, 1) else []
    if foreign:
        seen = short = [Seen("plan", f"Cluster {pool.cluster}", foreign, None, "wrong-cluster")]
    else:
        settled = [node for node in nodes if node not in starting]
        short = [signal for node, found in by_node if node not in starting for signal in found]
        shown = list(evidence(promise, settled, snapshot, is_own))
        short += _short_of_pool(promise, nodes, snapshot, is_own)
        short += (signal for signal in shown if is_fault(signal, settled, snapshot))
        seen = [*short, *shown] if short else []
    notes = [f"{len(starting)} more boot{'' if len(starting) > 1 else 's'}"] if starting else []
    if not nodes:
        notes = ["nothing checked on a node yet", *filter(None, [unknown_to_autoscaler(is_own, (), snapshot)])]
    needed = {"nodes", "daemonsets", "pods", "events", *(["configmaps"] if not nodes else [])}
    needed |= {"resourceslices"} if promise.devices and nodes else set()
    needed |= {"runtimeclasses"} if promise.runtime_class else set()
    needed |= {"clusterpolicies"} if VALIDATOR in promise.daemons else set()
    unseen = tuple(f"{kind}: {why}" for kind, why in snapshot.unseen.items() if kind in needed)
    state = "not ready" if short else "not seen" if unseen else "ready"
    texts = tuple(dict.fromkeys(f"{signal.object}: {signal.message}" for signal in short))
    counts, causes = (len(nodes), whole, pool.min_nodes), tuple(findings(seen, clouds, file, command))
    return PoolStatus(pool.cluster, pool.name, state, *counts, texts, causes, unseen, tuple(notes))


def _only_boots(
    promise: Promise, node: JsonObject, found: list[Seen], snapshot: Snapshot, is_own: OwnGroup, clouds: Clouds
) -> bool:
    """Return whether a node lacks only what it may lack while it boots, whatever the GPU Operator says of all nodes."""
    if not is_recent(created(node), snapshot, BOOT):
        return False
    seen = [*found, *evidence(promise, [node], snapshot, is_own)]
    return all(CAUSES[cause_of(signal, clouds) or UNKNOWN].boots for signal in seen if signal.kind != "policy")


def _short_of_pool(
    promise: Promise, nodes: Collection[JsonObject], snapshot: Snapshot, is_own: OwnGroup
) -> Iterator[Seen]:
    pool, at = promise.pool, f"Pool {promise.pool.cluster}/{promise.pool.name}"
    waiting = [] if nodes else [pod for pod in snapshot.pods_on.get("", ()) if waits_for(pod, promise)]
    if len(nodes) < pool.min_nodes:
        yield Seen("plan", at, f"promised {pool.min_nodes} node(s), found {len(nodes)}", None, "no-node")
        for node in filter(is_leaving, snapshot.of("nodes")):
            if node["metadata"].get("labels", {}).get(POOL_LABEL) == pool.name:
                yield Seen("plan", f"Node {full_name(node)}", "is being removed", created(node), "leaving")
        for node in snapshot.nodes_of_pool.get("", ()):
            machine = node["metadata"].get("labels", {}).get(_INSTANCE_TYPE, "")
            if machine.casefold() == promise.machine.casefold() and not other_group(pool, node):
                what = f"is a {promise.machine} without the label {POOL_LABEL}"
                yield Seen("plan", f"Node {full_name(node)}", what, created(node), "label-or-taint")
    elif waiting:
        what = f"{len(waiting)} pod(s) wait for the first node, e.g. {full_name(waiting[0])}"
        yield Seen("plan", at, what, created(waiting[0]), "no-node")
    if waiting and (why := unknown_to_autoscaler(is_own, waiting, snapshot)):
        what = f"waits for a node, and {why}"
        yield Seen("plan", f"Pod {full_name(waiting[0])}", what, created(waiting[0]), "no-autoscaler")
    handlers = {item["metadata"]["name"]: item.get("handler", "") for item in snapshot.of("runtimeclasses")}
    handler = handlers.get(promise.runtime_class) if "runtimeclasses" not in snapshot.unseen else ""
    if promise.runtime_class and (handler is None or (handler and "nvidia" not in handler)):
        what = f"has the handler {handler}" if handler else "does not exist"
        what += f", but pods of {pool.name} name it"
        yield Seen("plan", f"RuntimeClass {promise.runtime_class}", what, None, "runtime")
    # The GPU Operator makes its DaemonSets with the first GPU node of the cluster.
    is_made_later = bool(snapshot.of("clusterpolicies"))
    is_seen = not nodes and not {"daemonsets", "clusterpolicies"} & snapshot.unseen.keys()
    for piece in sorted(promise.required) if is_seen else ():
        if _daemon_set(piece, promise, snapshot) is None:
            for signal in _not_installed(piece, promise, at, None, snapshot):
                if signal.cause != "not-installed" or not (is_made_later and _is_by_operator(piece, promise)):
                    yield signal


def _short_of_node(promise: Promise, node: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    at, since = f"Node {full_name(node)}", created(node)
    labels = node["metadata"].get("labels", {})
    for each in node["status"].get("conditions") or ():
        message = f"condition {each['type']} is {each['status']}: {each.get('reason', '')} {each.get('message', '')}"
        changed = parsed_time(each.get("lastTransitionTime"))
        bad = [signal.state for signal in SIGNALS if (signal.kind, signal.name) == ("condition", each["type"])]
        if each["status"] in bad or (each["type"] == "Ready" and each["status"] != "True"):
            yield Seen("condition", at, message.strip(), changed, name=each["type"], state=each["status"])
    if not condition(node, "Ready"):
        yield Seen("plan", at, "the kubelet has not reported yet", since, "node-not-ready")
    machine = labels.get(_INSTANCE_TYPE, promise.machine)
    if machine.casefold() != promise.machine.casefold():
        what = f"instance type: promised {promise.machine}, found {machine}"
        yield Seen("plan", at, what, since, "other-machine")
    if why := other_group(promise.pool, node):
        yield Seen("plan", at, why, since, "other-group")
    for key, value in promise.labels.items():
        if labels.get(key) != value:
            what = f"label {key}: promised {value}, found {labels.get(key, 'none')}"
            yield Seen("plan", at, what, since, "label-or-taint")
    taints = taints_of(node)
    for taint in (other_taint for other_taint in promise.pool.taints if other_taint not in taints):
        yield Seen("plan", at, f"taint {taint} is missing", since, "label-or-taint")
    for taint in (each for each in taints if each not in promise.pool.taints and each.effect in HARD_EFFECTS):
        cause = STARTUP_GATE if taint.key == STARTUP_TAINT.key else ""
        yield Seen("taint", at, f"taint {taint} keeps pods off", since, cause, taint.key)
    state = labels.get(MIG_STATE_LABEL, "")
    if MIG_CONFIG_LABEL in promise.labels and state != "success":
        what = f"label {MIG_STATE_LABEL} is {state or 'missing'}"
        yield Seen("label", at, what, since, name=MIG_STATE_LABEL, state=state)
    for key, value in {(one.name, one.state) for one in SIGNALS if one.kind == "label" and one.name != MIG_STATE_LABEL}:
        if labels.get(key) == value:
            yield Seen("label", at, f"label {key} is {value}", since, name=key, state=value)
    yield from _resource_signals(promise, node, at, since)
    for driver, count in promise.devices.items() if "resourceslices" not in snapshot.unseen else ():
        yield from _devices(driver, count, snapshot.slices_on.get((node["metadata"]["name"], driver), ()), at, since)
    yield from _daemons(promise, node, at, snapshot)


def taints_of(node: JsonObject) -> list[Taint]:
    """Return the taints of a node."""
    given = (taint for taint in node["spec"].get("taints") or () if taint.get("effect") in KUBERNETES_EFFECTS)
    return [Taint(taint["key"], taint.get("value") or "", KUBERNETES_EFFECTS[taint["effect"]]) for taint in given]


def _resource_signals(promise: Promise, node: JsonObject, at: str, since: Since) -> Iterator[Seen]:
    pool, has_mig = promise.pool, promise.pool.sharing.mig is not None
    offered, capacity = node["status"].get("allocatable") or {}, node["status"].get("capacity") or {}
    early = {GPU_RESOURCE: pool.instance.devices}
    early |= unshared(pool.instance, pool.sharing) if promise.resources else {}
    # While the MIG manager works, the counts of a node say nothing about its GPUs.
    state = node["metadata"].get("labels", {}).get(MIG_STATE_LABEL)
    is_cut = state == "success" or MIG_CONFIG_LABEL not in promise.labels
    whole = "plugin-config" if state == "success" else "mig-layout"
    for name, promised in promise.resources.items():
        wanted, found, gpus = quantity(promised), quantity(offered.get(name)), pool.instance.devices
        if found == wanted or (found > wanted and not promised.isdigit()):
            continue
        what = f"{name}: promised {promised}, allocatable {offered.get(name, 0)}"
        is_unhealthy, is_shared = quantity(capacity.get(name)) > found, wanted > gpus and not has_mig
        is_of_fewer = found % (wanted / gpus) == 0 if is_shared else found == wanted - wanted / gpus
        what += f" of {capacity[name]}" if is_unhealthy else ""
        cause = ""
        if name in promise.fabric_resources:
            cause = "fabric"
        elif has_mig and is_cut and name == GPU_RESOURCE and found == gpus:
            cause = whole
        elif found and not is_unhealthy and (found == early.get(name) or (is_shared and found % gpus == 0)):
            # Half the shares or fewer are of another number of replicas: so many GPUs do not fail at once.
            cause = "gpus-or-config" if is_shared and is_of_fewer and wanted / 2 < found < wanted else "plugin-config"
        elif is_cut and 0 < found < wanted and (is_unhealthy or is_of_fewer):
            cause = "fewer-gpus"
        yield Seen("plan", at, what, since, cause)
    kinds = (GPU_RESOURCE, "nvidia.com/mig-")
    for name in sorted(each for each in offered if each.startswith(kinds) and each not in promise.resources):
        if quantity(offered[name]) > 0:
            layout = whole if name == GPU_RESOURCE else "mig-layout"
            cause = layout if has_mig and is_cut else "plugin-config" if name in early and not has_mig else ""
            cause = "two-owners" if GPU_DRIVER in promise.devices else cause
            yield Seen("plan", at, f"{name}: not promised, allocatable {offered[name]}", since, cause)


def newest(slices: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the ResourceSlices of the newest generation."""
    last = max((value_at(slice_, "pool.generation") or 0 for slice_ in slices), default=0)
    return [slice_ for slice_ in slices if (value_at(slice_, "pool.generation") or 0) == last]


def devices_of(slices: Iterable[JsonObject]) -> tuple[list[JsonObject], list[str]]:
    """Return the devices of ResourceSlices, and in words those that a taint keeps from pods."""
    devices = [device for slice_ in slices for device in slice_.get("devices") or ()]
    # The driver lists the MIG devices into which a GPU could be cut, and the GPU for passthrough, beside the GPU:
    # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/main/cmd/gpu-kubelet-plugin/deviceinfo.go
    kinds = [value_at(each, "attributes.type.string") or each["name"] for each in devices]
    devices = [each for each, kind in zip(devices, kinds, strict=True) if not ("mig" in kind or "vfio" in kind)]
    tainted = [
        f"{device['name']} has taint {taint['key']}"
        for device in devices
        for taint in [each for each in device.get("taints") or () if each.get("effect") in HARD_EFFECTS][:1]
    ]
    return devices, tainted


def _devices(driver: str, promised: int, slices: Sequence[JsonObject], at: str, since: Since) -> Iterator[Seen]:
    """Compare the devices of the newest ResourceSlices, without those that a taint keeps from pods."""
    current = newest(slices)
    count = max((value_at(slice_, "pool.resourceSliceCount") or 1 for slice_ in current), default=0)
    if len(current) < count:
        yield Seen("plan", at, f"found {len(current)} of {count} ResourceSlices of {driver}", since, "slices")
        return
    devices, tainted = devices_of(current)
    found = len(devices) - len(tainted)
    if found < promised or (found > promised and driver == GPU_DRIVER):
        what = f"devices of {driver}: promised {promised}, found {found}"
        what += f" ({', '.join(tainted)})" if tainted else ""
        is_lost = 0 < len(devices) == promised - 1 or any(f" {driver}/" in text for text in tainted)
        cause = "fabric" if driver != GPU_DRIVER else "fewer-gpus" if is_lost else ""
        yield Seen("plan", at, what, since, cause)


def _daemons(promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Require a ready pod of the owner of each component, and none of anybody else."""
    own: dict[str, list[JsonObject]] = {}
    running = (pod for pod in snapshot.pods_on.get(node["metadata"]["name"], ()) if not has_ended(pod))
    for pod in running:
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
            yield from _why_not_there(piece, promise, node, at, snapshot)
        for pod in own.get(piece, ()):
            if not is_ready(pod):
                yield Seen("plan", f"Pod {full_name(pod)}", f"the {piece} is not ready", created(pod))
            yield from restarts(pod, snapshot)


def _why_not_there(piece: str, promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Say why the owner of a component has no pod on a node; the DaemonSet controller reports nothing."""
    if (found := _daemon_set(piece, promise, snapshot)) is None:
        yield from _not_installed(piece, promise, at, created(node), snapshot)
        return
    why = _keeps_off(found["spec"]["template"]["spec"], node)
    what = f"no pod with the {piece} on {at}" + (f": {why}" if why else "")
    yield Seen("plan", f"DaemonSet {full_name(found)}", what, created(node), "plugin-not-scheduled" if why else "")


def _is_by_operator(piece: str, promise: Promise) -> bool:
    return promise.daemons[piece] == promise.daemons.get(VALIDATOR)


def _not_installed(piece: str, promise: Promise, at: str, since: Since, snapshot: Snapshot) -> list[Seen]:
    """Say that no DaemonSet brings a component, and why if a pod of the GPU Operator, which would make it, fails."""
    what = f"no DaemonSet of {promise.owners[piece]} brings the {piece}"
    failing = failing_operator_in(promise.daemons[piece], snapshot) if _is_by_operator(piece, promise) else []
    return list(failing) or [Seen("plan", at, what, since, "not-installed")]


def _daemon_set(piece: str, promise: Promise, snapshot: Snapshot) -> JsonObject | None:
    """Return the DaemonSet with which the owner brings a component; None if there is none."""
    for name, (each, brings) in snapshot.bringers.items():
        if is_of(name, promise.daemons[piece]) and any(bring.piece == piece for bring in brings):
            return each
    return None


def _keeps_off(pod: JsonObject, node: JsonObject) -> str:
    """Return which missing toleration or selector keeps a DaemonSet's pods off a node; empty for none."""
    # The controller adds tolerations of the taints of node.kubernetes.io to every daemon.
    taints = [taint for taint in taints_of(node) if not taint.key.startswith("node.kubernetes.io/")]
    if missing := untolerated(pod.get("tolerations") or (), taints):
        return f"it does not tolerate {missing[0]}"
    selector, labels = pod.get("nodeSelector") or {}, node["metadata"].get("labels", {})
    # MIG manager and driver manager pause the others on a node by labels such as paused-for-mig-change.
    given = {key: value for key, value in selector.items() if not labels.get(key, "").startswith("paused-for-")}
    unmet = next((f"{key}={value}" for key, value in given.items() if labels.get(key) != value), "")
    try:
        fits = selects({}, pod.get("affinity") or {}, labels)
    except KeyError:  # a form that no chart here uses
        fits = True
    return f"it selects {unmet}" if unmet else "" if fits else "its node affinity excludes the node"


def quantity(text: object) -> Decimal:
    """Return a quantity as a number; 0 for one that is missing or has another form."""
    return numbers.quantity(text) or Decimal(0)
