"""What pods, events and the software's own states say about a pool that is not ready."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import yaml

from gpupools.common.json_types import JsonObject
from gpupools.plan.node_labels import SOFTWARE_LABEL
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.ready.causes import Seen
from gpupools.ready.promises import Promise
from gpupools.ready.snapshot import AUTOSCALER_STATUS, Snapshot, condition, containers, full_name

EVENT_AGE = timedelta(minutes=30)
"""Older events say nothing about now."""
_STATUS_MAP = f"ConfigMap kube-system/{AUTOSCALER_STATUS}"
_ANSWERS = ("TriggeredScaleUp", "FailedScaleUp", "NotTriggerScaleUp")
"""Events of an autoscaler about a pod that waits."""


def evidence(promise: Promise, nodes: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Yield it; of an autoscaler only where nodes are missing."""
    names = dict.fromkeys(node["metadata"]["name"] for node in nodes)
    pods = [pod for name in names for pod in snapshot.pods_on.get(name, ())]
    pods += [pod for pod in snapshot.pods_on.get("", ()) if waits_for(pod, promise) or _daemon_node(pod) & names.keys()]
    about = {("Node", "", name) for name in names}
    spaces = set(promise.daemons.values())
    about |= {
        key
        for key in snapshot.events_of
        if key[0] == "DaemonSet" and any(is_of("/".join(key[1:]), each) for each in spaces)
    }
    for pod in pods:
        if condition(pod, "Ready").get("status") != "True":
            about.add(("Pod", pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))
    # The scheduler says of a user's pod only that there is no node.
    daemons = {full_name(pod): pod for pod in pods if owner_of(pod)}
    for key in sorted(about):
        for event in snapshot.events_of.get(key, ()):
            if event.get("reason") != "FailedScheduling" or "/".join(key[1:]) in daemons:
                yield from _of_event(event, snapshot)
    for pod in daemons.values():
        yield from _of_pod(pod) if condition(pod, "Ready").get("status") != "True" else ()
    if len(nodes) < max(promise.pool.min_nodes, 1):
        yield from _of_autoscaler(promise, snapshot)
    for policy in snapshot.of("clusterpolicies") if promise.labels.get(SOFTWARE_LABEL) == "gpu-operator" else ():
        error = condition({"status": policy.get("status", {})}, "Error")
        if error.get("status") == "True":
            at, message = f"ClusterPolicy {full_name(policy)}", error.get("message") or error.get("reason", "")
            yield Seen("policy", at, message, parsed_time(error.get("lastTransitionTime")))


def _of_pod(pod: JsonObject) -> Iterator[Seen]:
    at, scheduled = f"Pod {full_name(pod)}", condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        since = parsed_time(scheduled.get("lastTransitionTime"))
        yield Seen("pod", at, scheduled.get("message", ""), since, name=scheduled.get("reason", ""))
    for each, is_init in containers(pod):
        state, last = each.get("state") or {}, each.get("lastState") or {}
        if "running" in state:
            words = ["has not finished" if is_init else "is not ready"] if is_init or not each.get("ready") else []
        else:
            states = [part[key] for part in (state, last) for key in ("waiting", "terminated") if key in part]
            usual = ("Completed", "ContainerCreating", "PodInitializing")
            failed = [one for one in states if one.get("reason") not in usual]
            words = [f"{one.get('reason', '')} {one.get('message', '')}".strip() for one in failed]
        if words:
            yield Seen(
                "container", at, f"container {each['name']}: {'; '.join(words)}", created(pod), name=each["name"]
            )


def _of_event(event: JsonObject, snapshot: Snapshot) -> Iterator[Seen]:
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    last = next((time for text in times if (time := parsed_time(text)) is not None), None)
    if last is None or snapshot.now is None or snapshot.now - last <= EVENT_AGE:
        about = event["involvedObject"]
        named = [about.get("namespace"), about.get("name", "")] if about.get("kind") != "Node" else [about.get("name")]
        at, since = (
            f"{about.get('kind')} {'/'.join(filter(None, named))}",
            parsed_time(event.get("firstTimestamp")) or last,
        )
        yield Seen("event", at, event.get("message", ""), since, name=event.get("reason", ""))


def _of_autoscaler(promise: Promise, snapshot: Snapshot) -> Iterator[Seen]:
    """Yield events and backoffs of Cluster Autoscaler that name the node group of the pool."""
    for event in snapshot.events_of.get(("ConfigMap", "kube-system", AUTOSCALER_STATUS), ()):
        if _names_pool(event.get("message", ""), promise):
            yield from _of_event(event, snapshot)
    for group in _node_groups(snapshot) or ():
        up = group.get("scaleUp") or {}
        backoff = up.get("backoffInfo") or {}
        if backoff and _names_pool(str(group.get("name", "")), promise):
            message = f"node group {group['name']}: {backoff.get('errorCode', '')} {backoff.get('errorMessage', '')}"
            yield Seen("autoscaler", _STATUS_MAP, message.strip(), parsed_time(up.get("lastTransitionTime")))


def unknown_to_autoscaler(promise: Promise, waiting: Sequence[JsonObject], snapshot: Snapshot) -> Iterator[Seen]:
    """Report an autoscaler that has no status or does not list the node group, while pods wait for a node."""
    groups, names = _node_groups(snapshot), {("Pod", *full_name(pod).split("/")) for pod in waiting}
    about = {key for key, events in snapshot.events_of.items() if any(one.get("reason") in _ANSWERS for one in events)}
    answered = about & names or ("ConfigMap", "kube-system", AUTOSCALER_STATUS) in snapshot.events_of
    what = ""
    if groups is None and not answered and "configmaps" not in snapshot.unseen:
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
        groups = status.get("nodeGroups") if isinstance(status, Mapping) else None
        return [group for group in groups or () if isinstance(group, Mapping)]
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
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
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
