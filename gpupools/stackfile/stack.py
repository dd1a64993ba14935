"""From the configuration of one environment to checked clusters and pools, and on to their plans. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import SERVED_BY, plan_pool
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.planning import plan_runtime, plan_runtimes
from gpupools.spec.cluster_access import ReachableCluster, missing_access
from gpupools.spec.identity import ambiguous_names, place, same_apis, same_clusters
from gpupools.spec.models import Cluster, Late, PoolSpec, StackPool
from gpupools.spec.overrides import idle_overrides
from gpupools.spec.software_spec import Existing, RuntimeSpec
from gpupools.stackfile.parsing import parse
from gpupools.stackfile.provider_settings import idle_settings

KEYS = ("clusters", "pools", "production", "allow_destroy")
"""The keys of the namespace `gpupools:` in a stack file."""

MOST_CLUSTERS = 250
"""Clusters of a stack, each of which is compared with every other; EKS lets a region have 100."""

_MOST_CURES = 100
"""Problems for which the nearest name is looked for, which takes long among many names."""

# A key becomes part of resource names and of the pool's name in the cloud; 20 keeps the two together below 63.
_KEY_LIMIT = 20


class Stack(NamedTuple):
    """The checked configuration of one environment."""

    clusters: Mapping[str, Cluster]
    pools: Mapping[str, StackPool]
    production: bool = False
    """Whether every pool is a production pool that does not say `protect: false`."""
    allow_destroy: tuple[str, ...] = ()
    """What an update may replace or delete, and so is declared without protection: pools as `<cluster>/<pool>`, and
    clusters for the software that their pools share."""

    def is_production(self, pool: str) -> bool:
        """Say whether a pool is protected as soon as `allow_destroy` does not name it."""
        return self.pools[pool].protect or (self.production and not self.is_exempt(pool))

    def is_exempt(self, pool: str) -> bool:
        """Say whether a pool says `protect: false`, and so is no production pool in a production stack either."""
        spec = self.pools[pool]
        return "protect" in spec.model_fields_set and not spec.protect

    def protects(self, cluster: str, pool: str) -> bool:
        """Say whether a pool is declared so that Pulumi refuses to replace or delete it."""
        return self.is_production(pool) and f"{cluster}/{pool}" not in self.allow_destroy


def parse_stack(config: Mapping[str, object], clouds: Mapping[str, Cloud]) -> Stack:
    """Check the values of the keys `gpupools:clusters`, `pools`, `production` and `allow_destroy`.

    Args:
        config: Plain data by key without the namespace; values known only while the program runs are `LATE`.
        clouds: The clouds by name.

    Raises:
        Rejected: Everything that is wrong.
    """
    stack, problems = _parsed(config, clouds)
    if problems:
        raise Rejected(problems)
    return stack


class StackPlan(NamedTuple):
    """Everything that is decided about one environment: all that reads or declares it goes by this."""

    stack: Stack
    pools: tuple[PoolPlan, ...]
    """Every pool on every cluster it goes to, by cluster and then pool, in the order of the file."""
    runtimes: tuple[RuntimePlan, ...]
    """What every cluster with pools needs in Kubernetes, in the order of the file."""


def plan_config(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
    others: Iterable[str] = (),
    also: Callable[[Mapping[str, Cluster]], Iterable[Problem]] = lambda clusters: (),
    misread: Sequence[Problem] = (),
) -> StackPlan:
    """Check a configuration and plan every pool in it, and what its clusters need.

    Args:
        config: As for `parse_stack`.
        clouds: The clouds by name.
        others: The whole keys of all other namespaces in the stack's configuration.
        also: Says what else is wrong with the clusters that can be read.
        misread: Which values cannot be judged, since they are not what is written.

    Raises:
        Rejected: Everything that is wrong, those values too, and nothing that only comes of something else that is.
    """
    given = _Given(config, clouds, tuple(others))
    known = _PLANNED.get()
    if known is not None and known[0].is_like(given) and not [*also(known[1].stack.clusters)]:
        return known[1]
    plan, problems = _judged(config, clouds, also)
    problems += idle_settings(given.others, clouds)
    if problems or misread:
        certain = (each for each in problems if not any(_is_about(each.path, value.path) for value in misread))
        raise Rejected(dict.fromkeys([*misread, *certain]))
    return plan


def _is_about(problem: Path, value: Path) -> bool:
    """Say whether what is said of one place may come from the value of another: it is that, above it or below it."""
    shorter = min(len(problem), len(value))
    return problem[:shorter] == value[:shorter]


def _judged(
    config: Mapping[str, object],
    clouds: Mapping[str, Cloud],
    also: Callable[[Mapping[str, Cluster]], Iterable[Problem]],
) -> tuple[StackPlan, list[Problem]]:
    """Return the plan of everything that can be read, and what is wrong with the configuration."""
    stack, problems = _parsed(config, clouds)
    problems += also(stack.clusters)
    plans: dict[str, list[PoolPlan]] = {key: [] for key in stack.clusters}
    whole = set(stack.clusters) - _with_unread_pools(config, stack)
    for key, cluster in stack.clusters.items():
        for name, pool in stack.pools.items():
            if key in pool.clusters:
                try:
                    plans[key].append(plan_pool(name, _asked(stack, key, name), key, cluster, clouds[cluster.cloud]))
                except Rejected as rejected:
                    problems += rejected.problems
                    whole.discard(key)
    runtimes: list[RuntimePlan] = []
    for key in stack.clusters:
        if key in whole:
            try:
                runtimes += _software_of(key, stack.clusters[key], plans[key], clouds)
            except Rejected as rejected:
                problems += rejected.problems
    used = [each.cluster for each in runtimes if each.needs_kubernetes]
    problems += same_apis({key: stack.clusters[key] for key in used})
    return StackPlan(stack, tuple(plan for own in plans.values() for plan in own), tuple(runtimes)), problems


def _with_unread_pools(config: Mapping[str, object], stack: Stack) -> set[str]:
    """Return the clusters that pools go to, or may go to, of which not all can be read."""
    raw = config.get("pools")
    found: set[str] = set()
    for name, pool in raw.items() if isinstance(raw, Mapping) else ():
        if name not in stack.pools:
            named = pool.get("clusters") if isinstance(pool, Mapping) else None
            found.update(
                each for each in (named if isinstance(named, list) else stack.clusters) if isinstance(each, str)
            )
    return found


class _Given(NamedTuple):
    """What a plan of an environment is made of."""

    config: Mapping[str, object]
    clouds: Mapping[str, Cloud]
    others: tuple[str, ...]

    def is_like(self, other: "_Given") -> bool:
        """Say whether another's plan cannot but be the same."""
        return (
            self.clouds is other.clouds
            and sorted(self.others) == sorted(other.others)
            and _alike(self.config, other.config)
        )


def _alike(one: object, other: object) -> bool:
    """Say whether two values are equal, of the same types, and in the same order: pools are planned in the file's."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(_alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and one == other


_PLANNED: ContextVar[tuple[_Given, StackPlan] | None] = ContextVar("planned", default=None)


@contextmanager
def planned(
    plan: StackPlan, config: Mapping[str, object], clouds: Mapping[str, Cloud], others: Iterable[str] = ()
) -> Iterator[None]:
    """Let `plan_config` answer with a plan that has been made, when it is asked for the same again.

    An offline preview checks the file, and then runs a program that has the configuration of its own to read.

    Args:
        plan: What `plan_config` made of the rest.
        config: As for `plan_config`; so are the others.
        clouds: The clouds by name.
        others: The whole keys of all other namespaces.
    """
    before = _PLANNED.set((_Given(config, clouds, tuple(others)), plan))
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
    # Of clusters that nobody can read none is known not to be there.
    known = set(named) if isinstance(named, Mapping) and named else _named_by_pools(config)
    problems += _unknown_clusters(config, pools, known)
    names = _Names({}, {}, {})
    for name, pool in pools.items():
        seen: set[str] = set()
        for index, key in enumerate(pool.clusters):
            at: Path = ("pools", name, "clusters", index)
            if key not in known:
                close = nearest(key, map(str, known)) if len(problems) < _MOST_CURES else "name a key of clusters"
                problems.append(Problem(at, f"no cluster is called {shown(key)}", close))
            elif key in seen:
                problems.append(Problem(at, f"{key!r} is named twice", "name each cluster once"))
            seen.add(key)
        if seen <= set(clusters):  # of a cluster that is itself wrong the cloud is not known
            used = {clusters[key].cloud for key in seen}
            problems += idle_overrides(("pools", name), pool.overrides, clouds, used)
        problems += _former_names(name, pool, pools, names)
        problems += _adopted_twice(name, pool, pools)
        names.add(name, pool)
    for key in {key: None for pool in pools.values() if pool.adopt is None for key in pool.clusters}:
        if key in clusters:
            problems += clusters[key].not_for_new_pools(("clusters", key))
    if len(known) > MOST_CLUSTERS:
        what = f"holds {len(known)} clusters, more than {MOST_CLUSTERS}"
        problems.append(Problem(("clusters",), what, "split the environment into several stacks"))
    else:
        problems += same_clusters(clusters)
    problems += ambiguous_names(pools)
    return Stack(clusters, pools, _production(config, problems), _allow_destroy(config, problems)), problems


class _Names(NamedTuple):
    """Pools by a cluster they go to and a name they had, or have in the cloud."""

    places: dict[str, int]
    renamed_from: dict[tuple[str, str], list[str]]
    named_after: dict[tuple[str, str], list[str]]

    def add(self, name: str, pool: StackPool) -> None:
        self.places[name] = len(self.places)
        for cluster in dict.fromkeys(pool.clusters):
            self.named_after.setdefault((cluster, pool.named_after(name)), []).append(name)
            if pool.renamed_from is not None:
                self.renamed_from.setdefault((cluster, pool.renamed_from), []).append(name)

    def alike(self, name: str, pool: StackPool, pools: Mapping[str, StackPool]) -> list[str]:
        """Return, of the pools added that share a cluster and such a name with another, the first of each cluster."""
        found: set[str] = set()
        for cluster in pool.clusters:
            if pool.renamed_from is not None:
                found.update(self.renamed_from.get((cluster, pool.renamed_from), ())[:1])
            called = self.named_after.get((cluster, pool.named_after(name)), ())
            found.update(islice((each for each in called if pools[each].renamed_from != name), 1))
        return sorted(found, key=self.places.__getitem__)


def _former_names(name: str, pool: StackPool, pools: Mapping[str, StackPool], names: _Names) -> Iterator[Problem]:
    """Say which names of its past a pool cannot have: two pools of a cluster would be found, or called, by one name."""
    at: Path = ("pools", name)
    wrong = never_a_key(at, pool)
    yield from wrong
    former = pool.renamed_from
    if wrong:
        return
    if former == name:
        yield Problem((*at, "renamed_from"), "a pool is not its own former name", "name the key the pool had before")
        return
    if former is not None and former in pools and set(pools[former].clusters) & set(pool.clusters):
        fix = f"name the key the pool had before; after the update that renamed it write first_name: {former} instead"
        yield Problem((*at, "renamed_from"), f"{former!r} is still a pool of its cluster", fix)
        return
    for key in names.alike(name, pool, pools):
        other = pools[key]
        if former is not None and other.renamed_from == former:
            what = f"{key!r} was renamed from {former!r} as well, and the pool of that name becomes one of them"
            yield Problem((*at, "renamed_from"), what, "leave it out of one of the two, which is then a new pool")
        else:
            newer, older = (name, key) if pool.named_after(name) == name else (key, name)
            what = f"{newer!r} and {older!r} are both called {pool.named_after(name)} in the cloud"
            yield Problem(("pools", newer, "first_name"), what, "write a name that no pool of the cluster had")


def _adopted_twice(name: str, pool: StackPool, pools: Mapping[str, StackPool]) -> Iterator[Problem]:
    """Refuse to make several pools of one that runs: on several clusters, or under several keys.

    Args:
        name: The pool's key.
        pool: What it asks for.
        pools: All pools that are read, in the order of the file.
    """
    if pool.adopt is None:
        return
    at: Path = ("pools", name)
    if len(set(pool.clusters)) > 1:
        what = f"{pool.adopt.name} is a pool of one cluster, and {len(set(pool.clusters))} are named"
        yield Problem((*at, "clusters"), what, "name the cluster it is in; another pool needs a key of its own")
    for key, other in pools.items():
        if key == name:
            return
        if other.adopt is not None and other.adopt.name == pool.adopt.name and set(other.clusters) & set(pool.clusters):
            what = f"{key!r} is that pool already"
            yield Problem((*at, "adopt", "name"), what, "leave one of the two out")


def adopted_pools(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the pools of a stack that were made by other means: what tells one from every other, and its key here.

    One of a cluster that an output names is left out: no file tells whether it is the same.
    """
    for pool in plan.pools:
        adopted = pool.provider_plan.adopted_pool()
        where = tuple(sorted(place(plan.stack.clusters[pool.cluster]).items()))
        if adopted is not None and all(isinstance(value, str) for _, value in where):
            yield (*where, adopted.name), f"{pool.cluster}/{pool.name}"


def pools_in_clusters(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the pools of a stack: what tells cluster and pool from every other, and the pool's key here.

    One of a cluster of which the file does not say everything is left out, as with `adopted_pools`.
    """
    for pool in plan.pools:
        where = tuple(sorted(place(plan.stack.clusters[pool.cluster]).items()))
        if all(isinstance(value, str) for _, value in where):
            yield (*where, pool.name), f"{pool.cluster}/{pool.name}"


def never_a_key(at: Path, pool: PoolSpec) -> list[Problem]:
    """Say which names of a pool's past cannot have been the key of one."""
    cures = {"renamed_from": "name the key the pool had before", "first_name": "name the key the pool was made under"}
    return [
        Problem((*at, key), f"got {shown(given)}, which was never the key of a pool", cure)
        for key, cure in cures.items()
        if (given := getattr(pool, key)) is not None and bad_key((), given) is not None
    ]


def _named_by_pools(config: Mapping[str, object]) -> set[object]:
    raw = config.get("pools")
    lists = (
        [pool.get("clusters") for pool in raw.values() if isinstance(pool, Mapping)] if isinstance(raw, Mapping) else []
    )
    return {key for keys in lists if isinstance(keys, list) for key in keys if isinstance(key, str)}


def _unknown_clusters(
    config: Mapping[str, object], read: Mapping[str, StackPool], known: Collection[object]
) -> Iterator[Problem]:
    """Say which clusters do not exist that pools name which are not read for another reason."""
    raw = config.get("pools")
    cures = 0
    for name, pool in raw.items() if isinstance(raw, Mapping) else ():
        keys = pool.get("clusters") if isinstance(pool, Mapping) and name not in read else None
        for index, key in enumerate(keys if isinstance(keys, list) else ()):
            if isinstance(key, str) and key not in known:
                what = f"no cluster is called {shown(key)}"
                cures += 1
                close = nearest(key, map(str, known)) if cures < _MOST_CURES else "name a key of clusters"
                yield Problem(("pools", name, "clusters", index), what, close)


def _production(config: Mapping[str, object], problems: list[Problem]) -> bool:
    raw = config.get("production", False)
    # `pulumi config set` writes text, and a program is handed the same for text and truth value.
    value = {"true": True, "false": False}.get(raw) if isinstance(raw, str) else raw
    if isinstance(value, bool):
        return value
    what = "is a secret" if isinstance(raw, Late) else f"got {shown(raw)}"
    problems.append(Problem(("production",), what, "write true or false"))
    return False


def _allow_destroy(config: Mapping[str, object], problems: list[Problem]) -> tuple[str, ...]:
    raw = config.get("allow_destroy", [])
    if not isinstance(raw, list):
        what = "is a secret" if isinstance(raw, Late) else f"got {shown(raw)}"
        problems.append(Problem(("allow_destroy",), what, "write a list of pools: [<cluster>/<pool>, …]"))
        return ()
    found: dict[str, None] = {}
    for index, name in enumerate(raw):
        parts = name.split("/") if isinstance(name, str) else []
        if len(parts) not in (1, 2) or any(bad_key((), part) for part in parts):
            fix = "write <cluster>/<pool>, or <cluster> for the software of a cluster"
            problems.append(Problem(("allow_destroy", index), f"got {shown(name)}", fix))
        elif name in found:
            problems.append(Problem(("allow_destroy", index), f"{name!r} is named twice", "name each pool once"))
        else:
            found[name] = None
    return tuple(found)


def plan_stack(stack: Stack, clouds: Mapping[str, Cloud]) -> tuple[PoolPlan, ...]:
    """Plan every pool on every cluster it goes to, by cluster and then pool, in the order of the file.

    Raises:
        Rejected: Every reason against every pool; the same reason for two clusters of a cloud only once.
    """
    plans: list[PoolPlan] = []
    problems: dict[Problem, None] = {}
    for key, cluster in stack.clusters.items():
        for name, pool in stack.pools.items():
            if key in pool.clusters:
                try:
                    plans.append(plan_pool(name, _asked(stack, key, name), key, cluster, clouds[cluster.cloud]))
                except Rejected as rejected:
                    problems |= dict.fromkeys(rejected.problems)
    if problems:
        raise Rejected(problems)
    return tuple(plans)


def _asked(stack: Stack, cluster: str, pool: str) -> PoolSpec:
    """Return what is asked of one cluster, with the protection the stack gives the pool there."""
    spec, protect = stack.pools[pool].pool(), stack.protects(cluster, pool)
    return spec if spec.protect == protect else spec.model_copy(update={"protect": protect})


def plan_software(stack: Stack, pools: Iterable[PoolPlan], clouds: Mapping[str, Cloud]) -> tuple[RuntimePlan, ...]:
    """Plan what every cluster with pools needs in Kubernetes, in the order of the file.

    Args:
        stack: The checked configuration.
        pools: The plans of all its pools.
        clouds: The clouds by name.

    Raises:
        Rejected: Every reason, and every cluster that needs something but does not say how its API is reached.
    """
    plans = tuple(pools)
    found: list[RuntimePlan] = []
    problems: list[Problem] = []
    for key, cluster in stack.clusters.items():
        try:
            found += _software_of(key, cluster, [plan for plan in plans if plan.cluster == key], clouds)
        except Rejected as rejected:
            problems += rejected.problems
    if problems:
        raise Rejected(problems)
    return tuple(found)


def _software_of(
    key: str, cluster: Cluster, own: Sequence[PoolPlan], clouds: Mapping[str, Cloud]
) -> Sequence[RuntimePlan]:
    """Plan what one cluster with these pools needs in Kubernetes."""
    if _is_left_to_the_team(cluster, own):
        return [_left_to_the_team(key, cluster, clouds[cluster.cloud], own)]
    here = plan_runtimes({key: cluster}, own, clouds)
    problems = [problem for runtime in here for problem in missing_access(key, cluster, _installed(runtime))]
    if problems:
        raise Rejected(problems)
    return here


def _is_left_to_the_team(cluster: Cluster, pools: Sequence[PoolPlan]) -> bool:
    """Say whether the software of a cluster is not ours to install: nobody gave its API, or said a word about it.

    A first preview should not need a kubeconfig; sharing that rests on our software does, and is refused without.
    """
    return (
        isinstance(cluster, ReachableCluster)
        and not cluster.has_access
        and "runtime" not in cluster.model_fields_set
        and len({plan.software for plan in pools} & set(SERVED_BY)) == 1
        and not any(map(_shared_by_software, pools))
    )


def _shared_by_software(plan: PoolPlan) -> bool:
    """Say whether the pool's way of sharing exists only through software in the cluster."""
    return plan.capability.verdict is Verdict.IN_CLUSTER and plan.sharing_kind != "none"


def _left_to_the_team(key: str, cluster: Cluster, cloud: Cloud, pools: Sequence[PoolPlan]) -> RuntimePlan:
    """Plan a cluster whose API nobody gave: its pools are right as they are, and the team brings the device plugin."""
    brought = {SERVED_BY[pool.software] for pool in pools if pool.software in SERVED_BY}
    # What would be installed beside it, the team brings too.
    nodes = [cloud.node_runtime(pool.software, pool.provider_plan) for pool in pools]
    brought |= {chart.existing for node in nodes for chart in node.charts if chart.existing}
    named: JsonDict = dict.fromkeys(sorted(brought), "yours")
    if any(pool.compute_domains for pool in pools):
        named["dra_driver"] = {"name": "yours", "serves": "both" if "dra_driver" in named else "compute-domains"}
        brought.add("dra_driver")
    existing = Existing(**named)
    runtime = plan_runtime(key, cluster, cloud, pools, RuntimeSpec(management="external", existing=existing))
    software = " and ".join(sorted(brought)).replace("_", " ")
    note = (
        f"nothing is installed in {key}: its pools offer GPUs once a {software} of yours runs there, or give its access"
    )
    return runtime._replace(notes=(*runtime.notes, note))


def _installed(runtime: RuntimePlan) -> list[str]:
    """Name what would be installed: the charts, or where there are none the objects."""
    charts = [f"chart {release.chart}" for release in runtime.releases]
    return charts or [f"{each.kind} {each.manifest['metadata']['name']}" for each in runtime.objects]


def parse_cluster(at: Path, raw: object, clouds: Mapping[str, Cloud]) -> Cluster:
    """Check one cluster with the keys of its cloud.

    Raises:
        Rejected: Everything that is wrong with it.
    """
    if not isinstance(raw, Mapping):
        raise Rejected([Problem(at, f"got {shown(raw)}", "a cluster is a map with cloud, name and where it is")])
    cloud = raw.get("cloud")
    if not isinstance(cloud, str) or cloud not in clouds:
        what = f"no cloud is called {shown(cloud)}" if "cloud" in raw else "is missing"
        fix = nearest_cloud(cloud, clouds) if isinstance(cloud, str) else f"use one of {', '.join(sorted(clouds))}"
        raise Rejected([Problem((*at, "cloud"), what, fix)])
    RuntimeSpec.model_rebuild()  # once; else pydantic builds it again inside the model of each cloud's cluster
    return parse(clouds[cloud].cluster, at, raw)


def parse_pool(at: Path, raw: object) -> PoolSpec:
    """Check one pool that names no clusters: what a component takes.

    Raises:
        Rejected: Everything that is wrong with it.
    """
    return parse(PoolSpec, at, raw)


def _parse_each(
    section: str, config: Mapping[str, object], parse: Any, problems: list[Problem]
) -> Iterator[tuple[str, Any]]:
    raw = config.get(section)
    if section not in config and _is_misspelt(section, config):
        return  # which is said of what stands in its place
    if isinstance(raw, Late):
        problems.append(Problem((section,), "is a secret", "only addresses inside a cluster may be secret"))
    elif not isinstance(raw, Mapping) or not raw:
        # A text may be the whole map in a form nobody reads, passwords included.
        what = (
            "is a text" if isinstance(raw, str) and raw else f"got {shown(raw)}" if section in config else "is missing"
        )
        problems.append(Problem((section,), what, f"give gpupools:{section} a map of name to settings"))
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
    # As in a file that Pulumi writes for one value: `config: {gpupools: {pools: …}}`.
    return "write gpupools:clusters and gpupools:pools under config:" if key == "gpupools" else nearest(key, KEYS)


def _is_misspelt(section: str, config: Mapping[str, object]) -> bool:
    from gpupools.catalog.key_synonyms import meant  # only on the way to an error

    found = [meant(key, KEYS) for key in config if key not in KEYS]
    return section in found


def bad_key(at: Path, key: object) -> Problem | None:
    """Return what is wrong with a cluster's or pool's key, if anything is: it becomes part of resource names."""
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
    fix = f"use 1 to {_KEY_LIMIT} lower-case letters, digits and hyphens, a letter first and no hyphen last"
    return Problem((*at, key if isinstance(key, str) else shown(key)), "cannot be part of a resource name", fix)
