"""Why pods wait for GPUs: the plan's verdict, the nodes that run, and what scheduler and autoscaler say.

What is wrong with nodes and pools is `ready`'s to say: its findings are the one table of causes.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from shlex import quote
from typing import NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.fit.counting import Costs, needs
from gpupools.fit.live import Gang, Live, NodeOffers, alike, group_of, node_offers
from gpupools.fit.offers import Offer, offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import Sharing, sharing_of, team_reasons
from gpupools.fit.workloads import LEVELS, REASONS, Level, PodTemplate, Verdict, Workload
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.readback.inputs import at
from gpupools.ready.causes import Finding, Seen, findings
from gpupools.ready.evidence import ANSWERS, BOOT, is_recent, last_seen, of_autoscaler, of_event
from gpupools.ready.pool_status import PoolStatus, pool_command
from gpupools.ready.pool_status import judge as judge_pools
from gpupools.ready.same_cluster import OwnGroup, own_group
from gpupools.ready.snapshot import Snapshot, condition, full_name
from gpupools.software.kueue import GROUP as KUEUE
from gpupools.stackfile.stack import StackPlan

NO_POD = "no-pod"
_BESIDE = ("API server", "admission policy", "container runtime", "device plugin")  # decide before or after schedulers
_TRIGGERED = "TriggeredScaleUp"
_LAUNCH = ("quota", "no-capacity", "quota-or-capacity")  # causes of `ready` for which no machine starts
# Only where it is the autoscaler's one reason: it says so of any node group, also of those that the pod does not fit.
# https://github.com/kubernetes/autoscaler tag cluster-autoscaler-1.34.5, core/scaleup/orchestrator/orchestrator.go
_AT_MAX = re.compile(r"pod didn't trigger scale-up: \d+ max (node group size|cluster [^:]+ limit) reached")
_REFUSED = {"exceeded quota": "plan", "failed calling webhook": "cluster", "RuntimeClass": "cluster"}
"""Text of a pod that cannot be created to what disagrees; else it is the pod."""
_WORKLOADS = {"kai-scheduler": "podgroups.scheduling.run.ai", "volcano": "podgroups.scheduling.volcano.sh"}
"""Scheduler of teams to the objects in which it says why pods wait."""
_COMPARE = "kubectl -n {space} get pod {name} -o yaml > pod.yaml && gpupools fit pod.yaml --stack {file}"
# https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins/volumebinding
_VOLUMES = re.compile("persistentvolumeclaim|volume node affinity conflict|persistent volumes", re.IGNORECASE)


class Answer(NamedTuple):
    """Why a pod waits, or that it does not."""

    pod: str
    disagrees: str
    """`plan` (too small), `cluster` (differs from the plan), `pod` (asks for what no pool offers); empty if unknown."""
    key: str
    """Of `data/fit_reasons.csv`, or a cause of `ready`."""
    where: str
    """The pool it is about."""
    text: str
    next: str
    details: tuple[str, ...] = ()
    """The pools that may take it with their nodes, what scheduler and autoscaler said last, and what was not seen."""
    number: int = 1
    """Pods that wait for the same reason at the same pool."""

    @property
    def level(self) -> Level:
        """`fits` only of a pod that has a node."""
        return Level.UNFIT if self.disagrees else Level.FITS if self.key == "placed" else Level.UNKNOWN

    def lines(self) -> Iterator[str]:
        """Yield the answer for people."""
        more = f" and {self.number - 1} more" if self.number > 1 else ""
        word = self.disagrees or ("" if self.level is Level.FITS else self.level.value)
        yield ": ".join(filter(None, [f"{self.pod}{more}", word, self.text]))
        yield from (f"  {text}" for text in (*self.details, *[f"next: {self.next}"] * bool(self.next)))

    def as_json(self) -> JsonDict:
        """Return the answer as JSON types."""
        return {**self._asdict(), "answer": self.level.value}


class Given(NamedTuple):
    """What pods of a cluster are judged by, beside what was read."""

    plan: StackPlan
    key: str
    """Of the cluster."""
    clouds: Mapping[str, Cloud]
    file: str
    """The stack file, for commands."""

    def find(self, seen: Iterable[Seen]) -> Sequence[Finding]:
        """Return the causes of what was seen, of `ready`'s table."""
        cluster = self.plan.stack.clusters[self.key]
        return findings(seen, self.clouds.values(), self.file, pool_command(cluster, self.clouds[cluster.cloud]))

    def own_group(self, offer: Offer) -> OwnGroup:
        """Return what knows the node group of a pool."""
        cluster = self.plan.stack.clusters[self.key]
        return own_group(offer.pool, cluster, self.clouds[cluster.cloud])


def grouped(found: Iterable[Answer]) -> list[Answer]:
    """Return one answer for all pods of the same reason and pool, the most frequent first."""
    groups: dict[tuple[str, str, str], Answer] = {}
    for each in found:
        key = each.disagrees, each.key, each.where
        groups[key] = groups[key]._replace(number=groups[key].number + 1) if key in groups else each
    return sorted(groups.values(), key=lambda each: -each.number)


_Pool = tuple[Offer, PoolStatus, Sequence[NodeOffers]]
"""A pool with what each of its nodes offers."""


def answers(live: Live, given: Given, pod: str = "") -> list[Answer]:
    """Return why one pod, `namespace/name`, or each that requests GPUs and has no node, waits; alike pods alike."""
    cluster, snapshot = given.plan.stack.clusters[given.key], live.snapshot
    own = [offer for offer in offers(given.plan) if offer.pool.cluster == given.key]
    statuses = judge_pools([offer.promise for offer in own], snapshot, cluster, given.clouds, given.file)
    for found in (each for status in statuses for each in status.findings if each.cause.key == "wrong-cluster"):
        return [_by_finding(pod or given.key, found, found.message, "")]
    nodes = [snapshot.nodes_of_pool.get(offer.pool.name, ()) for offer in own]
    offered = [[node_offers(node, offer, live) for node in of] for offer, of in zip(own, nodes, strict=True)]
    pools, sharing = list(zip(own, statuses, offered, strict=True)), sharing_of(given.plan)
    costs = Costs(given.plan, given.clouds)
    pods = [_Pod(each, live, given, pools, sharing, costs) for each in live.pods]
    waiting = [each for each in pods if pod or (each.template.asks_for_gpus and not each.spec.get("nodeName"))]
    known: dict[Hashable, Answer] = {}
    answered = [known.get(each.like) or known.setdefault(each.like, each.answer()) for each in waiting]
    answered += [_missing(pod, snapshot, given)] if pod and not live.pods else []
    unseen = [f"not seen: {kind}: {why}" for kind, why in snapshot.unseen.items()]
    return [each._replace(details=(*each.details, *unseen)) for each in answered]


def _by_finding(pod: str, found: Finding, text: str, where: str, disagrees: str = "cluster") -> Answer:
    cause = found.cause
    cure = f"; {cause.cure}" if cause.cure else ""
    return Answer(pod, disagrees, cause.key, where, f"{cause.title}: {text}{cure}", found.next)


def _missing(pod: str, snapshot: Snapshot, given: Given) -> Answer:
    """Answer for a pod that does not exist: perhaps what makes it could not."""
    space, _, name = pod.partition("/")
    for (kind, of, owner), events in snapshot.events_of.items():
        if of == space and f"{name}-".startswith(f"{owner}-") and (last := _newest(events, "FailedCreate")):
            for found in given.find(of_event(last, snapshot)):
                word = next((_REFUSED[text] for text in _REFUSED if text in found.message), "pod")
                return _by_finding(pod, found, f"{kind} {owner} cannot create it: {found.message}", "", word)
    text = f"{REASONS[NO_POD]['title']}; see kubectl -n {quote(space)} get pods,events"
    return Answer(pod, "", NO_POD, "", text, "")


def _newest(events: Iterable[JsonObject], *reasons: str) -> JsonObject:
    """Return the newest event of some reasons; empty if there is none."""
    found = (each for each in events if each.get("reason") in reasons)
    return max(found, key=lambda each: str(last_seen(each) or ""), default={})


class _Pod:
    def __init__(
        self,
        pod: JsonObject,
        live: Live,
        given: Given,
        pools: Sequence[_Pool],
        sharing: Mapping[str, Sharing],
        costs: Costs,
    ) -> None:
        self.sharing, self.costs = sharing, costs
        self.name, self.spec, self.status = full_name(pod), pod["spec"], pod["status"]
        self.snapshot, self.given, self.pools, meta = live.snapshot, given, pools, pod["metadata"]
        self.context = Context(given.plan, live.manifests, [offer for offer, *_ in pools])
        same, alone = alike(pod), PodTemplate("", None, meta, self.spec)
        self.gang = live.gangs.get(group_of(pod), Gang(0, {}))
        templates = self.gang.templates if same in self.gang.templates else {same: alone}
        self.template, gangs = templates[same], dict.fromkeys(("kai", "volcano", "kueue"), self.gang.least)
        self.workload = Workload(
            "Pod", meta["name"], meta["namespace"], "", None, meta, tuple(templates.values()), gangs
        )
        events = self.snapshot.events_of.get(("Pod", meta["namespace"], meta["name"]), ())
        # A pod of the same name may have been there before.
        self.events = [each for each in events if at(each, "involvedObject.uid") in (None, meta.get("uid"))]
        self.failed = _newest(self.events, "FailedScheduling")
        self.refused = str(condition(pod, "PodScheduled").get("message") or self.failed.get("message", ""))
        self.autoscaler = _newest(self.events, *ANSWERS)
        self.like = group_of(pod), same, self.refused, self.autoscaler.get("message")

    def answer(self) -> Answer:
        scheduler, has = self.spec.get("schedulerName"), {name for offer, *_ in self.pools for name in offer.schedulers}
        gates = [each["name"] for each in self.spec.get("schedulingGates") or ()]
        of_kueue = ", ".join(each for each in gates if each.startswith(KUEUE))
        says_quota = scheduler in _WORKLOADS and "quota" in self.refused
        ended = ": ".join(filter(None, map(self.status.get, ("phase", "reason", "message"))))
        anywhere = {
            "placed": self.spec.get("nodeName", "") if self.status.get("phase") == "Pending" else ended,
            "of-teams": of_kueue or (self.refused if says_quota else ""),
            "gates": ", ".join(gates),
            "no-scheduler": scheduler if scheduler not in has and not self.refused else "",
            "unbound-volume": self.refused if _VOLUMES.search(self.refused) else "",
            "preempting": self.status.get("nominatedNodeName", ""),
        }
        states = (self._says(key, text) for key, text in anywhere.items() if text)
        found = (
            (self._by_shares() if not anywhere["placed"] and (scheduler in _WORKLOADS or of_kueue) else None)
            or next(states, None)
            or min(map(self._in_pool, self.pools), key=lambda each: each[0])[1]
        )
        return found if found.level is Level.FITS else found._replace(details=tuple(self._details(found.where)))

    def _by_shares(self) -> Answer | None:
        """Return why a scheduler of teams never starts the pod or its gang on a pool that the pod fits."""
        fitting = [offer for offer, *_ in self.pools if self._judged(offer).level is not Level.UNFIT]
        never, who = list[Answer](), "its gang" if self.gang.least else "the pod"
        for offer in fitting:
            reasons = [*team_reasons(self.workload, self.template, offer, self.context, self.sharing)]
            reasons += needs(self.workload, self.template, offer, self.context, self.costs).reasons
            unfit = [each for each in reasons if each.level is Level.UNFIT and REASONS[each.key]["by"] not in _BESIDE]
            never += [self._says(each.key, f"{who} {each.text}", offer.where, "pod") for each in unfit[:1]]
        return never[0] if never and len(never) == len(fitting) else None

    def _says(self, key: str, text: str, where: str = "", disagrees: str = "") -> Answer:
        """Return a reason of the table with its title, and the next command of its row or by what disagrees."""
        row, (space, name) = REASONS[key], map(quote, self.name.split("/"))
        disagrees = disagrees or (row["by"] if row["by"] in ("plan", "cluster", "pod") else "")
        command = row["next"] or (_COMPARE if disagrees == "pod" else "kubectl -n {space} describe pod {name}")
        kind = _WORKLOADS.get(self.spec.get("schedulerName", ""), f"workloads.{KUEUE}")
        words = {"space": space, "name": name, "file": quote(self.given.file), "pool": where.partition("/")[2]}
        return Answer(self.name, disagrees, key, where, f"{row['title']}: {text}", command.format(**words, kind=kind))

    def _judged(self, offer: Offer) -> Verdict:
        """Return what decides where a pod may be that the API server has let in, the strongest reason first."""
        there = offer._replace(schedulers=offer.schedulers | {self.spec.get("schedulerName") or "default-scheduler"})
        found = judge(self.workload, self.template, there, self.context).reasons
        reasons = (each for each in found if REASONS[each.key]["by"] not in _BESIDE)
        return Verdict(offer.where, tuple(sorted(reasons, key=lambda each: LEVELS.index(each.level))))

    def _in_pool(self, pool: _Pool) -> tuple[int, Answer]:
        """Return what stops the pod at a pool, with a rank: the lowest can be acted on first."""
        (offer, status, nodes), where, plan = pool, pool[0].where, self._judged(pool[0])
        real, empty = [self._judged(each.now) for each in nodes], [self._judged(each.empty) for each in nodes]
        # Nodes that are there show what the plan does not know: what the cloud reserves, and labels.
        best = min(empty or [plan], key=lambda each: (-LEVELS.index(each.level), len(each.reasons)))
        if best.level is Level.UNFIT and plan.reasons and plan.reasons[0].key == "unknown-label":
            best = plan
        elif best.level is Level.UNFIT and all(each.level is Level.UNFIT for each in real):
            is_other = (self.spec.get("nodeSelector") or {}).get(POOL_LABEL) != offer.pool.name
            key, text = best.reasons[0].key, f"the pod {best.reasons[0].text}; {where} is the nearest pool"
            key, word = (key, "pod") if self.template.asks_for_gpus else ("no-gpu", "")
            return 5 + 99 * is_other + len(best.reasons), self._says(key, text, where, word)
        needed = {"pods", *(["resourceclaims"] if self.spec.get("resourceClaims") else [])}
        if nodes and needed & self.snapshot.unseen.keys():
            return 1, self._says("not-seen", f"what other pods hold of the nodes of {where}", where)
        if room := next((each.where for each in real if each.level is Level.FITS), ""):
            by_teams = "of-teams" if self.spec.get("schedulerName") in _WORKLOADS else "contradiction"
            return 0, self._says(by_teams if self.refused else "not-looked-at", f"{room} of {where} has room", where)
        for doubt in (each for each in real or [plan] if each.level is Level.UNKNOWN):
            return 2, self._says(doubt.reasons[0].key, f"{doubt.where}: the pod {doubt.reasons[0].text}", where)
        differ = [f"Node {each.now.where}" for each in nodes if self._judged(each.planned).level is not Level.UNFIT]
        for lack in (each for each in status.short if each.partition(":")[0] in differ):
            node = lack.partition(":")[0]
            found = next((each for each in status.findings if each.object == node), status.findings[0])
            return 1, _by_finding(self.name, found, lack if found.object == node else found.message, where)
        if differ:  # nodes that boot break no promise
            return 1, self._says("scaling-up", f"{differ[0]} of {where} boots", where)
        if best is plan and plan.level is Level.UNKNOWN:
            return 2, self._says(plan.reasons[0].key, f"{where}: the pod {plan.reasons[0].text}", where)
        nearest = min(real, key=lambda each: len(each.reasons), default=None)
        full = f"{where} has {len(nodes)}" + (f"; on {nearest.where}: {nearest.reasons[0].text}" if nearest else "")
        if len(nodes) < offer.pool.max_nodes:
            return 3, self._no_node(offer, status, full)
        return 4, self._says("at-max", full, where)

    def _no_node(self, offer: Offer, status: PoolStatus, full: str) -> Answer:
        started = last_seen(_newest(self.events, _TRIGGERED))
        seen = list(of_autoscaler(self.given.own_group(offer), self.snapshot))
        for event in (each for each in self.events if each.get("reason") in ANSWERS):
            seen += (each._replace(since=last_seen(event)) for each in of_event(event, self.snapshot))
        # What was said before the last start of a node is over.
        seen = [each for each in seen if not (started and each.since and each.since < started)]
        key = "not-seen" if "events" in self.snapshot.unseen else "not-triggered" if self.refused else "not-looked-at"
        key = "other-max" if _AT_MAX.fullmatch(self.autoscaler.get("message", "")) else key
        if self.autoscaler.get("reason") == _TRIGGERED and (not started or is_recent(started, self.snapshot, BOOT)):
            key = "scaling-up"
        is_open = key in ("other-max", "scaling-up", "not-looked-at")
        causes = _LAUNCH if is_open else (*_LAUNCH, "no-autoscaler", "no-scale-up")
        # A node without the label of its pool waits for nothing.
        causes = ("label-or-taint", *causes) if status.nodes < offer.pool.min_nodes else causes
        found = [each for each in (*self.given.find(seen), *status.findings) if each.cause.key in causes]
        if not found:
            return self._says(key, full, offer.where)
        first = min(found, key=lambda each: causes.index(each.cause.key))
        word = "plan" if first.cause.key == "quota" else "cluster"
        return _by_finding(self.name, first, f"{first.object}: {first.message}", offer.where, word)

    def _details(self, where: str) -> Iterator[str]:
        """Yield the pools that may take the pod with their nodes, and what scheduler and autoscaler said last."""
        for offer, status, nodes in self.pools:
            verdict = judge(self.workload, self.template, offer, self.context)
            if verdict.level is not Level.UNFIT or verdict.where == where:
                reasons = "; ".join(each.text for each in verdict.reasons if each.level is verdict.level)
                how = "takes it" if verdict.level is Level.FITS else f"{verdict.level.value}: {reasons}"
                resource, count = next(iter(offer.pool.node_resources.items()), ("", 0))
                amounts = [each.now.amounts.get(resource) for each in nodes]
                left = sum(max(each.sure, Decimal(0)) for each in amounts if each)
                is_unknown = not resource or "pods" in self.snapshot.unseen
                free = "" if is_unknown else f", {left:g} of {count * len(nodes)} {resource} free"
                yield f"{offer.where} {how}; {len(nodes)} of {offer.pool.max_nodes} nodes run{free}"
                yield from (f"  {each}" for each in status.short if each.startswith("Node "))
        said = ("scheduler", self.failed, self.refused), ("autoscaler", self.autoscaler, self.autoscaler.get("message"))
        for who, event, text in (each for each in said if each[2]):
            now, then = self.snapshot.now, last_seen(event)
            age = f", {int((now - then).total_seconds() / 60)} min ago" if now and then else ""
            yield f"{who}{age}: {text}"
