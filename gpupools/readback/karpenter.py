"""Read Karpenter's NodePool, Provisioner and NodeClaim, also of EKS Auto Mode and AKS. Pure.

Machine names and labels belong to a provider, and so to one cloud: `KarpenterProvider`.

Source, as repository and path: kubernetes-sigs/karpenter pkg/apis/crds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity
from gpupools.common.taints import KUBERNETES_EFFECTS
from gpupools.plan.karpenter_provider import KarpenterProvider, Requirement, Requirements
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, Open, PoolFacts, Reference
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    accelerator_by_name,
    at,
    group_facts,
    items,
    mapping,
    number,
    string_map,
    text,
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


class _Pool:
    """A NodePool, Provisioner or NodeClaim, and what it demands of its machines."""

    def __init__(self, spec: JsonObject, kind: str, clouds: _Clouds) -> None:
        self.spec, self.kind, self.clouds, self.providers = spec, kind, clouds, dict(providers_of(clouds))
        prefix = "spec.template." if kind == "NodePool" else ""
        self.template = mapping(at(spec, "template.spec")) if prefix else spec
        self.inner = f"{prefix}spec"
        """Path of the template, the node's specification."""
        self.labels_path = f"{prefix}metadata.labels" if prefix else "spec.labels"
        self.labels = at({"spec": spec}, self.labels_path)
        reference = mapping(self.template.get("nodeClassRef") or self.template.get("providerRef"))
        self.reference = {key: reference.get(key) for key in ("group", "apiVersion", "kind", "name")}
        """The reference to the node class."""
        self.group = text(self.reference["group"]) or text(self.reference["apiVersion"]).rpartition("/")[0]
        limits = mapping(spec.get("limits"))
        self.limits = mapping(limits.get("resources")) or limits  # a Provisioner has them one level deeper
        self.types = (*TYPE_LABELS, *(label for provider in self.providers.values() for label in provider.type_labels))
        self.wanted = Requirements()
        self._read_requirements()
        self._read_labels()
        of_class = " ".join(text(self.reference[key]) for key in ("group", "apiVersion", "kind"))
        self.cloud = self._provider_in(of_class) or self._provider_in(" ".join(self.wanted.by_label))
        """The cloud of the node class, or else of the labels."""
        self.own = self.wanted.without(self._foreign_domains())
        self.theirs = [self.providers[self.cloud]] if self.cloud in self.providers else [*self.providers.values()]

    def _says_machine(self, key: str) -> bool:
        return key in self.types or any(key.startswith(provider.domains) for provider in self.providers.values())

    def _read_requirements(self) -> None:
        if self.kind == "NodePool" and at(self.spec, "template.spec") is UNKNOWN:
            self.wanted.unknown.append("spec.template.spec")
        path, unknown = f"{self.inner}.requirements", self.wanted.unknown
        for number_, (where, one) in enumerate(items(self.template.get("requirements"), path, unknown)):
            if number_ >= _MAX_REQUIREMENTS:
                unknown.append(f"{path} after the first {_MAX_REQUIREMENTS}")
                break
            key, operator = at(one, "key"), at(one, "operator")
            if key is UNKNOWN or (operator is UNKNOWN and isinstance(key, str) and self._says_machine(key)):
                unknown.append(f"{where}.{'key' if key is UNKNOWN else 'operator'}")
                continue
            late: list[str] = []
            values = tuple(_label_value(item) for _, item in items(at(one, "values"), f"{where}.values", late))
            if isinstance(key, str) and isinstance(operator, str):
                wanted = Requirement(where, operator, values, bool(late))
                self.wanted.by_label.setdefault(key, []).append(wanted)
                if late and self._says_machine(key) and operator == "In":
                    unknown += late

    def _read_labels(self) -> None:
        """Read the labels of the template, which act as requirements."""
        for key, label in mapping(self.labels).items():
            where, says_machine = f"{self.labels_path}.{key}", self._says_machine(str(key))
            if says_machine and isinstance(key, str) and isinstance(label, str):
                self.wanted.by_label.setdefault(key, []).append(Requirement(where, "In", (label,)))
            elif says_machine and label is UNKNOWN:
                self.wanted.unknown.append(where)

    def _provider_in(self, said: str) -> str:
        known = self.providers.items()
        return next((name for name, provider in known if any(mark in said for mark in provider.marks)), "")

    def _foreign_domains(self) -> list[str]:
        """Return the label domains that the pool's own provider does not set.

        A requirement on such a label excludes no machine: kubernetes-sigs/karpenter pkg/scheduling/requirements.go,
        `Intersects`.
        """
        if self.cloud not in self.providers:
            return []
        groups = self.providers[self.cloud].groups
        known = (self.group,) if self.group in groups else groups
        return [f"{one}/" for provider in self.providers.values() for one in provider.groups if one not in known]

    @property
    def unknown_class(self) -> str:
        """The node class of an unknown provider, else empty; a `providerRef` may have only a name."""
        name = "/".join(filter(None, (self.group, text(self.reference["kind"]))))
        return "" if self._provider_in(name) else name

    @property
    def class_reference(self) -> Reference | None:
        """What the node class decides; None if the pool names none."""
        versions = [f"{self.group}/{version}" for version in ("v1", "v1beta1", "v1alpha2", "v1alpha1") if self.group]
        versions = [text(self.reference["apiVersion"])] if text(self.reference["apiVersion"]) else versions
        classes = tuple(f"kubernetes:{version}:{text(self.reference['kind'])}" for version in versions)
        taints = {"taints"} if self.cloud in self.providers and self.providers[self.cloud].classes_taint else set()
        name, path = text(self.reference["name"]), f"{self.inner}.nodeClassRef"
        return Reference(path, classes, name, frozenset({"image", *taints})) if name else None

    def machines(self) -> Machines:
        """Return the machines that the pool may use."""
        machines = Machines()
        machines.unknown += self.wanted.unknown
        if not self.cloud and UNKNOWN in (self.reference[key] for key in ("group", "apiVersion", "kind")):
            machines.unknown.append(f"{self.inner}.nodeClassRef")
        self._add_required(machines)
        if _excludes_gpus(self.own, self.limits, self.theirs):
            machines = Machines(names=machines.names)
        elif not machines.evidence:
            self._add_limits(machines)
        if self.kind == "NodeClaim" and not machines.evidence:
            for resource, vendor in _RESOURCES.items():
                if quantity(mapping(at(self.template, "resources.requests")).get(resource)):
                    machines.show(Accelerator(vendor, None), f"{self.inner}.resources.requests {resource}")
        return machines

    def _add_required(self, machines: Machines) -> None:
        """Add machines that requirements name or select by accelerator; only the pool's own ones exclude any."""
        for key, one, name in self.wanted.listed(*self.types):
            fits = all(provider.fits(name, self.own) for provider in self.providers.values())
            if fits and self.own.allow(name, *self.types):
                machines.add(name, accelerator_by_name(name, self.cloud, self.clouds), f"{one.path} {key}")
        if machines.names and any(True for _ in self.own.listed(*self.types)):
            return  # explicit types decide
        for named, provider in self.providers.items():
            for found, evidence in provider.shown(self.wanted, self.clouds[named].readback().accelerator):
                machines.show(found, evidence)
        for provider in self.providers.values():
            for prefix in provider.prefixes:
                _add_required_accelerators(self.wanted, prefix, provider, machines)

    def _add_limits(self, machines: Machines) -> None:
        """Add a GPU limit above 0 as evidence, unless requirements allow only machines without GPUs."""
        is_open = any(_first_gpu_machine(self.own, each) or not each.gpu_machines() for each in self.theirs)
        if machines.names or not is_open or any(one.operator == "In" for _, one in self.own.of(*self.types)):
            return
        for resource, vendor in _RESOURCES.items():
            if (quantity(self.limits.get(resource)) or 0) > 0:
                machines.show(Accelerator(vendor, None), f"spec.limits {resource}")

    def open_to_gpus(self) -> Open | None:
        """Return how GPU machines are allowed; None if requirements or limits exclude them.

        Karpenter uses no machine with more of a resource than the limit leaves (kubernetes-sigs/karpenter
        pkg/controllers/provisioning/scheduling/scheduler.go, filterByRemainingResources).
        """
        left = [self.limits.get(each) for each in _LIMITS_OF_GPU_MACHINES]
        if any(limit is UNKNOWN or quantity(limit) == 0 for limit in left):
            return None
        wanted, path = self.own, f"{self.inner}.requirements"
        if any(one.late for _, one in wanted.of(*wanted.by_label)):
            return None  # the unknown value may exclude them
        found = ", ".join(wanted.by_label) or "no requirement"
        for provider in self.theirs:
            machine = _first_gpu_machine(wanted, provider)
            if machine and len(self.theirs) > 1:
                return Open(path, found)
            if machine:
                said = (each for each in provider.groups if any(key.startswith(f"{each}/") for key in wanted.by_label))
                domain = self.group if self.group in provider.groups else next(said, provider.groups[0])
                return Open(path, found, machine, f"{{key: {domain}/{provider.without_gpus}, operator: DoesNotExist}}")
        return None


_LIMITS_OF_GPU_MACHINES = ("nvidia.com/gpu", "cpu", "memory", "nodes")


def read_karpenter(spec: JsonObject, kind: str, clouds: _Clouds) -> Iterator[PoolFacts]:
    """Yield the pool of a NodePool, Provisioner or NodeClaim: https://karpenter.sh/docs/concepts/nodepools/."""
    pool = _Pool(spec, kind, clouds)
    machines, read, taints = pool.machines(), TaintsRead(), f"{pool.inner}.taints"
    read.objects(pool.template.get("taints"), taints, KUBERNETES_EFFECTS)
    if pool.template.get("startupTaints"):
        read.note(f"{pool.inner}.startupTaints: are removed when a node is ready, so they do not repel pods")
    nodes, fixed, reference = number(pool.limits.get("nodes")), number(spec.get("replicas")), pool.class_reference
    # A NodeClaim and a NodePool with `replicas` get machines even if no pod requests a GPU.
    grows = kind != "NodeClaim" and spec.get("replicas") is None and spec.get("limits") is not UNKNOWN
    unsure = machines.evidence or machines.unknown or read.unknown or pool.unknown_class
    yield replace(
        group_facts(pool.cloud or "kubernetes", machines, read, taints),
        unresolved_taints=(reference.property,) if reference and "taints" in reference.decides else (),
        elsewhere=(reference,) if reference else (),
        min_nodes=fixed if fixed is not None else 0,
        max_nodes=nodes if nodes is not None else fixed,
        labels=string_map(pool.labels),
        open_to_gpus=None if unsure or not grows else pool.open_to_gpus(),
        foreign="" if _has_zero_gpu_limits(pool.limits) else pool.unknown_class,
    )


def _add_required_accelerators(
    wanted: Requirements, prefix: str, provider: KarpenterProvider, machines: Machines
) -> None:
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
