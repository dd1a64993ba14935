"""Tables of the Kubernetes objects that create nodes on one cloud: one module per cloud, listed in `CLOUD_KINDS`.

Source, as repository and path: kubernetes-sigs/cluster-api api/core/v1beta2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from gpupools.audit import CLOUD_KINDS
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect
from gpupools.plan.cloud import GroupKind, ObjectReader
from gpupools.plan.pool_facts import PoolFacts


def no_extra_inputs(given: JsonObject) -> JsonObject:
    """Return no inputs from outside the specification."""
    return {}


@dataclass(frozen=True)
class EmbeddedPool:
    """A kind of object whose specification is a resource of the cloud."""

    token: str
    """Pulumi type of the cloud's resource of this form."""
    below: tuple[str, ...] = ("spec",)
    """Paths of the specification; earlier paths override later ones."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The object's names for properties."""
    single: frozenset[str] = frozenset()
    """Blocks that occur at most once: a list of one item counts as the item."""
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys that refer to another object, by the property that they replace."""
    beside: Callable[[JsonObject], JsonObject] = no_extra_inputs
    """Return inputs from outside the specification."""


@dataclass(frozen=True)
class EmbeddedList:
    """A kind of object that lists others, some of which are pools."""

    path: str
    """Path of the list."""
    kind: str
    """Kind of the items that are node pools."""
    token: str
    """Pulumi type that their specification has the form of."""


EmbeddedKinds = Mapping[tuple[str, str], EmbeddedPool | EmbeddedList]
"""Resources inside Kubernetes objects, by group and kind."""


@dataclass(frozen=True)
class MachineKind:
    """Paths of the fields of a kind, below `spec` and, if set, `below`."""

    cloud: str
    machine: tuple[str, ...]
    below: str = ""
    taints: str = ""
    """Empty where the bootstrap configuration has them."""
    effects: Mapping[str, Effect] = field(default_factory=lambda: KUBERNETES_EFFECTS)
    labels: str = ""
    bounds: tuple[str, str] = ("", "")
    accelerators: str = ""
    """List of `{type, count}` beside the machine type, as Google Cloud has it."""
    several: tuple[str, str] = ("", "")
    """Path of a list whose items name machines, and the path in an item."""
    image: tuple[str, str] = ("", "")
    """Path of the image, and the pattern of images for machines with GPUs."""
    open: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Keys that open nodes: `remote-access` or `public-address`, and the source."""


Bootstrap = Callable[[JsonObject, str], PoolFacts]
"""Reads the taints of a bootstrap configuration from its `spec` and the path of that."""


@dataclass(frozen=True, kw_only=True)
class CloudKinds:
    """Kubernetes objects of other tools that create nodes on one cloud."""

    cloud: str
    embedded: EmbeddedKinds = field(default_factory=dict)
    """Objects that contain the cloud's own resources."""
    pools: Mapping[GroupKind, ObjectReader] = field(default_factory=dict)
    """Readers of objects that are node groups by themselves, such as eksctl's."""
    machines: Mapping[GroupKind, MachineKind] = field(default_factory=dict)
    """Cluster API's machines of this cloud."""
    bootstraps: Mapping[str, Bootstrap] = field(default_factory=dict)
    """Readers of Cluster API's bootstrap configurations that only machines of this cloud use, by kind."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that this cloud sets on nodes with accelerators, with the vendor: `nvidia`, or `other`."""


def cloud_kinds(clouds: Iterable[str]) -> Iterator[CloudKinds]:
    """Yield the table of each cloud that has one."""
    for cloud in clouds:
        if cloud in CLOUD_KINDS:
            kinds: CloudKinds = import_module(f"{__package__}.{CLOUD_KINDS[cloud]}").KINDS
            yield kinds
