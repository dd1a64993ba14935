"""The nodes of a pool as they join the cluster, before any controller has been at them."""

from gpupools.plan.pool_plan import PoolPlan


def taints(pool: PoolPlan) -> list[dict[str, str]]:
    """Return the taints of a pool's nodes, with what its cloud adds whatever the plan says."""
    found = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in pool.node_taints]
    if pool.cloud == "gcp" and pool.instance.architecture == "arm64":
        found.append({"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"})
    if pool.cloud == "gcp" and getattr(pool.provider_plan, "queued", False):
        found.append({"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"})
    if pool.cloud == "azure" and "kubernetes.azure.com/scalesetpriority" in pool.labels:
        found.append({"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"})
    return found


def labels_at_first(pool: PoolPlan) -> dict[str, str]:
    """Return the labels a node of the pool joins with: ours, the kubelet's and the cloud's."""
    theirs = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": pool.instance.architecture,
        "node.kubernetes.io/instance-type": pool.instance.extra.get("machine_type", pool.instance.name),
    }
    if pool.cloud == "gcp":
        theirs["cloud.google.com/gke-accelerator"] = pool.instance.extra["accelerator_type"]
        if getattr(pool.provider_plan, "gpu_driver_version", "") == "DEFAULT":
            theirs["cloud.google.com/gke-gpu-driver-version"] = "default"
    return {**theirs, **pool.labels}
