"""What a cloud's provider of Karpenter calls machines, and what its labels say of them: values of the cloud's contract.

Source, as repository and path: kubernetes-sigs/karpenter pkg/apis/crds.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import ge, gt, le, lt

from gpupools.catalog.instance_types import Catalogue, InstanceType
from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import whole_number
from gpupools.plan.pool_facts import Accelerator, PoolFacts

_COMPARED: Mapping[str, Callable[[int, int], bool]] = {"Gt": gt, "Lt": lt, "Gte": ge, "Lte": le}


@dataclass
class Requirement:
    """What a NodePool demands of one label."""

    path: str
    operator: str
    values: tuple[str, ...]
    late: bool = False
    """True when some of it is not known yet."""
    listed: frozenset[str] = frozenset()
    """The values, to be looked up."""

    def __post_init__(self) -> None:
        self.listed = frozenset(self.values)

    def allows(self, value: str) -> bool:
        """Say whether a machine with this value of the label may be taken."""
        if self.operator == "In":
            return self.late or value in self.listed
        if self.operator == "NotIn":
            return value not in self.listed
        if self.operator in _COMPARED and self.values and not self.late:
            bound, given = whole_number(self.values[0]), whole_number(value)
            return bound is None or given is None or _COMPARED[self.operator](given, bound)
        return self.operator != "DoesNotExist"

    def fits(self, value: str) -> bool:
        """Say whether a machine may be taken of which the label says this; empty where it does not have the label."""
        return self.allows(value) if value else self.operator in ("NotIn", "DoesNotExist")

    @property
    def wants(self) -> bool:
        """Say whether only machines that have the label may be taken."""
        if self.operator in ("Gt", "Gte"):
            return True
        return self.operator == "Exists" or (self.operator == "In" and bool(set(self.values) - {"0"}))


@dataclass
class Requirements:
    """What a NodePool demands of the labels of its machines."""

    by_label: dict[str, list[Requirement]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def of(self, *keys: str) -> Iterator[tuple[str, Requirement]]:
        """Yield what is demanded of these labels, each with its label."""
        for key in keys:
            for one in self.by_label.get(key, ()):
                yield key, one

    def listed(self, *keys: str) -> Iterator[tuple[str, "Requirement", str]]:
        """Yield each value that a list of these labels names, with the label and what demands it."""
        for key, one in self.of(*keys):
            for value in one.values if one.operator == "In" else ():
                yield key, one, value

    def allow(self, value: str, *keys: str) -> bool:
        """Say whether a machine of which these labels say this may be taken."""
        return all(one.allows(value) for _, one in self.of(*keys))

    def without(self, domains: Collection[str]) -> "Requirements":
        """Return what is demanded of the labels of other domains."""
        return Requirements({key: found for key, found in self.by_label.items() if not key.startswith(tuple(domains))})


@dataclass(frozen=True, kw_only=True)
class KarpenterProvider:
    """What one of Karpenter's providers calls machines, and what its labels say of them."""

    groups: tuple[str, ...]
    """API groups of its node classes, which are the domains of its labels too."""
    part: str
    """What stands after the domain, before `gpu-name` and its like: `instance-`."""
    classes: Mapping[str, Callable[[JsonObject], PoolFacts]] = field(default_factory=dict)
    """Readers of its node classes, by kind, from their `spec`; the first group is theirs."""
    former_classes: tuple[str, ...] = ()
    """Kinds of classes that are no longer served."""
    classes_taint: bool = False
    """Whether a class may taint nodes with GPUs."""
    type_labels: tuple[str, ...] = ()
    """Labels that name the machine, besides Kubernetes' own."""
    shown: Callable[[Requirements, Callable[[str], Accelerator]], Iterable[tuple[Accelerator, str]]] = lambda *_: ()
    """Yield the accelerators that requirements on machine families select, each with the requirement; none by default.

    The second argument returns the accelerator of a machine by name.
    """
    machines: Catalogue | None = None
    """Machines with NVIDIA GPUs; None where it is not known what its labels say of them."""
    machine_labels: Callable[[InstanceType], Mapping[str, str]] = lambda machine: {}
    """Return the labels of a machine, the cloud's own without their domain; none of one that it does not offer.

    A label that machines with GPUs lack although its name suggests it has no value.
    """
    counts_none: bool = False
    """Whether machines without GPUs have the label of their number too, with 0."""
    newer: Mapping[str, str] = field(default_factory=dict)
    """Patterns (RE2) of values that only machines with GPUs have, by label; they also find machines newer than the
    catalogue. The label of the type is Kubernetes' own."""
    cpu_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """All values of machines without accelerators, by label: where they are excluded, only GPU machines are left."""
    name_parts: Mapping[str, str] = field(default_factory=dict)
    """Patterns (RE2) of the part of a machine's name that a label has as its value, the narrower label first."""
    without_gpus: str = ""
    """Its label, without the domain, that all machines with GPUs have and no other."""

    def gpu_machines(self) -> Sequence[Mapping[str, str]]:
        """Return the labels of each machine with NVIDIA GPUs, smallest first."""
        return self._labels

    @cached_property
    def _labels(self) -> Sequence[Mapping[str, str]]:
        machines = self.machines.by_size if self.machines is not None else ()
        return tuple(filter(None, map(self.machine_labels, machines)))

    def fits(self, name: str, wanted: Requirements) -> bool:
        """Return whether no requirement on a label that follows from its name rules a machine out."""
        return all(
            wanted.allow(match[0] if (match := re.search(pattern, name)) else "", f"{domain}{label}")
            for domain in self.domains
            for label, pattern in self.name_parts.items()
        )

    def tells(self, label: str) -> bool:
        """Say whether machines with GPUs have a label, as far as that is known, so that without it there are none."""
        machines = self.gpu_machines()
        return not machines or bool(machines[0].get(label))

    @property
    def domains(self) -> tuple[str, ...]:
        """Return what its labels begin with."""
        return tuple(f"{group}/" for group in self.groups)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return what stands before the name of a property of a machine."""
        return tuple(f"{domain}{self.part}" for domain in self.domains)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return what a pool of this provider is known by."""
        return (*self.groups, *self.classes, *self.former_classes)
