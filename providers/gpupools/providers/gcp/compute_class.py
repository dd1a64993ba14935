"""Reads GKE's ComputeClass, which makes node pools by itself, and writes one that orders declared pools. Pure.

Source: https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect, Taint, repels_cpu_pods
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, PoolFacts, SharingFacts
from gpupools.providers.gcp.cluster import is_default_account
from gpupools.providers.gcp.pool_plan import class_name
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    at,
    controls,
    flag,
    items,
    mapping,
    number,
    pool_facts,
    string_map,
    text,
    wanted_taint,
)

_Clouds = Mapping[str, Cloud]


def read_compute_class(given: JsonObject, clouds: _Clouds) -> Iterator[PoolFacts]:
    """Read a ComputeClass that makes node pools by itself; without that it only chooses among declared ones."""
    if given.get("spec") is UNKNOWN:
        yield PoolFacts("gcp", (), None, (), unknown=("spec",), where="spec")
        return
    spec = mapping(given.get("spec"))
    if flag(at(spec, "nodePoolAutoCreation.enabled")) is False or spec.get("nodePoolAutoCreation") is None:
        return
    machines = Machines()
    read: TaintsRead | None = None
    sharing: SharingFacts | None = None
    for where, one in items(spec.get("priorities"), "spec.priorities", machines.unknown):
        own = Machines()
        for target in (machines, own):
            _priority(one, where, clouds, target)
        if own.evidence or own.unknown:
            sharing = sharing or _class_sharing(at(one, "gpu.gpuSharing"), f"{where}.gpu.gpuSharing")
            taints = _class_taints(spec, (f"{where}.taints", at(one, "taints")))
            # A class may take machines by any of its priorities, so the one that lets pods on its GPUs decides.
            if read is None or (repels_cpu_pods(read.taints) and not repels_cpu_pods(taints.taints)):
                read = taints
    read = read or _class_taints(spec)
    # GKE taints the nodes of a class, but those of `default`, the class of a cluster, take pods that name no class:
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/run-pods-default-compute-classes
    name = at(given, "metadata.name")
    unresolved: tuple[str, ...] = ()
    if at(given, "metadata") is UNKNOWN or name is UNKNOWN:
        unresolved = ("metadata.name",)
    elif name != "default":
        read.taints.append(Taint("cloud.google.com/compute-class", text(name), Effect.NO_SCHEDULE))
    account = at(spec, "nodePoolConfig.serviceAccount")
    hardening, own_account = Hardening(), isinstance(account, str) and not is_default_account(account)
    hardening.judge(controls(__package__)["identity"][0], account, own_account, "spec.nodePoolConfig.")
    yield replace(
        pool_facts("gcp", machines, read, hardening),
        unresolved_taints=unresolved,
        where="spec.nodePoolConfig.taints",
        missing_taint=as_object(wanted_taint(machines.accelerator), KUBERNETES_EFFECTS),
        sharing=sharing,
        labels=string_map(at(spec, "nodePoolConfig.nodeLabels")),
    )


def ordering_class(pool: str, names: Sequence[str]) -> JsonDict:
    """Return the arguments of `wire_form` for the class with the steps of a pool.

    Without DoNotScaleUp, GKE may put pods on any machine when every step is out.

    Args:
        pool: Key of the pool in the stack file.
        names: Names of the node pools of its steps, in their order.
    """
    priorities = [{"nodepools": [name]} for name in names]
    spec = {"priorities": priorities, "whenUnsatisfiable": "DoNotScaleUp", "nodePoolAutoCreation": {"enabled": False}}
    return {"kind": "ComputeClass", "name": class_name(pool), "api": "cloud.google.com/v1", "spec": spec}


def _priority(one: Any, where: str, clouds: _Clouds, machines: Machines) -> None:
    """Count the machine of one priority of a ComputeClass."""
    name, family, gpu = (at(one, key) for key in ("machineType", "machineFamily", "gpu.type"))
    machines.unknown += [
        f"{where}.{key}"
        for key, value in (("machineType", name), ("machineFamily", family), ("gpu", at(one, "gpu")), ("gpu.type", gpu))
        if value is UNKNOWN
    ]
    if isinstance(gpu, str) and gpu:
        count = number(at(one, "gpu.count")) or 1
        machines.show(Accelerator("nvidia", Fraction(count), gpu), f"{where}.gpu {count} × {gpu}")
    if isinstance(name, str) and name:
        machines.add(name, accelerator_by_name(name, "gcp", clouds), f"{where}.machineType")
    elif isinstance(family, str) and re.fullmatch(r"a[2-9]\w*|g[2-9]\w*", family):
        machines.show(Accelerator("nvidia", None), f"{where}.machineFamily {family}")


def _class_taints(spec: JsonObject, *own: tuple[str, Any]) -> TaintsRead:
    """Read the taints of the nodes that a class makes: those of all, and a priority's own by their path."""
    read = TaintsRead()
    for path, given in (("spec.nodePoolConfig.taints", at(spec, "nodePoolConfig.taints")), *own):
        read.objects(given, path, KUBERNETES_EFFECTS)
    return read


# https://github.com/kcl-lang/modules/pull/358, which quotes the reference (2026-11-22).
_CLASS_SHARING = {"TIME_SHARING": "time-slicing", "MPS": "mps"}


def _class_sharing(given: object, path: str) -> SharingFacts | None:
    way, size = _CLASS_SHARING.get(text(at(given, "sharingStrategy")), ""), text(at(given, "gpuPartitionSize"))
    kind = "+".join(part for part in ("mig-single" if size else "", way) if part)
    clients = number(at(given, "maxSharedClientsPerGPU")) if way else None
    return SharingFacts(kind, clients=clients, profile=size, said_by=path) if kind else None
