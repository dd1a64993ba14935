"""The objects and the chart with which Volcano shares the pools of a cluster among teams. Pure.

Fields: https://github.com/volcano-sh/volcano tag v1.15.1, pkg/scheduler/conf and apis/pkg/apis/scheduling/v1beta1.
"""

from collections.abc import Iterable, Mapping, Sequence

import yaml

from gpupools.common.csv_rows import DATA
from gpupools.common.json_types import JsonDict
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.draft import Draft
from gpupools.software.kueue import PRIORITIES
from gpupools.software.queues import declared, first_queue, priorities, queue_policy
from gpupools.software.team_shares import Lending, TeamShares, Unit
from gpupools.spec.software_spec import VOLCANO_WORDS
from gpupools.spec.teams import Team

CHART = "volcano"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
LENDING = Lending(
    "Volcano",
    keeps=False,
    source="https://github.com/volcano-sh/volcano/blob/v1.15.1/docs/user-guide/how_to_use_capacity_plugin.md",
    counts_claims=False,
)

DECISIONS = (
    (
        "the chart's CRDs are templates: an upgrade updates them, and deletion of the release deletes them with all"
        " queues, pod groups and Volcano jobs, which ends the pods of these jobs"
    ),
)


def words_of(draft: Draft) -> Sequence[str]:
    """Return what the scheduler does in this cluster."""
    return VOLCANO_WORDS if draft.spec.scheduling is None else draft.spec.scheduling


def values(draft: Draft) -> JsonDict:
    """Return the values of the chart."""
    discovery = _topology_discovery(draft.pools) if "network-topology" in words_of(draft) else ""
    return {
        "custom.scheduler_config_override": scheduler_configuration(words_of(draft), draft.pools),
        **({"custom.controller_config_override": discovery} if discovery else {}),
    }


def scheduler_configuration(words: Iterable[str], pools: Iterable[PoolPlan]) -> str:
    """Return `data/volcano_scheduler.yaml` with these words of `runtime.scheduling`, and the pools' resources."""
    left_out = {*VOLCANO_WORDS} - {*words}
    resources = sorted({resource for pool in pools for resource in pool.node_resources})
    packing = {f"binpack.resources.{resource}": 10 for resource in resources}
    found: JsonDict = yaml.safe_load(DATA.joinpath("volcano_scheduler.yaml").read_text(encoding="utf-8"))
    found["actions"] = ", ".join(action for action in found["actions"] if action not in left_out)
    for tier in found["tiers"]:
        tier["plugins"] = [plugin for plugin in tier["plugins"] if plugin.pop("word", plugin["name"]) not in left_out]
        for plugin in tier["plugins"]:
            if plugin["name"] == "binpack":
                plugin["arguments"] = {"binpack.resources": ", ".join(resources), **packing}
    return yaml.safe_dump(found, sort_keys=False)


def _topology_discovery(pools: Iterable[PoolPlan]) -> str:
    """Return the controller's configuration, with which it makes HyperNodes from the labels of nodes; empty for none.

    https://github.com/volcano-sh/volcano/blob/v1.15.1/docs/user-guide/how_to_use_hypernode_auto_discovery.md
    """
    levels = {pool.name: pool.provider_plan.topology_levels(pool.instance.name) for pool in pools}
    types = {name: [{"nodeLabel": label} for label in labels] for name, labels in levels.items() if labels}
    if not types:
        return ""
    source = {"source": "label", "enabled": True, "config": {"networkTopologyTypes": types}}
    return yaml.safe_dump({"networkTopologyDiscovery": [source]}, sort_keys=False)


def pod_metadata(draft: Draft) -> dict[str, JsonDict]:
    """Return the metadata of a pod, by pool: its queue."""
    queues = {pool.name: first_queue(draft.shares, pool) for pool in draft.pools if pool.scheduler_name}
    return {pool: {"annotations": {QUEUE_ANNOTATION: queue}} for pool, queue in queues.items()}


def share_pools(draft: Draft, teams: Mapping[str, Team], shares: TeamShares) -> list[KubernetesObject]:
    """Return the objects with which Volcano shares the draft's pools; problems go to the draft."""
    words = words_of(draft)
    if "reclaim" not in words and any(share.guarantee for own in shares.shares.values() for share in own.values()):
        what = "lacks reclaim, without which a team does not get back what others borrowed of its guarantee"
        draft.refuse(what, "scheduling", fix="add reclaim")
    if len(draft.spec.pull_secrets) > 1 and draft.spec.existing.scheduler is None:
        draft.refuse("Volcano's chart takes one pull secret", "pull_secrets", fix="put the logins into one secret")
    shares = shares.by_group()
    fair = shares.fair_shares({name: team.weight for name, team in teams.items()})
    own = {f"{name}.{pool}": (name, pool) for name, units in shares.shares.items() for pool, _ in units}
    owners = {queue: teams[name].namespaces for queue, (name, _) in own.items()}
    return [
        *priorities(PRIORITIES),
        *(_queue(name, pool, teams[name], fair[name], shares) for name, pool in own.values()),
        *queue_policy(owners, f"?annotations[?'{QUEUE_ANNOTATION}']"),
    ]


def _queue(name: str, pool: str, team: Team, fair: Mapping[Unit, int], shares: TeamShares) -> KubernetesObject:
    """Return the queue of a team for one pool, since a queue has one amount of a resource for all its nodes.

    `deserved` is what the team gets back from others; the plugin capacity shares by it, so the weight is in it.
    `guarantee` is never lent. A resource without a capability has no limit.
    """
    own = {resource: share for (of_pool, resource), share in shares.shares[name].items() if of_pool == pool}
    kept = {resource: share.guarantee for resource, share in own.items() if share.guarantee}
    spec: JsonDict = {
        "parent": "root",
        "weight": team.weight,
        "reclaimable": True,
        "deserved": {resource: fair[pool, resource] for resource in own},
        "capability": {capped: shares.most(name, (pool, capped)) for where, capped in shares.capacity if where == pool},
        **({"guarantee": {"resource": kept}} if team.lends_to == [] and kept else {}),
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pool]}},
    }
    name, api = f"{name}.{pool}", "scheduling.volcano.sh/v1beta1"
    return declared("queue", "Queue", name, f"what the team may use of pool {pool}", api, pool=pool, spec=spec)
