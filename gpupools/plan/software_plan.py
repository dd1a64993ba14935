"""What a cluster needs in Kubernetes so that its pools offer GPUs: plain data, ready to be declared.

`gpupools.software.planning` makes it. Nothing in it is late: every name, value and manifest is known at preview.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject, with_items


class Piece(StrEnum):
    """One piece of software between the bare node and an allocatable GPU."""

    DRIVER = "driver"
    CONTAINER_TOOLKIT = "container toolkit"
    RUNTIME_CLASS = "runtime class"
    DEVICE_PLUGIN = "device plugin"
    NODE_FEATURE_DISCOVERY = "node feature discovery"
    GPU_FEATURE_DISCOVERY = "GPU feature discovery"
    DCGM_EXPORTER = "DCGM exporter"
    MIG_MANAGER = "MIG manager"
    DRA_DRIVER = "DRA driver"
    RDMA_PLUGIN = "RDMA interfaces"
    COMPUTE_DOMAINS = "compute domains"


class DriverMount(NamedTuple):
    """A directory with the driver that pods mount."""

    host: str
    inside: str
    """Where images look for it."""


class PoolOwners(NamedTuple):
    """Who brings each piece on the nodes of one pool; a piece that is not there has no entry."""

    pool: str
    """The pool's key in the stack file."""
    software: str
    owners: Mapping[Piece, str]
    """Exactly one owner for each piece, in words for people: `AKS`, `chart gpu-operator`."""


class ContainerImage(NamedTuple):
    """An image that pods of a cluster pull."""

    image: str
    """Where its publisher puts it, with the tag; `:?` where another chart version than the pinned one decides it."""
    pulled: str
    """What the pods name: the same, or the mirror's, or by digest."""
    by: str
    """Who runs it, in words for people."""
    by_system: bool = False
    """Whether the tag goes on with the operating system of the nodes: `595.91.07-ubuntu24.04`."""


class Release(NamedTuple):
    """A Helm release. Never atomic: a rollback would take a driver or plugin from under pods that run."""

    name: str
    """Step name in `RuntimePlan.depends`, and the name of the release in Helm."""
    chart: str
    version: str
    """Exact version of the chart."""
    repository: str
    """`https://…` of a repository that holds `chart`, or `oci://…` of the chart itself."""
    namespace: str
    """Exists before the release: the plan has an object for it."""
    values: JsonObject
    """Nested values; only paths that the pinned chart reads."""
    timeout_s: int
    """At least 1800, more with the number of nodes."""
    skip_await: bool
    """True where the chart is DaemonSets alone and no pool it serves keeps a node, so that nothing can become ready."""
    cleanup_on_fail: bool
    """Delete what a failed upgrade newly made; never what ran before it."""
    skip_crds: bool
    pools: tuple[str, ...]
    """Keys of the pools it serves."""
    decisions: tuple[str, ...]
    """What happens to CRDs and leftovers on upgrade and deletion, one sentence each, with the source."""

    @property
    def is_oci(self) -> bool:
        """Say whether `repository` is the chart's own OCI address, which the Release resource takes as its chart."""
        return self.repository.startswith("oci://")


class Installs(NamedTuple):
    """What a DaemonSet brings to the nodes it runs on."""

    piece: Piece
    owner: str
    node_labels: Mapping[str, str] = MappingProxyType({})
    """Labels that the cloud itself puts on every node with a GPU, which no plan of a pool has."""


class KubernetesObject(NamedTuple):
    """One object to declare."""

    name: str
    """Step name in `RuntimePlan.depends`; unique in the plan."""
    manifest: JsonObject
    """In wire form; the name is fixed, and so is the namespace of what lives in one."""
    why: str
    """One sentence."""
    timeout_s: int | None = None
    """How long it may take to become ready; None for objects that are ready at once."""
    await_ready: bool = True
    """False where readiness depends on nodes that need not exist."""
    installs: Installs | None = None
    """For a DaemonSet that brings a piece to nodes."""

    @property
    def kind(self) -> str:
        """Kubernetes' kind, e.g. `Namespace`."""
        return str(self.manifest["kind"])


class RuntimePlan(NamedTuple):
    """Everything one cluster needs in Kubernetes for its GPU pools."""

    cluster: str
    """The cluster's key in the stack file."""
    cloud: str
    owners: tuple[PoolOwners, ...]
    """The owner table, by pool in the order of the stack file."""
    releases: tuple[Release, ...]
    objects: tuple[KubernetesObject, ...]
    pods: Mapping[str, JsonObject]
    """By pool: the part of a pod's spec that lands on it (`PoolPlan.pod()`)."""
    depends: Mapping[str, tuple[str, ...]]
    """Step to the steps that come before it; steps are releases, objects and `pool/<key>`. Acyclic, and complete:
    every step has an entry, in an order in which they can be declared."""
    pod_metadata: Mapping[str, JsonObject] = MappingProxyType({})
    """By pool whose pods ask for fractions of GPUs: the labels and annotations with which they do."""
    claim_templates: Mapping[str, JsonObject] = MappingProxyType({})
    """By pool whose pods claim GPUs: the ResourceClaimTemplate their namespace needs."""
    node_pods: Mapping[str, JsonObject] = MappingProxyType({})
    """By pool with RDMA or compute domains: the part of a spec of a pod that takes a whole node."""
    namespace_objects: Mapping[str, tuple[JsonObject, ...]] = MappingProxyType({})
    """By such a pool: everything the namespace of its pods needs first, claim templates and a ComputeDomain."""
    groups: Mapping[str, JsonObject] = MappingProxyType({})
    """By pool with several steps: what pods that use any of them need, with the keys of the stack's output `pools`."""
    images: tuple[ContainerImage, ...] = ()
    """What its pods pull, once for each that runs it."""
    team_objects: tuple[JsonObject, ...] = ()
    """Manifests with which the scheduler shares the pools among teams; among `objects` unless others apply them."""
    order_objects: tuple[JsonObject, ...] = ()
    """Manifests with the order of steps; among `objects` unless others apply them."""
    notes: tuple[str, ...] = ()
    """What a reader should know, e.g. an existing NFD that is used; the warnings are among them."""
    warnings: tuple[Problem, ...] = ()
    """What is done as written but hardly meant."""

    @property
    def needs_kubernetes(self) -> bool:
        """Say whether anything is to be declared in the cluster; without, no Kubernetes provider is needed."""
        return bool(self.releases or self.objects)

    def json_team_objects(self) -> list[JsonDict]:
        """Return the objects of the scheduler in JSON types."""
        return [json_value(team_object) for team_object in self.team_objects]

    def json_order_objects(self) -> list[JsonDict]:
        """Return the objects with the order of steps in JSON types."""
        return [json_value(order_object) for order_object in self.order_objects]

    def owners_alike(self) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], list[str]]:
        """Return the pools by their software and by who brings which pieces: those alike stand together."""
        alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
        for row in self.owners:
            pieces: dict[str, list[str]] = {}
            for piece, owner in row.owners.items():
                pieces.setdefault(owner, []).append(piece.value)
            same = (row.software, tuple((owner, ", ".join(found)) for owner, found in pieces.items()))
            alike.setdefault(same, []).append(row.pool)
        return alike

    def as_json(self) -> JsonDict:
        """Return the plan as JSON types, for `gpupools preview --json`."""
        hidden = ("cleanup_on_fail", "skip_crds")
        optional = {"pod_metadata": self.pod_metadata, "claim_templates": self.claim_templates}
        node_pods = {"node_pods": self.node_pods, "namespace_objects": self.namespace_objects}
        found: JsonDict = json_value(
            {
                "cluster": self.cluster,
                "cloud": self.cloud,
                "owners": {
                    row.pool: {"software": row.software, **{piece.value: owner for piece, owner in row.owners.items()}}
                    for row in self.owners
                },
                "releases": [
                    {key: value for key, value in each._asdict().items() if key not in hidden} for each in self.releases
                ],
                "objects": [{"name": each.name, "why": each.why, "manifest": each.manifest} for each in self.objects],
                "pods": self.pods,
                **{key: value for key, value in optional.items() if value},
                **(node_pods if self.node_pods else {}),
                **({"groups": self.groups} if self.groups else {}),
                "depends": self.depends,
                "notes": self.notes,
            }
        )
        return found


def json_value(value: Any) -> Any:
    """Return a value with dicts and lists: Pulumi accepts no other mappings, and a plan's are read-only."""
    return with_items(value, json_value)
