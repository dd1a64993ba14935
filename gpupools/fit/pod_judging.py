"""Whether one pod fits a node that a pool starts, or one that runs: the scheduler's questions, answered by the plan."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import enumeration, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.fit.offers import ZONE_LABEL, Offer, offered_units
from gpupools.fit.pod_admission import maps, namespace_reasons
from gpupools.fit.requests import Requests, is_extended, shown_amount
from gpupools.fit.workloads import Level, Manifests, PodTemplate, Reason, Verdict, Workload
from gpupools.plan.fabric import CHANNEL_CLASS, channel_name
from gpupools.plan.hami import HAMI, HAMI_SCHEDULER
from gpupools.plan.node_resources import ACCELERATOR_RESOURCES, FRACTION_ANNOTATIONS, GPU_RESOURCE, KAI_SCHEDULER
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.tolerations import tolerates, untolerated
from gpupools.readback.inputs import at
from gpupools.stackfile.stack import StackPlan

REASONS: Mapping[str, Mapping[str, str]] = {row["key"]: row for row in data_rows("fit_reasons.csv")}
"""The one table of reasons, by key; `by` says who decides, and `message` what the scheduler says of it."""


class Context(NamedTuple):
    """What judges know beside pod and node."""

    plan: StackPlan
    manifests: Manifests = Manifests(())


def judge(workload: Workload, template: PodTemplate, offer: Offer, context: Context) -> Verdict:
    """Return whether a pod of a template fits a node, with every reason against it.

    Preferred terms decide nothing and are ignored.
    """
    asked = template.asked
    reasons = chain(
        (Reason("invalid", Level.UNFIT, f"{what}; {fix}") for what, fix in asked.invalid),
        _taints(template.spec, asked, offer),
        _resources(template, asked, offer),
        _selection(template.spec, offer),
        _claims(workload, template.spec, offer, context),
        _runtime(template, asked, offer),
        _fabric(workload, template, asked, offer, context),
        namespace_reasons(workload, template, offer, context.manifests, context.plan.stack.teams),
        _schedulers(template, offer),
        _undecided(template.spec, offer, context),
    )
    return Verdict(offer.where, tuple(reasons))


def asks_for_gpus(template: PodTemplate) -> bool:
    """Return whether a pod asks for a GPU or another accelerator, by a resource, a claim or a fraction."""
    asked = template.asked.amounts
    return (
        any(name.startswith(ACCELERATOR_RESOURCES) for name in asked)
        or bool(template.spec.get("resourceClaims"))
        or any(key in annotations_of(template) for key in FRACTION_ANNOTATIONS)
    )


def annotations_of(template: PodTemplate) -> JsonObject:
    """Return the annotations of the pods."""
    found = template.metadata.get("annotations")
    return found if isinstance(found, Mapping) else {}


def _taints(spec: JsonObject, asked: Requests, offer: Offer) -> Iterator[Reason]:
    # What ExtendedResourceToleration adds: EKS, AKS and GKE have it (docs/reference/stack-file.md).
    added = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in asked.amounts if is_extended(name)]
    given = maps(spec.get("tolerations"))
    for taint in untolerated([*given, *added], offer.taints):
        fix = [toleration for toleration in offer.pool.pod()["tolerations"] if tolerates([toleration], taint)]
        text = f"does not tolerate the taint {taint}"
        yield Reason("taint", Level.UNFIT, text, {"tolerations": fix} if fix else {})


def _resources(template: PodTemplate, asked: Requests, offer: Offer) -> Iterator[Reason]:
    pool, has_fraction = offer.pool, any(key in annotations_of(template) for key in FRACTION_ANNOTATIONS)
    if has_fraction and pool.sharing.fractions is None:
        text = f"asks for a fraction of a GPU, and the pool offers {offered_units(pool)}"
        yield Reason("fraction", Level.UNFIT, text, _units_patch(template, offer))
    for name, amount in asked.amounts.items():
        offered, text, units = offer.amounts.get(name), f"requests {shown_amount(name, amount)}", asked.most_units
        if offered is None and name.startswith(ACCELERATOR_RESOURCES):
            text = f"{text}, and the pool offers {offered_units(pool)}"
            yield Reason("other-resource", Level.UNFIT, text, _units_patch(template, offer))
        elif offered is None and is_extended(name) and not offer.has_all_labels:
            yield Reason("unknown-resource", Level.UNKNOWN, f"requests {name}, which nothing in the plan offers")
        elif offered is None:
            yield Reason("other-resource", Level.UNFIT, f"{text}, which the nodes do not offer")
        elif amount > offered.most:
            key = "too-many-units" if is_extended(name) else "too-large"
            yield Reason(key, Level.UNFIT, f"{text}, and a node has {shown_amount(name, offered.most)}")
        elif amount > offered.sure:
            text = f"{text} of the {shown_amount(name, offered.most)} of a machine, of which the cloud reserves a part"
            yield Reason("near-limit", Level.UNKNOWN, text)
        if name == GPU_RESOURCE and pool.software == HAMI and amount > pool.instance.devices:
            text = f"{text}, which HAMi gives of different GPUs, and a node has {pool.instance.devices}"
            yield Reason("too-many-units", Level.UNFIT, text)
        if name in offer.single_unit and units[name] > 1:
            text = f"requests {units[name]:f} shares of {name}, and the device plugin gives a container one"
            patch = {"containers": [{"name": template.gpu_container, "resources": {"limits": {name: 1}}}]}
            yield Reason("several-shares", Level.UNFIT, text, patch)
    if offer.pods is not None and offer.pods < 1:
        yield Reason("pods", Level.UNFIT, "the node has its maximum of pods")


def _units_patch(template: PodTemplate, offer: Offer) -> JsonDict:
    """Return what asks for one unit of the pool, as its exported pod does, for the container that asks for GPUs."""
    model = offer.pool.pod(gpu_only=offer.pool.sharing.fractions is None)
    keys = ("schedulerName", "resourceClaims")
    container = {**model["containers"][0], "name": template.gpu_container}
    return {**{key: model[key] for key in keys if key in model}, "containers": [container]}


_Requirement = tuple[str, str, Sequence[object]]
"""Key, operator and values."""
_NAME_FIELD = "metadata.name"


def _selection(spec: JsonObject, offer: Offer) -> Iterator[Reason]:
    selector = spec.get("nodeSelector")
    for key, value in (selector if isinstance(selector, Mapping) else {}).items():
        yield from _unmet([[(str(key), "In", [value])]], offer, {"nodeSelector": {POOL_LABEL: offer.pool.name}})
    required = at(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if isinstance(required, list):
        terms = [[*maps(term.get("matchExpressions")), *maps(term.get("matchFields"))] for term in maps(required)]
        yield from _unmet([list(map(_requirement, term)) for term in terms], offer, {})


def _requirement(given: JsonObject) -> _Requirement:
    values = given.get("values")
    return str(given.get("key")), str(given.get("operator")), values if isinstance(values, list) else []


def _unmet(terms: Sequence[Sequence[_Requirement]], offer: Offer, patch: JsonObject) -> Iterator[Reason]:
    """Yield why a node meets all requirements of no term."""
    answers = [[(each, _holds(*each, offer)) for each in term] for term in terms if term]
    if any(all(holds is True for _, holds in term) for term in answers):
        return
    open_terms = [term for term in answers if all(holds is not False for _, holds in term)]
    # A term that nothing decides is the answer; without one, the first requirement that fails.
    unmet = next((each for term in open_terms or answers for each, holds in term if holds is not True), None)
    if unmet is None:
        yield Reason("selector", Level.UNFIT, "requires a node affinity whose terms match no node")
        return
    key, operator, values = unmet
    is_one = operator == "In" and len(values) == 1
    text = f"selects {key}={values[0]}" if is_one else f"selects {key} {operator} {', '.join(map(str, values))}".strip()
    if open_terms:
        text = f"{text}, which the cloud or GPU software may write on running nodes; no empty pool has it, so select"
        yield Reason("unknown-label", Level.UNKNOWN, f"{text} {POOL_LABEL}", patch)
    else:
        has = f"has {key}={offer.labels[key]}" if key in offer.labels else "does not have this label"
        yield Reason("selector", Level.UNFIT, f"{text}, and the pool {has}", patch)


def _holds(key: str, operator: str, values: Sequence[object], offer: Offer) -> bool | None:
    """Return whether a node meets a requirement of its labels or its name; None if that is not known.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
    """
    texts = {str(value).lower() if isinstance(value, bool) else str(value) for value in values}
    value = offer.where if key == _NAME_FIELD and offer.has_all_labels else offer.labels.get(key)
    if key == ZONE_LABEL and value is None and offer.zones and operator == "In":
        return bool(texts & {*offer.zones})
    if value is None and (key == _NAME_FIELD or offer.may_have_label(key)):
        return None
    if operator in ("In", "NotIn"):
        return (value in texts) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    try:
        found, limit = int(value or ""), int(next(iter(texts), ""))
    except ValueError:
        return False
    return found > limit if operator == "Gt" else found < limit if operator == "Lt" else False


def _claims(workload: Workload, spec: JsonObject, offer: Offer, context: Context) -> Iterator[Reason]:
    wanted, reasons = claimed_devices(workload, spec, offer, context)
    yield from reasons
    for device_class, count in wanted.items():
        offered = offer.devices[device_class]
        if offered is not None and count > offered:
            text = f"claims {count} devices of {device_class}, and a node has {offered}"
            yield Reason("claim", Level.UNFIT, text)


def claimed_devices(
    workload: Workload, spec: JsonObject, offer: Offer, context: Context
) -> tuple[Mapping[str, int], Sequence[Reason]]:
    """Return how many devices of the node a pod claims, by DeviceClass, and what is wrong with its claims."""
    wanted, reasons = Counter[str](), list[Reason]()
    for entry in maps(spec.get("resourceClaims")):
        kind = "ResourceClaim" if entry.get("resourceClaimName") else _TEMPLATE
        name = str(entry.get("resourceClaimName") or entry.get("resourceClaimTemplateName"))
        own = (each[name] for each in map(_templates, context.plan.pools) if kind == _TEMPLATE and name in each)
        devices = context.manifests.claims.get((kind, workload.namespace, name), next(own, None))
        if devices is None:
            text = f"claims devices by {kind} {name}, which is neither in the files nor in the plan; give its file, too"
            reasons.append(Reason("unknown-claim", Level.UNKNOWN, text))
        for request in maps((devices or {}).get("requests")):
            ways = maps(request.get("firstAvailable")) or [request.get("exactly") or request]
            known = [each for each in ways if each.get("deviceClassName") in offer.devices]
            known.sort(key=lambda each: bool(each.get("selectors")))
            if not known:
                classes = enumeration(str(each.get("deviceClassName")) for each in ways)
                has = enumeration(sorted(offer.devices)) if offer.devices else offered_units(offer.pool)
                text = f"{kind} {name} claims devices of {classes}, and the pool offers {has}"
                reasons.append(Reason("claim", Level.UNFIT, text))
                continue
            if known[0].get("selectors"):
                text = f"{kind} {name} selects devices by a CEL expression"
                reasons.append(Reason("claim-selector", Level.UNKNOWN, text))
            count = known[0].get("count")
            wanted[known[0]["deviceClassName"]] += count if isinstance(count, int) else 1
    return wanted, reasons


_TEMPLATE = "ResourceClaimTemplate"


def _templates(pool: PoolPlan) -> JsonDict:
    """Return the devices of the claim templates that a pool's namespaces need, and that a ComputeDomain makes."""
    items = [item for item in (*pool.namespace_objects, pool.claim_template) if item.get("kind") == _TEMPLATE]
    found = {item["metadata"]["name"]: item["spec"]["spec"]["devices"] for item in items}
    channel = {"requests": [{"exactly": {"deviceClassName": CHANNEL_CLASS}}]}
    return found | ({channel_name(pool.name): channel} if pool.compute_domains else {})


def _runtime(template: PodTemplate, asked: Requests, offer: Offer) -> Iterator[Reason]:
    spec = template.spec
    named, needed = spec.get("runtimeClassName"), offer.pool.runtime_class
    asks = any(name.startswith(ACCELERATOR_RESOURCES) for name in asked.amounts) or spec.get("resourceClaims")
    if isinstance(named, str) and named and named not in offer.runtime_classes:
        yield Reason("unknown-class", Level.UNKNOWN, f"names the RuntimeClass {named}, which nothing in the plan makes")
    elif asks and needed is not None and named != needed:
        text = f"does not name the RuntimeClass {needed}, without which its containers see no GPU"
        yield Reason("runtime-class", Level.UNFIT, text, {"runtimeClassName": needed})
    mount = offer.pool.driver_mount
    paths = [at(each, "hostPath.path") for each in maps(spec.get("volumes"))]
    if asks and mount is not None and mount.host not in paths:
        model = offer.pool.pod()
        mounts = {key: model["containers"][0][key] for key in ("env", "volumeMounts")}
        patch = {"volumes": model["volumes"], "containers": [{"name": template.gpu_container, **mounts}]}
        yield Reason("driver-mount", Level.UNFIT, f"does not mount the driver from {mount.host}", patch)


def _fabric(
    workload: Workload, template: PodTemplate, asked: Requests, offer: Offer, context: Context
) -> Iterator[Reason]:
    """Yield that a pod has all GPUs of a node and none of its RDMA interfaces, which only slows it down."""
    fabric, node_pod = offer.pool.provider_plan.fabric, offer.pool.node_pod
    if fabric is None or not node_pod:
        return
    claimed, _ = claimed_devices(workload, template.spec, offer, context)
    has: dict[str, Decimal | int] = {**asked.amounts, **claimed}
    has_all = any(has.get(name, 0) >= count for name, count in offer.pool.countable.items())
    if has_all and not {fabric.resource, fabric.device_class} & has.keys():
        container = {**node_pod["containers"][0], "name": template.gpu_container}
        patch = {**{key: node_pod[key] for key in ("resourceClaims",) if key in node_pod}, "containers": [container]}
        text = "has all GPUs of a node without its RDMA interfaces, so jobs on several nodes use the slower network"
        yield Reason("no-fabric", Level.FITS, text, patch)


def _schedulers(template: PodTemplate, offer: Offer) -> Iterator[Reason]:
    name = template.spec.get("schedulerName") or "default-scheduler"
    text = f"names the scheduler {shown(name)}, which"
    if name in (KAI_SCHEDULER, HAMI_SCHEDULER, "volcano") and name not in offer.schedulers:
        text = f"{text} the cluster does not have; use {enumeration(sorted(offer.schedulers), 'or')}"
        yield Reason("scheduler-name", Level.UNFIT, text, {"schedulerName": min(offer.schedulers)})
    elif name not in offer.schedulers:
        yield Reason("unknown-scheduler", Level.UNKNOWN, f"{text} nothing in the plan installs")


def _undecided(spec: JsonObject, offer: Offer, context: Context) -> Iterator[Reason]:
    """Yield what decides about the pod beside the node."""
    spread = maps(spec.get("topologySpreadConstraints"))
    affinities = ("podAffinity", "podAntiAffinity")
    words = [each for each in affinities if at(spec, f"affinity.{each}.requiredDuringSchedulingIgnoredDuringExecution")]
    words += ["a topology spread"] * any(each.get("whenUnsatisfiable") != "ScheduleAnyway" for each in spread)
    found = [("other-pods", f"requires {each}: where other pods run decides") for each in words]
    for volume in maps(spec.get("volumes")):
        if {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            text = f"mounts the volume claim of {shown(volume.get('name'))}, whose volume may be bound to a zone"
            found.append(("volume", text))
    if spec.get("schedulingGates"):
        found.append(("gates", "has scheduling gates, which a controller has to remove first"))
    if spec.get("nodeName") and not offer.has_all_labels:
        found.append(("node-name", f"names its node {shown(spec['nodeName'])}, so no scheduler decides"))
    webhooks = context.manifests.webhooks
    found += [("webhook", f"the MutatingWebhookConfiguration {name} may change the pod") for name in webhooks]
    yield from (Reason(key, Level.UNKNOWN, text) for key, text in found)


def merged_patch(reasons: Iterable[Reason]) -> JsonDict:
    """Return the lines of all reasons together: maps are joined, containers by name, other lists without doubles."""
    merged: JsonDict = {}
    for reason in reasons:
        _merge(merged, reason.patch)
    return merged


def _merge(into: JsonDict, patch: JsonObject) -> None:
    for key, value in patch.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            own = into.setdefault(key, [])
            for item in value:
                same = [each for each in own if key == "containers" and each.get("name") == item.get("name")]
                if same:
                    _merge(same[0], item)
                elif item not in own:
                    own.append(dict(item) if isinstance(item, Mapping) else item)
        else:
            into[key] = value
