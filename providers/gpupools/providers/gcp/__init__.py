"""Google Kubernetes Engine (GKE Standard): its machines, what its node pools can do, and how to read one back.

Owns the knowledge; only `resources.py`, which registers a plan's resources, imports Pulumi.
"""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules
from gpupools.plan.cloud import Cloud, NodePools, PodLimits, PoolOrder, RegisteredResource, call_later, get_later
from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_provider_settings, read_software
from gpupools.providers.gcp.cluster import GkeCluster
from gpupools.providers.gcp.constraints import check_pool, check_settings
from gpupools.providers.gcp.machines import INSTANCE_TYPES
from gpupools.providers.gcp.node_software import node_runtime
from gpupools.providers.gcp.pool_plan import build_provider_plan
from gpupools.providers.gcp.pool_settings import OVERRIDABLE, SETTINGS

_HERE = Path(__file__).parent

CLOUD = Cloud(
    name="gcp",
    service="GKE",
    instance_types=INSTANCE_TYPES,
    folder=_HERE,
    cluster=GkeCluster,
    example_cluster={
        "cloud": "gcp",
        "name": "lab-dev",
        "project": "ml-dev",
        "location": "europe-west4",
        "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
    software=read_software(_HERE),
    default_software=read_default_software(_HERE),
    capabilities=read_capabilities(_HERE),
    decide=build_provider_plan,
    check_pool=check_pool,
    check_settings=check_settings,
    # https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference
    provider_settings=read_provider_settings(_HERE, "gcp", "google-native"),
    pool_command="gcloud container operations list --project {project} --location {location}"
    " --sort-by=~START_TIME --limit 20",
    cluster_label="cloud.google.com/gke-nodepool",
    node_runtime=node_runtime,
    supports_dra_from_zero=True,
    capacity_buffers="https://docs.cloud.google.com/kubernetes-engine/docs/how-to/configure-capacity-buffer",
    # Google documents no list of what GKE sets itself. Its API refuses what it "manages": the pull request quotes it,
    # of a key that Google's pages have people write by now. Labels for DRA drivers are people's own.
    pod_limits=PodLimits(8, 256, "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr"),
    reserved_labels=(*key_rules(_HERE / "reserved.csv", "label"), *OPERATOR_LABELS),
    reserved_taints=(*CONDITION_TAINTS, *key_rules(_HERE / "reserved.csv", "taint")),
    node_pools=NodePools(
        settings=SETTINGS,
        overridable=OVERRIDABLE,
        edits=call_later(f"{__name__}.edit_effects", "edit_tables"),
        resources=get_later(f"{__name__}.resources", "RESOURCES"),
        declared_inputs=call_later(f"{__name__}.declared_inputs", "declared_inputs"),
        order=PoolOrder(
            names=call_later(f"{__name__}.declared_inputs", "known_names"),
            compute_class=call_later(f"{__name__}.compute_class", "ordering_class"),
        ),
        registered={"ResourcePolicy": RegisteredResource("nvlink"), "NodePool": RegisteredResource("nodes")},
        existing_pools=get_later(f"{__name__}.existing_pools", "EXISTING_POOLS"),
        autoscaler_id="gke-{cluster}-{name}-[0-9a-f]{{8}}-grp",
    ),
    readback=get_later(f"{__name__}.readback", "READBACK"),
)
