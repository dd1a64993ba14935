"""Detects cluster keys that mean the same cluster, and pools that would get the same Pulumi name. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.cluster_access import KubeconfigSecret, ReachableCluster
from gpupools.spec.models import Cluster, Late, StackOutput, StackPool

_ON_THE_POOL = "set what only some pools need, such as subnets or a role, in the pool's overrides"


def same_clusters(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Reject a second key for one cluster: pools and software are planned per key."""
    places = {key: place(cluster) for key, cluster in clusters.items()}
    reported: set[str] = set()
    for first, second in combinations(clusters, 2):
        if second in reported:
            continue
        if same_place(places[first], places[second]):
            reported.add(second)
            yield second_key(first, second, places[first])


def same_apis(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Reject a second cluster with the same API: its software would be installed there twice."""
    reported: set[str] = set()
    for (first, one), (second, other) in combinations(clusters.items(), 2):
        if second not in reported and same_access(one, other):
            reported.add(second)
            what = f"has the same API as {first}, so the GPU software would be installed there twice"
            fix = f"set the kubeconfig, context or endpoint of {second}'s own API, or move its pools to {first}"
            yield Problem(("clusters", second, "kubeconfig" if _kubeconfig(other) else "endpoint"), what, fix)


def second_key(first: str, second: str, where: JsonObject) -> Problem:
    """Return the problem of two keys for one cluster, of which `first` stays; `where` identifies the cluster."""
    same = [key for key, value in where.items() if key != "cloud" and value is not None]
    what = f"is the same cluster as {first} (same {', '.join(same)})"
    return Problem(("clusters", second), what, f"use {first} in its pools instead; {_ON_THE_POOL}")


def not_compared(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Warn about clusters that may be the same: Pulumi compares values that are known only later."""
    places = {key: place(cluster) for key, cluster in clusters.items()}
    for (first, here), (second, there) in combinations(places.items(), 2):
        if same_place(here, there) is None:
            late = ", ".join(key for key in here if _same(here[key], there[key]) is None)
            what = f"may be the same cluster as {first}: {late} cannot be compared before pulumi runs"
            yield Problem(("clusters", second), what, "make sure that they are different clusters")


def place(cluster: Cluster) -> JsonObject:
    """Return the values that identify a cluster, with its stack for each stack output."""
    given: JsonDict = {}
    for key in type(cluster).model_fields:
        value = getattr(cluster, key)
        given[key] = (cluster.stack, value.output) if isinstance(value, StackOutput) else value
    return {"cloud": cluster.cloud, **cluster.place_of(given)}


def place_in_cloud(given: JsonObject) -> dict[str, str]:
    """Return what tells clusters apart by the keys that every cluster of a cloud has.

    An account or a subscription is left out: whoever adds one later names the same cluster.
    """
    return {key: str(given[key]).casefold() for key in _PLACE_KEYS if given.get(key) is not None}


_PLACE_KEYS = ("project", "resource_group", "region", "location", "name")


def identity(cluster: Cluster) -> tuple[Any, ...] | None:
    """Return a tuple that is equal for the same cluster in two stack files; None if no file tells which it is.

    AKS clusters without `subscription_id` count as the same if their API is.
    """
    where = place(cluster)
    access = _access(cluster) if None in where.values() and isinstance(cluster, ReachableCluster) else ()
    if access is None or any(isinstance(value, Late) for value in where.values()):
        return None
    return (*sorted(where.items()), *access)


def same_place(one: JsonObject, other: JsonObject) -> bool | None:
    """Return whether two clusters are the same; None if it depends on values known only later."""
    if one.keys() != other.keys():
        return False  # of two clouds
    same = [_same(one[key], other[key]) for key in one]
    return False if False in same else None if None in same else True


def same_access(one: Cluster, other: Cluster) -> bool:
    """Return whether two clusters certainly have the same API, whatever their names."""
    if not isinstance(one, ReachableCluster) or not isinstance(other, ReachableCluster):
        return False
    ways = [_access(one), _access(other)]
    return None not in ways and ways[0] == ways[1]


def _access(cluster: ReachableCluster) -> tuple[Any, ...] | None:
    if isinstance(cluster.endpoint, str):
        return ("endpoint", cluster.endpoint.rpartition("://")[2].rstrip("/").casefold())
    late = cluster.endpoint if cluster.endpoint is not None else _kubeconfig(cluster)
    return None if isinstance(late, Late | None) else (cluster.stack if isinstance(late, StackOutput) else "", late)


def _kubeconfig(cluster: Cluster) -> Any:
    """Return the kubeconfig; `LATE` for a secret that is not known here."""
    given = cluster.kubeconfig if isinstance(cluster, ReachableCluster) else None
    return given.secret if isinstance(given, KubeconfigSecret) and isinstance(given.secret, Late) else given


def _same(one: object, other: object) -> bool | None:
    if isinstance(one, Late) or isinstance(other, Late):
        return None
    if one == other:
        return True
    return False if isinstance(one, str) and isinstance(other, str) else None


def ambiguous_names(pools: Mapping[str, StackPool]) -> Iterator[Problem]:
    """Reject pools whose resources would get the same Pulumi name `<cluster>-<pool>`: both parts may have hyphens."""
    taken: dict[str, tuple[str, str]] = {}
    for key, name in _declared(pools):
        first = taken.setdefault(f"{key}-{name}", (key, name))
        if first != (key, name):
            what = f"its Pulumi name on {key} is {key}-{name}, the same as of {first[1]} on {first[0]}"
            yield Problem(("pools", name), what, "rename one of the two; renamed_from keeps its nodes")
    for key, name in _declared(pools):
        former = pools[name].renamed_from
        cluster, other = taken.get(f"{key}-{former}", (key, ""))
        if former is not None and cluster != key:
            what = f"its former name {key}-{former} is now the name of {other} on {cluster}, which would get its nodes"
            fix = f"rename {other}, or add it in a later update"
            yield Problem(("pools", name, "renamed_from"), what, fix)


def _declared(pools: Mapping[str, StackPool]) -> Iterable[tuple[str, str]]:
    return [(key, name) for name, pool in pools.items() for key in dict.fromkeys(pool.clusters)]
