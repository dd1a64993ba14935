"""All resources of a stack: joins pools with resources they refer to, and software with clusters. Pure."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import islice
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts, Reference
from gpupools.policies.classify import Unclassified, is_harmless
from gpupools.policies.declared_software import DeclaredSoftware
from gpupools.readback.inputs import at, joined, mapping
from gpupools.readback.machine_owners import BOOTSTRAP, Named, Owner, bootstrapped
from gpupools.readback.registry import read_owner

# Inputs that name a pool's cluster: aws.eks.NodeGroup and pulumi-eks, azure-native AgentPool, gcp.container.NodePool.
_CLUSTER_INPUTS = ("clusterName", "cluster", "resourceName", "clusterIdentifier", "kubernetesClusterId")
_PARENT = "parentResourcePath"
KUBERNETES_PROVIDER = "pulumi:providers:kubernetes"
_COMPONENTS = ("gpupools:index:GpuNodePool", "gpupools:index:GpuRuntime")
STACK_REFERENCE = "pulumi:pulumi:StackReference"

ANSWERS = ("judged", "no_node_pool", "not_understood")
"""The possible answers for a resource."""

MAX_OWNERS = 20
"""Maximum number of owners read per Cluster API machine object; a template has one owner, or one per version."""
MAX_NAMES = 50
"""Maximum number of unknown inputs and tags that a template passes to its pools; EC2 allows 50 tags."""
MAX_KUBECONFIG_VALUES = 20_000
"""Maximum number of values in a kubeconfig; one for a hundred clusters has about 2,000."""
_WORD = re.compile(r"[\w-]+")
_LONG_WORD = re.compile(r"[\w./:@-]+")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One resource of the stack, with the data that rules use."""

    urn: str
    type: str
    name: str = ""
    inputs: JsonObject = field(default_factory=dict)
    """Plain data, with `UNKNOWN`."""
    pools: tuple[PoolFacts, ...] = ()
    template: PoolFacts | None = None
    """What the resource sets for pools that refer to it."""
    software: DeclaredSoftware | None = None
    unread: Unclassified | None = None
    """Why gpupools does not know what it creates."""
    parent: str = ""
    provider: str = ""
    """URN of its provider, empty for the default one."""
    depends: tuple[str, ...] = ()
    """URNs of its dependencies."""
    by_property: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """URNs of the dependencies of each input."""


@dataclass(frozen=True)
class Gap:
    """Resources that a file leaves out, so that no rule judged them."""

    name: str
    """Stable name, e.g. `unchanged-resources`."""
    what: str
    fix: str
    part: str = ""
    """What is left out, if it has an address."""

    @property
    def address(self) -> str:
        """Return the address of findings about it, for waivers."""
        return self.part or self.name


@dataclass(frozen=True)
class Cluster:
    """Identifies the cluster of a pool."""

    bits: int
    """The resources of the stack that are the cluster, as bits."""
    name: str
    """Its name in the inputs of the pool."""
    place: str = ""
    """The cluster inputs of the parent component `GpuNodePool`; empty if there is none or they are unknown."""


def _with_unknown_machines(given: Declared) -> Declared:
    """Report pools with unknown instance types as unknown resources."""
    unknown = next((pool for pool in given.pools if pool.of_unknown_machines), None)
    if unknown is None or is_harmless(unknown.foreign):
        return given
    why = f"{unknown.pool}: " if unknown.pool else ""
    why += "gpupools does not know whether these machines have GPUs, and no taint of the pool keeps other pods off"
    found = (
        given.unread
        if given.unread is not None and given.unread.nodes
        else Unclassified(unknown.foreign, why, nodes=True)
    )
    return replace(given, pools=tuple(pool for pool in given.pools if not pool.of_unknown_machines), unread=found)


@dataclass(frozen=True)
class Origin:
    """Identifies the cluster of a chart or workload."""

    behind: int
    """The clusters among its dependencies and those of its provider, as bits."""
    provider: str
    """URN of the provider whose inputs may name the cluster, empty when there is none."""
    place: str = ""
    """The cluster inputs of the parent component `GpuRuntime`; empty if there is none or they are unknown."""


class DeclaredStack:
    """All resources of a stack in the order of registration, and the relations between them."""

    def __init__(
        self,
        resources: Iterable[Declared],
        gaps: Iterable[Gap] = (),
        ending: Iterable[tuple[Declared, str]] = (),
    ) -> None:
        self.resources = tuple(map(_with_unknown_machines, resources))
        self.gaps = tuple(gaps)
        self.ending = tuple(ending)
        """Resources as they are, and what a plan does to them: `deletes` or `recreates`."""
        self._components: dict[str, Declared | None] = {}
        self._template_facts_by_urn: dict[str, PoolFacts] = {}
        self._dependency_cache: dict[tuple[str, str, tuple[str, ...]], tuple[Declared, ...]] = {}
        self._clusters: dict[str, Cluster] = {}
        self._named_clusters: dict[str, frozenset[str]] = {}

    @cached_property
    def unread(self) -> Mapping[str, Unclassified]:
        """Resources of which gpupools does not know what they create, by URN."""
        found = {resource.urn: resource.unread for resource in self.resources if resource.unread is not None}
        return {**dict(self._without_machine_objects()), **found}

    def _without_machine_objects(self) -> Iterator[tuple[str, Unclassified]]:
        """Yield Cluster API owners whose machine objects are in another file."""
        named = {
            (resource.type.rpartition(":")[2], name)
            for resource in self.resources
            if isinstance(name := at(resource.inputs, "metadata.name"), str)
        }
        for resource in self.resources:
            owner = read_owner(resource.type, resource.inputs)
            machine = owner.machine if owner is not None else None
            if machine is None or not isinstance(machine.kind, str) or not isinstance(machine.name, str):
                continue
            if (machine.kind, machine.name) not in named and not repels_cpu_pods(owner.facts.taints if owner else ()):
                kind = resource.type.rpartition(":")[2]
                why = f"its machines are {machine.kind}/{machine.name}, which is not in this file"
                yield resource.urn, Unclassified(f"cluster.x-k8s.io/{kind}", why, nodes=False, elsewhere=True)

    @property
    def answers(self) -> Mapping[str, int]:
        """Count the resources per answer."""
        judged = {resource.urn for resource in self.resources if resource.pools or resource.software}
        unread = len(self.unread.keys() - judged)
        no_pool = len(self.resources) - len(judged) - unread
        return dict(zip(ANSWERS, (len(judged), no_pool, unread), strict=True))

    @cached_property
    def by_urn(self) -> Mapping[str, Declared]:
        """The resources by URN."""
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def pools(self) -> tuple[tuple[Declared, PoolFacts], ...]:
        """Every pool once, joined with the resources that it refers to.

        A launch template that groups of this stack refer to is in their pools, not one of its own.
        """
        found = tuple((each, pool) for each in self.resources for pool in each.pools if self.component(each) is None)
        within = {other.urn for resource, pool in found for other in self.referred(resource, pool)}
        return tuple((resource, self.joined(resource, pool)) for resource, pool in found if resource.urn not in within)

    @cached_property
    def gpu_pools(self) -> tuple[tuple[Declared, PoolFacts], ...]:
        """The pools that certainly have GPUs."""
        return tuple((resource, pool) for resource, pool in self.pools if pool.has_gpus)

    @cached_property
    def software(self) -> tuple[tuple[Declared, DeclaredSoftware], ...]:
        """Charts and workloads with GPU software; objects rendered by a chart count as the chart."""
        found = [(resource, resource.software) for resource in self.resources if resource.software is not None]
        known: dict[str, Declared | None] = {}
        outer = [pair for pair in found if self._nearest_ancestor(pair[0], _is_chart, known) is None]
        return tuple(outer)

    def component(self, resource: Declared) -> Declared | None:
        """Return the parent component whose inputs, or resources they refer to, show the GPUs."""
        return self._nearest_ancestor(resource, self._shows_gpus, self._components) if resource.pools else None

    def _shows_gpus(self, resource: Declared) -> bool:
        return shows_gpus(self.joined(resource, pool) for pool in resource.pools)

    def _nearest_ancestor(
        self, resource: Declared, wanted: Callable[[Declared], bool], known: dict[str, Declared | None]
    ) -> Declared | None:
        """Return the nearest ancestor that fulfils a condition; `known` caches results by URN of the first parent."""
        passed = []
        urn, declared = resource.parent, None
        while urn and declared is None and urn not in known:
            known[urn] = None  # stops at circular parents
            passed.append(urn)
            above = self.by_urn.get(urn)
            if above is not None and wanted(above):
                declared = above
            urn = above.parent if above else ""
        declared = declared or known.get(urn)
        known.update(dict.fromkeys(passed, declared))
        return declared

    def joined(self, resource: Declared, pool: PoolFacts) -> PoolFacts:
        """Return a pool joined with the resources of this stack that it refers to."""
        for reference in pool.elsewhere:
            if reference.property == BOOTSTRAP:
                pool = self._bootstrapped(resource, pool)
                continue
            said = [
                self._template_facts(other.urn, other.template)
                for other in self._referred_resources(resource, reference)
                if other.template is not None
            ]
            made = [joined(pool, read_pool, reference.property) for read_pool in said]
            if made:
                pool = _combined(made, reference.property)
        return pool

    def region(self, resource: Declared, pool: PoolFacts) -> str:
        """Return the region of a pool, of its component's cluster or of its provider; empty if none says it."""
        parents = [above for above in (self.by_urn.get(resource.parent), self.by_urn.get(resource.provider)) if above]
        inputs = [mapping(parent.inputs.get("cluster", parent.inputs)) for parent in parents]
        found = [pool.region, *(input_.get(key) for input_ in inputs for key in ("region", "location"))]
        place = next((location for location in found if isinstance(location, str) and location), "")
        return place[:-2] if place[-2:-1] == "-" and place[-1].isalpha() else place

    def _template_facts(self, urn: str, template: PoolFacts) -> PoolFacts:
        """Return the facts that a template adds to pools; its weaknesses are reported once, on the template."""
        if urn not in self._template_facts_by_urn:
            unknown = template.unknown[:MAX_NAMES]
            if len(template.unknown) > MAX_NAMES:
                unknown += (f"{len(template.unknown) - MAX_NAMES} more",)
            tags = dict(islice(template.tags.items(), MAX_NAMES))
            said = replace(template, weaknesses=(), node_customizations=(), unknown=unknown, tags=tags)
            self._template_facts_by_urn[urn] = said
        return self._template_facts_by_urn[urn]

    def _bootstrapped(self, resource: Declared, pool: PoolFacts) -> PoolFacts:
        """Join Cluster API machines with their owner and bootstrap configuration; an owner without taint wins."""
        pools: list[PoolFacts] = []
        owners = self._owners_by_machine.naming(resource, MAX_OWNERS + 1)
        for _, owner, config in (self._owners[place] for place in owners[:MAX_OWNERS]):
            kind = config.type.rpartition(":")[2] if config else ""
            pools.append(bootstrapped(pool, owner, config.template if config else None, kind))
        result = next((read_pool for read_pool in pools if read_pool.lacks_taint), pools[-1] if pools else pool)
        if len(owners) > MAX_OWNERS and not result.lacks_taint:
            beyond = f"{BOOTSTRAP} of the owners after the first {MAX_OWNERS}"
            return replace(result, taints=(), unknown=(*result.unknown, beyond), where=beyond)
        return result

    @cached_property
    def _owners(self) -> tuple[tuple[Declared, Owner, Declared | None], ...]:
        """Owners of Cluster API machines, with their bootstrap configurations."""
        configs = _ObjectsByName(template for template in self._templates if ":bootstrap." in template.type)
        read = ((resource, read_owner(resource.type, resource.inputs)) for resource in self.resources)
        return tuple((each, owner, configs.named(owner.bootstrap, each)) for each, owner in read if owner is not None)

    @cached_property
    def _owners_by_machine(self) -> "_OwnersByMachine":
        return _OwnersByMachine([(resource, owner.machine) for resource, owner, _ in self._owners])

    def referred(self, resource: Declared, pool: PoolFacts) -> Iterator[Declared]:
        """Yield the resources of this stack that a pool refers to."""
        for reference in pool.elsewhere:
            yield from self._referred_resources(resource, reference)

    def templates_of_gpu_pools(self) -> Iterator[tuple[Declared, PoolFacts, Declared, PoolFacts]]:
        """Yield each GPU pool with each launch template or node class that it refers to and that is no GPU pool."""
        for resource in self.resources:
            for pool in resource.pools:
                for other in self.referred(resource, pool) if self.joined(resource, pool).has_gpus else ():
                    if other.template is not None and not any(read_pool.has_gpus for read_pool in other.pools):
                        yield resource, pool, other, other.template

    def is_reported_on_reference(self, resource: Declared, pool: PoolFacts) -> bool:
        """Say whether a resource that the pool refers to is itself a pool without taint."""
        return any(read_pool.lacks_taint for other in self.referred(resource, pool) for read_pool in other.pools)

    def _referred_resources(self, resource: Declared, reference: Reference) -> tuple[Declared, ...]:
        """Return the resource of a reference, or the candidates if it is unknown."""
        # First look up the id or name in the input. Otherwise use the dependencies of the input, of an input that
        # contains it, or of the resource.
        if reference.id:
            places = (self._templates_by_id.get((type_, reference.id)) for type_ in reference.types)
            if known := [place for place in places if place is not None]:
                return (self._templates[min(known)],)
        steps = re.split(r"(?=[.\[])", reference.property)
        for length in range(len(steps), 0, -1):
            resources = self._made_from(resource, "".join(steps[:length]), reference.types)
            if resources:
                return resources
        return ()

    def _made_from(self, resource: Declared, key: str, types: tuple[str, ...]) -> tuple[Declared, ...]:
        asked = (resource.urn, key, types)
        if asked not in self._dependency_cache:
            others = (self.by_urn.get(urn) for urn in dict.fromkeys(resource.by_property.get(key, ())))
            found = (other for other in others if other is not None and other.type in types)
            self._dependency_cache[asked] = tuple(islice(found, MAX_OWNERS))
        return self._dependency_cache[asked]

    @cached_property
    def _templates_by_id(self) -> Mapping[tuple[str, str], int]:
        """Index of the first template by type and id or name."""
        templates: dict[tuple[str, str], int] = {}
        for place, template in enumerate(self._templates):
            own = [template.inputs.get(key) for key in ("id", "name", "arn", "launchTemplateName")]
            for name in (*own, _own_name(template)[0]):  # Kubernetes objects have the name in their metadata
                if isinstance(name, str):
                    templates.setdefault((template.type, name), place)
        return templates

    @cached_property
    def _templates(self) -> tuple[Declared, ...]:
        return tuple(resource for resource in self.resources if resource.template is not None)

    # --- which software runs on which pools ---

    def cluster_of(self, resource: Declared) -> Cluster:
        """Return the cluster of a pool, for `runs_on`."""
        if resource.urn not in self._clusters:
            bits = 0
            for urn in self._cluster_urns(resource):
                bits |= self._cluster_bits.get(urn, 0)
            self._clusters[resource.urn] = Cluster(bits, _cluster_name(resource), self._component_cluster(resource))
        return self._clusters[resource.urn]

    def has_workload_identity(self, resource: Declared) -> bool:
        """Say whether the GKE cluster of a pool, if it is in the stack, has workload identity."""
        found = self._with_workload_identity
        named, urns = (_cluster_name(resource), self._cluster_urns(resource)) if found else ("", ())
        return any(declared.urn in urns or (named and declared.inputs.get("name") == named) for declared in found)

    @cached_property
    def _with_workload_identity(self) -> tuple[Declared, ...]:
        path = "workloadIdentityConfig.workloadPool"
        return tuple(
            resource
            for resource in self.resources
            if "workloadIdentityConfig" in resource.inputs and at(resource.inputs, path) is not None
        )

    def origin_of(self, software: Declared) -> Origin:
        """Return the origin of a chart or workload, for `runs_on`."""
        bits = 0
        for urn in (*software.depends, software.provider):
            bits |= self._clusters_depended_on.get(urn, 0)
        named = software.provider if software.provider in self._words_by_provider else ""
        return Origin(bits, named, self._component_cluster(software))

    def _component_cluster(self, resource: Declared) -> str:
        """Return the cluster inputs of the parent gpupools component as text, to compare them."""
        above = self.by_urn.get(resource.parent)
        if above is None or above.type not in _COMPONENTS:
            return ""
        cluster = {key: value for key, value in mapping(above.inputs.get("cluster")).items() if key != "runtime"}
        try:
            return json.dumps([above.inputs.get("cloud"), cluster], sort_keys=True) if cluster else ""
        except TypeError:  # a part is unknown
            return ""

    def runs_on(self, cluster: Cluster, origin: Origin) -> bool:
        """Say whether a chart or workload certainly runs in the cluster of a pool.

        In this order: the chart's provider depends on the pool's cluster; both have gpupools components with the same
        cluster; the provider names the cluster; or the stack has one cluster with GPU pools and one provider with GPU
        software.
        """
        if cluster.bits:
            if cluster.bits & origin.behind:
                return True
            if ~cluster.bits & origin.behind:
                return False
        if cluster.place and cluster.place == origin.place:
            return True
        if cluster.name and cluster.name in self._words_by_provider.get(origin.provider, ()):
            return True
        return self._one_cluster

    def api(self, software: Declared) -> object:
        """Return a key for the cluster of a chart or workload; two providers may share a cluster."""
        return self._apis[software.provider]

    @cached_property
    def _apis(self) -> Mapping[str, object]:
        """The keys by provider."""
        return {provider: self._api(provider) for provider in {resource.provider for resource, _ in self.software}}

    def _api(self, provider: str) -> object:
        declared = self.by_urn.get(provider)
        if declared is None or declared.type != KUBERNETES_PROVIDER:
            return provider
        kubeconfig, context, cluster = (declared.inputs.get(key) for key in ("kubeconfig", "context", "cluster"))
        if not all(item is None or isinstance(item, str) for item in (context, cluster)):
            return provider
        if isinstance(kubeconfig, str) and kubeconfig:
            return api_server(kubeconfig, context, cluster) or (kubeconfig, context, cluster)
        made_from = [self.by_urn.get(urn) for urn in declared.by_property.get("kubeconfig", ())]
        # The kubeconfig of one cluster resource; outputs of a stack may belong to several clusters.
        if kubeconfig is UNKNOWN and len(made_from) == 1 and made_from[0] and made_from[0].type != STACK_REFERENCE:
            return (made_from[0].urn, context, cluster)
        return provider

    @cached_property
    def _one_cluster(self) -> bool:
        keys = {(self._cluster_urns(holder) or _cluster_name(holder) or holder.urn) for holder, _ in self.gpu_pools}
        return len(keys) == 1 and len({self.api(software) for software, _ in self.software}) == 1

    def _cluster_urns(self, resource: Declared) -> frozenset[str]:
        if resource.urn not in self._named_clusters:
            named = frozenset(urn for key in _cluster_inputs(resource) for urn in resource.by_property.get(key, ()))
            inline = any(pool.pool for pool in resource.pools)
            self._named_clusters[resource.urn] = named | {resource.urn} if inline else named
        return self._named_clusters[resource.urn]

    @cached_property
    def _cluster_bits(self) -> Mapping[str, int]:
        """A bit for each resource that is the cluster of a GPU pool."""
        urns = dict.fromkeys(urn for resource, _ in self.gpu_pools for urn in self._cluster_urns(resource))
        return {urn: 1 << place for place, urn in enumerate(urns)}

    @cached_property
    def _clusters_depended_on(self) -> Mapping[str, int]:
        """The clusters that each resource is or depends on, as `_cluster_bits`."""
        users: dict[str, list[str]] = {}
        for resource in self.resources:
            for urn in resource.depends:
                users.setdefault(urn, []).append(resource.urn)
        found = dict(self._cluster_bits)
        changed = deque(found)
        while changed:
            bits = found[urn := changed.popleft()]
            for user in users.get(urn, ()):
                if bits & ~found.get(user, 0):
                    found[user] = found.get(user, 0) | bits
                    changed.append(user)
        return found

    @cached_property
    def _words_by_provider(self) -> Mapping[str, frozenset[str]]:
        """Words in the inputs of each provider, with and without dots, slashes and colons."""
        keys = ("kubeconfig", "context", "cluster")
        texts = {
            resource.urn: " ".join(text for key in keys if isinstance(text := resource.inputs.get(key), str))
            for resource in self.resources
            if resource.type == KUBERNETES_PROVIDER
        }
        return {urn: frozenset(_WORD.findall(text)).union(_LONG_WORD.findall(text)) for urn, text in texts.items()}


def _combined(made: Sequence[PoolFacts], path: str) -> PoolFacts:
    """Combine the results for several candidates; if only some lack a taint, the result is unverified."""
    lacking = [pool for pool in made if pool.lacks_taint]
    if not lacking or len(lacking) == len(made):
        return (lacking or made)[0]
    return replace(lacking[0], unresolved_taints=(*lacking[0].unresolved_taints, path))


def api_server(kubeconfig: str, context: Any, cluster: Any) -> tuple[str, str] | None:
    """Return the API address in the text of a kubeconfig; None for a path, which is not opened, or any other text.

    A given context or cluster replaces the current one: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
    """
    try:
        read = parse_yaml(kubeconfig, MAX_KUBECONFIG_VALUES)
    except Rejected:
        return None
    config = read[0].data if len(read) == 1 else None
    if not isinstance(config, Mapping):
        return None
    used = mapping(_entry_named(config.get("contexts"), context or config.get("current-context")).get("context"))
    server = mapping(_entry_named(config.get("clusters"), cluster or used.get("cluster")).get("cluster")).get("server")
    return ("server", server.rstrip("/").casefold()) if isinstance(server, str) and server else None


def _entry_named(entries: Any, name: Any) -> JsonObject:
    """Return the entry of a kubeconfig's list that has this name."""
    listed = [mapping(entry) for entry in entries] if isinstance(entries, list) else []
    return next((item for item in listed if item.get("name") == name), {})


def _is_chart(resource: Declared) -> bool:
    return resource.software is not None and resource.software.is_chart


class _ObjectsByName:
    """Kubernetes objects by kind and name, or by dependency if the name is unknown."""

    def __init__(self, resources: Iterable[Declared]) -> None:
        self._all = tuple(resources)
        self._by_urn = {resource.urn: place for place, resource in enumerate(self._all)}
        self._by_name: dict[tuple[Any, ...], int] = {}
        for place, resource in enumerate(self._all):
            for kind in (_kind(resource), UNKNOWN):
                self._by_name.setdefault((kind, *_own_name(resource)), place)

    def named(self, named: Named, by: Declared) -> Declared | None:
        """Return the first object that another one refers to."""
        places = []
        for urn in by.by_property.get("spec", ()):
            place = self._by_urn.get(urn)
            if place is None or named.kind not in (_kind(self._all[place]), UNKNOWN):
                continue
            if UNKNOWN in (named.name, _own_name(self._all[place])[0]):
                places.append(place)
        known = self._by_name.get(_key(named)) if named.name is not UNKNOWN else None
        places += [known] if known is not None else []
        return self._all[min(places)] if places else None


class _OwnersByMachine:
    """References to Kubernetes objects, by the object."""

    def __init__(self, named: Iterable[tuple[Declared, Named]]) -> None:
        self._by_name: dict[tuple[Any, ...], list[int]] = {}
        self._by_urn: dict[str, list[tuple[int, Named]]] = {}
        for place, (by, reference) in enumerate(named):
            if reference.name is not UNKNOWN:
                self._by_name.setdefault(_key(reference), []).append(place)
            for urn in dict.fromkeys(by.by_property.get("spec", ())):
                self._by_urn.setdefault(urn, []).append((place, reference))

    def naming(self, resource: Declared, most: int) -> list[int]:
        """Return the indexes of the first references to an object."""
        kind, name = _kind(resource), _own_name(resource)
        made_from_it = (
            place
            for place, named in self._by_urn.get(resource.urn, ())
            if named.kind in (kind, UNKNOWN) and UNKNOWN in (named.name, name[0])
        )
        by_name = [] if name[0] is UNKNOWN else [self._by_name.get((variant, *name), ()) for variant in (kind, UNKNOWN)]
        return list(islice(merge(made_from_it, *by_name), most))


def _kind(resource: Declared) -> str:
    return resource.type.rpartition(":")[2]


def _own_name(resource: Declared) -> tuple[Any, Any]:
    meta = mapping(resource.inputs.get("metadata"))
    return _comparable(meta.get("name")), _namespace(meta.get("namespace"))


def _key(named: Named) -> tuple[Any, Any, Any]:
    return _comparable(named.kind), _comparable(named.name), _namespace(named.namespace)


def _namespace(value: Any) -> Any:
    """Return the namespace of an object, `default` if not set."""
    return "default" if value is None else _comparable(value)


def _comparable(value: Any) -> Any:
    """Return text, None or `UNKNOWN` unchanged; any other value never matches, because the API rejects it."""
    return value if value is None or value is UNKNOWN or isinstance(value, str) else object()


def _cluster_inputs(resource: Declared) -> tuple[str, ...]:
    # Generic Azure resources name the cluster as `managedClusters/<name>`; `resourceName` is their own name.
    return (_PARENT,) if _PARENT in resource.inputs else _CLUSTER_INPUTS


def _cluster_name(resource: Declared) -> str:
    names = (resource.inputs.get(key) for key in _cluster_inputs(resource))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return name.rstrip("/").rpartition("/")[2] if _PARENT in resource.inputs else name


def shows_gpus(pools: Iterable[PoolFacts]) -> bool:
    """Say whether a component's own inputs show GPUs or another accelerator."""
    return any(pool.component and pool.evidence for pool in pools)
