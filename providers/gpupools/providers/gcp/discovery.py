"""Reads a GKE cluster from the output of the Google Cloud CLI, or of the module kubernetes-engine."""

import re
from typing import Any

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.discovery import Described, Discovery, inner, maps, minor_version, taint_texts, texts

_CLUSTER = r"projects/(?P<project>[^/]+)/(?:locations|zones)/(?P<location>[^/]+)/clusters/(?P<name>[^/]+)"


def _read_cluster(told: JsonObject) -> Described | None:
    """Read a cluster: https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.

    A node pool that runs as `default` has the project's own Compute Engine account, which nodes should not have.
    """
    link = re.fullmatch(rf"https://[^/]+/v1(?:beta1)?/{_CLUSTER}", str(told.get("selfLink", "")))
    if link is None:
        return None
    if inner(told, "autopilot", "enabled") is True:
        source = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/autopilot-gpus"
        what = "is an Autopilot cluster, which has no node pools to declare"
        fix = "use a Standard cluster; or request GPUs there by pods alone, with cloud.google.com/gke-accelerator"
        raise Rejected([Problem((), what, fix, source)])
    pools = maps(told.get("nodePools"))
    accounts = [inner(pool, "config", "serviceAccount") for pool in pools]
    found: JsonDict = {
        "name": told.get("name"),
        "project": link["project"],
        "location": told.get("location") or told.get("zone") or link["location"],
        "service_account": next((each for each in accounts if isinstance(each, str) and "@" in each), None),
        "node_locations": told.get("locations"),
        "endpoint": told.get("endpoint"),
        "certificate_authority": inner(told, "masterAuth", "clusterCaCertificate"),
        "kubernetes": minor_version(told.get("currentMasterVersion")),
    }
    cpu = [pool for pool in pools if not inner(pool, "config", "accelerators")]
    taints = [taint_texts(inner(pool, "config", "taints")) for pool in cpu]
    return Described(texts(found) | ({"cpu_taints": taints} if taints else {}))


def _read_outputs(outputs: JsonObject) -> Described | None:
    """Read outputs of the module.

    https://registry.terraform.io/modules/terraform-google-modules/kubernetes-engine/google/latest?tab=outputs. It marks
    `endpoint` and `ca_certificate` as sensitive.
    """
    link = re.search(_CLUSTER, str(outputs.get("cluster_id", "")))
    names = {"name": _first(outputs, "name", "cluster_name", "kubernetes_cluster_name"), **_of(link)}
    space = str(outputs.get("identity_namespace", ""))
    project = names.get("project") or space.removesuffix(".svc.id.goog") or _first(outputs, "project_id", "project")
    location = names.get("location") or _first(outputs, "location", "region")
    if not (project and names["name"] and location):
        return None
    found: JsonDict = {
        "name": names["name"],
        "project": project,
        "location": location,
        "service_account": outputs.get("service_account"),
        "node_locations": outputs.get("zones"),
        "endpoint": _first(outputs, "endpoint", "kubernetes_endpoint"),
        "certificate_authority": outputs.get("ca_certificate"),
        "kubernetes": minor_version(_first(outputs, "master_version", "min_master_version")),
    }
    taints = "taints of its CPU nodes are not among the outputs: add --describe with gcloud container clusters describe"
    return Described(texts(found), {"cpu_taints": taints})


def _of(link: re.Match[str] | None) -> JsonDict:
    return link.groupdict() if link is not None else {}


def _first(outputs: JsonObject, *names: str) -> Any:
    return next((outputs[name] for name in names if outputs.get(name)), None)


DISCOVERY = Discovery(
    commands=("gcloud container clusters describe NAME --location LOCATION --format json",),
    read=_read_cluster,
    outputs=_read_outputs,
    which=("name", "project", "location"),
)
