"""Validates the configuration of a stack and plans its clusters and pools. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import SERVED_BY, independent_problems, knows_its_place, plan_pool, unlisted_place
from gpupools.plan.prices import Budget, PoolPrice, PriceList, over_budget, pool_prices, read_budget
from gpupools.plan.quotas import QuotaNeed, exceeded, quota_needs, read_limits
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.planning import plan_runtime, plan_runtimes
from gpupools.software.team_shares import check_teams, scheduler_name
from gpupools.spec.cluster_access import ReachableCluster, missing_access
from gpupools.spec.identity import ambiguous_names, identity, place, same_apis, same_clusters
from gpupools.spec.models import Cluster, Late, PoolSpec, StackPool
from gpupools.spec.overrides import idle_overrides
from gpupools.spec.software_spec import (
    Existing,
    ExistingDraDriver,
    ExistingRdmaPlugin,
    ExistingSoftware,
    RuntimeSpec,
)
from gpupools.spec.teams import Team
from gpupools.stackfile.parsing import parse
from gpupools.stackfile.provider_settings import idle_settings

KEYS = ("clusters", "pools", "production", "allow_destroy", "allow_disruption", "quotas", "budget", "prices", "teams")
"""Keys of the namespace `gpupools:` in a stack file."""

MOST_CLUSTERS = 250
"""Maximum clusters of a stack, which are compared in pairs; EKS allows 100 per region."""

_MOST_CURES = 10
"""Maximum problems with a suggested name, because the search is slow with many names."""

# Keys become part of resource names and of pool names in the cloud; two keys of 20 characters stay below 63.
_KEY_LIMIT = 20


class Stack(NamedTuple):
    """The validated configuration of a stack."""

    clusters: Mapping[str, Cluster]
    pools: Mapping[str, StackPool]
    production: bool = False
    """Whether all pools without `protect: false` are production pools."""
    allow_destroy: tuple[str, ...] = ()
    """Resources that an update may replace or delete, declared without protection: pools as `<cluster>/<pool>`, and
    clusters for the software that their pools share."""
    allow_disruption: tuple[str, ...] = ()
    """Production pools, as `<cluster>/<pool>`, of which an update may end pods on several nodes at once."""
    quotas: Mapping[str, int] = MappingProxyType({})
    """Limits by the code of the quota, in vCPUs or GPUs per account and region."""
    budget: Budget | None = None
    """The most that the pools may cost per hour with all nodes."""
    prices: PriceList = PriceList()
    """The team's own prices."""
    teams: Mapping[str, Team] = MappingProxyType({})
    """The teams that share the pools, by name."""

    def is_production(self, pool: str) -> bool:
        """Return whether a pool is protected unless `allow_destroy` lists it."""
        return self.pools[pool].protect or (self.production and not self.is_exempt(pool))

    def is_exempt(self, pool: str) -> bool:
        """Return whether a pool sets `protect: false`, which exempts it in a production stack."""
        spec = self.pools[pool]
        return "protect" in spec.model_fields_set and not spec.protect

    def protects(self, cluster: str, pool: str) -> bool:
        """Return whether a pool is declared with protection against replacement and deletion."""
        return self.is_production(pool) and f"{cluster}/{pool}" not in self.allow_destroy


def parse_stack(config: Mapping[str, object], clouds: Mapping[str, Cloud]) -> Stack:
    """Return the validated configuration of a stack, which has `LATE` for values that are known only later.

    Raises:
        Rejected: All problems.
    """
    stack, problems = _parsed(config, clouds)
    if problems:
        raise Rejected(problems)
    return stack


class StackPlan(NamedTuple):
    """All decisions about one stack, which every command and the program use."""

    stack: Stack
    pools: tuple[PoolPlan, ...]
    """One plan per pool and cluster, by cluster and then pool, in the order of the file."""
    runtimes: tuple[RuntimePlan, ...]
    """Software plans of the clusters with pools, in the order of the file."""


def quotas_of(plan: StackPlan, clouds: Mapping[str, Cloud]) -> list[QuotaNeed]:
    """Return the quotas that the pools of a stack need at their maximum."""
    return quota_needs(plan.pools, plan.stack.clusters, plan.stack.pools, clouds)


def unlisted_offers(plan: StackPlan) -> list[str]:
    """Return instance types and regions of which no list says whether the cloud offers them there."""
    found: dict[str, None] = {}
    for pool in plan.pools:
        cluster = plan.stack.clusters[pool.cluster]
        region = cluster.region_name()
        if cluster.known_places().offered(pool.instance.name, region) is None:
            found[f"{pool.instance.name} in {region or f'the region of {pool.cluster}'}"] = None
    return list(found)


def places_against_lists(plan: StackPlan) -> Iterator[Problem]:
    """Yield pools that a list does not have in their place, but that are there: reserved, or of the last update."""
    for pool in plan.pools:
        spec, cluster = plan.stack.pools[pool.name], plan.stack.clusters[pool.cluster]
        for problem in unlisted_place(("pools", pool.name), spec, pool.cluster, cluster, pool.instance):
            known = "it is reserved" if knows_its_place(spec) and spec.adopt is None else "the pool exists"
            yield replace(problem, fix=f"accepted, because {known}; clusters.{pool.cluster}.places: trust hides this")


def prices_of(plan: StackPlan, clouds: Mapping[str, Cloud]) -> list[PoolPrice]:
    """Return what the pools of a stack cost per hour."""
    return pool_prices(plan.pools, plan.stack.clusters, plan.stack.pools, clouds, plan.stack.prices)


def plan_config(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
    others: Iterable[str] = (),
    also: Callable[[Mapping[str, Cluster]], Iterable[Problem]] = lambda clusters: (),
    misread: Sequence[Problem] = (),
    price_list: Callable[[object], PriceList] = lambda raw: PriceList(),
    running: Collection[str] = (),
) -> StackPlan:
    """Return the plan of a configuration.

    Args:
        config: As for `parse_stack`.
        clouds: The clouds by name.
        others: Full keys of other namespaces in the stack's configuration.
        also: Additional checks of the valid clusters.
        misread: Problems of unreadable values.
        price_list: Reads the value of `prices`; raises `Rejected`.
        running: Pools of the last update, as `<cluster>-<pool>`, whose machines are there whatever a list says.

    Raises:
        Rejected: All problems, except those that only follow from others.
    """
    known = _PLANNED.get()
    others = tuple(others)
    if known is not None and known[0] == _inputs_of(config, clouds, others) and not [*also(known[1].stack.clusters)]:
        return known[1]
    plan, problems = _judged(config, clouds, also, price_list, running)
    problems += idle_settings(others, clouds)
    if problems or misread:
        certain = (each for each in problems if not any(_is_about(each.path, value.path) for value in misread))
        raise Rejected(dict.fromkeys([*misread, *certain]))
    return plan


def _map(config: Mapping[str, object], section: str) -> Mapping[str, Any]:
    """Return the map of a section; empty if it cannot be read."""
    found = config.get(section)
    return found if isinstance(found, Mapping) else {}


def _is_about(problem: Path, value: Path) -> bool:
    """Return whether a problem may follow from a value: one path is a prefix of the other."""
    shorter = min(len(problem), len(value))
    return problem[:shorter] == value[:shorter]


def _judged(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
    also: Callable[[Mapping[str, Cluster]], Iterable[Problem]],
    price_list: Callable[[object], PriceList],
    running: Collection[str],
) -> tuple[StackPlan, list[Problem]]:
    """Return the plan of all that is valid, and the problems of the configuration."""
    stack, problems = _parsed(config, clouds)
    problems += also(stack.clusters)
    has_prices = True
    try:
        stack = stack._replace(prices=price_list(config.get("prices")))
    except Rejected as rejected:
        problems += rejected.problems
        has_prices = False
    plans: dict[str, list[PoolPlan]] = {key: [] for key in stack.clusters}
    whole = set(stack.clusters) - _with_unread_pools(config, stack)
    for key, cluster in stack.clusters.items():
        for name, pool in stack.pools.items():
            if key in pool.clusters:
                there = cluster.model_copy(update={"places": "trust"}) if f"{key}-{name}" in running else cluster
                try:
                    made = plan_pool(name, _pool_on(stack, key, name), key, there, clouds[cluster.cloud])
                    shared_by = scheduler_name(cluster.runtime.scheduler, stack.teams, made)
                    plans[key].append(made._replace(scheduler_name=shared_by))
                except Rejected as rejected:
                    problems += rejected.problems
                    whole.discard(key)
    planned_pools = [plan for own in plans.values() for plan in own]
    if stack.quotas:
        problems += exceeded(quota_needs(planned_pools, stack.clusters, stack.pools, clouds), stack.quotas)
    if stack.budget is not None and has_prices:
        prices = pool_prices(planned_pools, stack.clusters, stack.pools, clouds, stack.prices)
        problems += over_budget(prices, stack.budget)
    if problems:
        problems += _partly_valid_pools(config, stack, clouds, problems)
    runtimes: list[RuntimePlan] = []
    for key in stack.clusters:
        if key in whole:
            try:
                runtimes += _cluster_software(key, stack.clusters[key], plans[key], clouds, stack.teams)
            except Rejected as rejected:
                problems += rejected.problems
    used = [each.cluster for each in runtimes if each.needs_kubernetes]
    problems += same_apis({key: stack.clusters[key] for key in used})
    return StackPlan(stack, tuple(planned_pools), tuple(runtimes)), problems


def _partly_valid_pools(
    config: Mapping[str, object], stack: Stack, clouds: Mapping[str, Cloud], problems: Iterable[Problem]
) -> list[Problem]:
    """Return the problems of invalid pools, and of pools on invalid clusters, that do not depend on what is invalid."""
    pools, clusters = _map(config, "pools"), _map(config, "clusters")
    invalid: dict[object, set[str]] = {name: set() for name in pools}
    for path in (each.path for each in problems if each.path[0] == "pools" and each.path[1:2]):
        # A conflict of keys is reported at the pool.
        invalid.get(path[1], set()).update(map(str, path[2:3] or ("gpu", "instance_type", "gpus_per_node")))
    found: list[Problem] = []
    for name, raw in pools.items():
        unread = invalid[name] if name not in stack.pools else set()
        spec = stack.pools.get(name) or _without(raw, unread | {"clusters"})
        if unread - set(StackPool.model_fields):  # an unknown key may stand for one of these
            unread |= {"gpus_per_node", "sharing", "software", "trust", "image"}
        if spec is not None and not {"gpu", "instance_type"} & (set(raw) - unread):
            unread |= {"gpu", "instance_type"}
        for key in (_clusters_of(raw) or ()) if spec is not None else ():
            cluster, given = (stack.clusters.get(key), clusters.get(key)) if isinstance(key, str) else (None, None)
            cloud = clouds.get(str(given.get("cloud"))) if isinstance(given, Mapping) else None
            if spec is not None and cloud is not None and (cluster is None or name not in stack.pools):
                found += independent_problems(name, spec, key, cluster, cloud, unread)
    return found


def _without(raw: object, unread: Set[str]) -> PoolSpec | None:
    """Return a pool with other values for its invalid keys; None if that is not enough to read it."""
    if not isinstance(raw, Mapping):
        return None
    needed = {"nodes": {"max": 1}, **({} if {"gpu", "instance_type"} & (set(raw) - unread) else {"gpu": "any"})}
    try:
        return parse(PoolSpec, (), needed | {key: value for key, value in raw.items() if key not in unread})
    except Rejected:
        return None


def _with_unread_pools(config: Mapping[str, object], stack: Stack) -> set[str]:
    """Return the clusters that invalid pools use, or may use."""
    found: set[str] = set()
    for name, pool in _map(config, "pools").items():
        if name not in stack.pools:
            named = _clusters_of(pool)
            found.update(each for each in (stack.clusters if named is None else named) if isinstance(each, str))
    return found


def _inputs_of(config: Mapping[str, object], clouds: Mapping[str, Cloud], others: Iterable[str]) -> tuple[int, str]:
    """Return what is equal for inputs with the same plan: values with their types, in the order of the file."""
    return id(clouds), repr((dict(config), sorted(others)))


_PLANNED: ContextVar[tuple[tuple[int, str], StackPlan] | None] = ContextVar("planned", default=None)


@contextmanager
def planned(
    plan: StackPlan, config: Mapping[str, object], clouds: Mapping[str, Cloud], others: Iterable[str] = ()
) -> Iterator[None]:
    """Let `plan_config` reuse a plan for the same inputs inside the block.

    An offline preview plans the file, and then runs the program, which plans the same configuration.
    """
    before = _PLANNED.set((_inputs_of(config, clouds, others), plan))
    try:
        yield
    finally:
        _PLANNED.reset(before)


def _parsed(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
) -> tuple[Stack, list[Problem]]:
    problems = [
        Problem((f"gpupools:{key}",), "unknown key", _instead_of(key), of_key=True) for key in config if key not in KEYS
    ]

    clusters = dict(_parse_each("clusters", config, lambda at, raw: parse_cluster(at, raw, clouds), problems))
    pools = dict(_parse_each("pools", config, lambda at, raw: parse(StackPool, at, raw), problems))
    named = config.get("clusters")
    # If clusters cannot be read, no cluster counts as unknown.
    known = set(named) if isinstance(named, Mapping) and named else _named_by_pools(config)
    problems += _unknown_clusters(config, known)
    names: dict[tuple[str, str, str], list[str]] = {}
    for name, pool in pools.items():
        if set(pool.clusters) <= set(clusters):  # the cloud of an invalid cluster is unknown
            used = {clusters[key].cloud for key in pool.clusters}
            problems += idle_overrides(("pools", name), pool.overrides, clouds, used)
        problems += _former_names(name, pool, pools, names)
        problems += _adopted_twice(name, pool, pools)
        for taken in _names_in_cloud(name, pool):
            names.setdefault(taken, []).append(name)
    for key in {key: None for pool in pools.values() if pool.adopt is None for key in pool.clusters}:
        if key in clusters:
            problems += clusters[key].not_for_new_pools(("clusters", key))
    if len(known) > MOST_CLUSTERS:
        what = f"has {len(known)} clusters, more than {MOST_CLUSTERS}"
        problems.append(Problem(("clusters",), what, "split the stack into several stacks"))
    else:
        problems += same_clusters(clusters)
    problems += ambiguous_names(pools)
    destroyed = _pool_names(config, "allow_destroy", problems, clusters_too=True)
    disrupted = _pool_names(config, "allow_disruption", problems)
    here = [f"{key}/{name}" for name, pool in pools.items() for key in pool.clusters]
    limits = read_limits(config, clouds, problems) if "quotas" in config else {}
    budget = read_budget(config, problems)
    named_pools: list[tuple[Path, str]] = [(("allow_disruption", index), each) for index, each in enumerate(disrupted)]
    named_pools += [(("budget", "pools", each), each) for each in (budget.pools if budget is not None else ())]
    raw = config.get("pools")
    all_read = isinstance(raw, Mapping) and len(raw) == len(pools)
    for at, each in named_pools:
        if each not in here and all_read:
            what = f"{each!r} is no pool of this stack"
            problems.append(Problem(at, what, f"remove or correct it; {nearest(each, here)}", of_key=at[-1] == each))
    teams: dict[str, Team] = {}
    if "teams" in config:
        teams = dict(_parse_each("teams", config, lambda at, raw: parse(Team, at, raw), problems))
    given = config.get("teams", {})
    all_teams = isinstance(given, Mapping) and len(given) == len(teams)
    problems += check_teams(teams, pools, clusters, all_read=all_read, all_teams=all_teams)
    production = _production(config, problems)
    return Stack(clusters, pools, production, destroyed, disrupted, limits, budget, teams=teams), problems


def _names_in_cloud(name: str, pool: StackPool) -> Iterator[tuple[str, str, str]]:
    """Yield what only one pool of a cluster may have: its name in the cloud, and its former key."""
    for cluster in dict.fromkeys(pool.clusters):
        if pool.renamed_from is not None:
            yield cluster, "renamed from", pool.renamed_from
        yield cluster, "named after", pool.named_after(name)


def _former_names(
    name: str, pool: StackPool, pools: Mapping[str, StackPool], names: Mapping[tuple[str, str, str], Sequence[str]]
) -> Iterator[Problem]:
    """Yield problems of a pool's former keys: two pools of a cluster must not have the same name."""
    at: Path = ("pools", name)
    wrong = former_key_problems(at, pool)
    yield from wrong
    former = pool.renamed_from
    if wrong:
        return
    if former == name:
        yield Problem((*at, "renamed_from"), "is the pool's current key", "set the former key of the pool")
        return
    if former is not None and former in pools and set(pools[former].clusters) & set(pool.clusters):
        fix = f"set the former key of the pool; after the update that renamed it, set first_name: {former} instead"
        yield Problem((*at, "renamed_from"), f"{former!r} is still a pool on the same cluster", fix)
        return
    same = (names.get(each, ()) for each in _names_in_cloud(name, pool))
    first = (next((key for key in keys if pools[key].renamed_from != name), None) for keys in same)
    for key in dict.fromkeys(filter(None, first)):
        other = pools[key]
        if former is not None and other.renamed_from == former:
            what = f"{key!r} is also renamed from {former!r}, but only one pool can keep its nodes"
            yield Problem((*at, "renamed_from"), what, "remove it from one of the two, which becomes a new pool")
        else:
            newer, older = (name, key) if pool.named_after(name) == name else (key, name)
            what = f"{newer!r} and {older!r} would both be named {pool.named_after(name)} in the cloud"
            yield Problem(("pools", newer, "first_name"), what, "set a name that no pool of the cluster had")


def _adopted_twice(name: str, pool: StackPool, pools: Mapping[str, StackPool]) -> Iterator[Problem]:
    """Reject an existing pool that is imported on several clusters, or under several keys."""
    if pool.adopt is None:
        return
    at: Path = ("pools", name)
    if len(set(pool.clusters)) > 1:
        what = f"{pool.adopt.name} is a pool of one cluster, but {len(set(pool.clusters))} are listed"
        yield Problem((*at, "clusters"), what, "list the cluster it is in, and use another key for another pool")
    for key, other in pools.items():
        if key == name:
            return
        if other.adopt is not None and other.adopt.name == pool.adopt.name and set(other.clusters) & set(pool.clusters):
            what = f"is already imported as {key!r}"
            yield Problem((*at, "adopt", "name"), what, "remove one of the two")


def adopted_pools(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the imported pools of a stack: a tuple that identifies the pool, and its key.

    Pools of clusters with stack outputs are omitted, because no file tells which cluster it is.
    """
    for pool in plan.pools:
        adopted = pool.provider_plan.adopted_pool()
        where = tuple(sorted(place(plan.stack.clusters[pool.cluster]).items()))
        if adopted is not None and all(isinstance(value, str) for _, value in where):
            yield (*where, adopted.name), f"{pool.cluster}/{pool.name}"


def pools_in_clusters(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the pools of a stack: a tuple that identifies cluster and pool, and the pool's key."""
    for pool in plan.pools:
        where = identity(plan.stack.clusters[pool.cluster])
        if where is not None:
            yield (*where, pool.name), f"{pool.cluster}/{pool.name}"


def objects_in_clusters(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str, str]]:
    """Yield the releases of a stack, then its objects: a tuple that identifies it, its name, and the cluster's key."""
    for runtime in plan.runtimes:
        where = identity(plan.stack.clusters[runtime.cluster])
        if where is None:
            continue
        for release in runtime.releases:
            yield (*where, "release", release.namespace, release.name), f"chart {release.chart}", runtime.cluster
        for each in runtime.objects:
            metadata = each.manifest["metadata"]
            name, space = metadata["name"], metadata.get("namespace")
            yield (*where, each.kind, space, name), f"{each.kind} {name}", runtime.cluster


def former_key_problems(at: Path, pool: PoolSpec) -> list[Problem]:
    """Return the former keys of a pool that are not valid keys."""
    fixes = {"renamed_from": "set the former key of the pool", "first_name": "set the key under which it was created"}
    return [
        Problem((*at, key), f"got {shown(given)}, which is not a valid key of a pool", fix)
        for key, fix in fixes.items()
        if (given := getattr(pool, key)) is not None and bad_key((), given) is not None
    ]


def _clusters_of(pool: object) -> list[Any] | None:
    """Return the clusters of a pool that may be invalid; None if they cannot be read."""
    keys = pool.get("clusters") if isinstance(pool, Mapping) else None
    return keys if isinstance(keys, list) else None


def _named_by_pools(config: Mapping[str, object]) -> set[object]:
    lists = (_clusters_of(pool) or () for pool in _map(config, "pools").values())
    return {key for keys in lists for key in keys if isinstance(key, str)}


def _unknown_clusters(config: Mapping[str, object], known: Collection[object]) -> Iterator[Problem]:
    """Yield clusters of pools that are unknown or listed twice, also of pools that are invalid for another reason."""
    cures = 0
    for name, pool in _map(config, "pools").items():
        keys = _clusters_of(pool) or []
        for index, key in enumerate(keys):
            at: Path = ("pools", name, "clusters", index)
            if isinstance(key, str) and key not in known:
                cures += 1
                close = nearest(key, map(str, known)) if cures < _MOST_CURES else "use a key of clusters"
                yield Problem(at, f"unknown cluster {shown(key)}", close)
            elif isinstance(key, str) and key in keys[:index]:
                yield Problem(at, f"{key!r} is listed twice", "list each cluster once")


def _production(config: Mapping[str, object], problems: list[Problem]) -> bool:
    raw = config.get("production", False)
    # `pulumi config set` writes text, and a program receives the same for text and boolean.
    value = {"true": True, "false": False}.get(raw) if isinstance(raw, str) else raw
    if isinstance(value, bool):
        return value
    what = "is a secret" if isinstance(raw, Late) else f"got {shown(raw)}"
    problems.append(Problem(("production",), what, "write true or false"))
    return False


def _pool_names(
    config: Mapping[str, object], key: str, problems: list[Problem], *, clusters_too: bool = False
) -> tuple[str, ...]:
    """Return the pools of a list, as `<cluster>/<pool>`, and the clusters if it may name some."""
    raw = config.get(key, [])
    if not isinstance(raw, list):
        what = "is a secret" if isinstance(raw, Late) else f"got {shown(raw)}"
        problems.append(Problem((key,), what, "write a list such as [<cluster>/<pool>, …]"))
        return ()
    fix = "write <cluster>/<pool>" + (", or <cluster> for a cluster's software" if clusters_too else "")
    found: dict[str, None] = {}
    for index, name in enumerate(raw):
        parts = name.split("/") if isinstance(name, str) else []
        if len(parts) not in ((1, 2) if clusters_too else (2,)) or any(bad_key((), part) for part in parts):
            problems.append(Problem((key, index), f"got {shown(name)}", fix))
        elif name in found:
            problems.append(Problem((key, index), f"{name!r} is listed twice", "list each entry once"))
        else:
            found[name] = None
    return tuple(found)


def _pool_on(stack: Stack, cluster: str, pool: str) -> PoolSpec:
    """Return a pool for one cluster, with its effective protection."""
    spec, protect = stack.pools[pool].pool(), stack.protects(cluster, pool)
    return spec if spec.protect == protect else spec.model_copy(update={"protect": protect})


def _cluster_software(
    key: str,
    cluster: Cluster,
    own: Sequence[PoolPlan],
    clouds: Mapping[str, Cloud],
    teams: Mapping[str, Team] = MappingProxyType({}),
) -> Sequence[RuntimePlan]:
    """Return the software plan of one cluster with these pools."""
    if _is_installed_by_team(cluster, own):
        return [_team_installed_plan(key, cluster, clouds[cluster.cloud], own)]
    here = plan_runtimes({key: cluster}, own, clouds, teams)
    problems = [problem for runtime in here for problem in missing_access(key, cluster, _installed(runtime))]
    if problems:
        raise Rejected(problems)
    return here


_NO_OWNERS = {"cluster_autoscaler", "karpenter", "node_monitoring_agent"}
"""Existing software that makes no node offer GPUs."""


def _is_installed_by_team(cluster: Cluster, pools: Sequence[PoolPlan]) -> bool:
    """Return whether gpupools leaves the software of a cluster to the team: API access and `runtime` are not set.

    A first preview should not require a kubeconfig. Sharing that needs our software does require one.
    """
    return (
        isinstance(cluster, ReachableCluster)
        and not cluster.has_access
        and cluster.runtime.model_fields_set <= {"existing"}
        and cluster.runtime.existing.named().keys() <= _NO_OWNERS
        and len({plan.software for plan in pools} & set(SERVED_BY)) == 1
        and not any(map(_is_shared_by_software, pools))
    )


def _is_shared_by_software(plan: PoolPlan) -> bool:
    """Return whether the pool's sharing mode requires software in the cluster."""
    return plan.capability.verdict is Verdict.IN_CLUSTER and plan.sharing_kind != "none"


def _team_installed_plan(key: str, cluster: Cluster, cloud: Cloud, pools: Sequence[PoolPlan]) -> RuntimePlan:
    """Return the plan of a cluster without API access, whose device plugin the team installs."""
    brought = {SERVED_BY[pool.software] for pool in pools if pool.software in SERVED_BY}
    # What would be installed beside it, the team brings too.
    nodes = [cloud.node_runtime(pool.software, pool.provider_plan) for pool in pools]
    brought |= {chart.existing for node in nodes for chart in node.charts if chart.existing}
    types: Mapping[str, type[ExistingSoftware]] = {"dra_driver": ExistingDraDriver, "rdma_plugin": ExistingRdmaPlugin}
    named: JsonDict = dict(cluster.runtime.existing.named())
    named |= {each: types.get(each, ExistingSoftware).model_construct(name="yours") for each in sorted(brought)}
    if any(pool.compute_domains for pool in pools):
        serves = "both" if "dra_driver" in named else "compute-domains"
        named["dra_driver"] = ExistingDraDriver.model_construct(name="yours", serves=serves)
        brought.add("dra_driver")
    # Without validation, which would build the models.
    spec = RuntimeSpec.model_construct(management="external", existing=Existing.model_construct(**named))
    runtime = plan_runtime(key, cluster, cloud, pools, spec)
    software, names = " and ".join(sorted(brought)).replace("_", " "), ", ".join(pool.name for pool in pools)
    what = f"no pool of the cluster offers GPUs ({names}): nothing is installed in it, and no {software} is named"
    if any(pool.provider_plan.requires_gpu_resource() and pool.min_nodes < pool.max_nodes for pool in pools):
        # kubernetes/autoscaler cluster-autoscaler/processors/customresources/gpu_processor.go, and issue 10301
        what += f", and {cloud.service}'s autoscaler stops scaling while their nodes are not ready"
    keys = ", ".join(f"{each}: <namespace>/<name>" for each in sorted(brought))
    fix = f"add kubeconfig: {{path: …}}, or runtime: {{management: external, existing: {{{keys}}}}} for what runs there"
    warning = Problem(("clusters", key), what, fix)
    return runtime._replace(notes=(*runtime.notes, str(warning)), warnings=(warning, *runtime.warnings))


def _installed(runtime: RuntimePlan) -> list[str]:
    """Return the names of the charts to install, or of the objects if there are no charts."""
    charts = [f"chart {release.chart}" for release in runtime.releases]
    return charts or [f"{each.kind} {each.manifest['metadata']['name']}" for each in runtime.objects]


def parse_cluster(at: Path, raw: object, clouds: Mapping[str, Cloud]) -> Cluster:
    """Return one cluster with the keys of its cloud.

    Raises:
        Rejected: All its problems.
    """
    if not isinstance(raw, Mapping):
        raise Rejected([Problem(at, f"got {shown(raw)}", "write a map with cloud, name and the keys of the cloud")])
    cloud = raw.get("cloud")
    if not isinstance(cloud, str) or cloud not in clouds:
        what = f"unknown cloud {shown(cloud)}" if "cloud" in raw else "is missing"
        fix = nearest_cloud(cloud, clouds) if isinstance(cloud, str) else f"use one of {', '.join(sorted(clouds))}"
        raise Rejected([Problem((*at, "cloud"), what, fix)])
    return parse(clouds[cloud].cluster, at, raw)


def parse_pool(at: Path, raw: object) -> PoolSpec:
    """Return one pool without clusters, the argument of a component.

    Raises:
        Rejected: All its problems.
    """
    return parse(PoolSpec, at, raw)


def _parse_each(
    section: str, config: Mapping[str, object], parse: Any, problems: list[Problem]
) -> Iterator[tuple[str, Any]]:
    raw = config.get(section)
    if section not in config and _is_misspelt(section, config):
        return  # the misspelt key is reported instead
    if isinstance(raw, Late):
        problems.append(
            Problem((section,), "is a secret", "write it as plain text; only addresses in clusters may be secrets")
        )
    elif not isinstance(raw, Mapping) or not raw:
        # Text may be the whole map in an unreadable form, including passwords.
        what = "is text" if isinstance(raw, str) and raw else f"got {shown(raw)}" if section in config else "is missing"
        problems.append(Problem((section,), what, f"write gpupools:{section} as a map of names to settings"))
    else:
        for key, value in raw.items():
            bad = bad_key((section,), key)
            if bad is not None:
                problems.append(bad)
            try:
                found = parse((section, key) if bad is None else bad.path, value)
            except Rejected as rejected:
                problems.extend(rejected.problems)
            else:
                if bad is None:
                    yield key, found


def _instead_of(key: str) -> str:
    # The form that Pulumi writes for one value: `config: {gpupools: {pools: …}}`.
    return "write gpupools:clusters and gpupools:pools under config:" if key == "gpupools" else nearest(key, KEYS)


def _is_misspelt(section: str, config: Mapping[str, object]) -> bool:
    from gpupools.catalog.key_synonyms import meant  # only on the way to an error

    found = [meant(key, KEYS) for key in config if key not in KEYS]
    return section in found


def bad_key(at: Path, key: object) -> Problem | None:
    """Return the problem of a cluster's or pool's key, which becomes part of resource names; None if it is valid."""
    good = (
        isinstance(key, str)
        and 0 < len(key) <= _KEY_LIMIT
        and key.isascii()
        and key[0].isalpha()
        and not key.endswith("-")
        and all(character.islower() or character.isdigit() or character == "-" for character in key)
    )
    if good:
        return None
    fix = f"use 1 to {_KEY_LIMIT} lower-case letters, digits and hyphens; start with a letter, do not end with a hyphen"
    return Problem((*at, key if isinstance(key, str) else shown(key)), "is not a valid key", fix)
