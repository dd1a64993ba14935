"""Plans the clusters and pools of a stack. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonDict, mapping
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.order import differences, groups_of
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import SERVED_BY, independent_problems, knows_its_place, plan_pool, unlisted_place
from gpupools.plan.prices import PoolPrice, PriceList, over_budget, pool_prices
from gpupools.plan.quotas import QuotaNeed, exceeded, quota_needs
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.planning import plan_runtime, plan_runtimes
from gpupools.software.scaling_order import CONFIG_MAP, has_order, orders
from gpupools.software.team_shares import scheduler_name
from gpupools.spec.cluster_access import ReachableCluster, missing_access
from gpupools.spec.identity import identity, place, same_apis
from gpupools.spec.models import Cluster, PoolSpec, StackPool
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
from gpupools.stackfile.stack_validation import Stack, clusters_of, parsed


class StackPlan(NamedTuple):
    """All decisions about one stack, which every command and the program use."""

    stack: Stack
    pools: tuple[PoolPlan, ...]
    """One plan per pool and cluster, by cluster and then pool, in the order of the file."""
    runtimes: tuple[RuntimePlan, ...]
    """Software plans of the clusters with pools, in the order of the file."""

    @property
    def groups(self) -> Mapping[str, Mapping[str, Sequence[PoolPlan]]]:
        """Cluster to its pools with several steps, in the order of the file: key to the plans of the steps."""
        return {key: groups_of(plan for plan in self.pools if plan.cluster == key) for key in self.stack.clusters}


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
        for problem in unlisted_place(spec, pool.cluster, cluster, pool.instance):
            known = "it is reserved" if knows_its_place(spec) and spec.adopt is None else "the pool exists"
            fix = f"accepted, because {known}; clusters.{pool.cluster}.places: trust hides this"
            yield replace(problem, path=plan.stack.steps.path(("pools", pool.name, *problem.path)), fix=fix)


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
        certain = (problem for problem in problems if not any(_is_about(problem.path, value.path) for value in misread))
        raise Rejected(dict.fromkeys([*misread, *certain]))
    return plan


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
    stack, problems = parsed(config, clouds)
    config = {**config, "pools": stack.steps.pools}
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
    problems += [problem for own in plans.values() for problem in _step_problems(own, stack)]
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
    used = [runtime.cluster for runtime in runtimes if runtime.needs_kubernetes]
    problems += same_apis({key: stack.clusters[key] for key in used})
    return StackPlan(stack, tuple(planned_pools), tuple(runtimes)), stack.steps.as_written(problems)


def _step_problems(pools: Iterable[PoolPlan], stack: Stack) -> Iterator[Problem]:
    """Yield the steps on one cluster that differ for pods, and those that are an earlier step under another name."""
    for steps in groups_of(pools).values():
        mixed = stack.pools[steps[0].name].mixed
        fix = "set mixed: true if any of them is enough" if not mixed else "write it as a pool of its own"
        for step, what in differences(steps, mixed=mixed):
            yield Problem(("pools", step.name, stack.steps.list_key(step.name)), what, fix)
        seen: dict[tuple[str, object, object], PoolPlan] = {}
        for step in steps if not stack.steps.problems else ():
            capacity = stack.pools[step.name].capacity
            first = seen.setdefault((step.instance.name, capacity.mode, getattr(capacity, "name", None)), step)
            if first is not step:
                what = f"is {step.instance.name} again, as an earlier step"
                yield Problem(("pools", step.name, stack.steps.list_key(step.name)), what, "list each step once")


def _partly_valid_pools(
    config: Mapping[str, object], stack: Stack, clouds: Mapping[str, Cloud], problems: Iterable[Problem]
) -> list[Problem]:
    """Return the problems of invalid pools, and of pools on invalid clusters, that do not depend on what is invalid."""
    pools, clusters = mapping(config.get("pools")), mapping(config.get("clusters"))
    invalid: dict[object, set[str]] = {name: set() for name in pools}
    for path in (problem.path for problem in problems if problem.path[0] == "pools" and problem.path[1:2]):
        # A conflict of keys is reported at the pool.
        invalid.get(path[1], set()).update(map(str, path[2:3] or ("gpu", "instance_type", "gpus_per_node")))
    partly_valid_pools: list[Problem] = []
    for name, raw in pools.items():
        unread = invalid[name] if name not in stack.pools else set()
        spec = stack.pools.get(name) or _without(raw, unread | {"clusters"})
        if unread - set(StackPool.model_fields):  # an unknown key may stand for one of these
            unread |= {"gpus_per_node", "sharing", "software", "trust", "image"}
        if spec is not None and not {"gpu", "instance_type"} & (set(raw) - unread):
            unread |= {"gpu", "instance_type"}
        if spec is None:
            continue
        is_judged = False
        for key in clusters_of(raw) or ():
            cluster, given = (stack.clusters.get(key), clusters.get(key)) if isinstance(key, str) else (None, None)
            cloud = clouds.get(str(given.get("cloud"))) if isinstance(given, Mapping) else None
            if cloud is not None and (cluster is None or name not in stack.pools):
                partly_valid_pools += independent_problems(name, spec, key, cluster, cloud, unread)
            is_judged |= cloud is not None
        if not is_judged:
            on_each = [[*independent_problems(name, spec, "", None, cloud, unread)] for cloud in clouds.values()]
            every = [problem for found in on_each[:1] for problem in found if all(problem in each for each in on_each)]
            partly_valid_pools += every
    return partly_valid_pools


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
    pools: set[str] = set()
    for name, pool in mapping(config.get("pools")).items():
        if name not in stack.pools:
            named = clusters_of(pool)
            pools.update(key for key in (stack.clusters if named is None else named) if isinstance(key, str))
    return pools


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


def adopted_pools(plan: StackPlan) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the imported pools of a stack: a tuple that identifies the pool, and its key.

    Pools of clusters with stack outputs are omitted, because no file tells which cluster it is.
    """
    for pool in plan.pools:
        adopted = pool.provider_plan.adopted
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
        for planned_object in runtime.objects:
            metadata = planned_object.manifest["metadata"]
            name, space = metadata["name"], metadata.get("namespace")
            yield (*where, planned_object.kind, space, name), f"{planned_object.kind} {name}", runtime.cluster


class ClusterOrder(NamedTuple):
    """The order of steps that a stack has for the autoscaler of one cluster."""

    cluster: str
    """The cluster's key in the stack file."""
    orders: list[list[str]]
    """Expressions of each pool with several steps, in their order."""
    others: list[list[str]]
    """Those of other stacks that it writes too."""
    is_declared: bool
    """Whether `pulumi up` writes them."""


def orders_in_clusters(plan: StackPlan, clouds: Mapping[str, Cloud]) -> Iterator[tuple[tuple[Any, ...], ClusterOrder]]:
    """Yield a tuple that identifies each cluster whose autoscaler reads one order of all stacks, with the stack's."""
    for runtime in plan.runtimes:
        cluster = plan.stack.clusters[runtime.cluster]
        where, theirs = identity(cluster), cluster.runtime.existing.cluster_autoscaler
        if where is not None and theirs is not None and runtime.order_objects:
            own = [pool for pool in plan.pools if pool.cluster == runtime.cluster]
            steps = orders(own, cluster, clouds[cluster.cloud].node_pools.order)
            is_declared = any(planned_object.name == f"order/{CONFIG_MAP}" for planned_object in runtime.objects)
            yield where, ClusterOrder(runtime.cluster, steps, theirs.other_orders, is_declared)


def _pool_on(stack: Stack, cluster: str, pool: str) -> PoolSpec:
    """Return a pool for one cluster, with its effective protection."""
    spec, protect = stack.pools[pool], stack.protects(cluster, pool)
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


_FACTS = {"existing", "kubernetes", "cpu_taints"}
"""Keys of `runtime` that say what the cluster has."""

_NO_OWNERS = {"cluster_autoscaler", "karpenter", "node_monitoring_agent"}
"""Existing software that makes no node offer GPUs."""


def _is_installed_by_team(cluster: Cluster, pools: Sequence[PoolPlan]) -> bool:
    """Return whether gpupools leaves the software of a cluster to the team: it has no API access and only facts.

    A first preview should not require a kubeconfig. Sharing that needs our software does require one.
    """
    return (
        isinstance(cluster, ReachableCluster)
        and not cluster.has_access
        and cluster.runtime.model_fields_set <= _FACTS
        and cluster.runtime.existing.named().keys() <= _NO_OWNERS
        and len({plan.software for plan in pools} & set(SERVED_BY)) == 1
        and not any(map(_is_shared_by_software, pools))
        and not has_order(cluster.runtime, pools)
    )


def _is_shared_by_software(plan: PoolPlan) -> bool:
    """Return whether the pool's sharing mode requires software in the cluster."""
    return plan.capability.verdict is Verdict.IN_CLUSTER and plan.sharing.kind != "none"


def _team_installed_plan(key: str, cluster: Cluster, cloud: Cloud, pools: Sequence[PoolPlan]) -> RuntimePlan:
    """Return the plan of a cluster without API access, whose device plugin the team installs."""
    brought = {SERVED_BY[pool.software] for pool in pools if pool.software in SERVED_BY}
    # What would be installed beside it, the team brings too.
    nodes = [cloud.node_runtime(pool.software, pool.provider_plan) for pool in pools]
    brought |= {chart.existing for node in nodes for chart in node.charts if chart.existing}
    types: Mapping[str, type[ExistingSoftware]] = {"dra_driver": ExistingDraDriver, "rdma_plugin": ExistingRdmaPlugin}
    named: JsonDict = dict(cluster.runtime.existing.named())
    named |= {piece: types.get(piece, ExistingSoftware).model_construct(name="yours") for piece in sorted(brought)}
    if any(pool.compute_domains for pool in pools):
        serves = "both" if "dra_driver" in named else "compute-domains"
        named["dra_driver"] = ExistingDraDriver.model_construct(name="yours", serves=serves)
        brought.add("dra_driver")
    # Without validation, which would build the models.
    existing = Existing.model_construct(**named)
    spec = RuntimeSpec.model_construct(management="external", existing=existing, kubernetes=cluster.runtime.kubernetes)
    runtime = plan_runtime(key, cluster, cloud, pools, spec)
    software, names = " and ".join(sorted(brought)).replace("_", " "), ", ".join(pool.name for pool in pools)
    what = f"no pool of the cluster offers GPUs ({names}): nothing is installed in it, and no {software} is named"
    if any(pool.provider_plan.requires_gpu_resource() and pool.min_nodes < pool.max_nodes for pool in pools):
        # kubernetes/autoscaler cluster-autoscaler/processors/customresources/gpu_processor.go, and issue 10301
        what += f", and {cloud.service}'s autoscaler stops scaling while their nodes are not ready"
    keys = ", ".join(f"{piece}: <namespace>/<name>" for piece in sorted(brought))
    fix = f"add kubeconfig: {{path: …}}, or runtime: {{management: external, existing: {{{keys}}}}} for what runs there"
    warning = Problem(("clusters", key), what, fix)
    return runtime._replace(notes=(*runtime.notes, str(warning)), warnings=(warning, *runtime.warnings))


def _installed(runtime: RuntimePlan) -> list[str]:
    """Return the names of the charts to install, or of the objects if there are no charts."""
    charts = [f"chart {release.chart}" for release in runtime.releases]
    return charts or [f"{each.kind} {each.manifest['metadata']['name']}" for each in runtime.objects]
