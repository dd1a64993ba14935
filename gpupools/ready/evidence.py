"""What pods, events and the software's own states say about a pool."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import yaml

from gpupools.common.json_types import JsonObject
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, SOFTWARE_LABEL
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.readback.inputs import at
from gpupools.ready.causes import Seen, cause_of
from gpupools.ready.promises import Promise
from gpupools.ready.snapshot import AUTOSCALER_STATUS, CONTAINERS, Snapshot, about_of, condition, full_name, is_ready

EVENT_AGE = timedelta(minutes=30)
"""Older events say nothing about now."""
RECENT = timedelta(minutes=10)
"""A restart or a failed pod that is older may be repaired: kubelets restart a container after 5 minutes at most."""
BOOT = timedelta(minutes=15)
"""How long a node may boot: drivers are compiled on it."""
_STATUS = ("ConfigMap", "kube-system", AUTOSCALER_STATUS)
_STATUS_MAP = "ConfigMap kube-system/" + AUTOSCALER_STATUS
_ANSWERS = ("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp")
"""Events of an autoscaler about a pod that waits."""


def evidence(promise: Promise, nodes: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield what may explain that a pool is not ready; of an autoscaler only where nodes are missing."""
    names = dict.fromkeys(node["metadata"]["name"] for node in nodes)
    pods = [pod for name in names for pod in snapshot.pods_on.get(name, ())]
    pods += [pod for pod in snapshot.pods_on.get("", ()) if waits_for(pod, promise) or _daemon_node(pod) & names.keys()]
    late = {full_name(pod): pod for pod in pods if not is_ready(pod)}
    ours = {"Node": lambda full: full[1:] in names, "Pod": lambda full: full in late}
    ours["DaemonSet"] = lambda full: any(is_of(full, each) for each in promise.daemons.values())
    for kind, space, name in sorted(snapshot.events_of):
        full = f"{space}/{name}"
        for event in snapshot.events_of[kind, space, name] if kind in ours and ours[kind](full) else ():
            # The scheduler says of a user's pod only that there is no node.
            if event.get("reason") != "FailedScheduling" or (kind == "Pod" and owner_of(late[full])):
                yield from _of_event(event, snapshot)
    for pod in (each for each in late.values() if owner_of(each)):
        yield from _of_pod(pod)
    if len(nodes) < max(promise.pool.min_nodes, 1):
        yield from _of_autoscaler(promise, snapshot)
    for about, _, message, since in _policy_errors(promise, snapshot):
        yield Seen("policy", about, message, since)


def faults(promise: Promise, nodes: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield what is wrong with a pool although its nodes may have all that the plan promises."""
    ours = {node["metadata"]["name"] for node in nodes}
    yield from _failing_pods(ours, snapshot)
    for about, reason, message, since in _policy_errors(promise, snapshot):
        # Nodes of other pools may be why the operator waits.
        waits = not nodes or any(_unsettled(node, ours, snapshot) for node in snapshot.of("nodes"))
        if reason != "OperandNotReady" or not waits:
            yield Seen("policy", about, message, since)
    if not nodes:
        yield from (each for each in _of_autoscaler(promise, snapshot) if each.kind == "autoscaler")


def _policy_errors(promise: Promise, snapshot: Snapshot) -> Iterator[tuple[str, str, str, datetime | None]]:
    """Yield object, reason, message and time of what the GPU Operator that serves a pool reports.

    https://github.com/NVIDIA/gpu-operator/blob/main/internal/conditions/clusterpolicy.go
    """
    for policy in snapshot.of("clusterpolicies") if promise.labels.get(SOFTWARE_LABEL) == "gpu-operator" else ():
        status = policy.get("status") or {}
        error, about = condition({"status": status}, "Error"), f"ClusterPolicy {full_name(policy)}"
        if error.get("status") == "True":
            reason, since = str(error.get("reason", "")), parsed_time(error.get("lastTransitionTime"))
            yield about, reason, error.get("message") or reason, since
        elif status.get("state") == "notReady":
            yield about, "OperandNotReady", "its state is notReady", None


def _unsettled(node: JsonObject, ours: Collection[str], snapshot: Snapshot) -> bool:
    """Return whether a node outside the pool may be what the GPU Operator waits for."""
    name = node["metadata"]["name"]
    labels, daemons = node["metadata"].get("labels", {}), snapshot.pods_on.get(name, ())
    if name in ours or not {POOL_LABEL, GPU_PRESENT_LABEL} & labels.keys():
        return False
    return is_young(node, snapshot) or not all(map(is_ready, (node, *(pod for pod in daemons if owner_of(pod)))))


def is_young(node: JsonObject, snapshot: Snapshot) -> bool:
    """Return whether a node may still boot."""
    return _is_recent(created(node), snapshot, BOOT)


def _is_recent(time: datetime | None, snapshot: Snapshot, age: timedelta = RECENT) -> bool:
    return time is not None and snapshot.now is not None and snapshot.now - time <= age


def _failing_pods(nodes: Collection[str], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield each pod on some nodes that NVIDIA's software fails now, by the errors of kind `device`."""
    told: dict[str, list[Seen]] = {}
    for pod in (pod for node in nodes for pod in snapshot.pods_on.get(node, ())):
        status, of = pod["status"], f"Pod {full_name(pod)}"
        times = (
            created(pod),
            *(parsed_time(each.get("lastTransitionTime")) for each in status.get("conditions") or ()),
        )
        if status.get("phase") != "Failed" or any(_is_recent(time, snapshot) for time in times):
            why = f"{status.get('reason', '')} {status.get('message', '')}".strip()
            told[of] = [] if is_ready(pod) else [Seen("pod", of, why, created(pod)), *_of_pod(pod)]
    for (kind, *names), events in snapshot.events_of.items():
        of = f"{kind} {'/'.join(names)}"
        for event in events if kind == "Pod" else ():
            # Of a pod that is not read, the event says where it is.
            if told.get(of) or (of not in snapshot.pods_read and at(event, "source.host") in nodes):
                told.setdefault(of, []).extend(_of_event(event, snapshot, RECENT))
    for seen in told.values():
        errors = (each._replace(kind="device") for each in seen)
        yield from [each._replace(cause=cause_of(each)) for each in errors if cause_of(each)][:1]


def restarts(pod: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield the containers of a pod that ended and run again, unless their node had restarted."""
    for each in pod["status"].get("containerStatuses") or ():
        ended = at(each, "lastState.terminated") or {}
        time = parsed_time(ended.get("finishedAt"))
        # The kubelet says so of containers that ended with their node.
        with_node = (ended.get("reason"), ended.get("exitCode")) == ("Unknown", 255)
        if each.get("restartCount") and not with_node and _is_recent(time, snapshot):
            what = f"container {each['name']} restarted {each['restartCount']} time(s): "
            what += f"{ended.get('reason', '')}, exit code {ended.get('exitCode', 'unknown')}"
            yield Seen("plan", f"Pod {full_name(pod)}", what, time, "restarts", name=each["name"])


def _of_pod(pod: JsonObject) -> Iterator[Seen]:
    of, scheduled = f"Pod {full_name(pod)}", condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        since = parsed_time(scheduled.get("lastTransitionTime"))
        yield Seen("pod", of, scheduled.get("message", ""), since, name=scheduled.get("reason", ""))
    inits, others = (pod["status"].get(key) or [] for key in CONTAINERS.split())
    for each in [*inits, *others]:
        state, last = each.get("state") or {}, each.get("lastState") or {}
        if "running" in state:
            words = ["has not finished"] if each in inits else [] if each.get("ready") else ["is not ready"]
        else:
            states = [part[key] for part in (state, last) for key in ("waiting", "terminated") if key in part]
            failed = [one for one in states if one.get("reason") not in _USUAL]
            words = [f"{one.get('reason', '')} {one.get('message', '')}".strip() for one in failed]
        if words:
            message = f"container {each['name']}: {'; '.join(words)}"
            yield Seen("container", of, message, created(pod), name=each["name"])


_USUAL = ("Completed", "ContainerCreating", "PodInitializing")


def _of_event(event: JsonObject, snapshot: Snapshot, age: timedelta = EVENT_AGE) -> Iterator[Seen]:
    last = parsed_time(at(event, "series.lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"))
    if last is None or snapshot.now is None or snapshot.now - last <= age:
        kind, *names = about_of(event)
        since = parsed_time(event.get("firstTimestamp")) or last
        about = f"{kind} {'/'.join(filter(None, names))}"
        yield Seen("event", about, event.get("message", ""), since, name=event.get("reason", ""))


def _of_autoscaler(promise: Promise, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield events and backoffs of Cluster Autoscaler that name the node group of the pool."""
    for event in snapshot.events_of.get(_STATUS, ()):
        if _names_pool(event.get("message", ""), promise):
            yield from _of_event(event, snapshot)
    for group in _node_groups(snapshot) or ():
        backoff = at(group, "scaleUp.backoffInfo")
        if backoff and _names_pool(str(group.get("name", "")), promise):
            message = f"node group {group['name']}: {backoff.get('errorCode', '')} {backoff.get('errorMessage', '')}"
            yield Seen("autoscaler", _STATUS_MAP, message.strip(), parsed_time(at(group, "scaleUp.lastTransitionTime")))


def unknown_to_autoscaler(promise: Promise, waiting: Sequence[JsonObject], snapshot: Snapshot) -> str:
    """Say that an autoscaler has no status or does not list the node group; empty if it may know it."""
    groups, asking = _node_groups(snapshot), {("Pod", *full_name(pod).split("/")) for pod in waiting}
    about = {key for key, events in snapshot.events_of.items() if any(one.get("reason") in _ANSWERS for one in events)}
    if groups is None and not (about & asking or _STATUS in snapshot.events_of or "configmaps" in snapshot.unseen):
        return f"the cluster has no {_STATUS_MAP}"
    if groups and not any(_names_pool(str(group.get("name", "")), promise) for group in groups):
        return f"Cluster Autoscaler lists no node group of {promise.pool.name}"
    return ""


def _node_groups(snapshot: Snapshot) -> list[JsonObject] | None:
    """Return the node groups that Cluster Autoscaler lists; None if it has no status."""
    for each in snapshot.of("configmaps"):
        try:
            status = yaml.load(each.get("data", {}).get("status", ""), Loader=yaml.BaseLoader)
        except yaml.YAMLError:  # the form before 1.30, which is text
            status = None
        return [group for group in at(status, "nodeGroups") or () if isinstance(group, Mapping)]
    return None


def _names_pool(text: str, promise: Promise) -> bool:
    """Return whether a text names the pool's node group; AKS's names have no hyphens and end after eight characters."""
    name = promise.pool.name
    words = [f"-{word}" for word in re.findall("[a-z0-9-]+", text.casefold())]
    parts = [word.rpartition(f"-{own}") for word in words for own in (name, name.replace("-", "")[:8])]
    return any(found and _GROUP_END.fullmatch(rest) for _, found, rest in parts)


_GROUP_END = re.compile(
    r"(-nodes)?(-[a-z]{4}(?=-[0-9a-f]{8}-grp$)|[a-z0-9]{4}(?=-\d+-vmss$))?"
    r"(-(?=[a-z]*\d|[0-9a-f]{4,}(-|$))[a-z0-9]+)*(-grp|-vmss)?"
)
"""What clouds and gpupools.common.naming append to the name of a pool, but no other word."""


def waits_for(pod: JsonObject, promise: Promise) -> bool:
    """Return whether a pod without a node selects the pool."""
    return bool((pod["spec"].get("nodeSelector") or {}).get(POOL_LABEL) == promise.pool.name)


def _daemon_node(pod: JsonObject) -> set[str]:
    """Return the node that a pod of a DaemonSet waits for, which its affinity names."""
    required = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = at(pod, required) or ()
    return {value for term in terms for each in term.get("matchFields") or () for value in each.get("values") or ()}


def owner_of(pod: JsonObject) -> str:
    """Return the DaemonSet of a pod, as `namespace/name`; empty for none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    name = next((each["name"] for each in owners if each["kind"] == "DaemonSet"), "")
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
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")) if text else None
    except ValueError:
        return None
