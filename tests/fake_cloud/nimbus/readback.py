"""Reads node pools of Nimbus back from the properties they were declared with. Pure, and never raises."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.taints import Effect
from gpupools.plan.cloud import KubernetesObjects, Readback
from gpupools.plan.karpenter_provider import KarpenterProvider
from gpupools.plan.pool_facts import NO_ACCELERATOR, UNKNOWN, Accelerator, PoolFacts
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    as_object,
    at,
    listed_accelerator,
    mapping,
    number,
    string_map,
    wanted_taint,
)
from tests.fake_cloud.nimbus.machines import INSTANCE_TYPES
from tests.fake_cloud.nimbus.node_customization import customizations

_EFFECTS = {effect.value: effect for effect in Effect}


def accelerator(machine: str) -> Accelerator:
    """Return the accelerator of a machine."""
    row = INSTANCE_TYPES.get(machine)
    if row is not None:
        return Accelerator("nvidia", row.gpus)
    return listed_accelerator(INSTANCE_TYPES, None, machine) or NO_ACCELERATOR


def read_pools(type_token: str, properties: Mapping[str, Any]) -> tuple[PoolFacts, ...]:
    """Read a node pool; nothing for any other resource."""
    if type_token != "nimbus:index:NodePool":
        return ()
    given, machines, taints = mapping(properties), Machines(), TaintsRead()
    machine = given.get("machine")
    if machine is UNKNOWN:
        machines.unknown.append("machine")
    elif isinstance(machine, str):
        machines.add(machine, accelerator(machine), "machine")
    taints.objects(given.get("taints"), "taints", _EFFECTS)
    return (
        PoolFacts(
            cloud="nimbus",
            instance_types=tuple(machines.names),
            gpus_per_node=machines.gpus,
            taints=tuple(taints.taints),
            evidence=machines.evidence,
            unknown=(*machines.unknown, *taints.unknown),
            where="taints",
            missing_taint=as_object(wanted_taint(machines.accelerator), _EFFECTS),
            accelerator=machines.accelerator,
            not_counted=tuple(taints.not_counted),
            min_nodes=number(at(given, "count.min")),
            max_nodes=number(at(given, "count.max")),
            labels=string_map(given.get("labels")),
            tags=string_map(given.get("tags")),
            node_customizations=tuple(customizations("NodePool", given)),
        ),
    )


READBACK = Readback(
    read_pools=read_pools,
    accelerator=accelerator,
    customizations=customizations,
    types=("nimbus:index:NodePool",),
    objects=KubernetesObjects(karpenter=KarpenterProvider(groups=("karpenter.nimbus.example.com",), part="machine-")),
)
