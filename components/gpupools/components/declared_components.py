"""What a program has declared: two components that would be one pool, or one that serves no node, are refused."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime.settings import SETTINGS

from gpupools.common.errors import Problem, shown
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.spec.identity import same_place


@dataclass
class Declared:
    """The components of one run of a program, by their names."""

    pools: dict[str, tuple[str, JsonObject]] = field(default_factory=dict)
    """Pool's name and the cluster's place."""
    runtimes: dict[str, tuple[tuple[str, ...], JsonObject]] = field(default_factory=dict)
    """Keys of the pools and the cluster's place."""


_RUNS: WeakKeyDictionary[Any, Declared] = WeakKeyDictionary()
_HOSTED: dict[bool, Declared] = {}
hosted = False
"""Whether this process serves components to programs in other languages: one process for one run of the engine."""


def declared() -> Declared:
    """Return what the program that runs has declared."""
    if hosted:  # every component gets a connection of its own
        return _HOSTED.setdefault(bool(SETTINGS.dry_run), Declared())
    return _RUNS.setdefault(SETTINGS.monitor, Declared())


def place_of(cloud: Cloud, cluster: JsonObject) -> JsonObject:
    """Return what tells a component's cluster from others; `cluster` has been checked."""
    return {"cloud": cloud.name, **cloud.cluster.place_of(cluster)}


def pool_problems(name: str, pool: str, place: JsonObject) -> Iterator[Problem]:
    """Refuse a pool that another component makes already, or that the cluster's software would not serve.

    Args:
        name: The component's name.
        pool: The pool's name on its cluster.
        place: The cluster's place.
    """
    for other, (taken, where) in declared().pools.items():
        if other != name and taken == pool and same_place(place, where):
            yield _taken(pool, other)
    for other, (keys, where) in declared().runtimes.items():
        if pool not in keys and same_place(place, where):
            yield _unserved(("pool_name",), pool, other, keys)
    declared().pools[name] = (pool, place)


def runtime_problems(name: str, keys: Collection[str], place: JsonObject) -> Iterator[Problem]:
    """Refuse software whose pools are not those that the program makes on its cluster.

    Args:
        name: The component's name.
        keys: Keys of its pools.
        place: The cluster's place.
    """
    for pool, where in declared().pools.values():
        if pool not in keys and same_place(place, where):
            yield _unserved(("pools",), pool, name, keys)
    declared().runtimes[name] = (tuple(keys), place)


def apart(name: str, pool: str, place: JsonObject, address: Any) -> Any:
    """Return an address of the pool's cluster; a late one once no other component is known to make the same pool.

    Args:
        name: The component's name.
        pool: The pool's name on its cluster.
        place: The cluster's place.
        address: The address, late or not.

    Raises (while the program runs):
        pulumi.RunError: Another component makes the pool.
    """
    if not isinstance(address, pulumi.Output):
        return address

    def compare(other: str, given: list[Any]) -> Any:
        if same_place(given[0], given[1]):
            raise pulumi.RunError(str(_taken(pool, other)))
        return given[2]

    for other, (taken, where) in declared().pools.items():
        if other != name and taken == pool and same_place(place, where) is None:
            address = pulumi.Output.all(dict(place), dict(where), address).apply(partial(compare, other))
    return address


def _taken(pool: str, other: str) -> Problem:
    what = f"{shown(pool)} is the pool of {shown(other)} on this cluster already"
    return Problem(("pool_name",), what, "give one of the two another pool_name")


def _unserved(path: tuple[str, ...], pool: str, runtime: str, keys: Collection[str]) -> Problem:
    what = (
        f"the pool {shown(pool)} is none of GpuRuntime {shown(runtime)} on this cluster, whose software goes to nodes "
        f"with {POOL_LABEL}: {', '.join(keys)}"
    )
    return Problem(path, what, "use one name as the runtime's key and as the pool's pool_name")
