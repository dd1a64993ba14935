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
