"""Reads Kubernetes objects that bring nodes into a cluster: which reader an object is for. Pure.

`karpenter` reads Karpenter's pools, `cluster_api` Cluster API's objects, `embedded_pools` those that hold a cloud's own
form, `node_groups` those of other tools and running nodes, `embedded_manifests` the objects inside wrappers; what is
one cloud's alone its folder reads (`KubernetesObjects`). As Pulumi resources (`kubernetes:<apiVersion>:<Kind>`) or as
manifests they are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback import cluster_api, embedded_manifests, node_groups
from gpupools.readback.embedded_pools import held_by, read_held
from gpupools.readback.inputs import kubernetes_type, mapping, relocated, text
from gpupools.readback.karpenter import providers_of, read_karpenter

_KARPENTER = frozenset(("karpenter.sh", kind) for kind in ("NodePool", "Provisioner", "NodeClaim"))

Clouds = Mapping[str, Cloud]


def read_kubernetes_pools(type_token: str, properties: JsonObject, clouds: Clouds) -> tuple[PoolFacts, ...]:
    """Read the pools that a Kubernetes object declared with Pulumi stands for; nothing for any other resource.

    Args:
        type_token: The resource's Pulumi type, e.g. `kubernetes:karpenter.sh/v1:NodePool`.
        properties: Its inputs in wire form, with `UNKNOWN` for what the engine does not know yet.
        clouds: Know the machines that such objects name.
    """
    return tuple(each_kubernetes_pool(type_token, properties, clouds))


def each_kubernetes_pool(type_token: str, properties: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read what `read_kubernetes_pools` does one by one, since one object may hold any number."""
    named = kubernetes_type(type_token)
    if named is None or not isinstance(properties, Mapping):
        return iter(())
    version, kind = properties.get("apiVersion"), properties.get("kind")
    return _read(
        version if isinstance(version, str) else named[0],
        kind if isinstance(kind, str) else named[1],
        properties,
        clouds,
    )


def read_manifest(manifest: JsonObject, clouds: Clouds) -> tuple[PoolFacts, ...]:
    """Read the pools that a Kubernetes manifest stands for; nothing for any other object.

    Args:
        manifest: With `apiVersion`, `kind`, `metadata` and `spec`.
        clouds: Know the machines that such objects name.
    """
    if not isinstance(manifest, Mapping):
        return ()
    return tuple(_read(text(manifest.get("apiVersion")), text(manifest.get("kind")), manifest, clouds))


def read_template(type_token: str, properties: JsonObject, clouds: Clouds) -> PoolFacts | None:
    """Read what a pool refers to: a node class of Karpenter, a bootstrap configuration of Cluster API, kOps' Cluster.

    They name no machine, so they are no pools: a class adds image, driver and hardening to one, a configuration
    and a Cluster taints (`gpupools.readback.inputs.joined`). None for any other object.

    Args:
        type_token: Pulumi type, or `<apiVersion>:<kind>` of a manifest with `kubernetes:` before it.
        properties: The object.
        clouds: Read their own classes, and know what of one runs on nodes or opens them.
    """
    named = kubernetes_type(type_token)
    if named is None or not isinstance(properties, Mapping):
        return None
    version, kind = named
    spec = mapping(properties.get("spec"))
    for name, provider in providers_of(clouds):
        if kind in provider.classes:
            found = provider.classes[kind](spec)
            return replace(found, node_customizations=tuple(clouds[name].readback().customizations(kind, spec)))
    cluster = node_groups.read_cluster(version.rpartition("/")[0], kind, properties)
    return cluster or cluster_api.read_bootstrap(type_token, properties, clouds)


def _read(version: str, kind: str, given: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    group = version.rpartition("/")[0]
    known = (group, kind)
    groups = node_groups.reader(group, kind, clouds)
    if groups is not None:
        return iter(groups(given, clouds))
    if known in embedded_manifests.WRAPPERS:
        return _embedded(given, group, kind, clouds)
    held = held_by(group, kind, clouds)
    machines = cluster_api.machine_kind(group, kind, clouds)
    if held is None and machines is None and known not in _KARPENTER:
        return iter(())
    spec = given.get("spec")
    if spec is UNKNOWN:
        return iter((PoolFacts("kubernetes", (), None, (), unknown=("spec",), where="spec"),))
    if machines is not None:
        return cluster_api.read_machines(mapping(spec), machines, clouds)
    if held is not None:
        return read_held(given, *held)
    return read_karpenter(mapping(spec), kind, clouds)


def _placed(path: str, inner: str) -> str:
    return f"{path}.{inner}" if inner else path


def _embedded(given: JsonObject, group: str, kind: str, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read the pools among the objects inside a wrapper."""
    for found in embedded_manifests.embedded(given, group, kind):
        if found.value is UNKNOWN:
            yield PoolFacts("kubernetes", (), None, (), unknown=(found.path,), where=found.path, pool=found.name)
        elif isinstance(found.value, Mapping) and (found.group, found.kind) not in embedded_manifests.WRAPPERS:
            place = partial(_placed, found.path)
            for pool in read_manifest(found.value, clouds):
                named = " ".join(filter(None, (f"{found.kind}/{found.name}", pool.pool)))
                pool = replace(relocated(pool, place, place), pool=named)
                if found.in_text:  # nothing but its author should rewrite a text
                    pool = replace(pool, missing_taint=replace(pool.missing_taint, value=None))
                yield pool


def kinds_read(clouds: Clouds) -> Iterator[tuple[str, str]]:
    """Yield group and kind of every object that is read, as a pool or for what pools refer to."""
    yield from sorted(_KARPENTER)
    yield from cluster_api.KINDS
    yield from cluster_api.joined_kinds(clouds)
    yield from (*node_groups.KINDS, node_groups.CLUSTER)
    yield from embedded_manifests.WRAPPERS
    for cloud in clouds.values():
        objects = cloud.readback().objects
        yield from (*objects.held, *objects.pools, *objects.machines)
        if objects.karpenter is not None:
            yield from ((objects.karpenter.groups[0], kind) for kind in objects.karpenter.classes)
