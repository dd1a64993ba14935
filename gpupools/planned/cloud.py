"""What a cloud's folder must say about its cloud."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from gpupools.asked.overrides import Overridable
from gpupools.asked.spec import Cluster, PoolSpec
from gpupools.base.errors import Problem
from gpupools.base.taints import Taint
from gpupools.known.catalogue import Catalogue, InstanceType
from gpupools.known.reserved import KeyRule
from gpupools.planned.node_runtime import NodeRuntime
from gpupools.planned.runtime_plan import Piece

if TYPE_CHECKING:  # planning a pool reads none back
    from gpupools.planned.pool_facts import Accelerator, Customisation, PoolFacts


class Verdict(StrEnum):
    """How a way of sharing comes to the nodes of a pool."""

    NATIVE = "native"
    """A field of the cloud's pool (or of the node image's settings) does it."""
    IN_CLUSTER = "in-cluster"
    """Software installed in the cluster does it."""
    REFUSED = "refused"


class Capability(NamedTuple):
    """One cell of the capability matrix."""

    verdict: Verdict
    why: str
    """One sentence."""
    source: str
    """A public page or file that says so."""
    instead: str = ""
    """For a refusal: what would work on this cloud."""


class Setting(NamedTuple):
    """Whether this cloud takes a setting of the pool."""

    taken: bool
    why: str
    """Taken: which field of the cloud's pool it becomes. Refused: why there is none, and what to use instead."""
    source: str


@dataclass(frozen=True)
class Owners:
    """Who brings each piece between the bare node and an allocatable GPU; exactly one for each."""

    driver: str
    container_toolkit: str
    device_plugin: str


class Software(NamedTuple):
    """One way of installing the GPU software on this cloud."""

    owners: Owners
    why: str
    source: str


@dataclass(frozen=True)
class Wish:
    """A pool on one cluster with its machine and software chosen: what a cloud's own rules look at."""

    name: str
    """The pool's key in the stack file."""
    spec: PoolSpec
    cluster: Cluster
    instance: InstanceType
    software: str
    sharing: str
    """One of `gpupools.asked.spec.SHARING_KINDS`."""
    capability: Capability


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the cloud's own pool needs beyond the portable plan; each cloud's folder adds its fields."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Node labels this cloud or this way of sharing needs."""
    taints: tuple[Taint, ...] = ()
    """Taints the cloud itself puts on such a pool, beside the GPU taint.

    Its `resources.py` declares them where leaving them out would be drift.
    """
    owners: Owners | None = None
    """Who brings the GPU software, where this pool's image makes it others than its `software` says."""

    def autoscaler_is_told(self) -> bool:
        """Say whether the autoscaler knows of an empty pool what its nodes will offer, beyond the machine's GPUs."""
        return False

    def nodes_come_late(self) -> bool:
        """Say whether a pod may wait for its node longer than an update can: for a reserved time, or for room."""
        return False

    def pods_bring_nodes(self) -> bool:
        """Say whether a pod that waits is enough for the autoscaler to start a node."""
        return True

    def beside_gpus(self) -> Mapping[str, str]:
        """Return what each node offers beside GPUs, RDMA interfaces and huge pages: resource name to quantity."""
        return {}


def when_called(module: str, function: str, *first: Any) -> Callable[..., Any]:
    """Return a function that imports another at its first call and passes `first` and its own arguments on.

    For reading back, whose modules a command that only plans has no use for.
    """

    @cache
    def imported() -> Callable[..., Any]:
        return partial(getattr(import_module(module), function), *first)

    return lambda *rest: imported()(*rest)


def no_refusals(wish: Wish) -> list[Problem]:
    """Refuse nothing beyond the capability matrix."""
    return []


def nothing_customised(resource: str, inputs: Mapping[str, Any]) -> "tuple[Customisation, ...]":
    """Find nothing: a cloud whose inputs nobody sets by hand."""
    return ()


def no_template(type_token: str, properties: Mapping[str, Any]) -> "PoolFacts | None":
    """Read nothing: on this cloud every pool names its machine itself."""
    return None


def reads_all(type_token: str, properties: Mapping[str, Any]) -> str:
    """Say that nothing of a resource is left unread."""
    return ""


def holds_nothing(type_token: str, properties: Mapping[str, Any]) -> Iterable[str]:
    """Yield nothing: on this cloud no resource holds others."""
    return ()


def image_brings_driver(software: str, settings: Settings) -> NodeRuntime:
    """Say that every image has driver and toolkit, and under `cloud-managed` the rest."""
    pieces = [Piece.DRIVER, Piece.CONTAINER_TOOLKIT, Piece.MIG_MANAGER]
    if software == "cloud-managed":
        pieces.append(Piece.DEVICE_PLUGIN)
    return NodeRuntime(brings=dict.fromkeys(pieces, "node image"), why="the node image brings them", source="")


@dataclass(frozen=True)
class Cloud:
    """Everything the domain must know about one cloud; the folder's `resources.py` translates the plan."""

    name: str
    """The folder's name."""
    service: str
    """The Kubernetes service's name, for people."""
    instance_types: Catalogue
    cluster: type[Cluster]
    """The keys a stack file gives for a cluster on this cloud."""
    software: Mapping[str, Software]
    """The ways of installing the GPU software: `cloud-managed`, `device-plugin`, `gpu-operator`, `dra-driver`."""
    default_software: Mapping[str, str]
    """The way taken for each kind of sharing when the pool names none."""
    capabilities: Mapping[tuple[str, str], Capability]
    """The matrix: (software, kind of sharing) to a verdict, without gaps."""
    decide: Callable[[Wish], Settings]
    """Choose what this cloud's pool needs; called only for a wish that nothing refuses."""
    read_pools: Callable[[str, Mapping[str, Any]], "tuple[PoolFacts, ...]"]
    """Read the node pools a declared resource holds (type token, wire-form properties with `UNKNOWN`).

    Several for a cluster with pools written inline, none for a resource without. Never raises, whatever the input.
    """
    accelerator: "Callable[[str], Accelerator]"
    """Say what a machine carries, by its name alone; for objects that name machines of a cloud, such as Karpenter's."""
    refusals: Callable[[Wish], list[Problem]] = no_refusals
    """What this cloud refuses beyond the matrix: profiles, client limits, machines the image cannot drive."""
    conflicts: Callable[[Wish], list[Problem]] = no_refusals
    """Settings of the pool that exclude each other or the machine: capacity, zones, image, disk, network, upgrades.

    Apart from `refusals`, since the capability matrix is about sharing and not about how machines are bought.
    """
    reserved_labels: tuple[KeyRule, ...] = ()
    """Which keys of node labels a pool may not set."""
    reserved_taints: tuple[KeyRule, ...] = ()
    """Which keys of taints a pool may not set."""
    customised: "Callable[[str, Mapping[str, Any]], Iterable[Customisation]]" = nothing_customised
    """Say which inputs of a resource, set by hand, run on the nodes, open them or decide whom they run as."""
    overridable: Mapping[str, Overridable] = field(default_factory=dict)
    """What a pool's resources take by hand, and what of it stays the plan's: the one table of that."""
    find_instance_type: Callable[[Catalogue, str], InstanceType | None] = field(
        default=lambda catalogue, name: catalogue.get(name)
    )
    """Look a written instance type up; a cloud with composed names brings its own."""
    read_template: Callable[[str, Mapping[str, Any]], "PoolFacts | None"] = no_template
    """Read a resource that other resources take their machines from, pool or not; None for any other."""
    unread: Callable[[str, Mapping[str, Any]], str] = reads_all
    """Say why a resource of a type that is read is closed, e.g. a stack whose template is not at hand; or nothing."""
    held_types: Callable[[str, Mapping[str, Any]], Iterable[str]] = holds_nothing
    """Yield the types of what a resource holds and `read_pools` does not read, as `cloudformation:X` or `arm:X`."""
    node_runtime: Callable[[str, Settings], NodeRuntime] = image_brings_driver
    """Say what the nodes bring of the GPU software, by the pool's `software` and this cloud's part of its plan."""
    example_cluster: Mapping[str, Any] = field(default_factory=dict)
    """A cluster as a stack file gives it, for documentation, the capability matrix and the contract tests."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Every name in `gpupools.asked.pool_parts.SETTINGS`; one without an entry is refused as not there yet."""
    provider_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespaces of Pulumi configuration that belong to this cloud's providers → setting → what to use instead.

    A provider that a program declares itself reads none of them (https://github.com/pulumi/pulumi-aws/issues/3259).
    """
    component_name_limit: int | None = None
    """Most characters of a pool component's name where the cloud's own names are made from it; None for no limit."""
