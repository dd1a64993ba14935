"""Reads node pools of kOps, and the nodes of a running cluster. Pure.

kOps' InstanceGroup, and the Node objects that `kubectl get nodes -o yaml` prints.

Sources, as repository and path: kubernetes/kops docs/gpu.md and docs/instance_groups.md;
https://kubernetes.io/docs/reference/labels-annotations-taints/ for Node.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from gpupools.audit.cloud_kinds import cloud_kinds
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT, KUBERNETES_EFFECTS
from gpupools.plan.cloud import ObjectReader
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, PoolFacts, Reference
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    as_text,
    at,
    flag,
    group_and_kind,
    items,
    mapping,
    number,
    string_map,
    text,
    wanted_taint,
)
from gpupools.readback.registry import Clouds, KubernetesReader


@dataclass(frozen=True)
class NodeGroup:
    """Paths of the fields of a node group, below the group."""

    cloud: str
    machine: tuple[str, ...]
    """Paths of an instance type or a list of them."""
    labels: str
    bounds: tuple[str, str]
    fixed: str = ""
    """Path of a number of nodes that replaces missing bounds."""
    tags: str = ""


_KOPS = NodeGroup(
    "", ("machineType", "mixedInstancesPolicy.instances"), "nodeLabels", ("minSize", "maxSize"), tags="cloudLabels"
)


def reader_of(group: str, kind: str, clouds: Clouds) -> ObjectReader | None:
    """Return the reader of an object that is node groups by itself; None for any other kind."""
    tables = (KINDS, *(each.pools for each in cloud_kinds(clouds)))
    return next((read for table in tables if (read := table.get((group, kind))) is not None), None)


def read_group(known: NodeGroup, data: Any, path: str, clouds: Clouds) -> tuple[PoolFacts, Machines]:
    """Read everything but taints.

    Args:
        known: Paths of its fields.
        data: The group.
        path: Of the group.
        clouds: Know the machines.
    """
    machines = Machines()
    if data is UNKNOWN:
        machines.unknown.append(path)
    for key in known.machine:
        value, path_of_key = at(data, key), f"{path}.{key}"
        named = [(path_of_key, value)] if isinstance(value, str) else items(value, path_of_key, machines.unknown)
        for where, name in named:
            if isinstance(name, str) and name:
                machines.add(name, accelerator_by_name(name, known.cloud, clouds), where)
    fixed = number(at(data, known.fixed)) if known.fixed else None
    least, most = (number(at(data, bound)) for bound in known.bounds)
    facts = PoolFacts(
        cloud=known.cloud or "kubernetes",
        instance_types=(),
        gpus_per_node=None,
        taints=(),
        min_nodes=fixed if least is None else least,
        max_nodes=fixed if most is None else most,
        labels=string_map(at(data, known.labels)),
        tags=string_map(at(data, known.tags)) if known.tags else {},
    )
    return facts, machines


def group_facts(
    facts: PoolFacts, machines: Machines, read: TaintsRead, where: str, *, texts: bool = False
) -> PoolFacts:
    """Return everything that is read of a group.

    Args:
        facts: What `read_group` returned, with `machines`.
        machines: What it names.
        read: Its taints.
        where: Path of the taints.
        texts: Say that taints are texts there, not objects.
    """
    taint = wanted_taint(machines.accelerator)
    return replace(
        facts,
        instance_types=tuple(machines.names),
        gpus_per_node=machines.gpus,
        taints=tuple(read.taints),
        evidence=machines.evidence,
        unknown=(*machines.unknown, *read.unknown),
        where=where,
        missing_taint=as_text(taint) if texts else as_object(taint, KUBERNETES_EFFECTS),
        accelerator=machines.accelerator,
        other_accelerator=machines.other,
        not_counted=tuple(read.not_counted),
    )


def _kops(given: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read an InstanceGroup of nodes; kOps taints GPU nodes where it manages their driver (docs/gpu.md)."""
    if text(at(given, "spec.role")).casefold() in ("controlplane", "control-plane", "master", "bastion", "apiserver"):
        return
    facts, machines = read_group(_KOPS, at(given, "spec"), "spec", clouds)
    if at(given, _ANY_MACHINE) is not None:
        machines.unknown.append(_ANY_MACHINE)
    for where, one in items(at(given, "spec.guestAccelerators"), "spec.guestAccelerators", machines.unknown):
        model = text(at(one, "acceleratorType"))
        if "nvidia" in model:
            machines.show(Accelerator("nvidia", Fraction(number(at(one, "acceleratorCount")) or 1), model), where)
    read = TaintsRead()
    read.texts(at(given, "spec.taints"), "spec.taints")
    managed = flag(at(given, "spec.containerd.nvidiaGPU.enabled"))
    if managed:
        read.line("nvidia.com/gpu:NoSchedule", "spec.containerd.nvidiaGPU")
    pool = group_facts(facts, machines, read, "spec.taints", texts=True)
    pool = replace(pool, foreign=_foreign_machine("InstanceGroup", machines, clouds))
    if managed is None:
        named = text(mapping(at(given, "metadata.labels")).get(_OF_CLUSTER))
        types = tuple(f"kubernetes:kops.k8s.io/{version}:Cluster" for version in ("v1alpha2", "v1alpha3"))
        whole = Reference(_CLUSTER, types, named, frozenset({"taints"}))
        pool = replace(pool, elsewhere=(whole,), unresolved_taints=(_CLUSTER,))
    yield pool


_ANY_MACHINE = "spec.mixedInstancesPolicy.instanceRequirements"
"""CPUs and memory alone, which machines with GPUs meet too: kubernetes/kops pkg/apis/kops/v1alpha2/instancegroup.go."""


def _foreign_machine(kind: str, machines: Machines, clouds: Clouds) -> str:
    """Return a machine whose name fits no supported cloud: an InstanceGroup does not name its cloud."""
    patterns = [names for each in cloud_kinds(clouds) if (names := each.machine_names) is not None]
    odd = (name for name in machines.names if not any(each.fullmatch(name) for each in patterns))
    return next((f"kops.k8s.io/{kind} of {name}" for name in odd), "")


_OF_CLUSTER, _CLUSTER = "kops.k8s.io/cluster", "containerd.nvidiaGPU of the Cluster"


def read_cluster(type_token: str, given: JsonObject, clouds: Clouds) -> PoolFacts | None:
    """Read what kOps' Cluster decides for its InstanceGroups: where `nvidiaGPU` is enabled, kOps taints GPU nodes.

    Returns:
        None for any other object.
    """
    if group_and_kind(type_token) != CLUSTER:
        return None
    managed = at(given, "spec.containerd.nvidiaGPU.enabled")
    late = managed is UNKNOWN or at(given, "spec") is UNKNOWN
    return PoolFacts(
        "kubernetes",
        (),
        Fraction(0),
        (GPU_TAINT,) if flag(managed) else (),
        unresolved_taints=("spec.containerd.nvidiaGPU.enabled",) if late else (),
    )


CLUSTER = ("kops.k8s.io", "Cluster")


# --- a running cluster ------------------------------------------------------------------------------------------------

_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_RESOURCE = re.compile(r"(nvidia|amd)\.com/(gpu(?:\.shared)?|mig-.+)")
_SAYS_GPU = {"nvidia.com/gpu.present": "nvidia", "amd.com/gpu.present": "amd"}


def _node(given: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read a Node by what it can allocate, its labels and its instance type."""
    machines, labels = Machines(), string_map(at(given, "metadata.labels"))
    for part in ("allocatable", "capacity"):
        for resource, amount in mapping(at(given, f"status.{part}")).items():
            match, offered = _RESOURCE.fullmatch(str(resource)), number(amount) or 0
            if match is not None and offered > 0 and not machines.accelerator:
                # Slices and replicas are no GPUs, so their number is not the number of GPUs.
                count = Fraction(offered) if match[2] == "gpu" else None
                machines.show(Accelerator(match[1], count), f"status.{part} {resource} {amount}")
    known = dict(_SAYS_GPU)
    for each in cloud_kinds(clouds):
        known |= each.node_labels
    other = any(vendor == "other" and key in labels for key, vendor in known.items())
    for key, vendor in known.items():
        value = labels.get(key, "false")
        if value not in ("", "false", "none") and not other:
            machines.show(Accelerator(vendor, None), f"metadata.labels {key} {value}")
    name = next((labels[key] for key in _TYPES if labels.get(key)), "")
    if name:
        machines.add(name, accelerator_by_name(name, "", clouds), "metadata.labels instance-type")
    read = TaintsRead()
    read.objects(at(given, "spec.taints"), "spec.taints", KUBERNETES_EFFECTS)
    facts = PoolFacts("kubernetes", (), None, (), labels=labels, min_nodes=0, max_nodes=1)
    yield group_facts(facts, machines, read, "spec.taints")


KINDS: Mapping[tuple[str, str], ObjectReader] = MappingProxyType(
    {
        ("kops.k8s.io", "InstanceGroup"): _kops,
        ("", "Node"): _node,
        ("core", "Node"): _node,
    }
)
"""By group and kind, besides those of one cloud (`CloudKinds.pools`); Pulumi calls the first group `core`."""


def _kinds(clouds: Clouds) -> Iterator[tuple[str, str]]:
    yield from (*KINDS, CLUSTER)
    for each in cloud_kinds(clouds):
        yield from each.pools


READER = KubernetesReader(kinds=_kinds, reader_of=reader_of, read_template=read_cluster)
