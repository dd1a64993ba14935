"""What the plan of a pool promises of its nodes, in terms of Kubernetes objects."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, SOFTWARE_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Piece, RuntimePlan
from gpupools.ready.snapshot import DAEMONS
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.stackfile.stack import StackPlan

GPU_DRIVER = "gpu.nvidia.com"
DOMAIN_DRIVER = "compute-domain.nvidia.com"
NETWORK_DRIVER = "dra.net"
"""Drivers in ResourceSlices: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu and kubernetes-sigs/dranet."""


VALIDATOR = "validator"
"""What tests the other components on each node; its DaemonSet is the GPU Operator's."""


class Promise(NamedTuple):
    """What must be in the cluster for a pool to be ready: on each node, and a RuntimeClass (empty for none)."""

    pool: PoolPlan
    labels: Mapping[str, str]
    resources: Mapping[str, str]
    fabric_resources: frozenset[str]
    """Resources that are not GPUs."""
    devices: Mapping[str, int]
    """Devices in ResourceSlices, by driver."""
    runtime_class: str
    owners: Mapping[str, str]
    """Piece to owner, in words for people."""
    daemons: Mapping[str, str]
    """Piece to the namespace, or `namespace/name`, of the DaemonSet that brings it, where one does."""
    required: frozenset[str]
    """Pieces that need a ready pod of their owner on each node."""
    machine: str
    """Instance type, as the cloud writes it on its nodes."""


def promises(plan: StackPlan) -> tuple[Promise, ...]:
    """Return what a plan promises, for each pool and cluster."""
    runtimes = {runtime.cluster: runtime for runtime in plan.runtimes}
    specs = {key: cluster.runtime for key, cluster in plan.stack.clusters.items()}
    return tuple(_promise(pool, runtimes[pool.cluster], specs[pool.cluster]) for pool in plan.pools)


def _promise(pool: PoolPlan, runtime: RuntimePlan, spec: RuntimeSpec) -> Promise:
    owners = next((row.owners for row in runtime.owners if row.pool == pool.name), {})
    fabric, extra = pool.provider_plan.fabric, dict(pool.provider_plan.extra_resources())
    if fabric is not None and fabric.resource:
        extra.setdefault(fabric.resource, str(fabric.devices))
    devices = {
        NETWORK_DRIVER: fabric.devices if fabric is not None and fabric.device_class else 0,
        GPU_DRIVER: pool.instance.devices if pool.software == DRA_DRIVER else 0,
        DOMAIN_DRIVER: int(pool.compute_domains),
    }
    by_image = "image" in owners.get(Piece.RUNTIME_CLASS, "image")
    # Not what the team named itself, nor a MIG manager that has nothing to do.
    known = {each.piece for each in DAEMONS.values() if pool.sharing.mig is not None or each.piece != Piece.MIG_MANAGER}
    theirs = {software.name for key, software in spec.existing.named().items() if key != "gpu_operator"}
    daemons = dict(_daemons(owners, runtime, spec))
    has_validator = pool.labels.get(SOFTWARE_LABEL) == "gpu-operator" and Piece.DEVICE_PLUGIN in daemons
    validator = {VALIDATOR: daemons[Piece.DEVICE_PLUGIN]} if has_validator else {}
    return Promise(
        pool=pool,
        # Controllers set the omitted label by what they find on the node.
        labels={key: value for key, value in pool.labels.items() if key != GPU_PRESENT_LABEL},
        resources={**{name: str(count) for name, count in pool.node_resources.items()}, **extra},
        fabric_resources=frozenset(extra),
        devices={driver: count for driver, count in devices.items() if count},
        runtime_class=pool.runtime_class or ("" if by_image else "nvidia"),
        owners={piece.value: owner for piece, owner in owners.items()},
        daemons={**daemons, **validator},
        required=frozenset(piece for piece in daemons if piece in known and owners[Piece(piece)] not in theirs),
        machine=pool.instance.extra.get("machine_type", pool.instance.name),
    )


def _daemons(owners: Mapping[Piece, str], runtime: RuntimePlan, spec: RuntimeSpec) -> Iterator[tuple[str, str]]:
    spaces = {f"chart {release.chart}": release.namespace for release in runtime.releases}
    for planned_object in runtime.objects:
        if planned_object.installs is not None:
            meta = planned_object.manifest["metadata"]
            spaces[planned_object.installs.owner] = f"{meta['namespace']}/{meta['name']}"
    for key, software in spec.existing.named().items():
        if software.namespace:  # an operator's name is not that of its DaemonSets
            spaces[software.name] = software.namespace if key == "gpu_operator" else software.name
    yield from ((piece.value, spaces[owner]) for piece, owner in owners.items() if owner in spaces)
