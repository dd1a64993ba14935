"""The contract of a cloud: everything its folder brings, as types.

A part that needs a cloud's SDK, or that a command which only plans has no use for, is a function that imports it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gpupools.catalog.instance_types import Catalogue
from gpupools.catalog.reserved_keys import KeyRule
from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Problem, nearest
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.capability import Capability, Setting, SoftwareOption
from gpupools.plan.input_types import read_input_types
from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.provider_plan import PoolRequest, ProviderPlan
from gpupools.spec.models import Cluster
from gpupools.spec.overrides import Overridable

if TYPE_CHECKING:  # planning a pool reads none back and declares none
    import pulumi  # noqa: TID251 - names of types; nothing here is imported when the program runs

    from gpupools.plan.edit_tables import EditTables
    from gpupools.plan.existing_pools import ExistingPools
    from gpupools.plan.karpenter_provider import KarpenterProvider
    from gpupools.plan.pool_facts import Accelerator, NodeCustomization, PoolFacts
    from gpupools.plan.pool_plan import PoolPlan


def get_later(module: str, name: str) -> Callable[[], Any]:
    """Return a function that imports a module and returns what it has under a name: a part that few commands need."""
    return lambda: getattr(import_module(module), name)


def call_later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a module and calls its function of that name."""
    return lambda *arguments: getattr(import_module(module), name)(*arguments)


GroupKind = tuple[str, str]
"""API group and kind of a Kubernetes object."""
ObjectReader = Callable[[JsonObject, Mapping[str, "Cloud"]], Iterable["PoolFacts"]]
"""Reads the pools that a Kubernetes object stands for."""


class KubernetesObjects(NamedTuple):
    """Kubernetes objects that create nodes on one cloud only."""

    pools: "Mapping[GroupKind, ObjectReader]" = MappingProxyType({})
    """Readers of objects that are node pools by themselves, such as ComputeClasses."""
    karpenter: "KarpenterProvider | None" = None
    """What Karpenter's provider calls its machines; None where Karpenter makes none."""


class Readback(NamedTuple):
    """Reads back what anybody declared on a cloud. None of it raises, whatever the input."""

    read_pools: "Callable[[str, JsonObject], tuple[PoolFacts, ...]]"
    """Read the node pools a declared resource holds (type token, wire-form properties with `UNKNOWN`).

    Several for a cluster with pools written inline, none for a resource without.
    """
    accelerator: "Callable[[str], Accelerator]"
    """Say what a machine carries, by its name alone; for objects that name machines, such as Karpenter's."""
    customizations: "Callable[[str, JsonObject], Iterable[NodeCustomization]]"
    """Say which inputs of a resource, set by hand, run on the nodes, open them or decide whom they run as."""
    types: tuple[str, ...]
    """Every type token that is read, for people."""
    read_template: "Callable[[str, JsonObject], PoolFacts | None]" = lambda kind, inputs: None
    """Read a resource that other resources take their machines from, pool or not; None for any other."""
    unread: Callable[[str, JsonObject], str] = lambda kind, inputs: ""
    """Say why a resource of a type that is read is closed, e.g. a stack whose template is not at hand; or nothing."""
    nested_types: Callable[[str, JsonObject], Iterable[str]] = lambda kind, inputs: ()
    """Yield the types of what a resource holds and `read_pools` does not read, as `cloudformation:X` or `arm:X`."""
    objects: KubernetesObjects = KubernetesObjects()
    """Kubernetes objects of this cloud."""


Given = Mapping[str, "pulumi.Input[Any]"]
"""The keys of a cluster; values may be late."""


class ResourceFactory(NamedTuple):
    """Declares the resources of a cloud with its SDK."""

    create_provider: "Callable[[str, Given, pulumi.ResourceOptions], pulumi.ProviderResource]"
    """Declare the provider of one cluster's pools; credentials are the environment's."""
    create_pool: "Callable[[str, PoolPlan, Given, pulumi.ResourceOptions], pulumi.Output[str]]"
    """Declare the resources of one plan, all named after the name given; return what the cloud calls the pool.

    Raises TypeError for a plan of another cloud.
    """


class RegisteredResource(NamedTuple):
    """How a program registers a resource of a pool."""

    suffix: str
    """What its name in Pulumi ends with, after that of the pool's component."""
    refers: Mapping[str, str] = MappingProxyType({})
    """Input → the resource of the pool whose outputs it takes, by its name in `overrides`."""
    untyped: str = ""
    """Type token where its inputs are in a map `properties`; empty if they never are."""


LATE_DIGITS = "[0-9a-z]{4}"
"""Expression of the hash at the end of `replacement_name`, where only an update can tell it."""


class PodLimits(NamedTuple):
    """How many pods a cloud lets a node run."""

    least: int
    most: int
    source: str
    """URL of the page that says it."""


class PoolOrder(NamedTuple):
    """How the autoscaler of a cluster gets the order of the steps of a pool."""

    names: "Callable[[PoolPlan, Cluster], tuple[str, ...]]"
    """Return the names that the node pool of a plan may have, which may end in `LATE_DIGITS`; none if none is sure."""
    group_id: str = ""
    """Expression of the autoscaler's id of a node group, with its name in braces; empty with `compute_class`."""
    enable: str = ""
    """Command that makes the cloud's own autoscaler read the order, with keys of the cluster in braces; empty where the
    team runs the autoscaler."""
    compute_class: "Callable[[str, Sequence[str]], JsonDict] | None" = None
    """Return the object with the order, as arguments of `wire_form`: of a pool's key and the names of its steps."""


class NodePools(NamedTuple):
    """A cloud's own node pools, as what makes the nodes of a pool: what they take, and what an edit of them does."""

    settings: Mapping[str, Setting]
    """Every name in `gpupools.spec.pool_options.SETTINGS`."""
    overridable: Mapping[str, Overridable]
    """What a pool's resources take by hand, and what of it stays the plan's: the one table of that."""
    edits: "Callable[[], EditTables]"
    """What edits do to nodes that run."""
    resources: Callable[[], ResourceFactory]
    """Imports the cloud's SDK."""
    declared_inputs: "Callable[[PoolPlan, Mapping[str, Any]], Mapping[str, JsonDict]]"
    """Return the inputs of each resource of a plan: the resource's name in `overrides` to inputs by wire name.

    Values of the cluster's keys are passed on as they are; what only an update can tell is `pool_facts.UNKNOWN`. Raises
    TypeError for a plan of another cloud.
    """
    order: PoolOrder
    registered: Mapping[str, RegisteredResource]
    """Of what `declared_inputs` returns: all that rules read, each after what it refers to."""
    existing_pools: "Callable[[], ExistingPools] | None" = None
    """Reads existing pools for import; None where import is not supported."""
    autoscaler_id: str = "{name}"
    """Pattern of what Cluster Autoscaler calls a node group, with the cloud's names of `{cluster}` and pool."""


class UntypedResource(NamedTuple):
    """A resource whose class takes any properties, for which another class has the types."""

    token: str
    """Type token of the class that has them."""
    whose: str
    """What it is, for people: `an agent pool`."""
    inside: str
    """The input that holds the properties."""
    path_properties: frozenset[str]
    """Properties of the typed class that are not among the free ones: they are parts of the resource's address."""
    newer: frozenset[str]
    """Properties of later versions of the API, which the typed class lacks; an inner one by its dotted path."""
    problems: tuple[tuple[str, str, str], ...]
    """What the cloud knows to be wrong with the newer ones: dotted path below `inside`, what, and the cure."""


UntypedResourceLookup = Callable[[JsonObject], UntypedResource | None]
"""Says what a resource is, by its inputs."""


def nearest_cloud(word: object, clouds: Mapping[str, "Cloud"]) -> str:
    """Name the cloud whose service somebody wrote in place of its name (`eks`), or those closest to the word."""
    said = str(word).casefold().split() or [""]
    meant = next((cloud.name for cloud in clouds.values() if said[-1] in cloud.service.casefold().split()), None)
    return f"write {meant}" if meant is not None else nearest(word, clouds)


class Cloud(NamedTuple):
    """Everything a cloud's folder brings. What has no default every cloud must have."""

    name: str
    """The folder's name."""
    service: str
    """The Kubernetes service's name, for people."""

    instance_types: Catalogue

    cluster: type[Cluster]
    """The keys a stack file gives for a cluster on this cloud."""
    example_cluster: JsonObject
    """A cluster as a stack file gives it, for documentation, the capability matrix and the contract tests."""
    provider_settings: Mapping[str, Mapping[str, str]]
    """Namespaces of Pulumi configuration that belong to this cloud's providers → setting → what to use instead.

    A provider that a program declares itself reads none of them (https://github.com/pulumi/pulumi-aws/issues/3259).
    """

    software: Mapping[str, SoftwareOption]
    """The ways of installing the GPU software: `cloud-managed`, `device-plugin`, `gpu-operator`, `dra-driver`."""
    default_software: Mapping[str, str]
    """The way taken for each kind of sharing when the pool names none."""
    capabilities: Mapping[tuple[str, str], Capability]
    """The matrix: (software, kind of sharing) to a verdict, without gaps."""
    check_pool: Callable[[PoolRequest], list[Problem]]
    """What this cloud refuses beyond the matrix: profiles, client limits, machines the image cannot drive.

    Paths of problems start at the pool's own keys, here and below.
    """
    check_settings: Callable[[PoolRequest], list[Problem]]
    """Settings of the pool that exclude each other or the machine: capacity, zones, image, disk, network, upgrades.

    Apart from `check_pool`, since the capability matrix is about sharing and not about how machines are bought.
    """
    decide: Callable[[PoolRequest], ProviderPlan]
    """Choose what this cloud's pool needs; called only for a wish that nothing refuses."""
    node_runtime: Callable[[str, ProviderPlan], NodeRuntime]
    """Say what the nodes bring of the GPU software, by the pool's `software` and this cloud's part of its plan."""
    supports_dra_from_zero: bool
    """Whether the autoscaler knows of an empty pool which devices its first node would let pods claim."""
    reserved_labels: tuple[KeyRule, ...]
    """Which keys of node labels a pool may not set."""
    reserved_taints: tuple[KeyRule, ...]
    """Which keys of taints a pool may not set."""
    node_pools: NodePools
    readback: Callable[[], Readback]

    folder: Path | None = None
    """Its folder, for tables that a cloud may have (`file`); None for a cloud without any."""
    helpers: Mapping[str, str] = MappingProxyType({})
    """Software beside the GPUs that only clusters of this cloud may have, by its key in `runtime.existing`, with the
    public page about it: what starts nodes, what calls them broken."""
    capacity_buffers: str = ""
    """URL of the page that says that the cloud's own autoscaler has CapacityBuffer; empty where it has none."""
    karpenter_excludes_autoscaling: str = ""
    """URL of the page that says that pools beside the cloud's Karpenter cannot autoscale; empty where they can."""
    own_registry: Callable[[Cluster], str] = lambda cluster: ""
    """Name the registry with the cloud's own images for a cluster, where charts name that of another region."""
    registry_login: Callable[[str], str] = lambda host: ""
    """Return the command that logs `crane` in to a registry of this cloud; empty for any other host."""
    open_metadata_address: str = ""
    """Address of the instance metadata service where pods reach it, as a range; empty where the nodes prevent that."""
    pod_limits: PodLimits | None = None
    """How many pods a node may be set to run."""
    component_name_limit: int | None = None
    """Most characters of a pool component's name where the cloud's own names are made from it; None for no limit."""
    pool_command: str = "kubectl get nodes"
    """Command that shows why nodes of a cluster do not start, with keys of the cluster in braces."""
    cluster_label: str = ""
    """Label of nodes that tells to which cluster they belong."""
    untyped_resource: Callable[[str], UntypedResourceLookup | None] = lambda kind: None
    """Return what says of resources of a type whose class takes any properties what they are; None for other types."""

    def file(self, name: str) -> Path | None:
        """Return a table of the folder, such as `prices.csv`; None where the cloud has none."""
        path = self.folder / name if self.folder is not None else None
        return path if path is not None and path.is_file() else None

    def rows(self, name: str) -> tuple[Mapping[str, str], ...]:
        """Return the rows of a table of the folder; none where the cloud has no such table."""
        file = self.file(name)
        return csv_rows(file) if file is not None else ()

    def tokens(self) -> Mapping[str, str]:
        """Return the type token of each resource by its name in `overrides`, as `input_types.json` has them."""
        file = self.file("input_types.json")
        types = read_input_types(file) if file is not None else None
        return {name: token for token, name in types.resources.items()} if types is not None else {}

    def dated_tables(self) -> Iterable[tuple[Path, str]]:
        """Yield the tables of dated facts about places, types, prices and quotas, and the column with the date."""
        yield self.instance_types.file, "checked"
        dated = (self.cluster.places_file, self.file("prices.csv"), self.file("quotas.csv"))
        yield from ((file, "dated") for file in dated if file is not None)


Clouds = Mapping[str, Cloud]
"""All clouds by name."""
