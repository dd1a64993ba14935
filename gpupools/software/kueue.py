"""The objects and the chart with which Kueue shares the pools of a cluster among teams. Pure.

Fields: https://github.com/kubernetes-sigs/kueue tag v0.19.2, apis/kueue/v1beta2 and apis/config/v1beta2.
"""

from collections.abc import Iterable, Iterator, Mapping

import yaml

from gpupools.common.csv_rows import DATA
from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.plan.tolerations import node_affinity
from gpupools.software.draft import Draft
from gpupools.software.queues import declared, priorities
from gpupools.software.team_shares import TeamShares, Unit
from gpupools.spec.teams import Team

CHART = "kueue"
GROUP = "kueue.x-k8s.io"
API = f"{GROUP}/v1beta2"
COHORT = "gpupools"
QUEUE = "default"
"""Name of the LocalQueues: Kueue puts jobs without a queue into the one of this name, so that teams need no label
(pkg/controller/constants/constants.go)."""

PRIORITIES: Mapping[str, tuple[int, str]] = {
    "interactive": (1000, "Notebooks and debugging. Preempts training of the same team."),
    "training": (100, "Jobs that can be stopped and started again."),
}
"""Name of each WorkloadPriorityClass to its value and description."""

PREFERRED_TOPOLOGY = f"{GROUP}/podset-preferred-topology"
"""Annotation of pods: the level at which they are close together, if they fit."""

MOST_FLAVORS, MOST_TAINTS = 64, 8
"""maxItems of `flavors` and `nodeTaints` in the CRDs."""


def values(draft: Draft, teams: Mapping[str, Team]) -> JsonDict:
    """Return the values of the chart: pods of the teams start only while its webhooks answer."""
    return {
        "managerConfig.controllerManagerConfigYaml": configuration(draft.pools, teams),
        "controllerManager.replicas": 2,
        "controllerManager.podDisruptionBudget.enabled": True,
        "controllerManager.manager.priorityClassName": "system-cluster-critical",
    }


def configuration(pools: Iterable[PoolPlan], teams: Mapping[str, Team]) -> str:
    """Return `data/kueue_configuration.yaml` with the teams' namespaces and the pools' claims."""
    spaces = sorted(space for team in teams.values() for space in team.namespaces)
    found: JsonDict = yaml.safe_load(DATA.joinpath("kueue_configuration.yaml").read_text(encoding="utf-8"))
    if classes := sorted({name for pool in pools for name in pool.device_classes}):
        # A job with a claim of another DeviceClass is never admitted (kubernetes-sigs/kueue #10504).
        found["resources"]["deviceClassMappings"] = [{"name": name, "deviceClassNames": [name]} for name in classes]
    if spaces:
        # Jobs that no queue admits would use GPUs beside the guarantees.
        found |= {"manageJobsWithoutQueueName": True, "managedJobsNamespaceSelector": _named(spaces)}
    return yaml.safe_dump(found, sort_keys=False)


def _named(spaces: Iterable[str]) -> JsonDict:
    """Return a selector of namespaces by their names."""
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": sorted(spaces)}
    return {"matchExpressions": [names]}


DECISIONS = (
    (
        "the chart's CRDs are templates: an upgrade updates them, and deletion of the release deletes them with all"
        " queues and workloads; pods that run keep their GPUs, and suspended jobs stay suspended"
    ),
)


def share_pools(draft: Draft, teams: Mapping[str, Team], shares: TeamShares) -> list[KubernetesObject]:
    """Return the objects with which Kueue shares the draft's pools; problems go to the draft."""
    draft.problems += _beyond_the_crds(draft, draft.pools)
    pools = [_flavor(pool) for pool in draft.pools]
    pools += [planned_object for pool in draft.pools for planned_object in (*_topology(pool), *_queued(pool))]
    pools += priorities(PRIORITIES, "WorkloadPriorityClass", API)
    fair = shares.fair_shares({name: team.weight for name, team in teams.items()})
    if shares.shares:
        pools.append(_cohort(shares, fair))
    for name in shares.shares:
        pools.append(_cluster_queue(name, teams[name], fair[name], shares))
        pools += [_local_queue(name, space) for space in teams[name].namespaces]
    return pools


def pod_metadata(draft: Draft) -> dict[str, JsonDict]:
    """Return the metadata of a pod on nodes with a topology, by pool.

    Kueue implies it only in a queue all of whose flavors have one (pkg/cache/scheduler/tas_flavor_snapshot.go).
    """
    levels = {pool.name: topology_levels(pool) for pool in draft.pools}
    return {name: {"annotations": {PREFERRED_TOPOLOGY: own[-1]}} for name, own in levels.items() if own}


def only_on(pools: Iterable[PoolPlan]) -> JsonDict:
    """Return the affinity of pods that use any of these pools, so that Kueue chooses among their flavors.

    It ignores a selector whose key a flavor's `nodeLabels` lack, as those of other pools lack the label of a group
    (pkg/scheduler/flavorassigner/flavorassigner.go; seen with its manager).
    """
    named = {"key": POOL_LABEL, "operator": "In", "values": [pool.name for pool in pools]}
    return {"affinity": node_affinity(named)}


def _beyond_the_crds(draft: Draft, pools: Iterable[PoolPlan]) -> Iterator[Problem]:
    own = list(pools)
    if len(own) > MOST_FLAVORS:
        what = f"Kueue shares at most {MOST_FLAVORS} pools of a cluster, and it has {len(own)}"
        yield Problem((*draft.at, "scheduler"), what, "put the pools on several clusters", _CRDS)
    for pool in own:
        if len(pool.taints) > MOST_TAINTS:
            what = f"nodes have {len(pool.taints)} taints, and Kueue allows {MOST_TAINTS}"
            yield Problem(("pools", pool.name, "taints"), what, "remove some", _CRDS)


_CRDS = "https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/"


def _flavor(pool: PoolPlan) -> KubernetesObject:
    """Return the flavor of a pool: its nodes by label, with the taints that its pods then tolerate."""
    tainted = [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect.value}
        for taint in pool.taints
    ]
    topology = {"topologyName": pool.name} if topology_levels(pool) else {}
    spec = {
        "nodeLabels": {POOL_LABEL: pool.name},
        "nodeTaints": tainted,
        # Only jobs that tolerate the taint of `trust` themselves share GPUs with others.
        "tolerations": [toleration for toleration in pool.pod()["tolerations"] if toleration["key"] != TRUST_LABEL],
        **topology,
    }
    return declared("flavor", "ResourceFlavor", pool.name, f"the nodes of {pool.name}", API, pool=pool.name, spec=spec)


def topology_levels(pool: PoolPlan) -> tuple[str, ...]:
    """Return the topology levels of a pool whose nodes are always there: Kueue places pods on existing nodes only.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#capacity-calculation
    """
    return pool.provider_plan.topology_levels(pool.instance.name) if pool.min_nodes == pool.max_nodes else ()


def _topology(pool: PoolPlan) -> Iterator[KubernetesObject]:
    levels = [{"nodeLabel": level} for level in topology_levels(pool)]
    if levels:
        why = f"lets jobs on {pool.name} ask for nodes that are close together"
        yield declared("topology", "Topology", pool.name, why, API, pool=pool.name, spec={"levels": levels})


def _queued(pool: PoolPlan) -> Iterator[KubernetesObject]:
    """Yield what lets Kueue request the nodes of a job together, on pools whose nodes no pod starts."""
    queued = pool.provider_plan.queued_provisioning()
    if queued is None:
        return
    config = {"provisioningClassName": queued.class_name, "managedResources": list(pool.node_resources)}
    parameters = {"apiGroup": GROUP, "kind": "ProvisioningRequestConfig", "name": pool.name}
    check = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    why = f"requests all nodes of a job on {pool.name} together"
    yield declared("provisioning", "ProvisioningRequestConfig", pool.name, why, API, pool=pool.name, spec=config)
    yield declared("admission-check", "AdmissionCheck", pool.name, why, API, pool=pool.name, spec=check)


def _groups(units: Mapping[Unit, JsonObject], pools: Iterable[PoolPlan]) -> list[JsonDict]:
    """Return resource groups with the quotas of these units.

    A resource is in one group only, and every flavor of a group lists all its resources, so pools that have a resource
    in common are in one group: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resource-groups.
    """
    groups: list[tuple[set[str], list[str]]] = []
    # Kueue takes the first flavor that fits: whole GPUs before parts of GPUs, and else in the order of the file.
    for pool in sorted(pools, key=lambda plan: plan.sharing.kind != "none"):
        resources = {resource for name, resource in units if name == pool.name}
        if not resources:
            continue
        met = [group for group in groups if group[0] & resources]
        names = [name for _, flavors in met for name in flavors]
        groups = [group for group in groups if group not in met]
        groups.append((resources.union(*(covered for covered, _ in met)), [*names, pool.name]))
    none: JsonObject = {"nominalQuota": 0}
    return [
        {
            "coveredResources": sorted(resources),
            "flavors": [
                {
                    "name": name,
                    "resources": [{"name": each, **units.get((name, each), none)} for each in sorted(resources)],
                }
                for name in flavors
            ],
        }
        for resources, flavors in groups
    ]


def _cohort(shares: TeamShares, fair: Mapping[str, Mapping[Unit, int]]) -> KubernetesObject:
    free = {
        unit: {"nominalQuota": shares.capacity[unit] - sum(own.get(unit, 0) for own in fair.values())}
        for unit in shares.free()
    }
    why = "has the units that the weights leave over"
    return declared("cohort", "Cohort", COHORT, why, API, spec={"resourceGroups": _groups(free, shares.pools)})


def _cluster_queue(name: str, team: Team, fair: Mapping[Unit, int], shares: TeamShares) -> KubernetesObject:
    """Return the queue of a team with its guarantee and its part, by weight, of the rest.

    Kueue's own weights add up a resource over all flavors, so that a slice would weigh as much as a whole GPU:
    https://github.com/kubernetes-sigs/kueue tag v0.19.2, pkg/cache/scheduler/fair_sharing.go.
    """
    own = shares.shares[name]
    quotas: dict[Unit, JsonObject] = {
        unit: {
            "nominalQuota": fair[unit],
            **({"borrowingLimit": share.limit - fair[unit]} if share.limit is not None else {}),
            **({"lendingLimit": fair[unit] - share.guarantee} if team.lends_to == [] else {}),
        }
        for unit, share in own.items()
    }
    used = {pool for pool, _ in own}
    waiting = [pool for pool in shares.pools if pool.name in used and pool.provider_plan.queued_provisioning()]
    checks = [{"name": pool.name, "onFlavors": [pool.name]} for pool in waiting]
    spec: JsonDict = {
        "cohortName": COHORT,
        "fairSharing": {"weight": team.weight},
        "namespaceSelector": _named(team.namespaces),
        # The team's own idle guarantee in any pool before units that another team lends.
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": _groups(quotas, shares.pools),
        **({"admissionChecksStrategy": {"admissionChecks": checks}} if checks else {}),
    }
    return declared("cluster-queue", "ClusterQueue", name, f"what team {name} may use", API, spec=spec)


def _local_queue(team: str, space: str) -> KubernetesObject:
    why = f"puts jobs of namespace {space} into the queue of team {team}"
    return declared("local-queue", "LocalQueue", QUEUE, why, API, space, spec={"clusterQueue": team})
