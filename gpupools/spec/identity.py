"""Which keys of a stack file stand for one and the same cluster, and which pools for one name in Pulumi. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.cluster_access import KubeconfigSecret, ReachableCluster
from gpupools.spec.models import Cluster, Late, StackOutput, StackPool

_ON_THE_POOL = "what one pool needs of its own, subnets or a role, goes into the pool's overrides"


def same_clusters(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Refuse a second key for one cluster: each key has its pools and its software planned as if it were alone.

    Args:
        clusters: The clusters of a stack by key, as the file says them.
    """
    places = {key: place(cluster) for key, cluster in clusters.items()}
    told: set[str] = set()
    for first, second in combinations(clusters, 2):
        if second in told:
            continue
        if same_place(places[first], places[second]):
            told.add(second)
            yield second_key(first, second, places[first])


def same_apis(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Refuse a second cluster behind one API: what it needs would be installed where another's already is.

    Args:
        clusters: The clusters of a stack that software is installed in, by key; the access of others is not used.
    """
    told: set[str] = set()
    for (first, one), (second, other) in combinations(clusters.items(), 2):
        if second not in told and same_access(one, other):
            told.add(second)
            what = f"reaches the API of {first}, whose software would be installed there a second time"
            fix = f"give {second} the kubeconfig, context or endpoint of its own API, or its pools to {first}"
            yield Problem(("clusters", second, "kubeconfig" if _kubeconfig(other) else "endpoint"), what, fix)


def second_key(first: str, second: str, where: JsonObject) -> Problem:
    """Say that two keys stand for one cluster.

    Args:
        first: The key that stays.
        second: The one too many.
        where: What tells the cluster from every other.
    """
    same = [key for key, value in where.items() if key != "cloud" and value is not None]
    what = f"is the cluster that {first} is ({', '.join(same)} are the same)"
    return Problem(("clusters", second), what, f"let its pools name {first} in its place; {_ON_THE_POOL}")


def not_compared(clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Warn of clusters that may be one and the same, as far as the file tells; Pulumi compares what it knows later.

    Args:
        clusters: The clusters of a stack by key, as the file says them.
    """
    places = {key: place(cluster) for key, cluster in clusters.items()}
    for (first, here), (second, there) in combinations(places.items(), 2):
        if same_place(here, there) is None:
            late = ", ".join(key for key in here if _same(here[key], there[key]) is None)
            what = f"nothing here tells whether it is the cluster that {first} is: {late} cannot be compared"
            yield Problem(("clusters", second), what, "make sure that they are two")


def place(cluster: Cluster) -> JsonObject:
    """Return what tells a cluster from every other of its cloud; an output by the stack it is of."""
    given: JsonDict = {}
    for key in type(cluster).model_fields:
        value = getattr(cluster, key)
        given[key] = (cluster.stack, value.output) if isinstance(value, StackOutput) else value
    return {"cloud": cluster.cloud, **cluster.place_of(given)}


def same_place(one: JsonObject, other: JsonObject) -> bool | None:
    """Say whether two clusters are one; None where something late decides."""
    if one.keys() != other.keys():
        return False  # of two clouds
    same = [_same(one[key], other[key]) for key in one]
    return False if False in same else None if None in same else True


def same_access(one: Cluster, other: Cluster) -> bool:
    """Say whether two clusters surely are reached by one API, whatever they are called."""
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
    """Return what stands under kubeconfig; of a secret that is not known here, that it is late."""
    given = cluster.kubeconfig if isinstance(cluster, ReachableCluster) else None
    return given.secret if isinstance(given, KubeconfigSecret) and isinstance(given.secret, Late) else given


def _same(one: object, other: object) -> bool | None:
    if isinstance(one, Late) or isinstance(other, Late):
        return None
    if one == other:
        return True
    return False if isinstance(one, str) and isinstance(other, str) else None


def ambiguous_names(pools: Mapping[str, StackPool]) -> Iterator[Problem]:
    """Refuse pools whose resources Pulumi would know by one name, `<cluster>-<pool>`: both parts may have hyphens.

    Args:
        pools: The pools of a stack by key.
    """
    taken: dict[str, tuple[str, str]] = {}
    for key, name in _declared(pools):
        first = taken.setdefault(f"{key}-{name}", (key, name))
        if first != (key, name):
            what = f"on {key} it is {key}-{name} to Pulumi, and so is {first[1]} on {first[0]}"
            yield Problem(("pools", name), what, "give one of the two another key; renamed_from keeps its nodes")
    for key, name in _declared(pools):
        former = pools[name].renamed_from
        cluster, other = taken.get(f"{key}-{former}", (key, ""))
        if former is not None and cluster != key:
            what = f"on {key} the name {key}-{former} now is that of {other} on {cluster}, which would get its nodes"
            fix = f"give {other} another key, or declare it in an update after this one"
            yield Problem(("pools", name, "renamed_from"), what, fix)


def _declared(pools: Mapping[str, StackPool]) -> Iterable[tuple[str, str]]:
    return [(key, name) for name, pool in pools.items() for key in dict.fromkeys(pool.clusters)]
