"""What the shares of teams, their queues and admission policies mean for the pods of a workload on a pool."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from gpupools.common.errors import enumeration, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity
from gpupools.fit.counting import counted_together, fraction_of, started_together, taken, unit_name
from gpupools.fit.offers import Offer
from gpupools.fit.pod_judging import Case, Context
from gpupools.fit.workloads import Level, PodTemplate, Reason, Workload
from gpupools.plan.node_resources import GPU_RESOURCE, KAI_SCHEDULER
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL
from gpupools.readback.inputs import at
from gpupools.software import kai, kueue, volcano
from gpupools.software.team_shares import Share, TeamShares, team_shares
from gpupools.stackfile.stack import StackPlan


class Sharing(NamedTuple):
    """How teams share the pools of a cluster."""

    scheduler: str
    """`kueue`, `kai` or `volcano`."""
    shares: TeamShares
    """As the scheduler's queues have them: those of KAI and Volcano are of a pool with all its steps."""
    users: Mapping[str, set[str]]
    """The namespaces that may use each shared pool."""
    spared: frozenset[str] | None
    """Namespaces that the admission policy `team-pods` leaves alone; None without the policy."""


def sharing_of(plan: StackPlan) -> Mapping[str, Sharing]:
    """Return how teams share the pools, by the key of the cluster; without clusters on which no team has a share."""
    found = {}
    for runtime in plan.runtimes:
        pools, teams = [pool for pool in plan.pools if pool.cluster == runtime.cluster], plan.stack.teams
        shares, _ = team_shares(pools, teams, runtime.cluster)
        scheduler, users, spared = plan.stack.clusters[runtime.cluster].runtime.scheduler, dict[str, set[str]](), None
        for name, pool in ((name, pool) for name, own in shares.shares.items() for pool, _ in own):
            users.setdefault(pool, set()).update(teams[name].namespaces)
        for policy in (each.manifest for each in runtime.objects if each.name == "team-pods"):
            (names,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            spared = frozenset(names["values"])
        if scheduler and users:
            queued = shares if scheduler == "kueue" else shares.by_group()
            found[runtime.cluster] = Sharing(scheduler, queued, users, spared)
    return found


def team_reasons(
    workload: Workload, template: PodTemplate, offer: Offer, context: Context, sharing: Mapping[str, Sharing]
) -> Iterator[Reason]:
    """Yield what policies reject, why no queue admits a pod, and what is above the share of its team."""
    if (own := sharing.get(offer.pool.cluster)) is not None:
        teams = context.plan.stack.teams.items()
        team = next((name for name, team in teams if workload.namespace in team.namespaces), "")
        case = _Case(workload, template, offer, context, own, team)
        yield from [*_denied(case)] or (_of_kueue(case) if own.scheduler == "kueue" else _of_queue(case))


@dataclass(eq=False)
class _Case(Case):
    """A pod on a pool, and the team of its namespace."""

    sharing: Sharing
    team: str
    """Empty for none."""

    @property
    def queued(self) -> str:
        """The pool as shares and queues name it."""
        pool = self.offer.pool
        return pool.name if self.sharing.scheduler == "kueue" else pool.group or pool.name

    @property
    def shares(self) -> Mapping[str, Share]:
        """What the team may use of the pool, by resource."""
        own = self.sharing.shares.shares.get(self.team, {})
        return {resource: share for (pool, resource), share in own.items() if pool == self.queued}

    def named(self, part: str, key: str, *, of_pods: bool = False) -> str:
        """Return a label or annotation: of the object, else of its pods."""
        both = [*([] if of_pods else [self.workload.metadata]), self.template.metadata]
        values = (given.get(key) for meta in both if isinstance(given := meta.get(part), Mapping))
        return next((str(value) for value in values if value), "")

    def counted(self, units: Mapping[str, Decimal]) -> Mapping[str, Decimal]:
        """Return units of the pool as the scheduler counts them: KAI in GPUs."""
        units = {name: amount for name, amount in units.items() if name in self.pool.countable}
        if self.sharing.scheduler != "kai":
            return units
        return {GPU_RESOURCE: sum((kai.gpus_of(name) * amount for name, amount in units.items()), Decimal(0))}

    def counts(self, case: Case) -> Mapping[str, Decimal]:
        """Return what a pod asks for, as the scheduler counts it."""
        part = fraction_of(case)
        return self.counted(taken(case) if part is None else {GPU_RESOURCE: part})

    def bounds(self) -> tuple[Mapping[str, Decimal], Mapping[str, Decimal]]:
        """Return guarantee and maximum of the team on the pool, by resource."""
        all_shares, teams, most = self.sharing.shares, self.context.plan.stack.teams, dict[str, Decimal]()
        keeps = [own for name, own in all_shares.shares.items() if name != self.team and teams[name].lends_to == []]
        for resource in self.shares:
            unit = (self.queued, resource)
            free = all_shares.capacity[unit] - sum(own[unit].guarantee for own in keeps if unit in own)
            most[resource] = Decimal(min(all_shares.most(self.team, unit), free))
        least = self.counted({resource: Decimal(share.guarantee) for resource, share in self.shares.items()})
        default = "inference" if self.workload.kind == "Deployment" else "training"
        priority = self.template.spec.get("priorityClassName") or default
        is_bounded = self.sharing.scheduler == "kai" and priority in _NEVER_STOPPED
        return least, least if is_bounded else self.counted(most)


_NEVER_STOPPED = frozenset({"interactive", "build", "inference"})
"""Priority classes of the plan and of KAI's chart, whose pods use no more than the guarantee.

https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, deployments/kai-scheduler/templates/priorityclasses.
"""


def _denied(case: _Case) -> Iterator[Reason]:
    """Yield what the admission policy `team-pods` rejects: `data/trust_policies.yaml`."""
    spec, users, space = case.template.spec, case.sharing.users, case.workload.namespace
    shared = [pool for pool in case.sharing.shares.pools if pool.name in users]
    limits = [(each.get("resources") or {}).get("limits") or {} for each in spec.get("containers") or ()]
    asks = any(name.startswith("nvidia.com/") for limit in limits for name in limit)
    asks |= bool(spec.get("resourceClaims")) and any(pool.claim_template for pool in shared)
    if case.sharing.spared is None or space in case.sharing.spared or not asks:
        return
    selected = spec.get("nodeSelector") or {}
    reached = [pool for pool in shared if all(selected.get(key, value) == value for key, value in pool.labels.items())]
    policy, needed = ": the admission policy team-pods rejects it", reached[0].scheduler_name if reached else ""
    if reached and not any(space in users[pool.name] for pool in reached):
        pools = enumeration(pool.name for pool in reached)
        text = f"is in namespace {space}, and no team with a share of {pools} has this namespace{policy}"
        yield Reason("admission", text)
    if needed and spec.get("schedulerName") != needed:
        text = f"does not name the scheduler {needed}, which keeps the shares of teams{policy}"
        yield Reason("admission", text, {"schedulerName": needed})


def _of_kueue(case: _Case) -> Iterator[Reason]:
    team, space, queue = case.team, case.workload.namespace, case.named("labels", f"{kueue.GROUP}/queue-name")
    asked, quotas = case.counts(case), case.sharing.shares.shares.get(case.team, {})
    has_quota = any(resource in asked for _, resource in quotas)
    if queue and (queue != kueue.QUEUE or not team):
        text = f"names the queue {shown(queue)}, which the plan does not make in namespace {space}"
        yield Reason("unknown-queue", f"{text}; its queue is {kueue.QUEUE}" if team else text)
    elif not team or (asked and quotas and not has_quota):  # resources.quotaCheckStrategy: IgnoreUndeclared
        text = f"is of team {team}, which has no quota of what it requests"
        yield from _bypassing(case, text if team else f"is in namespace {space}, which is of no team")
    elif asked and not case.shares:
        text = f"is of team {team}, which has no share of it: Kueue never admits it there"
        yield Reason("no-share", text)
    elif asked:
        levels, notes = kueue.topology_levels(case.pool), at(case.template.metadata, "annotations") or ()
        if levels and not any(f"{kueue.GROUP}/podset-" in key for key in notes):
            text = f"lacks the annotation {kueue.PREFERRED_TOPOLOGY}, without which Kueue uses no compact pool"
            patch = {"metadata": {"annotations": {kueue.PREFERRED_TOPOLOGY: levels[-1]}}}
            yield Reason("queue", f"{text} for a team that has others, too", patch, Level.UNKNOWN)
        yield from _amounts(case)


ADMITTED_WHOLE = frozenset(
    {"Job", "CronJob", "JobSet", "LeaderWorkerSet", "MPIJob", "RayCluster", "RayJob", "RayService", "StatefulSet"}
)
"""Kinds of which Kueue admits all pods together, by `data/kueue_configuration.yaml`; of others it admits each pod."""


def _of_queue(case: _Case) -> Iterator[Reason]:
    """Yield what a pod of KAI or Volcano lacks, whose queues are of a team and a pool.

    Sources: https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/podgrouper/podgrouper/plugins/
    defaultgrouper; https://github.com/volcano-sh/volcano tag v1.15.1, pkg/controllers/podgroup.
    """
    is_kai, pool, shares = case.sharing.scheduler == "kai", case.pool, case.sharing.shares
    needed, wanted = KAI_SCHEDULER if is_kai else "volcano", f"{case.team}.{case.queued}"
    part, key = ("labels", kai.QUEUE_LABEL) if is_kai else ("annotations", volcano.QUEUE_ANNOTATION)
    queue = case.workload.queue or case.named(part, key, of_pods=not is_kai)
    owners = {f"{name}.{where}": name for name, own in shares.shares.items() for where, _ in own}
    owners |= {each.group or each.name: "" for each in shares.pools} if is_kai else {}
    lacks = {key: wanted} if queue != wanted else {}
    lacks |= {POOL_LABEL: case.queued} if is_kai and case.named(part, POOL_LABEL) != case.queued else {}
    patch: JsonObject = {"metadata": {part: lacks}} if case.shares and not case.workload.queue else {}
    if case.template.spec.get("schedulerName") != needed:
        yield from _bypassing(case, f"does not name the scheduler {needed}", {"schedulerName": needed})
    elif owners.get(queue, case.team) != case.team:
        text = f"names the queue {queue}, which is not for namespace {case.workload.namespace}"
        yield Reason("admission", f"{text}: the admission policy team-queues rejects it", patch)
    elif queue and queue not in owners:
        text = f"names the queue {shown(queue)}, which the plan does not make"
        yield Reason("unknown-queue", f"{text}; use {wanted}" if patch else text, patch)
    elif not case.shares:
        who = f"team {case.team} has" if case.team else "its namespace is of no team and has"
        yield Reason("no-share", f"{who} no share of it, so no queue starts pods there")
    elif lacks:
        words = enumeration(f"{key}: {value}" for key, value in lacks.items())
        yield Reason("queue", f"needs the {part} {words}, by which its queue finds it", patch)
    elif is_kai and pool.group and _owner_labels(case).get(GROUP_LABEL) != pool.group:
        text = f"needs the label {GROUP_LABEL}: {pool.group} on the {case.workload.kind} itself, not only on its pods"
        yield Reason("queue", f"{text}: KAI's scheduler of these pools finds it by that")
    else:
        yield from _amounts(case)


def _owner_labels(case: _Case) -> JsonObject:
    """Return the labels of the object that owns the pods; a Job without any gets those of its pods.

    https://github.com/kubernetes/kubernetes tag v1.34.0, pkg/apis/batch/v1/defaults.go, SetDefaults_Job.
    """
    template = at(case.template.metadata, "labels") if case.workload.kind in ("Job", "CronJob") else None
    return at(case.workload.metadata, "labels") or template or {}


def _bypassing(case: _Case, text: str, patch: JsonObject | None = None) -> Iterator[Reason]:
    if case.pool.name in case.sharing.users:
        hint = "" if case.sharing.spared is not None else "; runtime.trust_policy: true rejects other namespaces"
        text = f"{text}, so no queue counts it against the shares of teams{hint}"
        yield Reason("bypass", text, patch or {})


def _amounts(case: _Case) -> Iterator[Reason]:
    """Yield what is above the maximum or the guarantee of the team, which has a share of the pool."""
    work, pool, scheduler, team = case.workload, case.pool, case.sharing.scheduler, f"team {case.team}"
    own = counted_together(case)
    pods = [pool.max_nodes if one.template.pods is None else one.template.pods for one in own]
    counts = [(case.counts(one), count) for one, count in zip(own, pods, strict=True)]
    together, (guarantees, limits) = started_together(own), case.bounds()
    if scheduler == "kueue" and work.kind in ADMITTED_WHOLE:
        least = quantity(case.named("annotations", f"{kueue.GROUP}/job-min-parallelism"))
        together = int(least or sum(count for _, count in counts) // work.groups)
    for name, most in limits.items():
        each = sorted((asked.get(name, Decimal(0)), count) for asked, count in counts)
        total, start, left = sum((amount * count for amount, count in each), Decimal(0)), Decimal(0), together
        for amount, count in each:  # the smallest first, so that only what never starts is called so
            start, left = start + amount * min(left, count), left - min(left, count)
        unit, guarantee = "GPUs" if scheduler == "kai" else unit_name(name, pool), guarantees[name]
        asks, all_ask = f"asks for {start:g} {unit}{' together' * (together > 1)}", f"asks for {total:g} {unit}"
        kept, waits = f"{guarantee} are guaranteed to {team}", "its other pods may wait"
        if start > most:
            yield Reason("above-limit", f"{asks}, and {team} may use {most}")
            continue
        if total > most:
            yield Reason("some-run", f"{all_ask}, of which {team} may use {most} at once")
        text = ""
        if start > guarantee:
            text = f"{asks}, and {kept}, so it may wait"
        elif total > guarantee:
            text = f"{all_ask}, of which {kept}: {waits}"
        elif scheduler == "volcano" and total > start:
            # pkg/scheduler/actions/reclaim: not for a job of which minAvailable runs
            text = f"{all_ask}, and Volcano stops pods of teams that borrow the guarantee for {start:g}: {waits}"
        elif scheduler == "kueue" and each[-1][0] > 1 and not kueue.topology_levels(pool):
            text = f"asks for {each[-1][0]:g} {unit} on a node, and Kueue counts units, not nodes: pods of teams that"
            text += " borrow the guarantee may leave too few on each node"
        if text:
            yield Reason("may-wait", text)
