"""The components that a program has declared, to detect duplicate pools and software without nodes."""

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
    """Pool name and cluster location."""
    runtimes: dict[str, tuple[tuple[str, ...], JsonObject]] = field(default_factory=dict)
    """Pool keys and cluster location."""


_RUNS: WeakKeyDictionary[Any, Declared] = WeakKeyDictionary()
_HOSTED: dict[bool, Declared] = {}
hosted = False
"""Whether this process serves components to programs in other languages: one process per run of the engine."""


def declared() -> Declared:
    """Return the components that the running program has declared."""
    if hosted:  # every component has its own connection
        return _HOSTED.setdefault(bool(SETTINGS.dry_run), Declared())
    return _RUNS.setdefault(SETTINGS.monitor, Declared())


def place_of(cloud: Cloud, cluster: JsonObject) -> JsonObject:
    """Return the keys that identify a component's cluster; `cluster` has been validated."""
    return {"cloud": cloud.name, **cloud.cluster.place_of(cluster)}


def pool_problems(name: str, pool: str, place: JsonObject) -> Iterator[Problem]:
    """Yield a problem for each component that already declares the pool, or whose software excludes it."""
    for other, (taken, where) in declared().pools.items():
        if other != name and taken == pool and same_place(place, where):
            yield _duplicate_pool(pool, other)
    for other, (keys, where) in declared().runtimes.items():
        if pool not in keys and same_place(place, where):
            yield _pool_without_software(("pool_name",), pool, other, keys)
    declared().pools[name] = (pool, place)


def runtime_problems(name: str, keys: Collection[str], place: JsonObject) -> Iterator[Problem]:
    """Yield a problem for each declared pool of the cluster that the software of the pools `keys` excludes."""
    for pool, where in declared().pools.values():
        if pool not in keys and same_place(place, where):
            yield _pool_without_software(("pools",), pool, name, keys)
    declared().runtimes[name] = (tuple(keys), place)


def wait_for_distinct_pools(name: str, pool: str, place: JsonObject, address: Any) -> Any:
    """Return an address of the pool's cluster; an output resolves only after no other component has the same pool.

    While the program runs, another component that declares the pool raises `pulumi.RunError`.
    """
    if not isinstance(address, pulumi.Output):
        return address

    def compare(other: str, values: list[Any]) -> Any:
        if same_place(values[0], values[1]):
            raise pulumi.RunError(str(_duplicate_pool(pool, other)))
        return values[2]

    for other, (taken, where) in declared().pools.items():
        if other != name and taken == pool and same_place(place, where) is None:
            address = pulumi.Output.all(dict(place), dict(where), address).apply(partial(compare, other))
    return address


def _duplicate_pool(pool: str, other: str) -> Problem:
    what = f"GpuNodePool {shown(other)} already declares the pool {shown(pool)} on this cluster"
    return Problem(("pool_name",), what, "set another pool_name on one of them")


def _pool_without_software(path: tuple[str, ...], pool: str, runtime: str, keys: Collection[str]) -> Problem:
    what = (
        f"GpuRuntime {shown(runtime)} of this cluster has no pool {shown(pool)}; it installs software only on nodes "
        f"with {POOL_LABEL}: {', '.join(keys)}"
    )
    return Problem(path, what, "use the same name as key in pools and as pool_name")
