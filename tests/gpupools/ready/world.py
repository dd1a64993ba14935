"""A cluster as plain objects, which scripts move step by step."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.ready.pool_status import PoolStatus, judge
from gpupools.ready.promises import Promise, promises
from gpupools.ready.snapshot import Snapshot, pruned
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan

FILE = Path(__file__).parent / "Pulumi.ready.yaml"
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
THEN = "2026-11-27T11:55:00Z"
OLD = "2026-11-27T09:00:00Z"

REGIONS = {"train": "eu-west-2", "serve": "westeurope", "lab": "europe-west4"}
CONTAINERS = {
    "driver": "nvidia-driver-ctr",
    "container toolkit": "nvidia-container-toolkit-ctr",
    "device plugin": "nvidia-device-plugin",
    "DRA driver": "gpus",
    "MIG manager": "nvidia-mig-manager",
    "RDMA interfaces": "aws-efa-k8s-device-plugin",
}


@cache
def plan() -> StackPlan:
    return check_stack_file(FILE, clouds()).plan


@cache
def plan_of(cluster: str, pool: str) -> PoolPlan:
    return next(each for each in plan().pools if (each.cluster, each.name) == (cluster, pool))


@cache
def promise_of(cluster: str, pool: str) -> Promise:
    return next(each for each in promises(plan()) if (each.pool.cluster, each.pool.name) == (cluster, pool))


class World:
    """One cluster. Methods are the steps of scripts; `heal` makes the pool hold its plan."""

    def __init__(self, cluster: str, pool: str) -> None:
        self.cluster, self.pool = cluster, pool
        self.plan, self.promise = plan_of(cluster, pool), promise_of(cluster, pool)
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.pending: list[dict[str, Any]] = []
        for piece in sorted(self.promise.required):
            self.daemon_set(piece)
        self.put("runtimeclasses", {"metadata": {"name": "nvidia"}})

    # --- objects

    def put(self, kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
        made = {**item, "metadata": {"uid": f"{kind}-{len(self.objects.get(kind, ()))}", **item["metadata"]}}
        self.objects.setdefault(kind, []).append(made)
        return made

    def named(self, kind: str, name: str) -> dict[str, Any]:
        return next(each for each in self.objects[kind] if each["metadata"]["name"] == name)

    def daemon_name(self, piece: str) -> tuple[str, str]:
        space, _, name = self.promise.daemons[piece].partition("/")
        return space, name or piece.replace(" ", "-").lower()

    def daemon_set(self, piece: str, space: str = "", name: str = "", container: str = "", **pod: Any) -> None:
        given = (space, name) if space else self.daemon_name(piece)
        tolerations = [{"operator": "Exists"}]
        spec = {"containers": [{"name": container or CONTAINERS[piece]}], "tolerations": tolerations, **pod}
        labels = {"app": given[1]}
        body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
        self.put("daemonsets", {"metadata": {"namespace": given[0], "name": given[1]}, "spec": body})

    def pod(self, daemon: tuple[str, str], node: str, *, ready: bool = True, **status: Any) -> None:
        space, owner = daemon
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        meta = {
            "namespace": space,
            "name": f"{owner}-{node or 'pending'}",
            "creationTimestamp": THEN,
            "labels": {"app": owner},
            "ownerReferences": [{"kind": "DaemonSet", "name": owner}],
        }
        given = {"phase": "Running" if ready else "Pending", "conditions": conditions, **status}
        self.put("pods", {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": given})

    # --- steps

    def node(self, name: str = "n1", **without: Any) -> None:
        """A node with everything that the cloud declares, but no GPU yet."""
        labels = {
            **self.plan.labels,
            "gpupools/pool": self.pool,
            "node.kubernetes.io/instance-type": self.plan.instance.extra.get("machine_type", self.plan.instance.name),
            "topology.kubernetes.io/region": REGIONS[self.cluster],
        }
        for key in without.get("labels", ()):
            del labels[key]
        taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in self.plan.taints]
        taints = [each for each in taints if each["key"] not in without.get("taints", ())] + without.get("also", [])
        provider = {
            "train": f"aws:///eu-west-2a/i-{name}",
            "serve": "azure:///subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/mc_ml_serve_westeurope",
            "lab": f"gce://ml-lab-1/europe-west4-a/{name}",
        }[self.cluster]
        status = {
            "allocatable": {"cpu": "95", "nvidia.com/gpu": "0"},
            "capacity": {"cpu": "96", "nvidia.com/gpu": "0"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": THEN}],
        }
        meta = {"name": name, "labels": labels, "creationTimestamp": THEN}
        spec = {"providerID": without.get("provider", provider), "taints": taints}
        self.put("nodes", {"metadata": meta, "spec": spec, "status": status})

    def nodes(self, count: int = 1, **without: Any) -> None:
        for index in range(count):
            self.node(f"n{index + 1}", **without)

    def daemons(self, count: int = 1, *without: str) -> None:
        """Ready pods of all owners but some on the first nodes."""
        for node in self.objects["nodes"][:count]:
            for piece in sorted(self.promise.required - set(without)):
                self.pod(self.daemon_name(piece), node["metadata"]["name"])

    def stuck(self, piece: str, container: str = "", node: str = "n1", *, init: bool = False, **state: Any) -> None:
        """A pod of an owner whose container does not run."""
        status = {"name": container or CONTAINERS[piece], "ready": False, "state": state}
        self.pod(
            self.daemon_name(piece),
            node,
            ready=False,
            **{"initContainerStatuses" if init else "containerStatuses": [status]},
        )

    def unscheduled(self, piece: str, message: str, node: str = "n1") -> None:
        """A pod of an owner that the scheduler cannot place on its node."""
        given = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self.pod(self.daemon_name(piece), "", ready=False, conditions=[{"type": "Ready", "status": "False"}, given])
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        self.objects["pods"][-1]["spec"]["affinity"] = affinity

    def installer(self, **state: Any) -> None:
        """Google's own driver installer, whose last init container partitions the GPUs."""
        name = ("kube-system", "nvidia-driver-installer")
        self.daemon_set("driver", *name, "nvidia-driver-installer")
        status = [{"name": "partition-gpus", "ready": False, "state": state}]
        self.pod(name, "n1", ready=False, initContainerStatuses=status)

    def event(self, about: str, reason: str, message: str, last: str = THEN) -> None:
        """An event about `Kind namespace/name` or `Kind name`."""
        kind, _, name = about.partition(" ")
        space, _, short = name.rpartition("/")
        meta = {"name": f"e{len(self.objects.get('events', ()))}", "namespace": space or "default"}
        given = {"kind": kind, "name": short, **({"namespace": space} if space else {})}
        self.put(
            "events",
            {"metadata": meta, "involvedObject": given, "reason": reason, "message": message, "lastTimestamp": last},
        )

    def waiting(self, name: str = "job") -> None:
        """A user's pod that waits for the pool."""
        status = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        }
        meta = {"namespace": "default", "name": name, "creationTimestamp": THEN}
        self.put("pods", {"metadata": meta, "spec": {"nodeSelector": {"gpupools/pool": self.pool}}, "status": status})

    def autoscaler(self, group: str = "", **backoff: str) -> None:
        """The status of Cluster Autoscaler with one node group."""
        up = {"status": "Backoff" if backoff else "NoActivity", "backoffInfo": backoff, "lastTransitionTime": THEN}
        import yaml

        text = yaml.safe_dump(
            {
                "nodeGroups": [
                    {
                        "name": group or f"eks-train-{self.pool}-nodes-1a2b3c4-20c7b1e2-abcd-4f00-9a1b-0123456789ab",
                        "scaleUp": up,
                    }
                ]
            }
        )
        meta = {"namespace": "kube-system", "name": "cluster-autoscaler-status"}
        self.put("configmaps", {"metadata": meta, "data": {"status": text}})

    def label(self, key: str, value: str, node: str = "n1") -> None:
        self.named("nodes", node)["metadata"]["labels"][key] = value

    def offer(self, *nodes: str, **other: str) -> None:
        """What the node offers: the promised resources, or other quantities (`__` stands for `/` and `.`)."""
        wanted = {**self.plan.node_resources, **self.promise.resources}
        given = {**{key: str(value) for key, value in wanted.items()}, **other}
        for node in nodes or ("n1",):
            status = self.named("nodes", node)["status"]
            status["allocatable"] = {"cpu": "95", **given}
            status["capacity"] = {"cpu": "96", **{key: str(wanted.get(key, value)) for key, value in given.items()}}

    def condition(self, kind: str, status: str, reason: str, message: str, node: str = "n1") -> None:
        given = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": THEN}
        self.named("nodes", node)["status"]["conditions"].append(given)

    def slices(self, devices: int, node: str = "n1", driver: str = "gpu.nvidia.com", **taint: str) -> None:
        listed = [
            {"name": f"gpu-{index}", **({"taints": [taint]} if taint and not index else {})} for index in range(devices)
        ]
        spec = {"driver": driver, "nodeName": node, "pool": {"generation": 1}, "devices": listed}
        self.put("resourceslices", {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})

    def policy(self, message: str) -> None:
        """The GPU Operator's ClusterPolicy is not ready."""
        given = {"type": "Error", "status": "True", "reason": "OperandNotReady", "message": message}
        self.put("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "status": {"conditions": [given]}})

    def drop(self, kind: str) -> None:
        self.objects.pop(kind, None)

    def heal(self) -> None:
        """Everything as the plan says."""
        fresh = World(self.cluster, self.pool)
        for index in range(max(self.plan.min_nodes, 1)):
            name = f"h{index}"
            fresh.node(name)
            fresh.offer(name)
            if "nvidia.com/mig.config" in self.plan.labels:
                fresh.label("nvidia.com/mig.config.state", "success", name)
            for driver, count in self.promise.devices.items():
                fresh.slices(count, name, driver)
        fresh.daemons(max(self.plan.min_nodes, 1))
        self.objects = fresh.objects

    # --- looking

    def snapshot(self) -> Snapshot:
        return Snapshot({kind: [pruned(kind, each) for each in found] for kind, found in self.objects.items()}, {}, NOW)

    def status(self) -> PoolStatus:
        cluster = plan().stack.clusters[self.cluster]
        (found,) = judge([self.promise], self.snapshot(), cluster, clouds(), "FILE")
        return found

    def holds_plan(self) -> bool:
        """Say by other means than the product whether the cluster holds the plan."""
        nodes = [
            each
            for each in self.objects.get("nodes", ())
            if each["metadata"]["labels"].get("gpupools/pool") == self.pool
        ]
        if len(nodes) < self.plan.min_nodes:
            return False
        return all(self._node_holds(each) for each in nodes)

    def _node_holds(self, node: Mapping[str, Any]) -> bool:
        labels, status = node["metadata"]["labels"], node["status"]
        wanted = {
            key: str(value)
            for key, value in {**self.plan.node_resources, **self.plan.provider_plan.extra_resources()}.items()
        }
        offered = {key: value for key, value in status["allocatable"].items() if key != "cpu" and value != "0"}
        taints = {(each["key"], each.get("value") or "", each["effect"]) for each in node["spec"]["taints"]}
        on_node = [
            pod for pod in self.objects.get("pods", ()) if pod["spec"].get("nodeName") == node["metadata"]["name"]
        ]
        owners = [(pod["metadata"]["namespace"], pod["metadata"]["ownerReferences"][0]["name"]) for pod in on_node]
        claimed = sum(
            len([each for each in one["spec"]["devices"] if not each.get("taints")])
            for one in self.objects.get("resourceslices", ())
            if one["spec"]["nodeName"] == node["metadata"]["name"]
        )
        return (
            all(labels.get(key) == value for key, value in self.plan.labels.items())
            and taints == {(each.key, each.value, each.effect.value) for each in self.plan.taints}
            and offered == wanted
            and claimed == (self.plan.instance.devices if self.plan.software == "dra-driver" else 0)
            and all(each["status"] == ("True" if each["type"] == "Ready" else "False") for each in status["conditions"])
            and labels.get("nvidia.com/mig.config.state", "success") == "success"
            and sorted(owners) == sorted(self.daemon_name(piece) for piece in self.promise.required)
            and all(pod["status"]["conditions"][0]["status"] == "True" for pod in on_node)
            and bool(self.objects.get("runtimeclasses") or not self.promise.runtime_class)
        )
