"""The data of `gpupools fit`: workloads with their pod templates, and what is said about each and a pool."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.fit.requests import Requests, is_extended, requests_of


@dataclass(frozen=True, eq=False)
class PodTemplate:
    """A pod template, and how many pods a workload makes of it."""

    role: str
    """Its place in the workload, such as `Worker`; empty where there is only one."""
    line: int | None
    """First line in the file, from 1."""
    metadata: JsonObject
    """Labels and annotations of its pods."""
    spec: JsonObject
    pods: int | None = 1
    """How many; None for one on each node (DaemonSet)."""

    @cached_property
    def asked(self) -> Requests:
        """What a pod asks for."""
        return requests_of(self.spec)

    @cached_property
    def gpu_container(self) -> str:
        """Name of the container that asks for GPUs; the first one if none does."""
        found = self.spec["containers"]
        asking = (each for each in found if any(map(is_extended, requests_of({"containers": [each]}).amounts)))
        return str(next(asking, found[0]).get("name", "main"))


class Workload(NamedTuple):
    """An object that makes pods, or a pod."""

    kind: str
    name: str
    namespace: str
    file: str
    line: int | None
    metadata: JsonObject
    """Labels and annotations of the object itself, where queues are named."""
    templates: tuple[PodTemplate, ...]
    gang: int = 0
    """Pods of all templates together that start together or not at all; 0 where each starts by itself."""
    groups: int = 1
    """How many such gangs there are, such as the replicas of a LeaderWorkerSet."""
    queue: str = ""
    """A queue that the spec names instead of a label (Volcano)."""
    note: str = ""
    """What is assumed of a kind that is not known."""
    unknown: str = ""
    """Why its pods cannot be judged; then it has no template."""

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}" if self.line is not None else self.file


class Manifests(NamedTuple):
    """What was read of manifests."""

    workloads: tuple[Workload, ...]
    claims: Mapping[tuple[str, str, str], JsonObject] = MappingProxyType({})
    """Kind (`ResourceClaim`, `ResourceClaimTemplate`), namespace and name to `spec.devices` of the claim."""
    namespaces: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Labels of the namespaces that the manifests declare."""
    webhooks: tuple[str, ...] = ()
    """Names of MutatingWebhookConfigurations that change pods."""
    not_read: Mapping[str, int] = MappingProxyType({})
    """Kinds that may make pods in a way that is not known, with their number."""


class Level(StrEnum):
    """The three answers, the strongest first."""

    UNFIT = "does not fit"
    UNKNOWN = "unknown"
    FITS = "fits"


class Reason(NamedTuple):
    """Why a pod does not fit, or why that is not known."""

    key: str
    """A key of `data/fit_reasons.csv`, the one table of reasons."""
    level: Level
    text: str
    patch: JsonObject = MappingProxyType({})
    """What to add to the pod template, as a part of it; empty where no line of it helps."""

    def as_json(self) -> JsonDict:
        """Return the reason as JSON types."""
        return {"reason": self.key, "level": self.level.value, "what": self.text}


class Verdict(NamedTuple):
    """The answer for a pod template and a pool or a node."""

    where: str
    """`<cluster>/<pool>`, or the name of a node."""
    reasons: tuple[Reason, ...]

    @property
    def level(self) -> Level:
        """The strongest level of the reasons."""
        return min((each.level for each in self.reasons), key=[*Level].index, default=Level.FITS)
