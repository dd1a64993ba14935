"""Whether one pod fits a node that a pool starts, or one that runs: the scheduler's questions, answered by the plan."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from gpupools.common.errors import enumeration, shown
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.common.taints import Effect, Taint
from gpupools.fit.offers import ZONE_LABEL, Offer, offered_units
from gpupools.fit.requests import is_extended, shown_amount
from gpupools.fit.workloads import CHANNEL, Level, Manifests, PodTemplate, Reason, Requirement, Verdict, Workload, maps
from gpupools.plan.fabric import channel_name
from gpupools.plan.hami import HAMI, HAMI_SCHEDULER
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.node_resources import ACCELERATOR_RESOURCES, FRACTION_ANNOTATIONS, GPU_RESOURCE, KAI_SCHEDULER
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.tolerations import holds, tolerates, untolerated
from gpupools.readback.inputs import at
from gpupools.stackfile.stack import StackPlan


class Context(NamedTuple):
    """What judges know beside pod and node."""

    plan: StackPlan
    manifests: Manifests = Manifests(())
    offers: Sequence[Offer] = ()
    """What the pools of the plan offer."""


@dataclass(eq=False)
class Case:
    """A pod of a template, and a node."""

    workload: Workload
    template: PodTemplate
    offer: Offer
    context: Context
    pool: PoolPlan = field(init=False)
    """The pool of the node."""

    def __post_init__(self) -> None:
        self.pool = self.offer.promise.pool

    @cached_property
    def claims(self) -> tuple[Mapping[str, int], Sequence[Reason]]:
        """How many devices of the node the pod claims for itself, by DeviceClass, and what is wrong with its claims.

        Devices of a ResourceClaim are of all pods that name it, and those with adminAccess are in use by others:
        https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/.
        """
        wanted: Counter[str] = Counter()
        shared: Counter[str] = Counter()
        reasons: list[Reason] = []
        others: list[tuple[JsonObject, str]] = []
        for entry in maps(self.template.spec.get("resourceClaims")):
            kind = "ResourceClaim" if entry.get("resourceClaimName") else _TEMPLATE
            name = entry.get("resourceClaimName") or entry.get("resourceClaimTemplateName")
            if not name:
                text = f"names no claim in resourceClaims {shown(entry.get('name'))}, which the API server rejects"
                reasons.append(Reason("invalid", f"{text}; set resourceClaimTemplateName"))
                continue
            pools = self.context.plan.pools if kind == _TEMPLATE else ()
            own = next((each[name] for each in map(_templates, pools) if name in each), None)
            devices = self.context.manifests.claims.get((kind, self.workload.namespace, name), own)
            if devices is None:
                text = f"claims devices by {kind} {name}, which is neither in the files nor in the plan"
                reasons.append(Reason("unknown-claim", f"{text}; give its file, or create it"))
            for request in maps((devices or {}).get("requests")):
                ways = maps(request.get("firstAvailable")) or [request.get("exactly") or request]
                known = [each for each in ways if each.get("deviceClassName") in self.offer.devices]
                known.sort(key=lambda each: bool(each.get("selectors")))
                if not known:
                    classes = enumeration(str(each.get("deviceClassName")) for each in ways)
                    has = enumeration(sorted(self.offer.devices)) if self.offer.devices else offered_units(self.pool)
                    text = f"{kind} {name} claims devices of {classes}, and the pool offers {has}"
                    others.append((entry, text))
                    continue
                if known[0].get("selectors") or (devices or {}).get("constraints"):
                    text = f"{kind} {name} selects devices by expression or constraint"
                    reasons.append(Reason("claim-selector", text))
                device_class, count = known[0]["deviceClassName"], known[0].get("count")
                if known[0].get("allocationMode") == "All":
                    count = self.offer.devices[device_class]
                if known[0].get("adminAccess") is not True:
                    (wanted if kind == _TEMPLATE else shared)[device_class] += count if isinstance(count, int) else 1
        for device_class, number in (wanted + shared).items():
            offered = self.offer.devices[device_class]
            if offered is not None and number > offered:
                text = f"claims {number} devices of {device_class}, and a node has {offered}"
                reasons.append(Reason("claim", text))
        patch = _claims_patch(self, [entry for entry, _ in others]) if others else {}
        return wanted, [*reasons, *(Reason("claim", text, patch) for _, text in others)]

    def reasons(self) -> Iterator[Reason]:
        """Yield every reason against the pod; preferred terms decide nothing and are ignored."""
        yield from (Reason("invalid", f"{what}; {fix}") for what, fix in self.template.asked.invalid)
        claims = self.claims[1] if "resourceClaims" in self.template.spec else ()
        yield from chain(_taints(self), _resources(self), _selection(self), claims, _runtime(self))
        yield from chain(_fabric(self), _trust(self), _schedulers(self), _undecided(self))


def judge(workload: Workload, template: PodTemplate, offer: Offer, context: Context) -> Verdict:
    """Return whether a pod of a template fits a node, with every reason against it."""
    return Verdict(offer.where, tuple(Case(workload, template, offer, context).reasons()))


def _taints(case: Case) -> Iterator[Reason]:
    tolerations = case.template.added_tolerations
    if any(case.workload.namespace in team.namespaces for team in case.context.plan.stack.teams.values()):
        tolerations = [*tolerations, *case.offer.flavor_tolerations]
    for taint in untolerated(tolerations, case.offer.taints):
        fix = [toleration for toleration in case.offer.pod["tolerations"] if tolerates([toleration], taint)]
        trust, space = case.pool.trust if taint.key == TRUST_LABEL else None, case.workload.namespace
        text = f"does not tolerate the taint {taint}"
        if trust is not None and space not in (trust.namespaces or ()) and _is_inside(case, trust.team) is False:
            text, fix = f"{text}, and the pool does not trust namespace {space}", []
        yield Reason("taint", text, _tolerating(case, fix) if fix else {})


def _tolerating(case: Case, more: Sequence[JsonObject]) -> JsonDict:
    """Return the tolerations of the pod with more of them: a strategic merge patch replaces the list."""
    return {"tolerations": [*case.template.tolerations, *more]}


def _resources(case: Case) -> Iterator[Reason]:
    pool, offer, asked = case.pool, case.offer, case.template.asked
    if case.template.has_fraction and pool.sharing.fractions is None:
        text = f"asks for a fraction of a GPU, and the pool offers {offered_units(pool)}"
        yield Reason("fraction", text, _units_patch(case))
    for name, amount in asked.amounts.items():
        offered = offer.amounts.get(name)
        if offered is not None and amount <= offered.sure and not is_extended(name):
            continue
        text = f"requests {shown_amount(name, amount)}"
        if offered is None and name.startswith(ACCELERATOR_RESOURCES):
            yield Reason("other-resource", f"{text}, and the pool offers {offered_units(pool)}", _units_patch(case))
        elif offered is None and is_extended(name) and not (offer.has_all_labels or _is_of_plan(name, case)):
            yield Reason("unknown-resource", f"requests {name}, which nothing in the plan offers")
        elif offered is None:
            yield Reason("other-resource", f"{text}, which the nodes do not offer")
        elif amount > offered.most:
            key = "too-many-units" if is_extended(name) else "too-large"
            yield Reason(key, f"{text}, and a node has {shown_amount(name, offered.most)}")
        elif amount > offered.sure:
            whole = shown_amount(name, offered.most)
            yield Reason("near-limit", f"{text} of the {whole} of a machine, of which the cloud reserves a part")
        if name == GPU_RESOURCE and pool.software == HAMI and amount > pool.instance.devices:
            text = f"{text}, which HAMi gives of different GPUs, and a node has {pool.instance.devices}"
            yield Reason("too-many-units", text)
        if name in offer.single_unit and asked.most_units[name] > 1:
            text = f"requests {asked.most_units[name]:f} shares of {name}, and the device plugin gives a container one"
            unit = {"containers": [{"resources": {"limits": {name: 1}}}]}
            yield Reason("several-shares", text, _patch(case, unit, instead_of=(name,)))
    if offer.pods is not None and offer.pods < 1:
        yield Reason("pods", "the node has its maximum of pods")


def _is_of_plan(resource: str, case: Case) -> bool:
    """Return whether another pool offers a resource beside its GPUs, such as RDMA interfaces."""
    return any(resource in pool.provider_plan.extra_resources() for pool in case.context.plan.pools)


def _claims_patch(case: Case, others: Sequence[JsonObject]) -> JsonDict:
    """Return the pool's claim template in the place of claims of other devices, or its units where it has none."""
    own = case.pool.pod(gpu_only=True).get("resourceClaims")
    if not own:
        return _units_patch(case, [str(each.get("name")) for each in others])
    return {"resourceClaims": [{**dict.fromkeys(each), **own[0], "name": each.get("name")} for each in others]}


def _units_patch(case: Case, without: Sequence[str] = ()) -> JsonDict:
    """Return what asks for one unit of the pool, as its exported pod does, instead of what the pod asks for."""
    is_fractional = case.pool.sharing.fractions is not None
    model = case.pool.pod(gpu_only=not is_fractional)
    # The API server tolerates only a taint whose key is the requested resource.
    model["tolerations"] = [each for each in model["tolerations"] if each["key"] != TRUST_LABEL]
    fraction = FRACTION_ANNOTATIONS[0]
    annotations = {key: None for key in case.template.annotations if key.startswith(FRACTION_ANNOTATIONS)}
    annotations = {fraction: case.template.annotations.get(fraction, "0.5")} if is_fractional else annotations
    keys = ("schedulerName", "runtimeClassName", "resourceClaims", "volumes")
    return {
        **({"metadata": {"annotations": annotations}} if annotations else {}),
        **_tolerating(case, model["tolerations"]),
        **_patch(case, model, *keys, instead_of=ACCELERATOR_RESOURCES, without=without),
    }


def _patch(
    case: Case, model: JsonObject, *keys: str, instead_of: tuple[str, ...] = (), without: Sequence[str] = ()
) -> JsonDict:
    """Return some keys of a pod, and what its first container has for the one that asks for GPUs.

    Other containers that ask for resources with one of the beginnings `instead_of`, or have claims of the names
    `without`, get it instead of these. Lines to remove are None. Where a node has fewer units than containers ask, the
    last ones get none.
    """
    patch = {key: model[key] for key in keys if key in model}
    gone = [{"$patch": "delete", "name": name} for name in without]
    patch |= {"resourceClaims": [*patch.get("resourceClaims", ()), *gone]} if gone else {}
    left = case.pool.instance.devices if case.pool.software == HAMI else case.pool.units
    for key in ("containers", "initContainers"):
        for container in maps(case.template.spec.get(key)):
            given, name = mapping(container.get("resources")), container.get("name", "main")
            changed: JsonDict = {}
            claims = maps(given.get("claims"))
            kept = [each for each in claims if each.get("name") not in without]
            if len(kept) < len(claims):
                changed["claims"] = kept or None
            for part in ("limits", "requests"):
                if old := [name for name in mapping(given.get(part)) if str(name).startswith(instead_of)]:
                    changed[part] = dict.fromkeys(old)
            if changed or (key == "containers" and name == case.template.gpu_container):
                new = model["containers"][0] if left else {}
                left -= bool(left)
                for part, lines in mapping(new.get("resources")).items():
                    changed[part] = [*kept, *lines] if part == "claims" else {**changed.get(part, {}), **lines}
                own = {"resources": changed} if changed else {}
                patch.setdefault(key, []).append({**new, **own, "name": name})
    return patch


def _selection(case: Case) -> Iterator[Reason]:
    selected = mapping(case.template.spec.get("nodeSelector"))
    for index, terms in enumerate(case.template.selections):
        yield from _unmet(terms, case, is_affinity=index == len(selected))


def _unmet(terms: Sequence[Sequence[Requirement]], case: Case, *, is_affinity: bool) -> Iterator[Reason]:
    """Yield why a node meets all requirements of no term."""
    offer = case.offer
    answers = [[(each, _meets(*each, offer)) for each in term] for term in terms if term]
    if any(all(is_met is True for _, is_met in term) for term in answers):
        return
    open_terms = [term for term in answers if all(is_met is not False for _, is_met in term)]
    # A term that nothing decides is the answer; without one, the first requirement that fails.
    unmet = next((each for term in open_terms or answers for each, is_met in term if is_met is not True), None)
    if unmet is None:
        yield Reason("selector", "requires a node affinity whose terms match no node")
        return
    key, operator, values = unmet
    is_one = operator == "In" and len(values) == 1
    text = f"selects {key}={values[0]}" if is_one else f"selects {key} {operator} {', '.join(map(str, values))}".strip()
    if open_terms and key == "metadata.name":
        yield Reason("node-name", f"{text}, and the cloud names the nodes")
    elif open_terms:
        text = f"{text}, which the cloud or GPU software may write on running nodes"
        yield Reason("unknown-label", f"{text}; select {POOL_LABEL}={offer.pool.name} instead")
    else:
        value = offer.labels.get(key)
        has = f"has {key}={value}" if isinstance(value, str) else "does not have this label"
        has = "gets another value from the cloud" if isinstance(value, re.Pattern) else has
        yield Reason("selector", f"{text}, and the pool {has}", _selecting(case, terms, is_affinity=is_affinity))


def _selecting(case: Case, terms: Sequence[Sequence[Requirement]], *, is_affinity: bool) -> JsonDict:
    """Return the lines that select the pool instead of labels that other pools have; empty where terms ask for more."""
    labels, pools = case.pool.labels, case.context.plan.pools
    for index, term in enumerate(terms):
        unmet = [each for each in term if _meets(*each, case.offer) is False]
        of_pools = (operator == "In" and any(key in pool.labels for pool in pools) for key, operator, _ in unmet)
        if not unmet or not all(of_pools):
            continue
        selected = [(key, labels[key]) if key in labels else (POOL_LABEL, case.pool.name) for key, *_ in unmet]
        if is_affinity:
            return case.template.with_labels(index, unmet, selected)
        return {"nodeSelector": {unmet[0][0]: None, **dict(selected)}}
    return {}


def _meets(key: str, operator: str, values: Sequence[object], offer: Offer) -> bool | None:
    """Return whether a node meets a requirement of its labels or its name; None if that is not known."""
    texts = {str(value).lower() if isinstance(value, bool) else str(value) for value in values}
    is_name = key == "metadata.name"
    value = offer.where if is_name and offer.has_all_labels else offer.labels.get(key)
    if isinstance(value, re.Pattern):
        return None if operator != "In" or any(map(value.fullmatch, texts)) else False
    if key == ZONE_LABEL and value is None and offer.zones and operator == "In":
        return bool(texts & {*offer.zones})
    if value is None and (is_name or offer.may_have_label(key)):
        return None
    return holds({"operator": operator, "values": texts}, value)


_TEMPLATE = "ResourceClaimTemplate"


def _templates(pool: PoolPlan) -> JsonDict:
    """Return the devices of the claim templates that a pool's namespaces need, and that a ComputeDomain makes."""
    items = [item for item in (*pool.namespace_objects, pool.claim_template) if item.get("kind") == _TEMPLATE]
    found = {item["metadata"]["name"]: item["spec"]["spec"]["devices"] for item in items}
    return found | ({channel_name(pool.name): CHANNEL} if pool.compute_domains else {})


def _runtime(case: Case) -> Iterator[Reason]:
    named, needed, mount = case.template.spec.get("runtimeClassName"), case.pool.runtime_class, case.pool.driver_mount
    if isinstance(named, str) and named and named not in case.offer.runtime_classes:
        yield Reason("unknown-class", f"names the RuntimeClass {named}, which nothing in the plan makes")
    elif case.template.asks_for_devices and needed is not None and named != needed:
        text = f"does not name the RuntimeClass {needed}, without which its containers see no GPU"
        yield Reason("runtime-class", text, {"runtimeClassName": needed})
    paths = [at(each, "hostPath.path") for each in maps(case.template.spec.get("volumes"))]
    if case.template.asks_for_devices and mount is not None and mount.host not in paths:
        model = case.offer.pod
        mounts = {key: model["containers"][0][key] for key in ("name", "env", "volumeMounts")}
        patch = _patch(case, {**model, "containers": [mounts]}, "volumes")
        yield Reason("driver-mount", f"does not mount the driver from {mount.host}", patch)


def _fabric(case: Case) -> Iterator[Reason]:
    """Yield that a pod has all GPUs of a node and none of its RDMA interfaces, which only slows it down."""
    fabric, node_pod = case.pool.provider_plan.fabric, case.pool.node_pod
    if fabric is None or not node_pod:
        return
    has: dict[str, Decimal | int] = {**case.template.asked.amounts, **case.claims[0]}
    has_all = any(has.get(name, 0) >= count for name, count in case.pool.countable.items())
    if has_all and not {fabric.resource, fabric.device_class} & has.keys():
        text = "has all GPUs of a node without its RDMA interfaces, so jobs on several nodes use the slower network"
        box = node_pod["containers"][0]
        more = {key: each for key, each in box["resources"].get("limits", {}).items() if key not in case.pool.countable}
        model = {**node_pod, "containers": [{**box, "resources": {**box["resources"], "limits": more}}]}
        yield Reason("no-fabric", text, _patch(case, model, "resourceClaims"))


def _trust(case: Case) -> Iterator[Reason]:
    """Yield what is against a pod of a namespace that a pool does not trust, or that nothing keeps it off.

    The policies of `data/trust_policies.yaml` judge a pod for all nodes of their cluster.
    """
    tolerations, space, trust = case.template.tolerations, case.workload.namespace, case.pool.trust
    own = trust.mark(case.pool.name) if trust is not None else None
    for mark in dict.fromkeys([*case.offer.trust_policies, *filter(None, [own])]):
        policy, taint = case.offer.trust_policies.get(mark), Taint(TRUST_LABEL, mark, Effect.NO_SCHEDULE)
        spaces, team = (trust.namespaces or (), trust.team) if trust is not None else ((), None)
        if not tolerates(tolerations, taint):
            continue
        if policy is not None:
            named, *labelled = policy["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            spaces, team = named["values"], labelled[0]["values"][0] if labelled else None
        by_name = [each for each in tolerations if each.get("key")]
        if space in spaces:
            continue
        if policy is not None and not tolerates(by_name, taint) and not case.template.asks_for_gpus:
            text = "tolerates every taint, and an admission policy rejects it unless it can reach no GPU"
            yield Reason("admission", text, other_level=Level.UNKNOWN)
            continue
        is_inside, text = _is_inside(case, team), f"tolerates the taint {taint}, is in namespace {space}"
        if is_inside is None:
            text += f", which needs the label {TRUST_LABEL}={mark}; give its manifest, too"
            yield Reason("unknown-namespace", text, other_level=Level.FITS if policy is None else None)
        elif not is_inside and policy is None:
            text += ", which the pool does not trust, and nothing enforces that; runtime.trust_policy: true does"
            yield Reason("trust", text)
        elif not is_inside:
            yield Reason("admission", f"{text}: an admission policy rejects it on the whole cluster")


def _is_inside(case: Case, team: str | None) -> bool | None:
    """Return whether a namespace is one of a team, by its label; None if that is not known."""
    space, teams = case.workload.namespace, case.context.plan.stack.teams
    labels = case.context.manifests.namespaces.get(space)
    if team is None or (labels is not None and TRUST_LABEL in labels):
        return team is not None and labels is not None and labels[TRUST_LABEL] == team
    if team in teams and space in teams[team].namespaces:
        return True
    return None if labels is None else False


def _schedulers(case: Case) -> Iterator[Reason]:
    name, there = case.template.spec.get("schedulerName") or "default-scheduler", case.offer.schedulers
    if name in there:
        return
    text = f"names the scheduler {shown(name)}, which"
    if name in (KAI_SCHEDULER, HAMI_SCHEDULER, "volcano"):
        text = f"{text} the cluster does not have; use {enumeration(sorted(there), 'or')}"
        yield Reason("scheduler-name", text, {"schedulerName": min(there)})
    else:
        yield Reason("unknown-scheduler", f"{text} nothing in the plan installs")


def _undecided(case: Case) -> Iterator[Reason]:
    """Yield what decides about the pod beside the node."""
    spec, needs = case.template.spec, case.template.needs_other_pods
    yield from (Reason("other-pods", f"requires {each}: where other pods run decides") for each in needs)
    for volume in maps(spec.get("volumes")):
        if {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            text = f"mounts the volume claim of {shown(volume.get('name'))}, whose volume may be bound to a zone"
            yield Reason("volume", text)
    if spec.get("schedulingGates"):
        yield Reason("gates", "has scheduling gates, which a controller has to remove first")
    if spec.get("nodeName") and not case.offer.has_all_labels:
        yield Reason("node-name", f"names its node {shown(spec['nodeName'])}, so no scheduler decides")
    for name in case.context.manifests.webhooks:
        yield Reason("webhook", f"the MutatingWebhookConfiguration {name} may change the pod")
