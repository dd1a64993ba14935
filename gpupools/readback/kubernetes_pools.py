"""Selects the reader of a Kubernetes object that adds nodes to a cluster. Pure.

`karpenter` reads Karpenter's pools, a cloud's folder its own kinds (`KubernetesObjects`), and readers in `registry` the
objects of other tools. Pulumi resources (`kubernetes:<apiVersion>:<Kind>`) and manifests are read the same way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import ObjectReader
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback.inputs import kubernetes_type, mapping
from gpupools.readback.karpenter import providers_of, read_karpenter
from gpupools.readback.registry import Clouds, kubernetes_readers

_KARPENTER = frozenset(("karpenter.sh", kind) for kind in ("NodePool", "Provisioner", "NodeClaim"))


def each_kubernetes_pool(type_token: str, properties: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Yield the pools, of which there may be any number, of an object declared with Pulumi; none of other resources."""
    named = kubernetes_type(type_token)
    if named is None or not isinstance(properties, Mapping):
        return iter(())
    version, kind = properties.get("apiVersion"), properties.get("kind")
    version = version if isinstance(version, str) else named[0]
    read = _reader_of(version.rpartition("/")[0], kind if isinstance(kind, str) else named[1], clouds)
    return iter(read(properties, clouds) if read is not None else ())


def read_template(type_token: str, properties: JsonObject, clouds: Clouds) -> PoolFacts | None:
    """Return the facts of an object that pools refer to: Karpenter node class, Cluster API bootstrap.

    They name no machine, so they are not pools: a class adds image, driver and hardening to one, a bootstrap
    configuration adds taints (`gpupools.readback.inputs.joined`). None for any other object.

    A manifest has the type `kubernetes:<apiVersion>:<kind>`.
    """
    named = kubernetes_type(type_token)
    if named is None or not isinstance(properties, Mapping):
        return None
    kind = named[1]
    spec = mapping(properties.get("spec"))
    for name, provider in providers_of(clouds):
        if kind in provider.classes:
            node_class = provider.classes[kind](spec)
            return replace(node_class, node_customizations=tuple(clouds[name].readback().customizations(kind, spec)))
    read = (reader.read_template(type_token, properties, clouds) for reader in kubernetes_readers())
    return next((template for template in read if template is not None), None)


def _reader_of(group: str, kind: str, clouds: Clouds) -> ObjectReader | None:
    if (group, kind) in _KARPENTER:
        return with_spec(lambda manifest, clouds: read_karpenter(mapping(manifest.get("spec")), kind, clouds))
    tables = [cloud.readback().objects.pools for cloud in clouds.values()]
    tables += [reader.pools for reader in kubernetes_readers()]
    return next((pools[group, kind] for pools in tables if (group, kind) in pools), None)


def with_spec(read: ObjectReader) -> ObjectReader:
    """Return a reader that reports an object whose `spec` is not known yet as one unknown pool."""

    def checked(manifest: JsonObject, clouds: Clouds) -> Iterable[PoolFacts]:
        if manifest.get("spec") is UNKNOWN:
            return (PoolFacts("kubernetes", (), None, (), unknown=("spec",), where="spec"),)
        return read(manifest, clouds)

    return checked


def kinds_read(clouds: Clouds) -> Iterator[tuple[str, str]]:
    """Yield group and kind of every object that is read as a pool or as a reference of pools."""
    yield from sorted(_KARPENTER)
    for reader in kubernetes_readers():
        yield from (*reader.pools, *reader.others)
    for cloud in clouds.values():
        objects = cloud.readback().objects
        yield from objects.pools
        if objects.karpenter is not None:
            yield from ((objects.karpenter.groups[0], kind) for kind in objects.karpenter.classes)
