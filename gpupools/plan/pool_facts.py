"""What a resource that was declared says about its node pools: read back by each cloud's folder, judged by policies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Self

from gpupools.common.taints import GPU_TAINT, HARD_EFFECTS, Effect, Taint, repels_cpu_pods


class Unknown:
    """Stands in read-back properties for a value the engine does not know at preview. There is one, in copies too."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return "<unknown at preview>"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Accelerator:
    """What a machine carries for computing beside its CPU, as far as its name says."""

    vendor: str
    """`nvidia`, `amd` (a GPU of AMD), or `other`: an accelerator that is no GPU, such as Inferentia, Gaudi or a TPU."""
    count: Fraction | None
    """GPUs of one machine; None where the name alone does not say, and for `other`, which has none."""
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
    """For remediation (`gpupools.readback.inputs.with_taint`): the list item or map entry `{key: …}` to add at `where`.

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
    needs_cloud_driver: bool = False
    """Whether the GPU Operator cannot install the driver that these machines need."""


@dataclass(frozen=True)
class SharingFacts:
    """How the pool's own resource shares its GPUs."""

    kind: str
    """One of `gpupools.spec.models.SHARING_KINDS`."""
    clients: int | None = None
    """Containers per GPU (or per slice), where the resource says it."""
    profile: str = ""
    """MIG profile as this API writes it: `1g.5gb`, `MIG1g`."""
    said_by: str = ""
    """The input with this setting."""

    @property
    def property(self) -> str:
        """Return the path at the beginning of `said_by`, through the resources that it leads to."""
        return re.split(r"(?<! →) (?!→ )", self.said_by, maxsplit=1)[0]


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


CUSTOMISATIONS = (
    *("user-data", "start-up-script", "boot-image", "ssh-keys", "node-identity", "host-ports", "sysctls"),
    "container-runtime",
)
"""Stable words for what can be set by hand, the same on every cloud."""


@dataclass(frozen=True)
class NodeCustomization:
    """One input set by hand; its value is never shown, since it may be a secret."""

    kind: str
    """One of `CUSTOMISATIONS`."""
    property: str
    """Path of the input."""
    why: str
    """What it does to the nodes."""
    source: str
    unverified: bool = False
    """True where the value is not known at preview."""


@dataclass(frozen=True)
class Reference:
    """Another resource that decides part of a pool, such as a launch template."""

    property: str
    """Path of the input that refers; its first key is the one to look up among property dependencies."""
    types: tuple[str, ...]
    """Type tokens the other resource can have; `Readback.read_template` reads it."""
    id: str = ""
    """What the input says when it is known: an id, a name."""
    decides: frozenset[str] = frozenset()
    """`machine`, `image`, `taints`: what is not in this resource but in the other.

    `more taints` where this resource has them, and settings in the other can add some.
    """


@dataclass(frozen=True)
class Open:
    """A pool that asks for no GPUs and may be given machines with some: nothing that it demands keeps them out."""

    property: str
    """Path of what it demands of its machines."""
    found: str
    """The labels that it demands something of, for people; empty for none."""
    machine: str = ""
    """A machine with NVIDIA GPUs that meets all of it; empty where it is not known whose machines it takes."""
    cure: str = ""
    """The demand that keeps them out, in the spelling of `property`; empty likewise."""


ZONES_OF_A_REGION = 3
"""Zones that GKE gives a regional cluster by default.

https://docs.cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters (2026-11-22)
"""


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
    """The input that shows that the nodes have GPUs, e.g. `instanceTypes p4d.24xlarge`; empty if none does."""
    unknown: tuple[str, ...] = ()
    """Properties that are not known at preview and could change the answer."""
    unresolved_taints: tuple[str, ...] = ()
    """Inputs beside the one at `where` that may give taints and cannot be read, such as user data or an image."""
    has_unevaluated_script: bool = False
    """True when user data that may set taints is a script which gpupools does not evaluate."""
    pool: str = ""
    """Name of the pool inside its resource; empty when the resource is the pool."""
    name: str = ""
    """What the cloud or Kubernetes calls a resource that is the pool, where the inputs say it."""
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
    cloud_taint: str = ""
    """When the cloud adds a taint that the pool does not declare, for findings; empty if it never does."""
    in_cluster: bool | None = True
    """None when the inputs known at preview do not say whether the machines become Kubernetes nodes."""
    elsewhere: tuple[Reference, ...] = ()
    """Resources that decide what this one leaves open; `gpupools.readback.inputs.joined` adds what they say."""
    software: SoftwareHints = SoftwareHints()
    open_to_gpus: Open | None = None
    """None for a pool that has GPUs, or cannot get any, or of which that is not known yet."""
    sharing: SharingFacts | None = None
    """None when the resource says nothing, which leaves it to software in the cluster."""
    min_nodes: int | None = None
    region: str = ""
    """Empty when the resource does not say it."""
    is_spot: bool = False
    max_nodes: int | None = None
    """None when the resource sets no bound or it is not known."""
    per_zone: bool = False
    """True when `min_nodes` and `max_nodes` are for each zone."""
    zones: int | None = None
    """Zones of the nodes; None where the resource does not name them, or they are not known yet."""
    zones_unknown: bool = False
    """True when the zones are named, but not known yet."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Node labels."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags (AWS, Azure) or resource labels (GCP) of the pool."""
    weaknesses: tuple[Weakness, ...] = ()
    node_customizations: tuple[NodeCustomization, ...] = ()
    """What somebody set by hand that runs on the nodes or opens them."""
    identity: tuple[str, Any] | None = None
    """The input that says whom the nodes run as, and its value, `UNKNOWN` if need be; None where none does."""
    deletion_protected: bool = False
    """True when a field of the resource itself makes the cloud refuse its deletion."""
    no_taint_field: bool = False
    """True when this API has no field for taints on such a pool, so that the GPUs have to move to another one."""
    foreign: str = ""
    """What makes the machines, as findings name it, where nobody here knows which of its machines have GPUs."""
    component: bool = False
    """True when the resource is a component, whose children are the pool once more."""

    @property
    def zones_counted(self) -> int:
        """Return how often `max_nodes` counts: once for each zone, those of a region where none is named."""
        if not self.per_zone:
            return 1
        return ZONES_OF_A_REGION if self.zones is None else self.zones

    @property
    def most_nodes(self) -> int | None:
        """Return the most nodes over all zones; None where that is not bounded."""
        return None if self.max_nodes is None else self.max_nodes * self.zones_counted

    @property
    def has_gpus(self) -> bool:
        """Say whether the inputs known at preview show that the nodes have GPUs."""
        if self.gpus_per_node == 0 or self.accelerator == "other" or self.in_cluster is not True:
            return False
        return bool(self.gpus_per_node) or bool(self.evidence)

    @property
    def lacks_taint(self) -> bool:
        """Say whether nodes with GPUs could come up that no taint, as far as it is known, keeps CPU pods off."""
        if self.in_cluster is False:
            return False
        only_others = self.accelerator == "other" and (self.gpus_per_node is not None or not self.unknown)
        return not (self.gpus_per_node == 0 or only_others or repels_cpu_pods(self.taints))

    @property
    def of_unknown_machines(self) -> bool:
        """Say whether nobody here can tell if the nodes have GPUs, and no taint keeps other pods off them."""
        return bool(self.foreign) and not self.evidence and not repels_cpu_pods(self.taints)

    @property
    def only_no_execute(self) -> bool:
        """Say whether the pool is kept free by NoExecute alone, which GPU daemons do not tolerate by default.

        https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml, `daemonsets.tolerations`
        """
        hard = {taint.effect for taint in self.taints if taint.key and taint.effect in HARD_EFFECTS}
        return hard == {Effect.NO_EXECUTE}
