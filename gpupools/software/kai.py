"""The objects and the chart with which KAI shares the pools of a cluster among teams. Pure.

Fields: https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, deployments/kai-scheduler/crds.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpupools.common.errors import Problem, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.dra import DEVICE_CLASS
from gpupools.plan.node_resources import FRACTION_ANNOTATIONS, GPU_RESOURCE
from gpupools.plan.order import placed_together
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.draft import Draft
from gpupools.software.kueue import topology_levels
from gpupools.software.queues import declared, first_queue, priorities, queue_policy
from gpupools.software.team_shares import Lending, TeamShares
from gpupools.spec.teams import Team

CHART = "kai-scheduler"
API = "kai.scheduler/v1"
QUEUE_LABEL = "kai.scheduler/queue"
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
    """Return the metadata of a pod, by pool: its queue, and half a GPU where pods ask for fractions.

    The pod group has the labels of the object that owns its pods, and of the pods only that of the pool (tag v0.17.0,
    pkg/podgrouper/pod_controller.go). So the label of a group is also needed on the owner.
    """
    found = {}
    for pool in draft.pools:
        fractional = pool.sharing.fractions is not None
        if pool.scheduler_name or fractional:
            queue = first_queue(draft.shares, pool)
            own = {POOL_LABEL: pool.group, GROUP_LABEL: pool.group} if pool.group else {POOL_LABEL: pool.name}
            found[pool.name] = {
                "labels": {**own, **({QUEUE_LABEL: queue} if queue else {})},
                **({"annotations": {FRACTION_ANNOTATIONS[0]: "0.5"}} if fractional else {}),
            }
    return found


def notes(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    """Say what fractions of GPUs need that gpupools does not do."""
    fractions = pool.sharing.fractions
    if fractions is None:
        return
    if fractions.memory == "trust":
        yield "nothing limits the memory of a fraction: each pod can use the memory of the whole GPU"
    if not first_queue(draft.shares, pool):
        yield "no team has a share of it, so no queue starts pods with fractions of its GPUs; add it to gpupools:teams"


def share_pools(draft: Draft, teams: Mapping[str, Team], shares: TeamShares) -> list[KubernetesObject]:
    """Return the objects with which KAI shares the draft's pools; problems go to the draft."""
    placed, shares = placed_together(draft.pools), shares.by_group()
    draft.problems += _spread_problems(draft, placed)
    groups = {key: steps[0].group for key, steps in placed.items()}
    pools = priorities(PRIORITIES)
    owners: dict[str, list[str]] = {}
    for key, steps in placed.items():
        if any(gpus_of(resource) for step in steps for resource in step.countable):
            pools += _of_pool(key, steps, "spread" if key in draft.spec.spread else "binpack")
            owners[key] = []
    for name, own in shares.shares.items():
        for where in dict.fromkeys(pool for pool, _ in own):
            units = {unit: share for unit, share in own.items() if unit[0] == where}
            for _, resource in units:
                if not gpus_of(resource):
                    what = f"KAI counts {GPU_RESOURCE} and slices, and pool {where} offers {resource}"
                    fix = "use no rename in its sharing, or remove the pool here"
                    draft.problems.append(Problem(("teams", name), what, fix))
            quota = sum(gpus_of(unit[1]) * share.guarantee for unit, share in units.items())
            limit = sum(gpus_of(unit[1]) * shares.most(name, unit) for unit in units)
            gpus = {"quota": quota, "limit": limit, "overQuotaWeight": teams[name].weight}
            pools.append(_queue(f"{name}.{where}", where, groups[where], gpus, f"of team {name}", where))
            owners[f"{name}.{where}"] = teams[name].namespaces
    if shares.shares:
        found = {queue: group for queue in owners if (group := groups[queue.rpartition(".")[2]])}
        pools += queue_policy(owners, f"?labels[?'{QUEUE_LABEL}']", found)
    return pools


def gpus_of(resource: str) -> int:
    """Return how many GPUs KAI counts for a unit: N for a slice of N compute slices; 0 for what it does not count.

    https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/scheduler/api/resource_info/
    gpu_resource_requirment.go and, for claims, pkg/common/resources/dra.go.
    """
    if resource in (GPU_RESOURCE, DEVICE_CLASS):
        return 1
    match = re.fullmatch(r"nvidia\.com/mig-(\d+)g\.\d+gb", resource)
    return int(match[1]) if match else 0


def _spread_problems(draft: Draft, names: Collection[str]) -> Iterator[Problem]:
    for index, name in enumerate(draft.spec.spread):
        if name not in names:
            what = f"the cluster has no pool {shown(name)}"
            yield Problem((*draft.at, "spread", index), what, nearest(name, names))


def _of_pool(name: str, steps: Sequence[PoolPlan], placement: str) -> Iterator[KubernetesObject]:
    """Yield the scheduler of a pool's nodes, the queue above those of the teams, and the topology of the nodes.

    A scheduler finds nodes, queues and pod groups by the value of one label. That of a pool with several steps finds
    them by the label of the group: arguments of a shard replace those that KAI's operator gives every scheduler
    (tag v0.17.0, pkg/operator/operands/scheduler/resources_for_shard.go).
    """
    group = steps[0].group
    spec: JsonDict = {
        "partitionLabelValue": name,
        **({"args": {"nodepool-label-key": GROUP_LABEL}} if group else {}),
        "placementStrategy": {"gpu": placement, "cpu": placement},
    }
    why = f"schedules the jobs on pool {name}"
    yield declared("shard", "SchedulingShard", f"gpupools-{name}", why, API, pool=name, group=group, spec=spec)
    every = sum(gpus_of(key) * count * step.max_nodes for step in steps for key, count in step.countable.items())
    yield _queue(name, name, group, {"quota": every, "limit": every, "overQuotaWeight": 1}, "of all teams")
    for step in steps:
        levels = [{"nodeLabel": level} for level in topology_levels(step)]
        if levels:
            why = f"lets jobs on {step.name} ask for nodes that are close together"
            spec = {"levels": levels}
            yield declared("topology", "Topology", step.name, why, "kai.scheduler/v1alpha1", pool=step.name, spec=spec)


def _queue(name: str, pool: str, group: str, gpus: JsonDict, whose: str, parent: str = "") -> KubernetesObject:
    """Return a queue; an amount that is left out is 0, and -1 is unlimited."""
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {
        **({"parentQueue": parent} if parent else {}),
        "resources": {"gpu": gpus, "cpu": unlimited, "memory": unlimited},
    }
    why = f"the GPUs {whose} on pool {pool}"
    return declared("queue", "Queue", name, why, "scheduling.run.ai/v2", pool=pool, group=group, spec=spec)
