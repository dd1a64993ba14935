"""Reads Kubernetes objects whose specification is a cloud's own node pool. Pure.

AWS Controllers for Kubernetes and Azure Service Operator take the API's own form below `spec`. Config Connector and
Crossplane take Terraform's: blocks in the singular (`taint`, `guestAccelerator`), in Crossplane below
`spec.forProvider`, where older versions wrap single blocks in lists. So a specification is read by the reader of the
cloud's own resource, and paths are reported as the object spells them.

`CloudKinds.embedded` lists these objects, with the sources.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupools.audit.cloud_kinds import EmbeddedList, EmbeddedPool, cloud_kinds
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.cloud import Cloud, ObjectReader
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback.inputs import at, is_list, items, mapping, relocated, steps, text
from gpupools.readback.kubernetes_pools import with_spec
from gpupools.readback.registry import Clouds, KubernetesReader

TERRAFORM: Mapping[str, str] = {"taints": "taint"}
"""Names of properties in Terraform's form, by the name that the cloud's reader looks for."""


CROSSPLANE = ("spec.forProvider", "spec.initProvider")


def upbound(cloud: str, group: str, kind: str, embedded: EmbeddedPool) -> dict[tuple[str, str], EmbeddedPool]:
    """Return the entries of an Upbound provider: cluster-scoped and, since version 2, namespaced."""
    service, _, rest = group.partition(f".{cloud}.")
    known = replace(embedded, below=CROSSPLANE)
    return {(f"{service}.{cloud}.{middle}{rest}", kind): known for middle in ("", "m.")}


def _reader_of(group: str, kind: str, clouds: Clouds) -> ObjectReader | None:
    holders = (
        (each.cloud, each.embedded[group, kind]) for each in cloud_kinds(clouds) if (group, kind) in each.embedded
    )
    cloud, embedded = next(holders, ("", None))
    if embedded is None:
        return None
    return with_spec(lambda manifest, clouds: _read_embedded(manifest, clouds[cloud], embedded))


def _read_embedded(given: JsonObject, cloud: Cloud, embedded: EmbeddedPool | EmbeddedList) -> Iterator[PoolFacts]:
    return (
        _read_list(given, cloud, embedded)
        if isinstance(embedded, EmbeddedList)
        else _read_specification(given, cloud, embedded)
    )


def _kinds(clouds: Clouds) -> Iterator[tuple[str, str]]:
    for each in cloud_kinds(clouds):
        yield from each.embedded


def _read_specification(given: JsonObject, cloud: Cloud, embedded: EmbeddedPool) -> Iterator[PoolFacts]:
    first = embedded.below[0]
    if at(given, first) is UNKNOWN:
        yield PoolFacts(cloud.name, (), None, (), unknown=(first,), where=first)
        return
    places: dict[str, str] = {}
    properties: JsonDict = {}
    for below in reversed(embedded.below):
        for key, value in mapping(at(given, below)).items():
            properties[key] = value
            places[key] = below
    ours = {theirs: name for name, theirs in embedded.names.items()}
    wire = {**_as_resource(properties, ours, embedded), **embedded.beside(given)}
    late = tuple(below for below in embedded.below if at(given, below) is UNKNOWN)
    for pool in cloud.readback().read_pools(embedded.token, wire):
        place = _Places(given, places, first, embedded)
        resource = relocated(pool, place, place.in_sentence)
        late_gpus = None if late and not resource.evidence else resource.gpus_per_node
        # The unknown part may also contain the taints.
        unknown = (*resource.unknown, *late, resource.where) if late else resource.unknown
        yield replace(resource, unknown=unknown, gpus_per_node=late_gpus)


def _as_resource(value: Any, ours: Mapping[str, str], embedded: EmbeddedPool) -> Any:
    """Return a specification in the names and nesting of the cloud's resource."""
    if is_list(value):
        return [_as_resource(item, ours, embedded) for item in value]
    if not isinstance(value, Mapping):
        return value
    resource: JsonDict = {}
    for key, item in value.items():
        if key in ours.values():
            continue  # the name of another API, which this one does not know
        name = ours.get(key, key)
        single = name in embedded.single and is_list(item) and len(item) == 1
        resource[name] = _as_resource(item[0] if single else item, ours, embedded)
    for name, references in embedded.references.items():
        named = next((mapping(value[each]) for each in references if each in value), None)
        if named is not None and resource.get(name) is None:
            resource[name] = text(named.get("external")) or text(named.get("name")) or "chosen by its labels"
    return resource


# The path that a sentence begins with; a key in brackets may hold anything but the closing one.
_PATH = re.compile(r"[A-Za-z][\w.]*(?:\[[^\]]*\][\w.]*)*")


@dataclass(frozen=True)
class _Places:
    """Translates the reader's paths into paths of the object."""

    given: JsonObject
    places: Mapping[str, str]
    """Path of each property, by its name in the object."""
    first: str
    embedded: EmbeddedPool

    def __call__(self, path: str) -> str:
        """Return the path in the object, as `gpupools.readback.inputs.with_taint` takes it."""
        written = ""
        value: Any = None
        for name in steps(path):
            if isinstance(name, int):
                written += f"[{name}]"
                value = value[name] if is_list(value) and name < len(value) else None
                continue
            key = self.embedded.names.get(name, name)
            if not written:
                written = self.places.get(key, self.first)
                value = at(self.given, written)
            written += f".{key}"
            value = mapping(value).get(key)
            if name in self.embedded.single and is_list(value) and len(value) == 1:
                written += "[0]"
                value = value[0]
        return written

    def in_sentence(self, sentence: str) -> str:
        """Return a sentence with the path at its start translated."""
        match = _PATH.match(sentence)
        return f"{self(match[0])}{sentence[match.end() :]}" if match else sentence


def _read_list(given: JsonObject, cloud: Cloud, embedded: EmbeddedList) -> Iterator[PoolFacts]:
    late: list[str] = []
    for where, one in items(at(given, embedded.path), embedded.path, late):
        if at(one, "kind") == embedded.kind:
            spec = mapping(at(one, "spec"))
            place = _Places(given, {}, f"{where}.spec", EmbeddedPool(embedded.token))
            for resource in cloud.readback().read_pools(embedded.token, spec):
                yield replace(relocated(resource, place, place.in_sentence), pool=text(at(one, "metadata.name")))
    for name in late:
        yield PoolFacts(cloud.name, (), None, (), unknown=(name,), where=name)


READER = KubernetesReader(kinds=_kinds, reader_of=_reader_of)
