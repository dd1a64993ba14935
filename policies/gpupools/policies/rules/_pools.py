"""Findings and texts about pools that several rules share."""

from collections.abc import Iterator

from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL, SOFTWARE_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, node_resources
from gpupools.plan.plugin_configs import read_plugin_name, read_sharing
from gpupools.plan.pool_facts import ZONES_OF_A_REGION, PoolFacts, SharingFacts
from gpupools.policies.finding import Finding
from gpupools.providers import clouds
from gpupools.spec.models import Mig


def describe_sharing(sharing: SharingFacts) -> str:
    """Return mode, MIG profile and number of clients as text."""
    parts = [sharing.kind, sharing.profile, f"{sharing.clients} clients" if sharing.clients is not None else ""]
    return " ".join(part for part in parts if part)


def in_zones(pool: PoolFacts) -> str:
    """Explain a size that counts nodes in several zones, after a blank; empty for other sizes."""
    if not pool.per_zone or pool.max_nodes is None or pool.zones == 1:
        return ""
    if pool.zones is not None:
        return f" ({pool.max_nodes} in each of {pool.zones} zones)"
    why = "the zones are not known yet, and" if pool.zones_unknown else "no zones are named, and"
    return f" ({pool.max_nodes} in each zone; {why} a regional cluster has {ZONES_OF_A_REGION})"


def hardening_findings(pool: PoolFacts, *, mandatory: bool) -> Iterator[Finding]:
    """Report settings of a pool or template that miss a requirement or a recommendation of the hardening baseline."""
    for weak in pool.weaknesses:
        if weak.mandatory is mandatory:
            yield Finding(
                what=f"{weak.name}: {weak.why.rstrip('.')}",
                property=weak.property,
                found=weak.found,
                fix=f"expected {weak.property}: {weak.wanted}",
                source=weak.source,
                pool=pool.pool,
                unverified=weak.unverified,
            )


def lacks_gpu_resource(pool: PoolFacts) -> tuple[str, str] | None:
    """Say why nodes that an autoscaler knows to have GPUs offer none as `nvidia.com/gpu`, and what else helps.

    None if they do, or if the declared resource does not show it. GKE's autoscaler knows which devices pods claim.
    https://github.com/kubernetes/autoscaler, cluster-autoscaler/processors/customresources/gpu_processor.go
    """
    if pool.cloud not in clouds() or (pool.cloud == "aws" and _EKS_GPU_LABEL not in pool.labels):
        return None
    if pool.labels.get(SOFTWARE_LABEL) == DRA_DRIVER:
        return None if pool.cloud == "gcp" else ("pods claim its GPUs", "")
    plugin, mig = (pool.labels.get(label, "") for label in (PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL))
    strategy, clients = read_plugin_name(plugin)
    if clients is not None and clients.get("rename"):
        return f"{PLUGIN_CONFIG_LABEL} renames the replicas", ", or remove rename"
    kind = pool.sharing.kind if pool.sharing is not None else ""
    by_cloud = kind.startswith("mig-mixed") or (kind.startswith("mig-") and strategy == "mixed")
    if by_cloud or (mig and not kind.startswith("mig-") and _has_only_slices(pool, plugin, mig)):
        return "its MIG slices have names of their own (strategy mixed)", ", or use strategy single"
    return None


_EKS_GPU_LABEL = "k8s.amazonaws.com/accelerator"
"""Node label by which Cluster Autoscaler on EKS waits for GPUs."""


def _has_only_slices(pool: PoolFacts, plugin: str, mig: str) -> bool:
    """Return whether labels say that every GPU of a node is cut into slices that have names of their own."""
    cloud = clouds()[pool.cloud]
    for name in pool.instance_types:
        instance = cloud.instance_types.find(name)
        if instance is None:
            return False
        try:
            way = read_sharing(instance.gpu_model, None, plugin, mig)
            sharing = Mig.model_validate(way)
        except ValueError:  # a layout that no name tells, or none
            return False
        if GPU_RESOURCE in node_resources(instance, sharing):
            return False
    return bool(pool.instance_types)
