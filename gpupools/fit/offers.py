"""What a node of a pool offers to pods, by its plan, in the terms of the scheduler."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.numbers import quantity
from gpupools.common.taints import Taint
from gpupools.plan.dra import DEVICE_CLASS
from gpupools.plan.fabric import CHANNEL_CLASS
from gpupools.plan.hami import HAMI
from gpupools.plan.node_resources import GPU_RESOURCE, unshared
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import NodeLabels
from gpupools.ready.promises import Promise, promises
from gpupools.stackfile.stack import StackPlan

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
REGION_LABEL, ZONE_LABEL = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"

_OWNED_LABELS = ("kubernetes.io", "k8s.io", "nvidia.com")
"""Domains, with those below, whose labels clouds and GPU software write on running nodes: no plan knows them all.

Karpenter writes its own on nodes that it makes, and it makes none of ours.
"""


class Amount(NamedTuple):
    """How much of a resource a pod may request: `sure` fits, more than `most` does not, between is not known."""

    sure: Decimal
    most: Decimal


class Offer(NamedTuple):
    """What a node offers: one that a pool starts, or one that runs."""

    where: str
    """`<cluster>/<pool>`, or the name of a node."""
    promise: Promise
    """Of the node's pool."""
    labels: NodeLabels
    taints: tuple[Taint, ...]
    amounts: Mapping[str, Amount]
    """By resource; what is missing is not offered."""
    devices: Mapping[str, int | None]
    """Devices by DeviceClass; None for as many as pods claim."""
    pods: int | None = None
    """Pods of the node; None if not known."""
    zones: tuple[str, ...] = ()
    """Zones in which a new node may be; empty if not known."""
    pod: JsonObject = MappingProxyType({})
    """The part of a pod's spec that puts it on the pool, as the plan exports it."""
    single_unit: frozenset[str] = frozenset()
    """Resources of which a container gets one unit only, since a second may be of the same GPU.

    https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus, failRequestsGreaterThanOne, which our
    configuration sets; https://docs.cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus#limitations.
    """
    has_all_labels: bool = False
    """Whether `labels` are all that the node has."""
    schedulers: frozenset[str] = frozenset()
    """Schedulers of the cluster."""
    runtime_classes: frozenset[str] = frozenset()
    """RuntimeClasses that the plan knows of."""
    flavor_tolerations: Sequence[JsonObject] = ()
    """What Kueue adds to the pods of teams that it puts on the pool: `spec.tolerations` of its ResourceFlavor."""
    trust_policies: Mapping[str, JsonObject] = MappingProxyType({})
    """Specs of the cluster's admission policies that judge pods by their namespace, by the mark of the pools."""

    @property
    def pool(self) -> PoolPlan:
        """The plan of the pool."""
        return self.promise.pool

    def may_have_label(self, key: str) -> bool:
        """Return whether something that no plan knows may write a label."""
        owner, owners = key.partition("/")[0], (*_OWNED_LABELS, *self.pool.provider_plan.label_owners)
        owned = any(owner == each or owner.endswith(f".{each}") for each in owners)
        return not self.has_all_labels and key not in self.labels and owned


def offers(plan: StackPlan) -> tuple[Offer, ...]:
    """Return what a new node of each pool of a plan offers."""
    made: list[Offer] = []
    promised = promises(plan)
    for runtime in plan.runtimes:
        key, objects, teams = runtime.cluster, runtime.objects, runtime.team_objects
        own = [each for each in promised if each.pool.cluster == key]
        flavors = {each["metadata"]["name"]: each["spec"] for each in teams if each["kind"] == "ResourceFlavor"}
        schedulers = {name for each in own for name in (each.pool.scheduler_name, each.pool.pod().get("schedulerName"))}
        classes = {each.manifest["metadata"]["name"] for each in objects if each.kind == "RuntimeClass"}
        classes |= {each.runtime_class for each in own}
        marks = {each.pool.trust.mark(each.pool.name) for each in own if each.pool.trust is not None}
        specs = {each.name: each.manifest.get("spec", {}) for each in objects}
        policies = {mark: specs[f"trust/{mark}"] for mark in sorted(filter(None, marks)) if f"trust/{mark}" in specs}
        of_cluster: JsonDict = {"schedulers": frozenset({"default-scheduler", *filter(None, schedulers)})}
        of_cluster |= {"runtime_classes": frozenset(filter(None, classes)), "trust_policies": policies}
        region = plan.stack.clusters[key].region_name()
        for promise in own:
            tolerations = flavors.get(promise.pool.name, {}).get("tolerations", ())
            made.append(_offer(promise, region)._replace(**of_cluster, flavor_tolerations=tolerations))
    return tuple(made)


def _offer(promise: Promise, region: str) -> Offer:
    pool, fabric = promise.pool, promise.pool.provider_plan.fabric
    group, names = pool.provider_plan.node_groups(pool.cluster, pool.name)
    own = re.compile("|".join(f".*{re.escape(name)}.*" for name in names))  # as Pulumi names it
    machine = {"instance-type": promise.machine, "arch": pool.instance.architecture, "os": "linux"}
    labels: NodeLabels = {
        **({group: own} if group else {}),
        **pool.provider_plan.cloud_labels(),
        **{f"beta.kubernetes.io/{key}": value for key, value in machine.items()},
        **{f"kubernetes.io/{key}": machine[key] for key in ("arch", "os")},
        INSTANCE_TYPE_LABEL: promise.machine,
        **(dict.fromkeys((REGION_LABEL, "failure-domain.beta.kubernetes.io/region"), region) if region else {}),
        **pool.labels,
    }
    devices: dict[str, int | None] = {DEVICE_CLASS: pool.instance.devices} if pool.claim_template else {}
    devices |= {fabric.device_class: fabric.devices} if fabric is not None and fabric.device_class else {}
    devices |= {CHANNEL_CLASS: None} if pool.compute_domains else {}
    zones = (f"{region}-{each}" if each.isdigit() else each for each in pool.provider_plan.requested_zones())
    plain = unshared(pool.instance, pool.sharing) if pool.sharing.clients is not None else pool.node_resources
    return Offer(
        where=f"{pool.cluster}/{pool.name}",
        promise=promise,
        labels=labels,
        taints=pool.taints,
        amounts=dict(_amounts(promise)),
        devices=devices,
        pods=pool.provider_plan.pods_per_node(),
        zones=tuple(zones),
        pod=pool.pod(),
        single_unit=frozenset(name for name, count in pool.node_resources.items() if plain.get(name) != count),
    )


# Of memory the clouds keep most on small machines: GKE 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8
# and 6 % of the next 112 (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes), AKS 20 MB for
# each of up to 250 pods, at most 25 % (https://learn.microsoft.com/azure/aks/node-resource-reservations).
_RESERVED = Decimal("0.08")
_RESERVED_MEMORY, _MOST_RESERVED_MEMORY = Decimal(6 * 2**30), Decimal("0.25")


def _amounts(promise: Promise) -> Iterator[tuple[str, Amount]]:
    machine, fabric = promise.pool.instance, promise.pool.provider_plan.fabric
    vcpus, memory = Decimal(machine.vcpus or 0), Decimal(str(machine.memory_gib or 0)) * 2**30
    kept = max(memory * _RESERVED, min(memory * _MOST_RESERVED_MEMORY, _RESERVED_MEMORY))
    known = Decimal("Infinity")  # of a machine whose size is not published, nothing is known
    yield "cpu", Amount(vcpus * (1 - _RESERVED), vcpus or known)
    yield "memory", Amount(memory - kept, memory or known)
    disk, local = Decimal(promise.pool.disk_gib) * 2**30, Decimal(machine.local_disk_gb or 0) * 10**9
    # Half of the disk is free in any case, beside images, eviction threshold and the reservation of the cloud.
    yield "ephemeral-storage", Amount(disk / 2, disk + local)
    for name, count in promise.resources.items():
        offered = quantity(count) or Decimal(0)  # huge pages are promised in MiB
        yield name, Amount(offered, offered)
    if fabric is not None and fabric.huge_pages_mib:
        pages = Decimal(fabric.huge_pages_mib) * 2**20
        yield "hugepages-2Mi", Amount(pages, pages)
    if promise.pool.software == HAMI:
        # Its scheduler counts them by GPU, and the default one leaves them to it.
        yield from ((f"nvidia.com/{name}", Amount(*[Decimal(100)] * 2)) for name in ("gpumem-percentage", "gpucores"))
        whole = Decimal(int(machine.gpu_memory_gib * 1024))
        yield "nvidia.com/gpumem", Amount(whole * (1 - _RESERVED), whole)


def offered_units(pool: PoolPlan) -> str:
    """Return what pods of a pool ask for, in words."""
    if pool.claim_template:
        return f"devices of the DeviceClass {DEVICE_CLASS} through a claim"
    if pool.sharing.fractions is not None:
        return f"fractions of {GPU_RESOURCE} by the annotation gpu-fraction"
    return " and ".join(f"{count} {name}" for name, count in pool.node_resources.items())
