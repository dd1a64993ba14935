"""Plans the part of a node group that only EKS has. Pure.

Unless the pool names one, the node image follows from the software: `cloud-managed` takes Bottlerocket, the other two
take Amazon Linux 2023.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from gpupools.plan.capability import Owners
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.fabric import Fabric
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, skypilot_label
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.node_resources import node_resources as offered_by
from gpupools.plan.provider_plan import NodeLabels, PoolRequest, ProviderPlan
from gpupools.providers.aws.bootstrap import al2023_user_data, bottlerocket_settings
from gpupools.providers.aws.node_images import (
    AL2023,
    BOTTLEROCKET,
    CUSTOM,
    instance_family,
    node_image,
)
from gpupools.spec.pool_options import CapacityBlock, KubeletSettings, Reservation

ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
"""Tells cluster-autoscaler that a node will have GPUs, so that it waits for them instead of adding more nodes.

It waits for `nvidia.com/gpu` alone: with the label, a node whose GPUs all go by other names, or are claimed, is never
ready to it. For claimed ones it has a way out that only its GCE provider opens.
https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md,
processors/customresources/gpu_processor.go and cloudprovider/gce/dynamicresources.go
"""


class Volume(NamedTuple):
    """An EBS volume of every node, encrypted."""

    device: str
    gib: int | None
    """None keeps the size of the image's own snapshot."""
    type: str = "gp3"
    iops: int | None = None
    """None where the type has a rate of its own."""
    kms_key: str | None = None
    """None for the account's default key of EBS."""


class Interface(NamedTuple):
    """A network interface of every node."""

    card: int
    device: int
    type: str | None
    """`efa-only` (without an IP address), or None for an ordinary one."""


_AUTO_MODE = (
    "compute-type",
    *("instance-category", "instance-family", "instance-generation", "instance-size", "instance-cpu"),
    *("instance-memory", "instance-hypervisor", "instance-local-nvme", "instance-network-bandwidth"),
    *("instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-count", "instance-gpu-memory"),
)

TEMPLATE_PREFIXES = ("LaunchTemplate.", "PlacementGroup.")
"""Prefixes of inputs that an adopted node group gets from a launch template that gpupools does not manage."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EksPoolPlan(ProviderPlan):
    """The part of a plan that only EKS has."""

    ami_type: str
    """https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html; empty for an image of one's own."""
    image_id: str | None = None
    """AMI of one's own."""
    capacity_type: str | None = None
    """`SPOT` or `CAPACITY_BLOCK`; None for EKS's default, on demand."""
    reservation_id: str | None = None
    reservation_group_arn: str | None = None
    zones: tuple[str, ...] = ()
    """Keys of the cluster's `subnets_by_zone` to use; empty for every subnet of the cluster."""
    volumes: tuple[Volume, ...]
    """Empty for a custom image, whose block devices come from overrides."""
    user_data: str
    """What the launch template adds to EKS's own user data, not yet base64; empty for nothing."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces, in order; empty for EKS's own single one."""
    security_group_ids: tuple[str, ...] = ()
    """Empty for the cluster's own security group, which EKS then adds."""
    placement_group: bool = False
    """Whether the nodes are in a cluster placement group of their own."""
    node_resources: Mapping[str, str] = field(default_factory=dict)
    """What a node offers beside GPUs and what its instance type tells the autoscaler."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that EKS itself puts on a node and the autoscaler must know of."""
    autoscaled: bool = True
    """False for a pool of fixed size."""
    autoscaler_reads_group: bool = False
    """Whether the autoscaler takes labels and taints of an empty group from EKS's DescribeNodegroup, not from tags."""
    imds_hop_limit: int = 1
    max_unavailable: int = 1
    auto_repair: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    create_timeout_minutes: int = 60
    update_timeout_minutes: int = 60
    """How long an update that replaces every node may take."""
    delete_timeout_minutes: int = 90
    template_id: str | None = None
    """The launch template of an adopted group, if it has one of its own."""
    template_version: int | None = None
    most_pods: int | None = None
    """Pods that a node may have; None where its image or its launch template decides."""

    unordered: ClassVar[frozenset[str]] = frozenset({"security_group_ids", "zones"})
    drained_together = ("max_unavailable",)
    label_owners = ("amazonaws.com", "topology.k8s.aws")
    more_pods = "raise network.max_pods with prefix delegation on"
    """https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html"""

    def ignored_inputs(self, *, is_fixed: bool) -> tuple[str, ...]:
        """Return the number of nodes of a pool that autoscales (`_desired_size` in resources.py)."""
        return () if is_fixed else ("NodeGroup.scalingConfig.desiredSize",)

    def node_groups(self, cluster: str, pool: str) -> tuple[str, Collection[str]]:
        """Return EKS's label (https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html)."""
        made = {f"{cluster}-{name}-nodes" for name in (pool, self.first_name or pool)}
        return "eks.amazonaws.com/nodegroup", made if self.adopted is None else {self.adopted.name}

    def cloud_labels(self) -> NodeLabels:
        """Return the labels of a managed node group, and those that nodes of Auto Mode alone have.

        https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types,
        https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
        """
        labels = {f"eks.amazonaws.com/{key}": None for key in _AUTO_MODE}
        return {**labels, "eks.amazonaws.com/capacityType": self.capacity_type or "ON_DEMAND", ACCELERATOR_LABEL: None}

    def kept_input(self, field: str, inputs: Iterable[str]) -> str:
        """Name the launch template for what it holds, and for what nodes of Bottlerocket read out of it."""
        boots = field.startswith("sharing") and self.ami_type in BOTTLEROCKET.all_ami_types()
        return "the launch template" if boots or any(path.startswith(TEMPLATE_PREFIXES) for path in inputs) else ""

    def requested_zones(self) -> tuple[str, ...]:
        """Return the pool's zones."""
        return self.zones

    def has_scale_from_zero_resources(self) -> bool:
        """Return True: by tags of the Auto Scaling group (`_scale_from_zero` in declared_inputs.py)."""
        return True

    def requires_gpu_resource(self) -> bool:
        """Return False: such nodes do not get the label of EKS's GPU nodes."""
        return False

    def extra_resources(self) -> Mapping[str, str]:
        """Return the EFA interfaces and the huge pages set aside for them."""
        return self.node_resources

    def pods_per_node(self) -> int | None:
        """Return the setting or what the network interfaces allow."""
        return self.most_pods

    def topology_levels(self, instance_type: str) -> tuple[str, ...]:
        """Return EKS's labels of machines with EFA, where the pool is compact.

        https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html
        """
        if not self.placement_group or not instance_type.startswith(("p4", "p5", "p6")):
            return ()
        return (*(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)), "kubernetes.io/hostname")

    def has_auto_repair(self) -> bool:
        """Say whether EKS replaces nodes that its monitoring agent calls broken."""
        return self.auto_repair

    def may_wait_for_capacity(self) -> bool:
        """Say whether the nodes come out of a Capacity Block, which may begin weeks from now."""
        return self.is_capacity_block

    @property
    def is_capacity_block(self) -> bool:
        """Say whether the nodes come out of a Capacity Block."""
        return self.capacity_type == "CAPACITY_BLOCK"


NO_EFA_ON_FIRST_CARD = frozenset({"p6-b300"})
"""Families whose network card 0 takes an ordinary interface only (EC2's DescribeInstanceTypes, InterfaceTypes of each
network card, as in getmoto/moto moto/ec2/resources/instance_types.json.gz)."""

EFA_CARDS: Mapping[str, tuple[int, ...]] = MappingProxyType({"p6e-gb200": (1, 5, 9, 13)})
"""Network cards with EFA of families that do not have it on each card in turn.

The odd ones of a P6e-GB200's 17 cards take EFA-only interfaces at 400 Gbps, all that a GPU sends through two of them:
one card for each GPU. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html#efa-for-p6e
"""

EFA_RESOURCE = "vpc.amazonaws.com/efa"
"""https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"""

EFA_HUGE_PAGES_MIB = 5120
"""Huge pages that the pods of a node ask for together, as AWS's own example does; the node has 10256 MiB.

https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
"""

_IOPS = 3000
"""What gp3 does without asking (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html); io1
and io2 take no less than a number of their own."""


def build_provider_plan(request: PoolRequest) -> EksPoolPlan:
    """Return image, disks, node settings and labels of a pool that passed all checks."""
    spec, image, architecture = request.spec, node_image(request), request.instance.architecture
    adopt = spec.adopt
    theirs = adopt.launch_template if adopt is not None else None
    capacity, autoscaler = spec.capacity, request.cluster.runtime.existing.cluster_autoscaler
    reserved = capacity.name if isinstance(capacity, Reservation | CapacityBlock) else None
    is_group = reserved is not None and reserved.startswith("arn:")
    interfaces = tuple(_efa_interfaces(request)) if spec.network.rdma else ()
    awaited = request.software != DRA_DRIVER and GPU_RESOURCE in offered_by(request.instance, spec.sharing)
    labels = {ACCELERATOR_LABEL: accelerator_name(request.instance.gpu_model)} if awaited else {}
    if request.software in ("device-plugin", DRA_DRIVER):
        labels[GPU_PRESENT_LABEL] = "true"
    labels |= skypilot_label(request.instance.gpu_model, spec.labels)
    capacity_type = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK"}.get(capacity.mode)
    efas = sum(interface.type is not None for interface in interfaces)
    # The EFA software of Amazon Linux sets 5128 huge pages of 2 MiB aside, and EFA's pods ask for them:
    # https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html.
    pages = {"hugepages-2Mi": f"{5128 * 2}Mi"} if image is AL2023 else {}
    return EksPoolPlan(
        ami_type=(image.fips_ami_types if spec.image.fips else image.ami_types).get(architecture, ""),
        image_id=spec.image.id,
        capacity_type=capacity_type,
        reservation_id=None if is_group else reserved,
        reservation_group_arn=reserved if is_group else None,
        zones=tuple(sorted(set(spec.zones))),
        # What nodes of an adopted group boot with stands in its own launch template.
        volumes=() if adopt is not None else tuple(_volumes(request)),
        user_data="" if adopt is not None else user_data(request),
        interfaces=interfaces,
        security_group_ids=tuple(spec.network.security_group_ids),
        placement_group=spec.network.placement == "compact",
        node_resources={EFA_RESOURCE: str(efas), **pages} if efas else {},
        # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
        node_labels={"eks.amazonaws.com/capacityType": capacity_type} if capacity_type else {},
        autoscaled=spec.nodes.fixed is None,
        autoscaler_reads_group=autoscaler is not None and autoscaler.reads_node_groups,
        imds_hop_limit=spec.security.imds_hop_limit,
        max_unavailable=spec.upgrade.max_unavailable,
        auto_repair=spec.auto_repair,
        tags=spec.tags,
        create_timeout_minutes=spec.timeouts.create_min or 60 + 30 * (spec.nodes.min // 100),
        # EKS gives the pods of each node 15 minutes to leave, then boots another one, as many nodes at a time as may be
        # unavailable: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
        update_timeout_minutes=spec.timeouts.update_min
        or min(60 + 30 * ceil(spec.nodes.max / spec.upgrade.max_unavailable), 24 * 60),
        delete_timeout_minutes=spec.timeouts.delete_min or 90 + 30 * (spec.nodes.max // 100),
        template_id=theirs.id if theirs is not None else None,
        template_version=theirs.version if theirs is not None else None,
        most_pods=_most_pods(request),
        labels=labels,
        owners=_OPERATOR if image is CUSTOM else None,
        fabric=_fabric(request, efas) if efas else None,
    )


def _most_pods(request: PoolRequest) -> int | None:
    """Return the setting, or EKS's own number for its images: by interfaces, and at most 110 below 30 vCPUs, else 250.

    https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
    """
    spec, addresses = request.spec, request.instance.extra.get("max_pods")
    if spec.network.max_pods is not None:
        return spec.network.max_pods
    if not addresses or spec.adopt is not None or node_image(request) is CUSTOM:
        return None
    return min(int(addresses), 110 if (request.instance.vcpus or 0) < 30 else 250)


_OPERATOR = Owners("GPU Operator", "GPU Operator", "GPU Operator")


def _fabric(request: PoolRequest, efas: int) -> Fabric:
    theirs = request.cluster.runtime.existing.rdma_plugin
    pages = EFA_HUGE_PAGES_MIB if node_image(request) is AL2023 else 0
    named = theirs.resource if theirs is not None else None
    return Fabric(devices=efas, resource=named or EFA_RESOURCE, huge_pages_mib=pages)


def _volumes(request: PoolRequest) -> Iterator[Volume]:
    image, disk = node_image(request), request.spec.disk
    if image is CUSTOM:
        return  # its root device has a name only its builder knows
    kind = disk.type or "gp3"
    iops = _IOPS if kind in ("io1", "io2") else None
    if image is BOTTLEROCKET:
        # The operating system is on xvda, too small for another type; images, logs and volumes of pods are on xvdb.
        # https://github.com/bottlerocket-os/bottlerocket#default-volumes, https://github.com/eksctl-io/eksctl/issues/4434
        yield Volume(device="/dev/xvda", gib=None, kms_key=disk.encryption_key)
    device = "/dev/xvdb" if image is BOTTLEROCKET else "/dev/xvda"
    yield Volume(device=device, gib=request.spec.disk_gib, type=kind, iops=iops, kms_key=disk.encryption_key)


def user_data(request: PoolRequest) -> str:
    """Return the user data of the nodes; empty if they need none."""
    image, spec = node_image(request), request.spec
    if image is CUSTOM:
        return ""  # comes from overrides
    kubelet, local_nvme = KubeletSettings.of(spec), spec.disk.local_nvme == "raid0"
    if image is BOTTLEROCKET:
        return bottlerocket_settings(request.instance.gpu_model, spec.sharing, kubelet, local_nvme=local_nvme)
    return al2023_user_data(kubelet, local_nvme=local_nvme)


def _efa_interfaces(request: PoolRequest) -> Iterator[Interface]:
    """Yield the network interfaces: an ordinary one first, then an EFA-only one on every card with EFA.

    The first interface has device index 0 of card 0, so EFA-only is at index 1 there and at 0 on every further card.
    EFA-only interfaces use up no IP addresses.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html,
    https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3653
    """
    kind, count = instance_family(request.instance.name), request.instance.rdma_interfaces or 0
    cards = EFA_CARDS.get(kind, range(1, count + 1) if kind in NO_EFA_ON_FIRST_CARD else range(count))
    yield Interface(card=0, device=0, type=None)
    for card in cards:
        yield Interface(card=card, device=0 if card else 1, type="efa-only")


def accelerator_name(gpu_model: str) -> str:
    """Return the name of a GPU model in Cluster Autoscaler's list of GPU types: `nvidia-tesla-t4`, `nvidia-l40s`.

    The list is in https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/aws_cloud_provider.go;
    models it does not have yet are named alike, which its GPU metrics then count as unknown.
    """
    bare = re.sub(r"-\d+GB$", "", gpu_model).lower()
    return f"nvidia-tesla-{bare}" if bare in ("a100", "k80", "p100", "t4", "v100") else f"nvidia-{bare}"
