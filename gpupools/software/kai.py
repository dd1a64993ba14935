"""The objects and the chart with which KAI shares the pools of a cluster among teams. Pure.

Fields: https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, deployments/kai-scheduler/crds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.common.errors import Problem, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.node_resources import FRACTION_ANNOTATIONS, GPU_RESOURCE
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.draft import Draft
from gpupools.software.kueue import topology_levels
from gpupools.software.objects import wire_form
from gpupools.software.team_shares import Lending, team_shares
from gpupools.spec.teams import Team

CHART = "kai-scheduler"
REGISTRY = "ghcr.io/kai-scheduler/kai-scheduler"
LENDING = Lending("KAI", False, "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/queues/README.md")

PRIORITIES: Mapping[str, tuple[int, str]] = {
    "interactive": (100, "Notebooks and debugging. Is not stopped, and uses the guarantee only."),
    "training": (50, "Jobs that can be stopped and started again."),
}
"""KAI never stops pods of 100 and more, nor lets them borrow (docs/priority/README.md)."""

DECISIONS = (
    (
        "a job updates the chart's CRDs before each upgrade, and deletion of the release keeps them with all queues; to"
        " delete them, run kubectl delete crd queues.scheduling.run.ai podgroups.scheduling.run.ai"
        " bindrequests.scheduling.run.ai configs.kai.scheduler schedulingshards.kai.scheduler topologies.kai.scheduler"
    ),
)


NAMESPACES = ("kai-resource-reservation", "kai-scale-adjust")
"""Namespaces of pods on GPU nodes: those that hold a GPU of which pods have parts, and those that start nodes."""


def values(draft: Draft) -> JsonDict:
    """Return the values of the chart: queues, nodes and jobs are kept apart by the label of their pool."""
    return {
        "global.registry": REGISTRY,
        "global.nodePoolLabelKey": POOL_LABEL,
        # It copies Kueue's topologies, whose pools may be gone.
        "topologyMigration.enabled": False,
        **fraction_values(draft),
    }


def fraction_values(draft: Draft) -> JsonDict:
    """Return the values that fractions of GPUs need on any node; empty if no pool has them."""
    pools = fractional(draft)
    if not pools:
        return {}
    limited = any(pool.sharing.fractions and pool.sharing.fractions.memory == "hami" for pool in pools)
    return {
        "global.gpuSharing": True,
        # An autoscaler does not see the annotations of pods, so KAI adds pods that request GPUs.
        "global.clusterAutoscaling": any(pool.min_nodes < pool.max_nodes for pool in pools),
        **({"binder.plugins.hamicore.enabled": True} if limited else {}),
    }


def fractional(draft: Draft) -> list[PoolPlan]:
    """Return the pools whose pods ask for fractions of GPUs."""
    return [pool for pool in draft.pools if pool.sharing.fractions is not None]


def pod_metadata(draft: Draft) -> dict[str, JsonDict]:
    """Return the metadata of a pod with half a GPU, by pool; with its queue if only one team has one."""
    found = {}
    for pool in fractional(draft):
        queues = _team_queues(draft, pool)
        labels = {POOL_LABEL: pool.name, **({"kai.scheduler/queue": queues[0]} if len(queues) == 1 else {})}
        found[pool.name] = {"labels": labels, "annotations": {FRACTION_ANNOTATIONS[0]: "0.5"}}
    return found


def _team_queues(draft: Draft, pool: PoolPlan) -> list[str]:
    made = [each.manifest for each in draft.team_objects if each.kind == "Queue"]
    return [each["metadata"]["name"] for each in made if each["spec"].get("parentQueue") == pool.name]


def notes(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    """Say what fractions of GPUs need that gpupools does not do."""
    fractions = pool.sharing.fractions
    if fractions is None:
        return
    if fractions.memory == "trust":
        yield "nothing limits the memory of a fraction: each pod can use the memory of the whole GPU"
    if not _team_queues(draft, pool):
        yield "no team has a share of it, so no queue starts pods with fractions of its GPUs; add it to gpupools:teams"


def share_pools(draft: Draft, teams: Mapping[str, Team]) -> list[KubernetesObject]:
    """Return the objects with which KAI shares the draft's pools; problems go to the draft."""
    shares, problems = team_shares(draft.pools, teams, draft.cluster, LENDING)
    draft.problems += problems
    draft.problems += _spread_problems(draft)
    counted = [pool for pool in draft.pools if GPU_RESOURCE in pool.node_resources]
    found = [
        _object(
            "priority-class",
            "PriorityClass",
            name,
            "orders the jobs of a team",
            api="scheduling.k8s.io/v1",
            value=value,
            description=text,
            globalDefault=False,
        )
        for name, (value, text) in PRIORITIES.items()
    ]
    for pool in counted:
        found += _of_pool(pool, "spread" if pool.name in draft.spec.spread else "binpack")
    for name, own in shares.shares.items():
        for (where, resource), share in own.items():
            if resource == GPU_RESOURCE:
                limit, weight = shares.most(name, (where, resource)), teams[name].weight
                gpus = {"quota": share.guarantee, "limit": limit, "overQuotaWeight": weight}
                found.append(_queue(f"{name}.{where}", where, gpus, f"of team {name}", where))
            else:
                what = f"KAI counts {GPU_RESOURCE}, and pool {where} offers {resource}"
                fix = "use strategy: single or no rename in its sharing, or remove the pool here"
                draft.problems.append(Problem(("teams", name), what, fix))
    return found


def _spread_problems(draft: Draft) -> Iterator[Problem]:
    names = [pool.name for pool in draft.pools]
    for index, name in enumerate(draft.spec.spread):
        if name not in names:
            what = f"the cluster has no pool {shown(name)}"
            yield Problem((*draft.at, "spread", index), what, nearest(name, names))


def _object(
    step: str, kind: str, name: str, why: str, pool: str = "", api: str = "kai.scheduler/v1", **body: Any
) -> KubernetesObject:
    return KubernetesObject(f"{step}/{name}", wire_form(kind, name, api=api, pool=pool, **body), why)


def _of_pool(pool: PoolPlan, placement: str) -> Iterator[KubernetesObject]:
    """Yield the scheduler of a pool's nodes, the queue above those of the teams, and the topology of the nodes."""
    spec: JsonDict = {
        "partitionLabelValue": pool.name,
        "placementStrategy": {"gpu": placement, "cpu": placement},
    }
    why = f"schedules the jobs on pool {pool.name}"
    yield _object("shard", "SchedulingShard", f"gpupools-{pool.name}", why, pool.name, spec=spec)
    every = pool.node_resources[GPU_RESOURCE] * pool.max_nodes
    yield _queue(pool.name, pool.name, {"quota": every, "limit": every, "overQuotaWeight": 1}, "of all teams")
    levels = [{"nodeLabel": each} for each in topology_levels(pool)]
    if levels:
        why, api = f"lets jobs on {pool.name} ask for nodes that are close together", "kai.scheduler/v1alpha1"
        yield _object("topology", "Topology", pool.name, why, pool.name, api, spec={"levels": levels})


def _queue(name: str, pool: str, gpus: JsonDict, whose: str, parent: str = "") -> KubernetesObject:
    """Return a queue; an amount that is left out is 0, and -1 is unlimited."""
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {
        **({"parentQueue": parent} if parent else {}),
        "resources": {"gpu": gpus, "cpu": unlimited, "memory": unlimited},
    }
    why = f"the GPUs {whose} on pool {pool}"
    return _object("queue", "Queue", name, why, pool, "scheduling.run.ai/v2", spec=spec)
