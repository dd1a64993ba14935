"""Which settings of a pool GKE takes, and what each becomes there."""

from collections.abc import Mapping
from types import MappingProxyType

from gpupools.asked.overrides import Overridable
from gpupools.planned.cloud import Setting
from gpupools.planned.labels import OUR_LABELS
from gpupools.planned.plan import POOL_LABEL

SHARING_STRATEGIES: Mapping[str, str] = MappingProxyType({"time-slicing": "TIME_SHARING", "mps": "MPS"})
"""How the node pool calls each way in which containers share a GPU.

https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/GPUSharingConfig
"""

NO_DEVICE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Node label, value `true`, that keeps GKE's own device plugin off.

https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
"""

_API = "https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools"
_HOW_TO = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to"
_CONCEPTS = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts"
_TOOLKIT = "https://github.com/GoogleCloudPlatform/cluster-toolkit/tree/main/modules/compute/gke-node-pool"
_PROVIDER = "https://www.pulumi.com/registry/packages/gcp/api-docs/container/nodepool/"
_OPTIONS = "https://www.pulumi.com/docs/iac/concepts/resources/options/"

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "capacity.spot": Setting(True, "nodeConfig.spot, and no reservation is used", f"{_HOW_TO}/spot-vms"),
        "capacity.reservation": Setting(
            True,
            "nodeConfig.reservationAffinity SPECIFIC_RESERVATION with the reservation's name",
            f"{_HOW_TO}/consuming-reservations",
        ),
        "capacity.capacity-block": Setting(
            False,
            "Capacity Blocks are Amazon's; reserve in Google's calendar mode and use capacity: {mode: reservation}",
            f"{_CONCEPTS}/consumption-option",
        ),
        "capacity.flex-start": Setting(
            True,
            "nodeConfig.flexStart and maxRunDuration, without node repair and reservations; "
            "GKE 1.32.2-gke.1652000 or later",
            f"{_CONCEPTS}/dws",
        ),
        "capacity.queued": Setting(
            True,
            "queuedProvisioning with nodeConfig.flexStart, from 0 nodes; GKE adds the taint "
            "cloud.google.com/gke-queued, this tool the label",
            f"{_HOW_TO}/provisioningrequest",
        ),
        "capacity.max_price_usd_per_hour": Setting(
            False, "a Spot VM has Google's price of the day and no highest bid; leave it out", f"{_CONCEPTS}/spot-vms"
        ),
        "image.family": Setting(True, "nodeConfig.imageType: cos or ubuntu", f"{_CONCEPTS}/node-images"),
        "image.id": Setting(
            False, "GKE nodes run GKE's images; use family: cos or family: ubuntu", f"{_CONCEPTS}/node-images"
        ),
        "image.fips": Setting(
            False,
            "none of GKE's node images is a FIPS variant; run the pool on EKS with the Bottlerocket FIPS image or on "
            "AKS with fips",
            f"{_CONCEPTS}/node-images",
        ),
        "disk.type": Setting(True, "nodeConfig.diskType", f"{_HOW_TO}/custom-boot-disks"),
        "disk.encryption_key": Setting(True, "nodeConfig.bootDiskKmsKey", f"{_HOW_TO}/using-cmek"),
        "disk.local_nvme": Setting(
            True,
            "raid0: nodeConfig.ephemeralStorageLocalSsdConfig; none: localNvmeSsdBlockConfig, disks left to the pods",
            f"{_CONCEPTS}/local-ssd",
        ),
        "network.rdma": Setting(
            True,
            "networkConfig.acceleratorNetworkProfile auto and the label of GKE's network driver (DRANET); "
            "GKE 1.34.1-gke.1829001 or later on a cluster with Dataplane V2",
            f"{_HOW_TO}/config-auto-net-for-accelerators",
        ),
        "network.gpu_networks": Setting(
            True,
            "networkConfig.additionalNodeNetworkConfigs, for A3 High alone, with the label of GKE's network driver"
            " (DRANET); GKE 1.34.5-gke.1153000, 1.35.2-gke.1485000, 1.36 or later on a cluster with Dataplane V2 and"
            " multi-networking, without a Network of type Device",
            f"{_HOW_TO}/gpu-bandwidth-gpudirect-tcpx",
        ),
        "network.compute_domains": Setting(
            True,
            "a workload policy of topology 1x72, named in placementPolicy; in the cluster NVIDIA's DRA driver for"
            " ComputeDomains",
            "https://github.com/GoogleCloudPlatform/cluster-toolkit/tree/main/examples/gke-a4x",
        ),
        "network.placement": Setting(True, "placementPolicy COMPACT", f"{_HOW_TO}/compact-placement"),
        "network.security_group_ids": Setting(
            False,
            "Google's firewall rules pick machines by network tag or service account; "
            "set the tags as overrides.gcp.NodePool.nodeConfig.tags",
            "https://docs.cloud.google.com/firewall/docs/firewalls",
        ),
        "network.max_pods": Setting(True, "maxPodsPerNode", f"{_HOW_TO}/flexible-pod-cidr"),
        "security.secure_boot": Setting(
            True,
            "nodeConfig.shieldedInstanceConfig.enableSecureBoot, with GKE's own driver on cos",
            f"{_HOW_TO}/shielded-gke-nodes",
        ),
        "security.imds_hop_limit": Setting(
            False,
            "pods reach GKE's metadata server, which hands out their own identity and never the node's; leave it out",
            f"{_CONCEPTS}/workload-identity",
        ),
        "upgrade.strategy": Setting(True, "upgradeSettings.strategy", f"{_CONCEPTS}/node-pool-upgrade-strategies"),
        "upgrade.max_surge": Setting(True, "upgradeSettings.maxSurge", f"{_CONCEPTS}/node-pool-upgrade-strategies"),
        "upgrade.max_unavailable": Setting(
            True,
            "upgradeSettings.maxUnavailable; with blue-green the nodes drained at a time",
            f"{_CONCEPTS}/node-pool-upgrade-strategies",
        ),
        "upgrade.drain_timeout_min": Setting(
            True,
            "nodeDrainConfigs: as long for disruption budgets as for pods to end; Google has to enable it for the "
            "project",
            f"{_API}#NodeDrainConfig",
        ),
        "timeouts.create_min": Setting(True, "the option customTimeouts.create", _OPTIONS),
        "timeouts.update_min": Setting(True, "the option customTimeouts.update", _OPTIONS),
        "timeouts.delete_min": Setting(True, "the option customTimeouts.delete", _OPTIONS),
        "zones": Setting(True, "nodeLocations", _API),
        "auto_repair": Setting(True, "management.autoRepair", f"{_HOW_TO}/node-auto-repair"),
        "tags": Setting(True, "nodeConfig.resourceLabels", f"{_HOW_TO}/creating-managing-labels"),
        "protect": Setting(True, "deletionPolicy PREVENT and the option protect", _PROVIDER),
        "renamed_from": Setting(
            True,
            "Pulumi aliases; the node pool keeps its name",
            "https://www.pulumi.com/docs/iac/concepts/options/aliases/",
        ),
        "first_name": Setting(True, "the node pool's name begins with it", _API),
        "adopt": Setting(True, "Pulumi imports the node pool, which keeps its name", f"{_OPTIONS}import/"),
        "overrides": Setting(True, "merged into the inputs of NodePool", _PROVIDER),
        "nodes.fixed": Setting(True, "nodeCount, which counts the nodes of each zone; no autoscaling", _TOOLKIT),
    }
)
"""What the pool reference of GKE has a field for, and why not for the rest."""

_PRIVATE = "the nodes of every pool are private; give the cluster's network Cloud NAT for what they fetch"
_CAPACITY = "write capacity: {mode: …}, which knows what goes with it"
_NAMED_AFTER_THE_POOL = "the name follows from the pool's, so that a new pool can stand beside the old one"

_COUNTED = "write nodes: {min: …, max: …} or nodes: {fixed: …}, which every bound counts"

RESERVED_METADATA = (
    *("cluster-location", "cluster-name", "cluster-uid", "configure-sh", "containerd-configure-sh", "enable-os-login"),
    *("gci-ensure-gke-docker", "gci-metrics-enabled", "gci-update-strategy", "instance-template", "kube-env"),
    *("startup-script", "user-data", "disable-address-manager", "windows-startup-script-ps1", "common-psm1"),
    *("k8s-node-setup-psm1", "install-ssh-psm1", "user-profile-psm1"),
)
"""Keys of `metadata` that GKE refuses: https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""

_LISTS = frozenset(
    {"additionalNodeNetworkConfigs", "additionalPodNetworkConfigs", "allowedUnsafeSysctls"}
    | {"capabilities", "cas", "certificateAuthorityDomainConfigs"}
    | {"clients", "effectiveTaints", "exclusionUntilEndOfSupports"}
    | {"fqdns", "guestAccelerators", "headers"}
    | {"hosts", "maintenancePolicies", "nodeAffinities"}
    | {"nodeDrainConfigs", "nodeImageConfigs", "nodeLocations"}
    | {"oauthScopes", "registryHosts", "secondaryBootDisks"}
    | {"storagePools", "tags", "taints"}
    | {"values"}
)
"""The inputs, on any level, that are lists."""

OVERRIDABLE: Mapping[str, Overridable] = MappingProxyType(
    {
        "NodePool": Overridable(
            lists=_LISTS,
            inputs=frozenset(
                {
                    "autoscaling",
                    "bestEffortProvisioning",
                    "cluster",
                    "deletionPolicy",
                    "ignoreNodeCountChanges",
                    "initialNodeCount",
                    "location",
                    "maintenancePolicies",
                    "management",
                    "maxPodsPerNode",
                    "name",
                    "namePrefix",
                    "networkConfig",
                    "nodeConfig",
                    "nodeCount",
                    "nodeDrainConfigs",
                    "nodeLocations",
                    "placementPolicy",
                    "project",
                    "queuedProvisioning",
                    "upgradeSettings",
                    "version",
                }
            ),
            kept=MappingProxyType(
                {
                    ("nodeConfig", "taints"): "write the pool's taints; the GPU taint stays",
                    ("nodeConfig", "effectiveTaints"): "the cloud's answer, never an input; write the pool's taints",
                    ("nodeConfig", "labels", POOL_LABEL): "it is the pool's name",
                    ("nodeConfig", "labels", NO_DEVICE_PLUGIN_LABEL): "write the pool's software",
                    **{
                        ("nodeConfig", "labels", key): "it follows from the pool's software, sharing and trust"
                        for key in sorted(OUR_LABELS)
                    },
                    ("nodeConfig", "machineType"): "write the pool's instance_type",
                    ("nodeConfig", "guestAccelerators"): "write the pool's instance_type, software and sharing",
                    ("nodeConfig", "imageType"): "write image: {family: …}",
                    ("nodeConfig", "linuxNodeConfig", "nodeKernelModuleLoading"): "GKE has it for CPU and TPU pools; it"
                    " would keep NVIDIA's driver out",
                    ("nodeConfig", "shieldedInstanceConfig", "enableSecureBoot"): "write security: {secure_boot: …},"
                    " which asks for a driver that is signed",
                    ("cluster",): "write it in the cluster",
                    ("location",): "write it in the cluster",
                    ("project",): "write it in the cluster",
                    ("networkConfig", "enablePrivateNodes"): _PRIVATE,
                    ("nodeConfig", "spot"): _CAPACITY,
                    ("nodeConfig", "preemptible"): _CAPACITY,
                    ("nodeConfig", "flexStart"): _CAPACITY,
                    ("queuedProvisioning",): _CAPACITY,
                    ("nodeLocations",): "write zones",
                    ("placementPolicy", "type"): "write network: {placement: compact}",
                    ("initialNodeCount",): "write nodes: {min: …}; a later change of it would replace the pool",
                    ("autoscaling", "maxNodeCount"): _COUNTED,
                    ("autoscaling", "minNodeCount"): _COUNTED,
                    ("autoscaling", "totalMaxNodeCount"): _COUNTED,
                    ("autoscaling", "totalMinNodeCount"): _COUNTED,
                    ("ignoreNodeCountChanges",): _COUNTED,
                    ("nodeCount",): _COUNTED,
                    ("nodeConfig", "diskSizeGb"): "write disk_gib",
                    ("nodeConfig", "bootDisk", "sizeGb"): "write disk_gib",
                    ("deletionPolicy",): "write protect",
                    ("nodeConfig", "workloadMetadataConfig"): "it is GKE_METADATA: with any other mode pods take the"
                    " node's credentials",
                    ("nodeConfig", "metadata", "disable-legacy-endpoints"): "it is true: the old endpoints ask nobody"
                    " who they are",
                    **{
                        ("nodeConfig", "metadata", key): "GKE keeps this key of the metadata for itself"
                        for key in RESERVED_METADATA
                    },
                    ("nodeConfig", "kubeletConfig", "insecureKubeletReadonlyPortEnabled"): "it is FALSE: the port"
                    " answers anybody",
                    ("nodeConfig", "shieldedInstanceConfig", "enableIntegrityMonitoring"): "it is true: without it"
                    " nobody sees changes of the boot chain",
                    ("name",): _NAMED_AFTER_THE_POOL,
                    ("namePrefix",): _NAMED_AFTER_THE_POOL,
                }
            ),
            labels=("nodeConfig", "labels"),
        )
    }
)
"""The resource behind a pool. What decides which pods fit and land there stays with the pool's own keys."""
