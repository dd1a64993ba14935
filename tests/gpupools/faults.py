"""Good stack files of each cloud, and what people write wrong in them, one fault at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Tree = dict[str, Any]
"""Keys of a stack file, in order; the leaves are YAML as written."""

ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"

_CLUSTERS: Mapping[str, tuple[Tree, Tree]] = {
    "aws": (
        {
            "region": "eu-central-1",
            "subnets_by_zone": "{eu-central-1a: [subnet-0000000a], eu-central-1b: [subnet-0000000b]}",
            "node_role_arn": ROLE,
        },
        {"region": "eu-central-1", "subnet_ids": "[subnet-0000000c]", "node_role_arn": ROLE},
    ),
    "azure": ({"resource_group": "ml", "tenant_id": "0" * 8 + "-0000-0000-0000-" + "0" * 12}, {"resource_group": "ml"}),
    "gcp": (
        {
            "project": "ml-lab",
            "location": "europe-west4",
            "node_locations": "[europe-west4-a, europe-west4-b]",
            "service_account": "gpu@ml.iam.gserviceaccount.com",
        },
        {"project": "ml-lab", "location": "europe-west4", "service_account": "gpu@ml.iam.gserviceaccount.com"},
    ),
}
ZONE = {"aws": "eu-central-1a", "azure": "'1'", "gcp": "europe-west4-a"}
_MACHINE = {"aws": "g6e.2xlarge", "azure": "Standard_NC24ads_A100_v4", "gcp": "g2-standard-8"}
_EIGHT = {"aws": "A100-80GB", "azure": "A100-80GB", "gcp": "A100-80GB"}
_SECOND = {"aws": "L4", "azure": "T4", "gcp": "L4"}


def good(cloud: str) -> Tree:
    """Return a stack file of two clusters and three pools in which nothing is wrong."""
    first, second = _CLUSTERS[cloud]
    return {
        "clusters": {
            "train": {
                "cloud": cloud,
                "name": "train-dev",
                **first,
                "kubeconfig": {"path": "~/.kube/train"},
                "tags": {"owner": "research"},
                "runtime": {"kubernetes": "'1.34'", "metrics": "true"},
            },
            "spare": {"cloud": cloud, "name": "spare-dev", **second, "kubeconfig": {"path": "~/.kube/spare"}},
        },
        "pools": {
            "cut": {
                "clusters": "[train]",
                "gpu": _EIGHT[cloud],
                "gpus_per_node": "8",
                "nodes": {"min": "0", "max": "4"},
                "sharing": {"mode": "mig", "profile": "1g.10gb"},
                "software": "gpu-operator",
                "capacity": {"mode": "on-demand"},
                "zones": f"[{ZONE[cloud]}]",
                "labels": {"team": "vision"},
                "taints": "['team=vision:NoSchedule']",
                "tags": {"cost": "a1"},
                "network": {"max_pods": "64"},
                "upgrade": {"max_unavailable": "1"},
                "timeouts": {"create_min": "60"},
            },
            "shared": {
                "clusters": "[train]",
                "instance_type": _MACHINE[cloud],
                "nodes": {"max": "6"},
                "sharing": {"mode": "time-slicing", "replicas": "4"},
                "software": "gpu-operator",
                "trust": {"team": "research"},
            },
            "whole": {
                "clusters": "[spare]",
                "gpu": _SECOND[cloud],
                "nodes": {"max": "2"},
                "software": "device-plugin",
                "protect": "false",
            },
        },
        "production": "false",
        "allow_destroy": "[train/shared]",
    }


def written(tree: Tree) -> str:
    """Write a stack file."""
    return "config:\n" + "".join(_lines({f"gpupools:{key}": value for key, value in tree.items()}, "  "))


def _lines(tree: Tree, indent: str) -> list[str]:
    found: list[str] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += [f"{indent}{key}:\n", *_lines(value, indent + "  ")]
        else:
            found.append(f"{indent}{key}: {value}\n")
    return found


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that somebody writes wrong."""

    name: str
    edits: Mapping[str, str | None]
    """Dotted path to what is written there, in YAML; None takes the key away, `>new` gives it another name."""
    told: Mapping[str, str]
    """Key of each problem to how it begins."""
    clouds: tuple[str, ...] = ("aws", "azure", "gcp")


def apply(tree: Tree, fault: Fault) -> None:
    """Write a fault into a stack file."""
    for path, value in fault.edits.items():
        *above, last = path.split(".")
        at: Any = tree
        for key in above:
            if not isinstance(at.get(key), dict):
                at[key] = {}
            at = at[key]
        if value is None:
            del at[last]
        elif value.startswith(">"):
            for key in list(at):
                at[value[1:] if key == last else key] = at.pop(key)
        else:
            at[last] = value


T, C, S, W = "clusters.train", "pools.cut", "pools.shared", "pools.whole"

FAULTS = (
    # --- the cluster
    Fault("cluster: key of another tool", {f"{T}.cluster_name": "x"}, {f"{T}.cluster_name": "unknown key"}),
    Fault("cluster: service for cloud", {f"{T}.cloud": "kubernetes"}, {f"{T}.cloud": "unknown cloud 'kubernetes'"}),
    Fault("cluster: service of AWS", {f"{T}.cloud": "eks"}, {f"{T}.cloud": "unknown cloud 'eks'"}, ("aws",)),
    Fault("cluster: service of Azure", {f"{T}.cloud": "AKS"}, {f"{T}.cloud": "unknown cloud 'AKS'"}, ("azure",)),
    Fault("cluster: misspelt cloud", {f"{T}.cloud": "gpc"}, {f"{T}.cloud": "unknown cloud 'gpc'"}, ("gcp",)),
    Fault("cluster: number as tag", {f"{T}.tags.owner": "7"}, {f"{T}.tags.owner": "got 7"}),
    Fault("cluster: region", {f"{T}.region": "eu-centrl-1"}, {f"{T}.region": "got 'eu-centrl-1'"}, ("aws",)),
    Fault("cluster: location", {f"{T}.location": "europe-wset4"}, {f"{T}.location": "got 'europe-wset4'"}, ("gcp",)),
    Fault("cluster: role", {f"{T}.node_role_arn": "gpu-nodes"}, {f"{T}.node_role_arn": "got 'gpu-nodes'"}, ("aws",)),
    Fault("cluster: account", {f"{T}.account": "123"}, {f"{T}.account": "is a number"}, ("aws",)),
    Fault(
        "cluster: another account",
        {f"{T}.account": "'210987654321'"},
        {f"{T}.node_role_arn": "is in account"},
        ("aws",),
    ),
    Fault(
        "cluster: two kinds of subnets",
        {f"{T}.subnet_ids": "[subnet-0000000a]"},
        {f"{T}.subnet_ids": "set exactly one of subnet_ids"},
        ("aws",),
    ),
    Fault("cluster: tenant", {f"{T}.tenant_id": "contoso"}, {f"{T}.tenant_id": "got 'contoso'"}, ("azure",)),
    Fault(
        "cluster: zone elsewhere",
        {f"{T}.node_locations": "[us-central1-a]"},
        {f"{T}.node_locations[0]": "'us-central1-a' is not a zone"},
        ("gcp",),
    ),
    Fault(
        "cluster: endpoint beside kubeconfig",
        {f"{T}.endpoint": "https://a.example"},
        {f"{T}.endpoint": "cannot be combined with kubeconfig"},
    ),
    Fault(
        "cluster: kubeconfig of a folder",
        {f"{T}.kubeconfig.path": "kube/train"},
        {f"{T}.kubeconfig.path": "got a value"},
    ),
    Fault(
        "cluster: kubeconfig in clear",
        {"clusters.spare.kubeconfig": "{secret: abc}"},
        {"clusters.spare.kubeconfig.secret": "is stored as clear text"},
    ),
    Fault(
        "cluster: same API",
        {"clusters.spare.kubeconfig.path": "~/.kube/train"},
        {"clusters.spare.kubeconfig": "has the same API as train"},
    ),
    # --- its software
    Fault("runtime: unknown key", {f"{T}.runtime.metric": "true"}, {f"{T}.runtime.metric": "unknown key"}),
    Fault("runtime: version", {f"{T}.runtime.kubernetes": "latest"}, {f"{T}.runtime.kubernetes": "'latest' is not a"}),
    Fault(
        "runtime: chart",
        {f"{T}.runtime.versions": "{gpu-operator: new}"},
        {f"{T}.runtime.versions.gpu-operator": "'new' is not an exact version"},
    ),
    Fault(
        "runtime: registry",
        {f"{T}.runtime.registry": "https://a.example"},
        {f"{T}.runtime.registry": "got a URL"},
    ),
    Fault(
        "runtime: pods of another cloud",
        {f"{T}.runtime.critical_pods": "100"},
        {f"{T}.runtime.critical_pods": ""},
        ("aws", "azure"),
    ),
    Fault(
        "runtime: other operator",
        {f"{T}.runtime.existing": "{gpu_operator: gpu/operator}"},
        {f"{C}.software": "the ", f"{S}.software": "the "},
        ("aws", "azure"),
    ),
    Fault(
        "runtime: system namespaces",
        {f"{T}.runtime.system_namespaces": "[kube-system]"},
        {f"{T}.runtime.system_namespaces": ""},
    ),
    Fault("runtime: metrics", {f"{T}.runtime.metrics": "maybe"}, {f"{T}.runtime.metrics": "got 'maybe'"}),
    Fault(
        "runtime: image that nothing pulls",
        {f"{T}.runtime.digests": f"{{nvcr.io/none: 'sha256:{'0' * 64}'}}"},
        {f"{T}.runtime.digests.nvcr.io/none": "no pod of the cluster pulls this image"},
    ),
    # --- a pool: keys
    Fault("pool: unknown key", {f"{C}.colour": "red"}, {f"{C}.colour": "unknown key"}),
    Fault("pool: misspelt key", {f"{C}.upgrade": ">upgrad"}, {f"{C}.upgrad": "unknown key"}),
    Fault("pool: misspelt needed key", {f"{C}.nodes": ">nods"}, {f"{C}.nods": "unknown key"}),
    Fault("pool: spot", {f"{C}.spot": "true"}, {f"{C}.spot": "unknown key"}),
    Fault("pool: vm_size", {f"{S}.instance_type": ">vm_size"}, {f"{S}.vm_size": "unknown key"}),
    Fault("pool: two machines", {f"{S}.gpu": "L4"}, {S: "set either gpu"}, ("aws", "gcp")),
    Fault("pool: two machines", {f"{S}.gpu": "T4"}, {S: "set either gpu"}, ("azure",)),
    Fault("pool: unknown key of sharing", {f"{C}.sharing.slices": "2"}, {f"{C}.sharing.slices": "unknown key"}),
    Fault("pool: unknown key of network", {f"{C}.network.efa": "true"}, {f"{C}.network.efa": "unknown key"}),
    Fault("pool: unknown key of trust", {f"{S}.trust.user": "x"}, {f"{S}.trust.user": "unknown key"}),
    Fault("pool: unknown key of capacity", {f"{C}.capacity.price": "3"}, {f"{C}.capacity.price": "unknown key"}),
    # --- a pool: values
    Fault("pool: unknown GPU", {f"{C}.gpu": "H999"}, {f"{C}.gpu": "'H999' is not an NVIDIA GPU model"}),
    Fault("pool: unknown machine", {f"{S}.instance_type": "big"}, {f"{S}.instance_type": ""}),
    Fault("pool: nodes with a zero", {f"{C}.nodes.max": "010"}, {f"{C}.nodes.max": "starts with 0"}),
    Fault("pool: nodes fixed and max", {f"{C}.nodes.fixed": "2"}, {f"{C}.nodes": "fixed cannot be combined"}),
    Fault("pool: MIG profile", {f"{C}.sharing.profile": "2g.11gb"}, {f"{C}.sharing.profile": ""}),
    Fault("pool: one replica", {f"{S}.sharing.replicas": "1"}, {f"{S}.sharing.replicas": "got 1"}),
    Fault("pool: no trust", {f"{S}.trust": None}, {f"{S}.trust": "time-slicing shares the memory"}),
    Fault("pool: trust of two", {f"{S}.trust.namespaces": "[a]"}, {f"{S}.trust": "got team and namespaces"}),
    Fault("pool: capacity", {f"{C}.capacity.mode": "cheap"}, {f"{C}.capacity.mode": "got 'cheap'"}),
    Fault("pool: our label", {f"{C}.labels.gpupools/pool": "a"}, {f"{C}.labels.gpupools/pool": "gpupools/pool is set"}),
    Fault("pool: taint word", {f"{C}.taints": "['team=vision:NoSchedul']"}, {f"{C}.taints[0]": ""}),
    Fault("pool: tag", {f"{C}.tags.cost": "1"}, {f"{C}.tags.cost": "got 1"}),
    Fault("pool: date as tag", {f"{C}.tags.until": "2026-12-31"}, {f"{C}.tags.until": "is a date"}),
    Fault("pool: disk type", {f"{S}.disk.type": "floppy"}, {f"{S}.disk.type": ""}),
    Fault("pool: most pods", {f"{C}.network.max_pods": "257"}, {f"{C}.network.max_pods": "got 257"}),
    Fault("pool: upgrade of none", {f"{C}.upgrade.max_unavailable": "0"}, {f"{C}.upgrade": "with max_surge 0"}),
    Fault("pool: timeout", {f"{C}.timeouts.create_min": "1"}, {f"{C}.timeouts.create_min": "got 1"}),
    Fault("pool: zones as text", {f"{C}.zones": "here"}, {f"{C}.zones": "got 'here'"}),
    Fault("pool: image", {f"{W}.image": "{family: custom}"}, {f"{W}.image": "id and family"}),
    Fault("pool: secure boot", {f"{S}.security.secure_boot": "true"}, {f"{S}.security.secure_boot": ""}),
    Fault("pool: RDMA", {f"{S}.network.rdma": "true"}, {f"{S}.network.rdma": ""}),
    Fault("pool: NVLink", {f"{W}.network.compute_domains": "true"}, {f"{W}.network.compute_domains": ""}),
    Fault(
        "pool: GPU networks",
        {f"{W}.network.gpu_networks": "[{network: a, subnetwork: b}]"},
        {f"{W}.network.gpu_networks": ""},
    ),
    Fault(
        "pool: override",
        {f"{W}.overrides": "{oracle: {Pool: {size: 3}}}"},
        {f"{W}.overrides.oracle": "unknown cloud 'oracle'"},
    ),
    Fault("pool: protect", {f"{W}.protect": "'yes'"}, {f"{W}.protect": "got 'yes'"}),
    # --- keys whose names are words of what is said of others
    Fault("pool: placement", {f"{S}.network.placement": "near"}, {f"{S}.network.placement": "got 'near'"}),
    Fault("pool: hop limit", {f"{S}.security.imds_hop_limit": "2"}, {f"{S}.security.imds_hop_limit": ""}, ("azure",)),
    Fault("pool: FIPS", {f"{S}.image.fips": "'yes'"}, {f"{S}.image.fips": "got 'yes'"}),
    Fault("pool: team", {f"{S}.trust.team": "A"}, {f"{S}.trust.team": "'A' is not a valid name"}),
    Fault(
        "pool: label of Kubernetes", {f"{S}.labels": "{kubernetes.io/team: a}"}, {f"{S}.labels.kubernetes.io/team": ""}
    ),
    Fault("pool: adopt as text", {f"{W}.adopt": "old"}, {f"{W}.adopt": "got 'old'"}),
    Fault("pool: security as text", {f"{S}.security": "high"}, {f"{S}.security": "got 'high'"}),
    Fault(
        "pool: override of no cloud",
        {f"{S}.overrides": "{NodeGroup: {labels: {}}}"},
        {f"{S}.overrides.NodeGroup": "unknown cloud 'NodeGroup'"},
    ),
    # --- names
    Fault("pool: name of another", {f"{S}.first_name": "cut"}, {f"{C}.first_name": ""}),
    Fault("pool: name that cannot be", {W: ">Whole_Pool"}, {"pools.Whole_Pool": "is not a valid key"}),
    Fault(
        "cluster: name that cannot be",
        {"clusters.spare": ">Spare", f"{W}.clusters": "[Spare]"},
        {"clusters.Spare": "is not a valid key"},
    ),
    Fault("stack: production", {"production": "maybe"}, {"production": "got 'maybe'"}),
    Fault("stack: allow_destroy", {"allow_destroy": "[a/b/c]"}, {"allow_destroy[0]": "got 'a/b/c'"}),
)
