"""What the schedulers that share pools among teams have in common: objects, priorities and admission policies. Pure."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from gpupools.common.json_types import JsonDict
from gpupools.plan.pool_plan import GROUP_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.objects import admission, filled_policy, wire_form
from gpupools.software.team_shares import TeamShares
from gpupools.spec.teams import Team

_sorted = partial(json.dumps, sort_keys=True)


def declared(
    step: str, kind: str, name: str, why: str, api: str, space: str = "", pool: str = "", group: str = "", **body: Any
) -> KubernetesObject:
    """Return an object of a scheduler, with the labels of its pool and of the steps that it stands for."""
    made = wire_form(kind, name, space, api, pool, **body)
    if group:
        made["metadata"]["labels"][GROUP_LABEL] = group
    return KubernetesObject(f"{step}/{space or name}", made, why)


def priorities(
    classes: Mapping[str, tuple[int, str]], kind: str = "PriorityClass", api: str = "scheduling.k8s.io/v1"
) -> list[KubernetesObject]:
    """Return the classes by which a scheduler orders the jobs of a team."""
    more: JsonDict = {"globalDefault": False} if kind == "PriorityClass" else {}
    return [
        declared("priority-class", kind, name, "orders the jobs of a team", api, value=value, description=text, **more)
        for name, (value, text) in classes.items()
    ]


def queue_policy(
    owners: Mapping[str, Iterable[str]], named: str, groups: Mapping[str, str] = MappingProxyType({})
) -> list[KubernetesObject]:
    """Return what denies queues to other namespaces than these, since neither KAI nor Volcano compares them.

    Args:
        owners: Queue to namespaces.
        named: Where a pod names its queue, below its metadata, as CEL has it.
        groups: Queue to the group that its pod groups have as label, without which no scheduler sees them.
    """
    words = {"owners": _sorted({queue: sorted(spaces) for queue, spaces in owners.items()}), "named": named}
    why = "keeps jobs of other namespaces out of the queues of teams"
    spec = filled_policy("queues", words)
    if groups:
        spec["validations"].append(filled_policy("group_queues", {"groups": _sorted(groups), "label": GROUP_LABEL}))
    return admission("team-queues", spec, {}, why) if owners else []


def pod_policy(shares: TeamShares, teams: Mapping[str, Team], own: Iterable[str]) -> list[KubernetesObject]:
    """Return what keeps GPUs of the teams' pools from other namespaces and other schedulers.

    Args:
        shares: The shares of the teams.
        teams: The teams by name.
        own: Namespaces of the cluster's own software, which the policy leaves alone.
    """
    spaces: dict[str, set[str]] = {}
    for name, units in shares.shares.items():
        for pool, _ in units:
            spaces.setdefault(pool, set()).update(teams[name].namespaces)
    pools = [pool for pool in shares.pools if pool.name in spaces]
    if not pools:
        return []
    scheduler = pools[0].scheduler_name
    # A pod that selects a group selects no pool without one.
    group = {GROUP_LABEL: ""} if any(pool.group for pool in shares.pools) else {}
    words = {
        "labels": _sorted({pool.name: {**group, **pool.labels} for pool in pools}),
        "spaces": _sorted({pool: sorted(space) for pool, space in spaces.items()}),
        "claims": "true" if any(pool.claim_template for pool in pools) else "false",
        "scheduled": f"object.spec.?schedulerName.orValue('') == '{scheduler}'" if scheduler else "true",
        "scheduler": f" and schedulerName: {scheduler}" if scheduler else "",
        "pools": ", ".join(sorted(spaces)),
    }
    spec = filled_policy("team_pods", words)
    spec["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"] = sorted(own)
    return admission("team-pods", spec, {}, "keeps GPUs of the teams' pools from other namespaces and schedulers")


def first_queue(shares: TeamShares, pool: PoolPlan) -> str:
    """Return the queue of the first team that has a share of a pool, which other teams replace; empty for none.

    Queues are of a pool with all its steps.
    """
    queue = pool.group or pool.name
    return next((f"{team}.{queue}" for team, own in shares.shares.items() if any(pool.name in u for u in own)), "")
