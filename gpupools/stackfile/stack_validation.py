"""Validates the configuration of a stack: its keys, clusters, pools and teams, alone and together. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.json_types import mapping
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.plan.pool_plan import GROUP_LABEL
from gpupools.plan.prices import Budget, PriceList, read_budget
from gpupools.plan.quotas import read_limits
from gpupools.software.team_shares import check_teams
from gpupools.spec.identity import ambiguous_names, same_clusters
from gpupools.spec.models import Cluster, Late, PoolSpec, StackPool, got
from gpupools.spec.overrides import idle_overrides
from gpupools.spec.teams import Team
from gpupools.stackfile.parsing import absent, parse
from gpupools.stackfile.steps import KEY_LIMIT, Steps, read_steps

KEYS = ("clusters", "pools", "production", "allow_destroy", "allow_disruption", "quotas", "budget", "prices", "teams")
"""Keys of the namespace `gpupools:` in a stack file."""

MOST_CLUSTERS = 250
"""Maximum clusters of a stack, which are compared in pairs; EKS allows 100 per region."""

_MOST_CURES = 10
"""Maximum problems with a suggested name, because the search is slow with many names."""


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
    steps: Steps = Steps({})
    """Where the file has each pool."""

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
    stack, problems = parsed(config, clouds)
    if problems := stack.steps.as_written(problems):
        raise Rejected(problems)
    return stack


def parsed(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
) -> tuple[Stack, list[Problem]]:
    """Return all that is valid of a configuration, and its problems: of the pools as `Stack.steps` has them."""
    steps = read_steps(config.get("pools"))
    config = {**config, "pools": steps.pools} if "pools" in config else config
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
    named_pools: list[tuple[Path, str]] = [(("allow_disruption", index), name) for index, name in enumerate(disrupted)]
    named_pools += [(("budget", "pools", pool), pool) for pool in (budget.pools if budget is not None else ())]
    raw = config.get("pools")
    all_read = isinstance(raw, Mapping) and len(raw) == len(pools)
    for at, entry in named_pools:
        if entry not in here and all_read:
            what = f"{entry!r} is no pool of this stack"
            problems.append(Problem(at, what, f"remove or correct it; {nearest(entry, here)}", of_key=at[-1] == entry))
    teams: dict[str, Team] = {}
    if "teams" in config:
        teams = dict(_parse_each("teams", config, lambda at, raw: parse(Team, at, raw), problems))
    given = config.get("teams", {})
    all_teams = isinstance(given, Mapping) and len(given) == len(teams)
    problems += check_teams(teams, pools, clusters, all_read=all_read, all_teams=all_teams)
    production = _production(config, problems)
    return Stack(clusters, pools, production, destroyed, disrupted, limits, budget, teams=teams, steps=steps), problems


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
    same = (names.get(cloud_name, ()) for cloud_name in _names_in_cloud(name, pool))
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


def former_key_problems(at: Path, pool: PoolSpec) -> list[Problem]:
    """Return the former keys of a pool that are not valid keys."""
    fixes = {"renamed_from": "set the former key of the pool", "first_name": "set the key under which it was created"}
    return [
        Problem((*at, key), f"got {shown(given)}, which is not a valid key of a pool", fix)
        for key, fix in fixes.items()
        if (given := getattr(pool, key)) is not None and bad_key((), given) is not None
    ]


def clusters_of(pool: object) -> list[Any] | None:
    """Return the clusters of a pool that may be invalid; None if they cannot be read."""
    keys = pool.get("clusters") if isinstance(pool, Mapping) else None
    return keys if isinstance(keys, list) else None


def _named_by_pools(config: Mapping[str, object]) -> set[object]:
    lists = (clusters_of(pool) or () for pool in mapping(config.get("pools")).values())
    return {key for keys in lists for key in keys if isinstance(key, str)}


def _unknown_clusters(config: Mapping[str, object], known: Collection[object]) -> Iterator[Problem]:
    """Yield clusters of pools that are unknown or listed twice, also of pools that are invalid for another reason."""
    cures = 0
    for name, pool in mapping(config.get("pools")).items():
        keys = clusters_of(pool) or []
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
    problems.append(Problem(("production",), got(raw), "write true or false"))
    return False


def _pool_names(
    config: Mapping[str, object], key: str, problems: list[Problem], *, clusters_too: bool = False
) -> tuple[str, ...]:
    """Return the pools of a list, as `<cluster>/<pool>`, and the clusters if it may name some."""
    raw = config.get(key, [])
    if not isinstance(raw, list):
        problems.append(Problem((key,), got(raw), "write a list such as [<cluster>/<pool>, …]"))
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


def parse_cluster(at: Path, raw: object, clouds: Mapping[str, Cloud]) -> Cluster:
    """Return one cluster with the keys of its cloud.

    Raises:
        Rejected: All its problems.
    """
    if not isinstance(raw, Mapping):
        raise Rejected([Problem(at, f"got {shown(raw)}", "write a map with cloud, name and the keys of the cloud")])
    cloud = raw.get("cloud")
    if not isinstance(cloud, str) or cloud not in clouds:
        fix = nearest_cloud(cloud, clouds) if isinstance(cloud, str) else f"use one of {', '.join(sorted(clouds))}"
        wrong = Problem((*at, "cloud"), f"unknown cloud {shown(cloud)}", fix)
        raise Rejected([wrong if "cloud" in raw else absent(at, raw, "cloud", fix)])
    return parse(clouds[cloud].cluster, at, raw)


def parse_pool(at: Path, raw: object) -> PoolSpec:
    """Return one pool without clusters, the argument of a component.

    Raises:
        Rejected: All its problems.
    """
    pool = parse(PoolSpec, at, raw)
    if GROUP_LABEL in pool.labels:
        what = f"{GROUP_LABEL} is for the steps of a pool in a stack file"
        raise Rejected([Problem((*at, "labels", GROUP_LABEL), what, "leave it out, or use another key")])
    return pool


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
        and 0 < len(key) <= KEY_LIMIT
        and key.isascii()
        and key[0].isalpha()
        and not key.endswith("-")
        and all(character.islower() or character.isdigit() or character == "-" for character in key)
    )
    if good:
        return None
    fix = f"use 1 to {KEY_LIMIT} lower-case letters, digits and hyphens; start with a letter, do not end with a hyphen"
    return Problem((*at, key if isinstance(key, str) else shown(key)), "is not a valid key", fix)
