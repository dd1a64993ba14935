"""What a cloud has and no plan says: a node pool that was made by other means, or one that a broken update left."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import CLOUD_EFFECTS, GPU_TAINT, Effect, Taint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpupools.plan.pool_facts import SharingFacts


@dataclass(frozen=True)
class Found:
    """A node pool as another tool tells of it."""

    name: str
    """In the cloud."""
    cluster: JsonObject
    """What says which cluster it is in, by the keys of a stack file."""
    inputs: JsonObject
    """What it is, as inputs of the cloud's resource by wire name."""
    notes: tuple[str, ...] = ()
    """What the reader has to know of it."""
    beside: JsonObject | None = None
    """Inputs of a resource that the pool refers to and that is not imported, by wire name; None if no file has it."""


@dataclass(frozen=True, kw_only=True)
class There:
    """Something that a cloud has, of a kind that pools of this tool are made of."""

    name: str
    """In the cloud."""
    id: str
    """What the cloud's provider imports it by."""
    forms: tuple[tuple[str, JsonObject], ...]
    """The resources it can be: type token, and the inputs that say it is this one."""
    tags: Mapping[str, str]
    """Those of this tool, by which it is found again where its name was made up; none where it has none."""
    cluster: str = ""
    """What its cluster is called in the cloud; empty where it says none."""
    pool: str = ""
    """The key of its pool, which its labels or tags say; empty for what is none of this tool's."""
    delete: str
    """The command with which it is deleted."""


@dataclass(frozen=True, kw_only=True)
class ExistingPools:
    """How a cloud's node pools are found in what other tools write. None of it asks the cloud.

    Each raises Rejected for a pool of this cloud that cannot be imported.
    """

    resource: str
    """What `overrides` calls the resource of a pool: `NodePool`."""
    described: Callable[[JsonObject], Found | None]
    """Read one pool as the cloud's own command line writes it; None for anything else."""
    declared: Callable[[str, JsonObject, str], Found | None]
    """Read a resource of a state: type token, inputs by wire name, id; None for anything but a pool of this cloud."""
    keys: Callable[[Found], tuple[JsonDict, JsonDict]]
    """Return the keys of its cluster beside those that find it, and those of the pool."""
    adopt: Callable[[Found], JsonDict] = lambda found: {}
    """Return what `adopt` says beside the name."""
    referred: Callable[[JsonObject], Mapping[str, JsonObject]] = lambda data: {}
    """Read what the cloud's command line writes of resources that pools refer to: what each is found by, and inputs."""
    referred_in_state: Callable[[str, JsonObject, str], Mapping[str, JsonObject]] = lambda kind, inputs, key: {}
    """The same of a resource of a state."""
    joined: Callable[[Found, Mapping[str, JsonObject]], Found | None] = lambda found, others: found
    """Add what a pool refers to, by what it is found by; None for a pool that then turns out to have no GPUs."""
    beside: str = ""
    """What `overrides` calls the resource that pools refer to, if they do: `LaunchTemplate`.

    Then the tables of edits and `adopt.keep` begin with the resource's name, too.
    """
    there: Callable[[JsonObject], Iterable[There]] = lambda data: ()
    """Yield what one object has that the cloud's own command line writes, a pool or several; nothing for any other."""


def refuse(name: object, what: str, fix: str = "leave it to the tool that manages it") -> Rejected:
    """Return why a pool cannot be imported."""
    return Rejected([Problem((shown(name).strip("'"),), what, fix)])


def fixed_nodes(name: str, number: int) -> dict[str, int]:
    """Return the nodes of a pool that no autoscaler scales.

    Raises:
        Rejected: It has none.
    """
    if not number:
        what = "has no autoscaler and 0 nodes, but nodes.fixed must be at least 1"
        raise refuse(name, what, "enable its autoscaler or add a node, and describe it again")
    return {"fixed": number}


def sharing_keys(facts: SharingFacts | None, **more: bool) -> JsonDict | None:
    """Return the sharing keys of a pool by what was read of it; `more` are keys of a shared mode."""
    if facts is None or facts.kind == "none":
        return None
    way = facts.kind.rpartition("+")[2]
    shared = {"mode": way, "replicas": facts.clients, **more} if way != "mig-single" else None
    return {"mode": "mig", "profile": facts.profile, "share": shared} if facts.profile else shared


def other_taints(written: Collection[str], own: Collection[str] = ()) -> list[str]:
    """Return taints as a pool's key has them, without the GPU's own and those the cloud adds."""
    return sorted(taint for taint in written if taint != str(GPU_TAINT) and taint not in own)


def taint_texts(value: object) -> list[str]:
    """Return the taints of EKS and GKE as a pool's key has them.

    Raises:
        Rejected: They are not a list of maps.
    """
    texts = []
    for taint in list_of(Mapping, value, "taints"):
        effect = CLOUD_EFFECTS.get(str(taint.get("effect")), Effect.NO_SCHEDULE)
        texts.append(str(Taint(str(taint.get("key")), str(taint.get("value") or ""), effect)))
    return texts


def text_of(value: object, pattern: str) -> Sequence[str]:
    """Return the groups of a pattern that a whole text has, none where it is another."""
    found = re.fullmatch(pattern, value) if isinstance(value, str) else None
    return found.groups() if found is not None else ()


def number_of(value: object, key: str) -> int:
    """Return a number that an API may write as text; 0 for nothing.

    Raises:
        Rejected: It is none.
    """
    if value in (None, ""):
        return 0
    if isinstance(value, bool) or re.fullmatch(r"[0-9]{1,9}(?:\.0)?", str(value)) is None:
        raise _misshaped(value, key, "a number")
    return int(float(str(value)))


def list_of(kind: type, value: object, key: str) -> list[Any]:
    """Return a list of texts (`str`) or maps (`Mapping`); an empty one for nothing.

    Raises:
        Rejected: It is none.
    """
    if value is not None and not (isinstance(value, list) and all(isinstance(item, kind) for item in value)):
        raise _misshaped(value, key, "a list of texts" if kind is str else "a list of maps")
    return list(value or ())


def _misshaped(value: object, key: str, wanted: str) -> Rejected:
    return Rejected([Problem((key,), f"got {shown(value)}, expected {wanted}", "run the describe command again")])


def without_nothing(given: JsonObject) -> JsonDict:
    """Return what is given: neither null nor an empty text, list or map, at any depth."""
    found = {
        key: without_nothing(value) if isinstance(value, Mapping) else value
        for key, value in given.items()
        if value is not None
    }
    return {key: value for key, value in found.items() if value not in ("", [], {})}
