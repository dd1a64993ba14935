"""Whether a live cluster is the one of the stack file: the one judge for every command. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import LATE_DIGITS, Cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.cluster_access import endpoint_host
from gpupools.spec.identifiers import pattern_of
from gpupools.spec.models import Cluster

_WRITTEN = re.compile(r"arn:[a-z-]+:eks:[^:\s]+:[^:\s]+:cluster/\S+|gke_[^_\s]+_[^_\s]+_\S+")
"""Names that the clouds' programs give to clusters in a kubeconfig.

https://github.com/aws/aws-cli, awscli/customizations/eks/update_kubeconfig.py;
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
"""


OwnGroup = Callable[[str], bool | None]
"""Says whether a text names the node group of a pool; None if it may."""


class Proof(NamedTuple):
    """Why a live cluster is another one, or what is missing for a proof that it is the file's; both empty if it is."""

    other: str
    unproven: str


def prove(cluster: Cluster, cloud: Cloud, nodes: Sequence[JsonObject], where: tuple[str, str]) -> Proof:
    """Compare all nodes of a live cluster with the cluster of the stack file.

    `where` has the host of the API, and the name of the cluster in the kubeconfig.
    """
    host, name = where
    pattern = cluster.node_pattern()
    if _WRITTEN.fullmatch(name) and not re.fullmatch(cluster.kubeconfig_name(), name):
        return Proof(f"{name} in the kubeconfig is not the cluster of the file", "")
    matches = [(node, re.match(pattern, _identity(cloud, node), re.IGNORECASE)) for node in nodes]
    # Nodes of other machines may join a cluster, such as hybrid nodes.
    foreign = [node for node, match in matches if match is None and node["spec"].get("providerID")]
    if nodes and len(foreign) == len(nodes):
        meta, provider = foreign[0]["metadata"], foreign[0]["spec"]["providerID"]
        named = meta.get("labels", {}).get(cloud.cluster_label)
        what = f" of {named}" if named else ""
        place = f"{cluster.cloud} {cluster.region_name()}"
        return Proof(f"node {meta['name']} ({provider}){what} is not of the cluster in {place}", "")
    is_named = any(match is not None and _is_named(node, match, cloud) for node, match in matches)
    if (host and host == endpoint_host(cluster)) or is_named or _WRITTEN.fullmatch(name):
        return Proof("", "")
    what = "none of its nodes carries the name of a cluster" if nodes else "it has no nodes"
    return Proof("", f"{what}, and its name in the kubeconfig is {name or 'missing'}")


def own_group(pool: PoolPlan, cluster: Cluster, cloud: Cloud) -> OwnGroup:
    """Return the judge of what Cluster Autoscaler says of node groups.

    Where clouds cut names off or autonaming of Pulumi changes them, the plan does not know the whole name.
    """
    # Only our names end in digits that no other pool has.
    of = pattern_of(getattr(cluster, "name", None)) if pool.provider_plan.adopted is not None else r"[\w-]+"
    names = (name for name in cloud.node_pools.order.names(pool, cluster) if not name.endswith(LATE_DIGITS))
    ids = [cloud.node_pools.autoscaler_id.format(cluster=of, name=name) for name in names]

    def is_own(text: str) -> bool | None:
        words = re.findall(r"[\w-]+", text)
        found = any(re.fullmatch(each, word, re.IGNORECASE) for each in ids for word in words)
        return True if found else None if _may_be_own(text, pool) else False

    return is_own


def other_group(pool: PoolPlan, node: JsonObject) -> str:
    """Say that a node is of another node group than a pool's own; empty if nothing tells that it is."""
    label, names = pool.provider_plan.node_groups(pool.cluster, pool.name)
    group = node["metadata"].get("labels", {}).get(label, "")
    is_other = group and not _may_be_own(group, pool)
    return f"label {label}: promised {' or '.join(sorted(names))}, found {group}" if is_other else ""


def _may_be_own(text: str, pool: PoolPlan) -> bool:
    """Return whether a text has what all names of the pool's node group have: autonaming may add to both ends."""
    parts = pool.provider_plan.node_groups(pool.cluster, pool.name)[1]
    return any(part.casefold() in text.casefold() for part in parts)


def _is_named(node: JsonObject, match: re.Match[str], cloud: Cloud) -> bool:
    """Return whether a node carries the name of its cluster, in a name that also has the pool where the cloud does."""
    groups, pool = match.groupdict(), node["metadata"].get("labels", {}).get(cloud.cluster_label)
    return bool(groups.get("named")) and groups.get("pool", pool) == pool


def _identity(cloud: Cloud, node: JsonObject) -> str:
    """Return what a node tells about its cluster: provider id, region, name, and the label that names it."""
    labels: Mapping[str, str] = node["metadata"].get("labels", {})
    region, named = labels.get("topology.kubernetes.io/region", ""), labels.get(cloud.cluster_label, "")
    return f"{node['spec'].get('providerID', '')} {region} {node['metadata']['name']} {named}"
