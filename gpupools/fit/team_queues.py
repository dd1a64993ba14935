"""What the shares of teams, their queues and admission policies mean for the pods of a workload on a pool."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from gpupools.common.errors import enumeration, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.numbers import quantity
from gpupools.fit.counting import counted_together, fraction_of, started_together, taken, unit_name
from gpupools.fit.offers import Offer
from gpupools.fit.pod_judging import Case, Context
from gpupools.fit.workloads import Level, PodTemplate, Reason, Workload
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.node_resources import FRACTION_ANNOTATIONS, GPU_RESOURCE, KAI_SCHEDULER
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL
from gpupools.plan.tolerations import untolerated
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
    labels: Mapping[str, Mapping[str, str]]
    """Labels of the shared pools, by which the admission policy `team-pods` knows them; empty without it."""
    spaces: Mapping[str, Sequence[str]]
    """The namespaces to which that policy leaves each of them."""
    spared: frozenset[str]
    """Namespaces that it leaves alone."""
    owners: Mapping[str, Sequence[str]]
    """Queue to the namespaces to which the admission policy `team-queues` leaves it."""


def sharing_of(plan: StackPlan) -> Mapping[str, Sharing]:
    """Return how teams share the pools, by the key of the cluster; without clusters on which no team has a share."""
    found = {}
    for runtime in plan.runtimes:
        pools, teams = [pool for pool in plan.pools if pool.cluster == runtime.cluster], plan.stack.teams
        shares, _ = team_shares(pools, teams, runtime.cluster)
        scheduler = plan.stack.clusters[runtime.cluster].runtime.scheduler
        declared = (*(each.manifest for each in runtime.objects), *runtime.team_objects)
        policies = {each["metadata"]["name"]: each["spec"] for each in declared if each["kind"] == _POLICY}
        pod_policy, queue_policy = policies.get("gpupools-team-pods", {}), policies.get("gpupools-team-queues", {})
        names = at(pod_policy, "matchConstraints.namespaceSelector.matchExpressions") or [{"values": ()}]
        if scheduler and shares.shares:
            queued = shares if scheduler == "kueue" else shares.by_group()
            found[runtime.cluster] = Sharing(
                scheduler=scheduler,
                shares=queued,
                labels=_variable(pod_policy, "labels"),
                spaces=_variable(pod_policy, "spaces"),
                spared=frozenset(names[0]["values"]),
                owners=_variable(queue_policy, "owners"),
            )
    return found


_POLICY = "ValidatingAdmissionPolicy"


def _variable(policy: JsonObject, name: str) -> JsonDict:
    """Return a variable of an admission policy of `data/trust_policies.yaml` that is a map."""
    found = (each["expression"] for each in policy.get("variables", ()) if each["name"] == name)
    return dict(json.loads(next(found, "{}")))


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

    def named(self, part: str, key: str, *, of_object: bool = True, of_pods: bool = True) -> str:
        """Return a label or annotation: of the object, else of its pods."""
        found = [self.workload.metadata] * of_object + [self.template.metadata] * of_pods
        values = (given.get(key) for meta in found if isinstance(given := meta.get(part), Mapping))
        return next((str(value) for value in values if value), "")

    @cached_property
    def queue(self) -> tuple[str, str, JsonDict]:
        """The queue of KAI or Volcano that is named, which part of the metadata names it, and what that part lacks."""
        is_kai, wanted = self.sharing.scheduler == "kai", f"{self.team}.{self.queued}"
        part, key = ("labels", kai.QUEUE_LABEL) if is_kai else ("annotations", volcano.QUEUE_ANNOTATION)
        queue = self.workload.queue or self.named(part, key, of_object=is_kai)
        lacks = {key: wanted} if queue != wanted else {}
        lacks |= {POOL_LABEL: self.queued} if is_kai and self.named(part, POOL_LABEL) != self.queued else {}
        return queue, part, lacks

    @property
    def queue_patch(self) -> JsonObject:
        """What to add, so that the queue of the team finds the pod."""
        _, part, lacks = self.queue
        return {"metadata": {part: lacks}} if self.shares and not self.workload.queue else {}

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
        # A queue of Volcano has a capability of every resource of its pool.
        none = dict.fromkeys(self.pool.countable if self.sharing.scheduler == "volcano" else (), Decimal(0))
        least = self.counted(none | {name: Decimal(share.guarantee) for name, share in self.shares.items()})
        is_bounded = self.sharing.scheduler == "kai" and self.is_stopped is False
        return least, least if is_bounded else self.counted(none | most)

    @property
    def is_stopped(self) -> bool | None:
        """Whether KAI may stop the pods for others, so that they may borrow; None if their priority is not known.

        https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/podgrouper/podgrouper/plugins/defaultgrouper.
        """
        default = "inference" if self.workload.kind == "Deployment" else "train"
        name = self.named("labels", "priorityClassName") or self.template.spec.get("priorityClassName") or default
        said = self.named("labels", "kai.scheduler/preemptibility")
        return _STOPPED.get(said or name)


_STOPPED = {
    **dict.fromkeys(("interactive", "build", "inference", "non-preemptible"), False),
    **dict.fromkeys(("training", "train", "build-preemptible", "preemptible"), True),
}
"""Priority classes of the plan and of KAI's chart, and values of its label: pods that it never stops do not borrow.

https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, deployments/kai-scheduler/templates/priorityclasses.
"""


def _denied(case: _Case) -> Iterator[Reason]:
    """Yield what the admission policies `team-queues` and `team-pods` reject: `data/trust_policies.yaml`."""
    spec, space, own, queue = case.template.spec, case.workload.namespace, case.sharing, case.queue[0]
    pools = {pool.name: pool for pool in own.shares.pools}
    limits = [(each.get("resources") or {}).get("limits") or {} for each in spec.get("containers") or ()]
    asks = any(name.startswith("nvidia.com/") for limit in limits for name in limit)
    asks |= bool(spec.get("resourceClaims")) and any(pools[name].claim_template for name in own.labels)
    selected = spec.get("nodeSelector") or {}
    reached = [
        name
        for name, labels in own.labels.items()
        if all(selected.get(key, labels[key]) == labels[key] for key in labels)
    ]
    is_judged = asks and reached and space not in own.spared
    policy, needed = ": the admission policy team-pods rejects it", pools[reached[0]].scheduler_name if reached else ""
    if is_judged and not any(space in own.spaces[name] for name in reached):
        text = f"is in namespace {space}, and no team with a share of {enumeration(reached)} has this namespace{policy}"
        yield Reason("admission", text)
    elif is_judged and needed and spec.get("schedulerName") != needed:
        text = f"does not name the scheduler {needed}, which keeps the shares of teams{policy}"
        yield Reason("admission", text, {"schedulerName": needed} if case.shares else {})
    elif space not in own.owners.get(queue, (space,)):
        text = f"names the queue {queue}, which is not for namespace {space}"
        yield Reason("admission", f"{text}: the admission policy team-queues rejects it", case.queue_patch)


def _of_kueue(case: _Case) -> Iterator[Reason]:
    team, space = case.team, case.workload.namespace
    # Webhooks give the kinds that Kueue knows the queue of their namespace, and their pods that of the object.
    has_own = "kueue" in case.workload.gangs
    queue = case.named("labels", f"{kueue.GROUP}/queue-name", of_pods=not has_own, of_object=has_own)
    asked, quotas = case.counts(case), case.sharing.shares.shares.get(case.team, {})
    covered = {resource for _, resource in quotas} & asked.keys()
    if team and case.workload.unmet:
        text = f"is rejected by Kueue, which requires {' and '.join(case.workload.unmet)}"
        yield Reason("admission", text)
    if queue and (queue != kueue.QUEUE or not team):
        text = f"names the queue {shown(queue)}, which the plan does not make in namespace {space}"
        yield Reason("unknown-queue", f"{text}; its queue is {kueue.QUEUE}" if team else text)
    elif not team or (asked and quotas and not covered):  # resources.quotaCheckStrategy: IgnoreUndeclared
        text = f"is of team {team}, which has no quota of what it requests"
        yield from _bypassing(case, text if team else f"is in namespace {space}, which is of no team")
    elif asked and not (covered and covered <= case.shares.keys()):
        text = f"is of team {team}, which has no share of it: Kueue never admits it there"
        yield Reason("no-share", text)
    elif asked:
        levels, notes = kueue.topology_levels(case.pool), at(case.template.metadata, "annotations") or ()
        if levels and not any(f"{kueue.GROUP}/podset-" in key for key in notes):
            text = f"lacks the annotation {kueue.PREFERRED_TOPOLOGY}, without which Kueue uses no compact pool"
            patch = {"metadata": {"annotations": {kueue.PREFERRED_TOPOLOGY: levels[-1]}}}
            yield Reason("queue", f"{text} for a team that has others, too", patch, Level.UNKNOWN)
        if others := list(_misled(case, asked)):
            text = f"may get nodes of {enumeration(others)} from Kueue, which sees neither the size nor other labels of"
            selected: JsonObject = {"nodeSelector": {POOL_LABEL: case.pool.name}}
            yield Reason("queue", f"{text} nodes, so select {POOL_LABEL}", selected, Level.UNKNOWN)
        yield from _amounts(case)


def _misled(case: _Case, asked: Mapping[str, Decimal]) -> Iterator[str]:
    """Yield the other pools of which the team has a share, and whose flavor Kueue may give the pod to no use.

    https://github.com/kubernetes-sigs/kueue tag v0.19.2, pkg/scheduler/flavorassigner, checkFlavorForPodSets.
    """
    selected, quotas = case.template.spec.get("nodeSelector") or {}, case.sharing.shares.shares[case.team]
    if POOL_LABEL in selected or POOL_LABEL in str(case.template.spec.get("affinity")):
        return
    for pool in (each for each in case.sharing.shares.pools if each.name != case.pool.name):
        kept_off = untolerated(case.template.tolerations, [taint for taint in pool.taints if taint.key == TRUST_LABEL])
        is_small = any(amount > pool.countable.get(name, 0) for name, amount in asked.items())
        is_other = any(pool.labels.get(key, value) != value for key, value in selected.items())
        is_other |= any(key in case.pool.labels and key not in pool.labels for key in selected)
        if all((pool.name, name) in quotas for name in asked) and not kept_off and (is_small or is_other):
            yield pool.name


def _of_queue(case: _Case) -> Iterator[Reason]:
    """Yield what a pod of KAI or Volcano lacks, whose queues are of a team and a pool.

    Sources: https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/podgrouper/podgrouper/plugins/
    defaultgrouper; https://github.com/volcano-sh/volcano tag v1.15.1, pkg/controllers/podgroup.
    """
    is_kai, (queue, part, lacks) = case.sharing.scheduler == "kai", case.queue
    needed = KAI_SCHEDULER if is_kai else "volcano"
    if case.template.spec.get("schedulerName") != needed:
        yield from _bypassing(case, f"does not name the scheduler {needed}", {"schedulerName": needed})
    elif queue and queue not in case.sharing.owners:
        text = f"names the queue {shown(queue)}, which the plan does not make"
        yield Reason(
            "unknown-queue", f"{text}; use {case.team}.{case.queued}" if case.shares else text, case.queue_patch
        )
    elif not case.shares:
        who = f"team {case.team} has" if case.team else "its namespace is of no team and has"
        yield Reason("no-share", f"{who} no share of it, so no queue starts pods there")
    elif lacks:
        words = enumeration(f"{key}: {value}" for key, value in lacks.items())
        yield Reason("queue", f"needs the {part} {words}, by which its queue finds it", case.queue_patch)
    elif is_kai and case.pool.group and _owner_labels(case).get(GROUP_LABEL) != case.pool.group:
        text = (
            f"needs the label {GROUP_LABEL}: {case.pool.group} on the {case.workload.kind} itself, not only on its pods"
        )
        yield Reason("queue", f"{text}: KAI's scheduler of these pools finds it by that")
    elif is_kai and any(each.is_later for each in case.workload.templates) and not case.named("annotations", _LEAST):
        # pkg/podgrouper/podgrouper/plugins/jobset, computePodGroupMinSubGroup
        text = f"waits for its jobs one by one, and KAI for pods of all: give the {case.workload.kind} the annotation"
        text += f" {_LEAST}: '1'"
        yield Reason("queue", text, other_level=Level.UNKNOWN)
    else:
        yield from _fraction(case)
        yield from _amounts(case)


_LEAST = "kai.scheduler/batch-min-member"


def _fraction(case: _Case) -> Iterator[Reason]:
    """Yield why KAI rejects a fraction of a GPU.

    https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/binder/plugins/gpusharing/gpu-request.
    """
    written, devices = case.template.annotations.get(FRACTION_ANNOTATIONS[0]), case.pool.instance.devices
    if written is not None and not 0 < (quantity(written) or 0) < 1:
        text = f"asks for the fraction {shown(written)} of a GPU, and KAI takes numbers between 0 and 1"
        yield Reason("invalid", text, {"metadata": {"annotations": {FRACTION_ANNOTATIONS[0]: "0.5"}}})
    if (quantity(case.template.annotations.get("gpu-fraction-num-devices")) or 1) > devices:
        yield Reason("too-many-units", f"asks for fractions of more GPUs than the {devices} of a node")


def _owner_labels(case: _Case) -> JsonObject:
    """Return the labels of the object that owns the pods; a Job without any gets those of its pods.

    https://github.com/kubernetes/kubernetes tag v1.34.0, pkg/apis/batch/v1/defaults.go, SetDefaults_Job.
    """
    template = at(case.template.metadata, "labels") if case.workload.kind in ("Job", "CronJob") else None
    return at(case.workload.metadata, "labels") or template or {}


def _bypassing(case: _Case, text: str, patch: JsonObject | None = None) -> Iterator[Reason]:
    if case.queued in {pool for own in case.sharing.shares.shares.values() for pool, _ in own}:
        hint = "" if case.sharing.labels else "; runtime.trust_policy: true rejects other namespaces"
        text = f"{text}, so no queue counts it against the shares of teams{hint}"
        yield Reason("bypass", text, patch if patch and case.shares else {})


def _amounts(case: _Case) -> Iterator[Reason]:
    """Yield what is above the maximum or the guarantee of the team, which has a share of the pool."""
    work, pool, scheduler, team = case.workload, case.pool, case.sharing.scheduler, f"team {case.team}"
    own = counted_together(case)
    together, (guarantees, limits) = started_together(own, scheduler), case.bounds()
    # Volcano ignores the least of each task where they are more than the gang: pkg/scheduler/api/job_info.go.
    has_least = sum(one.least for one in work.templates) <= work.gangs.get(scheduler, 0)
    counts = []
    for one in own:
        pods = pool.max_nodes if one.template.pods is None else one.template.pods
        counts.append((case.counts(one), pods, one.template.least * has_least))
    for name, most in limits.items():
        each = sorted((asked.get(name, Decimal(0)), count, least) for asked, count, least in counts)
        total = sum((amount * count for amount, count, _ in each), Decimal(0))
        start = sum((amount * least for amount, _, least in each), Decimal(0))
        left = together - sum(least for *_, least in each)
        for amount, count, least in each:  # the smallest first, so that only what never starts is called so
            more = max(0, min(left, count - least))
            start, left = start + amount * more, left - more
        unit, guarantee = "GPUs" if scheduler == "kai" else unit_name(name, pool), guarantees[name]
        asks, all_ask = f"asks for {start:g} {unit}{' together' * (together > 1)}", f"asks for {total:g} {unit}"
        kept, waits = f"{guarantee} are guaranteed to {team}", "its other pods may wait"
        if start > most:
            is_sure = scheduler not in work.unsure or each[0][0] > most
            level = None if is_sure else Level.UNKNOWN
            yield Reason("above-limit", f"{asks}, and {team} may use {most}", other_level=level)
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
            is_known = scheduler != "kai" or case.is_stopped is not None or total <= guarantee
            yield Reason("may-wait", text, other_level=None if is_known else Level.UNKNOWN)
