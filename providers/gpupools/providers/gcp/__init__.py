"""Google Kubernetes Engine (GKE Standard): its machines, what its node pools can do, and how to read one back.

Owns the knowledge; `resources.py` turns a plan into Pulumi resources and is the only file that imports the SDK.
"""

from gpupools.known.reserved import CONDITION_TAINTS, OPERATOR_LABELS, KeyRule
from gpupools.planned.cloud import Cloud, Owners, Software, when_called
from gpupools.providers.gcp.added_taints import ARM, QUEUED
from gpupools.providers.gcp.capabilities import CAPABILITIES, DEFAULT_SOFTWARE
from gpupools.providers.gcp.cluster import GkeCluster
from gpupools.providers.gcp.conflicts import conflicts
from gpupools.providers.gcp.machines import INSTANCE_TYPES, find_instance_type
from gpupools.providers.gcp.pool_settings import NO_DEVICE_PLUGIN_LABEL, OVERRIDABLE, SETTINGS
from gpupools.providers.gcp.runtime import node_runtime
from gpupools.providers.gcp.settings import decide, refusals

_DOCS = "https://docs.cloud.google.com/kubernetes-engine/docs"
_GPUS = f"{_DOCS}/how-to/gpus"
_INSTALLER = "Google's driver installer DaemonSet"

_ENVIRONMENT = "set {} where Pulumi runs"

# https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference
_PROVIDER_SETTINGS = {
    "project": "write the cluster's project",
    "region": "write the cluster's location",
    "zone": "write the cluster's location",
    "credentials": _ENVIRONMENT.format("GOOGLE_CREDENTIALS"),
    "accessToken": _ENVIRONMENT.format("GOOGLE_OAUTH_ACCESS_TOKEN"),
    "impersonateServiceAccount": _ENVIRONMENT.format("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"),
    "billingProject": _ENVIRONMENT.format("GOOGLE_BILLING_PROJECT"),
    "userProjectOverride": _ENVIRONMENT.format("USER_PROJECT_OVERRIDE"),
    "defaultLabels": "write tags of the pools",
}

CLOUD = Cloud(
    name="gcp",
    service="GKE",
    instance_types=INSTANCE_TYPES,
    cluster=GkeCluster,
    example_cluster={
        "cloud": "gcp",
        "name": "lab-dev",
        "project": "ml-dev",
        "location": "europe-west4",
        "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
    software={
        "cloud-managed": Software(
            owners=Owners(driver="GKE", container_toolkit="GKE", device_plugin="GKE"),
            why="GKE installs a driver that fits the node version, and its own device plugin",
            source=_GPUS,
        ),
        "device-plugin": Software(
            owners=Owners(
                driver=_INSTALLER, container_toolkit="each pod's own mount", device_plugin="NVIDIA device plugin"
            ),
            why=f"GKE's driver installation and, by the label {NO_DEVICE_PLUGIN_LABEL}, its device plugin are off",
            source="https://github.com/NVIDIA/k8s-device-plugin/issues/741",
        ),
        "gpu-operator": Software(
            owners=Owners(driver=_INSTALLER, container_toolkit="GPU Operator", device_plugin="GPU Operator"),
            why="on Container-Optimized OS NVIDIA documents the operator without its driver, beside Google's installer",
            source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html",
        ),
        "dra-driver": Software(
            owners=Owners(
                driver=_INSTALLER, container_toolkit="GKE node image (CDI)", device_plugin="none (NVIDIA DRA driver)"
            ),
            why=f"GKE's driver installation and, by the label {NO_DEVICE_PLUGIN_LABEL}, its device plugin are off",
            source="https://docs.cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra",
        ),
    },
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    decide=decide,
    read_pools=when_called("gpupools.providers.gcp.read_back", "read_pools"),
    accelerator=when_called("gpupools.providers.gcp.read_back", "accelerator"),
    customised=when_called("gpupools.providers.gcp.by_hand", "overridden"),
    refusals=refusals,
    conflicts=conflicts,
    provider_settings=dict.fromkeys(("gcp", "google-native"), _PROVIDER_SETTINGS),
    settings=SETTINGS,
    node_runtime=node_runtime,
    # Google documents no list of what GKE sets itself. Its API refuses what it "manages": the pull request quotes it,
    # of a key that Google's pages have people write by now. Labels for DRA drivers are people's own.
    reserved_labels=(
        KeyRule(
            pattern="cloud.google.com/gke-*-dra-driver",
            source="https://github.com/modelplaneai/modelplane/pull/332",
            on_nodes=True,
        ),
        *(
            KeyRule(
                pattern=pattern,
                why="is a label that GKE keeps for itself",
                source="https://github.com/hashicorp/terraform-provider-google/pull/19677",
                on_nodes=True,
            )
            for pattern in ("cloud.google.com/gke-*", "cloud.google.com/machine-family", "topology.gke.io/*")
        ),
        KeyRule(
            pattern="sandbox.gke.io/runtime",
            why="is a label that GKE keeps for itself",
            source="https://github.com/crossplane-contrib/provider-gcp/pull/187",
            on_nodes=True,
        ),
        KeyRule(
            pattern=NO_DEVICE_PLUGIN_LABEL,
            why="switches GKE's device plugin off",
            fix="leave it out; software says who brings it",
            source=f"{_DOCS}/how-to/gpus",
            on_nodes=True,
        ),
        *(
            KeyRule(
                pattern=pattern,
                why="is refused by GKE, which takes no label of kubernetes.io and k8s.io",
                source="https://github.com/hashicorp/terraform-provider-google/issues/6003",
                on_nodes=True,
            )
            for pattern in ("kubernetes.io/*", "*.kubernetes.io/*", "k8s.io/*", "*.k8s.io/*")
        ),
        *OPERATOR_LABELS,
    ),
    reserved_taints=(
        *CONDITION_TAINTS,
        KeyRule(
            pattern="cloud.google.com/gke-queued",
            why="is the taint of queued pools, which GKE adds",
            fix="write capacity: {mode: queued, …}",
            source=QUEUED.source,
        ),
        KeyRule(
            pattern=ARM.taint.key,
            why="is one that GKE puts on Arm nodes itself",
            fix="leave it out",
            source=ARM.source,
        ),
        KeyRule(
            pattern="sandbox.gke.io/runtime",
            why="is one that GKE puts on nodes itself",
            fix="leave it out",
            source="https://github.com/crossplane-contrib/provider-gcp/pull/187",
        ),
    ),
    overridable=OVERRIDABLE,
    find_instance_type=find_instance_type,
)
