"""Histories of clusters: two for each cause, in the wording of different clouds. The last step shows the cause."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.gpupools.ready.world import World

Step = Callable[[World], None]


class Script(NamedTuple):
    cause: str
    cluster: str
    pool: str
    steps: tuple[Step, ...] = ()

    def by(self, *steps: Step) -> "Script":
        return self._replace(steps=steps)


def _nodes(*, count: int = 1, **without: object) -> Step:
    return lambda w: w.nodes(count, **without)


def _daemons(*without: str, count: int = 1) -> Step:
    return lambda w: w.daemons(count, *without)


def _event(where: str, reason: str, message: str) -> Step:
    return lambda w: w.event(where, reason, message)


def _offer(*nodes: str, **counts: str) -> Step:
    return lambda w: w.offer(*nodes, **counts)


def _stuck(*container: str, **state: Any) -> Step:
    return lambda w: w.stuck(*container, **state)


def _condition(*parts: str) -> Step:
    return lambda w: w.condition(*parts)


def _state(value: str) -> Step:
    return lambda w: w.label("nvidia.com/mig.config.state", value)


STATUS = "ConfigMap kube-system/cluster-autoscaler-status"
WAITING: Step = lambda w: w.waiting()  # noqa: E731

SCRIPTS = (
    Script("quota", "lab", "zero").by(
        WAITING,
        lambda w: w.autoscaler(group="https://www.googleapis.com/compute/v1/x/gke-lab-zero-mapd-0a1b2c3d-grp"),
        _event(
            "Pod default/job",
            "FailedScaleUp",
            "Node scale up in zones europe-west4-a associated with this pod failed: GCE quota exceeded. Pod is at"
            " risk of not being scheduled.",
        ),
    ),
    Script("quota", "serve", "zero").by(
        WAITING,
        _event(
            STATUS,
            "FailedToScaleUpGroup",
            'Scale-up failed for group aks-zeroreur-31046788-vmss: Code="OperationNotAllowed" Message="Operation'
            " could not be completed as it results in exceeding approved standardNCASv3_T4Family Cores quota.",
        ),
    ),
    Script("no-capacity", "serve", "zero").by(
        WAITING,
        _event(
            STATUS,
            "FailedToScaleUpGroup",
            'Scale-up failed for group aks-zeroreur-31046788-vmss: Code="ZonalAllocationFailed" Message="Allocation'
            ' failed. We do not have sufficient capacity for the requested VM size in this zone."',
        ),
    ),
    Script("no-capacity", "lab", "zero").by(
        WAITING,
        _event(
            "Pod default/job",
            "FailedScaleUp",
            "Node scale up in zones europe-west4-a associated with this pod failed: GCE out of resources. Pod is"
            " at risk of not being scheduled.",
        ),
    ),
    Script("no-autoscaler", "train", "zero").by(WAITING),
    Script("no-autoscaler", "serve", "zero").by(
        WAITING,
        _event(
            "Pod default/job",
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector",
        ),
    ),
    Script("label-or-taint", "train", "whole").by(
        _nodes(), _daemons(), _offer(), lambda w: w.node("n2", labels=["gpupools/pool"])
    ),
    Script("label-or-taint", "lab", "shared").by(_nodes(taints=["gpupools/trust"]), _daemons(), _offer()),
    Script("startup-taint", "train", "shared").by(
        _nodes(also=[{"key": "startup-taint.cluster-autoscaler.kubernetes.io/gpu", "effect": "NoSchedule"}]),
        _daemons(),
        _offer(),
    ),
    Script("startup-taint", "lab", "shared").by(
        _nodes(also=[{"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}]),
        _daemons(),
        _offer(),
    ),
    Script("admission", "lab", "whole").by(
        _nodes(count=2),
        _event(
            "DaemonSet gpu-operator/device-plugin",
            "FailedCreate",
            "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical"
            " system-cluster-critical]}]",
        ),
    ),
    Script("admission", "serve", "shared").by(
        _nodes(),
        _event(
            "DaemonSet nvidia-device-plugin/device-plugin",
            "FailedCreate",
            'Error creating: admission webhook "validation.gatekeeper.sh" denied the request:'
            " [azurepolicy-k8sazurev2noprivilege] Privileged container is not allowed",
        ),
    ),
    Script("driver", "serve", "whole").by(
        _nodes(count=2),
        _stuck("driver", running={"startedAt": "2026-11-27T11:56:00Z"}),
        _stuck("device plugin", "toolkit-validation", init=True, running={}),
        _event(
            "Pod gpu-operator/driver-n1",
            "Unhealthy",
            "Startup probe failed: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        ),
    ),
    Script("driver", "lab", "shared").by(
        _nodes(),
        _stuck("device plugin", waiting={"reason": "ContainerCreating"}),
        _event(
            "Pod nvidia-device-plugin/device-plugin-n1",
            "FailedMount",
            'MountVolume.SetUp failed for volume "nvidia" : hostPath type check failed:'
            " /home/kubernetes/bin/nvidia is not a directory",
        ),
    ),
    Script("runtime", "train", "whole").by(
        _nodes(count=2),
        lambda w: w.drop("runtimeclasses"),
        _event(
            "DaemonSet gpu-operator/device-plugin",
            "FailedCreate",
            'Error creating: pods "device-plugin-" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
        ),
    ),
    Script("runtime", "serve", "shared").by(
        _nodes(),
        _stuck(
            "device plugin",
            terminated={
                "reason": "StartError",
                "message": 'unable to start unit: exec: "nvidia-container-runtime": executable file not found',
            },
        ),
    ),
    Script("plugin-config", "train", "shared").by(
        _nodes(),
        _stuck("device plugin", waiting={"reason": "ContainerCreating"}),
        _event(
            "Pod nvidia-device-plugin/device-plugin-n1",
            "FailedMount",
            'MountVolume.SetUp failed for volume "configs" : configmap "gpupools-device-plugin-1a2b3c" not found',
        ),
    ),
    Script("plugin-config", "serve", "shared").by(
        _nodes(),
        _stuck(
            "device plugin",
            "config-manager-init",
            init=True,
            waiting={"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"},
        ),
    ),
    Script("plugin-not-scheduled", "train", "shared").by(
        _nodes(), lambda w: w.unscheduled("device plugin", "0/3 nodes are available: 1 Insufficient memory.")
    ),
    Script("plugin-not-scheduled", "lab", "shared").by(
        lambda w: w.drop("daemonsets"),
        lambda w: w.daemon_set("driver"),
        lambda w: w.daemon_set("device plugin", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        _nodes(),
        _daemons("device plugin"),
    ),
    Script("mig-reboot", "train", "mig").by(
        _nodes(), _daemons(), _offer(**{"nvidia.com/gpu": "8"}), _state("pending"), _state("rebooting")
    ),
    Script("mig-reboot", "lab", "native").by(
        _nodes(),
        lambda w: w.installer(
            terminated={"reason": "Error", "message": "Warning: MIG mode is in pending enable state for GPU 0"}
        ),
    ),
    Script("mig-layout", "serve", "mig").by(_nodes(), _daemons(), _state("pending"), _state("failed")),
    Script("mig-layout", "lab", "native").by(_nodes(), _offer(**{"nvidia.com/gpu": "8"})),
    Script("fewer-gpus", "serve", "whole").by(
        _nodes(count=2),
        _daemons(count=2),
        _offer("n2"),
        _offer(**{"nvidia.com/gpu": "7"}),
        _condition("GPUMissing", "True", "GPUMissing", "expected 8 GPUs, found 7"),
    ),
    Script("fewer-gpus", "train", "claimed").by(
        _nodes(),
        _daemons(),
        _offer(),
        lambda w: w.slices(1, key="gpu.nvidia.com/xid", value="79", effect="NoExecute"),
        _condition("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "GPU fell off the bus"),
    ),
    Script("fabric", "train", "efa").by(
        _nodes(),
        _daemons("RDMA interfaces"),
        _offer(**{"vpc.amazonaws.com/efa": "0"}),
        lambda w: w.pod(w.daemon_name("RDMA interfaces"), "n1"),
    ),
    Script("fabric", "serve", "ib").by(
        _nodes(),
        _daemons(),
        _offer(**{"rdma/ib": "7"}),
        _condition("IBLinkFlapping", "True", "IBLinkFlapping", "link of mlx5_3 flaps"),
    ),
    Script("two-owners", "train", "whole").by(
        _nodes(count=2),
        _daemons(count=2),
        lambda w: w.daemon_set(
            "device plugin", "kube-system", "nvidia-device-plugin-daemonset", "nvidia-device-plugin-ctr"
        ),
        lambda w: w.pod(("kube-system", "nvidia-device-plugin-daemonset"), "n1"),
        _offer("n1", "n2"),
    ),
    Script("two-owners", "lab", "shared").by(
        _nodes(),
        _daemons(),
        lambda w: w.daemon_set(
            "device plugin", "kube-system", "nvidia-gpu-device-plugin-small-cos", "nvidia-gpu-device-plugin"
        ),
        lambda w: w.pod(("kube-system", "nvidia-gpu-device-plugin-small-cos"), "n1"),
        _offer(),
    ),
    Script("wrong-cluster", "train", "zero").by(_nodes(provider="azure:///subscriptions/1/resourceGroups/x")),
    Script("wrong-cluster", "serve", "whole").by(
        _nodes(
            count=2,
            provider="azure:///subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/MC_ml_other_west",
        ),
        _daemons(count=2),
        _offer("n1", "n2"),
    ),
)
