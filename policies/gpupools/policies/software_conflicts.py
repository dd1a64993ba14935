"""Finds GPU software that is installed twice on the same nodes. Pure.

Compares groups of equal pools and workloads: a stack may have thousands of each, but few groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from heapq import merge
from itertools import islice
from typing import Any

from gpupools.common.taints import Taint
from gpupools.plan.pool_facts import By, PoolFacts
from gpupools.plan.tolerations import untolerated
from gpupools.policies.declared_software import (
    CLAIMS,
    DRIVER,
    OPERAND_LABELS,
    PLUGIN,
    TOOLKIT,
    DeclaredSoftware,
    tolerations_of_controllers,
)
from gpupools.policies.declared_stack import Cluster, Declared, DeclaredStack, Origin
from gpupools.policies.finding import Finding

MAX_PAIRS = 100_000
"""Maximum number of comparisons of a group of software with a group of pools or of other software.

A hundred clusters with three charts and three kinds of pools each make 90,000 of them.
"""

PIECES = (
    (DRIVER, "driver"),
    (TOOLKIT, "container_toolkit"),
    (PLUGIN, "device_plugin"),
    # A node's own plugin hands out what claims would: https://github.com/NVIDIA/aicr (recipes/components/gpu-operator).
    (CLAIMS, "device_plugin"),
)
"""Each piece, and the hint of a pool that says that the cloud installs it."""
TOGETHER = (
    *((piece, piece) for piece, _ in PIECES),
    (PLUGIN, CLAIMS),
    (CLAIMS, PLUGIN),
)
"""Pieces that two charts must not install on the same nodes."""


class TooManyKinds(Exception):
    """The stack has more groups than are compared."""

    def __init__(self, software: int, others: str) -> None:
        self.what = f"{software:,} kinds of GPU software and {others}"


@dataclass
class _Pools:
    """Pools that are equal for all software."""

    cluster: Cluster
    installed_by_cloud: frozenset[str]
    """Pieces that the cloud installs."""
    labels: Mapping[str, str]
    places: list[int] = field(default_factory=list)
    """In `Stack.gpu_pools`."""


@dataclass
class _Software:
    """Charts and workloads that install the same pieces on the same nodes."""

    origin: Origin
    api: object
    one: DeclaredSoftware
    on: int = 0
    """Groups of pools in its cluster, as bits."""
    lands: dict[str, int] = field(default_factory=dict)
    """Those of them whose labels it selects, by piece."""


class SoftwareConflicts:
    """Finds conflicts of GPU software on the nodes of a stack.

    A question that takes more than `MAX_PAIRS` comparisons raises `TooManyKinds`.
    """

    def __init__(self, stack: DeclaredStack) -> None:
        self._stack = stack
        self._installed_by_cluster: dict[Cluster, tuple[tuple[str, ...], bool]] = {}
        self._conflicts_cache: dict[tuple[int, str], tuple[int, list[tuple[Declared, PoolFacts]]]] = {}

    def pools_with_owner(self, place: int, piece: str) -> tuple[int, list[tuple[Declared, PoolFacts]]]:
        """Return number and first three of the pools where the cloud installs the same piece.

        `place` is the position of the software in `Stack.software`.
        """
        kind = self._kinds[place]
        if kind is None or piece not in kind.lands:
            return 0, []
        asked = (id(kind), piece)
        if asked not in self._conflicts_cache:
            lands = [pools for number, pools in enumerate(self._pools) if kind.lands[piece] >> number & 1]
            hit = [pools for pools in lands if piece in pools.installed_by_cloud]
            first = islice(merge(*(pools.places for pools in hit)), 3)
            pools_found = [self._stack.gpu_pools[number] for number in first]
            self._conflicts_cache[asked] = sum(len(pools.places) for pools in hit), pools_found
        return self._conflicts_cache[asked]

    def installed_on(self, resource: Declared) -> tuple[tuple[str, ...], bool]:
        """Return the GPU software in a pool's cluster, and whether it installs or may install a driver."""
        cluster = self._stack.cluster_of(resource)
        if cluster not in self._installed_by_cluster:
            here = [installed for installed in self._all_software if self._stack.runs_on(cluster, installed[0])]
            kinds = tuple(dict.fromkeys(kind for _, kind, _ in here))
            self._installed_by_cluster[cluster] = kinds, any(driver for *_, driver in here)
        return self._installed_by_cluster[cluster]

    @cached_property
    def _all_software(self) -> tuple[tuple[Origin, str, bool], ...]:
        """All software: origin, name, and whether it installs or may install a driver."""
        fromkeys = dict.fromkeys(
            (self._stack.origin_of(declared), software.kind, DRIVER in (*software.installs, *software.unsure))
            for declared, software in self._stack.software
        )
        clusters = {self._stack.cluster_of(declared) for declared, _ in self._stack.gpu_pools}
        if len(fromkeys) * len(clusters) > MAX_PAIRS:
            raise TooManyKinds(len(fromkeys), f"{len(clusters):,} clusters")
        return tuple(fromkeys)

    def unschedulable_operators(self) -> Iterator[tuple[Declared, str, tuple[Declared, PoolFacts], Taint]]:
        """Yield GPU Operators with a driver that no pool of their cluster in this stack accepts.

        Yields:
            The chart, the value with the missing toleration, a pool without GPUs, and its taint.
        """
        # Pools of a cluster with equal taints count once; pools without a cluster in this stack are left out.
        by_cluster: dict[Cluster, dict[Any, tuple[Declared, PoolFacts]]] = {}
        for declared, pool in self._stack.pools:
            cluster = self._stack.cluster_of(declared)
            if cluster.bits:
                kinds = by_cluster.setdefault(Cluster(cluster.bits, ""), {})
                kinds.setdefault((pool.taints, bool(pool.unknown), pool.has_gpus), (declared, pool))
        operators = [
            (declared, software)
            for declared, software in self._stack.software
            if software.kind == "gpu-operator" and DRIVER in software.installs
        ]
        if len(operators) * sum(len(kinds) for kinds in by_cluster.values()) > MAX_PAIRS:
            raise TooManyKinds(len(operators), f"{len(by_cluster):,} clusters")
        for declared, software in operators:
            origin = self._stack.origin_of(declared)
            for cluster, kinds in by_cluster.items():
                plain = next((kind for kind in kinds.values() if not kind[1].has_gpus), None)
                if plain is None or not self._stack.runs_on(cluster, origin):
                    continue
                for path, tolerations in tolerations_of_controllers(software):
                    open_ = (pool.unknown or not untolerated(tolerations, pool.taints) for _, pool in kinds.values())
                    if not any(open_):
                        yield declared, path, plain, untolerated(tolerations, plain[1].taints)[0]
                        break

    def software_pairs(self) -> Iterator[tuple[int, int, int, str, str]]:
        """Yield software that conflicts with earlier software in the same cluster.

        Yields:
            Place of the later, place of the first of the earlier, how many earlier ones there are, the piece that
            those install and the piece that the later one installs.
        """
        seen: dict[int, tuple[int, int]] = {}  # by kind, first place and how many
        for place, kind in enumerate(self._kinds):
            if kind is None:
                continue
            for one, other, several in self._conflicting_kinds[id(kind)]:
                earlier = [seen[number] for number in several if number in seen]
                if earlier:
                    yield place, min(first for first, _ in earlier), sum(count for _, count in earlier), one, other
            first, count = seen.get(id(kind), (place, 0))
            seen[id(kind)] = (first, count + 1)

    @cached_property
    def _conflicting_kinds(self) -> Mapping[int, list[tuple[str, str, list[int]]]]:
        """For each kind of software: piece of the other, own piece, the other kinds."""
        by_api: dict[object, list[_Software]] = {}
        for kind in {id(software): software for software in self._kinds if software is not None}.values():
            by_api.setdefault(kind.api, []).append(kind)
        pairs = sum(len(several) ** 2 for several in by_api.values())
        if pairs > MAX_PAIRS:
            most = max(len(several) for several in by_api.values())
            raise TooManyKinds(most, "as many others in the same cluster")
        kinds: dict[int, list[tuple[str, str, list[int]]]] = {}
        for several in by_api.values():
            for later in several:
                met = [
                    (one, other, [id(software) for software in several if _share_nodes(software, one, later, other)])
                    for one, other in TOGETHER
                ]
                kinds[id(later)] = [conflict for conflict in met if conflict[2]]
        return kinds

    @cached_property
    def _pools(self) -> list[_Pools]:
        wanted = {key for _, software in self._stack.software for key in _labels_of(software)}
        found: dict[tuple[Any, ...], _Pools] = {}
        for place, (declared, pool) in enumerate(self._stack.gpu_pools):
            cluster = self._stack.cluster_of(declared)
            by_cloud = [piece for piece, hint in PIECES if getattr(pool.software, hint) is By.CLOUD]
            installed_by_cloud = frozenset(by_cloud if pool.accelerator != "amd" else ())
            labels = {key: value for key, value in pool.labels.items() if key in wanted}
            key = (cluster, installed_by_cloud, frozenset(labels.items()))
            found.setdefault(key, _Pools(cluster, installed_by_cloud, labels)).places.append(place)
        return list(found.values())

    @cached_property
    def _kinds(self) -> list[_Software | None]:
        """The group of each software of the stack; None if it installs no piece of a node's software."""
        found: dict[tuple[Any, ...], _Software] = {}
        kinds: list[_Software | None] = []
        for declared, software in self._stack.software:
            if not software.installs:
                kinds.append(None)
                continue
            origin, api = self._stack.origin_of(declared), self._stack.api(declared)
            key = (origin, api, software.kind, software.installs, software.placement.key)
            kinds.append(found.setdefault(key, _Software(origin, api, software)))
        if len(found) * len(self._pools) > MAX_PAIRS:
            raise TooManyKinds(len(found), f"{len(self._pools):,} of GPU pools")
        for kind in found.values():
            for place, pools in enumerate(self._pools):
                if self._stack.runs_on(pools.cluster, kind.origin):
                    kind.on |= 1 << place
                    for piece in kind.one.installs:
                        if kind.one.lands_on(piece, pools.labels):
                            kind.lands[piece] = kind.lands.get(piece, 0) | 1 << place
        return kinds


def _labels_of(software: DeclaredSoftware) -> Iterator[str]:
    yield from OPERAND_LABELS
    yield from software.placement.labels
    for term in software.placement.terms:
        yield from term


def _share_nodes(first: _Software, one: str, second: _Software, other: str) -> bool:
    nodes = first.on & second.on
    if nodes:
        return bool(first.lands.get(one, 0) & second.lands.get(other, 0) & nodes)
    # The pools are elsewhere: charts without any selector go to every GPU node.
    return first.one.lands_on(one, {}) and second.one.lands_on(other, {})


def compared(found: Iterable[tuple[str, Finding]], question: str) -> Iterator[tuple[str, Finding]]:
    """Yield findings, and that the question cannot be verified where the stack is too large to compare."""
    try:
        yield from found
    except TooManyKinds as too_many:
        finding = Finding(
            what=f"{question} cannot be verified: the stack has {too_many.what}, more than {MAX_PAIRS:,} pairs",
            fix="split the stack, or use the same node selector and provider for similar pools and charts",
            unverified=True,
            needs_fix=True,
        )
        yield "", finding
