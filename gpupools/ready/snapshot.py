"""What `gpupools ready` reads of a cluster: the requests, and the objects as plain data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject

Key = TypeVar("Key")
Value = TypeVar("Value")


class Read(NamedTuple):
    """A list that is requested from the Kubernetes API."""

    kind: str
    """Key of `Snapshot.objects`, which is the plural of the API."""
    api: str
    """Group and version: `v1`, `apps/v1`."""
    why: str
    """What it is read for, for the page of the permissions."""
    name: str = ""
    """The only object that is read, as `namespace/name`; empty for all."""

    @property
    def path(self) -> str:
        """Path of the list, or of the only object."""
        root = "/api" if "/" not in self.api else "/apis"
        if not self.name:
            return f"{root}/{self.api}/{self.kind}"
        space, _, name = self.name.partition("/")
        return f"{root}/{self.api}/namespaces/{space}/{self.kind}/{name}"


READS = (
    Read("nodes", "v1", "labels, taints, conditions and allocatable resources"),
    Read("daemonsets", "apps/v1", "owners of the components"),
    Read("pods", "v1", "pods of these DaemonSets, and pods that wait for a node"),
    Read("events", "v1", "causes"),
    Read("runtimeclasses", "node.k8s.io/v1", "the RuntimeClass that pods name"),
    Read("resourceslices", "resource.k8s.io/v1", "devices of DRA drivers"),
    Read("clusterpolicies", "nvidia.com/v1", "state of the GPU Operator"),
    Read("configmaps", "v1", "status of Cluster Autoscaler", "kube-system/cluster-autoscaler-status"),
)
"""Everything that the command reads; the ClusterRole in docs/reference/permissions is generated from it."""


def _of(*keys: str) -> Any:
    return dict.fromkeys(keys)


_META = {"metadata": _of("name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp")}
_CONTAINERS = ("initContainerStatuses", "containerStatuses")
KEPT: Mapping[str, JsonDict] = {
    "nodes": {
        **_META,
        "spec": _of("providerID", "taints", "unschedulable"),
        "status": _of("allocatable", "capacity", "conditions"),
    },
    "daemonsets": {**_META, "spec": _of("selector", "template"), "status": _of("desiredNumberScheduled")},
    "pods": {
        "metadata": {**_META["metadata"], "ownerReferences": None},
        "spec": _of("nodeName", "nodeSelector", "affinity"),
        "status": _of("phase", "conditions", *_CONTAINERS),
    },
    "events": {
        **_META,
        **_of("involvedObject", "reason", "message", "lastTimestamp", "eventTime", "firstTimestamp", "series"),
    },
    "resourceslices": {**_META, "spec": None},
    "clusterpolicies": {**_META, "status": None},
    "configmaps": {**_META, "data": None},
}
"""Fields that are kept of each kind; a node of a large cluster lists 50 images, and a pod its whole template."""


def pruned(kind: str, item: JsonObject) -> JsonDict:
    """Return an object with the fields that are read."""
    return _only(item, KEPT.get(kind, _META))


def _only(item: JsonObject, keep: JsonObject) -> JsonDict:
    inner = {key: _only(item.get(key) or {}, below) for key, below in keep.items() if below is not None}
    return {key: item[key] for key in keep if item.get(key)} | inner


class Daemon(NamedTuple):
    """A container that brings a piece of GPU software to nodes."""

    container: str
    piece: str
    by_cloud: str
    """`yes` for a DaemonSet of the cloud itself."""
    source: str


DAEMONS: Mapping[str, Daemon] = {row["container"]: Daemon(**row) for row in data_rows("ready_daemons.csv")}


def daemons_of(daemon_set: JsonObject) -> list[Daemon]:
    """Return what the containers of a DaemonSet bring to nodes."""
    pod = daemon_set["spec"]["template"]["spec"]
    names = [each["name"] for key in ("initContainers", "containers") for each in pod.get(key) or ()]
    return [DAEMONS[name] for name in names if name in DAEMONS]


class Snapshot:
    """The objects of one cluster at one time, by kind. None of it is changed."""

    def __init__(
        self, objects: Mapping[str, Sequence[JsonObject]], unseen: Mapping[str, str] | None = None, now: Any = None
    ) -> None:
        self.objects = objects
        self.unseen = unseen or {}
        """Kind to why it could not be read."""
        self.now: datetime | None = now
        """The server's time; the clock of this machine may be wrong."""

    def of(self, kind: str) -> Sequence[JsonObject]:
        """Return the objects of a kind."""
        return self.objects.get(kind, ())

    @cached_property
    def nodes_of_pool(self) -> Mapping[str, list[JsonObject]]:
        """Nodes by the pool that their label names; nodes that are being removed are left out."""
        return grouped((node["metadata"].get("labels", {}).get("gpupools/pool", ""), node) for node in self.staying)

    @cached_property
    def staying(self) -> list[JsonObject]:
        """Nodes that nothing removes."""
        return [node for node in self.of("nodes") if not is_leaving(node)]

    @cached_property
    def pods_on(self) -> Mapping[str, list[JsonObject]]:
        """Pods by node."""
        return grouped((pod.get("spec", {}).get("nodeName", ""), pod) for pod in self.of("pods"))

    @cached_property
    def events_of(self) -> Mapping[tuple[str, str, str], list[JsonObject]]:
        """Events by kind, namespace and name of what they are about; the events of nodes have no namespace."""
        return grouped((_about(event), event) for event in self.of("events"))

    @cached_property
    def slices_on(self) -> Mapping[str, list[JsonObject]]:
        """ResourceSlices by node."""
        return grouped((each["spec"].get("nodeName", ""), each) for each in self.of("resourceslices"))

    @cached_property
    def bringers(self) -> Mapping[str, tuple[JsonObject, list[Daemon]]]:
        """DaemonSets of GPU software, by `namespace/name`, with what they bring."""
        found = ((full_name(each), (each, daemons_of(each))) for each in self.of("daemonsets"))
        return {name: each for name, each in found if each[1]}


def _about(event: JsonObject) -> tuple[str, str, str]:
    about = event.get("involvedObject", {})
    kind = about.get("kind", "")
    return kind, "" if kind == "Node" else about.get("namespace", ""), about.get("name", "")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values by key."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


LEAVING_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go"""


def is_leaving(node: JsonObject) -> bool:
    """Return whether a node is being removed."""
    taints = node.get("spec", {}).get("taints") or ()
    return "deletionTimestamp" in node["metadata"] or any(each["key"] in LEAVING_TAINTS for each in taints)


def full_name(item: JsonObject) -> str:
    """Return `namespace/name`, or the name of an object without namespace."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def containers(pod: JsonObject) -> Iterator[JsonObject]:
    """Yield the status of each container."""
    for key in _CONTAINERS:
        yield from pod.get("status", {}).get(key) or ()


def condition(item: JsonObject, kind: str) -> JsonObject:
    """Return the condition of a type; empty if there is none."""
    found = (each for each in item.get("status", {}).get("conditions") or () if each["type"] == kind)
    return next(found, {})
