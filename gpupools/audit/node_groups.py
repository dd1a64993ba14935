"""Reads the nodes of a running cluster, the Node objects that `kubectl get nodes -o yaml` prints. Pure.

Source: https://kubernetes.io/docs/reference/labels-annotations-taints/.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from gpupools.audit.eksctl import read_cluster_config
from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS
from gpupools.plan.cloud import ObjectReader
from gpupools.plan.pool_facts import Accelerator, PoolFacts
from gpupools.readback.inputs import (
    Machines,
    TaintsRead,
    accelerator_by_name,
    at,
    group_facts,
    mapping,
    number,
    string_map,
)
from gpupools.readback.registry import Clouds, KubernetesReader

_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_RESOURCE = re.compile(r"(nvidia|amd)\.com/(gpu(?:\.shared)?|mig-.+)")


@lru_cache
def node_labels() -> Mapping[str, str]:
    """Return the labels of nodes with accelerators, with the vendor: `nvidia`, `amd` or `other`."""
    return {row["label"]: row["vendor"] for row in csv_rows(Path(__file__).with_name("node_labels.csv"))}


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
    other = any(vendor == "other" and key in labels for key, vendor in node_labels().items())
    for key, vendor in node_labels().items():
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


_POOLS: Mapping[tuple[str, str], ObjectReader] = {
    ("", "Node"): _node,
    ("core", "Node"): _node,  # as Pulumi calls the group
    ("eksctl.io", "ClusterConfig"): read_cluster_config,
}

READER = KubernetesReader(pools=_POOLS)
