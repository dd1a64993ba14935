"""What the Google Cloud CLI says of a GKE cluster."""

import re

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonObject
from gpupools.plan.discovery import Discovery, inner, texts

_LINK = r"https://[^/]+/v1(?:beta1)?/projects/(?P<project>[^/]+)/(?:locations|zones)/[^/]+/clusters/[^/]+"


def _read_cluster(told: JsonObject) -> JsonObject | None:
    """Read a cluster: https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.

    A node pool that runs as `default` has the project's own Compute Engine account, which nodes should not have.
    """
    link = re.fullmatch(_LINK, str(told.get("selfLink", "")))
    if link is None:
        return None
    if inner(told, "autopilot", "enabled") is True:
        source = "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/autopilot-overview"
        what = "is an Autopilot cluster, whose nodes Google makes by itself"
        raise Rejected([Problem((), what, "take one of mode Standard", source)])
    pools = told.get("nodePools")
    accounts = [inner(pool, "config", "serviceAccount") for pool in pools] if isinstance(pools, list) else []
    return texts(
        {
            "name": told.get("name"),
            "project": link["project"],
            "location": told.get("location"),
            "service_account": next((each for each in accounts if isinstance(each, str) and "@" in each), None),
            "endpoint": told.get("endpoint"),
            "certificate_authority": inner(told, "masterAuth", "clusterCaCertificate"),
        }
    )


DISCOVERY = Discovery(
    commands=("gcloud container clusters describe NAME --location LOCATION --format json",),
    read=_read_cluster,
    which=("name", "project", "location"),
)
