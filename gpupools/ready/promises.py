"""What the plan of a pool promises of its nodes, in terms of Kubernetes objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpupools.common.taints import Taint
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.node_labels import GPU_PRESENT_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, unshared
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Piece, RuntimePlan
from gpupools.ready.snapshot import DAEMONS
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.stackfile.stack import StackPlan

GPU_DRIVER = "gpu.nvidia.com"
DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""Drivers in ResourceSlices (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu, cmd)."""
NETWORK_DRIVER = "dra.net"
"""https://github.com/kubernetes-sigs/dranet"""


class Promise(NamedTuple):
    """What must be in the cluster for a pool to be ready."""

    cluster: str
    pool: str
    cloud: str
    instance_type: str
    gpus: int
    """GPUs of a node; 1 for a part of one."""
    nodes: int
    """At least so many; 0 for a pool that scales from zero."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    resources: Mapping[str, str]
    """Quantity of each resource on each node."""
    fabric_resources: frozenset[str]
    """Those of them that are not GPUs."""
    unshared: Mapping[str, int]
    """What nodes offer while their GPUs are not shared yet."""
    has_mig: bool
    devices: Mapping[str, int]
    """Devices in ResourceSlices of each node, by driver."""
    runtime_class: str
    """RuntimeClass that must exist; empty for none."""
    daemons: Mapping[str, str]
    """Piece to the namespace, or `namespace/name`, of the DaemonSet that brings it, where one does."""
    required: frozenset[str]
    """Pieces that need a ready pod of their owner on each node."""
    owners: Mapping[str, str]
    """Piece to owner, in words for people."""


def promises(plan: StackPlan) -> tuple[Promise, ...]:
    """Return what a plan promises, for each pool and cluster."""
    runtimes = {each.cluster: each for each in plan.runtimes}
    specs = {key: cluster.runtime for key, cluster in plan.stack.clusters.items()}
    return tuple(_promise(pool, runtimes[pool.cluster], specs[pool.cluster]) for pool in plan.pools)


def _promise(pool: PoolPlan, runtime: RuntimePlan, spec: RuntimeSpec) -> Promise:
    owners = next((row.owners for row in runtime.owners if row.pool == pool.name), {})
    fabric, devices = pool.provider_plan.fabric, {}
    extra = dict(pool.provider_plan.extra_resources())
    if fabric is not None and fabric.resource:
        extra.setdefault(fabric.resource, str(fabric.devices))
    if fabric is not None and fabric.device_class:
        devices[NETWORK_DRIVER] = fabric.devices
    if pool.software == DRA_DRIVER:
        devices[GPU_DRIVER] = pool.instance.devices
    if pool.compute_domains:
        devices[DOMAIN_DRIVER] = 1
    # Controllers set this label by what they find on the node.
    labels = {key: value for key, value in pool.labels.items() if key != GPU_PRESENT_LABEL}
    classes = pool.runtime_class or ("nvidia" if Piece.RUNTIME_CLASS in owners else "")
    daemons = dict(_daemons(owners, runtime, spec))
    by_nodes = "image" in owners.get(Piece.RUNTIME_CLASS, "") and pool.runtime_class is None
    return Promise(
        cluster=pool.cluster,
        pool=pool.name,
        cloud=pool.cloud,
        instance_type=pool.instance.name,
        gpus=pool.instance.devices,
        nodes=pool.min_nodes,
        labels=labels,
        taints=pool.taints,
        resources={**{name: str(count) for name, count in pool.node_resources.items()}, **extra},
        fabric_resources=frozenset(extra),
        unshared=unshared(pool.instance, pool.sharing) if pool.node_resources else {},
        has_mig=pool.sharing.mig is not None,
        devices=devices,
        runtime_class="" if by_nodes else classes,
        daemons=daemons,
        required=frozenset(_required(daemons, owners, spec, has_mig=pool.sharing.mig is not None)),
        owners={piece.value: owner for piece, owner in owners.items()},
    )


def _daemons(owners: Mapping[Piece, str], runtime: RuntimePlan, spec: RuntimeSpec) -> Iterator[tuple[str, str]]:
    """Yield the pieces that pods bring, with the namespace of their DaemonSet or its full name."""
    spaces = {f"chart {release.chart}": release.namespace for release in runtime.releases}
    for each in runtime.objects:
        if each.installs is not None:
            meta = each.manifest["metadata"]
            spaces[each.installs.owner] = f"{meta['namespace']}/{meta['name']}"
    for key, software in spec.existing.named().items():
        if software.namespace:
            # An operator's name is not that of its DaemonSets.
            spaces[software.name] = software.namespace if key == "gpu_operator" else software.name
    for piece, owner in owners.items():
        if owner in spaces:
            yield piece.value, spaces[owner]


def _required(
    daemons: Iterable[str], owners: Mapping[Piece, str], spec: RuntimeSpec, *, has_mig: bool
) -> Iterator[str]:
    """Yield the pieces whose pods are looked for: those of known DaemonSets, not what the team named itself."""
    known = {each.piece for each in DAEMONS.values()} - (set() if has_mig else {Piece.MIG_MANAGER.value})
    theirs = {software.name for key, software in spec.existing.named().items() if key != "gpu_operator"}
    yield from (piece for piece in daemons if piece in known and owners[Piece(piece)] not in theirs)


def shared_away(promise: Promise) -> Sequence[str]:
    """Return the resources that nodes offer only while GPUs are not shared or partitioned as planned."""
    early = {GPU_RESOURCE: promise.gpus, **promise.unshared}
    return [name for name in early if name not in promise.resources]
