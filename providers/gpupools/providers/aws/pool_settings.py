"""Which settings of a pool EKS takes, what each becomes, and what can be set by hand. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.asked.overrides import Kept, Overridable
from gpupools.planned.cloud import Setting
from gpupools.planned.labels import OUR_LABELS

_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide"
_NODE_GROUP_API = "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html"
_TEMPLATES = f"{_GUIDE}/launch-templates.html"
_CAPACITY_TYPES = f"{_GUIDE}/managed-node-groups.html#managed-node-group-capacity-types"
_CAPACITY_BLOCKS = f"{_GUIDE}/capacity-blocks-mng.html"
_UPDATES = f"{_GUIDE}/managed-node-update-behavior.html"
_EFA = f"{_GUIDE}/node-efa.html"
_COMPUTE_DOMAINS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html"
_TARGET = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservationTarget.html"
_PLACEMENT = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html"
_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html"
_VOLUMES = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html"
_EBS_KEY = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html"
_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/#localstorageoptions"
_IMDS = "https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html"
_SECURE_BOOT = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-instance-with-uefi-sb.html"
_REPAIR = f"{_GUIDE}/node-repair.html"
_PROVIDER = "https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go"
_PULUMI_OPTIONS = "https://www.pulumi.com/docs/iac/concepts/options"


def _taken(why: str, source: str) -> Setting:
    return Setting(True, why, source)


def _refused(why: str, source: str) -> Setting:
    return Setting(False, why, source)


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "capacity.spot": _taken("capacityType SPOT of the node group", _CAPACITY_TYPES),
        "capacity.reservation": _taken(
            "capacityReservationTarget of the launch template: an On-Demand Capacity Reservation or a resource group",
            _TARGET,
        ),
        "capacity.capacity-block": _taken(
            "capacityType CAPACITY_BLOCK of the node group, with market type, reservation and instance type in the"
            " launch template; EKS empties the pool 40 minutes before the block ends, and wants it empty for upgrades",
            _CAPACITY_BLOCKS,
        ),
        "capacity.flex-start": _refused(
            "it is Google's; reserve a Capacity Block: mode capacity-block", _CAPACITY_TYPES
        ),
        "capacity.queued": _refused("it is Google's; reserve a Capacity Block: mode capacity-block", _CAPACITY_TYPES),
        "capacity.max_price_usd_per_hour": _refused(
            "EKS pays up to the on-demand price and has no field for less; leave it out", _CAPACITY_TYPES
        ),
        "zones": _taken(
            "the node group's subnets: those of the cluster's subnets_by_zone in these zones", _NODE_GROUP_API
        ),
        "image.family": _taken(
            "al2023, bottlerocket: amiType of the node group; custom: imageId of the launch template", _AMI_TYPES
        ),
        "image.id": _taken(
            "imageId of the launch template; EKS then adds no user data, so the pool's overrides bring it", _TEMPLATES
        ),
        "image.fips": _taken("amiType BOTTLEROCKET_…_NVIDIA_FIPS of the node group", _AMI_TYPES),
        "disk.type": _taken("volumeType in the launch template; io1 and io2 get 3000 IOPS, as gp3 has", _VOLUMES),
        "disk.encryption_key": _taken(
            "kmsKeyId of every volume; the key must let the role AWSServiceRoleForAutoScaling use it", _EBS_KEY
        ),
        "disk.local_nvme": _taken(
            "user data: localStorage RAID0 of nodeadm on AL2023, the command ephemeral-storage on Bottlerocket",
            _NODEADM,
        ),
        "network.rdma": _taken(
            "network interfaces of the launch template: an ordinary one with the address, and an EFA-only one on every"
            " card with EFA. The cluster needs the EFA device plugin and VPC CNI 1.18.5; placement: compact keeps nodes"
            " close",
            _EFA,
        ),
        "network.compute_domains": _taken("NVIDIA's DRA driver for ComputeDomains in the cluster", _COMPUTE_DOMAINS),
        "network.placement": _taken("a placement group of strategy cluster, named in the launch template", _PLACEMENT),
        "network.security_group_ids": _taken(
            "security groups of the launch template, of each interface with rdma; EKS then adds none of its own",
            _TEMPLATES,
        ),
        "network.gpu_networks": _refused(
            "EFA interfaces are in the subnet of their node; write rdma: true alone", _EFA
        ),
        "network.max_pods": _taken(
            "user data: maxPods for nodeadm on AL2023, settings.kubernetes.max-pods on Bottlerocket", _TEMPLATES
        ),
        "security.secure_boot": _refused(
            "it is part of the image, and the EKS images leave it off; register an image with UEFI data of your own and"
            " name it as image.id",
            _SECURE_BOOT,
        ),
        "security.imds_hop_limit": _taken("httpPutResponseHopLimit in the launch template", _IMDS),
        "upgrade.strategy": _refused("EKS rolls a node group in place; move pods by a second pool", _UPDATES),
        "upgrade.max_surge": _refused(
            "EKS chooses the number of extra nodes itself; for its rolling with extra nodes write"
            " overrides: {aws: {NodeGroup: {updateConfig: {updateStrategy: DEFAULT}}}}",
            _UPDATES,
        ),
        "upgrade.max_unavailable": _taken("updateConfig.maxUnavailable of the node group, 100 at most", _UPDATES),
        "upgrade.drain_timeout_min": _refused(
            "EKS waits 15 minutes for the pods of a node and has no field for another time; leave it out", _UPDATES
        ),
        "auto_repair": _taken(
            "nodeRepairConfig.enabled; conditions of GPUs are seen only with the add-on eks-node-monitoring-agent",
            _REPAIR,
        ),
        "tags": _taken(
            "tags of the node group and the launch template and, through it, of instances, volumes and interfaces;"
            " a change replaces the nodes",
            _TEMPLATES,
        ),
        "protect": _taken(
            "Pulumi's protect on node group, launch template and placement group", f"{_PULUMI_OPTIONS}/protect"
        ),
        "renamed_from": _taken("Pulumi aliases; node group and template stay", f"{_PULUMI_OPTIONS}/aliases"),
        "first_name": _taken(
            "the tags Name and gpupools:pool of the machines, and the template's description", _TEMPLATES
        ),
        "adopt": _taken(
            "Pulumi imports the node group, which keeps its name and its launch template", f"{_PULUMI_OPTIONS}/import/"
        ),
        "timeouts.create_min": _taken("Pulumi's customTimeouts of the node group", _PROVIDER),
        "timeouts.update_min": _taken("Pulumi's customTimeouts of the node group", _PROVIDER),
        "timeouts.delete_min": _taken("Pulumi's customTimeouts of the node group", _PROVIDER),
        "overrides": _taken("inputs of NodeGroup, LaunchTemplate and PlacementGroup, merged last", _NODE_GROUP_API),
        "nodes.fixed": _taken(
            "minSize, desiredSize and maxSize alike, without tags for the autoscaler", _NODE_GROUP_API
        ),
    }
)
"""What EKS makes of each setting; `gpupools.asked.pool_parts.SETTINGS` names them."""


VOLUME_TYPES = ("gp2", "gp3", "io1", "io2")
"""The EBS types that can hold an operating system: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html."""

OUR_TAGS = ("gpupools:cluster", "gpupools:pool")
_OUR_TAGS_KEPT: Kept = {("tags", key): "it says which pool of which cluster it is" for key in OUR_TAGS}

GROUP = "NodeGroup."
"""How the inputs of the node group begin in the tables of edits and in `adopt.keep`."""

LISTS = frozenset(
    {"blockDeviceMappings", "licenseSpecifications", "networkInterfaces", "secondaryInterfaces", "securityGroupNames"}
    | {"tagSpecifications", "vpcSecurityGroupIds", "ipv4Addresses", "ipv4Prefixes", "ipv6Addresses", "ipv6Prefixes"}
    | {"securityGroups", "privateIpAddresses", "nodeRepairConfigOverrides"}
    | {"instanceTypes", "subnetIds", "taints", "sourceSecurityGroupIds"}
)
"""The inputs, on any level, that are lists."""

NODE_GROUP = Overridable(
    lists=LISTS,
    inputs=frozenset(
        {"amiType", "capacityType", "clusterName", "diskSize", "forceUpdateVersion", "instanceTypes", "labels"}
        | {"launchTemplate", "nodeGroupName", "nodeGroupNamePrefix", "nodeRepairConfig", "nodeRoleArn", "region"}
        | {"releaseVersion", "remoteAccess", "scalingConfig", "subnetIds", "tags", "taints", "updateConfig", "version"}
        | {"warmPoolConfig"}
    ),
    kept=MappingProxyType(
        {
            ("amiType",): "use image",
            ("capacityType",): "use capacity",
            ("clusterName",): "use the cluster's name",
            ("diskSize",): "EKS refuses it beside a launch template; use disk_gib",
            ("instanceTypes",): "use gpu or instance_type",
            ("labels", "gpupools/pool"): "it is the pool's name",
            **{("labels", key): "it follows from the pool's software, sharing and trust" for key in sorted(OUR_LABELS)},
            ("launchTemplate",): "set inputs of LaunchTemplate",
            ("nodeGroupName",): "EKS chooses it, so that a new group can stand beside the one it replaces",
            ("nodeGroupNamePrefix",): "EKS chooses it, so that a new group can stand beside the one it replaces",
            ("region",): "use the cluster's region",
            ("remoteAccess",): "EKS refuses it beside a launch template; log in with SSM Session Manager",
            ("scalingConfig",): "use nodes",
            **_OUR_TAGS_KEPT,
            ("taints",): "use the pool's taints; the GPU taint stays",
            ("warmPoolConfig",): "no bound counts its machines, which stand beside those of nodes; use nodes.min",
        }
    ),
    labels=("labels",),
)

FORBIDDEN = "EKS refuses it in the launch template of a node group"

LAUNCH_TEMPLATE = Overridable(
    lists=LISTS,
    inputs=frozenset(
        {"blockDeviceMappings", "capacityReservationSpecification", "cpuOptions", "creditSpecification"}
        | {"defaultVersion", "description", "disableApiStop", "disableApiTermination", "ebsOptimized"}
        | {"enclaveOptions", "hibernationOptions", "iamInstanceProfile", "imageId"}
        | {"instanceInitiatedShutdownBehavior", "instanceMarketOptions", "instanceRequirements", "instanceType"}
        | {"kernelId", "keyName", "licenseSpecifications", "maintenanceOptions", "metadataOptions", "monitoring"}
        | {"name", "namePrefix", "networkInterfaces", "networkPerformanceOptions", "placement"}
        | {"privateDnsNameOptions", "ramDiskId", "region", "secondaryInterfaces", "securityGroupNames"}
        | {"tagSpecifications", "tags", "updateDefaultVersion", "userData", "vpcSecurityGroupIds"}
    ),
    kept=MappingProxyType(
        {
            ("capacityReservationSpecification",): "use capacity",
            ("hibernationOptions",): f"{FORBIDDEN}; leave it out",
            ("iamInstanceProfile",): f"{FORBIDDEN}; set nodeRoleArn of NodeGroup",
            ("imageId",): "use image: {family: custom, id: …}",
            ("instanceInitiatedShutdownBehavior",): f"{FORBIDDEN}; leave it out",
            ("instanceMarketOptions",): "use capacity",
            ("instanceRequirements",): "use gpu or instance_type",
            ("instanceType",): "use gpu or instance_type",
            ("metadataOptions", "httpEndpoint"): "nodes join with what they read there",
            ("metadataOptions", "httpPutResponseHopLimit"): "use security: {imds_hop_limit: …}",
            ("metadataOptions", "httpTokens"): "it is required: version 1 of the metadata service gives the node's"
            " credentials to any request that gets through",
            ("region",): "use the cluster's region",
            **_OUR_TAGS_KEPT,
        }
    ),
)

PLACEMENT_GROUP = Overridable(
    lists=LISTS,
    inputs=frozenset({"name", "partitionCount", "region", "spreadLevel", "strategy", "tags"}),
    kept=MappingProxyType(
        {
            ("partitionCount",): "it goes with the strategy partition, and network.placement: compact is cluster",
            ("spreadLevel",): "it goes with the strategy spread, and network.placement: compact is cluster",
            ("strategy",): "network.placement: compact is the strategy cluster",
            ("region",): "use the cluster's region",
            **_OUR_TAGS_KEPT,
        }
    ),
)
