"""Workloads for tests of `gpupools fit`, made of manifests of a few kinds."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupools.common.json_types import JsonDict
from gpupools.fit.manifests import read_manifests
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import PodTemplate, Reason, Workload
from gpupools.stackfile.stack import StackPlan

_APIS = {
    **dict.fromkeys(("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"), "apps/v1"),
    "CronJob": "batch/v1",
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
}
GPU = "nvidia.com/gpu"


def template(gpus: int = 1, pool: str = "big", *, resource: str = GPU, **spec: Any) -> JsonDict:
    """Return the spec of a pod that asks for units of a pool."""
    limits = {resource: gpus} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/none", "resources": {"limits": limits}}
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in (GPU, "gpupools/trust")]
    selected = {"nodeSelector": {"gpupools/pool": pool}} if pool else {}
    return {"containers": [container], "tolerations": tolerations, **selected, **spec}


_MERGED = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "resourceClaims", "env"), "name"),
    "volumeMounts": "mountPath",
}
"""Lists that a strategic merge patch joins by a key; it replaces others, such as tolerations."""


def merged(old: Any, patch: Any, key: str = "") -> Any:
    """Apply a strategic merge patch, as `kubectl patch --local` does (tests/apiserver/test_fit.py).

    https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
    """
    if isinstance(patch, list) and key in _MERGED:
        named = {each[_MERGED[key]]: each for each in old or ()}
        for each in patch:
            name = each[_MERGED[key]]
            named[name] = None if each.get("$patch") == "delete" else merged(named.get(name), each)
        return [each for each in named.values() if each is not None]
    if not isinstance(patch, dict):
        return patch
    new = {**(old or {}), **{name: merged((old or {}).get(name), each, name) for name, each in patch.items()}}
    return {name: each for name, each in new.items() if each is not None}


def ray(workers: int, least: int = 0, *, space: str = "research", scheduler: str = "", **more: Any) -> JsonDict:
    """Return a cluster of Ray with workers of a GPU, in the form of KubeRay's samples; `more` are keys of its spec."""
    notes, pod = more.pop("notes", {}), more.pop("pod", {})
    named = {"schedulerName": scheduler} if scheduler else {}
    head = {"rayStartParams": {}, "template": {"metadata": pod, "spec": template(0, **named)}}
    worker = {"groupName": "gpus", "replicas": workers, "minReplicas": least, "maxReplicas": 30, "rayStartParams": {}}
    worker["template"] = {"metadata": pod, "spec": template(1, **named)}
    metadata = {"name": "x", "namespace": space, "annotations": notes}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [worker], **more}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def read(manifest: Mapping[str, Any]) -> Workload:
    """Return the workload that the command reads of a manifest."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "load.json")
        file.write_text(json.dumps({"apiVersion": _APIS.get(manifest["kind"], "v1"), **manifest}), encoding="utf-8")
        (found,) = read_manifests([file], "default").workloads
    return found


def asking(work: Workload) -> PodTemplate:
    """Return the first template that asks for GPUs, or the first one."""
    return next((each for each in work.templates if each.asks_for_gpus), work.templates[0])


def reasons(plan: StackPlan, work: Workload) -> dict[str, list[Reason]]:
    """Return the answer of each pool for the first template that asks for GPUs."""
    context, sharing, first = Context(plan), sharing_of(plan), asking(work)
    return {
        offer.pool.name: [
            *judge(work, first, offer, context).reasons,
            *team_reasons(work, first, offer, context, sharing),
        ]
        for offer in offers(plan)
    }
