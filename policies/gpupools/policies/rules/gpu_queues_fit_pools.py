"""Queues of Kueue, KAI and Volcano name pools that exist, and guarantee no more GPUs than these have."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_facts import PoolFacts
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL
from gpupools.policies.declared_stack import Declared, DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described
from gpupools.readback.inputs import at, group_and_kind, is_list, mapping, number, text


class _Claim(NamedTuple):
    """An object of a scheduler that names a pool, with the whole GPUs that it guarantees of it."""

    resource: Declared
    pool: str
    gpus: int
    field: str
    """Where it guarantees them."""


def _of_kueue(stack: DeclaredStack) -> Iterator[_Claim]:
    flavors: dict[str, str] = {}
    for resource in _objects(stack, "kueue.x-k8s.io", "ResourceFlavor"):
        pool = text(at(resource.inputs, f"spec.nodeLabels.{POOL_LABEL}"))
        if pool:
            flavors[text(at(resource.inputs, "metadata.name"))] = pool
            yield _Claim(resource, pool, 0, "")
    for resource in _objects(stack, "kueue.x-k8s.io", "ClusterQueue", "Cohort"):
        for group in _list(at(resource.inputs, "spec.resourceGroups")):
            for flavor in _list(at(group, "flavors")):
                name = text(at(flavor, "name"))
                counted = [one for one in _list(at(flavor, "resources")) if at(one, "name") == GPU_RESOURCE]
                if name in flavors:
                    gpus = sum(number(at(one, "nominalQuota")) or 0 for one in counted)
                    yield _Claim(resource, flavors[name], gpus, "a nominalQuota")


def _of_kai(stack: DeclaredStack) -> Iterator[_Claim]:
    """Yield the schedulers of pools, and the queues below those of their pools."""
    for resource in _objects(stack, "kai.scheduler", "SchedulingShard"):
        yield _Claim(resource, text(at(resource.inputs, "spec.partitionLabelValue")), 0, "")
    for resource in _objects(stack, "scheduling.run.ai", "Queue"):
        pool = text(at(resource.inputs, f"metadata.labels.{POOL_LABEL}"))
        quota = number(at(resource.inputs, "spec.resources.gpu.quota")) or 0
        below = at(resource.inputs, "spec.parentQueue") is not None
        yield _Claim(resource, pool, max(quota, 0) if below else 0, "a quota")


def _of_volcano(stack: DeclaredStack) -> Iterator[_Claim]:
    for resource in _objects(stack, "scheduling.volcano.sh", "Queue"):
        wanted = at(resource.inputs, "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution")
        kept = mapping(at(resource.inputs, "spec.guarantee.resource"))
        for pool in _list(wanted) if len(_list(wanted)) == 1 else ():
            yield _Claim(resource, text(pool), number(kept.get(GPU_RESOURCE)) or 0, "a guarantee")


def _objects(stack: DeclaredStack, group: str, *kinds: str) -> Iterator[Declared]:
    wanted = [(group, kind) for kind in kinds]
    return (resource for resource in stack.resources if group_and_kind(resource.type) in wanted)


def _list(value: Any) -> Sequence[Any]:
    return value if is_list(value) else []


def _most(pool: PoolFacts) -> int | None:
    """Return the GPUs of all nodes of a pool; None where they are shared, cut or not known."""
    whole = pool.sharing is None or pool.sharing.kind == "none"
    cut = any(key in pool.labels for key in ("nvidia.com/mig.config", "nvidia.com/device-plugin.config"))
    if not whole or cut or pool.gpus_per_node is None or pool.most_nodes is None or pool.gpus_per_node.denominator > 1:
        return None
    return int(pool.gpus_per_node) * pool.most_nodes


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    named = {pool.labels[POOL_LABEL]: pool for _, pool in stack.gpu_pools if POOL_LABEL in pool.labels}
    pools = {name: [pool] for name, pool in named.items()}
    for step in named.values():
        if GROUP_LABEL in step.labels:
            pools.setdefault(step.labels[GROUP_LABEL], []).append(step)
    complete = bool(pools) and not any(resource.unread for resource in stack.resources)
    guaranteed = dict.fromkeys(pools, 0)
    missing: set[str] = set()
    for read in (_of_kueue, _of_kai, _of_volcano):
        for resource, name, gpus, field in read(stack):
            if name and name not in pools:
                if complete and name not in missing:
                    missing.add(name)
                    what = f"selects pool {name}, and this stack has the GPU pools {', '.join(sorted(pools))}"
                    yield resource.urn, Finding(what=what, fix="name one of them, or declare the pool beside it")
            elif name:
                guaranteed[name] += gpus
                sizes = list(map(_most, pools[name]))
                most = None if None in sizes else sum(filter(None, sizes))
                if most is not None and guaranteed[name] > most >= guaranteed[name] - gpus:
                    what = f"the queues guarantee {guaranteed[name]} GPUs of pool {name}, which has {most}"
                    yield resource.urn, Finding(what=what, fix=f"lower {field}, or raise the pool's maximum")


RULE = Rule(
    **described(__name__),
    stack=_findings,
)
