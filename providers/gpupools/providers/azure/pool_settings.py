"""Which of a pool's settings AKS takes, what each becomes, and what can be set by hand. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.asked.overrides import Overridable
from gpupools.planned.cloud import Setting
from gpupools.planned.labels import OUR_LABELS
from gpupools.planned.plan import POOL_LABEL

_AKS = "https://learn.microsoft.com/azure/aks/"
_API = "Azure/azure-rest-api-specs Microsoft.ContainerService stable/2025-09-01 managedClusters.json, AgentPool"

SPOT_PAGE = f"{_AKS}spot-node-pool"
_RESERVATIONS = f"{_AKS}use-capacity-reservation-groups"
_ZONES = f"{_AKS}reliability-availability-zones-configure"
_PLACEMENT = f"{_AKS}reduce-latency-ppg"
_COMPUTE_DOMAINS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html"
_INFINIBAND = "Azure/aks-rdma-infiniband configs/nicclusterpolicy/base/nic.yaml"
_FIPS = f"{_AKS}enable-fips-nodes"
_TRUSTED_LAUNCH = f"{_AKS}use-trusted-launch"
_DISKS = f"{_AKS}concepts-storage"
_DISK_KEYS = f"{_AKS}azure-disk-customer-managed-keys"
_PODS = f"{_AKS}concepts-network-ip-address-planning"
_UPGRADES = f"{_AKS}upgrade-aks-node-pools-rolling"
_PULUMI = "https://www.pulumi.com/docs/iac/concepts/resources/options/"

_NO_GOOGLE = "use mode: spot, or mode: reservation with a capacity reservation group"

RDMA_LABEL = "gpupools/rdma"
"""Node label, with the value `infiniband`, for the node affinity of the Network Operator's policy and of pods.

Microsoft's policy (`_INFINIBAND`) asks for a label that Node Feature Discovery sets on running nodes, so that no
autoscaler that starts at zero knows it; and AKS takes hardly any label of `kubernetes.io` on a pool
(https://github.com/Azure/AKS/issues/2866).
"""

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "capacity.spot": Setting(
            True, "scaleSetPriority Spot, scaleSetEvictionPolicy Delete, taint and label", SPOT_PAGE
        ),
        "capacity.reservation": Setting(True, "capacityReservationGroupID", _RESERVATIONS),
        "capacity.capacity-block": Setting(
            False, "Capacity Blocks are EC2's; use mode: reservation with a capacity reservation group", _RESERVATIONS
        ),
        "capacity.flex-start": Setting(False, f"flex-start is Google's; {_NO_GOOGLE}", _RESERVATIONS),
        "capacity.queued": Setting(False, f"queued provisioning is Google's; {_NO_GOOGLE}", _RESERVATIONS),
        "capacity.max_price_usd_per_hour": Setting(True, "spotMaxPrice", SPOT_PAGE),
        "image.family": Setting(True, "osSKU: Ubuntu or AzureLinux", f"{_AKS}use-nvidia-gpu"),
        "image.id": Setting(
            False, "AKS runs its own node images only; use family: ubuntu or azure-linux", f"{_AKS}node-images"
        ),
        "image.fips": Setting(True, "enableFIPS", _FIPS),
        "disk.type": Setting(True, "osDiskType: Managed or Ephemeral", _DISKS),
        "disk.encryption_key": Setting(
            False,
            "the disk encryption set belongs to the cluster and is chosen when that is created; "
            "give the cluster diskEncryptionSetID, which the nodes of every pool then use",
            _DISK_KEYS,
        ),
        "disk.local_nvme": Setting(
            False,
            "an agent pool has no field for local NVMe disks, its nodes have them raw; use disk.type: Ephemeral to put "
            "containerd and kubelet on the machine, or Azure Container Storage for pods",
            _DISKS,
        ),
        "network.rdma": Setting(
            True,
            f"a size with InfiniBand (all its ports), and the node label {RDMA_LABEL}=infiniband; pods get it from a"
            " device plugin of the team's, named under runtime.existing.rdma_plugin",
            _INFINIBAND,
        ),
        "network.compute_domains": Setting(
            True, "NVIDIA's DRA driver for ComputeDomains in the cluster", _COMPUTE_DOMAINS
        ),
        "network.placement": Setting(
            True, "proximityPlacementGroupID, from the cluster's proximity_placement_group_id", _PLACEMENT
        ),
        "network.security_group_ids": Setting(
            False,
            "security groups of interfaces are EC2's, AKS keeps one network security group for all nodes; "
            "use overrides.azure.AgentPool.networkProfile.applicationSecurityGroups",
            _API,
        ),
        "network.gpu_networks": Setting(
            False, "InfiniBand is in the machines and needs no network of its own; write rdma: true alone", _INFINIBAND
        ),
        "network.max_pods": Setting(True, "maxPods", _PODS),
        "security.secure_boot": Setting(True, "securityProfile.enableSecureBoot and enableVTPM", _TRUSTED_LAUNCH),
        "security.imds_hop_limit": Setting(
            False,
            "the hop limit is EC2's; keep pods off 169.254.169.254 with a network policy",
            f"{_AKS}operator-best-practices-cluster-security",
        ),
        "upgrade.strategy": Setting(
            False, "an agent pool of API version 2025-09-01 only has rolling upgrades; use strategy: surge", _UPGRADES
        ),
        "upgrade.max_surge": Setting(True, "upgradeSettings.maxSurge", _UPGRADES),
        "upgrade.max_unavailable": Setting(True, "upgradeSettings.maxUnavailable", _UPGRADES),
        "upgrade.drain_timeout_min": Setting(True, "upgradeSettings.drainTimeoutInMinutes", _UPGRADES),
        "auto_repair": Setting(
            False, "AKS repairs the nodes of every pool, and nothing switches that off", f"{_AKS}node-auto-repair"
        ),
        "timeouts.create_min": Setting(True, "Pulumi's customTimeouts.create", f"{_PULUMI}customtimeouts/"),
        "timeouts.update_min": Setting(True, "Pulumi's customTimeouts.update", f"{_PULUMI}customtimeouts/"),
        "timeouts.delete_min": Setting(True, "Pulumi's customTimeouts.delete", f"{_PULUMI}customtimeouts/"),
        "zones": Setting(True, "availabilityZones", _ZONES),
        "tags": Setting(True, "tags of the pool, its scale set and its machines", f"{_AKS}use-tags"),
        "protect": Setting(True, "Pulumi's protect on the agent pool", f"{_PULUMI}protect/"),
        "renamed_from": Setting(True, "Pulumi aliases; the agent pool keeps its name", f"{_PULUMI}aliases/"),
        "first_name": Setting(True, "the agent pool's name begins with it", f"{_AKS}create-node-pools"),
        "adopt": Setting(True, "Pulumi imports the agent pool, which keeps its name", f"{_PULUMI}import/"),
        "overrides": Setting(True, "inputs of AgentPool, by wire name", _API),
        "nodes.fixed": Setting(True, "enableAutoScaling false and count", f"{_AKS}scale-cluster"),
    }
)
"""What AKS does with each of `gpupools.asked.pool_parts.SETTINGS`."""

_INPUTS = frozenset(
    {
        "agentPoolName",
        "availabilityZones",
        "capacityReservationGroupID",
        "count",
        "creationData",
        "enableAutoScaling",
        "enableEncryptionAtHost",
        "enableFIPS",
        "enableNodePublicIP",
        "enableUltraSSD",
        "gatewayProfile",
        "gpuInstanceProfile",
        "gpuProfile",
        "hostGroupID",
        "kubeletConfig",
        "kubeletDiskType",
        "linuxOSConfig",
        "localDNSProfile",
        "maxCount",
        "maxPods",
        "messageOfTheDay",
        "minCount",
        "mode",
        "networkProfile",
        "nodeLabels",
        "nodePublicIPPrefixID",
        "nodeTaints",
        "orchestratorVersion",
        "osDiskSizeGB",
        "osDiskType",
        "osSKU",
        "osType",
        "podIPAllocationMode",
        "podSubnetID",
        "powerState",
        "proximityPlacementGroupID",
        "resourceGroupName",
        "resourceName",
        "scaleDownMode",
        "scaleSetEvictionPolicy",
        "scaleSetPriority",
        "securityProfile",
        "spotMaxPrice",
        "tags",
        "type",
        "upgradeSettings",
        "virtualMachineNodesStatus",
        "virtualMachinesProfile",
        "vmSize",
        "vnetSubnetID",
        "windowsProfile",
        "workloadRuntime",
    }
)
"""Wire names of `AgentPoolArgs` of pulumi-azure-native 3.29.0."""

_PRIVATE = "the nodes of every pool are private; give their subnet a NAT gateway for what they fetch"

_LISTS = frozenset(
    {"allowedHostPorts", "allowedUnsafeSysctls", "applicationSecurityGroups"}
    | {"availabilityZones", "manual", "nodePublicIPTags"}
    | {"nodeTaints", "virtualMachineNodesStatus"}
)
"""The inputs, on any level, that are lists."""

OVERRIDABLE: Mapping[str, Overridable] = MappingProxyType(
    {
        "AgentPool": Overridable(
            lists=_LISTS,
            inputs=_INPUTS,
            kept=MappingProxyType(
                {
                    ("agentPoolName",): "the pool's key in the file names it",
                    **{
                        (key,): "write nodes: {min: …, max: …} or nodes: {fixed: …}, which every bound counts"
                        for key in ("count", "enableAutoScaling", "maxCount", "minCount")
                    },
                    ("type",): "it is VirtualMachineScaleSets: a pool of type VirtualMachines has sizes of its own",
                    **{
                        (key,): "it goes with type VirtualMachines, which has sizes and numbers of its own"
                        for key in ("virtualMachinesProfile", "virtualMachineNodesStatus")
                    },
                    ("mode",): "it is User: a System pool takes AKS's own pods, a Gateway pool routes",
                    ("gatewayProfile",): "it goes with mode Gateway, and the pool's mode is User",
                    ("osDiskSizeGB",): "write disk_gib",
                    ("resourceName",): "write the cluster's name",
                    ("resourceGroupName",): "write the cluster's resource_group",
                    ("spotMaxPrice",): "write capacity: {mode: spot, max_price_usd_per_hour: …}",
                    ("capacityReservationGroupID",): "write capacity: {mode: reservation, name: …}",
                    ("availabilityZones",): "write zones",
                    (
                        "proximityPlacementGroupID",
                    ): "write network: {placement: compact} and the cluster's proximity_placement_group_id",
                    ("enableNodePublicIP",): f"it is false: {_PRIVATE}",
                    ("nodePublicIPPrefixID",): f"it goes with enableNodePublicIP, which is false: {_PRIVATE}",
                    ("nodeTaints",): "write more taints under the pool's taints; the GPU taint stays",
                    ("nodeLabels", POOL_LABEL): "write more labels under the pool's labels",
                    **{
                        ("nodeLabels", key): "it follows from the pool's software, sharing and trust"
                        for key in sorted(OUR_LABELS)
                    },
                    ("scaleSetPriority",): "write capacity: {mode: spot}, which knows the taint AKS adds",
                    ("osType",): "it is Linux: AKS has no GPU software for Windows that this tool knows",
                    ("osSKU",): "write image: {family: …}; AKS has NVIDIA's driver on no other system",
                    ("enableFIPS",): "write image: {fips: …}",
                    ("securityProfile", "enableSecureBoot"): "write security: {secure_boot: …}, which asks for a driver"
                    " that is signed",
                    ("vmSize",): "write the pool's instance_type",
                    ("gpuProfile",): "write the pool's software, which decides who installs the driver",
                    ("gpuInstanceProfile",): "write the pool's sharing",
                }
            ),
            labels=("nodeLabels",),
        )
    }
)
"""The resources an AKS pool is made of."""

SPOT_KEY = "kubernetes.azure.com/scalesetpriority"
"""Label and taint key AKS itself puts on every spot pool (`SPOT_PAGE`)."""
