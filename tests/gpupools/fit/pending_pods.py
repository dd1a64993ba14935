"""Histories of pods that wait. The last step shows the reason; before it, much may look free."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.gpupools.ready.world import THEN, World

Step = Callable[[World], None]
NAME = "default/job"
GPU = "nvidia.com/gpu"


class Script(NamedTuple):
    name: str
    at: str
    """`cluster/pool`."""
    disagrees: str
    key: str
    steps: tuple[Step, ...]
    next: str
    """How the next command starts."""
    is_real: bool = True
    """Whether a real scheduler can be made to show it."""


def pod(world: World, gpus: int = 8, resource: str = GPU, name: str = "job", node: str = "", **spec: Any) -> None:
    """A pod of a user that requests units of a resource."""
    container = {"name": "main", "image": "registry.example.com/none", "resources": {"limits": {resource: str(gpus)}}}
    given: dict[str, Any] = {"containers": [container], "nodeSelector": {"gpupools/pool": world.pool}}
    given["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    given |= {"nodeName": node} if node else {}
    meta = {"namespace": "default", "name": name, "creationTimestamp": THEN}
    status = {
        "phase": "Running" if node else "Pending",
        "conditions": [{"type": "Ready", "status": "True"}] * bool(node),
    }
    world.put("pods", {"metadata": meta, "spec": {**given, **spec}, "status": status})


def asks(gpus: int = 8, resource: str = GPU, **spec: Any) -> Step:
    return lambda world: pod(world, gpus, resource, **spec)


def runs(count: int = 2) -> Step:
    """Nodes with all that the plan promises."""

    def step(world: World) -> None:
        world.nodes(count)
        for node in world.objects["nodes"]:
            name = node["metadata"]["name"]
            world.offer(name)
            for part in ("allocatable", "capacity"):
                node["status"][part] |= {"memory": "500Gi", "pods": "110", "ephemeral-storage": "90Gi"}
        world.daemons(count)

    return step


def holds(*nodes: str, gpus: int = 8) -> Step:
    """Pods that hold GPUs of nodes."""

    def step(world: World) -> None:
        for node in nodes:
            pod(world, gpus, name=f"holder-{node}", node=node)

    return step


def status(**given: Any) -> Step:
    return lambda world: world.named("pods", "job")["status"].update(given)


@dataclass(frozen=True)
class Refuses:
    """The scheduler's answer, which a real one gives itself."""

    message: str

    def __call__(self, world: World) -> None:
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.message}
        world.named("pods", "job")["status"]["conditions"] = [said]
        world.event(f"Pod {NAME}", "FailedScheduling", self.message)


def event(about: str, reason: str, message: str) -> Step:
    return lambda world: world.event(about, reason, message)


def taints(key: str, effect: str = "NoSchedule", *nodes: str) -> Step:
    def step(world: World) -> None:
        for node in nodes:
            world.named("nodes", node)["spec"]["taints"].append({"key": key, "effect": effect})

    return step


def lacks(node: str, gpus: int) -> Step:
    def step(world: World) -> None:
        for part in ("allocatable", "capacity"):
            world.named("nodes", node)["status"][part][GPU] = str(gpus)

    return step


def not_ready(node: str) -> Step:
    def step(world: World) -> None:
        (ready,) = world.named("nodes", node)["status"]["conditions"]
        ready |= {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        taints("node.kubernetes.io/unreachable", "NoSchedule", node)(world)

    return step


def without_plugin(world: World) -> None:
    """The device plugin's DaemonSet tolerates nothing, so that its nodes offer no GPU."""
    world.nodes(2)
    for node in world.objects["nodes"]:
        for part in ("allocatable", "capacity"):
            node["status"][part] |= {"memory": "500Gi", "pods": "110", "ephemeral-storage": "90Gi"}
    _, name = world.daemon_name("device plugin")
    world.named("daemonsets", name)["spec"]["template"]["spec"]["tolerations"] = []
    world.daemons(2, "device plugin")


def elsewhere(world: World) -> None:
    world.nodes(2, provider="aws:///us-east-1a/i-1")
    for node in world.objects["nodes"]:
        node["metadata"]["labels"]["topology.kubernetes.io/region"] = "us-east-1"
        world.offer(node["metadata"]["name"])


def without_label(world: World) -> None:
    runs()(world)
    for node in world.objects["nodes"]:
        del node["metadata"]["labels"]["gpupools/pool"]


def labels(key: str, value: str, *nodes: str) -> Step:
    def step(world: World) -> None:
        for node in nodes:
            world.label(key, value, node)

    return step


def needs(**requests: str) -> Step:
    """A pod of a whole node that also requests CPU or memory."""
    resources = {"limits": {GPU: "8"}, "requests": requests}
    return asks(containers=[{"name": "main", "image": "registry.example.com/none", "resources": resources}])


def uses_cpu(*nodes: str) -> Step:
    def step(world: World) -> None:
        container = {"name": "main", "image": "registry.example.com/none", "resources": {"requests": {"cpu": "90"}}}
        for node in nodes:
            pod(world, 0, name=f"cpu-{node}", node=node, containers=[container])

    return step


def cannot_create(kind: str, message: str) -> tuple[Step, ...]:
    return runs(), event(f"{kind} default/job", "FailedCreate", message)


def starts_no_node(message: str) -> tuple[Step, ...]:
    """Two nodes without a free GPU, and the autoscaler's message about the pod."""
    return (runs(), holds("n1", "n2"), asks(), FULL, event(f"Pod {NAME}", "NotTriggerScaleUp", message))


NO_CPU = Refuses("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available.")
NO_MATCH = Refuses("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
# https://github.com/kai-scheduler/KAI-Scheduler/issues/2209
KAI_QUOTA = Refuses(
    "Non-preemptible workload is over quota. Workload requested 8 GPUs, but research.whole quota is 16 GPUs, while 16"
    " GPUs are already allocated for non-preemptible pods."
)
# https://github.com/volcano-sh/volcano/issues/2416
VOLCANO_GANG = Refuses("pod group is not ready, 1 Pending, 2 minAvailable; Pending: 1 Undetermined")
# https://github.com/NVIDIA/gpu-operator/issues/693
NO_SCALE_UP = (
    "pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) didn't match Pod's node affinity/selector"
)
# https://github.com/aws/karpenter-provider-aws/issues/8068
KARPENTER = 'Failed to schedule pod, incompatible with nodepool "spot-pool", no instance type has enough resources'
WEBHOOK = (
    'Error creating: Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post'
    ' "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod": no endpoints available for service'
    ' "kueue-webhook-service"'
)
SHARES = "Allocate failed: request for 'nvidia.com/gpu: 2' too large: maximum request size for shared resources is 1"
ZONE, PRODUCT = "topology.kubernetes.io/zone", "nvidia.com/gpu.product"
BIG = {"gpupools/pool": "whole"}
FULL = Refuses("0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available.")
KUEUE = [{"name": "kueue.x-k8s.io/admission"}]
CLAIMED: Mapping[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
QUOTA = (
    'Error creating: pods "job-x7k2p" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used:'
    " requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16"
)
DESCRIBE = "kubectl -n default describe pod job"
FIT = "kubectl -n default get pod job -o yaml > pod.yaml && gpupools fit pod.yaml --stack FILE"


def boxes(*limits: Mapping[str, str], init: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Containers with these limits, and an init container."""
    made = [
        {"name": name, "image": "registry.example.com/none", "resources": {"limits": dict(own)}, **more}
        for name, own in {"main": limits[0], "side": (*limits, {})[1], "init": init or {}}.items()
    ]
    found: dict[str, Any] = {"containers": made[: len(limits)]}
    return found | ({"initContainers": made[2:]} if init else {})


def like(step: Step, name: str = "job", **metadata: Any) -> Step:
    """A pod with other metadata."""

    def changed(world: World) -> None:
        step(world)
        world.objects["pods"][-1]["metadata"] |= {"name": name, **metadata}

    return changed


def without_gpus(*nodes: str) -> Step:
    """Nodes of which the kubelet has lost the device plugin, whose container ends again and again."""

    def step(world: World) -> None:
        for node in nodes:
            lacks(node, 0)(world)
            for each in list(world.objects["pods"]):
                if each["spec"].get("nodeName") == node and "device-plugin" in each["metadata"]["name"]:
                    world.objects["pods"].remove(each)
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
            world.stuck("device plugin", node=node, waiting=waiting)

    return step


def refuses(*messages: str) -> Refuses:
    return Refuses(f"0/2 nodes are available: {', '.join(messages)}. preemption: 0/2 nodes are available.")


ONE = {GPU: "1"}
APART: Any = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "gpupools/pool"}
AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}
SPREAD = {
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "topologyKey": ZONE,
    "labelSelector": APART["labelSelector"],
}
PORT = [{"containerPort": 29500, "hostPort": 29500}]
GONE: Any = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]}
PINNED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": GONE}}
NAMED = "kubectl -n default describe job job"

FURTHER = (
    # https://github.com/kubernetes/autoscaler/issues/5741
    Script(
        "anti-affinity",
        "train/whole",
        "",
        "other-pods",
        (
            runs(),
            like(asks(1, node="n1"), "other", labels={"app": "train"}),
            like(asks(1, affinity=AWAY), labels={"app": "train"}),
            refuses("2 node(s) didn't match pod anti-affinity rules"),
        ),
        DESCRIBE,
    ),
    Script(
        "topology spread over zones",
        "train/whole",
        "",
        "other-pods",
        (
            runs(),
            like(asks(1, topologySpreadConstraints=[SPREAD]), labels={"app": "train"}),
            refuses("2 node(s) didn't match pod topology spread constraints (missing required label)"),
        ),
        DESCRIBE,
    ),
    Script(
        "a port of the node is taken",
        "train/whole",
        "",
        "contradiction",
        (
            runs(),
            *(like(asks(node=each, **boxes(ONE, ports=PORT)), f"port-{each}") for each in ("n1", "n2")),
            asks(**boxes(ONE, ports=PORT)),
            refuses("2 node(s) didn't have free ports for the requested pod ports"),
        ),
        DESCRIBE,
    ),
    Script(
        "more memory than a node has",
        "train/whole",
        "pod",
        "too-large",
        (runs(), needs(memory="4Ti"), refuses("2 Insufficient memory")),
        FIT,
    ),
    Script(
        "more disk than a node has",
        "train/whole",
        "pod",
        "too-large",
        (runs(), needs(**{"ephemeral-storage": "20Ti"}), refuses("2 Insufficient ephemeral-storage")),
        FIT,
    ),
    Script(
        "huge pages that no node has",
        "train/whole",
        "pod",
        "other-resource",
        (
            runs(),
            asks(**boxes({GPU: "1", "hugepages-2Mi": "1Gi", "memory": "1Gi"})),
            refuses("2 Insufficient hugepages-2Mi"),
        ),
        FIT,
    ),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/421
    Script(
        "a resource that is misspelt",
        "train/whole",
        "pod",
        "other-resource",
        (runs(), asks(1, "nvidia.com/gpus"), refuses("2 Insufficient nvidia.com/gpus")),
        FIT,
    ),
    Script(
        "a GPU of another maker",
        "train/whole",
        "pod",
        "other-resource",
        (runs(), asks(1, "amd.com/gpu"), refuses("2 Insufficient amd.com/gpu")),
        FIT,
    ),
    Script(
        "the name of a slice, where slices are counted as GPUs",
        "train/mig",
        "pod",
        "other-resource",
        (runs(1), asks(1, "nvidia.com/mig-1g.10gb"), refuses("1 Insufficient nvidia.com/mig-1g.10gb")),
        FIT,
    ),
    Script(
        "slices of another size",
        "train/mig",
        "pod",
        "other-resource",
        (runs(1), asks(1, "nvidia.com/mig-3g.40gb"), refuses("1 Insufficient nvidia.com/mig-3g.40gb")),
        FIT,
    ),
    Script(
        "two containers with a node's GPUs each",
        "train/whole",
        "pod",
        "too-many-units",
        (runs(), asks(**boxes({GPU: "8"}, {GPU: "8"})), FULL),
        FIT,
    ),
    Script(
        "an init container with more GPUs",
        "train/whole",
        "pod",
        "too-many-units",
        (runs(), asks(**boxes(ONE, init={GPU: "16"})), FULL),
        FIT,
    ),
    Script(
        "a node that is gone",
        "train/whole",
        "pod",
        "selector",
        (runs(), asks(affinity=PINNED), refuses("2 node(s) didn't satisfy plugin(s) [NodeAffinity]")),
        FIT,
    ),
    Script(
        "another architecture",
        "train/whole",
        "pod",
        "selector",
        (runs(), asks(1, nodeSelector={**BIG, "kubernetes.io/arch": "arm64"}), NO_MATCH),
        FIT,
    ),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/119
    Script(
        "all nodes cordoned for an upgrade",
        "train/whole",
        "cluster",
        "cordoned",
        (
            runs(),
            taints("node.kubernetes.io/unschedulable", "NoSchedule", "n1", "n2"),
            asks(),
            refuses("2 node(s) were unschedulable"),
        ),
        "kubectl describe node n1",
    ),
    # https://github.com/NVIDIA/k8s-device-plugin/issues/33
    Script(
        "a plugin that fails on both nodes",
        "train/whole",
        "cluster",
        "unknown",
        (runs(), without_gpus("n1", "n2"), asks(), FULL),
        "kubectl -n gpu-operator describe pod device-plugin-n1",
    ),
    Script(
        "full disks",
        "train/whole",
        "cluster",
        "node-not-ready",
        (
            runs(),
            taints("node.kubernetes.io/disk-pressure", "NoSchedule", "n1", "n2"),
            asks(),
            refuses("2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }"),
        ),
        "kubectl describe node n1",
    ),
    Script(
        "four GPUs free on each of two nodes",
        "train/whole",
        "cluster",
        "not-triggered",
        (runs(), holds("n1", "n2", gpus=4), asks(), FULL),
        DESCRIBE,
    ),
    Script(
        "the same at max",
        "serve/whole",
        "plan",
        "at-max",
        (runs(4), holds("n1", "n2", "n3", "n4", gpus=4), asks(), FULL),
        "kubectl describe nodes -l gpupools/pool=whole",
    ),
    Script(
        "a claim template that nobody made",
        "train/claimed",
        "",
        "unknown-claim",
        (
            runs(1),
            asks(**boxes({}), resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "none"}]),
        ),
        DESCRIBE,
    ),
    # https://github.com/kubernetes/autoscaler/issues/4339
    Script(
        "a volume in another zone",
        "train/whole",
        "pod",
        "unbound-volume",
        (runs(), asks(**CLAIMED), refuses("2 node(s) had volume node affinity conflict")),
        "kubectl -n default describe pvc",
        is_real=False,
    ),
    # https://github.com/kubernetes-sigs/kueue/issues/9482
    Script(
        "a gate beside that of Kueue",
        "train/whole",
        "",
        "of-teams",
        (runs(), asks(schedulingGates=[{"name": "example.com/data"}, *KUEUE])),
        "kubectl -n default describe workloads.kueue.x-k8s.io",
    ),
    Script(
        "a scheduler that the plan does not install",
        "train/whole",
        "pod",
        "no-scheduler",
        (runs(), asks(schedulerName="kai-scheduler")),
        FIT,
    ),
    Script(
        "a limit of the namespace",
        "train/whole",
        "pod",
        "admission",
        cannot_create(
            "ReplicaSet",
            'Error creating: pods "job-x" is forbidden: maximum memory usage per Container is 64Gi, but limit is 512Gi',
        ),
        "kubectl -n default describe replicaset job",
    ),
    Script(
        "no service account",
        "train/whole",
        "pod",
        "admission",
        cannot_create(
            "Job",
            'Error creating: pods "job-" is forbidden: error looking up service account default/train: serviceaccount'
            ' "train" not found',
        ),
        NAMED,
    ),
    Script(
        "a policy of the plan",
        "train/whole",
        "pod",
        "admission",
        cannot_create(
            "Job",
            "Error creating: pods \"job-x\" is forbidden: ValidatingAdmissionPolicy 'gpupools-team-pods' with"
            " binding 'gpupools-team-pods' denied request: pools whole are shared among teams",
        ),
        NAMED,
    ),
    Script(
        "containers that do not start",
        "train/whole",
        "",
        "placed",
        (runs(), asks(node="n1"), status(phase="Pending", reason="", message="")),
        DESCRIBE,
    ),
    Script(
        "a node that goes",
        "train/whole",
        "cluster",
        "not-triggered",
        (
            runs(),
            holds("n1"),
            taints("ToBeDeletedByClusterAutoscaler", "NoSchedule", "n2"),
            asks(),
            refuses(
                "1 Insufficient nvidia.com/gpu", "1 node(s) had untolerated taint {ToBeDeletedByClusterAutoscaler: }"
            ),
        ),
        DESCRIBE,
    ),
)
"""Situations of public issues and of on-call engineers, beside those of the issues of this project."""

SCRIPTS = (
    Script("wrong scheduler", "train/whole", "pod", "no-scheduler", (runs(), asks(schedulerName="lsf")), FIT),
    Script(
        "gates", "train/whole", "", "gates", (runs(), asks(schedulingGates=[{"name": "example.com/data"}])), DESCRIBE
    ),
    Script(
        "gate of Kueue",
        "train/whole",
        "",
        "of-teams",
        (runs(), asks(schedulingGates=KUEUE)),
        "kubectl -n default describe workloads.kueue.x-k8s.io",
    ),
    Script(
        "missing plugin",
        "train/whole",
        "cluster",
        "plugin-not-scheduled",
        (without_plugin, asks(), FULL),
        "kubectl -n gpu-operator describe daemonset device-plugin",
    ),
    Script(
        "lost GPU",
        "train/whole",
        "cluster",
        "fewer-gpus",
        (runs(), holds("n1"), lacks("n2", 7), asks(), FULL),
        "kubectl describe node n2",
    ),
    Script(
        "node on its way",
        "train/whole",
        "cluster",
        "scaling-up",
        (
            runs(),
            holds("n1", "n2"),
            asks(),
            FULL,
            event(f"Pod {NAME}", "TriggeredScaleUp", "pod triggered scale-up: [{eks-train-whole 2->3 (max: 4)}]"),
        ),
        "gpupools ready FILE --watch",
    ),
    Script(
        "nobody was triggered",
        "train/whole",
        "cluster",
        "not-triggered",
        (runs(), holds("n1", "n2"), asks(), FULL),
        DESCRIBE,
    ),
    Script(
        "autoscaler refuses",
        "serve/whole",
        "cluster",
        "no-scale-up",
        starts_no_node("pod didn't trigger scale-up: 1 node(s) had untolerated taint"),
        "kubectl -n default describe pod job",
    ),
    Script(
        "group with another maximum",
        "train/whole",
        "cluster",
        "other-max",
        starts_no_node("pod didn't trigger scale-up: 1 max node group size reached"),
        "pulumi preview --refresh",
    ),
    Script(
        "full at max",
        "train/whole",
        "plan",
        "at-max",
        (
            runs(4),
            holds("n1", "n2"),
            holds("n3", gpus=4),
            holds("n4", gpus=1),
            asks(),
            FULL,
            event(f"Pod {NAME}", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"),
        ),
        "kubectl describe nodes -l gpupools/pool=whole",
    ),
    Script(
        "quota of the cloud",
        "lab/zero",
        "plan",
        "quota",
        (
            asks(1),
            Refuses("no nodes available to schedule pods"),
            event(f"Pod {NAME}", "TriggeredScaleUp", "pod triggered scale-up: [{gke-lab-zero 0->1 (max: 2)}]"),
            event(
                f"Pod {NAME}",
                "FailedScaleUp",
                "Node scale up in zones europe-west4-a associated with this pod failed: GCE quota exceeded. Pod is at"
                " risk of not being scheduled.",
            ),
        ),
        "gpupools preview FILE",
    ),
    Script(
        "no capacity for a third node",
        "serve/whole",
        "cluster",
        "no-capacity",
        (
            runs(),
            holds("n1", "n2"),
            asks(),
            FULL,
            event(
                "ConfigMap kube-system/cluster-autoscaler-status",
                "FailedToScaleUpGroup",
                'Scale-up failed for group aks-wholeoupf-31046788-vmss: Code="ZonalAllocationFailed" Message='
                '"Allocation failed. We do not have sufficient capacity for the requested VM size in this zone."',
            ),
        ),
        "gpupools explain ",
    ),
    Script(
        "spent ResourceQuota",
        "train/whole",
        "plan",
        "admission",
        (runs(), event("Job default/job", "FailedCreate", QUOTA)),
        "kubectl -n default describe job job",
    ),
    Script(
        "taint",
        "train/shared",
        "pod",
        "taint",
        (
            runs(1),
            asks(1),
            Refuses("0/1 nodes are available: 1 node(s) had untolerated taint {gpupools/trust: research}."),
        ),
        FIT,
    ),
    Script("wrong resource", "train/whole", "pod", "other-resource", (runs(), asks(1, "nvidia.com/mig-1g.10gb")), FIT),
    Script("too many units", "train/whole", "pod", "too-many-units", (runs(), asks(16), FULL), FIT),
    Script(
        "selector",
        "train/whole",
        "pod",
        "selector",
        (
            runs(),
            asks(nodeSelector={"gpupools/pool": "hole"}),
            Refuses("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        ),
        FIT,
    ),
    Script(
        "unbound volume",
        "train/whole",
        "pod",
        "unbound-volume",
        (runs(), asks(**CLAIMED), Refuses('0/2 nodes are available: persistentvolumeclaim "data" not found.')),
        "kubectl -n default describe pvc",
    ),
    Script(
        "node not ready",
        "train/whole",
        "cluster",
        "node-not-ready",
        (
            runs(),
            holds("n1"),
            not_ready("n2"),
            asks(),
            Refuses("0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {x: }."),
        ),
        "kubectl describe node n2",
    ),
    Script(
        "start-up taint",
        "train/whole",
        "cluster",
        "startup-gate",
        (
            runs(),
            taints("startup-taint.cluster-autoscaler.kubernetes.io/gpupools", "NoSchedule", "n1", "n2"),
            asks(),
            Refuses("0/2 nodes are available: 2 node(s) had untolerated taint {startup-taint: }."),
        ),
        "kubectl -n gpupools-startup-gate logs deployment/gpupools-startup-gate",
    ),
    Script(
        "cordoned",
        "train/whole",
        "cluster",
        "cordoned",
        (
            runs(),
            holds("n1"),
            taints("node.kubernetes.io/unschedulable", "NoSchedule", "n2"),
            asks(),
            Refuses("0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable."),
        ),
        "kubectl describe node n2",
    ),
    Script(
        "wrong cluster", "train/whole", "cluster", "wrong-cluster", (elsewhere, asks()), "kubectl config get-contexts"
    ),
    Script("no such pod", "train/whole", "", "no-pod", (runs(),), ""),
    Script("runs", "train/whole", "", "placed", (runs(), asks(node="n1")), DESCRIBE),
    Script(
        "finished",
        "train/whole",
        "",
        "placed",
        (
            runs(),
            asks(),
            status(phase="Failed", reason="UnexpectedAdmissionError", message="no healthy devices present"),
        ),
        DESCRIBE,
    ),
    Script(
        "contradiction",
        "train/whole",
        "",
        "contradiction",
        (runs(), asks(), Refuses("0/2 nodes are available: 2 node(s) had a conflict of a plugin nobody knows.")),
        DESCRIBE,
        is_real=False,
    ),
    Script(
        "no GPU requested",
        "train/whole",
        "",
        "no-gpu",
        (
            runs(),
            asks(tolerations=[], nodeSelector={}, containers=[{"name": "main", "image": "registry.example.com/none"}]),
            Refuses("0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}."),
        ),
        DESCRIBE,
    ),
    Script(
        "nodes without the label of their pool",
        "train/whole",
        "cluster",
        "label-or-taint",
        (without_label, asks(), NO_MATCH),
        "kubectl get node n1",
    ),
    Script(
        "taint of an operator",
        "train/whole",
        "cluster",
        "unknown",
        (
            runs(),
            taints("maintenance", "NoSchedule", "n1", "n2"),
            asks(),
            Refuses("0/2 nodes are available: 2 node(s) had untolerated taint {maintenance: }."),
        ),
        "kubectl describe node n1",
    ),
    Script(
        "more CPU than the cloud leaves of a machine",
        "train/whole",
        "pod",
        "too-large",
        (runs(), needs(cpu="95500m"), NO_CPU),
        FIT,
    ),
    Script("the same at max", "train/whole", "pod", "too-large", (runs(4), needs(cpu="95500m"), NO_CPU), FIT),
    Script(
        "another zone",
        "train/whole",
        "",
        "unknown-label",
        (runs(), labels(ZONE, "eu-west-2a", "n1", "n2"), asks(nodeSelector={**BIG, ZONE: "eu-west-2c"}), NO_MATCH),
        DESCRIBE,
    ),
    Script(
        "another product",
        "train/whole",
        "",
        "unknown-label",
        (
            runs(),
            labels(PRODUCT, "NVIDIA-A100-SXM4-80GB", "n1", "n2"),
            asks(nodeSelector={**BIG, PRODUCT: "NVIDIA-H100-80GB-HBM3"}),
            NO_MATCH,
        ),
        DESCRIBE,
    ),
    Script(
        "preempting",
        "train/whole",
        "",
        "preempting",
        (runs(4), holds("n1", "n2", "n3", "n4"), asks(), FULL, status(nominatedNodeName="n1")),
        DESCRIBE,
        is_real=False,
    ),
    Script(
        "the scheduler has not seen it",
        "train/whole",
        "",
        "not-looked-at",
        (runs(), holds("n1", "n2"), asks()),
        DESCRIBE,
        is_real=False,
    ),
    Script(
        "another group at its maximum",
        "train/whole",
        "cluster",
        "no-scale-up",
        starts_no_node(NO_SCALE_UP),
        "kubectl -n default describe pod job",
    ),
    Script(
        "maximum of the whole cluster",
        "train/whole",
        "cluster",
        "other-max",
        starts_no_node("pod didn't trigger scale-up: 2 max cluster cpu, memory limit reached"),
        "pulumi preview --refresh",
    ),
    Script(
        "CPU taken at max",
        "train/whole",
        "plan",
        "at-max",
        (runs(4), uses_cpu("n1", "n2", "n3", "n4"), needs(cpu="48"), NO_CPU),
        "kubectl describe nodes -l gpupools/pool=whole",
    ),
    Script(
        "Karpenter refuses",
        "train/whole",
        "cluster",
        "not-triggered",
        (runs(), holds("n1", "n2"), asks(), FULL, event(f"Pod {NAME}", "FailedScheduling", KARPENTER)),
        DESCRIBE,
    ),
    Script(
        "webhook down",
        "train/whole",
        "cluster",
        "admission",
        cannot_create("Job", WEBHOOK),
        "kubectl -n default describe job job",
    ),
    Script(
        "no RuntimeClass",
        "train/whole",
        "cluster",
        "runtime",
        cannot_create(
            "Job", 'Error creating: pods "job-x" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
        ),
        "kubectl get runtimeclass",
    ),
    Script(
        "PodSecurity",
        "train/whole",
        "pod",
        "admission",
        cannot_create("Job", 'Error creating: pods "job-x" is forbidden: violates PodSecurity "restricted:latest"'),
        "kubectl -n default describe job job",
    ),
    Script(
        "several shares",
        "train/whole",
        "",
        "placed",
        (runs(), asks(), status(phase="Failed", reason="UnexpectedAdmissionError", message=SHARES)),
        DESCRIBE,
    ),
    Script(
        "spent quota of a queue of KAI",
        "train/whole",
        "",
        "of-teams",
        (runs(), asks(schedulerName="kai-scheduler"), KAI_QUOTA),
        "kubectl -n default describe podgroups.scheduling.run.ai",
        is_real=False,
    ),
    Script(
        "gang of Volcano",
        "train/whole",
        "",
        "of-teams",
        (runs(), asks(schedulerName="volcano"), VOLCANO_GANG),
        "kubectl -n default describe podgroups.scheduling.volcano.sh",
        is_real=False,
    ),
    *FURTHER,
)
