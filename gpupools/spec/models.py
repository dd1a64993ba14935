"""Models of one pool and one cluster in a stack file: strict, frozen, the same on every cloud."""

import operator
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path as FilePath
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
from gpupools.catalog.places import Places, read_places
from gpupools.common.errors import Path, Problem, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.model import BuiltOnUse, ConsistentModel, StrictModel
from gpupools.common.taints import GPU_TAINT, LABEL_VALUE, QUALIFIED_NAME, Effect, Taint
from gpupools.spec.identifiers import Form, check_form, texts
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
from gpupools.spec.software_spec import LabelKey, LabelValue, RuntimeSpec, Trust, written_taint


class Late:
    """A value that is known only while the program runs: an output of a resource, or a secret."""

    def __repr__(self) -> str:
        return "<known only while the program runs>"


LATE = Late()


def got(value: object) -> str:
    """Return what is wrong with a value of another form than expected, for an error."""
    return "is a secret" if isinstance(value, Late) else f"got {shown(value)}"


class StackOutput(StrictModel):
    """An output of the Pulumi stack that the cluster's `stack:` names."""

    output: str = Field(min_length=1)
    """Name of the output. A dot selects a key of a map: `train.nodeRoleArn`."""


def _form(value: object) -> str | None:
    """Return the tag of a value's form, so that only the intended form is validated."""
    forms = ((str, "<text>"), (Mapping, "<map>"), (StackOutput, "<map>"), (list, "<list>"), (Late, "<late>"))
    return next((tag for kind, tag in forms if isinstance(value, kind)), None)


Address = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[StackOutput, Tag("<map>")] | Annotated[Late, Tag("<late>")],
    Discriminator(_form),
]
"""An address: text, or an output of another stack. No decision depends on it."""

Addresses = Annotated[
    Annotated[list[Address], Field(min_length=1), Tag("<list>")]
    | Annotated[StackOutput, Tag("<map>")]
    | Annotated[Late, Tag("<late>")],
    Discriminator(_form),
]
"""Addresses: a list, or one output that is a list."""


def _mentions(form: Any, kind: type) -> bool:
    """Return whether an annotation contains a type."""
    return form is kind or any(_mentions(part, kind) for part in get_args(form))


class ExecPlugin(NamedTuple):
    """An exec credential plugin, which fetches a token on demand so that none is stored.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
    """

    command: str
    args: tuple[Any, ...]
    """Text, or values that are known only while the program runs."""
    install_hint: str
    """Shown on a machine without the program."""
    provide_cluster_info: bool = False
    """Whether the plugin receives the cluster that the token is for."""


class Cluster(ConsistentModel):
    """An existing Kubernetes cluster. Each cloud adds its own keys."""

    model_config = ConfigDict(str_min_length=1)

    cloud: str
    """Name of the cloud, which determines the other keys."""
    stack: str | None = None
    """Fully qualified Pulumi stack (`organization/project/stack`) whose outputs `{output: …}` reads."""
    runtime: Annotated[RuntimeSpec, BuiltOnUse(RuntimeSpec)] = RuntimeSpec.model_construct()
    """GPU software in the cluster. Default: only the software that the pools need is installed."""
    tags: dict[Annotated[str, Field(min_length=1, max_length=512)], str] = {}
    """Tags or resource labels of all its pools. The pool's own tags take precedence."""
    places: Literal["trust"] | None = None
    """`trust`: accept regions and instance types that are newer than the lists of gpupools."""

    @field_validator("*")
    @classmethod
    def _has_its_form(cls, value: object, info: ValidationInfo) -> object:
        """Reject identifiers of another form, and invisible characters but the newline after a certificate."""
        for text in texts(value) if info.field_name != "certificate_authority" else ():
            if text != text.strip() or not text.isprintable():
                raise ValueError(f"got {shown(text)}; remove surrounding spaces and unprintable characters")
        if info.field_name != "tags":
            check_form(value, cls.forms.get(info.field_name or ""))
        return value

    @field_validator("stack")
    @classmethod
    def _is_fully_qualified(cls, stack: str | None) -> str | None:
        if stack is not None and not re.fullmatch(r"[^/]+/[^/]+/[^/]+", stack):
            raise ValueError(f"got {shown(stack)}; write <organization>/<project>/<stack>")
        return stack

    region_key: ClassVar[str] = ""
    """Key with the region; empty if a cluster has none."""
    places_file: ClassVar[FilePath | None] = None
    """List of the cloud's places, as `read_places` reads it."""

    forms: ClassVar[Mapping[str, Form]] = {}
    """Forms of the cloud's identifiers, by key."""
    account_key: ClassVar[str] = ""
    """Key with the account, subscription or project, whose quotas apply."""

    def console_domain(self) -> str:
        """Return the domain of the cloud's console for this cluster; empty if it is not known, or always the same."""
        return ""

    def region_name(self) -> str:
        """Return the region; empty if the file does not have it."""
        given = getattr(self, self.region_key) if self.region_key else None
        return given if isinstance(given, str) else ""

    def own_zones(self) -> Sequence[str]:
        """Return the zones of pools that name none; empty if the file does not have them."""
        return ()

    def known_places(self) -> Places:
        """Return the places of the cloud; none if the file trusts what it names."""
        return Places() if self.places_file is None or self.places == "trust" else read_places(self.places_file)

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject a region that does not exist, and stack outputs without a stack."""
        region, places = self.region_name(), self.known_places()
        if region and places.regions and region not in places.regions:
            what = f"{shown(region)} is not a region; {places.region_fix(region)}"
            yield (self.region_key,), f"{what}; or set places: trust if it is newer than the list"
        first = next(iter(self.late_outputs()), "") if self.stack is None else ""
        if first:
            what = "reads a stack output, but stack is not set; add stack: <org>/<project>/<stack>"
            yield (re.split(r"[.\[]", first)[0],), what

    def not_for_new_pools(self, at: Path) -> Iterator[Problem]:
        """Yield problems of the cluster for new pools, which adopted pools may have."""
        yield from ()

    @classmethod
    def address_keys(cls) -> frozenset[str]:
        """Return the keys whose values may be known only later: addresses, and maps and lists of them."""
        return frozenset(key for key, field in cls.model_fields.items() if _mentions(field.annotation, Late))

    unordered: ClassVar[frozenset[str]] = frozenset()
    """Keys whose values are sets in the cloud, so that order does not matter."""
    not_pool_inputs: ClassVar[frozenset[str]] = frozenset({"cloud", "stack", "runtime", "tags", "places"})
    """Keys that are no inputs of pools: they apply inside the cluster, or are passed in another way."""
    api_hosts: ClassVar[str] = ""
    """Pattern of the hosts that the cloud gives to APIs of clusters; empty if any host may be one."""
    identity: ClassVar[tuple[str, ...]] = ()
    """Keys for the identity and the place of API calls only, which are no inputs of pools."""

    def pool_inputs(self, zones: Sequence[str]) -> JsonDict:
        """Return the values of the cluster that its pools depend on, by key; `zones` are the pool's own, if any."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in self.not_pool_inputs}

    def node_pattern(self) -> str:
        """Return a pattern of the nodes of the cluster: `<provider id> <region> <name> <label>`, in any case.

        Its group `named` matches if the node carries the name of the cluster.
        """
        return ""

    def kubeconfig_name(self) -> str:
        """Return a pattern of the name that the cloud's own program gives to the cluster in a kubeconfig."""
        return ""

    def pool_id(self, name: str) -> str:
        """Return what the cloud's provider imports a node pool of the cluster by."""
        return name

    def completed(self, pool: "PoolSpec") -> "PoolSpec":
        """Return a pool with the keys that the cluster sets for all its pools, where the pool does not set them."""
        return pool

    @classmethod
    @abstractmethod
    def place_of(cls, given: JsonObject) -> JsonObject:
        """Return the values that identify a cluster in its cloud, by readable names; some may be known only later."""

    @classmethod
    @abstractmethod
    def exec_plugin(cls, given: JsonObject) -> ExecPlugin:
        """Return the program that gets a token for the API of a cluster, by the cluster's keys."""

    def late_outputs(self) -> Mapping[str, StackOutput]:
        """Return the stack outputs by key; items of lists as `subnet_ids[0]`, of maps as `key.inner`."""
        outputs: dict[str, StackOutput] = {}

        def look(path: str, value: object) -> None:
            if isinstance(value, StackOutput):
                outputs[path] = value
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    look(f"{path}[{index}]", item)
            elif isinstance(value, Mapping):
                for key, item in value.items():
                    look(f"{path}.{key}", item)

        for key in type(self).model_fields:
            look(key, getattr(self, key))
        return outputs


class Nodes(StrictModel):
    """Number of nodes of the pool over all zones."""

    min: int = Field(default=0, ge=0, le=1000)
    """Nodes that always run; 0 costs nothing while idle. On GKE a multiple of the number of zones."""
    max: int = Field(ge=1, le=1000)
    """Upper limit for the autoscaler, which bounds the cost of the pool."""
    fixed: int | None = Field(default=None, ge=1, le=1000)
    """Fixed number of nodes without an autoscaler, instead of `min` and `max`."""
    spare: int = Field(default=0, ge=0, le=1000)
    """Nodes whose units stay free for the next pods, over all steps. Not on AKS."""

    @model_validator(mode="before")
    @classmethod
    def _fixed_is_both(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("fixed") is not None:
            if "min" in given or "max" in given:
                raise ValueError("fixed cannot be combined with min and max; remove fixed, or min and max")
            fixed = given["fixed"]
            # For an invalid number only `fixed` is reported.
            both = fixed if type(fixed) is int and 1 <= fixed <= 1000 else 1
            return {**given, "min": both, "max": both}
        return given

    @model_validator(mode="after")
    def _smallest_is_not_above_largest(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; lower min or raise max")
        if self.spare > self.max:
            raise ValueError(f"spare {self.spare} is above max {self.max}; lower spare or raise max")
        if self.spare and self.min == self.max:
            key = "min = max" if self.fixed is None else "fixed"
            raise ValueError(
                f"spare has no effect with {key}, since the pool does not scale; remove spare, or lower min"
            )
        return self


class WayOfSharing(StrictModel):
    """Common interface of the sharing modes, so that callers need no type checks."""

    mode: str

    @property
    @abstractmethod
    def clients(self) -> "SharedGpu | None":
        """How containers share one GPU or slice; None if each container has its own."""

    @property
    @abstractmethod
    def mig(self) -> "Mig | None":
        """How each GPU is partitioned by MIG; None for whole GPUs."""

    @property
    def fractions(self) -> "Fractions | None":
        """How pods ask for fractions of a GPU; None if they ask for units of a resource."""
        return None

    @property
    def needs_trust(self) -> bool:
        """Whether containers share memory or faults, so that the pool requires `trust`."""
        clients = self.clients
        return self.fractions is not None or (clients is not None and clients.facts.needs_trust)

    @property
    def kind(self) -> str:
        """Row of the capability matrix: one of `SHARING_KINDS`."""
        return self.mode

    @property
    def clients_at(self) -> tuple[str, ...]:
        """Path from `sharing` to the keys of `clients` in a stack file."""
        return ()

    def details(self) -> list[str]:
        """Return the details that `described` adds to kind and replicas."""
        return []

    def described(self) -> str:
        """Return a short description for tables: `mig-single 1g.10gb × 2`."""
        clients = self.clients
        return " ".join([self.kind, *self.details()]) + (f" × {clients.replicas}" if clients is not None else "")


class WholeGpu(WayOfSharing):
    """Each container has whole GPUs of its own."""

    mode: Literal["none"] = "none"
    clients: ClassVar[None] = None
    mig: ClassVar[None] = None


class OldestGpu(NamedTuple):
    """The oldest GPU generation that supports a sharing mode."""

    compute_capability: tuple[int, int]
    why: str
    """Why older GPUs do not, as the rest of a sentence after the GPU's name."""
    fix: str
    source: str


class SharedFacts(NamedTuple):
    """Properties of a mode in which containers share a device. A new mode has to set all of them."""

    called: str
    """Name of the mode in sentences."""
    plugin_block: str
    """The key below `sharing` in the device plugin's configuration.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/sharing.go.
    """
    needs_trust: bool
    """Whether containers share memory or faults, so that the pool requires `trust`."""
    control_daemon: bool
    """Whether the control daemon of the device plugin's chart has to run on the node."""
    equal_parts: bool
    """Whether each container is limited to an equal part of the GPU's memory and threads."""
    seen_by_dcgm: bool
    """Whether DCGM reports the containers on one GPU separately."""
    on_part_of_a_gpu: bool
    """Whether NVIDIA supports it on machines with a fraction of a GPU."""
    oldest: OldestGpu | None
    """None if every GPU supports it."""
    most_clients: Callable[[GpuModel], int] | None
    """Maximum number of containers per GPU of a model; None if NVIDIA states no limit."""
    most_clients_source: str
    not_claimable: str
    """Why NVIDIA's DRA driver does not support it."""


class SharedGpu(WayOfSharing):
    """Several containers share one GPU or slice."""

    facts: ClassVar[SharedFacts]
    mig: ClassVar[None] = None

    replicas: int = Field(ge=2, le=1000)
    """Number of containers that share one GPU. GPUs and clouds have lower limits than 1000."""
    rename: bool = Field(default=False, exclude_if=operator.not_)
    """Advertise the replicas as `nvidia.com/gpu.shared`, so that only pods that request it share a GPU."""
    placement: Literal["pack", "spread"] | None = Field(default=None, exclude_if=lambda given: given is None)
    """Fill one GPU of the node before the next, or use all evenly. Default: the device plugin's, `spread`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Reject a sharing mode without facts."""
        super().__pydantic_init_subclass__(**kwargs)
        if not hasattr(cls, "facts"):
            raise TypeError(f"{cls.__name__} has no facts; write facts: ClassVar[SharedFacts] = SharedFacts(…)")

    @classmethod
    def with_replicas(cls, replicas: int) -> Self:
        """Return this sharing mode with the given number of replicas and defaults for everything else."""
        return cls.model_validate({"mode": get_args(cls.model_fields["mode"].annotation)[0], "replicas": replicas})

    @property
    def clients(self) -> "SharedGpu | None":
        """Return this mode."""
        return self


class TimeSlicing(SharedGpu):
    """Containers take turns on a GPU, without isolation of memory or faults."""

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
        not_claimable="NVIDIA's DRA driver has no GPU replicas, and its time-slice setting is an alpha feature gate",
    )

    mode: Literal["time-slicing"]


class Mps(SharedGpu):
    """Containers run on a GPU concurrently through NVIDIA's Multi-Process Service, each with a memory limit."""

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
            "is older than Volta, so MPS clients can read each other's memory",
            "use time-slicing, or a newer GPU",
            "https://docs.nvidia.com/deploy/mps/",
        ),
        most_clients=lambda gpu: gpu.mps_max_clients,
        most_clients_source="https://github.com/NVIDIA/k8s-device-plugin cmd/mps-control-daemon/mps/device.go",
        not_claimable="MPS through NVIDIA's DRA driver is an alpha feature gate (MPSSupport)",
    )

    mode: Literal["mps"]


SharedMode = TimeSlicing | Mps
"""A mode in which containers share one GPU or slice."""

# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/gpu-sharing/mps/README.md
_NO_LIMIT: Mapping[str, str] = {
    "mps": "KAI starts no MPS server and sets no memory limit, and the one of the device plugin needs replicas"
}


class Fractions(WayOfSharing):
    """Pods ask the scheduler KAI for fractions of GPUs, each pod for another one."""

    mode: Literal["fractions"]
    memory: Literal["hami", "trust"]
    """What keeps a pod to its part of the memory.

    `hami`: kai-resource-isolator, which you install. `trust`: nothing, so a pod can use the memory of the whole GPU.
    """

    clients: ClassVar[None] = None
    mig: ClassVar[None] = None

    @property
    def fractions(self) -> "Fractions":
        """Return this mode."""
        return self

    def details(self) -> list[str]:
        """Return what limits memory."""
        return [f"memory {self.memory}"]

    @field_validator("memory", mode="before")
    @classmethod
    def _is_not_mps(cls, value: object) -> object:
        if isinstance(value, str) and value in _NO_LIMIT:
            raise ValueError(f"{_NO_LIMIT[value]}; write hami or trust, or use mode: {value}")
        return value


def _gpu_index(value: object) -> object:
    # Structured configuration reaches a program as JSON, whose keys are strings.
    return int(value) if isinstance(value, str) and re.fullmatch(r"0|[1-9][0-9]?", value) else value


GpuIndex = Annotated[int, Field(ge=0, le=63), BeforeValidator(_gpu_index)]
"""Index of a GPU on its node."""


def _one_layout_per_index(value: object) -> object:
    keys = [str(key) for key in value] if isinstance(value, Mapping) else []
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"GPU {twice} is set twice, as a number and as text; keep one")
    return value


Word = Annotated[str, Field(min_length=1, max_length=100)]
"""A name from a catalog."""

# No GPU has more than seven instances, so a much longer list is a mistake and not worth a search.
Profiles = Annotated[list[Word], Field(max_length=32)]


class Mig(WayOfSharing):
    """A GPU is partitioned in hardware into instances with isolated memory and faults."""

    mode: Literal["mig"]
    profile: Word | None = None
    """Profile of all slices of all GPUs, e.g. `1g.10gb`."""
    layout: (
        Annotated[
            Annotated[Profiles, Tag("<list>")]
            | Annotated[dict[GpuIndex, Profiles], BeforeValidator(_one_layout_per_index), Tag("<map>")],
            Discriminator(_form),
        ]
        | None
    ) = None
    """Profiles of the slices of each GPU, or a map from the GPU's index on the node to its profiles."""
    strategy: Literal["single", "mixed"] | None = None
    """Resource name of the slices: `nvidia.com/gpu` with `single`, `nvidia.com/mig-<profile>` with `mixed`.

    Default: `single` with `profile`, `mixed` with `layout`.
    """
    share: Annotated[SharedMode, Field(discriminator="mode")] | None = None
    """How containers share each slice."""

    @property
    def clients(self) -> SharedGpu | None:
        """Return how containers share each slice."""
        return self.share

    @property
    def mig(self) -> "Mig | None":
        """Return this mode."""
        return self

    @property
    def kind(self) -> str:
        """Row of the capability matrix, with the effective strategy and the sharing of slices."""
        return f"mig-{self.naming}" + (f"+{self.share.mode}" if self.share else "")

    @property
    def clients_at(self) -> tuple[str, ...]:
        """Path to `share`, which has the keys of `clients`."""
        return ("share",)

    def details(self) -> list[str]:
        """Return the profiles."""
        if self.profile is not None:
            return [self.profile]
        layouts = self.gpu_layouts()
        return [("" if index is None else f"GPU {index}: ") + "+".join(names) for index, names in layouts.items()]

    @model_validator(mode="after")
    def _profile_or_layout(self) -> Self:
        if (self.profile is None) == (self.layout is None):
            raise ValueError("set either profile (one size) or layout (several sizes)")
        if self.layout is not None and (not self.layout or any(not part for part in self.gpu_layouts().values())):
            raise ValueError("layout has a GPU without slices; list at least one profile per GPU")
        if self.layout is not None and self.strategy == "single" and not self.is_uniform():
            raise ValueError("strategy single requires one profile on all GPUs; use strategy: mixed")
        return self

    def gpu_layouts(self) -> Mapping[int | None, list[str]]:
        """Return the profiles by GPU index; the index None means every GPU."""
        if isinstance(self.layout, dict):
            return {index: names for index, names in self.layout.items()}  # noqa: C416 - dict() keeps the key type int
        return {None: self.layout} if self.layout is not None else {}

    def is_uniform(self) -> bool:
        """Return whether all slices of all GPUs have the same profile."""
        if self.profile is not None:
            return True
        layouts = self.gpu_layouts()
        return None in layouts and len(set(layouts[None])) == 1

    @property
    def naming(self) -> Literal["single", "mixed"]:
        """MIG strategy of the device plugin: the one given, or the default."""
        return self.strategy or ("single" if self.profile is not None else "mixed")


SharingMode = WholeGpu | SharedMode | Fractions | Mig
"""A GPU sharing mode."""

Sharing = Annotated[SharingMode, Field(discriminator="mode")]


def _by_mode(union: Any) -> JsonObject:
    return MappingProxyType({get_args(way.model_fields["mode"].annotation)[0]: way for way in get_args(union)})


MODES: Mapping[str, type[SharingMode]] = _by_mode(SharingMode)
"""Models of `SharingMode` by their `mode`."""

SHARED_MODES: Mapping[str, type[SharedMode]] = _by_mode(SharedMode)
"""Models of `SharedMode` by their `mode`."""

_CUT = ("mig-single", "mig-mixed")

SHARING_KINDS: tuple[str, ...] = (
    *(mode for mode in MODES if mode != "mig"),
    *_CUT,
    *(f"{cut}+{mode}" for mode in SHARED_MODES for cut in _CUT),
)
"""All sharing kinds, the rows of the capability matrix."""


def has_control_daemon(kind: str) -> bool:
    """Return whether a kind of `SHARING_KINDS` needs the control daemon of the device plugin's chart."""
    mode = shared_mode(kind)
    return mode is not None and mode.facts.control_daemon


def shared_mode(kind: str) -> type[SharedMode] | None:
    """Return the mode in which containers share a device in a kind of `SHARING_KINDS`; None if they do not."""
    return SHARED_MODES.get(kind.rpartition("+")[2])


_PART = r"[0-9]{1,3}(/[1-9][0-9]{0,2})?"


def _fraction(value: object) -> object:
    number = isinstance(value, int | Fraction) and not isinstance(value, bool)
    if number or (isinstance(value, str) and re.fullmatch(_PART, value)):
        wanted = Fraction(value)  # type: ignore[call-overload]
    else:
        raise ValueError(f"got {shown(value)}; write whole GPUs as a number and a fraction as text: 8 or '1/4'")
    if not 0 < wanted <= 64 or (wanted > 1 and wanted.denominator != 1):
        raise ValueError(f"got {shown(value)}; a node has a fraction of one GPU or 1 to 64 whole GPUs")
    return wanted


Gpus = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str)]


def _extra_taint(value: object) -> Taint:
    taint = written_taint(value)
    if taint.key == GPU_TAINT.key and taint.effect == GPU_TAINT.effect and taint != GPU_TAINT:
        raise ValueError(
            f"every GPU pool has the taint {GPU_TAINT}, and a node has one taint per key and effect; remove this one,"
            " or set adopt.gpu_taint to the value that the nodes of an imported pool have"
        )
    return taint


def _distinct(taints: list[Taint]) -> list[Taint]:
    # https://github.com/kubernetes/kubernetes pkg/apis/core/validation/validation.go, validateNodeTaints
    seen: dict[tuple[str, Effect], Taint] = {}
    for taint in taints:
        first = seen.setdefault((taint.key, taint.effect), taint)
        if first != taint:
            raise ValueError(f"{first} and {taint} differ only in their value; a node has one taint per key and effect")
    return taints


def label_problems(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the problems of a node label, each with its fix."""
    if not QUALIFIED_NAME.fullmatch(key):
        yield f"{shown(key)} is not a valid label key", "use a qualified name such as 'example.com/team'"
    if not isinstance(value, str):
        yield f"got {shown(value)}, but a label value is text", "write it in quotes"
    elif not LABEL_VALUE.fullmatch(value):
        yield f"{shown(value)} is not a valid label value", "use at most 63 letters, digits, '-', '_' and '.'"


def contradiction(given: Mapping[str, object]) -> str | None:
    """Return how the keys of a pool conflict, whatever their values; None if they do not."""
    if (given.get("gpu") is None) == (given.get("instance_type") is None):
        return "set either gpu (a model, e.g. A100-80GB) or instance_type"
    if given.get("instance_type") is not None and given.get("gpus_per_node") is not None:
        return "gpus_per_node requires gpu; an instance_type has a fixed number of GPUs"
    return None


class PoolSpec(StrictModel):
    """One GPU node pool, the same on every cloud."""

    gpu: Word | None = None
    """GPU model with its memory size, e.g. `A100-80GB`. The catalog selects the instance type."""
    gpus_per_node: Gpus | None = None
    """With `gpu`: GPUs per node. Default: 1. Write a fraction of a GPU as text: `'1/4'`."""
    instance_type: Word | None = None
    """Instance type of the cloud, instead of `gpu`."""
    nodes: Nodes
    sharing: Sharing = WholeGpu.model_construct()
    software: Literal["cloud-managed", "device-plugin", "gpu-operator", "dra-driver", "hami"] | None = None
    """What installs driver, container toolkit and device plugin. Default: the cloud's default for this sharing mode."""
    trust: Trust | None = None
    """Who may use the pool. Required for time-slicing, MPS, fractions and HAMi, where containers share faults."""
    disk_gib: int = Field(default=200, ge=100, le=16384)
    """Size of each node's disk. CUDA images are large and fill the clouds' defaults of 20 to 128 GiB."""
    startup_taint: bool | None = None
    """Keep pods off a new node until it offers the GPUs of the pool. Not on AKS.

    Default: true for MIG pools of the GPU Operator that scale from zero, where a pod could get a whole GPU.
    """
    labels: dict[LabelKey, LabelValue] = {}
    """Node labels in addition to those of gpupools and the cloud."""
    taints: Annotated[list[Annotated[Taint, BeforeValidator(_extra_taint)]], AfterValidator(_distinct)] = []
    """Additional taints in the syntax of `kubectl taint`. The GPU taint is always set."""

    capacity: Capacity = OnDemand.model_construct()
    """How machines are purchased. Default: on demand."""
    zones: list[Annotated[str, Field(min_length=1, max_length=60)]] = []
    """Zones of the nodes. Default: those of the cluster or its subnets. On AKS also `auto`."""
    image: NodeImage = NodeImage.model_construct()
    """Node image. Default: the cloud's image for the selected software."""
    driver: Literal["default", "latest"] | None = None
    """GKE: driver version that GKE installs. Default: `default`, GKE's tested version."""
    disk: Disk = Disk.model_construct()
    """Type, encryption key and local NVMe of the nodes' disks. `disk_gib` sets the size."""
    network: Network = Network.model_construct()
    """RDMA interfaces, placement, security groups and pods per node."""
    security: Security = Security.model_construct()
    """Secure boot and metadata access."""
    upgrade: Upgrade = Upgrade.model_construct()
    """How nodes are replaced when the image or version changes."""
    auto_repair: bool = True
    """Let the cloud replace unhealthy nodes."""
    tags: dict[Annotated[str, Field(min_length=1, max_length=512)], str] = {}
    """Tags (EC2, Azure) or resource labels (Google) of the pool and its machines."""
    protect: bool = False
    """Prevent deletion and replacement of the pool. Default in a stack file: the value of `gpupools:production`."""
    renamed_from: Word | None = None
    """Former key of the pool. It keeps the nodes when the pool is renamed."""
    first_name: Word | None = None
    """Key under which the pool was created, from which its name in the cloud is built.

    Default: `renamed_from`, or else the pool's key.
    """
    adopt: Adopt | None = None
    """Existing node pool to import. It keeps its name and its nodes."""
    timeouts: Timeouts = Timeouts.model_construct()
    """How long Pulumi waits for the cloud. Default: depends on the size of the pool."""
    overrides: Overrides = {}
    """Inputs of the cloud's resources: cloud → resource → input → value."""

    def named_after(self, key: str) -> str:
        """Return the key from which the pool's name in the cloud is built; a renamed pool keeps its first key."""
        return self.first_name or self.renamed_from or key

    @model_validator(mode="after")
    def _one_way_to_choose_a_machine(self) -> Self:
        wrong = contradiction(vars(self))
        if wrong is not None:
            raise ValueError(wrong)
        return self


class StackPool(PoolSpec):
    """A pool in a stack file, with the clusters on which it is created."""

    clusters: list[str] = Field(min_length=1)
    """Keys of `gpupools:clusters`. The pool is created once on each."""
    mixed: bool = False
    """With a list in `capacity`, `gpu` or `instance_type`: accept steps with other GPUs for pods than the first.

    Pods that use any step then ask for one GPU and, where steps differ in them, for no RDMA interfaces.
    """
