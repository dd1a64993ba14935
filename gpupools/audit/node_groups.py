"""Reads the nodes of a running cluster, the Node objects that `kubectl get nodes -o yaml` prints. Pure.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from gpupools.audit.cloud_kinds import cloud_kinds
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect
from gpupools.plan.cloud import ObjectReader
from gpupools.plan.pool_facts import Accelerator, PoolFacts
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    at,
    mapping,
    number,
    pool_facts,
    string_map,
    wanted_taint,
)
from gpupools.readback.registry import Clouds, KubernetesReader


def group_facts(
    cloud: str, machines: Machines, read: TaintsRead, where: str, effects: Mapping[str, Effect] = KUBERNETES_EFFECTS
) -> PoolFacts:
    """Return the facts of a group of nodes.

    Args:
        cloud: Its cloud, or `kubernetes`.
        machines: What it names.
        read: Its taints.
        where: Path of the taints.
        effects: Kubernetes' effects by their names in this API.
    """
    missing = as_object(wanted_taint(machines.accelerator), effects)
    return replace(pool_facts(cloud, machines, read), where=where, missing_taint=missing)


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
    facts = group_facts("kubernetes", machines, read, "spec.taints")
    yield replace(facts, labels=labels, min_nodes=0, max_nodes=1)


def _reader_of(group: str, kind: str, clouds: Clouds) -> ObjectReader | None:
    if (group, kind) in _NODE:
        return _node
    return next((read for each in cloud_kinds(clouds) if (read := each.pools.get((group, kind))) is not None), None)


_NODE = (("", "Node"), ("core", "Node"))
"""Group and kind; Pulumi calls the group `core`."""


def _kinds(clouds: Clouds) -> Iterator[tuple[str, str]]:
    yield from _NODE
    for each in cloud_kinds(clouds):
        yield from each.pools


READER = KubernetesReader(kinds=_kinds, reader_of=_reader_of)
