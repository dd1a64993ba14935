"""Reads Kubernetes objects whose specification is a cloud's own node pool: one table for all of their kind. Pure.

AWS Controllers for Kubernetes and Azure Service Operator take the API's own form below `spec`. Config Connector and
Crossplane take Terraform's: blocks in the singular (`taint`, `guestAccelerator`), in Crossplane below
`spec.forProvider`, where older versions wrap single blocks in lists. So a specification is read by the reader of the
cloud's own resource, and paths are told in the spelling of the object.

Which objects those are each cloud says, with its sources (`KubernetesObjects.held`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.kubernetes_kinds import HeldList, HeldPool
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback.inputs import at, is_list, items, mapping, relocated, steps, text

if TYPE_CHECKING:
    from gpupools.plan.cloud import Cloud

TERRAFORM: Mapping[str, str] = {"taints": "taint"}
"""Names of properties in Terraform's form, by the name that the cloud's reader looks for."""


CROSSPLANE = ("spec.forProvider", "spec.initProvider")


def upbound(cloud: str, group: str, kind: str, held: HeldPool) -> dict[tuple[str, str], HeldPool]:
    """Make the entries of one of Upbound's providers: of the cluster, and since version 2 of a namespace."""
    service, _, rest = group.partition(f".{cloud}.")
    known = replace(held, below=CROSSPLANE)
    return {(f"{service}.{cloud}.{middle}{rest}", kind): known for middle in ("", "m.")}


def held_by(group: str, kind: str, clouds: Mapping[str, "Cloud"]) -> "tuple[Cloud, HeldPool | HeldList] | None":
    """Return the cloud whose pools objects of this kind hold, and how; None for any other kind."""
    for cloud in clouds.values():
        held = cloud.readback().objects.held.get((group, kind))
        if held is not None:
            return cloud, held
    return None


def read_held(given: JsonObject, cloud: "Cloud", held: HeldPool | HeldList) -> Iterator[PoolFacts]:
    """Read the pools of an object that holds a cloud's own form.

    Args:
        given: The object.
        cloud: Reads its own form.
        held: What `held_by` returned.
    """
    return _listed(given, cloud, held) if isinstance(held, HeldList) else _embedded(given, cloud, held)


def _embedded(given: JsonObject, cloud: "Cloud", held: HeldPool) -> Iterator[PoolFacts]:
    first = held.below[0]
    if at(given, first) is UNKNOWN:
        yield PoolFacts(cloud.name, (), None, (), unknown=(first,), where=first)
        return
    places: dict[str, str] = {}
    said: JsonDict = {}
    for below in reversed(held.below):
        for key, value in mapping(at(given, below)).items():
            said[key] = value
            places[key] = below
    ours = {theirs: name for name, theirs in held.names.items()}
    wire = {**_as_resource(said, ours, held), **held.beside(given)}
    late = tuple(below for below in held.below if at(given, below) is UNKNOWN)
    for pool in cloud.readback().read_pools(held.token, wire):
        place = _Places(given, places, first, held)
        found = relocated(pool, place, place.said)
        late_gpus = None if late and not found.evidence else found.gpus_per_node
        # What is not known yet may hold the taints as well.
        unknown = (*found.unknown, *late, found.where) if late else found.unknown
        yield replace(found, unknown=unknown, gpus_per_node=late_gpus)


def _as_resource(value: Any, ours: Mapping[str, str], held: HeldPool) -> Any:
    """Write a specification in the names and nesting of the cloud's resource."""
    if is_list(value):
        return [_as_resource(item, ours, held) for item in value]
    if not isinstance(value, Mapping):
        return value
    found: JsonDict = {}
    for key, item in value.items():
        if key in ours.values():
            continue  # the name of another API, which this one does not know
        name = ours.get(key, key)
        single = name in held.single and is_list(item) and len(item) == 1
        found[name] = _as_resource(item[0] if single else item, ours, held)
    for name, references in held.references.items():
        named = next((mapping(value[each]) for each in references if each in value), None)
        if named is not None and found.get(name) is None:
            found[name] = text(named.get("external")) or text(named.get("name")) or "chosen by its labels"
    return found


# The path that a sentence begins with; a key in brackets may hold anything but the closing one.
_PATH = re.compile(r"[A-Za-z][\w.]*(?:\[[^\]]*\][\w.]*)*")


@dataclass(frozen=True)
class _Places:
    """Turns the reader's paths into those of the object."""

    given: JsonObject
    places: Mapping[str, str]
    """Where each property of the resource stands, by its name in the object."""
    first: str
    held: HeldPool

    def __call__(self, path: str) -> str:
        """Return the path in the object, as `gpupools.readback.inputs.with_taint` takes it."""
        written = ""
        value: Any = None
        for name in steps(path):
            if isinstance(name, int):
                written += f"[{name}]"
                value = value[name] if is_list(value) and name < len(value) else None
                continue
            key = self.held.names.get(name, name)
            if not written:
                written = self.places.get(key, self.first)
                value = at(self.given, written)
            written += f".{key}"
            value = mapping(value).get(key)
            if name in self.held.single and is_list(value) and len(value) == 1:
                written += "[0]"
                value = value[0]
        return written

    def said(self, sentence: str) -> str:
        """Return a sentence that begins with a path."""
        match = _PATH.match(sentence)
        return f"{self(match[0])}{sentence[match.end() :]}" if match else sentence


def _listed(given: JsonObject, cloud: "Cloud", held: HeldList) -> Iterator[PoolFacts]:
    late: list[str] = []
    for where, one in items(at(given, held.path), held.path, late):
        if at(one, "kind") == held.kind:
            spec = mapping(at(one, "spec"))
            place = _Places(given, {}, f"{where}.spec", HeldPool(held.token))
            for found in cloud.readback().read_pools(held.token, spec):
                yield replace(relocated(found, place, place.said), pool=text(at(one, "metadata.name")))
    for name in late:
        yield PoolFacts(cloud.name, (), None, (), unknown=(name,), where=name)
