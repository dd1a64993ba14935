"""Google Kubernetes Engine (GKE Standard): its machines, what its node pools can do, and how to read one back.

Owns the knowledge; `resources.py` turns a plan into Pulumi resources and is the only file that imports the SDK.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpupools.planned.cloud import Cloud, Declaring, NodePools, Reading
from gpupools.providers.gcp.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from gpupools.providers.gcp.choices import decide, refusals
from gpupools.providers.gcp.cluster import GkeCluster
from gpupools.providers.gcp.conflicts import conflicts
from gpupools.providers.gcp.machines import INSTANCE_TYPES, find_instance_type
from gpupools.providers.gcp.pool_settings import OVERRIDABLE, SETTINGS
from gpupools.providers.gcp.reserved import LABELS, TAINTS
from gpupools.providers.gcp.runtime import node_runtime

if TYPE_CHECKING:
    from gpupools.asked.access import ExecPlugin
    from gpupools.planned.described import Described
    from gpupools.planned.edit_tables import EditTables
    from gpupools.planned.outside import Outside

_ENVIRONMENT = "set {} where Pulumi runs"

# https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference
_PROVIDER_SETTINGS = {
    "project": "write the cluster's project",
    "region": "write the cluster's location",
    "zone": "write the cluster's location",
    "credentials": _ENVIRONMENT.format("GOOGLE_CREDENTIALS"),
    "accessToken": _ENVIRONMENT.format("GOOGLE_OAUTH_ACCESS_TOKEN"),
    "impersonateServiceAccount": "write impersonate_service_account of the cluster",
    "billingProject": _ENVIRONMENT.format("GOOGLE_BILLING_PROJECT"),
    "userProjectOverride": _ENVIRONMENT.format("USER_PROJECT_OVERRIDE"),
    "defaultLabels": "write tags of the cluster, which all its pools get",
}


def _access(cluster: Mapping[str, Any]) -> "ExecPlugin":
    from gpupools.providers.gcp.access import exec_plugin

    return exec_plugin(cluster)


def _described() -> "Described":
    from gpupools.providers.gcp.described import DESCRIBED

    return DESCRIBED


def _edits() -> "EditTables":
    from gpupools.providers.gcp.edits import edits

    return edits()


def _reading() -> Reading:
    from gpupools.providers.gcp.read_back import READING

    return READING


def _declaring() -> Declaring:
    from gpupools.providers.gcp.resources import DECLARING

    return DECLARING


def _outside() -> "Outside":
    from gpupools.providers.gcp.outside import OUTSIDE

    return OUTSIDE


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
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    decide=decide,
    refusals=refusals,
    conflicts=conflicts,
    provider_settings=dict.fromkeys(("gcp", "google-native"), _PROVIDER_SETTINGS),
    access=_access,
    described=_described,
    node_runtime=node_runtime,
    models_claims=True,
    find_instance_type=find_instance_type,
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
    node_pools=NodePools(
        settings=SETTINGS, overridable=OVERRIDABLE, edits=_edits, declaring=_declaring, outside=_outside
    ),
    reading=_reading,
)
