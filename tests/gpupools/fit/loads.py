"""Workloads for tests of `gpupools fit`, made of manifests of a few kinds."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import PodTemplate, Reason, Workload
from gpupools.stackfile.stack import StackPlan

GANGS = ("kai.scheduler/batch-min-member", "scheduling.volcano.sh/group-min-member")
GPU = "nvidia.com/gpu"


def template(gpus: int = 1, pool: str = "big", *, resource: str = GPU, **spec: Any) -> JsonDict:
    """Return the spec of a pod that asks for units of a pool."""
    limits = {resource: gpus} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/none", "resources": {"limits": limits}}
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in (GPU, "gpupools/trust")]
    selected = {"nodeSelector": {"gpupools/pool": pool}} if pool else {}
    return {"containers": [container], "tolerations": tolerations, **selected, **spec}


def read(manifest: Mapping[str, Any]) -> Workload:
    """Return the workload of a manifest."""
    kind, metadata, spec = manifest["kind"], manifest["metadata"], manifest.get("spec", {})
    notes = metadata.get("annotations", {})
    gang = int(next((notes[key] for key in GANGS if key in notes), 0))
    queue, found = spec.get("queue", ""), list[tuple[str, JsonDict, int | None]]()
    if kind == "Pod":
        found = [("", {"metadata": metadata, "spec": spec}, 1)]
    elif "tasks" in spec:  # of Volcano
        gang = spec.get("minAvailable", 0)
        found = [(task["name"], task["template"], task["replicas"]) for task in spec["tasks"]]
        for _, each, _ in found:
            each["spec"].setdefault("schedulerName", spec.get("schedulerName", "volcano"))
    elif kind == "PyTorchJob":
        roles = spec["pytorchReplicaSpecs"].items()
        found = [(role, each["template"], each.get("replicas", 1)) for role, each in roles]
        gang = sum(count or 0 for _, _, count in found)
    elif kind == "DaemonSet":
        found = [("", spec["template"], None)]
    else:
        found = [("", spec["template"], spec.get("parallelism", spec.get("replicas", 1)))]
    made = [PodTemplate(role, 1, each.get("metadata", {}), each["spec"], count) for role, each, count in found]
    space = metadata.get("namespace", "default")
    return Workload(kind, metadata["name"], space, "load.yaml", 1, metadata, tuple(made), gang, 1, queue)


def reasons(plan: StackPlan, work: Workload) -> dict[str, list[Reason]]:
    """Return what is said of the first template, by pool."""
    context, sharing, (first, *_) = Context(plan), sharing_of(plan), work.templates
    return {
        offer.pool.name: [
            *judge(work, first, offer, context).reasons,
            *team_reasons(work, first, offer, context, sharing),
        ]
        for offer in offers(plan)
    }
