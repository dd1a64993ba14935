"""Which settings of a pool EKS takes not, or not together, or not with the pool's machine. Pure."""

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping

from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.provider_plan import PoolRequest
from gpupools.providers.aws import bootstrap
from gpupools.providers.aws.cluster import EksCluster
from gpupools.providers.aws.node_images import (
    AL2023,
    BOTTLEROCKET,
    BOTTLEROCKET_SINCE,
    BY_FAMILY,
    OWN,
    RELEASE_OF_FAMILY,
    ULTRASERVER_FAMILIES,
    family,
    image_of,
)
from gpupools.providers.aws.pool_plan import IN_THE_TEMPLATE, at_machine, check_pool, user_data
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
from gpupools.spec.pool_options import CapacityBlock, Reservation, given_settings

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
    """Refuse settings that EKS does not take, or not together, or not with the pool's machine."""
    found = [
        *_only_in_blocks(request),
        *_names(request),
        *_pods(request),
        *_adoption(request),
        *_image(request),
        *_capacity(request),
        *_zones(request),
        *_disk(request),
        *_network(request),
        *_upgrade(request),
        *_pinned_image(request),
        *_tags(request),
        *_set_by_hand(request),
    ]
    return found if found or check_pool(request) or request.spec.adopt is not None else list(_too_much_to_boot(request))


def _adoption(request: PoolRequest) -> Iterator[Problem]:
    """Refuse a name that no node group can have, a cluster without a known name, and what only a template could do."""
    spec, at = request.spec, ("pools", request.name)
    if spec.adopt is None:
        return
    if not re.fullmatch(_GROUP_NAME, spec.adopt.name):
        what = f"got {shown(spec.adopt.name)}; a node group is named with 63 letters, digits, '-' and '_'"
        fix = "write the name that aws eks list-nodegroups shows"
        yield Problem((*at, "adopt", "name"), what, fix, _NODE_GROUP_API)
    if not isinstance(_cluster(request).name, str):
        what = "the node group's id has the cluster's name, which is not known before the program runs"
        yield Problem((*at, "adopt", "name"), what, "write it in the cluster as text")
    for index, kept in enumerate(spec.adopt.keep):
        if kept.startswith(IN_THE_TEMPLATE):
            what = f"{kept} stays in any case: the launch template stays with who made it"
            yield Problem((*at, "adopt", "keep", index), what, "leave it out")
    written = [(name, path) for name, path in given_settings(spec).items() if name in _OF_MACHINES]
    written += [("disk_gib", ("disk_gib",))] if "disk_gib" in spec.model_fields_set else []
    by_hand = spec.overrides.get("aws", {})
    written += [(each, ("overrides", "aws", each)) for each in by_hand if f"{each}.".startswith(IN_THE_TEMPLATE)]
    for name, path in written:
        what = f"{name} would be in the launch template, and that of an adopted node group stays with who made it"
        fix = "leave it out; or give that template a new version and write it as adopt.launch_template.version"
        yield Problem((*at, *path), what, fix, _TEMPLATES)


# https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
_GROUP_NAME = r"[0-9A-Za-z][0-9A-Za-z_-]{0,62}"

_OF_MACHINES = frozenset(
    {"capacity.reservation", "disk.type", "disk.encryption_key", "disk.local_nvme", "network.max_pods"}
    | {"network.placement", "network.security_group_ids", "security.imds_hop_limit"}
)
"""Settings that say nothing of the group itself. What a pool's pods have to know is said all the same: how it shares, a
Capacity Block, EFA, an image of one's own."""


def _too_much_to_boot(request: PoolRequest) -> Iterator[Problem]:
    """Refuse settings whose user data is larger than EC2 takes; what is written by hand is measured there."""
    size = len(user_data(request).encode())
    if size > bootstrap.MOST_USER_DATA:
        key = "disk" if request.spec.disk.local_nvme is not None else "network"
        yield _too_much_user_data(("pools", request.name, key), size)


def _only_in_blocks(request: PoolRequest) -> Iterator[Problem]:
    if family(request.instance.name) in ULTRASERVER_FAMILIES and request.spec.capacity.mode != "capacity-block":
        what = f"EC2 gives out {request.instance.name} only through Capacity Blocks"
        fix = "add capacity: {mode: capacity-block, name: cr-…}, or choose a type that EC2 starts on demand"
        yield Problem(at_machine(request), what, fix, _ULTRASERVER_PAGE)


def _pods(request: PoolRequest) -> Iterator[Problem]:
    most = request.spec.network.max_pods
    if most is not None and not 8 <= most <= 256:
        what = f"got {most}; a node of EKS is good for 8 to 256 pods, and AWS's own numbers end at 250"
        source = f"{_GUIDE}/choosing-instance-type.html"
        yield Problem(("pools", request.name, "network", "max_pods"), what, "choose a number from 8 to 256", source)


def _names(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name)
    given = spec.overrides.get("aws", {}).get("NodeGroup", {}).get("labels")
    by_hand = given if isinstance(given, Mapping) else {}
    labels = {key: value for key, value in {**spec.labels, **by_hand}.items() if value is not None}
    for key, value in labels.items():
        where = (*at, *(("overrides", "aws", "NodeGroup") if key in by_hand else ()), "labels", key)
        if len(str(key)) > KEY_LIMIT:
            what = f"is {len(str(key))} characters; EKS takes {KEY_LIMIT}"
            yield Problem(where, what, "shorten the key", _NODE_GROUP_API)
        if value == "":
            what = "is empty; EKS takes no label without a value"
            yield Problem(where, what, "give it a value", _NODE_GROUP_API)
    for index, taint in enumerate(spec.taints):
        if len(taint.key) > KEY_LIMIT:
            what = f"the key has {len(taint.key)} characters; EKS takes {KEY_LIMIT}"
            yield Problem((*at, "taints", index), what, "shorten the key", _TAINT_API)
    yield from _one_effect_per_key(request)
    wanted = len(labels) + len(spec.taints)
    if wanted > TAG_LIMIT:
        what = f"{wanted} labels and taints; the Auto Scaling group has room for the tags of {TAG_LIMIT} more"
        fix = "use fewer: without the tags the pool does not scale from zero"
        yield Problem((*at, "labels"), what, fix, _TAG_LIMITS)


def _one_effect_per_key(request: PoolRequest) -> Iterable[Problem]:
    """Refuse a second taint of one key: the tag that tells cluster-autoscaler of it has the key as its name."""
    seen = {GPU_TAINT.key: GPU_TAINT}
    for index, taint in enumerate(request.spec.taints):
        if seen.setdefault(taint.key, taint) != taint:
            what = f"{taint} is a second taint of the key {taint.key}; cluster-autoscaler's tags have room for one"
            yield Problem(("pools", request.name, "taints", index), what, "use another key", _AUTOSCALER_TAGS)


def _image(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name, "image")
    named, image, software = spec.image.family, image_of(request), request.software
    if named is not None and named not in BY_FAMILY:
        what = f"EKS has no AMI type for {named}"
        fix = "use al2023 or bottlerocket; or custom with the id of an AMI"
        yield Problem((*at, "family"), what, fix, _AMI_TYPES)
        return
    if image is AL2023 and software == "cloud-managed":
        what = "al2023 has no device plugin, which software: cloud-managed leaves to the image"
        fix = "use family: bottlerocket, or software: device-plugin or gpu-operator"
        yield Problem((*at, "family"), what, fix, f"{_GUIDE}/ml-eks-optimized-ami.html")
    if image is BOTTLEROCKET and software != "cloud-managed":
        second = "owner of the GPUs" if software == "dra-driver" else "one"
        what = "bottlerocket runs a device plugin of its own, beside which "
        what += f"software: {software} would run a second {second}"
        fix = "use software: cloud-managed, or family: al2023"
        yield Problem((*at, "family"), what, fix, f"{_GUIDE}/ml-eks-optimized-ami.html")
    if spec.image.fips and image is not BOTTLEROCKET:
        of = "an image of your own" if image is OWN else f"{image.name}, the image for software: {software}"
        fix = "leave fips out" if image is OWN else "use software: cloud-managed, whose Bottlerocket image has one"
        yield Problem((*at, "fips"), f"EKS has no FIPS variant of {of}", fix, _AMI_TYPES)
    if image is OWN:
        yield from _own_image(request)


def _own_image(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name)
    if not re.fullmatch(r"ami-[0-9a-f]{8,17}", spec.image.id or ""):
        what = f"{shown(spec.image.id)} is no id of an AMI"
        yield Problem((*at, "image", "id"), what, "write it like ami-0a1b2c3d4e5f60718", _TEMPLATES)
    if request.software != "gpu-operator":
        what = (
            f"image.id with software: {request.software}: nothing says that the image brings driver and device plugin"
        )
        yield Problem((*at, "image", "id"), what, "use software: gpu-operator", _TEMPLATES)
    if request.instance.is_fraction:
        what = (
            f"a part of a GPU, as {request.instance.name} has, needs NVIDIA's GRID driver, which the operator has not"
        )
        yield Problem((*at, "image", "id"), what, "leave image out: the EKS images bring it", _GRID)
    if spec.adopt is not None:
        return  # its disks and how it joins are in a launch template that is there
    by_hand = spec.overrides.get("aws", {}).get("LaunchTemplate", {})
    if _is_base64(by_hand.get("userData")) and not _registers_gpu_taint(by_hand["userData"]):
        what = "of an image of your own lets nodes join without the GPU taint, which EKS then adds some time later"
        fix = f"start kubelet with --register-with-taints={GPU_TAINT}"
        yield Problem((*at, "overrides", "aws", "LaunchTemplate", "userData"), what, fix, _TEMPLATES)
    for key, why in (
        ("userData", "EKS adds nothing that lets an image of your own join the cluster"),
        ("blockDeviceMappings", "only its builder knows the name of its root device"),
    ):
        if not by_hand.get(key):
            fix = f"write overrides: {{aws: {{LaunchTemplate: {{{key}: …}}}}}}"
            yield Problem((*at, "image", "id"), f"{why}, and {key} is missing", fix, _TEMPLATES)
    for path, given in (
        (("disk", "type"), spec.disk.type),
        (("disk", "encryption_key"), spec.disk.encryption_key),
        (("disk", "local_nvme"), spec.disk.local_nvme),
        (("network", "max_pods"), spec.network.max_pods),
        (("disk_gib",), spec.disk_gib if "disk_gib" in spec.model_fields_set else None),
    ):
        if given is not None:
            where = (
                "blockDeviceMappings"
                if path in (("disk_gib",), ("disk", "type"), ("disk", "encryption_key"))
                else "userData"
            )
            what = f"cannot be set beside image.id, whose {where} is written by hand"
            yield Problem((*at, *path), what, f"set it in overrides.aws.LaunchTemplate.{where}", _TEMPLATES)


def _capacity(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name)
    capacity, nodes, machine = spec.capacity, spec.nodes, request.instance
    if capacity.mode == "spot" and nodes.fixed is not None:
        what = "fixed with capacity.mode: spot: EC2 takes spot machines back, so no number of them is fixed"
        yield Problem((*at, "nodes", "fixed"), what, "give min and max, or another capacity.mode", _CAPACITY_TYPES)
    if isinstance(capacity, CapacityBlock):
        if family(machine.name) not in CAPACITY_BLOCK_FAMILIES:
            what = f"EC2 sells no Capacity Block of {machine.name}"
            fix = f"choose a type of {', '.join(sorted(CAPACITY_BLOCK_FAMILIES))}; or mode: reservation"
            yield Problem((*at, "capacity", "mode"), what, fix, _CAPACITY_BLOCKS)
        if nodes.min > 0:
            key = "fixed" if nodes.fixed is not None else "min"
            what = (
                f"{key} {nodes.min} with capacity.mode: capacity-block: before the block starts no node comes, and EKS"
                " empties the pool 40 minutes before it ends"
            )
            yield Problem((*at, "nodes", key), what, "use min: 0 and max", _CAPACITY_BLOCKS)
    if isinstance(capacity, Reservation | CapacityBlock):
        region = _cluster(request).region
        arn = re.fullmatch(r"arn:aws[a-z-]*:resource-groups:([a-z0-9-]+):\d{12}:group/.+", capacity.name)
        is_group = isinstance(capacity, Reservation) and arn is not None
        if not is_group and not re.fullmatch(r"cr-[0-9a-f]{8,17}", capacity.name):
            what = f"{shown(capacity.name)} is no capacity reservation"
            fix = "write its id, cr-…" + ("" if isinstance(capacity, CapacityBlock) else ", or a resource group's ARN")
            yield Problem((*at, "capacity", "name"), what, fix, _TARGET)
        elif is_group and arn is not None and arn[1] != region:
            what = f"the resource group is in {arn[1]}, and the cluster's region is {region}"
            yield Problem((*at, "capacity", "name"), what, "name a group of the cluster's region", _TARGET)
        if not is_group:
            yield from _one_zone(request, ("capacity", "name"), "a capacity reservation", _TARGET)


def _zones(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name, "zones")
    by_zone = _cluster(request).subnets_by_zone
    if spec.zones and by_zone is None:
        what = "a node group is in the zones of its subnets, and the cluster's subnet_ids do not name theirs"
        yield Problem(at, what, "give the cluster subnets_by_zone: {zone: [subnet-…]} instead", _NODE_GROUP_API)
        return
    region = _cluster(request).region
    for index, zone in enumerate(spec.zones):
        if by_zone is not None and zone not in by_zone:
            there = zone.startswith(region) and zone != region
            what = f"the cluster has no subnet in {shown(zone)}" if there else f"{shown(zone)} is no zone of {region}"
            yield Problem((*at, index), what, nearest(zone, by_zone), _NODE_GROUP_API)


def _one_zone(request: PoolRequest, setting: Path, what: str, source: str) -> Iterator[Problem]:
    """Refuse a setting that needs one zone on a pool that has, or may have, several."""
    by_zone = _cluster(request).subnets_by_zone
    if by_zone is not None:
        zones = list(dict.fromkeys(request.spec.zones or by_zone))
        if len(zones) > 1:
            key = "zones" if request.spec.zones else "the cluster's subnets_by_zone"
            found = f"{what} is in one zone, and {key} has {' and '.join(zones)}"
            yield Problem(("pools", request.name, *setting), found, f"write zones: [{zones[0]}]", source)
        return
    subnets = _cluster(request).subnet_ids
    if not isinstance(subnets, list) or len(subnets) != 1:
        found = f"{what} is in one zone, and the cluster's subnet_ids do not say which zones they are in"
        fix = "give the cluster subnets_by_zone, and the pool zones with one of them; or a cluster with one subnet"
        yield Problem(("pools", request.name, *setting), found, fix, source)


def _disk(request: PoolRequest) -> Iterator[Problem]:
    disk, at, machine = request.spec.disk, ("pools", request.name, "disk"), request.instance
    if disk.type is not None and disk.type not in VOLUME_TYPES:
        what = f"{shown(disk.type)} is no EBS volume type that a node can start from"
        yield Problem((*at, "type"), what, nearest(disk.type, VOLUME_TYPES), _VOLUMES)
    if disk.encryption_key is not None:
        arn = re.fullmatch(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):\d{12}:(?:key|alias)/.+", disk.encryption_key)
        region = _cluster(request).region
        if arn is None:
            what = f"{shown(disk.encryption_key)} is no ARN of a KMS key"
            yield Problem(
                (*at, "encryption_key"), what, "write it like arn:aws:kms:<region>:<account>:key/<id>", _EBS_KEY
            )
        elif arn[1] != region:
            what = f"the key is in {arn[1]}, and the cluster's region is {region}"
            yield Problem((*at, "encryption_key"), what, "use a key of the cluster's region", _EBS_KEY)
    if disk.local_nvme == "raid0" and machine.local_disk_gb == 0:
        what = f"raid0 needs local NVMe, and {machine.name} has none"
        yield Problem((*at, "local_nvme"), what, "leave it out, or choose a type with local disks", machine.source)


def _network(request: PoolRequest) -> Iterator[Problem]:
    network, at, machine = request.spec.network, ("pools", request.name, "network"), request.instance
    if network.rdma:
        if machine.rdma != "efa":
            what = f"rdma needs EFA, and {machine.name} has none"
            yield Problem((*at, "rdma"), what, "leave it out, or choose a type with EFA", machine.source)
        elif not machine.rdma_interfaces:
            what = (
                f"rdma needs to know which network cards of {machine.name} take EFA, and EC2's page has no word on it"
            )
            fix = "leave it out and write overrides: {aws: {LaunchTemplate: {networkInterfaces: […]}}}"
            yield Problem((*at, "rdma"), what, fix, _EFA_CARDS)
        else:
            yield from _one_zone(request, ("network", "rdma"), "EFA traffic", _EFA)
        if not network.security_group_ids:
            what = (
                "rdma without security_group_ids: each interface names its own, and EFA needs one that lets all traffic"
            )
            what += " in from and out to itself"
            fix = "give security_group_ids; the cluster's own security group (eks-cluster-sg-…) has these rules"
            yield Problem((*at, "rdma"), what, fix, _SECURITY_GROUPS)
    for index, group in enumerate(network.security_group_ids):
        if not re.fullmatch(r"sg-[0-9a-f]{8,17}", group):
            what = f"{shown(group)} is no id of a security group"
            yield Problem((*at, "security_group_ids", index), what, "write it like sg-0a1b2c3d4e5f60718", _TEMPLATES)
    if network.placement == "compact":
        mode = request.spec.capacity.mode
        if mode in ("reservation", "capacity-block"):
            what = (
                f"placement: compact with capacity.mode: {mode}: the reserved machines are not in a group of this pool"
            )
            fix = "leave placement out; a reservation made in a placement group goes into overrides.aws.LaunchTemplate"
            yield Problem((*at, "placement"), what, f"{fix}.placement", _RESERVED_PLACEMENT)
        yield from _one_zone(request, ("network", "placement"), "placement: compact", _PLACEMENT)


def _upgrade(request: PoolRequest) -> Iterator[Problem]:
    """Refuse more nodes away at once than there may be: EKS takes no maxUnavailable above maxSize."""
    at, most = ("pools", request.name), request.spec.nodes.max
    given = value_at(request.spec.overrides, "aws", "NodeGroup", "updateConfig", "maxUnavailable")
    key = "fixed" if request.spec.nodes.fixed is not None else "max"
    fix = f"write {most} or less"
    if request.spec.upgrade.max_unavailable > most:
        what = f"got {request.spec.upgrade.max_unavailable}, and EKS takes no more than nodes.{key}, which is {most}"
        yield Problem((*at, "upgrade", "max_unavailable"), what, fix, _MAX_UNAVAILABLE)
    if isinstance(given, int) and given > most:
        what = f"got {given}, and EKS takes no more than nodes.{key}, which is {most}"
        where = (*at, "overrides", "aws", "NodeGroup", "updateConfig", "maxUnavailable")
        yield Problem(where, what, fix, _MAX_UNAVAILABLE)


def _pinned_image(request: PoolRequest) -> Iterator[Problem]:
    """Refuse an image release set by hand that is older than the pool's machine or settings need."""
    given = value_at(request.spec.overrides, "aws", "NodeGroup", "releaseVersion")
    where = ("pools", request.name, "overrides", "aws", "NodeGroup", "releaseVersion")
    image, needed = image_of(request), RELEASE_OF_FAMILY.get(family(request.instance.name), 0)
    if image is AL2023:
        # 1.34.1-20260917
        dated = re.search(r"-(\d{8})$", str(given or ""))
        if dated and int(dated[1]) < needed:
            what = f"{given} does not drive {request.instance.name}, which AL2023 does since v{needed}"
            yield Problem(where, what, f"take a release of {needed} or later, or leave it out", _AMI_RELEASES)
    if image is BOTTLEROCKET:
        # 1.54.0-5043decc
        pinned = re.match(r"v?(\d+)\.(\d+)\.", str(given or ""))
        if pinned is None:
            return
        for key in _bottlerocket_keys(request):
            least = BOTTLEROCKET_SINCE[key]
            if (int(pinned[1]), int(pinned[2])) < least:
                what = f"{given} does not know {key}, which Bottlerocket has since {least[0]}.{least[1]}"
                yield Problem(where, what, "take a later release, or leave it out", _BOTTLEROCKET_RELEASES)


def _bottlerocket_keys(request: PoolRequest) -> list[str]:
    sharing = request.spec.sharing
    modes = dict.fromkeys([sharing.mode, *([sharing.clients.mode] if sharing.clients else [])])
    wanted = [f"sharing.mode: {mode}" for mode in modes] + [f"disk.local_nvme: {request.spec.disk.local_nvme}"]
    return [key for key in wanted if key in BOTTLEROCKET_SINCE]


def _tags(request: PoolRequest) -> Iterator[Problem]:
    tags, at = request.spec.tags, ("pools", request.name, "tags")
    for key, value in tags.items():
        if key in OUR_TAGS:
            yield Problem((*at, key), "is set on every pool", "leave it out")
        yield from _tag(at, key, value)
    yield from _too_many_tags(at, tags)


def _tags_by_hand(request: PoolRequest, at: Path, resources: Mapping[str, JsonObject]) -> Iterator[Problem]:
    """Hold tags in overrides to the same rules; those of `tagSpecifications` take the place of the pool's own."""
    for name, inputs in resources.items():
        tags = inputs.get("tags")
        if isinstance(tags, Mapping):
            given = {key: value for key, value in tags.items() if value is not None and key not in OUR_TAGS}
            for key, value in given.items():
                yield from _tag((*at, name, "tags"), key, value)
            yield from _too_many_tags((*at, name, "tags"), {**request.spec.tags, **given})
        listed = inputs.get("tagSpecifications")
        for index, each in enumerate(listed if isinstance(listed, list) else []):
            tags = each.get("tags") if isinstance(each, Mapping) else None
            where = (*at, name, "tagSpecifications", index, "tags")
            for key, value in tags.items() if isinstance(tags, Mapping) else ():
                yield from _tag(where, key, value)


def _tag(at: Path, key: object, value: object) -> Iterator[Problem]:
    if not isinstance(key, str) or not isinstance(value, str):
        yield Problem((*at, str(key)), f"got {shown(value)}, and a tag is text", "write it in quotes")
        return
    if key.casefold().startswith("aws:"):
        yield Problem((*at, key), "AWS keeps keys that begin with aws:", "use another key", _TAGS)
    elif not 1 <= len(key) <= _TAG_KEY or not _is_tag(key):
        what = f"is no tag key: 1 to {_TAG_KEY} letters, digits, spaces and + - = . _ : / @"
        yield Problem((*at, key), what, "use another key", _TAGS)
    if value.casefold().startswith("aws:"):
        yield Problem((*at, key), "EKS takes no value that begins with aws: either", "use another value", _EKS_TAGS)
    elif len(value) > _TAG_VALUE or not _is_tag(value):
        what = f"{shown(value)} is no tag value: up to {_TAG_VALUE} letters, digits, spaces and + - = . _ : / @"
        yield Problem((*at, key), what, "use another value", _TAGS)


def _is_tag(text: str) -> bool:
    """Say whether EC2 takes the characters: letters and digits of any script, spaces, but no line break."""
    return all(each in " _.:/=+-@" or unicodedata.category(each)[0] in "LN" for each in text)


def _too_many_tags(at: Path, tags: Mapping[str, object]) -> Iterator[Problem]:
    if len(tags) > _MOST_TAGS:
        what = f"{len(tags)} tags; EC2 takes 50, of which this tool needs {50 - _MOST_TAGS}"
        yield Problem(at, what, f"use {_MOST_TAGS} or fewer", _TAGS)


def _own_subnets(request: PoolRequest, group: Mapping[str, object]) -> Iterator[Problem]:
    """Refuse subnets of the pool's own that are none, or that stand beside zones chosen among the cluster's."""
    if "subnetIds" not in group:
        return
    subnets, path = group["subnetIds"], ("pools", request.name, "overrides", "aws", "NodeGroup", "subnetIds")
    if not isinstance(subnets, list) or not subnets or not all(isinstance(each, str) and each for each in subnets):
        yield Problem(path, f"got {shown(subnets)}", "write a list of at least one subnet: [subnet-…]")
    if request.spec.zones:
        what = "stands beside zones, which choose among the cluster's subnets"
        yield Problem(path, what, "leave zones out; each subnet is in one zone")


def _set_by_hand(request: PoolRequest) -> Iterator[Problem]:
    spec, at = request.spec, ("pools", request.name)
    overrides = spec.overrides.get("aws", {})
    declared = {"NodeGroup": NODE_GROUP, "LaunchTemplate": LAUNCH_TEMPLATE}
    if spec.network.placement == "compact":
        declared["PlacementGroup"] = PLACEMENT_GROUP
    yield from override_problems(at, overrides, "aws", declared)
    tagged = {name: inputs for name, inputs in overrides.items() if name in declared}
    yield from _tags_by_hand(request, (*at, "overrides", "aws"), tagged)
    if "nodeRoleArn" in overrides.get("NodeGroup", {}) and overrides["NodeGroup"]["nodeRoleArn"] is None:
        what = "cannot be taken away: every node group has a role"
        yield Problem((*at, "overrides", "aws", "NodeGroup", "nodeRoleArn"), what, "leave it out, or name a role", "")
    yield from _own_subnets(request, overrides.get("NodeGroup", {}))
    template = overrides.get("LaunchTemplate", {})
    where: Path = (*at, "overrides", "aws", "LaunchTemplate")
    yield from _disks_by_hand(request, where, template)
    yield from _interfaces_by_hand(request, where, template)
    script = template.get("userData")
    if isinstance(script, Late):
        pass  # refused as every secret among overrides is
    elif script and not _is_base64(script):
        what = "is not base64"
        yield Problem((*where, "userData"), what, "write it encoded, as base64 -w0 prints it", _TEMPLATES)
    elif script:
        yield from _user_data_by_hand(request, (*where, "userData"), script)
    if "userData" in template and image_of(request) is not OWN:
        for key, given in (
            ("sharing", spec.sharing.kind != "none" and image_of(request) is BOTTLEROCKET),
            ("network.max_pods", spec.network.max_pods is not None),
            ("disk.local_nvme", spec.disk.local_nvme == "raid0"),
        ):
            if given:
                what = f"would take the place of what {key} writes there"
                yield Problem((*where, "userData"), what, f"leave it or {key} out", _TEMPLATES)


def _interfaces_by_hand(request: PoolRequest, where: Path, template: Mapping[str, object]) -> Iterator[Problem]:
    """Refuse interfaces with subnets or public addresses, and security groups beside interfaces."""
    network, interfaces = request.spec.network, template.get("networkInterfaces")
    for index, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
        at = (*where, "networkInterfaces", index)
        if isinstance(interface, Mapping) and "subnetId" in interface:
            yield Problem((*at, "subnetId"), FORBIDDEN, "use zones, or the cluster's subnets", _TEMPLATES)
        if isinstance(interface, Mapping) and interface.get("associatePublicIpAddress") not in (None, *_PRIVATE):
            what = "would give the nodes public addresses, and those of every pool are private"
            fix = 'write "false"; nodes fetch images through a NAT gateway or VPC endpoints'
            yield Problem((*at, "associatePublicIpAddress"), what, fix, _PUBLIC)
    ours = network.security_group_ids
    if interfaces and not network.rdma and (ours or "vpcSecurityGroupIds" in template):
        key = "network.security_group_ids" if ours else "vpcSecurityGroupIds"
        what = f"cannot stand beside {key}: EC2 takes security groups of the machine or of its interfaces, not of both"
        fix = f"leave {key} out, and name the groups in each interface"
        yield Problem((*where, "networkInterfaces"), what, fix, _TEMPLATES)
    if network.rdma and "vpcSecurityGroupIds" in template:
        what = "cannot stand beside network.rdma, whose interfaces name their own security groups"
        yield Problem((*where, "vpcSecurityGroupIds"), what, "use network.security_group_ids", _TEMPLATES)


def _disks_by_hand(request: PoolRequest, where: Path, template: Mapping[str, object]) -> Iterator[Problem]:
    """Refuse disks in clear: an image of one's own has to be given its disks, and any other may be."""
    disks = template.get("blockDeviceMappings", [{}])
    if not disks and image_of(request) is not OWN:
        what = "would take the encrypted disks away"
        yield Problem((*where, "blockDeviceMappings"), what, "leave it out, or give disks with encrypted", _EBS_KEY)
    for index, disk in enumerate(disks if isinstance(disks, list) else []):
        ebs = disk.get("ebs") if isinstance(disk, Mapping) else None
        if isinstance(ebs, Mapping) and ebs.get("encrypted") not in (True, "true"):
            path = (*where, "blockDeviceMappings", index, "ebs", "encrypted")
            what = "is not true, and images, logs and volumes of pods are on this disk"
            yield Problem(path, what, 'write encrypted: "true"', _DISK_ENCRYPTION)


def _user_data_by_hand(request: PoolRequest, at: Path, script: str) -> Iterator[Problem]:
    """Refuse what EC2 does not take, and what EKS cannot merge into its own: it then makes no node that joins."""
    # Only pools with user data of their own need the checks.
    from gpupools.providers.aws.user_data_checks import is_mime, names_taints, toml_fault

    raw, image = b64decode(script.replace("\n", "")), image_of(request)
    if len(raw) > bootstrap.MOST_USER_DATA:
        yield _too_much_user_data(at, len(raw))
        return
    fault = toml_fault(raw) if image is BOTTLEROCKET else ""
    if image is AL2023 and not is_mime(raw):
        what = "is not in MIME parts, and EKS merges no other user data into that of Amazon Linux 2023"
        fix = "write it as multipart/mixed: scripts as text/x-shellscript, NodeConfig as application/node.eks.aws"
        yield Problem(at, what, fix, f"{_TEMPLATES}#launch-template-user-data")
    elif fault:
        yield Problem(at, f"is not the TOML that EKS merges for Bottlerocket: {fault}", "write settings", _NO_TOML)
    if image is not OWN and names_taints(script):
        what = "sets taints, and those of a node are set in one place"
        yield Problem(at, what, "use the pool's taints; the GPU taint stays", _TEMPLATES)


def _too_much_user_data(at: Path, size: int) -> Problem:
    """Say that user data is larger than EC2 takes."""
    what = f"is {size} bytes, and EC2 takes {bootstrap.MOST_USER_DATA} (before base64, together with what EKS adds)"
    fix = "fetch what is large while the node starts, or put it into an image of your own"
    return Problem(at, what, fix, "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html")


def _is_base64(given: object) -> bool:
    try:
        return bool(b64decode(given.replace("\n", ""), validate=True)) if isinstance(given, str) else False
    except ValueError:
        return False


def _registers_gpu_taint(given: str) -> bool:
    """Say whether user data starts the kubelet with the GPU taint.

    With an AMI id EKS adds taints only after a node has joined: `launch-templates.html`, "Specifying an AMI".
    """
    from gpupools.providers.aws.user_data_checks import names_gpu_taint

    return names_gpu_taint(given)


def _cluster(request: PoolRequest) -> EksCluster:
    """Return the wish's cluster.

    Raises:
        TypeError: It is of another cloud.
    """
    if not isinstance(request.cluster, EksCluster):
        raise TypeError(f"a node group needs an EksCluster, got {type(request.cluster).__name__}")
    return request.cluster
