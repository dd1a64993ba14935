"""Queues of Kueue name pools that exist, and guarantee no more GPUs than these have."""

from collections.abc import Iterator
from typing import Any

from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.policies.declared_stack import Declared, DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule
from gpupools.policies.rules._frameworks import DEDICATED
from gpupools.readback.inputs import at, number


def _of_kueue(stack: DeclaredStack, kind: str) -> Iterator[tuple[Declared, str]]:
    """Yield objects of a kind of Kueue, in any version of its API, with their names."""
    for each in stack.resources:
        name = at(each.inputs, "metadata.name")
        if each.type.startswith("kubernetes:kueue.x-k8s.io/") and each.type.endswith(f":{kind}"):
            yield each, name if isinstance(name, str) else ""


def _quotas(queue: Declared) -> Iterator[tuple[str, int]]:
    """Yield each flavor of a queue with its quota of whole GPUs."""
    for group in at(queue.inputs, "spec.resourceGroups") or ():
        for flavor in at(group, "flavors") or ():
            amounts = [at(each, "nominalQuota") for each in at(flavor, "resources") or () if _counts_gpus(each)]
            yield str(at(flavor, "name")), sum(number(each) or 0 for each in amounts)


def _counts_gpus(resource: Any) -> bool:
    return bool(at(resource, "name") == GPU_RESOURCE)


def _most(pool: PoolFacts) -> int | None:
    """Return the GPUs of all nodes of a pool; None where they are shared, cut or not known."""
    whole = pool.sharing is None or pool.sharing.kind == "none"
    cut = any(key in pool.labels for key in ("nvidia.com/mig.config", "nvidia.com/device-plugin.config"))
    if not whole or cut or pool.gpus_per_node is None or pool.most_nodes is None or pool.gpus_per_node.denominator > 1:
        return None
    return int(pool.gpus_per_node) * pool.most_nodes


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    pools = {pool.labels[POOL_LABEL]: pool for _, pool in stack.gpu_pools if POOL_LABEL in pool.labels}
    flavors: dict[str, str] = {}
    for each, name in _of_kueue(stack, "ResourceFlavor"):
        wanted = (at(each.inputs, "spec.nodeLabels") or {}).get(POOL_LABEL, UNKNOWN)
        if isinstance(wanted, str) and pools:
            flavors[name] = wanted
            if wanted not in pools and not any(other.unread for other in stack.resources):
                what = f"selects pool {wanted}, and this stack has the GPU pools {', '.join(sorted(pools))}"
                yield each.urn, Finding(what=what, fix="name one of them, or declare the pool beside it")
    guaranteed: dict[str, int] = {}
    queues = [*_of_kueue(stack, "ClusterQueue"), *_of_kueue(stack, "Cohort")]
    for each, _ in queues:
        for flavor, quota in _quotas(each):
            guaranteed[flavor] = guaranteed.get(flavor, 0) + quota
            most = _most(pools[flavors[flavor]]) if flavors.get(flavor) in pools else None
            if most is not None and guaranteed[flavor] > most >= guaranteed[flavor] - quota:
                what = f"the queues guarantee {guaranteed[flavor]} GPUs of {flavor}, and its pool has {most}"
                yield each.urn, Finding(what=what, fix="lower a nominalQuota, or raise the pool's maximum")


RULE = Rule(
    name="gpu-queues-fit-pools",
    order=168,
    level=Level.ADVISORY,
    severity="medium",
    why="Jobs in a queue without a pool never start, and guarantees above the pool's size cannot all be met.",
    fix="Name a pool that exists, and keep the sum of the guarantees below its maximum.",
    url="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/",
    framework=DEDICATED,
    stack=_judge,
)
