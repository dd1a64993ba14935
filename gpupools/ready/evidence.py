"""What pods, events and the software's own states say about a pool."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, SOFTWARE_LABEL
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.readback.inputs import at
from gpupools.ready.causes import STARTS, Seen, cause_of
from gpupools.ready.promises import Promise
from gpupools.ready.same_cluster import OwnGroup
from gpupools.ready.snapshot import (
    AUTOSCALER_STATUS,
    CONTAINERS,
    OPERATOR,
    Snapshot,
    about_of,
    condition,
    full_name,
    is_ready,
)

EVENT_AGE = timedelta(minutes=30)
"""Older events say nothing about now."""
RECENT = timedelta(minutes=10)
"""A restart or a failed pod that is older may be repaired: kubelets restart a container after 5 minutes at most."""
BOOT = timedelta(minutes=15)
"""How long a node may boot: drivers are compiled on it."""
_STATUS = ("ConfigMap", "kube-system", AUTOSCALER_STATUS)
_STATUS_MAP = "ConfigMap kube-system/" + AUTOSCALER_STATUS
ANSWERS = ("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp")
"""Events of an autoscaler about a pod that waits."""


def evidence(promise: Promise, nodes: Sequence[JsonObject], snapshot: Snapshot, is_own: OwnGroup) -> Iterator[Seen]:
    """Yield what may explain that a pool is not ready; of an autoscaler only where nodes are missing."""
    names = dict.fromkeys(node["metadata"]["name"] for node in nodes)
    pods = [pod for name in names for pod in snapshot.pods_on.get(name, ())]
    pods += [pod for pod in snapshot.pods_on.get("", ()) if waits_for(pod, promise) or _daemon_node(pod) & names.keys()]
    ours_or_waiting = (pod for pod in pods if owner_of(pod) in snapshot.bringers or waits_for(pod, promise))
    late = {full_name(pod): pod for pod in ours_or_waiting if not is_ready(pod)}
    brought = [full for full in snapshot.bringers if any(is_of(full, owner) for owner in promise.daemons.values())]
    about = {"DaemonSet": brought, "Node": names, "Pod": late}
    lacks_nodes = len(snapshot.nodes_of_pool.get(promise.pool.name, ())) < max(promise.pool.min_nodes, 1)
    for kind, full in ((kind, full) for kind, listed in about.items() for full in listed):
        space, _, name = full.rpartition("/")
        for event in snapshot.events_of.get((kind, space, name), ()):
            # The scheduler says of a user's pod only that there is no node.
            reason, is_daemon = event.get("reason"), kind == "Pod" and owner_of(late[full])
            if (is_daemon or reason != "FailedScheduling") and (lacks_nodes or reason not in ANSWERS):
                yield from of_event(event, snapshot)
    for pod in (item for item in late.values() if owner_of(item)):
        yield from _of_pod(pod, snapshot)
    if lacks_nodes:
        yield from of_autoscaler(is_own, snapshot)
    yield from _policies(promise, bool(nodes), snapshot)
    yield from _failing_pods(names, snapshot)


def is_fault(seen: Seen, nodes: Sequence[JsonObject], snapshot: Snapshot) -> bool:
    """Return whether evidence shows a fault although the nodes may have all that the plan promises."""
    if seen.kind == "policy" and seen.name.endswith("NotReady"):
        # Nodes of other pools may be what the operator waits for.
        ours = {node["metadata"]["name"] for node in nodes}
        return not any(_unsettled(node, ours, snapshot) for node in snapshot.of("nodes"))
    return seen.kind in ("device", "policy") or (seen.kind == "autoscaler" and not nodes)


def _policies(promise: Promise, has_nodes: bool, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield what the GPU Operator that serves a pool reports of all nodes, by the reason of its condition."""
    # https://github.com/NVIDIA/gpu-operator/blob/main/internal/conditions/conditions.go
    usual = {"Reconciled", "Ready"} if has_nodes else {"Reconciled", "Ready", "NFDLabelsMissing", "NoGPUNodes"}
    for policy in snapshot.of("clusterpolicies") if promise.labels.get(SOFTWARE_LABEL) == "gpu-operator" else ():
        told = [each for each in policy["status"].get("conditions") or () if each.get("status") == "True"]
        if not told and policy["status"].get("state") == "notReady":  # as operators before 22.9 say
            told = [{"reason": "OperandNotReady"}]
        for each in told:
            since, reason = parsed_time(each.get("lastTransitionTime")), str(each.get("reason") or "")
            if reason not in usual:
                what = each.get("message") or reason
                yield Seen("policy", f"ClusterPolicy {full_name(policy)}", what, since, name=reason)


def _unsettled(node: JsonObject, ours: Collection[str], snapshot: Snapshot) -> bool:
    """Return whether a node outside the pool may be what the GPU Operator waits for."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    parts = [node, *(pod for pod in snapshot.pods_on.get(name, ()) if owner_of(pod))]
    settled = all(map(is_ready, parts)) and not is_recent(created(node), snapshot, BOOT)
    return name not in ours and bool({POOL_LABEL, GPU_PRESENT_LABEL} & labels.keys()) and not settled


def is_recent(time: datetime | None, snapshot: Snapshot, age: timedelta = RECENT) -> bool:
    """Return whether a time is less than `age` ago."""
    return time is not None and snapshot.now is not None and abs(snapshot.now - time) <= age


def _failing_pods(nodes: Collection[str], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield each pod on some nodes that NVIDIA's software fails now, by the errors of kind `device`."""
    pods = (pod for node in nodes for pod in snapshot.pods_on.get(node, ()))
    seen = list(_failures(pods, lambda event: at(event, "source.host") in nodes, snapshot))
    errors = [signal._replace(kind="device", cause="") for signal in reversed(seen)]
    yield from {error.object: error for error in errors if cause_of(error)}.values()


def failing_operator_in(namespace: str, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield what fails the GPU Operator's own controller in a namespace, which its hooks' Jobs do not run.

    What keeps its pod from being made has the cause of its message.
    """
    key, _, value = OPERATOR.partition("=")
    labelled = (pod for pod in snapshot.of("pods") if pod["metadata"].get("labels", {}).get(key) == value)
    made = [pod for pod in labelled if is_of(owner_of(pod, "ReplicaSet"), namespace)]
    failing = (
        *_failures(made, lambda event: False, snapshot),
        *(one for pod in made for one in restarts(pod, snapshot)),
    )
    yield from (seen._replace(cause="operator") for seen in failing)
    for (kind, space, name), events in snapshot.events_of.items():
        if (kind, space) == ("ReplicaSet", namespace) and name.startswith("gpu-operator-"):
            yield from (seen for event in events for seen in of_event(event, snapshot, RECENT))


def _failures(pods: Iterable[JsonObject], is_meant: Callable[[JsonObject], bool], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield what pods that are not ready and the latest events about them say; of pods not read, events `is_meant`."""
    late = set[str]()
    for pod in (each for each in pods if not is_ready(each)):
        conditions = pod["status"].get("conditions") or ()
        times = [created(pod), *(parsed_time(each.get("lastTransitionTime")) for each in conditions)]
        if pod["status"].get("phase") != "Failed" or any(is_recent(time, snapshot) for time in times):
            late.add(f"Pod {full_name(pod)}")
            yield from _of_pod(pod, snapshot)
    for (kind, *names), events in snapshot.events_of.items():
        of = f"{kind} {'/'.join(names)}"
        for event in events if kind == "Pod" else ():
            if of in late or (of not in snapshot.pods_read and is_meant(event)):
                yield from of_event(event, snapshot, RECENT)


def restarts(pod: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield the containers of a pod that ended and run again."""
    for each in pod["status"].get("containerStatuses") or ():
        ended = at(each, "lastState.terminated") or {}
        time, reason, code = parsed_time(ended.get("finishedAt")), ended.get("reason"), ended.get("exitCode")
        # The kubelet says Unknown and 255 of containers that ended with their node.
        if is_recent(time, snapshot) and (reason, code) != ("Unknown", 255):
            count = each.get("restartCount", 1)
            what = f"container {each['name']} restarted {count} time(s), by {reason}, code {code}"
            yield Seen("plan", f"Pod {full_name(pod)}", what, time, "restarts")


def _of_pod(pod: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    of, scheduled, status = f"Pod {full_name(pod)}", condition(pod, "PodScheduled"), pod["status"]
    if why := f"{status.get('reason', '')} {status.get('message', '')}".strip():
        yield Seen("pod", of, why, created(pod))
    if scheduled.get("status") == "False":
        since = parsed_time(scheduled.get("lastTransitionTime"))
        yield Seen("pod", of, scheduled.get("message", ""), since, name=scheduled.get("reason", ""))
    inits, others = (status.get(key) or [] for key in CONTAINERS.split())
    for item in [*inits, *others]:
        state, last, cause = item.get("state") or {}, item.get("lastState") or {}, ""
        if "running" in state:
            cause = STARTS if is_recent(created(pod), snapshot, BOOT) else ""
            words = ["has not finished"] if item in inits else [] if item.get("ready") else ["is not ready"]
        else:
            states = [part[key] for part in (state, last) for key in ("waiting", "terminated") if key in part]
            failed = [one for one in states if one.get("reason") not in _USUAL]
            words = [f"{one.get('reason', '')} {one.get('message', '')}".strip() for one in failed]
        if words:
            message = f"container {item['name']}: {'; '.join(words)}"
            yield Seen("container", of, message, created(pod), cause, item["name"])


_USUAL = ("Completed", "ContainerCreating", "PodInitializing")


def of_event(event: JsonObject, snapshot: Snapshot, age: timedelta = EVENT_AGE) -> Iterator[Seen]:
    """Yield what an event says, if it is not too old."""
    last = last_seen(event)
    if last is None or snapshot.now is None or snapshot.now - last <= age:
        kind, *names = about_of(event)
        since = parsed_time(event.get("firstTimestamp")) or last
        about = f"{kind} {'/'.join(filter(None, names))}"
        yield Seen("event", about, event.get("message", ""), since, name=event.get("reason", ""))


def last_seen(event: JsonObject) -> datetime | None:
    """Return when an event was last observed."""
    return parsed_time(at(event, "series.lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"))


def of_autoscaler(is_own: OwnGroup, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield events and backoffs of Cluster Autoscaler that name the node group of the pool."""
    for event in snapshot.events_of.get(_STATUS, ()):
        if is_own(event.get("message", "")):
            yield from of_event(event, snapshot)
    for group in _node_groups(snapshot) or ():
        backoff = at(group, "scaleUp.backoffInfo")
        if backoff and is_own(str(group.get("name", ""))):
            message = f"node group {group['name']}: {backoff.get('errorCode', '')} {backoff.get('errorMessage', '')}"
            yield Seen("autoscaler", _STATUS_MAP, message.strip(), parsed_time(at(group, "scaleUp.lastTransitionTime")))


def unknown_to_autoscaler(is_own: OwnGroup, waiting: Sequence[JsonObject], snapshot: Snapshot) -> str:
    """Say that an autoscaler has no status or does not list the node group; empty if it may know it."""
    groups, asking = _node_groups(snapshot), {("Pod", *full_name(pod).split("/")) for pod in waiting}
    about = {key for key, events in snapshot.events_of.items() if any(one.get("reason") in ANSWERS for one in events)}
    if groups is None and not (about & asking or _STATUS in snapshot.events_of or "configmaps" in snapshot.unseen):
        return f"the cluster has no {_STATUS_MAP}"
    if groups and all(is_own(str(group.get("name", ""))) is False for group in groups):
        return "Cluster Autoscaler lists no node group of the pool"
    return ""


def _node_groups(snapshot: Snapshot) -> list[JsonObject] | None:
    """Return the node groups that Cluster Autoscaler lists; None if it has no status."""
    for item in snapshot.of("configmaps"):
        try:
            documents = parse_yaml(item.get("data", {}).get("status", ""))
        except Rejected:  # the form before 1.30, which is text
            documents = ()
        groups = at(documents[0].data, "nodeGroups") if documents else ()
        return [group for group in groups if isinstance(group, Mapping)] if isinstance(groups, list) else []
    return None


def waits_for(pod: JsonObject, promise: Promise) -> bool:
    """Return whether a pod selects the pool and asks for a node, which no gate holds back."""
    is_asking = pod["status"].get("phase") == "Pending" and not pod["spec"].get("nodeName")
    is_held = condition(pod, "PodScheduled").get("reason") == "SchedulingGated"
    return is_asking and not is_held and (pod["spec"].get("nodeSelector") or {}).get(POOL_LABEL) == promise.pool.name


def _daemon_node(pod: JsonObject) -> set[str]:
    """Return the node that a pod of a DaemonSet waits for, which its affinity names."""
    required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = at(pod, required) or ()
    return {value for term in terms for field in term.get("matchFields") or () for value in field.get("values") or ()}


def owner_of(pod: JsonObject, kind: str = "DaemonSet") -> str:
    """Return the DaemonSet, or another `kind`, that made a pod, as `namespace/name`; empty for none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    name = next((owner["name"] for owner in owners if owner["kind"] == kind), "")
    return f"{pod['metadata'].get('namespace', '')}/{name}" if name else ""


def is_of(daemon_set: str, owner: str) -> bool:
    """Return whether a DaemonSet is the owner's: of its namespace, or the one that is named."""
    return daemon_set == owner or daemon_set.rpartition("/")[0] == owner


def created(item: JsonObject) -> datetime | None:
    """Return when an object was created."""
    return parsed_time(item["metadata"].get("creationTimestamp"))


def parsed_time(text: object) -> datetime | None:
    """Return a time of the Kubernetes API; None if there is none."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
