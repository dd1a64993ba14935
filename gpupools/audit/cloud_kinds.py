"""Tables of the Kubernetes objects that create nodes on one cloud: one module per cloud, listed in `CLOUD_KINDS`.

Source, as repository and path: kubernetes-sigs/cluster-api api/core/v1beta2.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from gpupools.audit import CLOUD_KINDS
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect
from gpupools.plan.cloud import GroupKind, ObjectReader
from gpupools.plan.pool_facts import PoolFacts


def nothing_beside(given: JsonObject) -> JsonObject:
    """Find no input outside the specification."""
    return {}


@dataclass(frozen=True)
class EmbeddedPool:
    """A kind of object whose specification is a resource of the cloud."""

    token: str
    """Pulumi type of the cloud's resource of this form."""
    below: tuple[str, ...] = ("spec",)
    """Where; what an earlier place says wins."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The object's names for properties."""
    single: frozenset[str] = frozenset()
    """Blocks that are there once at most: a list of one counts as its item."""
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Properties that another object may stand for, by the keys that refer to it."""
    beside: Callable[[JsonObject], JsonObject] = nothing_beside
    """Find inputs that the object says outside its specification."""


@dataclass(frozen=True)
class EmbeddedList:
    """A kind of object that lists others, some of which are pools."""

    path: str
    """Of the list."""
    kind: str
    """Of those that are pools."""
    token: str
    """Pulumi type of the cloud's resource of their specification's form."""


EmbeddedKinds = Mapping[tuple[str, str], EmbeddedPool | EmbeddedList]
"""What Kubernetes objects hold, by group and kind."""


@dataclass(frozen=True)
class MachineKind:
    """Where a kind keeps what is read; paths below `spec` and, where there is one, `below`."""

    cloud: str
    machine: tuple[str, ...]
    below: str = ""
    taints: str = ""
    """Empty where the bootstrap configuration has them."""
    no_taint_field: bool = False
    """Whether nothing has them: the pool is a cluster's own, which takes none."""
    effects: Mapping[str, Effect] = field(default_factory=lambda: KUBERNETES_EFFECTS)
    labels: str = ""
    bounds: tuple[str, str] = ("", "")
    accelerators: str = ""
    """List of `{type, count}` beside the machine type, as Google Cloud has it."""
    several: tuple[str, str] = ("", "")
    """List of what each names a machine, and where in an item."""
    image: tuple[str, str] = ("", "")
    """Where the image is chosen, and the pattern of those that are for machines with GPUs."""
    open: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Keys that open nodes: `remote-access` or `public-address`, and the source."""


Bootstrap = Callable[[JsonObject, str], PoolFacts]
"""Reads the taints of a bootstrap configuration, its `spec` at a path: what they are, where they stand, how one is
written."""


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
    machine_names: re.Pattern[str] | None = None
    """Names of this cloud's machines, including types not in the catalog; for objects that name no cloud."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that this cloud sets on nodes with accelerators, with the vendor: `nvidia`, or `other`."""


def cloud_kinds(clouds: Iterable[str]) -> Iterator[CloudKinds]:
    """Yield the table of each cloud that has one."""
    for cloud in clouds:
        if cloud in CLOUD_KINDS:
            kinds: CloudKinds = import_module(f"{__package__}.{CLOUD_KINDS[cloud]}").KINDS
            yield kinds
