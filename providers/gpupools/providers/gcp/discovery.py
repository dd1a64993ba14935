"""How a GKE cluster is described: by the Google Cloud CLI, or by outputs of the module kubernetes-engine.

https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters, where a node pool
that runs as `default` has the project's own Compute Engine account, which nodes should not have, and
https://registry.terraform.io/modules/terraform-google-modules/kubernetes-engine/google/latest?tab=outputs, which marks
`endpoint` and `ca_certificate` as sensitive.
"""

from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.discovery import Discovery, inner

DISCOVERY = Discovery(
    commands=("gcloud container clusters describe NAME --location LOCATION --format json",),
    rows=csv_rows(Path(__file__).with_name("discovery.csv")),
    has_gpu=lambda pool: bool(inner(pool, "config", "accelerators")),
    which=("name", "project", "location"),
)
