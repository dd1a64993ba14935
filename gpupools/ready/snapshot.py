"""What `gpupools ready` reads of a cluster: the requests, and the objects as plain data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple, TypeVar

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_plan import POOL_LABEL

Key = TypeVar("Key")
Value = TypeVar("Value")


class Read(NamedTuple):
    """A list that is requested from the Kubernetes API."""

    kind: str
    """Key of `Snapshot.of`, which is the plural of the API."""
    api: str
    """Group and version: `v1`, `apps/v1`."""
    why: str
    """What it is read for."""
    name: str = ""
    """The only object that is read, as `namespace/name`; empty for all."""

    @property
    def path(self) -> str:
        """Path of the list, or of the only object."""
        root = f"/{'apis' if '/' in self.api else 'api'}/{self.api}"
        space, _, name = self.name.partition("/")
        return f"{root}/namespaces/{space}/{self.kind}/{name}" if name else f"{root}/{self.kind}"


AUTOSCALER_STATUS = "cluster-autoscaler-status"

READS = (
    Read("nodes", "v1", "labels, taints, conditions and allocatable resources"),
    Read("daemonsets", "apps/v1", "owners of the components"),
    Read("pods", "v1", "pods of these DaemonSets, and pods that wait for a node"),
    Read("events", "v1", "causes"),
    Read("runtimeclasses", "node.k8s.io/v1", "the RuntimeClass that pods name"),
    Read("resourceslices", "resource.k8s.io/v1", "devices of DRA drivers"),
    Read("clusterpolicies", "nvidia.com/v1", "state of the GPU Operator"),
    Read("configmaps", "v1", "status of Cluster Autoscaler", f"kube-system/{AUTOSCALER_STATUS}"),
)
"""Everything that the command reads; the ClusterRole in docs/reference/permissions is generated from it."""

_CONTAINERS = ("initContainerStatuses", "containerStatuses")
_META = "name namespace uid labels annotations creationTimestamp deletionTimestamp ownerReferences"
_KEPT = {
    "nodes": {"spec": "providerID taints", "status": "allocatable capacity conditions"},
    "daemonsets": {"spec": "selector template"},
    "pods": {"spec": "nodeName nodeSelector affinity", "status": f"phase conditions {' '.join(_CONTAINERS)}"},
}
"""Fields that are kept of large kinds: a node lists 50 images."""


def pruned(kind: str, item: JsonObject) -> JsonDict:
    """Return an object with the fields that are read."""
    kept = {**dict.fromkeys(item, ""), **_KEPT.get(kind, {}), "metadata": _META}
    return {key: _only(item.get(key) or {}, names) if names else item[key] for key, names in kept.items()}


def _only(item: JsonObject, names: str) -> JsonDict:
    return {key: item[key] for key in names.split() if item.get(key)}


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
        self,
        objects: Mapping[str, Sequence[JsonObject]],
        unseen: Mapping[str, str] | None = None,
        now: datetime | None = None,
    ) -> None:
        """Take the objects, the kinds that could not be read with the reason, and the server's time."""
        self._objects, self.unseen, self.now = objects, unseen or {}, now

    def of(self, kind: str) -> Sequence[JsonObject]:
        """Return the objects of a kind."""
        return self._objects.get(kind, ())

    @cached_property
    def nodes_of_pool(self) -> Mapping[str, list[JsonObject]]:
        """Nodes by the pool that their label names, without those that are being removed."""
        staying = (node for node in self.of("nodes") if not _is_leaving(node))
        return _grouped((node["metadata"].get("labels", {}).get(POOL_LABEL, ""), node) for node in staying)

    @cached_property
    def pods_on(self) -> Mapping[str, list[JsonObject]]:
        """Pods by node."""
        return _grouped((pod["spec"].get("nodeName", ""), pod) for pod in self.of("pods"))

    @cached_property
    def events_of(self) -> Mapping[tuple[str, str, str], list[JsonObject]]:
        """Events by kind, namespace and name of what they are about; nodes have no namespace."""

        def about(event: JsonObject) -> tuple[str, str, str]:
            given = event["involvedObject"]
            kind = given.get("kind", "")
            return kind, "" if kind == "Node" else given.get("namespace", ""), given.get("name", "")

        return _grouped((about(event), event) for event in self.of("events"))

    @cached_property
    def slices_on(self) -> Mapping[tuple[str, str], list[JsonObject]]:
        """ResourceSlices by node and driver."""
        slices = (each["spec"] for each in self.of("resourceslices"))
        return _grouped(((each.get("nodeName", ""), each["driver"]), each) for each in slices)

    @cached_property
    def bringers(self) -> Mapping[str, tuple[JsonObject, list[Daemon]]]:
        """DaemonSets of GPU software, by `namespace/name`, with what they bring."""
        found = ((full_name(each), (each, daemons_of(each))) for each in self.of("daemonsets"))
        return {name: each for name, each in found if each[1]}


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


_LEAVING_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go"""


def _is_leaving(node: JsonObject) -> bool:
    taints = node["spec"].get("taints") or ()
    return "deletionTimestamp" in node["metadata"] or any(each["key"] in _LEAVING_TAINTS for each in taints)


def full_name(item: JsonObject) -> str:
    """Return `namespace/name`, or the name of an object without namespace."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def containers(pod: JsonObject) -> Iterator[tuple[JsonObject, bool]]:
    """Yield the status of each container, and whether it is one that has to finish first."""
    for key in _CONTAINERS:
        yield from ((each, key == _CONTAINERS[0]) for each in pod["status"].get(key) or ())


def condition(item: JsonObject, kind: str) -> JsonObject:
    """Return the condition of a type; empty if there is none."""
    return next((each for each in item["status"].get("conditions") or () if each["type"] == kind), {})
