"""The resources of a stack seen together: what pools take from other resources, and which software meets them. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml

from gpupools.cluster_api import BOOTSTRAP, Named, Owner, bootstrapped, read_owner
from gpupools.pool_facts import UNKNOWN, PoolFacts, Reference
from gpupools.reading import joined, mapping
from policies.software import Software

# Inputs that name a pool's cluster: aws.eks.NodeGroup and pulumi-eks, azure-native AgentPool, gcp.container.NodePool.
_CLUSTER_INPUTS = ("clusterName", "cluster", "resourceName", "clusterIdentifier", "kubernetesClusterId")
_PARENT = "parentResourcePath"
KUBERNETES_PROVIDER = "pulumi:providers:kubernetes"
STACK_REFERENCE = "pulumi:pulumi:StackReference"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One resource of the stack, as far as rules look at it."""

    urn: str
    type: str
    name: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Plain data, with `UNKNOWN`."""
    pools: tuple[PoolFacts, ...] = ()
    template: PoolFacts | None = None
    """What the resource decides for pools that refer to it."""
    software: Software | None = None
    parent: str = ""
    provider: str = ""
    """URN of its provider, empty for the default one."""
    depends: tuple[str, ...] = ()
    """URNs of what it depends on."""
    by_property: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """URNs of what each of its inputs depends on."""


class Stack:
    """The resources of a stack, and what follows from seeing them together.

    Args:
        resources: In the order of their registration.
    """

    def __init__(self, resources: Iterable[Declared]) -> None:
        self.resources = tuple(resources)

    @cached_property
    def by_urn(self) -> Mapping[str, Declared]:
        """The resources by URN."""
        return {each.urn: each for each in self.resources}

    @cached_property
    def pools(self) -> tuple[tuple[Declared, PoolFacts], ...]:
        """Every pool once, with what the stack's other resources decide for it filled in."""
        return tuple(
            (each, self.joined(each, pool))
            for each in self.resources
            for pool in each.pools
            if self.component(each) is None
        )

    @cached_property
    def gpu_pools(self) -> tuple[tuple[Declared, PoolFacts], ...]:
        """The pools that surely have GPUs."""
        return tuple((each, pool) for each, pool in self.pools if pool.has_gpus)

    @cached_property
    def software(self) -> tuple[tuple[Declared, Software], ...]:
        """Charts and workloads with GPU software; what a chart renders counts once, as the chart."""
        found = [(each, each.software) for each in self.resources if each.software is not None]
        charts = {each.urn for each, software in found if software.is_chart}
        return tuple((each, software) for each, software in found if not charts.intersection(self._ancestors(each)))

    def component(self, resource: Declared) -> Declared | None:
        """Return the component above a resource whose own inputs, and what they refer to, show the GPUs."""
        above = (self.by_urn.get(urn) for urn in self._ancestors(resource)) if resource.pools else ()
        return next(
            (each for each in above if each and shows_gpus(self.joined(each, pool) for pool in each.pools)), None
        )

    def _ancestors(self, resource: Declared) -> Iterator[str]:
        seen: set[str] = set()
        above = resource.parent
        while above and above not in seen:
            seen.add(above)
            yield above
            parent = self.by_urn.get(above)
            above = parent.parent if parent else ""

    def joined(self, resource: Declared, pool: PoolFacts) -> PoolFacts:
        """Add to a pool what the resources it refers to say, where they are in this stack."""
        for reference in pool.elsewhere:
            if reference.property == BOOTSTRAP:
                pool = self._bootstrapped(resource, pool)
                continue
            other = self._referred(resource, reference)
            if other is not None and other.template is not None:
                pool = joined(pool, other.template, reference.property)
        return pool

    def _bootstrapped(self, resource: Declared, pool: PoolFacts) -> PoolFacts:
        """Add what makes nodes of Cluster API's machines; of several owners the one that leaves them open counts."""
        found: list[PoolFacts] = []
        for declared, owner in self._owners:
            if _is(owner.machine, declared, resource):
                config = next((each for each in self._bootstraps if _is(owner.bootstrap, declared, each)), None)
                kind = config.type.rpartition(":")[2] if config else ""
                found.append(bootstrapped(pool, owner, config.template if config else None, kind))
        return next((each for each in found if each.lacks_taint), found[-1] if found else pool)

    @cached_property
    def _owners(self) -> tuple[tuple[Declared, Owner], ...]:
        read = ((each, read_owner(each.type, each.inputs)) for each in self.resources)
        return tuple((each, owner) for each, owner in read if owner is not None)

    @cached_property
    def _bootstraps(self) -> tuple[Declared, ...]:
        return tuple(each for each in self._templates if ":bootstrap." in each.type)

    def referred(self, resource: Declared, pool: PoolFacts) -> Iterator[Declared]:
        """Yield the resources of this stack that a pool refers to."""
        for reference in pool.elsewhere:
            other = self._referred(resource, reference)
            if other is not None:
                yield other

    def _referred(self, resource: Declared, reference: Reference) -> Declared | None:
        # Step one: what the input was made from. Step two: what bears the id or name that it holds.
        key = re.split(r"[.\[]", reference.property, maxsplit=1)[0]
        for urn in resource.by_property.get(key, ()):
            other = self.by_urn.get(urn)
            if other is not None and other.type in reference.types:
                return other
        if reference.id:
            for other in self._templates:
                names = (other.inputs.get(each) for each in ("id", "name", "arn", "launchTemplateName"))
                if other.type in reference.types and reference.id in names:
                    return other
        return None

    @cached_property
    def _templates(self) -> tuple[Declared, ...]:
        return tuple(each for each in self.resources if each.template is not None)

    # --- which software runs on which pools ---

    def runs_on(self, resource: Declared, software: Declared) -> bool:
        """Say whether a pool's cluster surely is the one that a chart or workload goes to.

        Proof is, in this order: the chart's provider was made from the pool's cluster, or names it; or the stack has
        only one cluster with GPU pools and one provider with GPU software.
        """
        clusters = self._cluster_urns(resource)
        behind = self._behind(software)
        if clusters:
            if clusters & behind:
                return True
            others = {urn for each, _ in self.gpu_pools for urn in self._cluster_urns(each)} - clusters
            if others & behind:
                return False
        name = _cluster_name(resource)
        if name and software.provider in self._provider_texts:
            text = self._provider_texts[software.provider]
            if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
                return True
        return len(self._cluster_keys) == 1 and len({self.api(each) for each, _ in self.software}) == 1

    def api(self, software: Declared) -> object:
        """Return what tells the cluster that a chart or workload goes to from others: two providers may share one."""
        if software.provider not in self._apis:
            self._apis[software.provider] = self._api(software.provider)
        return self._apis[software.provider]

    def _api(self, provider: str) -> object:
        declared = self.by_urn.get(provider)
        if declared is None or declared.type != KUBERNETES_PROVIDER:
            return provider
        kubeconfig, context, cluster = (declared.inputs.get(key) for key in ("kubeconfig", "context", "cluster"))
        if UNKNOWN in (context, cluster):
            return provider
        if isinstance(kubeconfig, str) and kubeconfig:
            return api_server(kubeconfig, context, cluster) or (kubeconfig, context, cluster)
        made_from = [self.by_urn.get(urn) for urn in declared.by_property.get("kubeconfig", ())]
        # A cluster's own kubeconfig is known once it is there; a stack's outputs may be of several clusters.
        if kubeconfig is UNKNOWN and len(made_from) == 1 and made_from[0] and made_from[0].type != STACK_REFERENCE:
            return (made_from[0].urn, context, cluster)
        return provider

    @cached_property
    def _apis(self) -> dict[str, object]:
        return {}

    @cached_property
    def _cluster_keys(self) -> frozenset[object]:
        return frozenset((self._cluster_urns(each) or _cluster_name(each) or each.urn) for each, _ in self.gpu_pools)

    def _cluster_urns(self, resource: Declared) -> frozenset[str]:
        named = frozenset(urn for key in _cluster_inputs(resource) for urn in resource.by_property.get(key, ()))
        inline = any(pool.pool for pool in resource.pools)
        return named | {resource.urn} if inline else named

    @cached_property
    def _provider_texts(self) -> Mapping[str, str]:
        keys = ("kubeconfig", "context", "cluster")
        return {
            each.urn: " ".join(text for key in keys if isinstance(text := each.inputs.get(key), str))
            for each in self.resources
            if each.type == KUBERNETES_PROVIDER
        }

    def _behind(self, resource: Declared) -> frozenset[str]:
        """Return everything a resource's provider, and the resource itself, was made from."""
        seen: set[str] = set()
        waiting = [*resource.depends, resource.provider]
        while waiting:
            urn = waiting.pop()
            if urn and urn not in seen:
                seen.add(urn)
                each = self.by_urn.get(urn)
                waiting.extend(each.depends if each else ())
        return frozenset(seen)


def api_server(kubeconfig: str, context: Any, cluster: Any) -> tuple[str, str] | None:
    """Return the address of the API that a kubeconfig's text leads to; None for a path, and for what is no kubeconfig.

    https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/

    Args:
        kubeconfig: The provider's input: the text, or the path of a file, which is not opened.
        context: The provider's input, in place of the current one.
        cluster: The provider's input, in place of the context's.
    """
    try:
        config = yaml.safe_load(kubeconfig)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(config, Mapping):
        return None
    used = mapping(_named(config.get("contexts"), context or config.get("current-context")).get("context"))
    server = mapping(_named(config.get("clusters"), cluster or used.get("cluster")).get("cluster")).get("server")
    return ("server", server.rstrip("/").casefold()) if isinstance(server, str) and server else None


def _named(entries: Any, name: Any) -> Mapping[str, Any]:
    """Return the entry of a kubeconfig's list that has this name."""
    listed = [mapping(each) for each in entries] if isinstance(entries, list) else []
    return next((each for each in listed if each.get("name") == name), {})


def _is(named: Named, by: Declared, resource: Declared) -> bool:
    """Say whether a resource is the object that another one names; one not named yet by what it was made from."""
    kind, meta = resource.type.rpartition(":")[2], mapping(resource.inputs.get("metadata"))
    if named.kind != kind and named.kind is not UNKNOWN:
        return False
    if UNKNOWN in (named.name, meta.get("name")):
        return resource.urn in by.by_property.get("spec", ())
    return (named.name, named.namespace) == (meta.get("name"), meta.get("namespace"))


def _cluster_inputs(resource: Declared) -> tuple[str, ...]:
    # A generic resource of Azure says its cluster as `managedClusters/<name>`, and `resourceName` is its own name.
    return (_PARENT,) if _PARENT in resource.inputs else _CLUSTER_INPUTS


def _cluster_name(resource: Declared) -> str:
    names = (resource.inputs.get(key) for key in _cluster_inputs(resource))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return name.rstrip("/").rpartition("/")[2] if _PARENT in resource.inputs else name


def shows_gpus(pools: Iterable[PoolFacts]) -> bool:
    """Say whether these are a component's pools with GPUs (or another accelerator) by its own inputs."""
    return any(pool.component and pool.evidence for pool in pools)
