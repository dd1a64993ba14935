"""What a cloud's folder must say about its cloud, and what policies read back from what was declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from gpupools.catalogue import Catalogue, InstanceType
from gpupools.errors import Problem
from gpupools.runtime.facts import NodeRuntime
from gpupools.runtime.plan import Piece
from gpupools.spec import Cluster, PoolSpec
from gpupools.taints import GPU_TAINT, HARD_EFFECTS, Effect, Taint


class Verdict(StrEnum):
    """How a way of sharing comes to the nodes of a pool."""

    NATIVE = "native"
    """A field of the cloud's pool (or of the node image's settings) does it."""
    IN_CLUSTER = "in-cluster"
    """Software installed in the cluster does it."""
    REFUSED = "refused"


@dataclass(frozen=True)
class Capability:
    """One cell of the capability matrix."""

    verdict: Verdict
    why: str
    """One sentence."""
    source: str
    """A public page or file that says so."""
    instead: str = ""
    """For a refusal: what would work on this cloud."""


@dataclass(frozen=True)
class Setting:
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


@dataclass(frozen=True)
class Software:
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
    """One of `gpupools.spec.SHARING_KINDS`."""
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


class Unknown:
    """Stands in read-back properties for a value the engine does not know at preview."""

    def __repr__(self) -> str:
        return "<unknown at preview>"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Accelerator:
    """What a machine carries for computing beside its CPU, as far as its name says."""

    vendor: str
    """`nvidia`, `amd` (a GPU of AMD), or `other`: an accelerator that is no GPU, such as Inferentia, Gaudi or a TPU."""
    count: Fraction | None
    """GPUs of one machine; None where the name alone does not say."""
    name: str = ""
    """Model or product, for people; empty for a machine newer than the catalogue."""


NO_ACCELERATOR = Accelerator("", Fraction(0))
"""A machine for pods that ask for no accelerator."""


@dataclass(frozen=True)
class MissingTaint:
    """The taint a pool lacks, in the spelling of the API its resource speaks."""

    text: str
    """For messages, e.g. `{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE}`."""
    value: Any = None
    """For remediation (`gpupools.reading.with_taint`): the list item, or the map entry `{key: …}`, to add at `where`.

    None where the taint is part of a text (user data, kubelet arguments) that nothing but its author should rewrite.
    """


class By(StrEnum):
    """Who brings a piece of GPU software, as far as one resource says."""

    CLOUD = "cloud"
    """The node image or the Kubernetes service."""
    NOBODY = "nobody"
    """The resource leaves it out or switches it off, so something in the cluster has to bring it."""
    UNSAID = ""


@dataclass(frozen=True)
class SoftwareHints:
    """What the pool's own resource says about the owners of the GPU software."""

    driver: By = By.UNSAID
    container_toolkit: By = By.UNSAID
    device_plugin: By = By.UNSAID
    said_by: tuple[str, ...] = ()
    """The inputs that say so, e.g. `amiType AL2023_x86_64_NVIDIA`."""


@dataclass(frozen=True)
class SharingFacts:
    """How the pool's own resource shares its GPUs."""

    kind: str
    """One of `gpupools.spec.SHARING_KINDS`."""
    clients: int | None = None
    """Containers per GPU (or per slice), where the resource says it."""
    profile: str = ""
    """MIG profile as this API writes it: `1g.5gb`, `MIG1g`."""
    said_by: str = ""
    """The input that says so."""


@dataclass(frozen=True, kw_only=True)
class Weakness:
    """One input of a pool that leaves its nodes less hardened than the baseline asks."""

    name: str
    """Stable word for the control, e.g. `metadata-service`, the same on every cloud."""
    property: str
    """Path of the input to change."""
    found: str
    """Its declared value, for people; `unset`, or `not known at preview` together with `unverified`."""
    wanted: str
    why: str
    """One sentence."""
    mandatory: bool
    """False for an advisory."""
    source: str
    unverified: bool = False
    """True where the value is not known at preview."""


@dataclass(frozen=True)
class Reference:
    """Another resource that decides part of a pool, such as a launch template."""

    property: str
    """Path of the input that refers; its first key is the one to look up among property dependencies."""
    types: tuple[str, ...]
    """Type tokens the other resource can have; `Cloud.read_template` reads it."""
    id: str = ""
    """What the input says when it is known: an id, a name."""
    decides: frozenset[str] = frozenset()
    """`machine`, `image`, `taints`: what is not in this resource but in the other."""


@dataclass(frozen=True)
class PoolFacts:
    """A node pool as it was declared, read back from the cloud's own input properties."""

    cloud: str
    instance_types: tuple[str, ...]
    gpus_per_node: Fraction | None
    """GPUs of the best machine the pool may take, of NVIDIA or AMD; 0 for a pool without, None when not known."""
    taints: tuple[Taint, ...]
    """Permanent taints that could be read, in Kubernetes' spelling."""
    evidence: str = ""
    """Which input says that the nodes have GPUs, e.g. `instanceTypes p4d.24xlarge`; empty when none says so."""
    unknown: tuple[str, ...] = ()
    """Properties that are not known at preview and could change the answer."""
    pool: str = ""
    """Name of the pool inside its resource; empty when the resource is the pool."""
    where: str = ""
    """Path of the property that takes the taint, e.g. `agentPoolProfiles[1].nodeTaints`."""
    missing_taint: MissingTaint = MissingTaint(str(GPU_TAINT))
    """The taint of this accelerator in the spelling that `where` takes."""
    accelerator: str = ""
    """`nvidia`, `amd`, `other` (never a GPU pool: advice only), or empty when there is none or none is known."""
    other_accelerator: str = ""
    """For `other`: the input and the accelerator, e.g. `instanceTypes trn2.48xlarge (AWS Trainium2)`."""
    not_counted: tuple[str, ...] = ()
    """What looks like a taint and is none, each with the reason, e.g. a wrong spelling of the effect."""
    in_cluster: bool | None = True
    """None when the inputs known at preview do not say whether the machines become Kubernetes nodes."""
    elsewhere: tuple[Reference, ...] = ()
    """Resources that decide what this one leaves open; `gpupools.reading.joined` adds what they say."""
    software: SoftwareHints = SoftwareHints()
    sharing: SharingFacts | None = None
    """None when the resource says nothing, which leaves it to software in the cluster."""
    min_nodes: int | None = None
    max_nodes: int | None = None
    """None when the resource sets no bound or it is not known."""
    per_zone: bool = False
    """True when `min_nodes` and `max_nodes` are for each zone."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Node labels."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags (AWS, Azure) or resource labels (GCP) of the pool."""
    weaknesses: tuple[Weakness, ...] = ()
    deletion_protected: bool = False
    """True when a field of the resource itself makes the cloud refuse its deletion."""
    no_taint_field: bool = False
    """True when this API has no field for taints on such a pool, so that the GPUs have to move to another one."""

    @property
    def only_no_execute(self) -> bool:
        """Say whether the pool is kept free by NoExecute alone, which GPU daemons do not tolerate by default.

        https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml, `daemonsets.tolerations`
        """
        hard = {taint.effect for taint in self.taints if taint.key and taint.effect in HARD_EFFECTS}
        return hard == {Effect.NO_EXECUTE}


def no_refusals(wish: Wish) -> list[Problem]:
    """Refuse nothing beyond the capability matrix."""
    return []


def no_template(type_token: str, properties: Mapping[str, Any]) -> PoolFacts | None:
    """Read nothing: on this cloud every pool names its machine itself."""
    return None


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
    """The ways of installing the GPU software: `cloud-managed`, `device-plugin`, `gpu-operator`."""
    default_software: Mapping[str, str]
    """The way taken for each kind of sharing when the pool names none."""
    capabilities: Mapping[tuple[str, str], Capability]
    """The matrix: (software, kind of sharing) to a verdict, without gaps."""
    decide: Callable[[Wish], Settings]
    """Choose what this cloud's pool needs; called only for a wish that nothing refuses."""
    read_pools: Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]]
    """Read the node pools a declared resource holds (type token, wire-form properties with `UNKNOWN`).

    Several for a cluster with pools written inline, none for a resource without. Never raises, whatever the input.
    """
    accelerator: Callable[[str], Accelerator]
    """Say what a machine carries, by its name alone; for objects that name machines of a cloud, such as Karpenter's."""
    refusals: Callable[[Wish], list[Problem]] = no_refusals
    """What this cloud refuses beyond the matrix: profiles, client limits, machines the image cannot drive."""
    conflicts: Callable[[Wish], list[Problem]] = no_refusals
    """Settings of the pool that exclude each other or the machine: capacity, zones, image, disk, network, upgrades.

    Apart from `refusals`, since the capability matrix is about sharing and not about how machines are bought.
    """
    reserved_labels: tuple[str, ...] = ()
    """Patterns (fnmatch) of label keys the cloud keeps for itself."""
    find_instance_type: Callable[[Catalogue, str], InstanceType | None] = field(
        default=lambda catalogue, name: catalogue.get(name)
    )
    """Look a written instance type up; a cloud with composed names brings its own."""
    read_template: Callable[[str, Mapping[str, Any]], PoolFacts | None] = no_template
    """Read a resource that other resources take their machines from, pool or not; None for any other."""
    node_runtime: Callable[[str, Settings], NodeRuntime] = image_brings_driver
    """Say what the nodes bring of the GPU software, by the pool's `software` and this cloud's part of its plan."""
    example_cluster: Mapping[str, Any] = field(default_factory=dict)
    """A cluster as a stack file gives it, for documentation, the capability matrix and the contract tests."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Every name in `gpupools.pool_settings.SETTINGS`; one without an entry is refused as not there yet."""
