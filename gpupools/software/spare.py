"""Spare nodes of pools: a CapacityBuffer of Cluster Autoscaler keeps their units free, without pods of its own."""

from collections.abc import Iterator

from gpupools.common.errors import Problem
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.hami import HAMI
from gpupools.plan.order import kept_free
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.draft import Draft
from gpupools.software.objects import NOBODY, RESTRICTED, restricted_namespace, wire_form

SPARE_NAMESPACE = "gpupools-spare"
"""No team's: what a buffer keeps free counts for no quota. Cluster Autoscaler tries one pod here as a dry run."""

_API = "autoscaling.x-k8s.io/v1beta1"
"""https://github.com/kubernetes/autoscaler tag cluster-autoscaler-1.36.1, cluster-autoscaler/apis/capacitybuffer."""
_IMAGE = "registry.k8s.io/pause:3.10"
"""Required in a PodTemplate and never pulled, since its pods exist only in the autoscaler's memory."""
_PLACEHOLDERS = (
    "https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/FAQ.md"
    "#how-can-i-configure-overprovisioning-with-cluster-autoscaler"
)


def spare_nodes(draft: Draft) -> None:
    """Declare what keeps the spare nodes of the pools free, or say why nothing in this cluster does."""
    kept = list(kept_free(draft.pools))
    theirs, cloud = draft.spec.existing.cluster_autoscaler, draft.cloud
    if not kept:
        if theirs is not None and theirs.capacity_buffers:
            what = "no pool of the cluster sets nodes.spare"
            draft.refuse(what, "existing", "cluster_autoscaler", "capacity_buffers")
        return
    found: list[Problem] = []
    for pool, steps in kept:
        if what := _unserved(draft, pool):
            fix = "remove spare, and run placeholder pods with a PriorityClass below 0, which others preempt"
            if "cluster_autoscaler" in cloud.helpers and draft.spec.management == "managed" and pool.node_resources:
                fix += f", or set {draft.runtime}.existing.cluster_autoscaler.capacity_buffers once its does"
            found.append(Problem(("pools", steps[0].name, "nodes", "spare"), what, fix, _PLACEHOLDERS))
    if found:
        draft.problems += found
        return
    if cloud.capacity_buffers and draft.spec.kubernetes is None:
        names = ", ".join(pool.name for pool, _ in kept)
        what = f"spare nodes of {names} need GKE 1.35.2-gke.1842000 or later; set {draft.runtime}.kubernetes"
        draft.notes.append(f"{what} to have this checked ({cloud.capacity_buffers})")
    why = "holds what keeps spare nodes free, apart from the teams and their quotas"
    space = draft.add(restricted_namespace(SPARE_NAMESPACE, why))
    for pool, steps in kept:
        for template, buffer in _objects(pool):
            draft.add(buffer, draft.add(template, space, *(f"pool/{step.name}" for step in steps)))


def _unserved(draft: Draft, pool: PoolPlan) -> str:
    """Return why nothing keeps nodes of a pool free; empty if the autoscaler does."""
    theirs = draft.spec.existing.cluster_autoscaler
    if draft.spec.management != "managed":
        return "needs a CapacityBuffer in the cluster, and management: external installs nothing"
    if pool.software in (DRA_DRIVER, HAMI):
        return f"its pods get GPUs by {pool.software}, which a CapacityBuffer cannot keep free"
    if (blocker := pool.provider_plan.queued_provisioning()) is not None:
        return f"no pod scales this pool up: {blocker.what}"
    if draft.cloud.capacity_buffers:
        return ""
    if "cluster_autoscaler" not in draft.cloud.helpers:
        return f"{draft.cloud.service} has no CapacityBuffer, which keeps nodes free"
    if theirs is None or not theirs.capacity_buffers:
        return "Cluster Autoscaler keeps nodes free only with CapacityBuffer, which is off by default"
    return ""


def _objects(pool: PoolPlan) -> Iterator[tuple[KubernetesObject, KubernetesObject]]:
    """Yield PodTemplate and CapacityBuffer for each resource of a pool: one replica per unit of the spare nodes."""
    part, label = pool.pod(gpu_only=True), "" if pool.group else pool.name
    for resource, units in pool.node_resources.items():
        own = pool.name if len(pool.node_resources) == 1 else f"{pool.name}-{resource.rpartition('/')[2]}"
        container = {"name": "main", "image": _IMAGE, "securityContext": dict(RESTRICTED)}
        spec = {
            **{key: part[key] for key in ("nodeSelector", "tolerations")},
            "securityContext": dict(NOBODY),
            "automountServiceAccountToken": False,
            "containers": [{**container, "resources": {"limits": {resource: "1"}}}],
        }
        template = wire_form("PodTemplate", own, SPARE_NAMESPACE, pool=label, template={"spec": spec})
        kept = {"podTemplateRef": {"name": own}, "replicas": pool.spare * units}
        buffer = wire_form("CapacityBuffer", own, SPARE_NAMESPACE, _API, label, spec=kept)
        yield (
            KubernetesObject(f"spare-template/{own}", template, "a pod that fits one unit of the spare nodes"),
            KubernetesObject(f"spare/{own}", buffer, f"keeps {pool.spare * units} {resource} free for the next pods"),
        )
