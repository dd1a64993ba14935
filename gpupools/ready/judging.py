"""Judges pools: what is short of their promises, and the causes."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import yaml

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import HARD_EFFECTS, KUBERNETES_EFFECTS, Taint
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_labels import MIG_CONFIG_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.tolerations import untolerated
from gpupools.ready.causes import Finding, Seen, cause_of, findings
from gpupools.ready.promises import GPU_DRIVER, Promise, shared_away
from gpupools.ready.snapshot import Snapshot, condition, containers, full_name, grouped
from gpupools.spec.models import Cluster

EVENT_AGE = timedelta(minutes=30)
"""Events that the server saw last longer ago say nothing about now."""

MIG_STATE_LABEL = f"{MIG_CONFIG_LABEL}.state"
"""https://github.com/NVIDIA/mig-parted, cmd/nvidia-mig-manager/main.go"""

AUTOSCALER_STATUS = "cluster-autoscaler-status"
_ANSWERS = ("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp")
"""Events of an autoscaler about a pod that waits."""

_NEEDED = ("nodes", "daemonsets", "pods")


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
    """What is short, one sentence each, by object."""
    findings: tuple[Finding, ...]
    unseen: tuple[str, ...]
    """What could not be read, with the reason."""

    @property
    def is_ready(self) -> bool:
        """Return whether the pool holds its plan."""
        return self.state == "ready"

    def as_json(self) -> JsonDict:
        """Return the status as JSON types."""
        counts = {"nodes": self.nodes, "ready_nodes": self.ready_nodes, "promised_nodes": self.promised_nodes}
        kept = {"cluster": self.cluster, "pool": self.pool, "state": self.state, **counts}
        return {
            **kept,
            "short": list(self.short),
            "causes": [each.as_json() for each in self.findings],
            "not_seen": list(self.unseen),
        }


def judge(
    promises: Iterable[Promise],
    snapshot: Snapshot,
    cluster: Cluster,
    clouds: Mapping[str, Cloud],
    file: str = "FILE",
) -> list[PoolStatus]:
    """Return the status of each pool of one cluster.

    Args:
        promises: What the plan promises of the cluster's pools.
        snapshot: The objects of the cluster.
        cluster: The cluster of the stack file.
        clouds: The clouds by name, for the errors that they give when machines do not start.
        file: The stack file, for commands.
    """
    return [_judged(each, snapshot, cluster, clouds, file) for each in promises]


def _judged(
    promise: Promise, snapshot: Snapshot, cluster: Cluster, clouds: Mapping[str, Cloud], file: str
) -> PoolStatus:
    cloud = clouds[promise.cloud]
    foreign = next(
        (why for node in snapshot.of("nodes") if (why := cloud.foreign_node(cluster, node))),
        "",
    )
    nodes = snapshot.nodes_of_pool.get(promise.pool, [])
    short: list[Seen] = []
    whole = 0
    if foreign:
        short.append(Seen("plan", f"Cluster {promise.cluster}", "", "", foreign, cause="wrong-cluster"))
    else:
        for node in nodes:
            found = list(_short_of_node(promise, node, snapshot, cloud))
            whole += not found
            short += found
        short += _short_of_pool(promise, len(nodes), snapshot)
    unseen = tuple(f"{kind}: {why}" for kind, why in snapshot.unseen.items() if _needs(promise, kind, nodes))
    found_causes: list[Finding] = []
    if short:
        evidence = [] if foreign else _evidence(promise, nodes, snapshot, whole >= promise.nodes > 0)
        known = [each for each in evidence if cause_of(each, clouds.values())]
        found_causes = findings([*known, *short] if known else [*short, *evidence], clouds.values(), file)
    state = "not ready" if short else "not seen" if unseen else "ready"
    texts = tuple(dict.fromkeys(f"{each.object}: {each.message}" for each in short))
    counts = (len(nodes), whole, promise.nodes)
    return PoolStatus(promise.cluster, promise.pool, state, *counts, texts, tuple(found_causes), unseen)


def _needs(promise: Promise, kind: str, nodes: list[JsonObject]) -> bool:
    """Return whether a pool can be called ready only if a kind of object is seen."""
    if kind == "resourceslices":
        return bool(promise.devices and nodes)
    return kind in _NEEDED or (kind == "runtimeclasses" and bool(promise.runtime_class and nodes))


# --- what is short ----------------------------------------------------------------------------------------------------


def _short_of_pool(promise: Promise, nodes: int, snapshot: Snapshot) -> Iterator[Seen]:
    at = f"Pool {promise.cluster}/{promise.pool}"
    if nodes < promise.nodes:
        yield Seen("plan", at, "", "", f"promised {promise.nodes} node(s), found {nodes}")
        for node in snapshot.staying:
            labels = node["metadata"].get("labels", {})
            if POOL_LABEL not in labels and labels.get("node.kubernetes.io/instance-type") == promise.instance_type:
                what = f"is a {promise.instance_type} without the label {POOL_LABEL}"
                yield Seen("plan", _object("Node", node), "", "", what, _created(node), "label-or-taint")
    waiting = [] if nodes else [pod for pod in snapshot.pods_on.get("", ()) if _targets(pod, promise)]
    if waiting and not promise.nodes:
        what = f"{len(waiting)} pod(s) wait for the first node, e.g. {full_name(waiting[0])}"
        yield Seen("plan", at, "", "", what, _created(waiting[0]))
    if waiting or nodes < promise.nodes:
        yield from _unknown_to_autoscaler(promise, waiting, snapshot)
    classes = {each["metadata"]["name"] for each in snapshot.of("runtimeclasses")}
    is_missing = promise.runtime_class not in classes and "runtimeclasses" not in snapshot.unseen
    if promise.runtime_class and nodes and is_missing:
        what = f"does not exist, but pods of {promise.pool} name it"
        yield Seen("plan", f"RuntimeClass {promise.runtime_class}", "", "", what, cause="runtime")


def _unknown_to_autoscaler(promise: Promise, waiting: list[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Report an autoscaler that has no status or does not list the node group, while a pod waits for a node."""
    if not waiting or "configmaps" in snapshot.unseen:
        return
    groups = _node_groups(snapshot)
    pod = _object("Pod", waiting[0])
    names = {each["metadata"]["name"] for each in waiting}
    answered = any(
        (kind == "ConfigMap" and name == AUTOSCALER_STATUS)
        or (kind == "Pod" and name in names and any(each.get("reason") in _ANSWERS for each in events))
        for (kind, _, name), events in snapshot.events_of.items()
    )
    if groups is None and not answered:
        what = "waits for a node, and the cluster has no ConfigMap kube-system/cluster-autoscaler-status"
        yield Seen("plan", pod, "", "", what, _created(waiting[0]), "no-autoscaler")
    elif groups and not any(_names_pool(str(group.get("name", "")), promise) for group in groups):
        what = f"waits for a node, and Cluster Autoscaler lists no node group of {promise.pool}"
        yield Seen("plan", pod, "", "", what, _created(waiting[0]), "no-autoscaler")


def _short_of_node(promise: Promise, node: JsonObject, snapshot: Snapshot, cloud: Cloud) -> Iterator[Seen]:
    at, since = _object("Node", node), _created(node)
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        what = f"is not Ready: {ready.get('message') or ready.get('reason') or 'the kubelet has not reported yet'}"
        yield Seen("plan", at, "", "", what, _time(ready.get("lastTransitionTime")))
    for each in node.get("status", {}).get("conditions") or ():
        seen = _condition_seen(node, each)
        if each["type"] != "Ready" and cause_of(seen, ()):
            yield seen
    labels = node["metadata"].get("labels", {})
    for key, value in promise.labels.items():
        if labels.get(key) != value:
            what = f"label {key}: promised {value}, found {labels.get(key, 'none')}"
            yield Seen("plan", at, "", "", what, since, "label-or-taint")
    yield from _taints(promise, node, at, since)
    state = labels.get(MIG_STATE_LABEL, "")
    if MIG_CONFIG_LABEL in promise.labels and state != "success":
        yield Seen("label", at, MIG_STATE_LABEL, state, f"label {MIG_STATE_LABEL} is {state or 'missing'}", since)
    yield from _resources(promise, node, at)
    yield from _devices(promise, node, at, snapshot)
    yield from _daemons(promise, node, at, snapshot)


def _taints(promise: Promise, node: JsonObject, at: str, since: datetime | None) -> Iterator[Seen]:
    there = {
        Taint(each["key"], each.get("value") or "", KUBERNETES_EFFECTS[each["effect"]]): each
        for each in node.get("spec", {}).get("taints") or ()
        if each.get("effect") in KUBERNETES_EFFECTS
    }
    for taint in promise.taints:
        if taint not in there:
            yield Seen("plan", at, "", "", f"taint {taint} is missing", since, "label-or-taint")
    for taint, each in there.items():
        if taint not in promise.taints and taint.effect in HARD_EFFECTS:
            added = _time(each.get("timeAdded")) or since
            yield Seen("taint", at, taint.key, taint.effect.value, f"taint {taint} keeps pods off", added)


def _resources(promise: Promise, node: JsonObject, at: str) -> Iterator[Seen]:
    offered = node.get("status", {}).get("allocatable") or {}
    capacity = node.get("status", {}).get("capacity") or {}
    early = [name for name in shared_away(promise) if quantity(offered.get(name)) > 0]
    is_cut = node["metadata"].get("labels", {}).get(MIG_STATE_LABEL, "success") == "success"
    for name, promised in promise.resources.items():
        wanted, found = quantity(promised), quantity(offered.get(name))
        is_size = not promised.isdigit()
        if found >= wanted if is_size else found == wanted:
            continue
        what = f"{name}: promised {promised}, allocatable {offered.get(name, 0)}"
        if quantity(capacity.get(name)) > found:
            what += f" of {capacity[name]}"
        cause = ""
        if name in promise.fabric_resources:
            cause = "fabric"
        elif 0 < found < wanted and (found * promise.gpus) % wanted == 0:
            cause = "fewer-gpus"
            if found == promise.unshared.get(name) and wanted != promise.gpus:
                cause = "plugin-config"
        if not early and not cause and promise.has_mig and is_cut and found == promise.gpus and name == GPU_RESOURCE:
            cause = "mig-layout"
        yield Seen("plan", at, "", "", what, _created(node), cause)
    planned = {name for name in offered if name.startswith("nvidia.com/") and name not in promise.resources}
    for name in sorted(planned):
        if quantity(offered[name]) > 0:
            cause = ("mig-layout" if promise.has_mig else "plugin-config") if name in early and is_cut else ""
            if promise.devices.get(GPU_DRIVER):
                cause = "two-owners"
            what = f"{name}: not promised, allocatable {offered[name]}"
            yield Seen("plan", at, "", "", what, _created(node), cause)


def _devices(promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Compare the devices in ResourceSlices, without those that a taint keeps from pods."""
    if not promise.devices or "resourceslices" in snapshot.unseen:
        return
    by_driver = grouped((each["spec"]["driver"], each) for each in snapshot.slices_on.get(node["metadata"]["name"], ()))
    for driver, promised in promise.devices.items():
        found, tainted = 0, []
        slices = by_driver.get(driver, [])
        newest = max((each["spec"].get("pool", {}).get("generation", 0) for each in slices), default=0)
        for each in slices:
            if each["spec"].get("pool", {}).get("generation", 0) == newest:
                for device in each["spec"].get("devices") or ():
                    hard = [one for one in device.get("taints") or () if one.get("effect") in HARD_EFFECTS]
                    tainted += [f"{device['name']} has taint {one['key']}" for one in hard[:1]]
                    found += not hard
        if found == promised or (found > promised and driver != GPU_DRIVER):
            continue
        what = f"devices of {driver}: promised {promised}, found {found}"
        what += f" ({', '.join(tainted)})" if tainted else ""
        cause = "fabric" if driver != GPU_DRIVER else "fewer-gpus" if found or tainted else ""
        yield Seen("plan", at, "", "", what, _created(node), cause)


def _daemons(promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Require a ready pod of the owner of each component, and none of anybody else."""
    pods = snapshot.pods_on.get(node["metadata"]["name"], ())
    on_node: dict[str, list[tuple[str, bool, JsonObject]]] = {}
    for pod in pods:
        name = _owner(pod)
        for daemon in snapshot.bringers[name][1] if name in snapshot.bringers else ():
            on_node.setdefault(daemon.piece, []).append((name, bool(daemon.by_cloud), pod))
    for piece, there in on_node.items():
        owner = promise.daemons.get(piece, "")
        if piece not in promise.owners:
            continue
        strangers = [(name, pod) for name, by_cloud, pod in there if not (_is_of(name, owner) if owner else by_cloud)]
        if strangers:
            name, pod = strangers[0]
            what = f"DaemonSet {name} brings the {piece} beside {promise.owners[piece]}"
            yield Seen("plan", at, "", "", what, _created(pod), "two-owners")
    if {"daemonsets", "pods"} & snapshot.unseen.keys():
        return
    for piece, owner in promise.daemons.items():
        if piece not in promise.required:
            continue
        own = [pod for name, _, pod in on_node.get(piece, ()) if _is_of(name, owner)]
        if not own:
            yield _why_not_there(piece, owner, promise, node, at, snapshot)
        for pod in own:
            if condition(pod, "Ready").get("status") != "True":
                yield Seen("plan", _object("Pod", pod), "", "", f"the {piece} is not ready", _created(pod))


def _why_not_there(piece: str, owner: str, promise: Promise, node: JsonObject, at: str, snapshot: Snapshot) -> Seen:
    """Say why the owner of a component has no pod on a node; the DaemonSet controller reports nothing."""
    sets = [
        each
        for name, (each, brings) in snapshot.bringers.items()
        if _is_of(name, owner) and any(one.piece == piece for one in brings)
    ]
    if not sets:
        what = f"no DaemonSet of {promise.owners[piece]} brings the {piece}"
        return Seen("plan", at, "", "", what, _created(node), "plugin-not-scheduled")
    reasons = [why for each in sets if (why := _keeps_off(each, node))]
    if not reasons:
        return Seen(
            "plan", f"DaemonSet {full_name(sets[0])}", "", "", f"no pod with the {piece} on {at}", _created(node)
        )
    what = f"no pod with the {piece} on {at}: {reasons[0]}"
    return Seen("plan", f"DaemonSet {full_name(sets[0])}", "", "", what, _created(node), "plugin-not-scheduled")


def _keeps_off(daemon_set: JsonObject, node: JsonObject) -> str:
    """Return which selector or missing toleration keeps a DaemonSet off a node; empty for none."""
    pod, labels = daemon_set["spec"]["template"]["spec"], node["metadata"].get("labels", {})
    for key, value in (pod.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return f"it selects {key}={value}, and the node has {labels.get(key, 'no such label')}"
    taints = [
        Taint(each["key"], each.get("value") or "", KUBERNETES_EFFECTS[each["effect"]])
        for each in node.get("spec", {}).get("taints") or ()
        if each.get("effect") in KUBERNETES_EFFECTS and not each["key"].startswith("node.kubernetes.io/")
    ]
    missing = untolerated(pod.get("tolerations") or (), taints)
    if missing:
        return f"it does not tolerate {missing[0]}"
    affinity = (pod.get("affinity") or {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms") or ()
    failing = [_fails(each, labels) for each in terms]
    return f"its affinity requires {failing[0]}" if failing and all(failing) else ""


def _fails(term: JsonObject, labels: Mapping[str, str]) -> str:
    """Return the first requirement of a term that the labels do not meet; operators other than these four are met."""
    for each in term.get("matchExpressions") or ():
        key, operator, values = each["key"], each["operator"], each.get("values") or ()
        is_in, has = labels.get(key) in values, key in labels
        if not {"In": is_in, "NotIn": not is_in, "Exists": has, "DoesNotExist": not has}.get(operator, True):
            return " ".join(filter(None, [key, operator, ", ".join(values)]))
    return ""


def _is_of(daemon_set: str, owner: str) -> bool:
    """Return whether a DaemonSet is the owner's: of its namespace, or the one that is named."""
    return daemon_set == owner or daemon_set.rpartition("/")[0] == owner


# --- evidence ---------------------------------------------------------------------------------------------------------


def _evidence(promise: Promise, nodes: list[JsonObject], snapshot: Snapshot, has_nodes: bool) -> Iterator[Seen]:
    """Yield what conditions, pods, events and the software's own states say about a pool that is not ready."""
    about = [("Node", "", node["metadata"]["name"]) for node in nodes]
    pods = [pod for node in nodes for pod in snapshot.pods_on.get(node["metadata"]["name"], ())]
    names = {node["metadata"]["name"] for node in nodes}
    pods += [pod for pod in snapshot.pods_on.get("", ()) if _targets(pod, promise) or _names_a_node(pod, names)]
    for pod in pods:
        if condition(pod, "Ready").get("status") != "True":
            about.append(("Pod", pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))
            yield from _of_pod(pod) if _owner(pod) else ()
    daemon_pods = {(pod["metadata"].get("namespace", ""), pod["metadata"]["name"]) for pod in pods if _owner(pod)}
    spaces = set(promise.daemons.values())
    for key in snapshot.events_of if nodes or not has_nodes else ():
        kind, space, name = key
        if kind in ("DaemonSet", "ReplicaSet", "Job") and any(_is_of(f"{space}/{name}", each) for each in spaces):
            about.append(key)
    for key in about:
        for event in snapshot.events_of.get(key, ()):
            seen = _event_seen(event, snapshot)
            # The scheduler says of a user's pod only that there is no node.
            if seen is not None and (event.get("reason") != "FailedScheduling" or key[1:] in daemon_pods):
                yield seen
    if not has_nodes:
        yield from _of_autoscaler(promise, snapshot)
    for policy in snapshot.of("clusterpolicies"):
        for each in policy.get("status", {}).get("conditions") or ():
            if each.get("type") == "Error" and each.get("status") == "True":
                message = each.get("message") or each.get("reason", "")
                at = f"ClusterPolicy {policy['metadata']['name']}"
                yield Seen("policy", at, "", "", message, _time(each.get("lastTransitionTime")))


def _of_pod(pod: JsonObject) -> Iterator[Seen]:
    at = _object("Pod", pod)
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        message, since = scheduled.get("message", ""), _time(scheduled.get("lastTransitionTime"))
        yield Seen("pod", at, scheduled.get("reason", ""), "", message, since)
    for each in containers(pod):
        states = (each.get("state") or {}, each.get("lastState") or {})
        failed = [
            state[key]
            for state in states
            for key in ("waiting", "terminated")
            if key in state and state[key].get("reason") not in ("Completed", "ContainerCreating", "PodInitializing")
        ]
        waits_in_init = "running" in states[0] and each in (pod["status"].get("initContainerStatuses") or ())
        if failed or waits_in_init:
            first: JsonObject = failed[0] if failed else {"reason": "Running"}
            words = [f"{one.get('reason', '')} {one.get('message', '')}".strip() for one in failed]
            message = f"container {each['name']}: {'; '.join(words) or 'has not finished'}"
            since = _time(first.get("startedAt")) or _created(pod)
            yield Seen("container", at, each["name"], "bad", message, since)


def _event_seen(event: JsonObject, snapshot: Snapshot) -> Seen | None:
    """Return an event as evidence; None for one that is too old."""
    last = _time((event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp"))
    last = last or _time(event.get("eventTime") or event["metadata"].get("creationTimestamp"))
    if last is not None and snapshot.now is not None and snapshot.now - last > EVENT_AGE:
        return None
    about = event.get("involvedObject", {})
    space = f"{about['namespace']}/" if about.get("namespace") and about.get("kind") != "Node" else ""
    at, since = f"{about.get('kind')} {space}{about.get('name')}", _time(event.get("firstTimestamp")) or last
    return Seen("event", at, event.get("reason", ""), "", event.get("message", ""), since)


def _of_autoscaler(promise: Promise, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield events and backoffs of Cluster Autoscaler that name the node group of the pool."""
    for (kind, _, name), events in snapshot.events_of.items():
        for event in events if (kind, name) == ("ConfigMap", AUTOSCALER_STATUS) else ():
            seen = _event_seen(event, snapshot) if _names_pool(event.get("message", ""), promise) else None
            if seen is not None:
                yield seen
    for group in _node_groups(snapshot) or ():
        up = group.get("scaleUp") or {}
        backoff = up.get("backoffInfo") or {}
        if backoff and _names_pool(str(group.get("name", "")), promise):
            message = f"node group {group['name']}: {backoff.get('errorCode', '')} {backoff.get('errorMessage', '')}"
            at = "ConfigMap kube-system/cluster-autoscaler-status"
            yield Seen("autoscaler", at, "", "", message.strip(), _time(up.get("lastTransitionTime")))


def _node_groups(snapshot: Snapshot) -> list[JsonObject] | None:
    """Return the node groups that Cluster Autoscaler lists; None if it has no status."""
    for each in snapshot.of("configmaps"):
        try:
            status = yaml.load(each.get("data", {}).get("status", ""), Loader=yaml.BaseLoader)
        except yaml.YAMLError:  # the form before 1.30, which is text
            status = None
        groups = status.get("nodeGroups") if isinstance(status, Mapping) else None
        return [group for group in groups or () if isinstance(group, Mapping)]
    return None


def _names_pool(text: str, promise: Promise) -> bool:
    """Return whether the name of a node group has the pool's; AKS's names have no hyphens."""
    words = text.casefold()
    return promise.pool in words or f"-{promise.pool.replace('-', '')}" in words


def _targets(pod: JsonObject, promise: Promise) -> bool:
    """Return whether a pod that no node has yet waits for the pool."""
    return bool((pod.get("spec", {}).get("nodeSelector") or {}).get(POOL_LABEL) == promise.pool)


def _names_a_node(pod: JsonObject, names: set[str]) -> bool:
    """Return whether a pod of a DaemonSet waits for one of the nodes, which its affinity names."""
    affinity = (pod.get("spec", {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    return any(names & set(each.get("values") or ()) for term in terms for each in term.get("matchFields") or ())


def _owner(pod: JsonObject) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    name = next((each["name"] for each in owners if each["kind"] == "DaemonSet"), "")
    return f"{pod['metadata'].get('namespace', '')}/{name}" if name else ""


def _condition_seen(node: JsonObject, each: JsonObject) -> Seen:
    message = (
        f"condition {each['type']} is {each['status']}: {each.get('reason', '')} {each.get('message', '')}".strip()
    )
    since = _time(each.get("lastTransitionTime"))
    return Seen("condition", _object("Node", node), each["type"], each["status"], message, since)


def _object(kind: str, item: JsonObject) -> str:
    return f"{kind} {full_name(item)}"


def _created(item: JsonObject) -> datetime | None:
    return _time(item["metadata"].get("creationTimestamp"))


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")) if text else None
    except ValueError:
        return None


_UNITS = {"m": 0.001, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text: object) -> float:
    """Return a quantity as a number; 0 for one that is missing.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    given = str(text or "0")
    number = given.rstrip("".join(set("".join(_UNITS))))
    try:
        return float(number) * _UNITS.get(given[len(number) :], 1)
    except ValueError:
        return 0.0
