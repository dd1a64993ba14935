"""Rules that no single resource decides: who else is in the stack, and what pools take from other resources. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpupools.cluster_api import BOOTSTRAP, Named, Owner, bootstrapped, read_owner
from gpupools.pool_facts import UNKNOWN, By, PoolFacts, Reference
from gpupools.reading import joined, mapping
from policies.components import shows_gpus
from policies.finding import Context, Finding, Framework, Level, Rule, unknown_at_preview
from policies.rules import HARDENING, RULES, deciding_references, has_gpus, untainted, weaknesses
from policies.software import DRIVER, PLUGIN, TOOLKIT, Software

# Inputs that name a pool's cluster: aws.eks.NodeGroup and pulumi-eks, azure-native AgentPool, gcp.container.NodePool.
_CLUSTER_INPUTS = ("clusterName", "cluster", "resourceName", "clusterIdentifier", "kubernetesClusterId")
_PARENT = "parentResourcePath"


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
        return tuple((each, pool) for each, pool in self.pools if has_gpus(pool))

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
        return next((each for each in found if untainted(each) is not None), found[-1] if found else pool)

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
        return len(self._cluster_keys) == 1 and len({each.provider for each, _ in self.software}) == 1

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
            if each.type == "pulumi:providers:kubernetes"
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


# --- the rules ---


def _tainted_elsewhere(stack: Stack, context: Context) -> Iterator[tuple[str, Finding]]:
    at_fault: set[str] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            if pool.elsewhere and deciding_references(pool) and untainted(pool) is not None:
                finding = untainted(stack.joined(resource, pool))
                component = stack.component(resource) if finding is not None else None
                if finding is not None and not (component and (finding.unverified or component.urn in at_fault)):
                    at_fault.add(resource.urn)
                    yield resource.urn, finding


def _hardened_elsewhere(stack: Stack, context: Context) -> Iterator[tuple[str, Finding]]:
    told: set[tuple[str, str]] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            if not pool.elsewhere or not has_gpus(stack.joined(resource, pool)):
                continue
            for other in stack.referred(resource, pool):
                for finding in weaknesses(other.template, mandatory=True) if other.template else ():
                    if (other.urn, finding.property) not in told:
                        told.add((other.urn, finding.property))
                        yield other.urn, finding


_PIECES = ((DRIVER, "driver"), (TOOLKIT, "container_toolkit"), (PLUGIN, "device_plugin"))


def _one_owner(stack: Stack, context: Context) -> Iterator[tuple[str, Finding]]:
    yield from _charts_against_pools(stack)
    yield from _charts_against_charts(stack)


def _charts_against_pools(stack: Stack) -> Iterator[tuple[str, Finding]]:
    for resource, software in stack.software:
        for piece, hint in _PIECES:
            hit = [
                (declared, pool)
                for declared, pool in stack.gpu_pools
                if pool.accelerator != "amd"
                and getattr(pool.software, hint) is By.CLOUD
                and software.lands_on(piece, pool.labels)
                and stack.runs_on(declared, resource)
            ]
            if hit:
                names = ", ".join(
                    declared.name + (f" ({pool.pool})" if pool.pool else "") for declared, pool in hit[:3]
                )
                names += f" and {len(hit) - 3} more" if len(hit) > 3 else ""
                said_by = ", ".join(hit[0][1].software.said_by)
                switch = software.switch(piece)
                cure = (
                    f"set values.{switch}: false" if switch else f"remove {software.kind}, or keep it off these nodes"
                )
                what = f"{software.kind} brings the {piece} to nodes that have one from the cloud: {names}"
                yield (
                    resource.urn,
                    Finding(
                        what=what + (f" ({said_by})" if said_by else ""),
                        property=f"values.{switch}" if switch else "",
                        found="on",
                        fix=f"{cure}, or switch the cloud's own off",
                    ),
                )


def _charts_against_charts(stack: Stack) -> Iterator[tuple[str, Finding]]:
    found = stack.software
    for index, (later, second) in enumerate(found):
        for earlier, first in found[:index]:
            if earlier.provider != later.provider:
                continue
            for piece, _ in _PIECES:
                if _meet(stack, piece, (earlier, first), (later, second)):
                    switch = second.switch(piece) or first.switch(piece)
                    cure = (
                        f"set values.{switch}: false" if switch else f"remove one of them or keep {second.kind} apart"
                    )
                    what = f"{second.kind} ({later.name}) and {first.kind} ({earlier.name}) both bring the {piece}"
                    yield later.urn, Finding(what=f"{what} to the same nodes", fix=cure)


def _meet(stack: Stack, piece: str, *owners: tuple[Declared, Software]) -> bool:
    nodes = [pool.labels for each, pool in stack.gpu_pools if all(stack.runs_on(each, owner) for owner, _ in owners)]
    if not nodes:  # the pools are elsewhere: charts without any selector go to every GPU node
        nodes = [{}]
    return any(all(software.lands_on(piece, labels) for _, software in owners) for labels in nodes)


def _driver_installed(stack: Stack, context: Context) -> Iterator[tuple[str, Finding]]:
    for resource, pool in stack.gpu_pools:
        if pool.software.driver is not By.NOBODY or pool.accelerator == "amd":
            continue
        here = [software for each, software in stack.software if stack.runs_on(resource, each)]
        if any(DRIVER in (*software.brings, *software.unsure) for software in here):
            continue
        said_by = ", ".join(pool.software.said_by) or "its image"
        others = ", ".join(software.kind for software in here)
        yield (
            resource.urn,
            Finding(
                what=f"nothing installs a GPU driver on its nodes ({said_by})"
                + (f": {others} of this stack does not" if others else ", unless something outside this stack does"),
                fix="take a node image with the driver, let the cloud install it, or install gpu-operator with driver",
                pool=pool.pool,
                unverified=not here,
            ),
        )


def _stack_bounded(stack: Stack, context: Context) -> Iterator[tuple[str, Finding]]:
    nodes_cap = STACK_BOUNDED.option(context, "maxNodes")
    gpus_cap = STACK_BOUNDED.option(context, "maxGpus")
    if nodes_cap is None and gpus_cap is None:
        return
    sizes = [(each, pool, pool.max_nodes or 0) for each, pool in stack.gpu_pools]
    nodes = sum(most for _, _, most in sizes)
    gpus = sum(most * (pool.gpus_per_node or 1) for _, pool, most in sizes)
    largest = ", ".join(
        f"{each.name} {most}" for each, _, most in sorted(sizes, key=lambda size: size[2], reverse=True)[:3]
    )
    for total, cap, word in ((nodes, nodes_cap, "nodes"), (gpus, gpus_cap, "GPUs")):
        if cap is not None and total > cap:
            shown = int(total) if total == int(total) else float(total)
            what = f"the GPU pools of this stack may grow to {shown} {word} together, and the cap is {int(cap)}"
            yield "", Finding(what=f"{what}; largest pools, in nodes: {largest}", fix="lower the maximum of some pools")
    for each, pool, _ in sizes:
        if pool.max_nodes is None:
            what = "has no bound that can be read here, so the stack's total has none"
            fix = "set a maximum number of nodes"
            yield each.urn, Finding(what=what, fix=fix, pool=pool.pool, unverified=UNKNOWN in each.inputs.values())


_ONE_OWNER = Framework(
    "NVIDIA GPU Operator documentation",
    "26.7",
    "Platform support, pre-installed drivers and toolkit",
    "exactly one source for driver, toolkit and device plugin on each node",
)
TAINTED_ELSEWHERE = Rule(
    name="gpu-pool-tainted-elsewhere",
    level=Level.MANDATORY,
    severity="high",
    why="A launch template can hide the GPUs of a node that accepts pods without GPU work.",
    fix="Give the pool a hard taint in its own inputs, as a plain value.",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    framework=RULES[0].framework,
    config=unknown_at_preview(),
    stack=_tainted_elsewhere,
)
STACK_BOUNDED = Rule(
    name="gpu-stack-bounded",
    level=Level.MANDATORY,
    severity="medium",
    why="All GPU pools of a stack together can cost as much as their largest sizes, every hour.",
    fix="Lower the maximum of some pools, or raise the environment's cap.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=Framework(
        "AWS Well-Architected Framework", "2026", "Cost optimization", "bound what scarce resources cost"
    ),
    config={
        **unknown_at_preview(),
        "maxNodes": {
            "type": "integer",
            "minimum": 0,
            "description": "Most GPU nodes of a stack, over all its pools; without it nodes are not counted.",
        },
        "maxGpus": {
            "type": "integer",
            "minimum": 0,
            "description": "Most GPUs of a stack, over all its pools; without it GPUs are not counted.",
        },
    },
    stack=_stack_bounded,
)
STACK_RULES: tuple[Rule, ...] = (
    TAINTED_ELSEWHERE,
    Rule(
        name="gpu-node-hardened-elsewhere",
        level=Level.MANDATORY,
        severity="high",
        why="What a launch template leaves open is open on every node made from it.",
        fix="Set the named input of the template to the wanted value.",
        url="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
        framework=HARDENING,
        config=unknown_at_preview("advisory"),
        stack=_hardened_elsewhere,
    ),
    Rule(
        name="gpu-software-one-owner",
        level=Level.MANDATORY,
        severity="high",
        why="Two drivers on a node break each other, and two device plugins hand out the same GPU twice.",
        fix="Switch all owners of the piece off but one.",
        url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html",
        framework=_ONE_OWNER,
        stack=_one_owner,
    ),
    Rule(
        name="gpu-driver-installed",
        level=Level.MANDATORY,
        severity="medium",
        why="Without a driver a GPU node has no GPU to schedule on and costs the same.",
        fix="Take a node image with the driver, or install one with the GPU Operator.",
        url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html",
        framework=_ONE_OWNER,
        config=unknown_at_preview("advisory"),
        stack=_driver_installed,
    ),
    STACK_BOUNDED,
)
"""The rules that see the whole stack, in the order in which they are asked."""

ALL_RULES: tuple[Rule, ...] = (*RULES, *STACK_RULES)
"""Every rule of the pack."""
