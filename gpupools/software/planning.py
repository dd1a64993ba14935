"""The decision about a cluster's GPU software: one owner for each piece on each node, or every reason why not. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_resources import KAI_NAMESPACES
from gpupools.plan.order import group_plans
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import ContainerImage, Piece, PoolOwners, RuntimePlan
from gpupools.software import kai, kueue, objects
from gpupools.software.charts import at
from gpupools.software.constraints import (
    check_helpers,
    check_reach,
    note,
    quotas_below_a_node,
    quotas_that_meet,
    refuse_settings_without_effect,
    refuse_what_moves_nothing,
)
from gpupools.software.draft import Draft
from gpupools.software.images import moved
from gpupools.software.owners import claims, needed_pieces, settle
from gpupools.software.queues import pod_policy
from gpupools.software.releases import (
    SCHEDULERS,
    dcgm_exporter,
    device_plugin,
    dra_driver,
    first_pools,
    gpu_operator,
    hami,
    node_charts,
    scheduler,
)
from gpupools.software.scaling_order import plan_order
from gpupools.software.spare import SPARE_NAMESPACE, spare_nodes
from gpupools.spec.models import Cluster
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.spec.teams import Team

_PODS_PER_NODE = {"gpu-operator": 10, "nvidia-device-plugin": 3, "dcgm-exporter": 1, "dra-driver-nvidia-gpu": 1}
"""Most DaemonSets of a chart on one node."""


def plan_runtime(
    cluster_key: str,
    cluster: Cluster,
    cloud: Cloud,
    pools: Iterable[PoolPlan],
    left_to: RuntimeSpec | None = None,
    teams: Mapping[str, Team] = MappingProxyType({}),
) -> RuntimePlan:
    """Decide what a cluster needs in Kubernetes so that all its pools offer their GPUs.

    `left_to` says who brings the software where nothing can be installed, since nobody gave the cluster's API. What
    would be installed is judged all the same: pools that it cannot serve are made once, and served later.

    Raises:
        Rejected: Every reason: pieces with two owners or none (both owners and the field to change are named), choices
            that cannot be kept apart in one cluster, values or versions a chart does not take.
    """
    own = tuple(pools)
    nodes = {pool.name: cloud.node_runtime(pool.software, pool.provider_plan) for pool in own}
    draft = Draft(cluster_key, cloud, cloud.own_registry(cluster), cluster.runtime, own, nodes)
    for pool in own:
        draft.depends[f"pool/{pool.name}"] = set()
        if nodes[pool.name].refused:
            what, _, fix = nodes[pool.name].refused.partition("; ")
            draft.problems.append(Problem(("pools", pool.name, "software"), what, fix, nodes[pool.name].source))
    refuse_settings_without_effect(draft)
    hami(draft)
    if draft.spec.management == "managed":
        gpu_operator(draft)
        device_plugin(draft)
        dra_driver(draft)
        dcgm_exporter(draft)
        node_charts(draft)
        _installer(draft)
        _startup_gate(draft)
        _extras(draft)
    spare_nodes(draft)
    scheduler(draft, teams)
    plan_order(draft, cluster)
    if draft.spec.trust_policy:
        _trust_policies(draft, teams)
    if draft.spec.management == "managed":
        refuse_what_moves_nothing(draft)
    if left_to is not None:
        draft = _left(draft, left_to)
    table = _owner_table(draft)
    check_reach(draft)
    measured = {row.pool for row in table if Piece.DCGM_EXPORTER in row.owners}
    check_helpers(draft, measured)
    note(draft, measured, teams)
    if draft.problems:
        raise Rejected(dict.fromkeys(draft.problems))
    metadata = SCHEDULERS[draft.spec.scheduler].pod_metadata(draft) if draft.spec.scheduler else {}
    return RuntimePlan(
        cluster=cluster_key,
        cloud=cloud.name,
        owners=table,
        releases=tuple(draft.releases),
        objects=tuple(draft.objects),
        pods={pool.name: pool.pod() for pool in own},
        pod_metadata=metadata,
        claim_templates={pool.name: pool.claim_template for pool in own if pool.claim_template},
        node_pods={pool.name: pool.node_pod for pool in own if pool.node_pod},
        namespace_objects={pool.name: pool.namespace_objects for pool in own if pool.namespace_objects},
        groups={whole.name: _pod_parts(draft, whole, steps, metadata) for whole, steps in group_plans(own)},
        depends=_in_order(draft.depends),
        images=tuple(draft.images),
        order_objects=tuple(order_object.manifest for order_object in draft.order_objects),
        team_objects=tuple(team_object.manifest for team_object in draft.team_objects),
        notes=(*(str(warning) for warning in draft.warnings), *draft.notes),
        warnings=tuple(draft.warnings),
    )


def _pod_parts(
    draft: Draft, whole: PoolPlan, steps: Sequence[PoolPlan], metadata: Mapping[str, JsonObject]
) -> JsonDict:
    """Return what pods need that use any step of a pool; metadata only where that of all steps is the same."""
    chosen = kueue.only_on(steps) if draft.spec.scheduler == "kueue" else {}
    node_pod = {**whole.node_pod, **chosen} if whole.node_pod else {}
    parts: JsonDict = {"pod": {**whole.pod(), **chosen}, "claim_template": whole.claim_template, "node_pod": node_pod}
    parts |= {"namespace_objects": list(whole.namespace_objects)}
    own = [metadata.get(step.name, {}) for step in steps]
    parts |= {"pod_metadata": own[0] if all(step_metadata == own[0] for step_metadata in own) else {}}
    return {key: part for key, part in parts.items() if part}


def _left(draft: Draft, spec: RuntimeSpec) -> Draft:
    """Return a draft that installs nothing, with what speaks against all that would have been installed."""
    check_reach(draft)
    steps: dict[str, set[str]] = {f"pool/{pool.name}": set() for pool in draft.pools}
    left = replace(draft, spec=spec, releases=[], objects=[], images=[], depends=steps, notes=[], warnings=[])
    refuse_settings_without_effect(left)
    return left


def plan_runtimes(
    clusters: Mapping[str, Cluster],
    pools: Iterable[PoolPlan],
    clouds: Mapping[str, Cloud],
    teams: Mapping[str, Team] = MappingProxyType({}),
) -> tuple[RuntimePlan, ...]:
    """Plan the GPU software of every cluster that has pools; raise `Rejected` with every reason of every cluster."""
    plans = tuple(pools)
    runtime_plans: list[RuntimePlan] = []
    problems: list[Problem] = []
    for key, cluster in clusters.items():
        own = [pool for pool in plans if pool.cluster == key]
        if own:
            try:
                runtime_plans.append(plan_runtime(key, cluster, clouds[cluster.cloud], own, teams=teams))
            except Rejected as rejected:
                problems += rejected.problems
    if problems:
        raise Rejected(problems)
    return tuple(runtime_plans)


def _installer(draft: Draft) -> None:
    installers = {pool.name: draft.nodes[pool.name].driver_installer for pool in draft.pools}
    for installer in dict.fromkeys(candidate for candidate in installers.values() if candidate is not None):
        pools = tuple(pool for pool in draft.pools if installers[pool.name] == installer)
        declared, images = moved(installer.declare(pools), draft.pulls, installer.owner)
        draft.images += images
        step = draft.add(declared, *first_pools(pools))
        for release in draft.releases:
            if set(release.pools) & {pool.name for pool in pools}:
                draft.depends[release.name].add(step)


def _startup_gate(draft: Draft) -> None:
    """Declare what removes the start-up taint, if a pool has it."""
    gated = [pool for pool in draft.pools if pool.startup_taint is not None]
    if not gated:
        return
    taints, image = draft.spec.cpu_taints, objects.GATE_IMAGE
    tolerations = [{"key": taint.key, "operator": "Exists", "effect": taint.effect.value} for taint in taints]
    draft.images.append(ContainerImage(image, draft.pulls.reference(image), "start-up taint"))
    space, *rest = objects.startup_gate(gated, tolerations, draft.pulls)
    draft.add(space)
    steps = [draft.add(planned_object, space.name) for planned_object in rest]
    draft.depends[steps[-1]].update(steps[:-1])


def _extras(draft: Draft) -> None:
    spec = draft.spec
    why_quota = next((node.critical_pods_quota for node in draft.nodes.values() if node.critical_pods_quota), "")
    if why_quota:
        for release in draft.releases:
            nodes = sum(pool.max_nodes for pool in draft.pools if pool.name in release.pools)
            pods = spec.critical_pods or max(100, _PODS_PER_NODE[release.chart] * nodes + 20)
            quota = objects.critical_pods_quota(release.namespace, pods, why_quota)
            draft.depends[release.name].add(draft.add(quota, f"namespace/{release.namespace}"))
    if spec.smoke_test:
        _refuse_unreachable_smoke_tests(draft)
        draft.images.append(
            ContainerImage(objects.SMOKE_IMAGE, draft.pulls.reference(objects.SMOKE_IMAGE), "smoke tests")
        )
        space = draft.add(objects.smoke_namespace(draft.pools))
        for pool in draft.pools:
            serving = [release.name for release in draft.releases if pool.name in release.pools]
            claims_by = [draft.add(claim, space) for claim in objects.smoke_claims(pool)]
            draft.add(objects.smoke_test(pool, draft.pulls), space, f"pool/{pool.name}", *serving, *claims_by)
    for trust_quota in objects.trust_quotas(draft.pools):
        draft.add(trust_quota)
    _network_policies(draft)
    draft.warnings += [*quotas_that_meet(draft.pools), *quotas_below_a_node(draft.pools)]


def _trust_policies(draft: Draft, teams: Mapping[str, Team]) -> None:
    """Declare what keeps pods off the pools of others: those that set trust, and those that teams share."""
    spec = draft.spec
    own = {*(release.namespace for release in draft.releases), *((objects.SMOKE_NAMESPACE,) * spec.smoke_test)}
    own |= {SPARE_NAMESPACE for pool in draft.pools if pool.spare}
    own |= {software.namespace for software in spec.existing.named().values() if software.namespace}
    own |= set(objects.CALICO_NAMESPACES) if spec.calico else set()
    own |= set(KAI_NAMESPACES) if kai.fractional(draft) else set()
    _refuse_fences_around_their_own(draft)
    guards = objects.trust_objects(draft.pools, own, spec.system_namespaces)
    shared = pod_policy(draft.shares, teams, {*own, *objects.SYSTEM_NAMESPACES, *(spec.system_namespaces or ())})
    for planned_object in (*guards, *shared):
        policy = planned_object.name.removesuffix("/binding")
        draft.add(planned_object, *((policy,) if policy != planned_object.name else ()))
        for pool in draft.pools:
            mark = pool.trust.mark(pool.name) if pool.trust is not None else None
            if mark is not None and policy in (f"trust/{mark}", f"trust/{mark}/nodes"):
                # Guarded before the first pod can land there.
                draft.depends[f"pool/{pool.name}"].add(planned_object.name)
    if not guards and not shared and not draft.problems:
        fix = "set trust: {team: …} or {namespaces: […]} on a pool, or remove trust_policy"
        what = "requires an admission policy, but no pool of the cluster sets trust or is shared among teams"
        draft.refuse(what, "trust_policy", fix=fix)


def _network_policies(draft: Draft) -> None:
    """Declare who reaches the DCGM exporters, and that pods of trusted namespaces reach no instance metadata."""
    spec, address = draft.spec, draft.cloud.open_metadata_address
    charts = [release for release in draft.releases if release.chart in objects.EXPORTER_LABELS]
    exporters = [chart for chart in charts if at(chart.values, "dcgmExporter.enabled", True)]
    spaces = {space for pool in draft.pools if pool.trust for space in pool.trust.namespaces or ()}
    for release in exporters if spec.monitoring_namespace else ():
        policy = objects.exporter_access(release.chart, release.namespace, spec.monitoring_namespace or "")
        draft.depends[release.name].add(draft.add(policy, f"namespace/{release.namespace}"))
    for space in sorted(spaces) if spec.block_instance_metadata and address else ():
        draft.add(objects.no_instance_metadata(space, address))
    if spec.monitoring_namespace and not exporters:
        draft.refuse("gpupools installs no DCGM exporter in this cluster", "monitoring_namespace")
    if spec.block_instance_metadata and not (address and spaces):
        what = f"{draft.cloud.service} nodes of gpupools keep pods from the node's credentials themselves"
        what = "no pool of the cluster sets trust.namespaces" if address else what
        draft.refuse(what, "block_instance_metadata")


_ON_CPU_NODES = ("cluster_autoscaler", "karpenter", "scheduler")
"""Existing software that has no pods on GPU nodes."""


def _refuse_fences_around_their_own(draft: Draft) -> None:
    """Refuse a policy that would keep the software serving a pool off it, so that its team gets no GPU either."""
    marked = [pool.name for pool in draft.pools if pool.trust is not None and pool.trust.mark(pool.name) is not None]
    for key, software in draft.spec.existing.named().items():
        # eksctl installs into kube-system.
        if software.namespace or key in _ON_CPU_NODES or "eksctl" in software.name.casefold() or not marked:
            continue
        what = f"got {shown(software.name)}, and trust_policy admits the cluster's software by its namespace: "
        what += f"its pods would be rejected on {', '.join(marked)}, so no pod would get a GPU there"
        fix = f"write <namespace>/<name>, e.g. kube-system/{key.replace('_', '-')}"
        draft.refuse(what, "existing", key, fix=fix)


def _refuse_unreachable_smoke_tests(draft: Draft) -> None:
    for pool in draft.pools:
        reason = pool.provider_plan.queued_provisioning()
        if reason is None:
            continue
        what = f"the Job of pool {pool.name} would stay pending, since pods do not scale it up: {reason.what}"
        fix = "remove smoke_test, or move that pool to another cluster"
        draft.refuse(what, "smoke_test", fix=fix, source=reason.source)


def _owner_table(draft: Draft) -> tuple[PoolOwners, ...]:
    table = []
    for pool in draft.pools:
        node = draft.nodes[pool.name]
        if node.refused:
            continue
        everything = claims(pool, node, draft.releases, draft.objects, draft.spec, draft.cloud)
        found = [claim for claim in everything if (pool.name, claim.piece.value) not in draft.undecided]
        # What a release that was refused for this pool would have brought is not missing as well.
        refused = any(problem.path == ("pools", pool.name, "software") for problem in draft.problems)
        needed = [piece for piece in needed_pieces(pool) if (pool.name, piece.value) not in draft.undecided]
        owners, problems = settle(pool, found, () if refused else needed, draft.runtime)
        draft.problems += problems
        table.append(owners)
    return tuple(table)


def _in_order(depends: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Put steps behind those they wait for, else in the order they were decided.

    Raises:
        ValueError: Two steps wait for each other, which no plan may say.
    """
    placed: dict[str, tuple[str, ...]] = {}
    rest = dict(depends)
    while rest:
        ready = [step for step, befores in rest.items() if befores <= placed.keys()]
        if not ready:
            raise ValueError(f"these steps wait for each other: {', '.join(rest)}")
        for step in ready:
            placed[step] = tuple(sorted(rest.pop(step)))
    return placed
