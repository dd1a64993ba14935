"""Rejects pools that EKS or its node images cannot run: GPUs, sharing, and settings that exclude each other. Pure."""

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.aws import bootstrap
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_MIG
from gpupools.providers.aws.cluster import EksCluster, other_partition
from gpupools.providers.aws.node_images import (
    AL2023,
    BOTTLEROCKET,
    BOTTLEROCKET_SINCE,
    BY_FAMILY,
    CUSTOM,
    IMAGES,
    RELEASE_OF_FAMILY,
    ULTRASERVER_FAMILIES,
    instance_family,
    node_image,
)
from gpupools.providers.aws.pool_plan import TEMPLATE_PREFIXES, user_data
from gpupools.providers.aws.pool_settings import (
    FORBIDDEN,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    OUR_TAGS,
    PLACEMENT_GROUP,
    VOLUME_TYPES,
)
from gpupools.spec.models import Late
from gpupools.spec.overrides import override_problems, value_at
from gpupools.spec.pool_options import KUBELET_KEYS, CapacityBlock, Reservation, given_settings

_ULTRASERVER_PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html"
_NODE_GROUP_API = "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html"
_TAINT_API = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html"
_AUTOSCALER_TAGS = "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md"
_TAG_LIMITS = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html"

KEY_LIMIT = 63
"""Most characters of a label's or taint's key in the EKS API (botocore, data/eks, shapes labelKey and taintKey)."""

TAG_LIMIT = 20
"""Labels and taints a pool may add: an Auto Scaling group holds 50 tags, of which EKS and this tool need the rest.

"The maximum number of tags per resource is 50" (2026-11-22):
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
"""

_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide"
_TEMPLATES = f"{_GUIDE}/launch-templates.html"
_CAPACITY_TYPES = f"{_GUIDE}/managed-node-groups.html#managed-node-group-capacity-types"
_CAPACITY_BLOCKS = f"{_GUIDE}/capacity-blocks-mng.html"
_EFA = f"{_GUIDE}/node-efa.html"
_TARGET = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservationTarget.html"
_PLACEMENT = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html"
_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"
_VOLUMES = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html"
_EBS_KEY = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html"
_PUBLIC = "https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html"
_EFA_CARDS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"
_SECURITY_GROUPS = f"{_GUIDE}/sec-group-reqs.html"
_RESERVED_PLACEMENT = "https://github.com/terraform-aws-modules/terraform-aws-eks/pull/3730"
_DISK_ENCRYPTION = "https://docs.aws.amazon.com/eks/latest/best-practices/data-encryption-and-secrets-management.html"
_MAX_UNAVAILABLE = "https://github.com/hashicorp/terraform-provider-aws/issues/26535"
_AMI_RELEASES = "https://github.com/awslabs/amazon-eks-ami/issues/2768"
_BOTTLEROCKET_RELEASES = "https://github.com/bottlerocket-os/bottlerocket/blob/develop/CHANGELOG.md"
_TAGS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions"
_EKS_TAGS = "https://docs.aws.amazon.com/eks/latest/APIReference/API_TagResource.html"
_GRID = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/install-gpu-operator-vgpu.html"

CAPACITY_BLOCK_FAMILIES = frozenset({"p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300"} | ULTRASERVER_FAMILIES)
"""Families with the usage class `capacity-block` in EC2's DescribeInstanceTypes, as in getmoto/moto
moto/ec2/resources/instance_types.json.gz, and the UltraServers
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html)."""

_MOST_TAGS = 50 - len(OUR_TAGS) - 1
_TAG_KEY, _TAG_VALUE = 128, 256
_NO_TOML = "https://github.com/hashicorp/learn-terraform-provision-eks-cluster/issues/79"
_PRIVATE = (False, "false", "")


def check_settings(request: PoolRequest) -> list[Problem]:
    """Return the settings that EKS rejects, alone, together, or with the pool's instance type."""
    found = [
        *_capacity_block_only(request),
        *_labels_and_taints(request),
        *_adoption(request),
        *_image(request),
        *_capacity(request),
        *_zones(request),
        *_disk(request),
        *_network(request),
        *_upgrade(request),
        *_image_release(request),
        *_tags(request),
        *_overrides(request),
    ]
    return found if found or check_pool(request) or request.spec.adopt is not None else list(_user_data_size(request))


def _adoption(request: PoolRequest) -> Iterator[Problem]:
    """Reject an invalid node group name, a cluster name that is not known yet, and settings of the launch template."""
    spec = request.spec
    if spec.adopt is None:
        return
    if not re.fullmatch(_GROUP_NAME, spec.adopt.name):
        what = f"{shown(spec.adopt.name)} is not a node group name: up to 63 letters, digits, '-' and '_'"
        fix = "use a name that aws eks list-nodegroups prints"
        yield Problem(("adopt", "name"), what, fix, _NODE_GROUP_API)
    if not isinstance(request.cluster_as(EksCluster).name, str):
        what = "importing a node group needs the cluster's name before the program runs"
        yield Problem(("adopt", "name"), what, "write the cluster's name as text")
    for index, kept in enumerate(spec.adopt.keep):
        if kept.startswith(TEMPLATE_PREFIXES):
            what = f"{kept} is in the launch template, which gpupools does not change for an adopted node group"
            yield Problem(("adopt", "keep", index), what, "leave it out")
    written = [(name, path) for name, path in given_settings(spec).items() if name in _TEMPLATE_SETTINGS]
    written += [("disk_gib", ("disk_gib",))] if "disk_gib" in spec.model_fields_set else []
    by_hand = spec.overrides.get("aws", {})
    written += [(key, ("overrides", "aws", key)) for key in by_hand if f"{key}.".startswith(TEMPLATE_PREFIXES)]
    for name, path in written:
        what = f"{name} is in the launch template, which gpupools does not change for an adopted node group"
        fix = "leave it out, or set it in a new template version and set adopt.launch_template.version"
        yield Problem(path, what, fix, _TEMPLATES)


# https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
_GROUP_NAME = r"[0-9A-Za-z][0-9A-Za-z_-]{0,62}"

_TEMPLATE_SETTINGS = frozenset(
    {"capacity.reservation", "disk.type", "disk.encryption_key", "disk.local_nvme", *KUBELET_KEYS.values()}
    | {"network.placement", "network.security_group_ids", "security.imds_hop_limit"}
)
"""Settings of the launch template only. Sharing, Capacity Blocks, EFA and custom images also concern the pods."""


def _user_data_size(request: PoolRequest) -> Iterator[Problem]:
    """Reject settings whose user data is larger than EC2 allows; user data in overrides has its own check."""
    size = len(user_data(request).encode())
    if size > bootstrap.MOST_USER_DATA:
        key = "disk" if request.spec.disk.local_nvme is not None else "network"
        yield _user_data_too_large((key,), size)


def _capacity_block_only(request: PoolRequest) -> Iterator[Problem]:
    if (
        instance_family(request.instance.name) in ULTRASERVER_FAMILIES
        and request.spec.capacity.mode != "capacity-block"
    ):
        what = f"EC2 offers {request.instance.name} only in Capacity Blocks"
        fix = "add capacity: {mode: capacity-block, name: cr-…}, or choose an on-demand instance type"
        yield Problem(_machine_key(request), what, fix, _ULTRASERVER_PAGE)


def _labels_and_taints(request: PoolRequest) -> Iterator[Problem]:
    spec = request.spec
    given = spec.overrides.get("aws", {}).get("NodeGroup", {}).get("labels")
    by_hand = given if isinstance(given, Mapping) else {}
    labels = {key: value for key, value in {**spec.labels, **by_hand}.items() if value is not None}
    for key, value in labels.items():
        where = (*(("overrides", "aws", "NodeGroup") if key in by_hand else ()), "labels", key)
        if len(str(key)) > KEY_LIMIT:
            what = f"has {len(str(key))} characters; EKS allows {KEY_LIMIT}"
            yield Problem(where, what, "shorten the key", _NODE_GROUP_API)
        if value == "":
            what = "is empty; EKS rejects labels without a value"
            yield Problem(where, what, "set a value", _NODE_GROUP_API)
    for index, taint in enumerate(spec.taints):
        if len(taint.key) > KEY_LIMIT:
            what = f"the key has {len(taint.key)} characters; EKS allows {KEY_LIMIT}"
            yield Problem(("taints", index), what, "shorten the key", _TAINT_API)
    yield from _one_effect_per_key(request)
    wanted = len(labels) + len(spec.taints)
    if wanted > TAG_LIMIT:
        what = f"got {wanted} labels and taints; the Auto Scaling group has tags left for {TAG_LIMIT}"
        fix = f"use {TAG_LIMIT} or fewer; without their tags the pool cannot scale from zero"
        yield Problem(("labels",), what, fix, _TAG_LIMITS)


def _one_effect_per_key(request: PoolRequest) -> Iterable[Problem]:
    """Reject a second taint with the same key: Cluster Autoscaler reads taints from tags, one per key."""
    seen = {GPU_TAINT.key: GPU_TAINT}
    for index, taint in enumerate(request.spec.taints):
        if seen.setdefault(taint.key, taint) != taint:
            what = f"{taint} is the second taint with the key {taint.key}; Cluster Autoscaler's tags allow one per key"
            yield Problem(("taints", index), what, "use another key", _AUTOSCALER_TAGS)


def _image(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("image",)
    named, image, software = spec.image.family, node_image(request), request.software
    if named is not None and named not in BY_FAMILY:
        what = f"EKS has no AMI type for {named}"
        fix = "use al2023, bottlerocket, or custom with image.id"
        yield Problem((*at, "family"), what, fix, _AMI_TYPES)
        return
    if image is AL2023 and software == "cloud-managed":
        what = "al2023 has no device plugin, and software: cloud-managed uses that of the image"
        fix = "use family: bottlerocket, or software: device-plugin or gpu-operator"
        yield Problem((*at, "family"), what, fix, f"{_GUIDE}/ml-eks-optimized-ami.html")
    if image is BOTTLEROCKET and software != "cloud-managed":
        second = "owner of the GPUs" if software == "dra-driver" else "one"
        what = f"bottlerocket has its own device plugin; software: {software} would add a second {second}"
        fix = "use software: cloud-managed, or family: al2023"
        yield Problem((*at, "family"), what, fix, f"{_GUIDE}/ml-eks-optimized-ami.html")
    if spec.image.fips and image is not BOTTLEROCKET:
        of = "a custom image" if image is CUSTOM else f"{image.name}, the image for software: {software}"
        fix = "leave fips out" if image is CUSTOM else "use software: cloud-managed, whose Bottlerocket image has one"
        yield Problem((*at, "fips"), f"EKS has no FIPS variant of {of}", fix, _AMI_TYPES)
    if image is CUSTOM:
        yield from _custom_image(request)


def _custom_image(request: PoolRequest) -> Iterator[Problem]:
    spec = request.spec
    if not re.fullmatch(r"ami-[0-9a-f]{8,17}", spec.image.id or ""):
        what = f"{shown(spec.image.id)} is not an AMI id"
        yield Problem(("image", "id"), what, "use an id such as ami-0a1b2c3d4e5f60718", _TEMPLATES)
    if request.software != "gpu-operator":
        what = f"software: {request.software} does not work with image.id, which may have no driver or device plugin"
        yield Problem(("image", "id"), what, "use software: gpu-operator", _TEMPLATES)
    if request.instance.is_fraction:
        what = f"{request.instance.name} needs NVIDIA's GRID driver, which the GPU Operator does not install"
        yield Problem(("image", "id"), what, "leave image out; the EKS images have this driver", _GRID)
    if spec.adopt is not None:
        return  # its disks and how it joins are in a launch template that is there
    from gpupools.providers.aws.user_data import registers_gpu_taint  # only custom images need it

    by_hand = spec.overrides.get("aws", {}).get("LaunchTemplate", {})
    # With an AMI id EKS adds taints only after a node has joined: `launch-templates.html`, "Specifying an AMI".
    if _is_base64(by_hand.get("userData")) and not registers_gpu_taint(by_hand["userData"]):
        what = "of a custom image lets nodes join without the GPU taint; EKS adds it only later"
        fix = f"start kubelet with --register-with-taints={GPU_TAINT}"
        yield Problem(("overrides", "aws", "LaunchTemplate", "userData"), what, fix, _TEMPLATES)
    for key, why in (
        ("userData", "EKS does not add the user data with which a custom image joins the cluster"),
        ("blockDeviceMappings", "the root device of a custom image is not known"),
    ):
        if not by_hand.get(key):
            fix = f"set overrides: {{aws: {{LaunchTemplate: {{{key}: …}}}}}}"
            yield Problem(("image", "id"), f"{key} is missing; {why}", fix, _TEMPLATES)
    for path, given in (
        (("disk", "type"), spec.disk.type),
        (("disk", "encryption_key"), spec.disk.encryption_key),
        (("disk", "local_nvme"), spec.disk.local_nvme),
        *((tuple(key.split(".")), attrgetter(key)(spec)) for key in KUBELET_KEYS.values()),
        (("disk_gib",), spec.disk_gib if "disk_gib" in spec.model_fields_set else None),
    ):
        if given is not None:
            where = (
                "blockDeviceMappings"
                if path in (("disk_gib",), ("disk", "type"), ("disk", "encryption_key"))
                else "userData"
            )
            what = f"cannot be combined with image.id, whose {where} comes from overrides"
            yield Problem(path, what, f"set it in overrides.aws.LaunchTemplate.{where}", _TEMPLATES)


def _capacity(request: PoolRequest) -> Iterator[Problem]:
    spec = request.spec
    capacity, nodes, machine = spec.capacity, spec.nodes, request.instance
    if capacity.mode == "spot" and nodes.fixed is not None:
        what = "capacity.mode: spot cannot keep a fixed number of nodes: EC2 reclaims spot instances"
        yield Problem(("nodes", "fixed"), what, "set nodes.min and max, or another capacity.mode", _CAPACITY_TYPES)
    if isinstance(capacity, CapacityBlock):
        if instance_family(machine.name) not in CAPACITY_BLOCK_FAMILIES:
            what = f"EC2 has no Capacity Blocks for {machine.name}"
            fix = f"choose a type of {', '.join(sorted(CAPACITY_BLOCK_FAMILIES))}, or use mode: reservation"
            yield Problem(("capacity", "mode"), what, fix, _CAPACITY_BLOCKS)
        if nodes.min > 0:
            key = "fixed" if nodes.fixed is not None else "min"
            what = (
                f"got {key} {nodes.min} with capacity.mode: capacity-block: no node can start before the block starts,"
                " and EKS empties the pool 40 minutes before it ends"
            )
            yield Problem(("nodes", key), what, "set nodes.min: 0 and nodes.max", _CAPACITY_BLOCKS)
    if isinstance(capacity, Reservation | CapacityBlock):
        region = request.cluster_as(EksCluster).region
        arn = re.fullmatch(r"arn:aws[a-z-]*:resource-groups:([a-z0-9-]+):\d{12}:group/.+", capacity.name)
        is_group = isinstance(capacity, Reservation) and arn is not None
        if not is_group and not re.fullmatch(r"cr-[0-9a-f]{8,17}", capacity.name):
            what = f"{shown(capacity.name)} is not the id of a capacity reservation"
            fix = "use an id such as cr-…" + (
                "" if isinstance(capacity, CapacityBlock) else ", or a resource group's ARN"
            )
            yield Problem(("capacity", "name"), what, fix, _TARGET)
        elif is_group and arn is not None and arn[1] != region:
            what = f"the resource group is in {arn[1]}, but the cluster is in {region}"
            yield Problem(("capacity", "name"), what, f"use a resource group in {region}", _TARGET)
        elif is_group and (wrong := other_partition(capacity.name, region)):
            yield Problem(("capacity", "name"), *wrong, _TARGET)
        if not is_group:
            yield from _one_zone(request, ("capacity", "name"), "a capacity reservation", _TARGET)


def _zones(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("zones",)
    by_zone = request.cluster_as(EksCluster).subnets_by_zone
    if spec.zones and by_zone is None:
        what = "subnets decide the zones of a node group, and the cluster's subnet_ids do not name their zones"
        yield Problem(at, what, "replace subnet_ids with subnets_by_zone: {zone: [subnet-…]}", _NODE_GROUP_API)
        return
    region = request.cluster_as(EksCluster).region
    for index, zone in enumerate(spec.zones):
        if by_zone is not None and zone not in by_zone:
            there = zone.startswith(region) and zone != region
            what = f"the cluster has no subnet in {shown(zone)}" if there else f"{shown(zone)} is not in {region}"
            yield Problem((*at, index), what, nearest(zone, by_zone), _NODE_GROUP_API)


def _one_zone(request: PoolRequest, setting: Path, what: str, source: str) -> Iterator[Problem]:
    """Reject a setting that needs one zone for a pool that has, or may have, several."""
    by_zone = request.cluster_as(EksCluster).subnets_by_zone
    if by_zone is not None:
        zones = list(dict.fromkeys(request.spec.zones or by_zone))
        if len(zones) > 1:
            key = "zones" if request.spec.zones else "the cluster's subnets_by_zone"
            found = f"{what} is limited to one zone, but {key} has {' and '.join(zones)}"
            yield Problem(setting, found, f"set zones: [{zones[0]}]", source)
        return
    subnets = request.cluster_as(EksCluster).subnet_ids
    if not isinstance(subnets, list) or len(subnets) != 1:
        found = f"{what} is limited to one zone, but the cluster's subnet_ids do not name their zones"
        fix = "set subnets_by_zone of the cluster and one zone in zones, or use a cluster with one subnet"
        yield Problem(setting, found, fix, source)


def _disk(request: PoolRequest) -> Iterator[Problem]:
    disk, at, machine = request.spec.disk, ("disk",), request.instance
    if disk.type is not None and disk.type not in VOLUME_TYPES:
        what = f"{shown(disk.type)} is not an EBS volume type that nodes can boot from"
        yield Problem((*at, "type"), what, nearest(disk.type, VOLUME_TYPES), _VOLUMES)
    if disk.encryption_key is not None:
        arn = re.fullmatch(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):\d{12}:(?:key|alias)/.+", disk.encryption_key)
        region = request.cluster_as(EksCluster).region
        if arn is None:
            what = f"{shown(disk.encryption_key)} is not the ARN of a KMS key"
            yield Problem((*at, "encryption_key"), what, "use arn:aws:kms:<region>:<account>:key/<id>", _EBS_KEY)
        elif arn[1] != region:
            what = f"the KMS key is in {arn[1]}, but the cluster is in {region}"
            yield Problem((*at, "encryption_key"), what, f"use a key in {region}", _EBS_KEY)
        elif wrong := other_partition(disk.encryption_key, region):
            yield Problem((*at, "encryption_key"), *wrong, _EBS_KEY)
    if disk.local_nvme == "raid0" and machine.local_disk_gb == 0:
        what = f"raid0 needs local NVMe disks, which {machine.name} does not have"
        yield Problem((*at, "local_nvme"), what, "leave it out, or choose a type with local disks", machine.source)


def _network(request: PoolRequest) -> Iterator[Problem]:
    network, at, machine = request.spec.network, ("network",), request.instance
    if network.rdma:
        if machine.rdma != "efa":
            what = f"rdma needs EFA, which {machine.name} does not support"
            yield Problem((*at, "rdma"), what, "leave it out, or choose a type with EFA", machine.source)
        elif not machine.rdma_interfaces:
            what = f"rdma needs EFA on each card of {machine.name}, and AWS does not document which cards support it"
            fix = "leave it out and set overrides: {aws: {LaunchTemplate: {networkInterfaces: […]}}}"
            yield Problem((*at, "rdma"), what, fix, _EFA_CARDS)
        else:
            yield from _one_zone(request, ("network", "rdma"), "EFA traffic", _EFA)
        if not network.security_group_ids:
            what = "rdma needs security_group_ids: EFA needs a group that allows all traffic from and to itself"
            fix = "set security_group_ids; the cluster's own security group (eks-cluster-sg-…) has these rules"
            yield Problem((*at, "rdma"), what, fix, _SECURITY_GROUPS)
    for index, group in enumerate(network.security_group_ids):
        if not re.fullmatch(r"sg-[0-9a-f]{8,17}", group):
            what = f"{shown(group)} is not a security group id"
            yield Problem((*at, "security_group_ids", index), what, "use e.g. sg-0a1b2c3d4e5f60718", _TEMPLATES)
    if network.placement == "compact":
        mode = request.spec.capacity.mode
        if mode in ("reservation", "capacity-block"):
            what = f"capacity.mode: {mode} excludes placement: compact: reserved machines are in no group of this pool"
            fix = "leave placement out; if the reservation is in a placement group, set overrides.aws.LaunchTemplate"
            yield Problem((*at, "placement"), what, f"{fix}.placement", _RESERVED_PLACEMENT)
        yield from _one_zone(request, ("network", "placement"), "placement: compact", _PLACEMENT)


def _upgrade(request: PoolRequest) -> Iterator[Problem]:
    """Reject a max_unavailable above the maximum of nodes: EKS rejects maxUnavailable above maxSize."""
    spec, key = request.spec, "fixed" if request.spec.nodes.fixed is not None else "max"
    by_hand = ("overrides", "aws", "NodeGroup", "updateConfig", "maxUnavailable")
    for path, given in (
        (("upgrade", "max_unavailable"), spec.upgrade.max_unavailable),
        (by_hand, value_at(spec.overrides, *by_hand[1:])),
    ):
        if isinstance(given, int) and given > spec.nodes.max:
            what = f"got {given}; EKS allows at most nodes.{key}, which is {spec.nodes.max}"
            yield Problem(path, what, f"use {spec.nodes.max} or less", _MAX_UNAVAILABLE)


def _image_release(request: PoolRequest) -> Iterator[Problem]:
    """Reject an AMI release in overrides that is older than the instance type or the settings need."""
    given = value_at(request.spec.overrides, "aws", "NodeGroup", "releaseVersion")
    where = ("overrides", "aws", "NodeGroup", "releaseVersion")
    image, needed = node_image(request), RELEASE_OF_FAMILY.get(instance_family(request.instance.name), 0)
    if image is AL2023:
        # 1.34.1-20260917
        dated = re.search(r"-(\d{8})$", str(given or ""))
        if dated and int(dated[1]) < needed:
            what = f"{given} has no driver for {request.instance.name}; AL2023 has one since v{needed}"
            yield Problem(where, what, f"use release {needed} or later, or leave it out", _AMI_RELEASES)
    if image is BOTTLEROCKET:
        # 1.54.0-5043decc
        pinned = re.match(r"v?(\d+)\.(\d+)\.", str(given or ""))
        if pinned is None:
            return
        for key in _bottlerocket_settings(request):
            least = BOTTLEROCKET_SINCE[key]
            if (int(pinned[1]), int(pinned[2])) < least:
                what = f"{given} does not support {key}; Bottlerocket does since {least[0]}.{least[1]}"
                yield Problem(where, what, "use a later release, or leave it out", _BOTTLEROCKET_RELEASES)


def _bottlerocket_settings(request: PoolRequest) -> list[str]:
    sharing = request.spec.sharing
    modes = dict.fromkeys([sharing.mode, *([sharing.clients.mode] if sharing.clients else [])])
    wanted = [f"sharing.mode: {mode}" for mode in modes] + [f"disk.local_nvme: {request.spec.disk.local_nvme}"]
    return [key for key in wanted if key in BOTTLEROCKET_SINCE]


def _tags(request: PoolRequest) -> Iterator[Problem]:
    tags, at = request.spec.tags, ("tags",)
    for key, value in tags.items():
        if key in OUR_TAGS:
            yield Problem((*at, key), "is set by gpupools on every pool", "leave it out")
        yield from _tag_problems(at, key, value)
    yield from _too_many_tags(at, tags)


def _tag_overrides(request: PoolRequest, at: Path, resources: Mapping[str, JsonObject]) -> Iterator[Problem]:
    """Check tags in overrides by the same rules; those of `tagSpecifications` replace the pool's own."""
    for name, inputs in resources.items():
        tags = inputs.get("tags")
        if isinstance(tags, Mapping):
            given = {key: value for key, value in tags.items() if value is not None and key not in OUR_TAGS}
            for key, value in given.items():
                yield from _tag_problems((*at, name, "tags"), key, value)
            yield from _too_many_tags((*at, name, "tags"), {**request.spec.tags, **given})
        listed = inputs.get("tagSpecifications")
        for index, specification in enumerate(listed if isinstance(listed, list) else []):
            tags = specification.get("tags") if isinstance(specification, Mapping) else None
            where = (*at, name, "tagSpecifications", index, "tags")
            for key, value in tags.items() if isinstance(tags, Mapping) else ():
                yield from _tag_problems(where, key, value)


def _tag_problems(at: Path, key: object, value: object) -> Iterator[Problem]:
    if not isinstance(key, str) or not isinstance(value, str):
        return  # the types of overrides are checked with those of all inputs
    if key.casefold().startswith("aws:"):
        yield Problem((*at, key), "AWS reserves keys that start with aws:", "use another key", _TAGS)
    elif not 1 <= len(key) <= _TAG_KEY or not _is_tag(key):
        what = f"is not a tag key: 1 to {_TAG_KEY} letters, digits, spaces and + - = . _ : / @"
        yield Problem((*at, key), what, "use another key", _TAGS)
    if value.casefold().startswith("aws:"):
        yield Problem((*at, key), "EKS rejects values that start with aws:", "use another value", _EKS_TAGS)
    elif len(value) > _TAG_VALUE or not _is_tag(value):
        what = f"{shown(value)} is not a tag value: up to {_TAG_VALUE} letters, digits, spaces and + - = . _ : / @"
        yield Problem((*at, key), what, "use another value", _TAGS)


def _is_tag(text: str) -> bool:
    """Return whether EC2 accepts the characters: letters and digits of any script, spaces, but no line break."""
    return all(character in " _.:/=+-@" or unicodedata.category(character)[0] in "LN" for character in text)


def _too_many_tags(at: Path, tags: Mapping[str, object]) -> Iterator[Problem]:
    if len(tags) > _MOST_TAGS:
        what = f"got {len(tags)} tags; EC2 allows 50, of which gpupools uses {50 - _MOST_TAGS}"
        yield Problem(at, what, f"use {_MOST_TAGS} or fewer", _TAGS)


def _subnet_overrides(request: PoolRequest, group: Mapping[str, object]) -> Iterator[Problem]:
    """Reject subnets in overrides that are no subnets, or that are combined with zones."""
    if "subnetIds" not in group:
        return
    subnets, path = group["subnetIds"], ("overrides", "aws", "NodeGroup", "subnetIds")
    if not subnets or (isinstance(subnets, list) and not all(subnets)):
        yield Problem(path, f"got {shown(subnets)}", "write a list of at least one subnet: [subnet-…]")
    if request.spec.zones:
        what = "cannot be combined with zones, which select subnets of the cluster"
        yield Problem(path, what, "leave zones out; each subnet is in one zone")


def _overrides(request: PoolRequest) -> Iterator[Problem]:
    spec = request.spec
    overrides = spec.overrides.get("aws", {})
    declared = {"NodeGroup": NODE_GROUP, "LaunchTemplate": LAUNCH_TEMPLATE}
    if spec.network.placement == "compact":
        declared["PlacementGroup"] = PLACEMENT_GROUP
    yield from override_problems((), overrides, "aws", declared)
    tagged = {name: inputs for name, inputs in overrides.items() if name in declared}
    yield from _tag_overrides(request, ("overrides", "aws"), tagged)
    if "nodeRoleArn" in overrides.get("NodeGroup", {}) and overrides["NodeGroup"]["nodeRoleArn"] is None:
        what = "cannot be null: every node group needs a role"
        yield Problem(("overrides", "aws", "NodeGroup", "nodeRoleArn"), what, "leave it out, or name a role", "")
    yield from _subnet_overrides(request, overrides.get("NodeGroup", {}))
    template = overrides.get("LaunchTemplate", {})
    where: Path = ("overrides", "aws", "LaunchTemplate")
    yield from _disk_overrides(request, where, template)
    yield from _interface_overrides(request, where, template)
    script = template.get("userData")
    if isinstance(script, Late):
        pass  # rejected like every secret in overrides
    elif script and not _is_base64(script):
        what = "is not base64"
        yield Problem((*where, "userData"), what, "encode it with base64 -w0", _TEMPLATES)
    elif script:
        yield from _user_data_overrides(request, (*where, "userData"), script)
    if "userData" in template and node_image(request) is not CUSTOM:
        for key, given in (
            ("sharing", spec.sharing.kind != "none" and node_image(request) is BOTTLEROCKET),
            *((key, attrgetter(key)(spec) is not None) for key in KUBELET_KEYS.values()),
            ("disk.local_nvme", spec.disk.local_nvme == "raid0"),
        ):
            if given:
                what = f"would replace the user data for {key}"
                yield Problem((*where, "userData"), what, f"remove it or {key}", _TEMPLATES)


def _interface_overrides(request: PoolRequest, where: Path, template: Mapping[str, object]) -> Iterator[Problem]:
    """Reject interfaces with subnets or public addresses, and security groups combined with interfaces."""
    network, interfaces = request.spec.network, template.get("networkInterfaces")
    for index, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
        at = (*where, "networkInterfaces", index)
        if isinstance(interface, Mapping) and "subnetId" in interface:
            yield Problem((*at, "subnetId"), FORBIDDEN, "use zones, or the cluster's subnets", _TEMPLATES)
        if isinstance(interface, Mapping) and interface.get("associatePublicIpAddress") not in (None, *_PRIVATE):
            what = "would give the nodes public addresses; nodes of every pool are private"
            fix = 'write "false"; nodes pull images through a NAT gateway or VPC endpoints'
            yield Problem((*at, "associatePublicIpAddress"), what, fix, _PUBLIC)
    ours = network.security_group_ids
    if interfaces and not network.rdma and (ours or "vpcSecurityGroupIds" in template):
        key = "network.security_group_ids" if ours else "vpcSecurityGroupIds"
        what = f"cannot be combined with {key}: EC2 accepts security groups of the instance or its interfaces, not both"
        fix = f"remove {key}, and set the groups on each interface"
        yield Problem((*where, "networkInterfaces"), what, fix, _TEMPLATES)
    if network.rdma and "vpcSecurityGroupIds" in template:
        what = "cannot be combined with network.rdma, whose interfaces have their own security groups"
        yield Problem((*where, "vpcSecurityGroupIds"), what, "use network.security_group_ids", _TEMPLATES)


def _disk_overrides(request: PoolRequest, where: Path, template: Mapping[str, object]) -> Iterator[Problem]:
    """Reject unencrypted disks in overrides."""
    disks = template.get("blockDeviceMappings", [{}])
    if not disks and node_image(request) is not CUSTOM:
        what = "would remove the encrypted disks"
        yield Problem((*where, "blockDeviceMappings"), what, "leave it out, or list encrypted disks", _EBS_KEY)
    for index, disk in enumerate(disks if isinstance(disks, list) else []):
        ebs = disk.get("ebs") if isinstance(disk, Mapping) else None
        if isinstance(ebs, Mapping) and ebs.get("encrypted") not in (True, "true"):
            path = (*where, "blockDeviceMappings", index, "ebs", "encrypted")
            what = "is not true; images, logs and pod volumes are on this disk"
            yield Problem(path, what, 'set encrypted: "true"', _DISK_ENCRYPTION)


def _user_data_overrides(request: PoolRequest, at: Path, script: str) -> Iterator[Problem]:
    """Reject user data that EC2 rejects, or that EKS cannot merge, so that no node would join."""
    # Only pools with user data of their own need the checks.
    from gpupools.providers.aws.user_data import is_mime, mentions_taints, toml_error

    raw, image = b64decode(script.replace("\n", "")), node_image(request)
    if len(raw) > bootstrap.MOST_USER_DATA:
        yield _user_data_too_large(at, len(raw))
        return
    fault = toml_error(raw) if image is BOTTLEROCKET else ""
    if image is AL2023 and not is_mime(raw):
        what = "is not multipart MIME; EKS merges no other format into the user data of Amazon Linux 2023"
        fix = "write it as multipart/mixed: scripts as text/x-shellscript, NodeConfig as application/node.eks.aws"
        yield Problem(at, what, fix, f"{_TEMPLATES}#launch-template-user-data")
    elif fault:
        yield Problem(at, f"is not TOML that EKS can merge for Bottlerocket: {fault}", "write settings", _NO_TOML)
    if image is not CUSTOM and mentions_taints(script):
        what = "sets taints, which belong to the taints of the pool"
        yield Problem(at, what, "use the pool's taints; gpupools adds the GPU taint", _TEMPLATES)


def _user_data_too_large(at: Path, size: int) -> Problem:
    """Return the problem of user data that is larger than EC2 allows."""
    what = f"has {size} bytes; EC2 allows {bootstrap.MOST_USER_DATA} (before base64, including what EKS adds)"
    fix = "download large files when the node starts, or build them into a custom image"
    return Problem(at, what, fix, "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html")


def _is_base64(given: object) -> bool:
    try:
        return bool(b64decode(given.replace("\n", ""), validate=True)) if isinstance(given, str) else False
    except ValueError:
        return False


_IMAGES_PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_MIG_MANAGER = "https://github.com/bottlerocket-os/bottlerocket-kernel-kit/tree/develop/sources/nvidia-migmanager"


def check_pool(request: PoolRequest) -> list[Problem]:
    """Reject GPUs for which the node image has no driver, or that it cannot cut, beyond the capability matrix."""
    return [*_machine(request), *_bottlerocket_mig(request)]


def _machine_key(request: PoolRequest) -> Path:
    """Return the path of the key that selects the instance type."""
    return ("gpu" if request.spec.instance_type is None else "instance_type",)


def _machine(request: PoolRequest) -> Iterator[Problem]:
    machine, kind, image = request.instance, instance_family(request.instance.name), node_image(request)
    path = _machine_key(request)
    if kind in ULTRASERVER_FAMILIES and request.spec.sharing.mig is not None and image is not CUSTOM:
        what = f"EKS images run the {machine.gpu_model} of {machine.name} in CDMM mode, which does not support MIG"
        yield Problem(("sharing", "mode"), what, "use whole GPUs", _ULTRASERVER_PAGE)
    if image is not CUSTOM and kind not in image.families[machine.architecture]:
        what = f"the EKS image {image.name} has no driver for the {machine.gpu_model} of {machine.name}"
        names = ("cloud-managed", "device-plugin", "gpu-operator", "dra-driver")
        ways = [name for name in names if kind in IMAGES[name].families[machine.architecture]]
        if ways:
            yield Problem(path, what, f"use software: {' or '.join(ways)}", _IMAGES_PAGE)
        else:
            what = f"{what} ({machine.kubernetes.rstrip('.')})"
            yield Problem(path, what, "choose a type of another family", _IMAGES_PAGE)


def _bottlerocket_mig(request: PoolRequest) -> Iterator[Problem]:
    sharing, model = request.spec.sharing.mig, request.instance.gpu_model
    if node_image(request) is not BOTTLEROCKET or sharing is None:
        return
    if instance_family(request.instance.name) in ULTRASERVER_FAMILIES:
        return  # no image can cut these; `_machine` says so
    at = ("sharing",)
    if model not in BOTTLEROCKET_MIG:
        what = f"Bottlerocket's MIG manager does not support the {model} of {request.instance.name}"
        yield Problem((*at, "mode"), what, "use software: gpu-operator", _MIG_MANAGER)
    elif sharing.profile is None:
        what = "Bottlerocket cuts every GPU into slices of one profile and does not support layouts"
        yield Problem((*at, "layout"), what, "set profile instead, or use software: gpu-operator", _MIG_MANAGER)
    elif sharing.profile not in BOTTLEROCKET_MIG[model][1]:
        what = f"Bottlerocket accepts {sharing.profile} for an {model} but does not cut the GPU"
        fix = f"use {', '.join(BOTTLEROCKET_MIG[model][1])}, or software: gpu-operator"
        yield Problem((*at, "profile"), what, fix, _MIG_MANAGER)
