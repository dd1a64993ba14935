"""What pods, events and the software's own states say about a pool that is not ready."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import yaml

from gpupools.common.json_types import JsonObject
from gpupools.plan.node_labels import SOFTWARE_LABEL
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.readback.inputs import at
from gpupools.ready.causes import Seen
from gpupools.ready.promises import Promise
from gpupools.ready.snapshot import AUTOSCALER_STATUS, CONTAINERS, Snapshot, about_of, condition, full_name, is_ready

EVENT_AGE = timedelta(minutes=30)
"""Older events say nothing about now."""
_STATUS = ("ConfigMap", "kube-system", AUTOSCALER_STATUS)
_STATUS_MAP = "ConfigMap kube-system/" + AUTOSCALER_STATUS
_ANSWERS = ("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp")
"""Events of an autoscaler about a pod that waits."""


def evidence(promise: Promise, nodes: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield it; of an autoscaler only where nodes are missing."""
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
    for policy in snapshot.of("clusterpolicies") if promise.labels.get(SOFTWARE_LABEL) == "gpu-operator" else ():
        error = condition({"status": policy.get("status", {})}, "Error")
        if error.get("status") == "True":
            message, since = error.get("message") or error.get("reason", ""), error.get("lastTransitionTime")
            yield Seen("policy", f"ClusterPolicy {full_name(policy)}", message, parsed_time(since))


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


def _of_event(event: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    last = parsed_time(at(event, "series.lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"))
    if last is None or snapshot.now is None or snapshot.now - last <= EVENT_AGE:
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


def unknown_to_autoscaler(promise: Promise, waiting: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Report an autoscaler that has no status or does not list the node group, while pods wait for a node."""
    groups, asking = _node_groups(snapshot), {("Pod", *full_name(pod).split("/")) for pod in waiting}
    about = {key for key, events in snapshot.events_of.items() if any(one.get("reason") in _ANSWERS for one in events)}
    what = ""
    if groups is None and not (about & asking or _STATUS in snapshot.events_of or "configmaps" in snapshot.unseen):
        what = f"waits for a node, and the cluster has no {_STATUS_MAP}"
    elif groups and not any(_names_pool(str(group.get("name", "")), promise) for group in groups):
        what = f"waits for a node, and Cluster Autoscaler lists no node group of {promise.pool.name}"
    if what:
        yield Seen("plan", f"Pod {full_name(waiting[0])}", what, created(waiting[0]), "no-autoscaler")


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
    """Return whether a text has the pool's name, as names of node groups do; AKS's have no hyphens."""
    words, name = text.casefold(), promise.pool.name
    return name in words or f"-{name.replace('-', '')}" in words


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
