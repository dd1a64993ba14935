"""Decides what a pool becomes on one cluster, or reports every reason why it cannot exist. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from operator import attrgetter
from typing import Any

from gpupools.catalog.gpus import gpu_models, match_gpu_model, nearest_gpu_model
from gpupools.catalog.instance_types import InstanceType, smallest
from gpupools.catalog.requirements import requirement
from gpupools.catalog.reserved_keys import KeyRule, refusal
from gpupools.common.errors import Path, Problem, Rejected, nearest, shown
from gpupools.common.taints import GPU_TAINT, STARTUP_TAINT, Effect, Taint
from gpupools.plan.capability import Capability, Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.dra import DRA_CHART, DRA_DRIVER
from gpupools.plan.fabric import COMPUTE_DOMAINS_LABEL, Fabric
from gpupools.plan.hami import HAMI, HAMI_LABEL, PODS_PER_GPU
from gpupools.plan.node_labels import NODE_GROUP_LABEL, OUR_LABELS, TRUST_LABEL, pool_labels
from gpupools.plan.node_resources import node_resources
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL, PoolPlan
from gpupools.plan.provider_plan import AdoptedPool, PoolRequest, ProviderPlan
from gpupools.spec.models import Cluster, Mig, PoolSpec, SharedGpu, SharingMode, label_problems
from gpupools.spec.overrides import flattened, value_at
from gpupools.spec.pool_options import CapacityBlock, Queued, given_settings


def plan_pool(name: str, spec: PoolSpec, cluster_key: str, cluster: Cluster, cloud: Cloud) -> PoolPlan:
    """Decide what `cloud` must create for one pool on one cluster.

    Args:
        name: The pool's key in the stack file.
        spec: What was asked for.
        cluster_key: The cluster's key in the stack file.
        cluster: The cluster; its addresses are never looked at.
        cloud: The cluster's cloud.

    Raises:
        Rejected: Every reason why the pool cannot exist, not only the first.
    """
    spec = cluster.completed(spec)
    if not cluster.tags:
        return _pool_plan(name, spec, cluster_key, cluster, cloud)
    tags = ("pools", name, "tags")
    where: Path = ("clusters", cluster_key, "tags") if cluster_key else ("cluster", "tags")
    try:
        # A cloud's own default tags reach neither machines nor disks of a launch template, nor GKE's nodes.
        tagged = spec.model_copy(update={"tags": {**cluster.tags, **spec.tags}})
        return _pool_plan(name, tagged, cluster_key, cluster, cloud)
    except Rejected as rejected:
        raise Rejected(
            replace(problem, path=(*where, *problem.path[3:]))
            if problem.path[:3] == tags and problem.path[3:4] and problem.path[3] not in spec.tags
            else problem
            for problem in rejected.problems
        ) from None


def independent_problems(
    name: str, spec: PoolSpec, cluster_key: str, cluster: Cluster | None, cloud: Cloud, unread: Set[str]
) -> Iterator[Problem]:
    """Yield the problems of a pool that do not depend on its invalid keys, or on its invalid cluster.

    Args:
        name: The pool's key in the stack file.
        spec: The pool, with any valid value for each invalid key.
        cluster_key: The cluster's key in the stack file.
        cluster: The cluster; None if it is invalid.
        cloud: The cluster's cloud.
        unread: Invalid keys of the pool.
    """
    spec = cluster.completed(spec) if cluster is not None else spec
    problems: list[Problem] = []
    machines: tuple[InstanceType, ...] = ()
    if spec.instance_type is not None and not unread & {"gpu", "instance_type"}:
        machines = tuple(filter(None, [_instance_by_name(spec.instance_type, cloud, problems)]))
    elif not unread & {"gpu", "instance_type"}:
        machines = _machines_by_gpu(spec, cloud, problems)
    problems += _label_problems(spec, cloud)
    problems += _unsupported_settings(spec, cloud)
    problems += _adoption_problems(spec, cloud)
    problems += _pod_problems(spec, cloud)
    if not unread & {"sharing", "taints"}:
        problems += _trust_problems(spec, spec.software or "")
    if cluster is not None and not unread & {"sharing", "software", "image", "gpus_per_node"}:
        kind = spec.sharing.kind
        software = spec.software or cloud.default_software[kind]
        capability = cloud.capabilities[software, kind]
        problems += _matrix_problems(cluster_key, cluster, cloud, software, kind, capability)
        problems += _fraction_problems(name, cluster_key, spec, cluster, software)
        problems += _hami_problems(spec, cluster, software)
        requests = [PoolRequest(name, spec, cluster, machine, software, kind, capability) for machine in machines]
        if requests and all(check_pool(request, cloud) for request in requests):
            problems += check_pool(next(sample for sample in requests if sample.instance in smallest(machines)), cloud)
    elif spec.sharing.mig is not None and "sharing" not in unread:
        problems += [problem for machine in machines[:1] for problem in _mig_problems(spec.sharing.mig, machine)]
    yield from _of_pool(name, (problem for problem in problems if problem.path[0] not in unread))


def _pool_plan(name: str, spec: PoolSpec, cluster_key: str, cluster: Cluster, cloud: Cloud) -> PoolPlan:
    problems: list[Problem] = []
    kind = spec.sharing.kind
    software = spec.software or cloud.default_software[kind]
    capability = cloud.capabilities[software, kind]

    def request_for(machine: InstanceType) -> PoolRequest:
        return PoolRequest(name, spec, cluster, machine, software, kind, capability)

    judged: dict[str, tuple[list[Problem], list[Problem]]] = {}

    def judge(machine: InstanceType) -> tuple[list[Problem], list[Problem]]:
        """Return the problems of a machine with the pool and with its settings; each machine is judged once."""
        if machine.name not in judged:
            request = request_for(machine)
            judged[machine.name] = (check_pool(request, cloud), cloud.check_settings(request))
        return judged[machine.name]

    if spec.instance_type is not None:
        instance = _instance_by_name(spec.instance_type, cloud, problems)
    else:
        instance = _instance_by_gpu(spec, cloud, lambda machine: [*chain(*judge(machine))], problems)
    problems += _matrix_problems(cluster_key, cluster, cloud, software, kind, capability)
    problems += _label_problems(spec, cloud)
    problems += _unsupported_settings(spec, cloud)
    against = _against_startup_taint(software, cluster) if spec.startup_taint else ()
    problems += [Problem(("startup_taint",), what, fix) for what, fix in against]
    problems += _adoption_problems(spec, cloud)
    problems += _pod_problems(spec, cloud)
    if instance is not None:
        unlisted = [] if knows_its_place(spec) else unlisted_place(spec, cluster_key, cluster, instance)
        unlisted, settings = _each_zone_once(unlisted, judge(instance)[1])
        problems += [*unlisted, *judge(instance)[0]]
    problems += _trust_problems(spec, software)
    problems += _fraction_problems(name, cluster_key, spec, cluster, software)
    problems += _hami_problems(spec, cluster, software)
    if instance is not None:
        problems += _claim_problems(spec, software, instance, cloud)
        problems += _nvlink_problems(spec, instance, cloud)
        problems += settings
    if instance is None or problems:
        raise Rejected(_of_pool(name, problems))
    provider_plan = _decided(request_for(instance), cloud)
    problems += _label_conflicts(spec, provider_plan, cloud)
    problems += _fabric_problems(spec, instance, provider_plan.fabric)
    if problems:
        raise Rejected(_of_pool(name, problems))
    node = cloud.node_runtime(software, provider_plan)
    native = capability.verdict is Verdict.NATIVE
    ours = {**pool_labels(name, instance, spec.sharing, software, spec.trust, native=native)}
    if spec.network.compute_domains:
        ours[COMPUTE_DOMAINS_LABEL] = "true"
    if cluster.runtime.scheduler == "volcano":
        ours[NODE_GROUP_LABEL] = spec.labels.get(GROUP_LABEL, name)
    trusted = (Taint(TRUST_LABEL, ours[TRUST_LABEL], Effect.NO_SCHEDULE),) if TRUST_LABEL in ours else ()
    theirs = spec.adopt.gpu_taint if spec.adopt is not None else None
    gpu_taint = GPU_TAINT if theirs is None else replace(GPU_TAINT, value=theirs)
    own = sorted((taint for taint in spec.taints if taint != GPU_TAINT), key=str)
    return PoolPlan(
        cluster=cluster_key,
        cloud=cloud.name,
        name=name,
        instance=instance,
        min_nodes=spec.nodes.min,
        max_nodes=spec.nodes.max,
        taints=tuple(dict.fromkeys((gpu_taint, *provider_plan.taints, *trusted, *own))),
        labels={POOL_LABEL: name, **ours, **provider_plan.labels, **spec.labels},
        sharing=spec.sharing,
        software=software,
        owners=provider_plan.owners or cloud.software[software].owners,
        capability=capability,
        node_resources=offered_resources(instance, spec.sharing, software),
        disk_gib=spec.disk_gib,
        provider_plan=provider_plan,
        trust=spec.trust,
        startup_taint=STARTUP_TAINT if _starts_tainted(spec, software, cluster, cloud) else None,
        compute_domains=spec.network.compute_domains,
        spare=spec.nodes.spare,
        runtime_class=node.pod_runtime_class,
        driver_mount=node.pod_driver_mount,
        overrides=flattened(spec.overrides.get(cloud.name, {})),
        node_customizations={
            f"{resource}.{customization.property}": f"{customization.kind}: {customization.why}"
            for resource, inputs in spec.overrides.get(cloud.name, {}).items()
            for customization in cloud.readback().customizations(resource, inputs)
        },
    )


def _pod_problems(spec: PoolSpec, cloud: Cloud) -> Iterator[Problem]:
    limits, pods = cloud.pod_limits, spec.network.max_pods
    if limits is not None and pods is not None and not limits.least <= pods <= limits.most:
        what = f"got {pods}; {cloud.service} allows {limits.least} to {limits.most} pods per node"
        fix = f"use a number from {limits.least} to {limits.most}"
        yield Problem(("network", "max_pods"), what, fix, limits.source)


def _decided(request: PoolRequest, cloud: Cloud) -> ProviderPlan:
    """Return the cloud's part of a plan, with what it takes from the pool's keys as they are."""
    spec, keys = request.spec, [key for resource in cloud.node_pools.overridable.values() for key in resource.keys]
    theirs = spec.adopt
    kept = tuple(sorted(theirs.keep)) if theirs is not None else ()
    return replace(
        cloud.decide(request),
        key_values={key.field: attrgetter(key.key)(spec) for key in keys},
        first_name=spec.named_after(request.name),
        adopted=AdoptedPool(theirs.name, request.cluster.pool_id(theirs.name), kept) if theirs is not None else None,
        protect=spec.protect,
        overrides=spec.overrides.get(cloud.name, {}),
    )


def offered_resources(instance: InstanceType, sharing: SharingMode, software: str) -> Mapping[str, int]:
    """Return what a node offers: nothing where pods claim devices, and each GPU several times with HAMi."""
    if software == DRA_DRIVER:
        return {}
    times = PODS_PER_GPU if software == HAMI else 1
    return {name: count * times for name, count in node_resources(instance, sharing).items()}


def _starts_tainted(spec: PoolSpec, software: str, cluster: Cluster, cloud: Cloud) -> bool:
    """Return whether nodes get the start-up taint: unasked where a pod could take a GPU before it is cut."""
    if spec.startup_taint is not None:
        return spec.startup_taint
    setting = cloud.node_pools.settings.get("startup_taint")
    cut_late = spec.sharing.mig is not None and software == "gpu-operator" and not spec.nodes.min
    return bool(cut_late and setting and setting.supported and not [*_against_startup_taint(software, cluster)])


def _against_startup_taint(software: str, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield why nothing would remove a start-up taint, or why it would block what provides the GPUs, with the fix."""
    runtime, leave = cluster.runtime, "leave it out"
    if software == DRA_DRIVER:
        yield "pods that claim devices wait for them by themselves", leave
    if runtime.management == "external":
        what = "a Deployment of gpupools removes the taint, and management: external installs nothing"
        yield what, f"{leave}, or set management: managed"
    for key in ("gpu_operator", "device_plugin", "node_feature_discovery", "rdma_plugin"):
        if getattr(runtime.existing, key) is not None:
            yield f"existing.{key} provides GPUs or network devices, and its pods may not tolerate the taint", leave


def _label_conflicts(spec: PoolSpec, provider_plan: ProviderPlan, cloud: Cloud) -> Iterator[Problem]:
    """Refuse labels and taints that stand against those the cloud's part of the plan needs."""
    for where, key in (
        *((("labels", key), key) for key in spec.labels),
        *((where, key) for where, key, _ in _override_labels(spec, cloud)),
    ):
        if key in provider_plan.labels and provider_plan.labels[key] != spec.labels.get(key):
            yield Problem(where, f"{key} is set to {provider_plan.labels[key]!r} on this pool", "leave it out")
    for index, taint in enumerate(spec.taints):
        own = [other_taint for other_taint in provider_plan.taints if other_taint.key == taint.key]
        for other_taint in own:
            if taint.effect == other_taint.effect and taint != other_taint:
                what = f"{taint} conflicts with {other_taint}, which this pool has"
                yield Problem(("taints", index), what, "leave it out")
        if not own:
            yield from _key_problems(("taints", index), taint.key, cloud.reserved_taints)


def check_pool(request: PoolRequest, cloud: Cloud) -> list[Problem]:
    """Return why this machine cannot share its GPUs this way: what the GPU cannot do, else what the cloud cannot."""
    impossible = _gpu_problems(request, cloud)
    if impossible or request.capability.verdict is Verdict.REFUSED:
        return impossible
    return cloud.check_pool(request)


def _of_pool(name: str, problems: Iterable[Problem]) -> list[Problem]:
    """Return problems of a pool's keys by the paths of the stack file."""
    return [replace(problem, path=("pools", name, *problem.path)) for problem in problems]


def _instance_by_name(wanted: str, cloud: Cloud, problems: list[Problem]) -> InstanceType | None:
    where = ("instance_type",)
    found = cloud.instance_types.find(wanted)
    if found is None:
        other = cloud.instance_types.other_accelerator(wanted)
        if other is not None:
            what = f"{shown(wanted)} carries {other}, not an NVIDIA GPU"
            fix = f"see gpupools catalog --cloud {cloud.name} for the types with NVIDIA GPUs"
            problems.append(Problem(where, what, fix))
        else:
            what = f"{cloud.name} has no GPU instance type {shown(wanted)}"
            problems.append(Problem(where, what, nearest(wanted, cloud.instance_types)))
    elif found.lifecycle == "retired":
        since = f" on {found.lifecycle_date}" if found.lifecycle_date else ""
        same = [
            row.name
            for row in cloud.instance_types.values()
            if row.gpus == found.gpus and row.lifecycle == "current" and row.gpu_memory_gib >= found.gpu_memory_gib
        ]
        fix = f"current types with as many GPUs: {', '.join(same[:6])}" if same else "choose a current type"
        problems.append(Problem(where, f"{cloud.name} retired {found.name}{since}", fix, found.source))
    return found


def _instance_by_gpu(
    spec: PoolSpec, cloud: Cloud, judge: Callable[[InstanceType], Sequence[Problem]], problems: list[Problem]
) -> InstanceType | None:
    machines = _machines_by_gpu(spec, cloud, problems)
    # A machine the cloud refuses for this software or sharing is no choice; if all are, the refusal is the answer.
    first = next((machine for machine in machines if not judge(machine)), None)
    alike = smallest(machines if first is None else machines[machines.index(first) :])
    if first is not None:
        alike = tuple(machine for machine in alike if not judge(machine))
    if len(alike) > 1:
        gpus = f"{spec.gpus_per_node or 1} × {alike[0].gpu_model}"
        what = f"{cloud.name} has {len(alike)} machines of one size with {gpus}"
        fix = f"name one of them as instance_type: {', '.join(row.name for row in alike)}"
        problems.append(Problem(("gpu",), what, fix))
        problems += [problem for problem in judge(alike[0]) if all(problem in judge(machine) for machine in alike)]
    return alike[0] if len(alike) == 1 else None


def _machines_by_gpu(spec: PoolSpec, cloud: Cloud, problems: list[Problem]) -> tuple[InstanceType, ...]:
    """Return the machines with the model and number of GPUs; none with a problem that says why."""
    wanted, gpus = str(spec.gpu), spec.gpus_per_node or Fraction(1)
    models = match_gpu_model(wanted)
    here = cloud.instance_types.gpu_models
    if not models:
        problems.append(Problem(("gpu",), f"{shown(wanted)} is not an NVIDIA GPU model", nearest_gpu_model(wanted)))
        return ()
    offered = [model for model in models if model in here]
    if not offered:
        what = f"{cloud.name} offers no {'/'.join(models)}"
        problems.append(Problem(("gpu",), what, f"{cloud.name} has: {', '.join(sorted(here))}"))
        return ()
    if len(offered) > 1:
        what = f"{shown(wanted)} may mean {' or '.join(offered)} on {cloud.name}"
        problems.append(Problem(("gpu",), what, "name the one with the memory size you need"))
        return ()
    model = offered[0]
    machines = cloud.instance_types.with_gpus(model, gpus)
    if not machines:
        rows = [row for row in cloud.instance_types.values() if row.gpu_model == model and row.lifecycle != "retired"]
        known = ", ".join(f"{row.name} ({row.gpus})" for row in rows)
        what = f"{cloud.name} has no machine to choose with {gpus} × {model}"
        fix = f"machines with {model} (GPUs): {known}"
        if any(row.gpus == gpus for row in rows):  # one that is never chosen
            fix += "; name one as instance_type"
        problems.append(Problem(("gpus_per_node",), what, fix))
    return tuple(machines)


def unlisted_place(spec: PoolSpec, cluster_key: str, cluster: Cluster, machine: InstanceType) -> list[Problem]:
    """Return the problem of an instance type that a list does not have in a region, or in zones, that it covers.

    Its path starts at the pool's own keys.
    """
    places, region = cluster.known_places(), cluster.region_name()
    zones = spec.zones or cluster.own_zones()
    if places.offered(machine.name, region, zones) is not False:
        return []
    where = " and ".join(zones) or region
    nearest = places.nearest_offers(machine.name, region)
    here = [offer for offer in nearest if offer.startswith(f"{region}-") and offer not in zones] if zones else []
    key = f"clusters.{cluster_key}" if cluster_key else "cluster"
    what = f"{machine.name} is not offered in {where}, according to a list of {places.dated}"
    fix = f"set zones: [{here[0]}]" + (f" (or of {', '.join(here[1:])})" if here[1:] else "") if here else "use another"
    fix += "" if here else f" type, or a cluster in {', '.join(nearest[:5])}"
    fix += f"; set {key}.places: trust if it is new there"
    return [Problem(("gpu" if spec.instance_type is None else "instance_type",), what, fix, places.source)]


def _each_zone_once(unlisted: list[Problem], settings: list[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Return both; if a zone is wrong, only its problem, which then names the zones that offer the machine."""
    offered = "".join(problem.fix.partition("; ")[0] for problem in unlisted if problem.fix.startswith("set zones"))
    wrong = {problem: problem.fix.split("; ")[1:] for problem in settings if problem.path[0] == "zones"}
    if not offered or not wrong:
        return unlisted, settings
    return [], [replace(each, fix="; ".join([offered, *wrong[each]])) if each in wrong else each for each in settings]


def knows_its_place(spec: PoolSpec) -> bool:
    """Return whether a pool's machines are known to be there, whatever a list says: it exists, or they are reserved."""
    return spec.adopt is not None or spec.capacity.mode in ("reservation", "capacity-block")


def _matrix_problems(
    cluster_key: str, cluster: Cluster, cloud: Cloud, software: str, kind: str, capability: Capability
) -> Iterable[Problem]:
    where = ("software",) if kind == "none" else ("sharing", "mode")
    if capability.verdict is Verdict.REFUSED:
        of = kind if kind != "none" else "a part of a GPU" if software == HAMI else "whole GPUs"
        what = f"{of} with software {software} on {cloud.name} is refused"
        fix = capability.instead or _alternatives(cloud, kind)
        yield Problem(where, f"{what}: {capability.why}", fix, capability.source)
    elif cluster.runtime.management == "external" and (
        capability.verdict is Verdict.IN_CLUSTER or software in SERVED_BY
    ):
        needed = SERVED_BY.get(software, "")
        if needed and getattr(cluster.runtime.existing, needed) is None:
            key = f"clusters.{cluster_key}.runtime" if cluster_key else "cluster.runtime"
            what = f"{software} has to be in the cluster, and {key} is external without naming it"
            fix = f"name it under {key}.existing.{needed}, or leave management out to have it installed"
            yield Problem(("software",), what, fix)


SERVED_BY = {"device-plugin": "device_plugin", "gpu-operator": "gpu_operator", "dra-driver": "dra_driver", HAMI: "hami"}
"""The key of `runtime.existing` that names who serves the pools of a software."""


def _trust_problems(spec: PoolSpec, software: str) -> Iterable[Problem]:
    """Refuse a pool whose containers share memory and faults while it does not say who may use it."""
    clients, cut = spec.sharing.clients, spec.sharing.mig is not None
    divided = software == HAMI and spec.sharing.kind == "none"
    needed = spec.sharing.needs_trust or divided
    if needed and spec.trust is None:
        on = "a MIG slice" if cut else "a GPU"
        mode, shares = (HAMI, "") if divided else ((clients or spec.sharing).mode, "the memory and ")
        what = f"{mode} shares {shares}the faults of {on} between containers; the pool names no one"
        drop = "leave share out of mig" if cut else "use mode: mig on a GPU that has it, which isolates in hardware"
        fix = f"write trust: {{team: …}} or {{namespaces: […]}}, or {{waiver: …}} with the reason; or {drop}"
        yield Problem(("trust",), what, fix, _TRUST_SOURCE)
    if not needed and spec.trust is not None and spec.trust.waiver is not None:
        who = "no two containers share a GPU" if clients is None else f"{clients.mode} isolates the containers"
        what = f"waives isolation, but {who} of this pool"
        yield Problem(("trust", "waiver"), what, "leave trust out")
    for index, taint in enumerate(spec.taints):
        if taint.key == TRUST_LABEL:
            what = f"{TRUST_LABEL} is set from trust"
            yield Problem(("taints", index), what, "leave it out, and write trust: {team: …}")


def _fraction_problems(
    name: str, cluster_key: str, spec: PoolSpec, cluster: Cluster, software: str
) -> Iterable[Problem]:
    """Refuse fractions of GPUs without the scheduler that places them, and limits that nothing would enforce."""
    fractions, runtime = spec.sharing.fractions, cluster.runtime
    if fractions is None:
        return
    key = f"clusters.{cluster_key}.runtime" if cluster_key else "cluster.runtime"
    if runtime.scheduler != "kai":
        what = f"only KAI places fractions of GPUs, and {key}.scheduler is {runtime.scheduler or 'not set'}"
        yield Problem(("sharing", "mode"), what, f"set {key}.scheduler: kai, or use time-slicing", _KAI_SHARING)
    if fractions.memory == "hami" and software != "gpu-operator":
        what = "KAI sets no limit on nodes without the label nvidia.com/gpu.memory, which only the GPU Operator sets"
        fix = "use software: gpu-operator, or memory: trust"
        yield Problem(("sharing", "memory"), what, fix, _KAI_HAMI)
    if fractions.memory == "hami" and runtime.existing.kai_resource_isolator is None:
        what = "gpupools does not install kai-resource-isolator, which enforces the limits"
        fix = f"install it and name it under {key}.existing.kai_resource_isolator, or use memory: trust"
        yield Problem(("sharing", "memory"), what, fix, _KAI_ISOLATOR)
    if spec.trust is not None and spec.trust.quota is not None:
        what = "a ResourceQuota does not count fractions of GPUs, which are annotations of pods"
        fix = f"remove it, and set limit.{name} of the teams in gpupools:teams"
        yield Problem(("trust", "quota"), what, fix, _KAI_SHARING)


def _hami_problems(spec: PoolSpec, cluster: Cluster, software: str) -> Iterable[Problem]:
    """Refuse what HAMi's device plugin and scheduler do not go with."""
    if software != HAMI:
        return
    if spec.nodes.min != spec.nodes.max:
        what = "autoscalers start no node for pods that request memory of a GPU, since no node offers nvidia.com/gpumem"
        yield Problem(("nodes",), what, "set nodes: {fixed: …}, or use other software", _HAMI_AUTOSCALER)
    if cluster.runtime.scheduler is not None:
        what = f"HAMi's scheduler and {cluster.runtime.scheduler} would both decide about the pods of this pool"
        fix = "use software: device-plugin, or put the pool on a cluster without runtime.scheduler"
        yield Problem(("software",), what, fix, _HAMI_WEBHOOK)
    for key in ("rdma", "compute_domains"):
        if getattr(spec.network, key):
            yield Problem(("network", key), "HAMi's pods get parts of GPUs", "leave it out")
    if HAMI_LABEL in spec.labels:
        what = f"{HAMI_LABEL} is set to 'on', by which HAMi's device plugin selects the nodes"
        yield Problem(("labels", HAMI_LABEL), what, "leave it out")


_HAMI_AUTOSCALER = "https://github.com/Project-HAMi/HAMi/issues/1099"
_HAMI_WEBHOOK = "https://github.com/Project-HAMi/HAMi tag v2.10.0, pkg/scheduler/webhook.go"

_KAI_SHARING = "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/gpu-sharing/README.md"
_KAI_HAMI = "https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/binder/plugins/hamicore/hami_core.go"
_KAI_ISOLATOR = "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/gpu-sharing/hami/README.md"

_TRUST_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus"


def _nvlink_problems(spec: PoolSpec, instance: InstanceType, cloud: Cloud) -> Iterable[Problem]:
    """Refuse compute domains of GPUs whose NVLink ends at the node, and of GPUs in parts."""
    if not spec.network.compute_domains:
        return
    where, models = ("network", "compute_domains"), gpu_models()
    if not models[instance.gpu_model].nvlink_over_nodes:
        able = " or ".join(sorted(name for name in cloud.instance_types.gpu_models if models[name].nvlink_over_nodes))
        what = f"NVLink of {instance.gpu_model} ends at the node, so {instance.name} is in no NVLink domain"
        yield Problem(where, what, f"leave it out, or take a machine with {able}", _NVLINK_SOURCE)
    if spec.sharing.kind != "none":
        what = f"an NVLink domain is of whole GPUs, and the pool shares them by {spec.sharing.kind}"
        yield Problem(where, what, "leave it out, or leave sharing out", _NVLINK_SOURCE)


def _fabric_problems(spec: PoolSpec, instance: InstanceType, fabric: Fabric | None) -> Iterable[Problem]:
    """Refuse RDMA interfaces that no pod of a pool would ask for."""
    pods = sum(node_resources(instance, spec.sharing).values())
    is_fractional = spec.sharing.fractions is not None
    if fabric is None or spec.sharing.kind == "none" or (fabric.share(pods) and not is_fractional):
        return
    who = "pods with fractions of GPUs" if is_fractional else f"{pods} pods"
    what = f"{who} share a node of {instance.name}, which has {fabric.devices} RDMA interface(s) for them"
    yield Problem(("network", "rdma"), what, "leave it out, or leave sharing out")


_NVLINK_SOURCE = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html"


def _claim_problems(spec: PoolSpec, software: str, instance: InstanceType, cloud: Cloud) -> Iterable[Problem]:
    """Refuse what pods could not claim through the DRA driver: nodes that no pod starts, GPUs without its driver."""
    if software != DRA_DRIVER:
        return
    if isinstance(spec.capacity, CapacityBlock | Queued):
        # Such a pool starts from no node, whatever its minimum, so that raising it would only be refused too.
        what = f"{DRA_DRIVER} needs a node before the first pod; capacity.mode: {spec.capacity.mode} has none to keep"
        fix = "use software: device-plugin or gpu-operator, or another capacity.mode"
        yield Problem(("software",), what, fix, _FROM_ZERO_SOURCE)
    elif spec.nodes.min == 0 and not cloud.supports_dra_from_zero:
        what = "no pod starts the first node: its claim waits for a ResourceSlice, which only a running node publishes"
        yield Problem(("nodes", "min"), what, "keep at least one node (min: 1), or use fixed", _FROM_ZERO_SOURCE)
    needed, newest = requirement(DRA_CHART, "driver"), gpu_models()[instance.gpu_model].last_driver_branch
    if newest is not None and newest < int(needed.at_least):
        what = f"{needed.what} needs driver {needed.at_least}, and {newest} is the last for {instance.gpu_model}"
        yield Problem(("software",), what, "use software: device-plugin, or a newer GPU", needed.source)


_FROM_ZERO_SOURCE = "https://github.com/kubernetes/autoscaler (cluster-autoscaler/cloudprovider: TemplateNodeInfo)"


def _alternatives(cloud: Cloud, kind: str) -> str:
    ways = [name for name in cloud.software if cloud.capabilities[name, kind].verdict is Verdict.NATIVE]
    if ways:
        return f"{cloud.name} does {kind} in the pool itself with software: {' or '.join(ways)}"
    natives = sorted({key for (_, key), cell in cloud.capabilities.items() if cell.verdict is Verdict.NATIVE})
    offer = f"in the pool itself {cloud.name} does: {', '.join(natives)}" if natives else "share no GPU"
    return f"{offer}; or leave sharing out for whole GPUs" if kind != "none" else offer


def _unsupported_settings(spec: PoolSpec, cloud: Cloud) -> Iterable[Problem]:
    for name, path in given_settings(spec).items():
        setting = cloud.node_pools.settings.get(name)
        if setting is None:
            yield Problem(path, f"{name} does nothing on {cloud.name} yet", "leave it out")
        elif not setting.supported:
            what, _, fix = setting.why.partition("; ")
            yield Problem(path, f"{cloud.name} has no {name}: {what}", fix or "leave it out", setting.source)


def _adoption_problems(spec: PoolSpec, cloud: Cloud) -> Iterable[Problem]:
    """Report keys that have no meaning for an adopted pool, and inputs that it cannot keep."""
    if spec.adopt is None:
        return
    if spec.first_name is not None:
        what = "an adopted pool keeps the name in adopt, so first_name is not used"
        yield Problem(("first_name",), what, "leave it out")
    if spec.adopt.launch_template is not None and "LaunchTemplate" not in cloud.node_pools.overridable:
        yield Problem(("adopt", "launch_template"), f"{cloud.service} has no launch templates", "leave it out")
    inputs = cloud.node_pools.edits().inputs
    for index, path in enumerate(spec.adopt.keep):
        found = inputs.get(path)
        if found is None:
            what = f"{cloud.service} has no input {shown(path)} of a node pool"
            yield Problem(("adopt", "keep", index), what, f"write its wire name; {nearest(path, inputs)}")
        elif found.effect == "in-place":
            what = f"{path} changes without replacing nodes, so nothing needs to keep it"
            yield Problem(("adopt", "keep", index), what, "leave it out, and write what it is to be")


def _label_problems(spec: PoolSpec, cloud: Cloud) -> Iterable[Problem]:
    for key in spec.labels:
        if key == POOL_LABEL:
            yield Problem(("labels", key), f"{key} is set to the pool's name", "leave it out")
        elif key in OUR_LABELS:
            yield Problem(("labels", key), f"{key} follows from software, sharing and trust", "leave it out")
        else:
            yield from _key_problems(("labels", key), key, cloud.reserved_labels)
    for where, key, value in _override_labels(spec, cloud):
        if key == GROUP_LABEL:
            yield Problem(where, f"{key} is set to the key of a pool with several steps", "leave it out")
        yield from _key_problems(where, key, cloud.reserved_labels)
        for what, fix in label_problems(key, value):
            yield Problem(where, what, fix)


def _override_labels(spec: PoolSpec, cloud: Cloud) -> Iterator[tuple[Path, str, Any]]:
    """Yield the labels that overrides set, but those that they take away or cannot touch at all."""
    for resource, inputs in spec.overrides.get(cloud.name, {}).items():
        known = cloud.node_pools.overridable.get(resource)
        path = known.labels if known is not None else ()
        labels = value_at(inputs, *path) if path else None
        for key, value in labels.items() if isinstance(labels, Mapping) else ():
            if known is not None and isinstance(key, str) and value is not None and (*path, key) not in known.kept:
                yield ("overrides", cloud.name, resource, *path, key), key, value


def _key_problems(where: Path, key: str, rules: Iterable[KeyRule]) -> Iterable[Problem]:
    rule = refusal(key, rules)
    if rule is not None:
        yield Problem(where, f"{key!r} {rule.why}", rule.fix, rule.source)


_MIG_SOURCE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html"


_PLACEMENT_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin tag v0.20.0, api/config/v1/flags.go"


def _gpu_problems(request: PoolRequest, cloud: Cloud) -> list[Problem]:
    sharing, instance = request.spec.sharing, request.instance
    mig, clients = sharing.mig, sharing.clients
    if mig is None and clients is None and sharing.fractions is None and request.software != HAMI:
        return []
    from gpupools.catalog.mig import profiles  # its tables are slow to load, and most pools share nothing

    if mig is not None and not profiles(instance.gpu_model):
        what = f"{instance.gpu_model} ({instance.name}) cannot be cut into MIG instances"
        refused = request.capability.verdict is Verdict.REFUSED
        able = [] if refused else sorted(_models_with_mig(request, cloud))
        ways = f"{request.software} on {cloud.name} cuts: {', '.join(able)}; or use" if able else "use"
        return [Problem(("sharing", "mode"), what, f"{ways} time-slicing", _MIG_SOURCE)]
    if instance.is_fraction and not (mig is None and clients is not None and clients.facts.on_part_of_a_gpu):
        what = f"{instance.name} has {instance.gpus} of an {instance.gpu_model}, which cannot be shared further"
        fix = "leave sharing out, or take a machine with a whole GPU"
        return [Problem(("sharing", "mode"), what, fix, instance.source)]
    problems = _mig_problems(mig, instance) if mig is not None else []
    if clients is not None:
        problems += _client_problems(clients, (*sharing.clients_at, "replicas"), instance)
        if clients.placement is not None and request.capability.verdict is not Verdict.IN_CLUSTER:
            what = f"with {request.software}, {cloud.name} configures the device plugin, which has no such setting"
            fix = "leave it out, or use software: device-plugin or gpu-operator"
            problems.append(Problem(("sharing", *sharing.clients_at, "placement"), what, fix, _PLACEMENT_SOURCE))
    return problems


def _client_problems(clients: SharedGpu, replicas: Path, instance: InstanceType) -> Iterator[Problem]:
    model, facts = gpu_models()[instance.gpu_model], clients.facts
    if facts.oldest is not None and model.compute_capability < facts.oldest.compute_capability:
        yield Problem(("sharing", "mode"), f"{model.name} {facts.oldest.why}", facts.oldest.fix, facts.oldest.source)
    elif facts.most_clients is not None and clients.replicas > facts.most_clients(model):
        most = facts.most_clients(model)
        what = f"got {clients.replicas}; the {facts.called} server of {instance.gpu_model} takes {most} clients"
        yield Problem(("sharing", *replicas), what, f"use {most} or fewer", facts.most_clients_source)


def _models_with_mig(request: PoolRequest, cloud: Cloud) -> set[str]:
    """Return the GPU models this cloud and software can really cut, judged by the refusals themselves."""
    from gpupools.catalog.mig import profiles

    able: set[str] = set()
    for machine in cloud.instance_types.values():
        if machine.gpu_model in able or machine.lifecycle == "retired" or machine.is_fraction:
            continue
        for candidate in profiles(machine.gpu_model):
            spec = request.spec.model_copy(update={"sharing": Mig(mode="mig", profile=candidate.name)})
            found = check_pool(request._replace(instance=machine, spec=spec), cloud)
            if not found:
                able.add(machine.gpu_model)
            if not any("profile" in problem.path for problem in found):
                break  # what is refused for another reason is refused with every profile
    return able


def _mig_problems(sharing: Mig, instance: InstanceType) -> list[Problem]:
    from gpupools.catalog.mig import UnknownProfile, profile
    from gpupools.catalog.mig_fit import fit

    model = instance.gpu_model
    problems: list[Problem] = []
    if sharing.profile is not None:
        wanted: dict[Path, list[str]] = {("profile",): [sharing.profile]}
    else:
        layouts = sharing.gpu_layouts()
        beyond = [index for index in layouts if index is not None and index >= instance.devices]
        for index in beyond:
            count = "1 GPU" if instance.devices == 1 else f"{instance.devices} GPUs"
            what = f"{instance.name} has {count}, so there is no GPU {index}"
            use = "use 0" if instance.devices == 1 else f"use 0 to {instance.devices - 1}"
            problems.append(Problem(("sharing", "layout", str(index)), what, use))
        wanted = {("layout",) if index is None else ("layout", str(index)): names for index, names in layouts.items()}
    for key, names in wanted.items():
        unknown = False
        for name in names:
            try:
                profile(model, name)
            except UnknownProfile as error:
                unknown = True
                problems.append(Problem(("sharing", *key), error.what, error.cure))
        if not unknown:
            result = fit(model, names)
            if not result.fits:
                part = ", ".join(placed.profile.name for placed in result.largest)
                problems.append(Problem(("sharing", *key), result.why, f"the largest part that fits: {part}"))
    return problems
