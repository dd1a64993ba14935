"""What a cloud decides for one pool: the request it gets, and its part of the plan."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import Any, ClassVar, NamedTuple, TypeVar

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import Taint
from gpupools.plan.capability import Capability, Owners
from gpupools.plan.fabric import Fabric
from gpupools.spec.models import Cluster, PoolSpec

OfCloud = TypeVar("OfCloud")

NodeLabels = Mapping[str, str | Pattern[str] | None]
"""Labels of a node: a value, what the value matches if it is there and no more is known, or None for never there."""


class PoolRequest(NamedTuple):
    """A pool on one cluster with its machine and software chosen: what a cloud's own rules look at."""

    name: str
    """The pool's key in the stack file."""
    spec: PoolSpec
    cluster: Cluster
    instance: InstanceType
    software: str
    sharing: str
    """One of `gpupools.spec.models.SHARING_KINDS`."""
    capability: Capability

    def cluster_as(self, kind: type[OfCloud]) -> OfCloud:
        """Return the cluster as that of one cloud; raise TypeError if it is on another."""
        if not isinstance(self.cluster, kind):
            raise TypeError(f"pool {self.name}: expected {kind.__name__}, got {type(self.cluster).__name__}")
        return self.cluster


class QueuedProvisioning(NamedTuple):
    """Why no pod starts the nodes of a pool, and what does."""

    class_name: str
    """Class of the ProvisioningRequest that starts them."""
    what: str
    """The setting that makes it so: `capacity.mode is queued`."""
    source: str


class AdoptedPool(NamedTuple):
    """An existing pool that the stack adopts unchanged."""

    name: str
    """In the cloud."""
    id: str
    """What the cloud's provider finds it by."""
    kept: tuple[str, ...]
    """Inputs, as dotted wire names, that stay as they are though the plan says otherwise."""


@dataclass(frozen=True, kw_only=True)
class ProviderPlan:
    """What the cloud's own pool needs beyond the portable plan; each cloud's folder adds its fields."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Node labels this cloud or this way of sharing needs."""
    drained_together: ClassVar[tuple[str, ...]] = ()
    """Fields whose sum is the number of nodes that an upgrade drains at the same time."""
    more_pods: ClassVar[str] = "raise network.max_pods"
    """What raises `pods_per_node`."""
    taints: tuple[Taint, ...] = ()
    """Taints the cloud itself puts on such a pool, beside the GPU taint.

    Its `resources.py` declares them where leaving them out would be drift.
    """
    owners: Owners | None = None
    """Who brings the GPU software, where this pool's image makes it others than its `software` says."""
    key_values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the keys that become one input as they are, by `KeyInput.field`."""
    fabric: Fabric | None = None
    """The RDMA interfaces that pods ask for; None without `network.rdma`."""
    first_name: str = ""
    """The pool's key when it was created: its name in the cloud is made of that, so that a renamed pool keeps it."""
    adopted: AdoptedPool | None = None
    """The pool in the cloud that was made by other means and becomes this one; None for one that is made here."""
    protect: bool = False
    overrides: Mapping[str, JsonObject] = field(default_factory=dict)
    """Overrides: resource → input by wire name → value."""

    unordered: ClassVar[frozenset[str]] = frozenset()
    """Fields that the cloud keeps as sets, so that their order says nothing."""
    label_owners: ClassVar[tuple[str, ...]] = ()
    """Domains, with those below, and labels without one that only this cloud writes on running nodes."""

    def requested_zones(self) -> tuple[str, ...]:
        """Return the zones that the pool asks for; none where it leaves them to its cluster."""
        return ()

    def node_groups(self, cluster: str, pool: str) -> tuple[str, Collection[str]]:
        """Return the cloud's label of nodes with the name of their group, and what names of the pool's own contain."""
        return "", ()

    def kept_input(self, field: str, inputs: Iterable[str]) -> str:
        """Return the input of an adopted pool that keeps its value instead of a field of the plan; empty if none.

        Args:
            field: As `planned_values` has it.
            inputs: Inputs that the field becomes in a new pool.
        """
        return ""

    def ignored_inputs(self, *, is_fixed: bool) -> tuple[str, ...]:
        """Return the inputs whose changes the program ignores, since a controller of the cloud makes them.

        Args:
            is_fixed: Whether the smallest and the largest number of nodes are the same.
        """
        return ()

    def pod_labels(self) -> Mapping[str, str]:
        """Return the node labels that pods must select besides that of the pool."""
        return {}

    def cloud_labels(self) -> NodeLabels:
        """Return the labels that the cloud itself keeps on the nodes, as far as the plan decides them."""
        return {}

    def partitions_gpus(self) -> bool:
        """Say whether the pool itself cuts the GPUs, whatever shares the slices."""
        return False

    def has_scale_from_zero_resources(self) -> bool:
        """Say whether the autoscaler knows of an empty pool what its nodes will offer, beyond the machine's GPUs."""
        return False

    def requires_gpu_resource(self) -> bool:
        """Return whether the autoscaler treats nodes that do not offer `nvidia.com/gpu` as not ready."""
        return True

    usual_pods: ClassVar[int | None] = None
    """The most pods that a node may have where the pool does not say it."""

    def pods_per_node(self) -> int | None:
        """Return the most pods that a node may have; None if that is not known."""
        return self.key_values.get("max_pods") or self.usual_pods

    def may_wait_for_capacity(self) -> bool:
        """Say whether a pod may wait for its node longer than an update can: for a reserved time, or for room."""
        return False

    def queued_provisioning(self) -> QueuedProvisioning | None:
        """Return what has to ask for the nodes, where no pod that waits starts them; None where pods do."""
        return None

    def topology_levels(self, instance_type: str) -> tuple[str, ...]:
        """Return the node labels that say where in the network a node is, the widest first; none if not known."""
        return ()

    def has_auto_repair(self) -> bool:
        """Say whether the cloud replaces nodes that something calls broken."""
        return False

    def extra_resources(self) -> Mapping[str, str]:
        """Return what each node offers beside GPUs, RDMA interfaces and huge pages: resource name to quantity."""
        return {}
