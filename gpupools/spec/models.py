"""What a reader may write about one pool or one cluster: strict, frozen, the same on every cloud."""

import operator
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from gpupools.catalog.gpus import GpuModel
from gpupools.common.errors import Path, Problem, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.model import ConsistentModel, StrictModel
from gpupools.common.taints import GPU_TAINT, LABEL_VALUE, QUALIFIED_NAME, Effect, Taint, parse_taint
from gpupools.spec.pool_options import (
    Adopt,
    Capacity,
    Disk,
    Network,
    NodeImage,
    OnDemand,
    Overrides,
    Security,
    Timeouts,
    Upgrade,
)
from gpupools.spec.software_spec import RuntimeSpec, Trust


class Late:
    """Stands for a value that is known only while the program runs: another resource's output, or a secret."""

    def __repr__(self) -> str:
        return "<known only while the program runs>"


LATE = Late()


class StackOutput(StrictModel):
    """An output of the Pulumi stack that the cluster's `stack:` names."""

    output: str = Field(min_length=1)
    """Name of the output; a dot goes into an output that is a map: `train.nodeRoleArn`."""


def _form(value: object) -> str | None:
    """Tell the forms a value may be written in apart, so that only the one meant is checked and complained about."""
    forms = ((str, "<text>"), (Mapping, "<map>"), (StackOutput, "<map>"), (list, "<list>"), (Late, "<late>"))
    return next((tag for kind, tag in forms if isinstance(value, kind)), None)


Address = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[StackOutput, Tag("<map>")] | Annotated[Late, Tag("<late>")],
    Discriminator(_form),
]
"""Where something is: text, or an output of another stack. Nothing is ever decided from it."""

Addresses = Annotated[
    Annotated[list[Address], Field(min_length=1), Tag("<list>")]
    | Annotated[StackOutput, Tag("<map>")]
    | Annotated[Late, Tag("<late>")],
    Discriminator(_form),
]
"""Several addresses: a list, or one output that is a list."""


def _mentions(form: Any, kind: type) -> bool:
    """Say whether a type is among the parts of an annotation."""
    return form is kind or any(_mentions(part, kind) for part in get_args(form))


def _texts(value: object) -> Iterator[str]:
    """Yield a text, or every text of a list or map."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)


class Cluster(ConsistentModel):
    """An existing Kubernetes cluster. Each cloud's folder adds the keys it needs."""

    model_config = ConfigDict(str_min_length=1)

    cloud: str
    """The folder under providers/ that owns the other keys."""
    stack: str | None = None
    """Fully qualified Pulumi stack (`organization/project/stack`) that `{output: …}` values come from."""
    runtime: RuntimeSpec = RuntimeSpec.model_construct()
    """The GPU software inside the cluster; left out: what the pools need is installed there, and nothing else."""
    tags: dict[Annotated[str, Field(min_length=1, max_length=512)], str] = {}
    """Tags or resource labels of all its pools; where a pool has the same key, the pool's."""

    @field_validator("*")
    @classmethod
    def _says_what_it_shows(cls, value: object, info: ValidationInfo) -> object:
        """Refuse blanks around a name and characters nobody sees; a certificate may end in a line break."""
        for text in _texts(value) if info.field_name != "certificate_authority" else ():
            if text != text.strip() or not text.isprintable():
                raise ValueError(f"got {shown(text)}; leave out blanks around it and what cannot be printed")
        return value

    @field_validator("stack")
    @classmethod
    def _is_fully_qualified(cls, stack: str | None) -> str | None:
        if stack is not None and not re.fullmatch(r"[^/]+/[^/]+/[^/]+", stack):
            raise ValueError(f"got {shown(stack)}; write <organization>/<project>/<stack>")
        return stack

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Refuse outputs of no stack."""
        first = next(iter(self.late_outputs()), "") if self.stack is None else ""
        if first:
            what = "takes a stack's output, but no stack is named; add stack: <org>/<project>/<stack>"
            yield (re.split(r"[.\[]", first)[0],), what

    def not_for_new_pools(self, at: Path) -> Iterator[Problem]:
        """Yield what of the cluster no new pool may have, but one that is taken over as it is."""
        yield from ()

    @classmethod
    def address_keys(cls) -> frozenset[str]:
        """Return the keys that may be late: addresses, and maps and lists of them."""
        return frozenset(key for key, field in cls.model_fields.items() if _mentions(field.annotation, Late))

    unordered: ClassVar[frozenset[str]] = frozenset()
    """Keys whose values the cloud keeps as a set, so that their order says nothing."""
    untold: ClassVar[frozenset[str]] = frozenset({"cloud", "stack", "runtime", "tags"})
    """Keys that no pool is told: what they change is inside the cluster, or stands elsewhere."""
    identity: ClassVar[tuple[str, ...]] = ()
    """Keys that say who acts for the cluster, and where alone; no pool is told them."""

    def told(self, zones: Sequence[str]) -> JsonDict:
        """Return what a pool is told of its cluster, by key.

        Args:
            zones: Those the pool asks for; none where it leaves them to the cluster.
        """
        return {key: getattr(self, key) for key in type(self).model_fields if key not in self.untold}

    @classmethod
    @abstractmethod
    def place_of(cls, given: JsonObject) -> JsonObject:
        """Return what tells a cluster from every other of its cloud, in words a reader knows.

        Args:
            given: The cluster's keys; values may be late, and may be anything that stands for one that is.
        """

    def late_outputs(self) -> Mapping[str, StackOutput]:
        """Return the keys whose value another stack gives, list items as `subnet_ids[0]`, map items as `key.inner`."""
        found: dict[str, StackOutput] = {}

        def look(path: str, value: object) -> None:
            if isinstance(value, StackOutput):
                found[path] = value
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    look(f"{path}[{index}]", item)
            elif isinstance(value, Mapping):
                for key, item in value.items():
                    look(f"{path}.{key}", item)

        for key in type(self).model_fields:
            look(key, getattr(self, key))
        return found


class Nodes(StrictModel):
    """How many nodes the pool may have, over all its zones."""

    min: int = Field(default=0, ge=0, le=1000)
    """Nodes kept while idle; 0 costs nothing. GKE makes as many in every zone: there a multiple of the zones."""
    max: int = Field(ge=1, le=1000)
    """Nodes the autoscaler may add up to; what the pool can cost at most."""
    fixed: int | None = Field(default=None, ge=1, le=1000)
    """This many nodes always, without an autoscaler; instead of min and max."""

    @model_validator(mode="before")
    @classmethod
    def _fixed_is_both(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("fixed") is not None:
            if "min" in given or "max" in given:
                raise ValueError("fixed stands alone; leave min and max out, or fixed")
            fixed = given["fixed"]
            # Of a number that is none, or none that can be, `fixed` alone is told.
            both = fixed if type(fixed) is int and 1 <= fixed <= 1000 else 1
            return {**given, "min": both, "max": both}
        return given

    @model_validator(mode="after")
    def _smallest_is_not_above_largest(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; lower min or raise max")
        return self


class WayOfSharing(StrictModel):
    """What every way of sharing says of itself, so that nobody has to ask which one it is."""

    mode: str

    @property
    @abstractmethod
    def clients(self) -> "SharedGpu | None":
        """How containers share one GPU, or one slice of it; None where each has one to itself."""

    @property
    @abstractmethod
    def mig(self) -> "Mig | None":
        """How each GPU is cut into slices that are isolated in hardware; None where it stays whole."""

    @property
    def kind(self) -> str:
        """The row of the capability matrix: one of `SHARING_KINDS`."""
        return self.mode

    @property
    def clients_at(self) -> tuple[str, ...]:
        """The keys between `sharing` and those of `clients` in a stack file."""
        return ()

    def details(self) -> list[str]:
        """Return what `described` says beside kind and clients."""
        return []

    def described(self) -> str:
        """Say it in a few words, for a table: `mig-single 1g.10gb × 2`."""
        clients = self.clients
        return " ".join([self.kind, *self.details()]) + (f" × {clients.replicas}" if clients is not None else "")


class WholeGpu(WayOfSharing):
    """One container has one GPU to itself."""

    mode: Literal["none"] = "none"

    @property
    def clients(self) -> "SharedGpu | None":
        """Nobody shares."""
        return None

    @property
    def mig(self) -> "Mig | None":
        """Nothing is cut."""
        return None


class OldestGpu(NamedTuple):
    """The first GPUs on which containers may share in some way."""

    compute_capability: tuple[int, int]
    why: str
    """What an older one is and does, after its name."""
    fix: str
    source: str


class SharedFacts(NamedTuple):
    """What differs between the ways in which containers share one device; a new way has to say all of it."""

    called: str
    """Its name in sentences."""
    plugin_block: str
    """The key below `sharing` in the device plugin's configuration.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/sharing.go.
    """
    needs_trust: bool
    """Whether containers share memory or faults, so that a pool has to say who may use it."""
    control_daemon: bool
    """Whether a daemon of the device plugin's chart has to run on the node."""
    equal_parts: bool
    """Whether each container is held to an equal part of the GPU's memory and threads."""
    seen_by_dcgm: bool
    """Whether DCGM tells the containers on one GPU apart."""
    on_part_of_a_gpu: bool
    """Whether NVIDIA has it on machines with a part of a GPU."""
    oldest: OldestGpu | None
    """None where every GPU can."""
    most_clients: Callable[[GpuModel], int] | None
    """The most containers a GPU model takes; None where NVIDIA states no bound."""
    most_clients_source: str
    not_claimable: str
    """Why NVIDIA's DRA driver does not offer it."""


class SharedGpu(WayOfSharing):
    """Several containers share one GPU, or one slice of it."""

    facts: ClassVar[SharedFacts]

    replicas: int = Field(ge=2, le=1000)
    """Containers that share one GPU; the bound only keeps slips of the hand out, GPUs and clouds have lower ones."""
    rename: bool = Field(default=False, exclude_if=operator.not_)
    """Offer the replicas under another name, `nvidia.com/gpu.shared`, so that no pod gets one unasked."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a way that does not say its facts, before anything is decided without them."""
        super().__pydantic_init_subclass__(**kwargs)
        if not hasattr(cls, "facts"):
            raise TypeError(f"{cls.__name__} has no facts; write facts: ClassVar[SharedFacts] = SharedFacts(…)")

    @classmethod
    def with_replicas(cls, replicas: int) -> Self:
        """Return this way for so many containers, and all else as it is when left out."""
        return cls.model_validate({"mode": get_args(cls.model_fields["mode"].annotation)[0], "replicas": replicas})

    @property
    def clients(self) -> "SharedGpu | None":
        """Share as it says itself."""
        return self

    @property
    def mig(self) -> "Mig | None":
        """Nothing is cut."""
        return None


class TimeSlicing(SharedGpu):
    """Containers take turns on a GPU, without memory or fault isolation."""

    facts: ClassVar[SharedFacts] = SharedFacts(
        called="time-slicing",
        plugin_block="timeSlicing",
        needs_trust=True,
        control_daemon=False,
        equal_parts=False,
        seen_by_dcgm=False,
        # NVIDIA has time-slicing on machines with vGPU,
        # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html (2026-11-22).
        on_part_of_a_gpu=True,
        oldest=None,
        most_clients=None,
        most_clients_source="",
        not_claimable="NVIDIA's DRA driver offers no replicas of a GPU, and its time-slice setting is an alpha feature "
        "gate",
    )

    mode: Literal["time-slicing"]


class Mps(SharedGpu):
    """Containers run on a GPU at once through NVIDIA's Multi-Process Service, with a memory limit each."""

    facts: ClassVar[SharedFacts] = SharedFacts(
        called="MPS",
        plugin_block="mps",
        needs_trust=True,
        control_daemon=True,
        equal_parts=True,
        seen_by_dcgm=True,
        on_part_of_a_gpu=False,
        oldest=OldestGpu(
            (7, 0),
            "is older than Volta, where MPS clients see each other's memory",
            "use time-slicing, or a newer GPU",
            "https://docs.nvidia.com/deploy/mps/",
        ),
        most_clients=lambda gpu: gpu.mps_max_clients,
        most_clients_source="https://github.com/NVIDIA/k8s-device-plugin cmd/mps-control-daemon/mps/device.go",
        not_claimable="MPS through NVIDIA's DRA driver is an alpha feature gate (MPSSupport)",
    )

    mode: Literal["mps"]


SharedMode = TimeSlicing | Mps
"""A way in which containers share one GPU, or one slice of it."""


def _gpu_index(value: object) -> object:
    # Structured configuration reaches a program as JSON, whose keys are text.
    return int(value) if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]?", value) else value


GpuIndex = Annotated[int, Field(ge=0, le=63), BeforeValidator(_gpu_index)]
"""A GPU's index on its node."""


def _one_layout_per_index(value: object) -> object:
    keys = [str(key) for key in value] if isinstance(value, Mapping) else []
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"GPU {twice} is given twice, as a number and as text; keep one")
    return value


Word = Annotated[str, Field(min_length=1, max_length=100)]
"""A name of something in a catalogue."""

# No GPU carries more than seven instances; a much longer list is a mistake that is not worth a search.
Profiles = Annotated[list[Word], Field(max_length=32)]


class Mig(WayOfSharing):
    """A GPU is cut in hardware into instances with memory and faults of their own."""

    mode: Literal["mig"]
    profile: Word | None = None
    """One profile for every slice of every GPU, e.g. `1g.10gb`."""
    layout: (
        Annotated[
            Annotated[Profiles, Tag("<list>")]
            | Annotated[dict[GpuIndex, Profiles], BeforeValidator(_one_layout_per_index), Tag("<map>")],
            Discriminator(_form),
        ]
        | None
    ) = None
    """Profiles of one GPU, for every GPU alike; or per GPU index of the node."""
    strategy: Literal["single", "mixed"] | None = None
    """How Kubernetes names the slices: all `nvidia.com/gpu`, or `nvidia.com/mig-<profile>`.

    Left out: single for `profile`, mixed for `layout`.
    """
    share: Annotated[SharedMode, Field(discriminator="mode")] | None = None
    """Sharing of each slice between containers."""

    @property
    def clients(self) -> SharedGpu | None:
        """Share each slice as `share` says."""
        return self.share

    @property
    def mig(self) -> "Mig | None":
        """Cut as it says itself."""
        return self

    @property
    def kind(self) -> str:
        """The strategy in force is part of it, and so is how the slices are shared."""
        return f"mig-{self.naming}" + (f"+{self.share.mode}" if self.share else "")

    @property
    def clients_at(self) -> tuple[str, ...]:
        """The clients of a slice have a map of their own."""
        return ("share",)

    def details(self) -> list[str]:
        """Name the profiles."""
        if self.profile is not None:
            return [self.profile]
        layouts = self.gpu_layouts()
        return [("" if index is None else f"GPU {index}: ") + "+".join(names) for index, names in layouts.items()]

    @model_validator(mode="after")
    def _profile_or_layout(self) -> Self:
        if (self.profile is None) == (self.layout is None):
            raise ValueError("give either profile (one size) or layout (several sizes), not both and not neither")
        if self.layout is not None and (not self.layout or any(not part for part in self.gpu_layouts().values())):
            raise ValueError("layout has a GPU without slices; name at least one profile per GPU")
        if self.layout is not None and self.strategy == "single" and not self.is_uniform():
            raise ValueError("strategy single needs slices of one profile on every GPU; use strategy: mixed")
        return self

    def gpu_layouts(self) -> Mapping[int | None, list[str]]:
        """Return profiles by GPU index; the index None stands for every GPU."""
        if isinstance(self.layout, dict):
            return {index: names for index, names in self.layout.items()}  # noqa: C416 - dict() keeps the key type int
        return {None: self.layout} if self.layout is not None else {}

    def is_uniform(self) -> bool:
        """Say whether every slice of every GPU has the same profile."""
        if self.profile is not None:
            return True
        layouts = self.gpu_layouts()
        return None in layouts and len(set(layouts[None])) == 1

    @property
    def naming(self) -> Literal["single", "mixed"]:
        """The strategy in force."""
        return self.strategy or ("single" if self.profile is not None else "mixed")


SharingMode = WholeGpu | SharedMode | Mig
"""A way of sharing GPUs."""

Sharing = Annotated[SharingMode, Field(discriminator="mode")]


def _by_mode(union: Any) -> JsonObject:
    return MappingProxyType({get_args(way.model_fields["mode"].annotation)[0]: way for way in get_args(union)})


MODES: Mapping[str, type[SharingMode]] = _by_mode(SharingMode)
"""The models of `SharingMode` by their `mode`."""

SHARED_MODES: Mapping[str, type[SharedMode]] = _by_mode(SharedMode)
"""Those of them that share."""

_CUT = ("mig-single", "mig-mixed")

SHARING_KINDS: tuple[str, ...] = (
    *(mode for mode in MODES if mode != "mig"),
    *_CUT,
    *(f"{cut}+{mode}" for mode in SHARED_MODES for cut in _CUT),
)
"""Every way of sharing the capability matrix has a row for."""


def has_control_daemon(kind: str) -> bool:
    """Say whether a daemon of the device plugin's chart serves the containers in a kind of `SHARING_KINDS`."""
    mode = shared_mode(kind)
    return mode is not None and mode.facts.control_daemon


def shared_mode(kind: str) -> type[SharedMode] | None:
    """Return how containers share a device in a kind of `SHARING_KINDS`; None where each has one to itself."""
    return SHARED_MODES.get(kind.rpartition("+")[2])


_PART = r"[0-9]{1,3}(/[1-9][0-9]{0,2})?"


def _fraction(value: object) -> object:
    number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    if number or (isinstance(value, str) and re.fullmatch(_PART, value)):
        wanted = Fraction(value)  # type: ignore[call-overload]
    else:
        raise ValueError(f"got {shown(value)}; write whole GPUs as a number, a part of one as text: 8 or '1/4'")
    if not 0 < wanted <= 64 or (wanted > 1 and wanted.denominator != 1):
        raise ValueError(f"got {shown(value)}; a node has a part of one GPU or 1 to 64 whole ones")
    return wanted


Gpus = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str)]


def _extra_taint(value: object) -> object:
    if isinstance(value, Taint):
        return value
    if not isinstance(value, str):
        raise ValueError(f"got {shown(value)}; write a taint as text, e.g. 'team=vision:NoSchedule'")
    taint = parse_taint(value)
    if taint.key == GPU_TAINT.key and taint.effect == GPU_TAINT.effect and taint != GPU_TAINT:
        raise ValueError(
            f"every GPU pool carries {GPU_TAINT}; a second value for the same key and effect cannot stand beside it"
        )
    return taint


def _distinct(taints: list[Taint]) -> list[Taint]:
    # https://github.com/kubernetes/kubernetes pkg/apis/core/validation/validation.go, validateNodeTaints
    seen: dict[tuple[str, Effect], Taint] = {}
    for taint in taints:
        first = seen.setdefault((taint.key, taint.effect), taint)
        if first != taint:
            raise ValueError(
                f"{first} and {taint} differ in their value alone; a node has one taint per key and effect"
            )
    return taints


_KEY_FIX = "use a qualified name such as 'example.com/team'"
_VALUE_FIX = "use at most 63 letters, digits, '-', '_' and '.'"


def label_problems(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a node label, whoever sets it, and what to write."""
    if not QUALIFIED_NAME.fullmatch(key):
        yield f"{shown(key)} is no label key", _KEY_FIX
    if not isinstance(value, str):
        yield f"got {shown(value)}, and a label is text", "write it in quotes"
    elif not LABEL_VALUE.fullmatch(value):
        yield f"{shown(value)} is no label value", _VALUE_FIX


def _label_key(key: str) -> str:
    if not QUALIFIED_NAME.fullmatch(key):
        raise ValueError(f"{shown(key)} is no label key; {_KEY_FIX}")
    return key


def _label_value(text: str) -> str:
    if not LABEL_VALUE.fullmatch(text):
        raise ValueError(f"{shown(text)} is no label value; {_VALUE_FIX}")
    return text


def contradiction(given: Mapping[str, object]) -> str | None:
    """Say how the keys of a pool contradict each other, whatever their values; None when they do not."""
    if (given.get("gpu") is None) == (given.get("instance_type") is None):
        return "give either gpu (a model, e.g. A100-80GB) or instance_type, not both and not neither"
    if given.get("instance_type") is not None and given.get("gpus_per_node") is not None:
        return "gpus_per_node goes with gpu; an instance_type already has its number of GPUs"
    return None


class PoolSpec(StrictModel):
    """One GPU node pool, as asked for; the same text on every cloud."""

    gpu: Word | None = None
    """GPU model with its memory size, e.g. `A100-80GB`; the cloud's instance type follows from the catalogue."""
    gpus_per_node: Gpus | None = None
    """GPUs of one node, with `gpu`; 1 when left out. A part of a GPU is text: `'1/4'`."""
    instance_type: Word | None = None
    """The cloud's own instance type, instead of `gpu`."""
    nodes: Nodes
    sharing: Sharing = WholeGpu.model_construct()
    software: Literal["cloud-managed", "device-plugin", "gpu-operator", "dra-driver"] | None = None
    """Who brings driver, container toolkit and device plugin; left out: the cloud's default for this sharing."""
    trust: Trust | None = None
    """Who may use the pool; needed where containers share memory and faults, by time-slicing or MPS."""
    disk_gib: int = Field(default=200, ge=100, le=16384)
    """Size of each node's disk. CUDA images are large: the clouds' own defaults (20 to 128 GiB) fill up."""
    labels: dict[Annotated[str, AfterValidator(_label_key)], Annotated[str, AfterValidator(_label_value)]] = {}
    """Node labels, added to those this tool and the cloud set."""
    taints: Annotated[list[Annotated[Taint, BeforeValidator(_extra_taint)]], AfterValidator(_distinct)] = []
    """More taints, as `kubectl taint` writes them; the GPU taint is always there and cannot be removed."""

    capacity: Capacity = OnDemand.model_construct()
    """How machines are bought; left out: on demand."""
    zones: list[Annotated[str, Field(min_length=1, max_length=60)]] = []
    """Zones of the nodes; left out: those of the cluster or its subnets."""
    image: NodeImage = NodeImage.model_construct()
    """The node image; left out: the cloud's image for the chosen software."""
    disk: Disk = Disk.model_construct()
    """Type, key and local NVMe of each node's disks; their size is `disk_gib`."""
    network: Network = Network.model_construct()
    """RDMA interfaces, placement, security groups, pods per node."""
    security: Security = Security.model_construct()
    """Secure boot and metadata access."""
    upgrade: Upgrade = Upgrade.model_construct()
    """How nodes are replaced when image or version change."""
    auto_repair: bool = True
    """Let the cloud replace nodes it finds broken."""
    tags: dict[Annotated[str, Field(min_length=1, max_length=512)], str] = {}
    """Tags (EC2, Azure) or resource labels (Google) of the pool and its machines, for billing and owners."""
    protect: bool = False
    """Refuse to delete or replace the pool; in a stack file left out: as `gpupools:production` says."""
    renamed_from: Word | None = None
    """The pool's key before it was renamed, so that the nodes stay."""
    first_name: Word | None = None
    """What the pool's name in the cloud is made of: the key it was made under.

    Left out: `renamed_from`, or without that the pool's key.
    """
    adopt: Adopt | None = None
    """A pool that runs already and was made by other means: it is taken over as it is, with its name and its nodes."""
    timeouts: Timeouts = Timeouts.model_construct()
    """How long Pulumi waits for the cloud."""
    overrides: Overrides = {}
    """Inputs of the cloud's own resources, set by hand: cloud → resource → input → value."""

    def named_after(self, key: str) -> str:
        """Return what the pool's name in the cloud is made of; a renamed pool keeps its first."""
        return self.first_name or self.renamed_from or key

    @model_validator(mode="after")
    def _one_way_to_choose_a_machine(self) -> Self:
        wrong = contradiction(vars(self))
        if wrong is not None:
            raise ValueError(wrong)
        return self


class StackPool(PoolSpec):
    """A pool in a stack file: also says which clusters it goes to."""

    clusters: list[str] = Field(min_length=1)
    """Keys of `gpupools:clusters`; each gets a pool of its own."""

    def pool(self) -> PoolSpec:
        """Return what is asked of each cluster."""
        values: JsonDict = {key: getattr(self, key) for key in PoolSpec.model_fields}
        return PoolSpec.model_construct(_fields_set=self.model_fields_set - {"clusters"}, **values)
