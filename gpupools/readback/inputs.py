"""Parse wire-form properties without raising, and combine the results: shared by the readers of all clouds.

Wire form means dict, list, str, number, bool, None, and `UNKNOWN` at any depth for values that the engine does not know
at preview. The API rejects a value of a wrong type; here it counts as absent, unless that could hide a GPU.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpupools.catalog.instance_types import Catalogue, InstanceType
from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.json_types import mapping as mapping
from gpupools.common.numbers import whole_number
from gpupools.common.taints import GPU_TAINT, HARD_EFFECTS, KUBERNETES_EFFECTS, Effect, Taint, parse_taint
from gpupools.plan.pool_facts import (
    NO_ACCELERATOR,
    UNKNOWN,
    Accelerator,
    MissingTaint,
    PoolFacts,
    SoftwareHints,
    Weakness,
)

if TYPE_CHECKING:
    from gpupools.plan.cloud import Cloud

# Documented keys of taints that are removed once a node is ready: Cilium's agent
# (https://docs.cilium.io/en/stable/installation/taints/), the EBS and EFS drivers (kubernetes-sigs/aws-ebs-csi-driver
# docs/install.md), Karpenter (https://karpenter.sh/docs/concepts/nodepools/), Cluster API, the cluster autoscaler's
# prefixes (kubernetes/autoscaler cluster-autoscaler/FAQ.md), and those of Kubernetes for nodes that are not ready yet
# (https://kubernetes.io/docs/reference/labels-annotations-taints/).
STARTUP_TAINTS = (
    *("node.cilium.io/agent-not-ready", "karpenter.sh/unregistered", "node.cluster.x-k8s.io/uninitialized"),
    *("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"),
    *("node.cloudprovider.kubernetes.io/", "node.kubernetes.io/"),
)
STARTUP_SUFFIX = ".csi.aws.com/agent-not-ready"
_MAX_NOTES = 8  # limit of notes on invalid taints


def listed_accelerator(catalogue: Catalogue, row: InstanceType | None, instance_type: str) -> Accelerator | None:
    """Return the accelerator of a machine type by its row in the catalog, or by its name; None if it has neither."""
    if row is not None:
        return Accelerator("nvidia", row.gpus, row.gpu_model)
    what = catalogue.other_accelerator(instance_type)
    if what is None:
        return None
    if what.startswith("AMD ") and not {"Radeon", "Instinct"}.isdisjoint(what.split()):
        return Accelerator("amd", None, what)
    return Accelerator("other", None, what)


def accelerator_by_name(name: str, cloud: str, clouds: Mapping[str, "Cloud"]) -> Accelerator:
    """Return the accelerator of a machine type, from the given cloud first, then from the others."""
    candidates = [*([clouds[cloud]] if cloud in clouds else []), *clouds.values()]
    accelerators = (candidate.readback().accelerator(name) for candidate in candidates)
    return next((accelerator for accelerator in accelerators if accelerator.vendor), NO_ACCELERATOR)


_NAMES = ("nodeGroupName", "agentPoolName", "nodegroupName", "resourceName", "name", "metadata.name")


def with_name(pool: PoolFacts, properties: JsonObject, logical: str = "") -> PoolFacts:
    """Return the pool with the name in its properties; `logical` if they have none, known or unknown."""
    names = [at(properties, path) for path in _NAMES]
    name = next((each for each in map(text, names) if each), "") or (
        logical if all(item is None for item in names) else ""
    )
    return replace(pool, name=name) if name and not pool.pool else pool


def kubernetes_type(type_token: object) -> tuple[str, str] | None:
    """Return API version and kind of the type `kubernetes:<apiVersion>:<Kind>`; None for any other."""
    package, _, rest = type_token.partition(":") if isinstance(type_token, str) else ("", "", "")
    version, colon, kind = rest.partition(":")
    return (version, kind) if package == "kubernetes" and colon and kind and ":" not in kind else None


def group_and_kind(type_token: object) -> tuple[str, str]:
    """Return API group and kind of the type `kubernetes:<apiVersion>:<Kind>`; empty texts for any other."""
    version, kind = kubernetes_type(type_token) or ("", "")
    return version.rpartition("/")[0], kind


def is_list(value: object) -> bool:
    """Return whether a value is a list on the wire."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def at(value: Any, path: str) -> Any:
    """Return the value at `a.b.c`; `UNKNOWN` if a value on the path is unknown, None if one is absent."""
    for key in path.split("."):
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def text(value: object) -> str:
    """Return a string unchanged, and an empty string for any other value."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int | None:
    """Return a whole number from its wire form, a float or digits; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return whole_number(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def flag(value: object) -> bool | None:
    """Return a boolean, also from a string (EC2 templates and GKE's kubelet settings accept strings)."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.casefold()) if isinstance(value, str) else None


def string_map(value: object) -> Mapping[str, str]:
    """Return the entries of a map whose keys and values are known strings."""
    return {key: one for key, one in mapping(value).items() if isinstance(key, str) and isinstance(one, str)}


def items(value: object, path: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the known items of a list with their paths; append unknown items to `unknown`."""
    if value is UNKNOWN:
        unknown.append(path)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for index, item in enumerate(value):
            if item is UNKNOWN:
                unknown.append(f"{path}[{index}]")
            else:
                yield f"{path}[{index}]", item


@dataclass
class TaintsRead:
    """Collects the taints of one pool."""

    taints: list[Taint] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    not_counted: list[str] = field(default_factory=list)

    def objects(self, value: object, path: str, effects: Mapping[str, Effect]) -> None:
        """Read a list of `{key, value, effect}`; `effects` are Kubernetes' effects by their names in this API."""
        for where, item in self._listed(value, path):
            self.one(item, where, effects)

    def one(self, item: object, where: str, effects: Mapping[str, Effect]) -> None:
        """Read one `{key, value, effect}`."""
        if not isinstance(item, Mapping):
            self.note(f"{where}: {shown(item)} is not a taint; set key, value and effect")
            return
        key, value, effect = (item.get(part) for part in ("key", "value", "effect"))
        late = [part for part in ("key", "value", "effect") if item.get(part) is UNKNOWN]
        # A taint with a soft or invalid effect, or without a key, repels no pods, whatever its unknown parts are.
        if effect is not UNKNOWN and (not isinstance(effect, str) or effect not in effects):
            similar = next((name for name in effects if _same_word(name, effect)), "")
            fix = f"use {similar}" if similar else f"use one of {', '.join(effects)}"
            self.note(f"{where}: effect {shown(effect)} is not valid in this API; {fix}")
            return
        if key is not UNKNOWN and (not isinstance(key, str) or not key):
            self.note(f"{where}: a taint needs a key")
            return
        if isinstance(key, str) and _is_removed(key):
            self.note(f"{where}: {key} is removed when a node is ready, so it does not repel pods")
        elif isinstance(key, str) and isinstance(effect, str):
            self.taints.append(Taint(key, text(value), effects[effect]))  # an unknown value does not matter
        elif not isinstance(effect, str) or effects[effect] in HARD_EFFECTS:
            self.unknown.extend(f"{where}.{part}" for part in late)

    def texts(self, value: object, path: str) -> None:
        """Read a list of `key=value:Effect`, the form of Kubernetes' own tools."""
        for where, item in self._listed(value, path):
            self.line(item, where)

    def _listed(self, value: object, path: str) -> Iterator[tuple[str, Any]]:
        if value is not None and value is not UNKNOWN and not is_list(value):
            self.note(f"{path}: {shown(value)} is not a list of taints")
        return items(value, path, self.unknown)

    def line(self, item: object, where: str) -> None:
        """Read one `key=value:Effect`."""
        try:
            taint = parse_taint(item if isinstance(item, str) else "")
            self.one({"key": taint.key, "value": taint.value, "effect": taint.effect.value}, where, KUBERNETES_EFFECTS)
        except ValueError as error:
            self.note(f"{where}: {error if isinstance(item, str) else f'{shown(item)} is not a taint'}")

    def note(self, sentence: str) -> None:
        """Record an invalid or ineffective taint."""
        if len(self.not_counted) < _MAX_NOTES:
            self.not_counted.append(sentence)


def _is_removed(key: str) -> bool:
    whole = any(key == taint or (taint.endswith("/") and key.startswith(taint)) for taint in STARTUP_TAINTS)
    return whole or key.endswith(STARTUP_SUFFIX)


def _same_word(name: str, value: object) -> bool:
    bare = re.sub(r"[-_]", "", name).casefold()
    return isinstance(value, str) and re.sub(r"[-_\s]", "", value).casefold() == bare


@dataclass
class Machines:
    """Collects the machine types that a pool may use; the one with the most GPUs counts."""

    names: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    _seen: list[tuple[Accelerator, str]] = field(default_factory=list)
    _named: set[str] = field(default_factory=set)

    def add(self, name: str, accelerator: Accelerator, said_by: str) -> None:
        """Add a machine type that the input `said_by` names."""
        if name not in self._named:
            self._named.add(name)
            self.names.append(name)
        self.show(accelerator, f"{said_by} {name}")

    def show(self, accelerator: Accelerator, evidence: str) -> None:
        """Add an accelerator from an input that names no machine type."""
        if accelerator.vendor:
            self._seen.append((accelerator, evidence))

    @property
    def only_other(self) -> bool:
        """Return whether all named machine types have an accelerator other than a GPU."""
        others = {evidence for accelerator, evidence in self._seen if accelerator.vendor == "other"}
        return bool(self.names) and len(others) >= len(self.names) and not self._gpus()

    def _gpus(self) -> list[tuple[Accelerator, str]]:
        return [one for one in self._seen if one[0].vendor in ("nvidia", "amd")]

    @property
    def accelerator(self) -> str:
        """`nvidia`, `amd`, `other`, or empty."""
        vendors = {accelerator.vendor for accelerator, _ in self._seen}
        return next((vendor for vendor in ("nvidia", "amd", "other") if vendor in vendors), "")

    @property
    def gpus(self) -> Fraction | None:
        """GPUs of the largest machine type; None if they are unknown."""
        counts = [accelerator.count for accelerator, _ in self._gpus() if accelerator.count is not None]
        if counts:
            return max(counts)
        return None if self._gpus() or self.unknown else Fraction(0)

    @property
    def evidence(self) -> str:
        """The input that names the largest machine type."""
        best, gpus, vendor = self.gpus, self._gpus(), self.accelerator
        counted = next((why for accelerator, why in gpus if best is not None and accelerator.count == best), "")
        return counted or next((why for accelerator, why in gpus if accelerator.vendor == vendor), "")

    @property
    def other(self) -> str:
        """For `other`: the input and the accelerator."""
        if self.accelerator != "other":
            return ""
        accelerator, evidence = self._seen[0]
        return f"{evidence} ({accelerator.name})" if accelerator.name else evidence


# The key is the resource of the vendor's device plugin, so that pods that request it get the toleration:
# https://github.com/ROCm/k8s-device-plugin for AMD; for other vendors it differs by product, so NVIDIA's is used.
_KEYS = {"amd": "amd.com/gpu"}


def wanted_taint(accelerator: str) -> Taint:
    """Return the taint that repels ordinary pods from nodes with this vendor's GPUs."""
    return replace(GPU_TAINT, key=_KEYS.get(accelerator, GPU_TAINT.key))


def as_object(taint: Taint, effects: Mapping[str, Effect]) -> MissingTaint:
    """Return a taint as `{key, value, effect}` with the effect's name in this API."""
    effect = next(theirs for theirs, ours in effects.items() if ours is taint.effect)
    value = {"key": taint.key, "value": taint.value, "effect": effect}
    return MissingTaint(f"{{key: {taint.key}, value: {taint.value}, effect: {effect}}}", value)


def as_text(taint: Taint) -> MissingTaint:
    """Return a taint as `"key=value:Effect"`."""
    return MissingTaint(f'"{taint}"', str(taint))


def steps(path: str) -> list[str | int]:
    """Return the keys and list positions of a path: `agentPoolProfiles[1].nodeTaints`."""
    keys: list[str | int] = []
    for part in path.replace("]", "").split("."):
        name, *places = part.split("[")
        keys += [name] if name else []
        keys += [int(one) if one.isdecimal() and len(one) < _LONGEST_POSITION else one for one in places if one]
    return keys


_LONGEST_POSITION = 10


def with_taint(properties: JsonObject, pool: PoolFacts) -> JsonDict | None:
    """Return a copy of a resource's properties in which the pool that was read from them has its missing taint.

    None if the copy would be a guess: the taint belongs in a script, the API has no field for it, or the property is
    unknown or of another type.
    """
    if pool.missing_taint.value is None or pool.no_taint_field or not pool.where:
        return None
    changed = _with_value_at(properties, steps(pool.where), pool.missing_taint.value)
    return dict(changed) if isinstance(changed, Mapping) else None


def _with_value_at(value: Any, steps: list[str | int], taint: Any) -> Any:
    """Return `value` with `taint` added at the end of `steps`; `UNKNOWN` if that is impossible."""
    if not steps:
        if isinstance(taint, Mapping) and not {"key", "effect"} <= set(taint):  # an entry of a map by key
            return {**(value or {}), **taint} if value is None or isinstance(value, Mapping) else UNKNOWN
        if value is None:
            return [taint]
        return [*value, taint] if is_list(value) else UNKNOWN
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        if not is_list(value) or step >= len(value):
            return UNKNOWN
        inner = _with_value_at(value[step], rest, taint)
        return UNKNOWN if inner is UNKNOWN else [*value[:step], inner, *value[step + 1 :]]
    if value is not None and not isinstance(value, Mapping):
        return UNKNOWN
    inner = _with_value_at((value or {}).get(step), rest, taint)
    return UNKNOWN if inner is UNKNOWN else {**(value or {}), step: inner}


def relocated(pool: PoolFacts, place: Callable[[str], str], sentence_of: Callable[[str], str]) -> PoolFacts:
    """Return a pool of an inner object with paths of the outer object.

    `place` converts a path of the inner object, and `sentence_of` a sentence that begins with one.
    """
    sharing, software, open_ = pool.sharing, pool.software, pool.open_to_gpus

    def sentence(words: str) -> str:
        return sentence_of(words) if words else ""

    return replace(
        pool,
        where=place(pool.where),
        unknown=tuple(place(name) for name in pool.unknown),
        unresolved_taints=tuple(place(name) for name in pool.unresolved_taints),
        evidence=sentence(pool.evidence),
        other_accelerator=sentence(pool.other_accelerator),
        not_counted=tuple(sentence(one) for one in pool.not_counted),
        weaknesses=tuple(replace(weakness, property=place(weakness.property)) for weakness in pool.weaknesses),
        node_customizations=tuple(replace(one, property=place(one.property)) for one in pool.node_customizations),
        identity=(place(pool.identity[0]), pool.identity[1]) if pool.identity is not None else None,
        elsewhere=tuple(replace(one, property=place(one.property)) for one in pool.elsewhere),
        software=replace(software, said_by=tuple(sentence(one) for one in software.said_by)),
        sharing=replace(sharing, said_by=sentence(sharing.said_by)) if sharing is not None else None,
        open_to_gpus=replace(open_, property=place(open_.property)) if open_ is not None else None,
    )


def joined(pool: PoolFacts, other: PoolFacts, path: str) -> PoolFacts:
    """Return a pool merged with the facts of a resource that it refers to, such as its launch template.

    `other` is what `Readback.read_template` read from the resource to which `pool.elsewhere` refers at `path`.
    """
    reference = next((one for one in pool.elsewhere if one.property == path), None)
    if reference is None:
        return pool
    other = relocated(other, lambda inner: f"{path} → {inner}", lambda words: f"{path} → {words}")
    # Without the unknowns that come only from the reference.
    unknown = tuple(name for name in pool.unknown if name != path)
    gpus = pool.gpus_per_node or (None if pool.evidence or unknown else Fraction(0))
    unresolved_taints = tuple(name for name in pool.unresolved_taints if name != path)
    pool = replace(pool, gpus_per_node=gpus, unknown=unknown, unresolved_taints=unresolved_taints)
    pool = _with_machine(pool, other) if "machine" in reference.decides else pool
    if {"taints", "more taints"} & reference.decides:
        pool = replace(
            pool,
            taints=(*pool.taints, *other.taints),
            unresolved_taints=(*pool.unresolved_taints, *other.unresolved_taints),
            has_unevaluated_script=pool.has_unevaluated_script or other.has_unevaluated_script,
        )
    if "image" in reference.decides:
        own, theirs = pool.software, other.software
        software = SoftwareHints(
            driver=own.driver or theirs.driver,
            container_toolkit=own.container_toolkit or theirs.container_toolkit,
            device_plugin=theirs.device_plugin or own.device_plugin,
            said_by=(*own.said_by, *theirs.said_by),
        )
        pool = replace(pool, software=software)
    return replace(
        pool,
        not_counted=(*pool.not_counted, *other.not_counted),
        in_cluster=True if pool.in_cluster else other.in_cluster,
        elsewhere=tuple(one for one in pool.elsewhere if one.property != path),
        sharing=pool.sharing or other.sharing,
        weaknesses=(*(each for each in pool.weaknesses if each.property != path), *other.weaknesses),
        labels={**other.labels, **pool.labels},
        tags={**other.tags, **pool.tags},
    )


def _with_machine(pool: PoolFacts, other: PoolFacts) -> PoolFacts:
    """Return a pool with the machine types of the resource that it refers to."""
    unknown, evidence = (*pool.unknown, *other.unknown), pool.evidence or other.evidence
    counts = [gpus for gpus in (pool.gpus_per_node, other.gpus_per_node) if gpus]
    none = None if evidence or unknown else Fraction(0)
    vendor = next((v for v in ("nvidia", "amd", "other") if v in (pool.accelerator, other.accelerator)), "")
    return replace(
        pool,
        instance_types=tuple(dict.fromkeys((*pool.instance_types, *other.instance_types))),
        gpus_per_node=max(counts) if counts else none,
        evidence=evidence,
        accelerator=vendor,
        other_accelerator=pool.other_accelerator or other.other_accelerator,
        unknown=unknown,
    )


class Control(NamedTuple):
    """One row of a cloud's `hardening.csv`."""

    group: str
    """Resources whose inputs have the path."""
    name: str
    path: str
    """Of the input; other names of it follow behind a |."""
    ok: str
    """Accepted values, separated by |, with `unset`; or, behind !, those that are not; `computed` for `judge`."""
    wanted: str
    why: str
    mandatory: str
    """`always`, `never`, `set` (where the input is given), `true` (where it is true) or `computed`."""
    source: str


@lru_cache
def controls(package: str) -> Mapping[str, tuple[Control, ...]]:
    """Return the table of a cloud's package by group."""
    rows = [Control(*row.values()) for row in csv_rows(Path(str(files(package) / "hardening.csv")))]
    return {group: tuple(row for row in rows if row.group == group) for group in {row.group for row in rows}}


def _is_accepted(value: object, ok: str) -> bool:
    named = {True: "true", False: "false", None: text(value)}[flag(value)] or ("" if value else "unset")
    return (named in ok.removeprefix("!").split("|")) != ok.startswith("!")


@dataclass
class Hardening:
    """Collects the weaknesses of one pool."""

    source: str = ""
    """Source page of controls without one of their own."""
    found: list[Weakness] = field(default_factory=list)

    def check(self, given: JsonObject, rows: Iterable[Control], prefix: str = "") -> None:
        """Record the weaknesses by rows of a table; `prefix` is the path of the inputs."""
        for row in rows:
            paths = row.path.split("|")
            value = next((found for path in paths if (found := at(given, path)) is not None), None)
            if row.name == "retired-image" and not isinstance(value, str):
                continue
            given_so = {"always": True, "never": False, "set": value is not None, "true": flag(value) is True}
            row = row._replace(path=paths[0], mandatory="always" if given_so[row.mandatory] else "never")
            self.judge(row, value, _is_accepted(value, row.ok), prefix)

    def judge(self, row: Control, value: object, ok: bool, prefix: str = "") -> None:
        """Record a weakness by a row that the caller has judged; `prefix` is the path before that of the row."""
        path, mandatory = f"{prefix}{row.path}", row.mandatory == "always"
        self.want(row.name, path, value, ok, row.wanted, row.why, mandatory=mandatory, source=row.source)

    def want(
        self,
        name: str,
        path: str,
        value: object,
        ok: bool,
        wanted: str,
        why: str,
        *,
        mandatory: bool = True,
        source: str = "",
    ) -> None:
        """Record a weakness unless `ok`; an unknown value is recorded as unverified.

        `name` is the control, e.g. `metadata-service`, and `ok` says whether the value satisfies it.
        """
        late = value is UNKNOWN
        if ok and not late:
            return
        declared = "not known at preview" if late else "unset" if value is None else shown(value)
        self.found.append(
            Weakness(
                name=name,
                property=path,
                found=declared,
                wanted=wanted,
                why=why,
                mandatory=mandatory,
                source=source or self.source,
                unverified=late,
            )
        )


def pool_facts(cloud: str, machines: Machines, read: TaintsRead, hardening: Hardening | None = None) -> PoolFacts:
    """Return a pool with its machines, taints and weaknesses; `dataclasses.replace` adds what only its kind has."""
    return PoolFacts(
        cloud=cloud,
        instance_types=tuple(machines.names),
        gpus_per_node=machines.gpus,
        taints=tuple(read.taints),
        evidence=machines.evidence,
        unknown=(*machines.unknown, *read.unknown),
        accelerator=machines.accelerator,
        other_accelerator=machines.other,
        not_counted=tuple(read.not_counted),
        weaknesses=tuple(hardening.found) if hardening is not None else (),
    )


def group_facts(
    cloud: str, machines: Machines, read: TaintsRead, where: str, effects: Mapping[str, Effect] = KUBERNETES_EFFECTS
) -> PoolFacts:
    """Return the facts of a group of nodes of a cloud, or of `kubernetes`.

    `where` is the path of the taints, and `effects` are Kubernetes' effects by their names in this API.
    """
    missing = as_object(wanted_taint(machines.accelerator), effects)
    return replace(pool_facts(cloud, machines, read), where=where, missing_taint=missing)


def retired_machines(names: Sequence[str], catalogue: Catalogue, path: str, hardening: Hardening) -> None:
    """Record machine types that their cloud has retired."""
    for name in names:
        row = catalogue.get(name)
        if row is not None and row.lifecycle == "retired":
            when = f" since {row.lifecycle_date}" if row.lifecycle_date else ""
            why = f"{name} is retired{when}, so the pool cannot get new nodes"
            hardening.want(
                "retired-machine", path, name, False, "a current type", why, mandatory=False, source=row.source
            )
