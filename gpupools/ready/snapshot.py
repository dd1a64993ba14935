"""What `gpupools ready` reads of a cluster: the requests, and the objects as plain data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_plan import POOL_LABEL

Key = TypeVar("Key")


class Read(NamedTuple):
    """A list that is requested from the Kubernetes API, or one object of it as `namespace/name`."""

    plural: str
    api: str
    what: str
    """The kind, or what is read of it."""
    name: str = ""

    @property
    def path(self) -> str:
        """Path of the list or object."""
        root = f"/{'apis' if '/' in self.api else 'api'}/{self.api}"
        space, _, name = self.name.partition("/")
        return f"{root}/namespaces/{space}/{self.plural}/{name}" if name else f"{root}/{self.plural}"


AUTOSCALER_STATUS = "cluster-autoscaler-status"

READS = (
    Read("nodes", "v1", "labels, taints, conditions and allocatable resources"),
    Read("daemonsets", "apps/v1", "owners of the components"),
    Read("pods", "v1", "pods of these DaemonSets and the GPU Operator, and pods that wait for a node or failed"),
    Read("events", "v1", "causes"),
    Read("runtimeclasses", "node.k8s.io/v1", "the RuntimeClass that pods name"),
    Read("resourceslices", "resource.k8s.io/v1", "devices of DRA drivers"),
    Read("clusterpolicies", "nvidia.com/v1", "state of the GPU Operator"),
    Read("configmaps", "v1", "status of Cluster Autoscaler", f"kube-system/{AUTOSCALER_STATUS}"),
)
"""Everything that the command reads; the ClusterRole in docs/reference/permissions is generated from it."""

OPERATOR = "app.kubernetes.io/component=gpu-operator"
"""Label of the pods of the GPU Operator's own controller and of its hooks, by its chart and by OLM.

https://github.com/NVIDIA/gpu-operator, deployments/gpu-operator/templates/operator.yaml and
bundle/manifests/gpu-operator-certified.clusterserviceversion.yaml
"""
SELECTORS = {
    "pods": (("status.phase=Pending", ""), ("status.phase=Failed", ""), ("", OPERATOR)),
    "events": (("type=Warning", ""), ("reason=NotTriggerScaleUp", ""), ("reason=TriggeredScaleUp", "")),
}
"""Selectors by fields and by labels of large kinds; of pods, those of the DaemonSets are read in addition."""
CONTAINERS = "initContainerStatuses containerStatuses"
_META = "name namespace uid labels annotations creationTimestamp ownerReferences finalizers deletionTimestamp"
_META += " deletionGracePeriodSeconds"
_KEPT = {
    "nodes": {"spec": "providerID taints", "status": "allocatable capacity conditions"},
    "daemonsets": {"spec": "selector template"},
    "pods": {"spec": "nodeName nodeSelector affinity", "status": f"phase reason message conditions {CONTAINERS}"},
    "clusterpolicies": {"status": "state conditions"},
    "podgroups": {"spec": "minMember", "status": ""},
}
"""Fields that are kept of large kinds: a node lists 50 images. Conditions of pod groups have fields of their own."""


def pruned(kind: str, item: JsonObject) -> JsonDict:
    """Return an object with the fields that are read; a part of another form stays, for whoever checks it."""
    found = dict(item)
    for part, names in {**_KEPT.get(kind, {}), "metadata": _META}.items():
        given = item.get(part) or {}
        if isinstance(given, Mapping):
            found[part] = {key: given[key] for key in names.split() if given.get(key)}
    return found


class Daemon(NamedTuple):
    """A container that brings a piece of GPU software to nodes; `by_cloud` if its DaemonSet is the cloud's."""

    container: str
    piece: str
    by_cloud: str
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
        unseen: Mapping[str, str],
        now: datetime | None,
        where: tuple[str, str] = ("", ""),
    ) -> None:
        """Take the objects, the kinds that could not be read with the reason, the server's time, host and name."""
        self._objects, self.unseen, self.now, self.where = objects, unseen, now, where
        staying = (node for node in self.of("nodes") if not is_leaving(node))
        self.nodes_of_pool = _grouped(staying, lambda node: node["metadata"].get("labels", {}).get(POOL_LABEL, ""))
        """Nodes by the pool that their label names, without those that are being removed."""
        self.pods_on = _grouped(self.of("pods"), lambda pod: pod["spec"].get("nodeName", ""))
        self.pods_read = {f"Pod {full_name(pod)}" for pod in self.of("pods")}
        self.events_of = _grouped(self.of("events"), about_of)
        slices = (item["spec"] for item in self.of("resourceslices"))
        self.slices_on = _grouped(slices, lambda each: (each.get("nodeName", ""), each["driver"]))
        found = ((full_name(item), (item, daemons_of(item))) for item in self.of("daemonsets"))
        self.bringers = {name: each for name, each in found if each[1]}
        """DaemonSets of GPU software, by `namespace/name`, with what they bring."""

    def of(self, kind: str) -> Sequence[JsonObject]:
        """Return the objects of a kind."""
        return self._objects.get(kind, ())


def _grouped(items: Iterable[JsonObject], key: Callable[[JsonObject], Key]) -> Mapping[Key, list[JsonObject]]:
    found: dict[Key, list[JsonObject]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def about_of(event: JsonObject) -> tuple[str, str, str]:
    """Return kind, namespace and name of what an event is about; nodes have no namespace."""
    given = event["involvedObject"]
    kind = given.get("kind", "")
    return kind, "" if kind == "Node" else given.get("namespace", ""), given.get("name", "")


_TAINTS = [row for row in data_rows("ready_signals.csv") if row["kind"] == "taint"]
_LEAVING = tuple(row["name"] for row in _TAINTS if row["cause"] == "leaving")
"""Starts of the keys of taints."""


def is_leaving(node: JsonObject) -> bool:
    """Return whether a node is being removed."""
    taints = node["spec"].get("taints") or ()
    return "deletionTimestamp" in node["metadata"] or any(taint["key"].startswith(_LEAVING) for taint in taints)


def full_name(item: JsonObject) -> str:
    """Return `namespace/name`, or the name of an object without namespace."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def condition(item: JsonObject, kind: str) -> JsonObject:
    """Return the condition of a type; empty if there is none."""
    return next((each for each in item["status"].get("conditions") or () if each["type"] == kind), {})


def has_ended(pod: JsonObject) -> bool:
    """Return whether all containers of a pod have ended for good."""
    return pod["status"].get("phase") in ("Failed", "Succeeded")


def is_ready(item: JsonObject) -> bool:
    """Return whether a pod or node is ready."""
    return condition(item, "Ready").get("status") == "True"
