"""What would run where, and with what: judged from rendered objects, not from the values that we believe are read."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.taints import parse_taint
from gpupools.plan.capability import Verdict
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Piece, Release
from gpupools.providers import clouds
from gpupools.software import objects
from gpupools.software.charts import at, default_values, nested, value_paths
from gpupools.software.planning import plan_runtimes
from gpupools.spec.models import SHARING_KINDS
from tests.charts.clusters import CASES, CPU_TAINTS, Planned, on_tainted_nodes, planned
from tests.charts.nodes import labels_at_first, taints
from tests.charts.rendering import (
    INSTALLABLE,
    ChartRefused,
    Object,
    containers,
    lands,
    of_kind,
    own_values,
    pod_of,
    rendered,
    template,
    written,
)
from tests.gpupools.software.conftest import stack_of
from tests.gpupools.software.fabrics import stack_with
from tests.stack_plans import plan_stack

pytestmark = pytest.mark.charts

EVERY = pytest.mark.parametrize("case", CASES)
PINNED = pytest.mark.parametrize("chart", INSTALLABLE)

PRESENT = "nvidia.com/gpu.present"
OPERANDS = "nvidia.com/gpu.deploy.operands"
CPU_NODE = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}

# Container to the piece it brings, of DaemonSets in the charts themselves.
PIECES = {
    "nvidia-device-plugin-ctr": Piece.DEVICE_PLUGIN,
    "vgpu-monitor": Piece.DEVICE_PLUGIN,  # beside a container with the name device-plugin
    "exporter": Piece.DCGM_EXPORTER,
    "gpus": Piece.DRA_DRIVER,
    "compute-domains": Piece.COMPUTE_DOMAINS,
    "aws-efa-k8s-device-plugin": Piece.RDMA_PLUGIN,
    "worker": Piece.NODE_FEATURE_DISCOVERY,
}
# Key of the ClusterPolicy to the piece whose DaemonSet the operator makes.
OPERATED = {
    "driver": Piece.DRIVER,
    "toolkit": Piece.CONTAINER_TOOLKIT,
    "devicePlugin": Piece.DEVICE_PLUGIN,
    "gfd": Piece.GPU_FEATURE_DISCOVERY,
    "dcgmExporter": Piece.DCGM_EXPORTER,
    "migManager": Piece.MIG_MANAGER,
}


def objects_of(cluster: Planned) -> list[Object]:
    """Return all objects of a cluster: those of its charts, and those that the plan declares beside them."""
    own = [each.manifest for each in cluster.runtime.objects]
    return [*own, *(each for release in cluster.runtime.releases for each in rendered(release))]


def labels_left(pool: PoolPlan, cluster: Planned) -> dict[str, str]:
    """Return the labels after the controllers of a cluster's charts have been at the node.

    Node Feature Discovery labels the nodes its workers run on; the operator goes by that, and sets its label to `false`
    elsewhere: NVIDIA/gpu-operator tag v26.7.0, controllers/nodelabeling_controller.go.
    """
    labels = labels_at_first(pool)
    charts = [each for release in cluster.runtime.releases for each in rendered(release)]
    workers = [
        each
        for each in of_kind(charts, "DaemonSet")
        if any(one["name"] == "worker" for one in pod_of(each)["containers"])
    ]
    theirs = pool.software == "gpu-operator" and not workers  # then the team's own is relied on
    if theirs or any(lands(pod_of(each), labels, taints(pool)) for each in workers):
        labels["feature.node.kubernetes.io/pci-10de.present"] = "true"
    if any(of_kind(charts, "ClusterPolicy")):
        if "feature.node.kubernetes.io/pci-10de.present" in labels:
            labels[PRESENT] = "true"
        elif PRESENT in labels:
            labels[PRESENT] = "false"
    return labels


def runs_on(pod: Object, pool: PoolPlan, cluster: Planned) -> bool:
    return lands(pod, labels_left(pool, cluster), taints(pool))


def brought(pool: PoolPlan, cluster: Planned) -> dict[Piece, set[str]]:
    """Return what charts bring to the nodes of a pool, and which, from rendered objects alone."""
    found: dict[Piece, set[str]] = {}
    for release in cluster.runtime.releases:
        objects = rendered(release)
        for each in of_kind(objects, "DaemonSet"):
            # EFA's goes by machine type, also to nodes whose interfaces are none of it.
            for_it = release.chart != "aws-efa-k8s-device-plugin" or pool.name in release.pools
            if for_it and runs_on(pod_of(each), pool, cluster):
                for container in pod_of(each)["containers"]:
                    if container["name"] in PIECES:
                        found.setdefault(PIECES[container["name"]], set()).add(f"chart {release.chart}")
        for policy in of_kind(objects, "ClusterPolicy"):
            for piece in _operands(policy["spec"], pool, cluster):
                found.setdefault(piece, set()).add(f"chart {release.chart}")
    return found


def _operands(spec: Mapping[str, Any], pool: PoolPlan, cluster: Planned) -> Iterator[Piece]:
    """Give the pieces that the operator brings to a pool.

    Every operand has the tolerations of `daemonsets` and selects `nvidia.com/gpu.deploy.…`, which the operator sets
    where there are GPUs, unless the node has turned operands away: controllers/object_controls.go and state_manager.go.
    """
    labels = labels_left(pool, cluster)
    pod = {"tolerations": spec["daemonsets"]["tolerations"]}
    if labels.get(PRESENT) != "true" or labels.get(OPERANDS) == "false" or not lands(pod, labels, taints(pool)):
        return
    yield Piece.RUNTIME_CLASS
    for key, piece in OPERATED.items():
        if spec[key]["enabled"]:
            yield piece


# --- what runs where ---


def test_every_accepted_cell_of_the_matrix_is_rendered() -> None:
    seen = {
        (pool.cloud, pool.software, pool.sharing.kind)
        for case in CASES
        for each in planned(case)
        for pool in each.pools
    }
    matrix = {
        (pool.cloud, pool.software, pool.sharing.kind)
        for each in planned("stacks/Pulumi.matrix.yaml")
        for pool in each.pools
    }
    accepted = {
        (cloud.name, software, kind)
        for cloud in clouds().values()
        for software in cloud.software
        for kind in SHARING_KINDS
        if cloud.capabilities[software, kind].verdict is not Verdict.REFUSED
    }

    assert seen >= accepted
    assert matrix == accepted


@EVERY
def test_the_owner_table_is_what_the_rendered_charts_bring(case: str) -> None:
    for cluster in planned(case):
        table = {
            row.pool: {piece: {owner} for piece, owner in row.owners.items() if owner.startswith("chart ")}
            for row in cluster.runtime.owners
        }

        assert {pool.name: brought(pool, cluster) for pool in cluster.pools} == table


@EVERY
def test_every_pod_lands_on_the_pools_its_release_is_for_and_on_no_other(case: str) -> None:
    for cluster in planned(case):
        for release in cluster.runtime.releases:
            for each in of_kind(rendered(release), "DaemonSet"):
                pod = pod_of(each)
                wanted = {
                    pool.name
                    for pool in cluster.pools
                    if pool.name in release.pools
                    # The chart's MPS daemon is for nodes that share by MPS.
                    and ("mps-control-daemon" not in each["metadata"]["name"] or pool.sharing.kind == "mps")
                }
                there = {pool.name for pool in cluster.pools if runs_on(pod, pool, cluster)}
                if release.chart == "aws-efa-k8s-device-plugin":  # it goes by machine type, to nodes without EFA too
                    there &= set(release.pools)

                assert there == wanted, each["metadata"]["name"]


@EVERY
def test_daemons_of_the_plan_land_on_the_nodes_they_are_for(case: str) -> None:
    for cluster in planned(case):
        for each in of_kind([one.manifest for one in cluster.runtime.objects], "DaemonSet"):
            there = {pool.name for pool in cluster.pools if runs_on(pod_of(each), pool, cluster)}
            owned = {row.pool for row in cluster.runtime.owners if "DaemonSet" in row.owners.get(Piece.DRIVER, "")}

            assert there == owned


@EVERY
def test_what_is_no_daemon_runs_on_a_plain_cpu_node(case: str) -> None:
    for cluster in planned(case):
        for release in cluster.runtime.releases:
            for each in of_kind(rendered(release), "Deployment", "Job", "StatefulSet"):
                assert lands(pod_of(each), CPU_NODE, []), each["metadata"]["name"]


@EVERY
def test_what_is_no_daemon_runs_on_tainted_cpu_nodes_where_their_taints_are_named(case: str) -> None:
    hard = [
        {"key": each.key, "value": each.value, "effect": each.effect.value} for each in map(parse_taint, CPU_TAINTS)
    ]
    cases = [*((each, False) for each in planned(case)), *((each, True) for each in on_tainted_nodes(case))]
    for cluster, named in cases:
        for release in cluster.runtime.releases:
            for each in of_kind(rendered(release), "Deployment", "Job", "StatefulSet"):
                assert lands(pod_of(each), CPU_NODE, hard) is named, each["metadata"]["name"]


@EVERY
def test_the_exported_part_of_a_pod_lands_on_its_pool_alone(case: str) -> None:
    for cluster in planned(case):
        for pool in cluster.pools:
            pod = cluster.runtime.pods[pool.name]
            lasting = [each._replace(startup_taint=None) for each in cluster.pools]  # a start-up taint goes by itself

            assert [each.name for each in lasting if runs_on(pod, each, cluster)] == [pool.name]


# --- what pods need beside them ---


# Programs of the charts that ask the API server, and those that do not.
ASKING = {"config-manager", "nfd-worker", "nfd-master", "nfd-gc", "gpu-operator", "manage-crds", "cleanup-gpuclusters"}
ASKING |= {"gpu-kubelet-plugin", "compute-domain-kubelet-plugin", "compute-domain-controller"}
ASKING |= {"manager"}  # of Kueue
ASKING |= {"operator", "upgrader", "deployer", "deleter"}  # of KAI
ASKING |= {"device-plugin", "vGPUmonitor", "kube-scheduler", "vgpu-scheduler-extender", "create", "patch"}  # of HAMi
# Volcano's images start their programs, so only the containers have names.
ASKING |= {"admission", "volcano-controllers", "volcano-scheduler", "gen-admission-secret.sh"}
SILENT = {"nvidia-device-plugin", "mps-control-daemon", "kubelet-plugin-prestart.sh", "aws-efa-k8s-device-plugin"}


def asks_the_api(container: Object) -> bool:
    """Say whether a container asks the API server, from its command line; a program not known yet is an error."""
    line = [*container.get("command", ()), *container.get("args", ())] or [container["name"]]
    if container["name"] == "exporter":  # only for a ConfigMap: https://github.com/NVIDIA/dcgm-exporter/issues/624
        return bool({"-m", "--configmap-data"} & {*line})
    words = {word.rsplit("/", 1)[-1] for word in " ".join(line).split()}
    words |= {container["name"]} - {"main"}
    assert words & (ASKING | SILENT), line
    return bool(words & ASKING)


@cache
def workloads(case: str) -> list[tuple[Planned, Release, Object]]:
    kinds = ("DaemonSet", "Deployment", "Job", "StatefulSet")
    return [
        (cluster, release, each)
        for cluster in planned(case)
        for release in cluster.runtime.releases
        for each in of_kind(rendered(release), *kinds)
    ]


@EVERY
def test_who_asks_the_api_server_has_an_account_with_a_token_and_rights(case: str) -> None:
    for _, release, each in workloads(case):
        pod, objects = pod_of(each), rendered(release)
        account = pod.get("serviceAccountName") or pod.get("serviceAccount", "default")
        if any(asks_the_api(container) for container in containers(pod)):
            (declared,) = (one for one in of_kind(objects, "ServiceAccount") if one["metadata"]["name"] == account)
            bound = {
                subject["name"]
                for one in of_kind(objects, "RoleBinding", "ClusterRoleBinding")
                for subject in one["subjects"]
            }

            assert pod.get("automountServiceAccountToken", declared.get("automountServiceAccountToken", True)), each[
                "metadata"
            ]["name"]
            assert account in bound


@EVERY
def test_what_a_pod_mounts_is_declared_with_the_keys_it_reads(case: str) -> None:
    for cluster, release, each in workloads(case):
        maps = {
            one["metadata"]["name"]: one.get("data") or {}
            for one in of_kind(objects_of(cluster), "ConfigMap")
            if one["metadata"]["namespace"] == release.namespace
        }
        for volume in pod_of(each).get("volumes", ()):
            source = volume.get("configMap", {})
            if source and not source.get("optional"):
                assert source["name"] in maps
                assert {item["key"] for item in source.get("items", ())} <= set(maps[source["name"]])
        for container in containers(pod_of(each)):
            names = {volume["name"] for volume in pod_of(each).get("volumes", ())}
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= names


@EVERY
def test_the_exporter_reads_our_list_of_metrics_from_a_file_that_is_mounted(case: str) -> None:
    for cluster, release, each in workloads(case):
        if release.chart != "dcgm-exporter" or each["kind"] != "DaemonSet":
            continue
        (container,) = pod_of(each)["containers"]
        read = container["args"][container["args"].index("-f") + 1]
        (mount,) = (one for one in container["volumeMounts"] if one["mountPath"] == read)
        (volume,) = (one for one in pod_of(each)["volumes"] if one["name"] == mount["name"])
        (item,) = volume["configMap"]["items"]
        (map_,) = (
            one
            for one in of_kind(objects_of(cluster), "ConfigMap")
            if one["metadata"]["name"] == volume["configMap"]["name"]
        )

        assert item["path"] == mount["subPath"]
        assert "DCGM_FI_DEV_GPU_UTIL, gauge" in map_["data"][item["key"]]
        assert map_["data"][item["key"]].strip() == release.values["customMetrics"].strip()


def test_another_list_of_metrics_starts_the_exporters_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """They read it once; the exporter's chart keeps the name of its ConfigMap, the operator is given another one."""

    def readers() -> list[Object]:
        stack = stack_of(
            "azure", {name[0]: {"gpu": "T4", "software": name} for name in ("device-plugin", "gpu-operator")}
        )
        (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
        found = [each for release in made.releases for each in rendered(release)]
        exporters = [
            each["spec"]["template"] for each in of_kind(found, "DaemonSet") if "dcgm" in str(each["metadata"])
        ]
        return [*exporters, *(each["spec"]["dcgmExporter"] for each in of_kind(found, "ClusterPolicy"))]

    before = readers()
    monkeypatch.setattr(objects, "metrics_csv", lambda: "DCGM_FI_DEV_GPU_UTIL, gauge, other\n")
    # tests/gpupools/software/test_configs.py holds the constant against the list.
    monkeypatch.setattr(objects, "METRICS_DIGEST", "metrics-of-another-list")
    after = readers()

    assert len(before) == len(after) == 2
    assert [one for one, other in zip(before, after, strict=True) if one == other] == []


@EVERY
def test_the_operator_and_the_plugin_find_every_configuration_that_a_node_names(case: str) -> None:
    for cluster in planned(case):
        maps = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one["data"]
            for one in of_kind(objects_of(cluster), "ConfigMap")
        }
        named = {pool.name: pool.labels.get("nvidia.com/device-plugin.config") for pool in cluster.pools}
        for release in cluster.runtime.releases:
            entries: set[str] = set()
            for policy in of_kind(rendered(release), "ClusterPolicy"):
                spec = policy["spec"]
                given = spec["devicePlugin"].get("config") or {}
                if given.get("name"):
                    entries = set(maps[release.namespace, given["name"]])
                    assert given["default"] in entries
                layouts = spec["migManager"]["config"] if spec["migManager"]["enabled"] else {}
                if layouts.get("name"):
                    text = maps[release.namespace, layouts["name"]]["config.yaml"]
                    known = {*yaml.safe_load(text)["mig-configs"], "all-disabled"}
                    cut = [pool.labels.get("nvidia.com/mig.config") for pool in cluster.pools]
                    assert {layouts["default"], *filter(None, cut)} <= known
                if spec["dcgmExporter"]["enabled"]:
                    assert "dcgm-metrics.csv" in maps[release.namespace, spec["dcgmExporter"]["config"]["name"]]
            for each in of_kind(rendered(release), "DaemonSet"):
                for volume in pod_of(each).get("volumes", ()):
                    if volume["name"] == "available-configs":
                        entries = set(maps[release.namespace, volume["configMap"]["name"]])
            if release.chart in ("gpu-operator", "nvidia-device-plugin"):
                assert {name for pool in release.pools if (name := named[pool])} <= entries


@EVERY
def test_every_image_has_a_name_and_a_version(case: str) -> None:
    for cluster in planned(case):
        for release in cluster.runtime.releases:
            objects = rendered(release)
            images = [
                container["image"]
                for each in of_kind(objects, "DaemonSet", "Deployment", "Job", "StatefulSet")
                for container in containers(pod_of(each))
            ]
            images += [
                f"{part['repository']}/{part['image']}:{part['version']}"
                for policy in of_kind(objects, "ClusterPolicy")
                for key, part in policy["spec"].items()
                if key in OPERATED and part["enabled"]
            ]

            assert images
            for image in images:
                path, _, version = image.rpartition(":")
                assert "/" in path, image
                assert version not in ("", "latest", "None", "<nil>"), image


WHOLE = {"/": "looks for the driver there", "/home/kubernetes/bin": "the same, on GKE", "/dev/infiniband/": "devices"}
WHOLE |= dict.fromkeys(("/run/docker", "/run/containerd", "/sys", "/var", "/usr/bin"), "HAMi reads there")
"""What daemons mount without leaving anything there, and why they mount it."""


@EVERY
def test_a_page_names_whatever_daemons_may_leave_on_a_node(case: str) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "reference", "gpu-software.md").read_text(encoding="utf-8")
    said = page.partition("## Order and failure")[2].partition("\n## ")[0]
    for _, _, each in workloads(case):
        pod = pod_of(each)
        written_to = {
            mount["name"]
            for container in containers(pod)
            for mount in container.get("volumeMounts", ())
            if not mount.get("readOnly")
        }
        for volume in pod.get("volumes", ()):
            path = volume.get("hostPath", {}).get("path")
            if path is not None and volume["name"] in written_to and path not in WHOLE:
                named = {path, *(str(above) for above in Path(path).parents)} - {"/"}
                named |= {Path(path).name} if Path(path).parent == Path("/var/lib/kubelet") else set()
                assert any(f"`{one}`" in said for one in named), path


@EVERY
def test_system_critical_pods_are_admitted_on_gke(case: str) -> None:
    for cluster, release, each in workloads(case):
        critical = str(pod_of(each).get("priorityClassName", "")).startswith("system-")
        if cluster.runtime.cloud == "gcp" and critical and release.namespace != "kube-system":
            assert [
                one
                for one in of_kind(objects_of(cluster), "ResourceQuota")
                if one["metadata"]["namespace"] == release.namespace
                and one["spec"]["scopeSelector"]["matchExpressions"][0]["scopeName"] == "PriorityClass"
            ]


# --- what the data says of the charts ---


@cache
def sent(chart: str) -> Mapping[str, tuple[Release, Any]]:
    """Return every path that some release sets, with one that does and its value."""
    found: dict[str, tuple[Release, Any]] = {}
    for case in CASES:
        for cluster in planned(case):
            for release in cluster.runtime.releases:
                if release.chart == chart:
                    for path, value in value_paths(release.values):
                        found.setdefault(path, (release, value))
    return found


def other(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}-other"
    if isinstance(value, int):
        return value + 1
    assert isinstance(value, list | tuple), value
    if value and isinstance(value[0], str):
        return [*value, "other"]
    if value and "matchExpressions" in value[0]:
        return [{"matchExpressions": [{"key": "other", "operator": "Exists"}]}]
    return [*value, {"key": "other", "operator": "Exists"} if value and "operator" in value[0] else {"name": "OTHER"}]


def with_value(release: Release, path: str, value: Any) -> str:
    given = {**dict(value_paths(release.values)), path: value}
    try:
        return template(release.chart, release.name, release.namespace, written(nested(given)))
    except ChartRefused as refused:
        return str(refused)


@PINNED
def test_every_value_sent_changes_what_is_rendered(chart: str) -> None:
    as_is = {path: with_value(release, path, value) for path, (release, value) in sent(chart).items()}
    changed = {path: with_value(release, path, other(value)) for path, (release, value) in sent(chart).items()}

    assert sent(chart)
    assert [path for path in as_is if as_is[path] == changed[path]] == []


@PINNED
def test_a_charts_own_values_are_what_the_data_says(chart: str) -> None:
    own = own_values(chart)
    known = {path: value for path, value in value_paths(default_values(chart)) if at(own, path) is not None}

    assert known
    assert {path: at(own, path) for path in known} == known


def test_the_driver_for_compute_domains_hands_out_no_gpu_and_stays_on_its_pools() -> None:
    stack = stack_with("nvl")
    (runtime,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    (release,) = (each for each in runtime.releases if each.chart == "dra-driver-nvidia-gpu")
    objects = rendered(release)
    (daemons,) = (each for each in objects if each["kind"] == "DaemonSet")
    pod = daemons["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert [each["name"] for each in pod["containers"]] == ["compute-domains"]
    assert term == {"matchExpressions": [{"key": "gpupools/compute-domains", "operator": "In", "values": ["true"]}]}
    assert "gpu.nvidia.com" not in {each["metadata"]["name"] for each in objects if each["kind"] == "DeviceClass"}
    # Who makes the claim template of a workload's channel.
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Deployment"] != []
