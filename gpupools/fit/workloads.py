"""The data of `gpupools fit`: workloads with their pod templates, and what is said about each and a pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import amount_of
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.fit.requests import Requests, is_extended, requests_of
from gpupools.plan.fabric import CHANNEL_CLASS
from gpupools.plan.node_resources import ACCELERATOR_RESOURCES, FRACTION_ANNOTATIONS
from gpupools.plan.prices import PoolPrice, total
from gpupools.plan.quotas import QuotaNeed
from gpupools.readback.inputs import at
from gpupools.stackfile.check import Located


def maps(found: object) -> Sequence[JsonObject]:
    """Return the maps of a list; empty for anything else."""
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else ()


Requirement = tuple[str, str, Sequence[object]]
"""What a label of a node has to be: key, operator and values."""


def _requirement(given: JsonObject) -> Requirement:
    values = given.get("values")
    return str(given.get("key")), str(given.get("operator")), values if isinstance(values, list) else []


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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
    least: int = 0
    """How many of them a gang of the workload has at least."""
    after: frozenset[str] = frozenset()
    """Roles of the workload whose pods have ended when these start."""
    is_later: bool = False
    """Whether its pods are made only after those of another role are ready or have ended."""

    def runs_with(self, other: "PodTemplate") -> bool:
        """Return whether pods of another template of the workload run at the same time."""
        return self.role not in other.after and other.role not in self.after

    @cached_property
    def asked(self) -> Requests:
        """What a pod asks for."""
        return requests_of(self.spec)

    @cached_property
    def tolerations(self) -> Sequence[JsonObject]:
        """Tolerations of the pods."""
        return maps(self.spec.get("tolerations"))

    @cached_property
    def added_tolerations(self) -> Sequence[JsonObject]:
        """Tolerations with those of the admission plugin ExtendedResourceToleration.

        EKS, AKS and GKE have it (docs/reference/stack-file.md).
        """
        names = filter(is_extended, self.asked.amounts)
        return [*self.tolerations, *({"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in names)]

    @cached_property
    def annotations(self) -> JsonObject:
        """Annotations of the pods."""
        return mapping(self.metadata.get("annotations"))

    @cached_property
    def selections(self) -> Sequence[Sequence[Sequence[Requirement]]]:
        """What the pod requires of its node: each is terms, of which one holds if all its requirements do."""
        selected = mapping(self.spec.get("nodeSelector")).items()
        found: list[list[list[Requirement]]] = [[[(str(key), "In", [value])]] for key, value in selected]
        if self.affinity is not None:
            terms = [[*maps(term.get("matchExpressions")), *maps(term.get("matchFields"))] for term in self.affinity]
            found.append([list(map(_requirement, term)) for term in terms])
        return found

    @cached_property
    def affinity(self) -> Sequence[JsonObject] | None:
        """Terms of the required node affinity."""
        required = at(self.spec, f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms")
        return maps(required) if isinstance(required, list) else None

    def with_labels(self, index: int, unmet: Sequence[Requirement], labels: Sequence[tuple[str, str]]) -> JsonDict:
        """Return the required node affinity with labels instead of some requirements of a term."""
        changed = [*(self.affinity or ())]
        kept = [each for each in maps(changed[index].get("matchExpressions")) if _requirement(each) not in unmet]
        new = [{"key": key, "operator": "In", "values": [value]} for key, value in labels]
        changed[index] = {**changed[index], "matchExpressions": [*kept, *new]}
        return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": changed}}}}

    @cached_property
    def needs_other_pods(self) -> Sequence[str]:
        """What the pod requires of where other pods run."""
        found = [each for each in ("podAffinity", "podAntiAffinity") if at(self.spec, f"affinity.{each}.{_REQUIRED}")]
        spread = maps(self.spec.get("topologySpreadConstraints"))
        is_spread = any(each.get("whenUnsatisfiable") != "ScheduleAnyway" for each in spread)
        return [*found, *["a topology spread"] * is_spread]

    @cached_property
    def has_fraction(self) -> bool:
        """Whether a pod asks for a fraction of a GPU, by its annotations."""
        return any(key in self.annotations for key in FRACTION_ANNOTATIONS)

    @cached_property
    def asks_for_devices(self) -> bool:
        """Whether a pod asks for a GPU or another accelerator, by a resource or a claim."""
        has_claims = bool(self.spec.get("resourceClaims"))
        return has_claims or any(name.startswith(ACCELERATOR_RESOURCES) for name in self.asked.amounts)

    @property
    def asks_for_gpus(self) -> bool:
        """Whether a pod asks for one in any way."""
        return self.asks_for_devices or self.has_fraction

    @cached_property
    def gpu_container(self) -> str:
        """Name of the container that asks for GPUs; the first one if none does."""
        found = self.spec["containers"]
        asking = (
            each
            for each in found
            if at(each, "resources.claims") or any(map(is_extended, requests_of({"containers": [each]}).amounts))
        )
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
    gangs: Mapping[str, int] = MappingProxyType({})
    """Pods of all templates together that start together or not at all; 0 where each starts by itself.

    By `kueue`, `kai` and `volcano` if they know the kind, and `alone` where a program waits for all its pods.
    """
    unsure: frozenset[str] = frozenset()
    """Those whose gang the controller of the kind forms only with a setting of its own."""
    groups: int = 1
    """How many such gangs there are, such as the replicas of a LeaderWorkerSet."""
    queue: str = ""
    """A queue that a field names instead of an annotation of the pods (Volcano)."""
    note: str = ""
    """What is assumed of a kind that is not known."""
    unknown: str = ""
    """Why its pods cannot be judged; then it has no template."""
    unmet: tuple[str, ...] = ()
    """What Kueue's webhook requires, and the object does not have."""
    joined: str = ""
    """Group of plain Pods that are one workload; each template is one of them, with its name as the role."""

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
    problems: tuple[Located, ...] = ()
    """Why files and objects were left out."""


CLAIMED = {"ResourceClaim": "spec.devices", "ResourceClaimTemplate": "spec.spec.devices"}
"""Where objects that pods name have the devices that they claim."""
CHANNEL: JsonObject = {"requests": [{"exactly": {"deviceClassName": CHANNEL_CLASS}}]}
"""What the claim template that a ComputeDomain makes claims."""


class Level(StrEnum):
    """The three answers, the strongest first."""

    UNFIT = "does not fit"
    UNKNOWN = "unknown"
    FITS = "fits"


LEVELS = tuple(Level)


REASONS: Mapping[str, Mapping[str, str]] = {row["key"]: row for row in data_rows("fit_reasons.csv")}
"""The one table of reasons, by key.

`by` says who decides, `answer` what, `message` what the scheduler says of it, and `next` the command that shows more.
"""


class Reason(NamedTuple):
    """Why a pod does not fit, or why that is not known."""

    key: str
    """Of the table."""
    text: str
    patch: JsonObject = MappingProxyType({})
    """What to change in the pod's spec and its `metadata`, as a strategic merge patch; empty where no line helps."""
    other_level: Level | None = None
    """Where it is not that of the table."""

    @property
    def level(self) -> Level:
        """What it says of the pod."""
        return self.other_level or _LEVEL_OF[self.key]


_LEVEL_OF = {row["key"]: Level(row["answer"]) for row in REASONS.values() if row["answer"]}


class Left(NamedTuple):
    """Units of a pool that the pods leave over, of `every` that the nodes have."""

    unit: str
    left: float
    on_last_node: float
    every: float


class Need(NamedTuple):
    """The nodes that the pods of a workload need."""

    pods: int | None
    """Of all templates that are counted together; None for one on each node, which starts none."""
    pods_per_node: int
    """Of the template."""
    nodes: int
    """On which pods run at once; none if their gang does not start."""
    max_nodes: int
    prices: Sequence[PoolPrice]
    """Of these nodes, and of those of other steps of the pool."""
    quotas: Sequence[QuotaNeed]
    left: Sequence[Left] = ()
    reasons: tuple[Reason, ...] = ()
    is_approximate: bool = False
    """Whether templates share nodes: the largest pods are placed first, which no scheduler promises."""
    others: Mapping[str, int] = MappingProxyType({})
    """Nodes of other steps of the pool, on which the other pods run, by the name of the step."""

    def words(self) -> str:
        """Return the need in one line."""
        if self.pods is None:
            return "one pod on each node"
        about = "about " if self.is_approximate else ""
        words = [f"needs {about}{self.nodes} of at most {amount_of(self.max_nodes, 'node')}"]
        words[0] += "".join(f" and {count} of {step}" for step, count in self.others.items())
        words += [f"{each.left:g} of {each.every:g} {each.unit} left over" for each in self.left]
        cost = total(self.prices)
        words.append("no price is known" if cost.unpriced == cost.pools else str(cost))
        return ", ".join([*words, *(quota.words for quota in self.quotas)])

    def as_json(self) -> JsonDict:
        """Return the need as JSON types."""
        price, cost = self.prices[0].as_json(), total(self.prices)
        return {
            **{key: getattr(self, key) for key in ("pods", "pods_per_node", "nodes", "max_nodes", "is_approximate")},
            **({"other_steps": dict(self.others)} if self.others else {}),
            "left": [each._asdict() for each in self.left],
            **{key: price[key] for key in ("currency", "dated")},
            "per_hour": None if cost.unpriced else round(float(cost.known), 4),
            "quotas": [{key: getattr(each, key) for key in ("code", "name", "amount", "unit")} for each in self.quotas],
        }


@dataclass(frozen=True)
class Verdict:
    """The answer for a pod template and a pool or a node."""

    where: str
    """`<cluster>/<pool>`, or the name of a node."""
    reasons: tuple[Reason, ...]
    need: Need | None = None
    """The nodes that the pods take; None where no pod fits, and of a node."""

    @cached_property
    def level(self) -> Level:
        """The strongest level of the reasons."""
        found = [each.level for each in self.reasons]
        return next((level for level in LEVELS if level in found), Level.FITS)

    @property
    def patch(self) -> JsonDict:
        """The lines of all reasons together, as a strategic merge patch of the pod template.

        Maps are joined, containers by name, other lists without doubles.
        """
        merged: JsonDict = {}
        for reason in self.reasons:
            _merge(merged, reason.patch)
        metadata = merged.pop("metadata", None)
        return {key: lines for key, lines in (("metadata", metadata), ("spec", merged)) if lines}

    def __str__(self) -> str:
        said = "; ".join(each.text for each in self.reasons if each.level is not Level.FITS)
        return f"{self.where} {self.level.value}: {said}"

    def as_json(self) -> JsonDict:
        """Return the answer as JSON types."""
        reasons = [{"reason": each.key, "level": each.level.value, "what": each.text} for each in self.reasons]
        need = {"needs": self.need.as_json()} if self.need is not None else {}
        return {"pool": self.where, "answer": self.level.value, "reasons": reasons, "add": self.patch, **need}


def _merge(into: JsonDict, patch: JsonObject) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            own = into[key] = into.get(key) or []
            is_named = key in ("containers", "initContainers")
            for item in value:
                same = next((each for each in own if is_named and each["name"] == item["name"]), None)
                if same is not None:
                    _merge(same, item)
                elif item not in own:
                    own.append(dict(item) if isinstance(item, dict) else item)
        else:
            into[key] = value
