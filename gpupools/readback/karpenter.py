"""Read Karpenter's NodePool, Provisioner and NodeClaim, also of EKS Auto Mode and AKS. Pure.

Machine names and labels belong to a provider, and so to one cloud: `KarpenterProvider`.

Source, as repository and path: kubernetes-sigs/karpenter pkg/apis/crds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity
from gpupools.common.taints import KUBERNETES_EFFECTS
from gpupools.plan.karpenter_provider import KarpenterProvider, Requirement, Requirements
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, Open, PoolFacts, Reference
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    at,
    items,
    mapping,
    number,
    pool_facts,
    string_map,
    text,
    wanted_taint,
)

if TYPE_CHECKING:
    from gpupools.plan.cloud import Cloud

_Clouds = Mapping[str, "Cloud"]

TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
GPU_KEYS = ("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory")
_OTHER_KEYS = ("accelerator-name", "accelerator-manufacturer", "accelerator-count")
_RESOURCES = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd"}
# https://kubernetes.io/docs/reference/labels-annotations-taints/; Karpenter maps older names to newer ones
# (kubernetes-sigs/karpenter pkg/apis/v1/labels.go, NormalizedLabels).
ARCHITECTURE, SYSTEM = "kubernetes.io/arch", "kubernetes.io/os"
_OLDER = {"beta.kubernetes.io/arch": ARCHITECTURE, "beta.kubernetes.io/os": SYSTEM, TYPE_LABELS[1]: TYPE_LABELS[0]}
TYPE = TYPE_LABELS[0]
_MAX_REQUIREMENTS = 100
"""Limit of the API: `maxItems` in pkg/apis/crds/karpenter.sh_nodepools.yaml."""


def providers_of(clouds: _Clouds) -> Iterator[tuple[str, KarpenterProvider]]:
    """Yield each cloud with its Karpenter provider."""
    for name, cloud in clouds.items():
        provider = cloud.readback().objects.karpenter
        if provider is not None:
            yield name, provider


def _label_value(item: object) -> str:
    whole = number(item)
    return item if isinstance(item, str) else str(whole) if whole is not None and abs(whole) < 10**9 else ""


def read_requirements(
    into: Requirements,
    value: object,
    path: str,
    labels: Mapping[str, str],
    labels_path: str,
    says_machine: Callable[[str], bool],
) -> None:
    """Add a list of requirements, and the labels of a template, which act as requirements."""
    for number_, (where, one) in enumerate(items(value, path, into.unknown)):
        if number_ >= _MAX_REQUIREMENTS:
            into.unknown.append(f"{path} after the first {_MAX_REQUIREMENTS}")
            break
        key, operator = at(one, "key"), at(one, "operator")
        if key is UNKNOWN or (operator is UNKNOWN and isinstance(key, str) and says_machine(key)):
            into.unknown.append(f"{where}.{'key' if key is UNKNOWN else 'operator'}")
            continue
        late: list[str] = []
        values = tuple(_label_value(item) for _, item in items(at(one, "values"), f"{where}.values", late))
        if isinstance(key, str) and isinstance(operator, str):
            wanted = Requirement(where, operator, values, bool(late))
            into.by_label.setdefault(key, []).append(wanted)
            if late and says_machine(key) and operator == "In":
                into.unknown += late
    for key, label in labels.items():
        if says_machine(key):
            into.by_label.setdefault(key, []).append(Requirement(f"{labels_path}.{key}", "In", (label,)))


class _Parts(NamedTuple):
    """The parts of a NodePool, Provisioner or NodeClaim."""

    spec: JsonObject
    kind: str
    template: JsonObject
    inner: str
    """Path of the template, the node's specification."""
    labels: Any
    labels_path: str
    reference: JsonObject
    """The reference to the node class."""
    limits: JsonObject


def _parts(spec: JsonObject, kind: str) -> _Parts:
    prefix = "spec.template." if kind == "NodePool" else ""
    template = mapping(at(spec, "template.spec")) if prefix else spec
    labels_path = f"{prefix}metadata.labels" if prefix else "spec.labels"
    reference = mapping(template.get("nodeClassRef") or template.get("providerRef"))
    limits = mapping(spec.get("limits"))
    limits = mapping(limits.get("resources")) or limits  # a Provisioner has them one level deeper
    return _Parts(
        spec, kind, template, f"{prefix}spec", at({"spec": spec}, labels_path), labels_path, reference, limits
    )


def read_karpenter(spec: JsonObject, kind: str, clouds: _Clouds) -> Iterator[PoolFacts]:
    """Yield the pool of a NodePool, Provisioner or NodeClaim: https://karpenter.sh/docs/concepts/nodepools/."""
    parts = _parts(spec, kind)
    inner, reference, limits = parts.inner, parts.reference, parts.limits
    providers = dict(providers_of(clouds))
    types = (*TYPE_LABELS, *(label for provider in providers.values() for label in provider.type_labels))
    wanted = _read_selection(parts, types, providers)
    cloud = _cloud_of(reference, wanted, providers)
    own = wanted.without(_foreign_domains(reference, cloud, providers))
    theirs = [providers[cloud]] if cloud in providers else [*providers.values()]
    machines = _machines(parts, wanted, own, cloud, clouds, types, theirs)
    read = TaintsRead()
    read.objects(parts.template.get("taints"), f"{inner}.taints", KUBERNETES_EFFECTS)
    if parts.template.get("startupTaints"):
        read.note(f"{inner}.startupTaints: are removed when a node is ready, so they do not repel pods")
    nodes = number(limits.get("nodes"))
    fixed = number(spec.get("replicas"))
    name = text(reference.get("name"))
    taints_too = bool(name) and cloud in providers and providers[cloud].classes_taint
    classes = tuple(f"kubernetes:{group}:{text(reference.get('kind'))}" for group in _class_versions(reference))
    decides = frozenset({"image", "taints"} if taints_too else {"image"})
    # A NodeClaim and a NodePool with `replicas` get machines even if no pod requests a GPU.
    grows = kind != "NodeClaim" and spec.get("replicas") is None and spec.get("limits") is not UNKNOWN
    foreign = _unknown_class(reference, providers)
    unsure = machines.evidence or machines.unknown or read.unknown or foreign
    path = f"{inner}.requirements"
    yield replace(
        pool_facts(cloud or "kubernetes", machines, read),
        where=f"{inner}.taints",
        missing_taint=as_object(wanted_taint(machines.accelerator), KUBERNETES_EFFECTS),
        unresolved_taints=(f"{inner}.nodeClassRef",) if taints_too else (),
        elsewhere=(Reference(f"{inner}.nodeClassRef", classes, name, decides),) if name else (),
        min_nodes=fixed if fixed is not None else 0,
        max_nodes=nodes if nodes is not None else fixed,
        labels=string_map(parts.labels),
        open_to_gpus=None if unsure or not grows else _open_to_gpus(own, limits, theirs, _group(reference), path),
        foreign="" if _has_zero_gpu_limits(limits) else foreign,
    )


def _read_selection(parts: _Parts, types: tuple[str, ...], providers: Mapping[str, KarpenterProvider]) -> Requirements:
    """Return the requirements and labels that select machines."""
    domains = tuple(domain for provider in providers.values() for domain in provider.domains)

    def says_machine(key: str) -> bool:
        return key in types or key.startswith(domains)

    wanted = Requirements()
    if parts.kind == "NodePool" and at(parts.spec, "template.spec") is UNKNOWN:
        wanted.unknown.append("spec.template.spec")
    path = f"{parts.inner}.requirements"
    labels = string_map(parts.labels)
    read_requirements(wanted, parts.template.get("requirements"), path, labels, parts.labels_path, says_machine)
    late = (key for key, value in mapping(parts.labels).items() if value is UNKNOWN and says_machine(str(key)))
    wanted.unknown += [f"{parts.labels_path}.{key}" for key in late]
    return wanted


def _machines(
    parts: _Parts,
    wanted: Requirements,
    own: Requirements,
    cloud: str,
    clouds: _Clouds,
    types: tuple[str, ...],
    providers: Sequence[KarpenterProvider],
) -> Machines:
    """Return the machines that a pool may use."""
    reference, machines = parts.reference, Machines()
    machines.unknown += wanted.unknown
    if not cloud and UNKNOWN in (reference.get("group"), reference.get("apiVersion"), reference.get("kind")):
        machines.unknown.append(f"{parts.inner}.nodeClassRef")
    _add_required_machines(wanted, own, cloud, clouds, types, machines)
    if _excludes_gpus(own, parts.limits, providers):
        machines = Machines(names=machines.names)
    elif not machines.evidence:
        _add_limits(parts.limits, own, types, providers, machines)
    if parts.kind == "NodeClaim" and not machines.evidence:
        for resource, vendor in _RESOURCES.items():
            if quantity(mapping(at(parts.template, "resources.requests")).get(resource)):
                machines.show(Accelerator(vendor, None), f"{parts.inner}.resources.requests {resource}")
    return machines


def _unknown_class(reference: JsonObject, providers: Mapping[str, KarpenterProvider]) -> str:
    """Return the node class of an unknown provider, else empty; a `providerRef` may have only a name."""
    name = "/".join(filter(None, (_group(reference), text(reference.get("kind")))))
    return "" if _provider_in(name, providers) else name


def _provider_in(said: str, providers: Mapping[str, KarpenterProvider]) -> str:
    return next((name for name, provider in providers.items() if any(mark in said for mark in provider.marks)), "")


def _class_versions(reference: JsonObject) -> Iterator[str]:
    group = text(reference.get("group"))
    if text(reference.get("apiVersion")):
        yield text(reference.get("apiVersion"))
    elif group:
        yield from (f"{group}/{version}" for version in ("v1", "v1beta1", "v1alpha2", "v1alpha1"))


def _cloud_of(reference: JsonObject, wanted: Requirements, providers: Mapping[str, KarpenterProvider]) -> str:
    """Return the cloud of the node class, or else of the labels."""
    of_class = " ".join(text(reference.get(key)) for key in ("group", "apiVersion", "kind"))
    return _provider_in(of_class, providers) or _provider_in(" ".join(wanted.by_label), providers)


def _foreign_domains(reference: JsonObject, cloud: str, providers: Mapping[str, KarpenterProvider]) -> list[str]:
    """Return the label domains that the pool's own provider does not set.

    A requirement on such a label excludes no machine: kubernetes-sigs/karpenter pkg/scheduling/requirements.go,
    `Intersects`.
    """
    if cloud not in providers:
        return []
    group = _group(reference)
    known = (group,) if group in providers[cloud].groups else providers[cloud].groups
    return [f"{one}/" for provider in providers.values() for one in provider.groups if one not in known]


def _group(reference: JsonObject) -> str:
    return text(reference.get("group")) or text(reference.get("apiVersion")).rpartition("/")[0]


def _add_required_machines(
    wanted: Requirements, own: Requirements, cloud: str, clouds: _Clouds, types: tuple[str, ...], machines: Machines
) -> None:
    """Add machines that requirements name or select by accelerator; only the pool's own requirements exclude any."""
    providers = dict(providers_of(clouds))
    for key, one, name in wanted.listed(*types):
        if own.allow(name, *types) and all(provider.fits(name, own) for provider in providers.values()):
            machines.add(name, accelerator_by_name(name, cloud, clouds), f"{one.path} {key}")
    if machines.names and any(True for _ in own.listed(*types)):
        return  # explicit types decide
    for named, provider in providers.items():
        for found, evidence in provider.shown(wanted, clouds[named].readback().accelerator):
            machines.show(found, evidence)
    for provider in providers.values():
        for prefix in provider.prefixes:
            _add_required_accelerators(wanted, prefix, provider, machines)


def _add_required_accelerators(
    wanted: Requirements, prefix: str, provider: KarpenterProvider, machines: Machines
) -> None:
    """Add accelerators from requirements on accelerator labels."""
    for key, one in wanted.of(*(f"{prefix}{name}" for name in GPU_KEYS)):
        # Lt and Lte match only machines that have the label: kubernetes-sigs/karpenter pkg/scheduling/requirements.go.
        below = one.operator in ("Lt", "Lte") and one.allows("1")
        of_all = provider.counts_none and key.endswith("gpu-count")
        if one.wants or (one.operator == "NotIn" and "0" in one.listed if of_all else below):
            amd = any("amd" in value.casefold() or "radeon" in value.casefold() for value in one.values)
            only_amd = amd and not any("nvidia" in value.casefold() for value in one.values)
            said = f"{one.path} {key} {', '.join(one.values)}".rstrip()
            machines.show(Accelerator("amd" if only_amd else "nvidia", None), said)
    for key, one in wanted.of(*(f"{prefix}{name}" for name in _OTHER_KEYS)):
        if one.wants:
            machines.show(Accelerator("other", None, ", ".join(one.values)), f"{one.path} {key}")


def _excludes_gpus(wanted: Requirements, limits: JsonObject, providers: Iterable[KarpenterProvider]) -> bool:
    """Return whether requirements or limits exclude every GPU."""
    for prefix, provider in ((prefix, each) for each in providers for prefix in each.prefixes):
        for key in GPU_KEYS:
            left_out = any(one.operator == "DoesNotExist" for _, one in wanted.of(f"{prefix}{key}"))
            if left_out and provider.tells(f"{provider.part}{key}"):
                return True
        if not wanted.allow("1", f"{prefix}gpu-count") and any(
            one.operator in ("Lt", "Lte") or one.values == ("0",) for _, one in wanted.of(f"{prefix}gpu-count")
        ):
            return True
    return _has_zero_gpu_limits(limits)


def _has_zero_gpu_limits(limits: JsonObject) -> bool:
    return all(resource in limits and quantity(limits[resource]) == 0 for resource in _RESOURCES)


def _open_to_gpus(
    wanted: Requirements, limits: JsonObject, providers: Sequence[KarpenterProvider], group: str, path: str
) -> Open | None:
    """Return how GPU machines are allowed; None if requirements or limits exclude them.

    Karpenter uses no machine with more of a resource than the limit leaves (kubernetes-sigs/karpenter
    pkg/controllers/provisioning/scheduling/scheduler.go, filterByRemainingResources).
    """
    if any(limits.get(each) is UNKNOWN or quantity(limits.get(each)) == 0 for each in _LIMITS_OF_GPU_MACHINES):
        return None
    if any(one.late for _, one in wanted.of(*wanted.by_label)):
        return None  # the unknown value may exclude them
    found = ", ".join(wanted.by_label) or "no requirement"
    for provider in providers:
        machine = _first_gpu_machine(wanted, provider)
        if machine and len(providers) > 1:
            return Open(path, found)
        if machine:
            said = (each for each in provider.groups if any(key.startswith(f"{each}/") for key in wanted.by_label))
            domain = group if group in provider.groups else next(said, provider.groups[0])
            return Open(path, found, machine, f"{{key: {domain}/{provider.without_gpus}, operator: DoesNotExist}}")
    return None


_LIMITS_OF_GPU_MACHINES = ("nvidia.com/gpu", "cpu", "memory", "nodes")


def _first_gpu_machine(wanted: Requirements, provider: KarpenterProvider) -> str:
    """Return the first GPU machine that meets all known requirements; empty for none."""
    machines = provider.gpu_machines()
    known = machines[0] if machines else {}
    asked: list[tuple[str, Requirement]] = []
    for key, one in wanted.of(*wanted.by_label):
        label = _OLDER.get(key, key)
        label = next((label.removeprefix(domain) for domain in provider.domains if label.startswith(domain)), label)
        if label in known:
            asked.append((label, one))
    fits = (machine for machine in machines if all(one.fits(machine[label]) for label, one in asked))
    return next((fit[TYPE] for fit in fits), "")


def _add_limits(
    limits: JsonObject,
    wanted: Requirements,
    types: tuple[str, ...],
    providers: Iterable[KarpenterProvider],
    machines: Machines,
) -> None:
    """Add a GPU limit above 0 as evidence, unless requirements allow only machines without GPUs."""
    named = machines.names or any(one.operator == "In" for _, one in wanted.of(*types))
    if named or not any(_first_gpu_machine(wanted, provider) or not provider.gpu_machines() for provider in providers):
        return
    for resource, vendor in _RESOURCES.items():
        if (quantity(limits.get(resource)) or 0) > 0:
            machines.show(Accelerator(vendor, None), f"spec.limits {resource}")
