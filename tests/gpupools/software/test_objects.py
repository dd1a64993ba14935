"""Namespaces, quotas, the driver installer, smoke tests, guards of shared pools, and the order of it all."""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import pytest
import yaml

from gpupools.common.errors import Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import KubernetesObject, RuntimePlan
from gpupools.plan.tolerations import selects, untolerated
from gpupools.providers import clouds
from gpupools.software.charts import at
from gpupools.software.objects import CALICO_NAMESPACES, SMOKE_NAMESPACE, SYSTEM_NAMESPACES
from tests.gpupools.software.combinations import A100, COMBINATIONS, MIG, MIG_SIZES, TIME_SLICING, Combination
from tests.gpupools.software.conftest import Planner, pools_of
from tests.steps import before_pools

EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)
PLUGIN = {"gpu": "L4", "software": "device-plugin"}
DRA = {"gpu": "L4", "software": "dra-driver", "nodes": {"min": 1, "max": 4}}
RENAMED: Mapping[str, Any] = {**TIME_SLICING, "sharing": {"mode": "time-slicing", "replicas": 4, "rename": True}}
RENAMED_BY_PLUGIN: Mapping[str, Any] = {"software": "device-plugin", **RENAMED}


def one(made: RuntimePlan, kind: str) -> KubernetesObject:
    (found,) = (each for each in made.objects if each.kind == kind)
    return found


@EVERY
def test_every_object_and_release_has_a_place_in_the_order(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools, smoke_test=True, trust_policy="trust" in combination.pool)
    steps = [*(each.name for each in made.objects), *(each.name for each in made.releases), "pool/a"]

    assert sorted(made.depends) == sorted(steps)
    assert len(set(steps)) == len(steps)
    seen: set[str] = set()
    for step, befores in made.depends.items():
        assert set(befores) <= seen, step
        seen.add(step)


@EVERY
def test_namespaced_objects_wait_for_their_namespace(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools, smoke_test=True)
    ours = {each.manifest["metadata"]["name"] for each in made.objects if each.kind == "Namespace"}
    early = [
        each.name
        for each in made.objects
        if (space := each.manifest["metadata"].get("namespace")) in ours
        and f"namespace/{space}" not in made.depends[each.name]
    ]

    assert early == []
    assert [each.name for each in made.releases if f"namespace/{each.namespace}" not in made.depends[each.name]] == []


CONFIG_LABELS = ("nvidia.com/device-plugin.config", "nvidia.com/mig.config")


@EVERY
def test_what_a_nodes_label_names_is_there_before_the_label_and_all_else_comes_after_its_pool(
    combination: Combination, plan: Planner
) -> None:
    (pool,) = pools_of(combination.cloud, combination.pools)
    made = plan(combination.cloud, combination.pools)
    named = {label: name for label in CONFIG_LABELS if (name := pool.labels.get(label))}
    configs = {
        step.name: step.manifest["data"]
        for step in made.objects
        if step.kind == "ConfigMap" and step.name in before_pools(made)
    }
    readback = {
        release.name
        for release in made.releases
        if at(release.values, "config.name") or at(release.values, "devicePlugin.config.name")
    }

    assert named.keys() <= {
        label for label in CONFIG_LABELS if any(has(data, named.get(label)) for data in configs.values())
    }
    assert {release.name for release in made.releases if release.name in before_pools(made)} == readback
    assert bool(readback) == bool(named)
    after = [release for release in made.releases if release.name not in readback]
    assert [each.name for each in after if "pool/a" not in made.depends[each.name]] == []


def has(data: Mapping[str, str], name: str | None) -> bool:
    """Say whether a ConfigMap has an entry, as a key or as a layout of the MIG manager's document."""
    return name in data or name in yaml.safe_load(data.get("config.yaml", "{}")).get("mig-configs", {})


def test_pools_that_name_nothing_need_no_cluster_that_answers(plan: Planner) -> None:
    made = plan("gcp", {"a": {**PLUGIN, **TIME_SLICING}, "b": PLUGIN})

    assert made.depends["pool/b"] == ()
    assert "nvidia-device-plugin" in made.depends["pool/a"]
    assert "pool/b" in made.depends["nvidia-device-plugin"]


def test_another_way_of_sharing_changes_neither_the_release_nor_other_entries(plan: Planner) -> None:
    """So the plugin, and with it the MPS daemon, of every other node keeps running."""
    whole, shared = PLUGIN, {**PLUGIN, **TIME_SLICING}
    more = {**shared, "sharing": {"mode": "mps", "replicas": 8}}
    one, both = plan("aws", {"a": whole, "b": shared}), plan("aws", {"a": more, "b": shared})
    entries, others = (one_config(made) for made in (one, both))

    assert [each for each in both.releases if each.chart == "nvidia-device-plugin"] == [
        each for each in one.releases if each.chart == "nvidia-device-plugin"
    ]
    assert entries["metadata"] == others["metadata"]
    assert others["data"].items() > entries["data"].items()


def one_config(made: RuntimePlan) -> Mapping[str, Any]:
    (found,) = (
        each.manifest for each in made.objects if each.name.endswith("/device-plugin") and each.kind == "ConfigMap"
    )
    return found


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_an_entrys_name_says_all_that_stands_in_it(software: str, cloud: str, plan: Planner) -> None:
    """Or a plugin that runs would not see that it changed."""
    found: dict[str, set[str]] = {}
    for each in COMBINATIONS.values():
        if (each.cloud, each.software) == (cloud, software):
            for step in plan(cloud, each.pools).objects:
                if step.name.endswith("/device-plugin") and step.kind == "ConfigMap":
                    for name, text in step.manifest["data"].items():
                        found.setdefault(name, set()).add(text)

    assert found
    assert {name: texts for name, texts in found.items() if len(texts) > 1} == {}


@pytest.mark.parametrize(("nodes", "given", "pods"), [(4, None, "100"), (200, None, "2020"), (4, 333, "333")])
def test_gke_gets_a_quota_for_critical_pods(nodes: int, given: int | None, pods: str, plan: Planner) -> None:
    pool = {"gpu": "L4", "software": "gpu-operator", "nodes": {"max": nodes}}
    made = plan("gcp", {"a": pool}, **({"critical_pods": given} if given else {}))
    quota = one(made, "ResourceQuota")

    assert quota.manifest["spec"]["hard"] == {"pods": pods}
    assert quota.manifest["metadata"]["namespace"] == "gpu-operator"
    assert quota.name in made.depends["gpu-operator"]


@pytest.mark.parametrize("cloud", ["aws", "azure"])
def test_other_clouds_need_no_such_quota(cloud: str, plan: Planner) -> None:
    made = plan(cloud, {"a": {"gpu": "T4", "software": "gpu-operator"}})

    assert [each for each in made.objects if each.kind == "ResourceQuota"] == []


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_googles_installer_brings_the_driver_where_gke_does_not(software: str, plan: Planner) -> None:
    pools = {"a": {"gpu": "L4", "software": software, "taints": ["team=x:NoSchedule"]}}
    made = plan("gcp", pools)
    pod = one(made, "DaemonSet").manifest["spec"]["template"]["spec"]
    (pool,) = pools_of("gcp", pools)
    labels = {**pool.labels, "cloud.google.com/gke-accelerator": "nvidia-l4"}

    assert selects({}, pod["affinity"], labels)
    assert not selects({}, pod["affinity"], {**labels, "cloud.google.com/gke-gpu-driver-version": "default"})
    assert not selects({}, pod["affinity"], {"cloud.google.com/gke-accelerator": "nvidia-l4"})
    assert untolerated(pod["tolerations"], pool.taints) == []
    assert {each["name"] for each in pod["initContainers"][0]["volumeMounts"]} == {
        each["name"] for each in pod["volumes"]
    }
    assert made.depends["driver-installer"] == ("pool/a",)
    release = "nvidia-device-plugin" if software == "device-plugin" else "gpu-operator"
    assert "driver-installer" in made.depends[release]


GKE_MIG = COMBINATIONS["gke-operator-mig"].pool


@pytest.mark.parametrize(
    ("cloud", "given", "reboots"),
    [("gcp", None, True), ("gcp", False, False), ("azure", None, True), ("aws", None, False), ("aws", True, True)],
)
def test_the_mig_manager_reboots_where_the_cloud_needs_it_or_when_asked(
    cloud: str, given: bool | None, reboots: bool, plan: Planner
) -> None:
    runtime = {} if given is None else {"mig_reboot": given}
    values = plan(cloud, {"a": {**A100, "software": "gpu-operator", **GKE_MIG}}, **runtime).releases[0].values

    assert (at(values, "migManager.env") == [{"name": "WITH_REBOOT", "value": "true"}]) is reboots


@EVERY
def test_a_smoke_test_runs_on_its_own_pool(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools, smoke_test=True)
    (pool,) = pools_of(combination.cloud, combination.pools)
    job = one(made, "Job")
    pod = job.manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert selects(pod["nodeSelector"], {}, pool.labels)
    assert untolerated(pod["tolerations"], pool.taints) == []
    if pool.node_resources:
        parts = {"nvidia.com/gpumem-percentage": "10", "nvidia.com/gpucores": "10"} if pool.software == "hami" else {}
        assert container["resources"] == {"limits": {next(iter(pool.node_resources)): "1", **parts}}
    else:
        claim = one(made, "ResourceClaimTemplate")
        assert container["resources"] == {"claims": [{"name": pod["resourceClaims"][0]["name"]}]}
        assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == claim.manifest["metadata"]["name"]
        assert claim.manifest["metadata"]["namespace"] == job.manifest["metadata"]["namespace"]
        assert claim.name in made.depends[job.name]
    assert not container["image"].endswith(":latest")
    assert {"pool/a", *(each.name for each in made.releases if "a" in each.pools)} <= set(made.depends[job.name])


LATE: tuple[tuple[str, Mapping[str, Any], bool], ...] = (
    ("gcp", {"instance_type": "a3-highgpu-8g", "capacity": {"mode": "flex-start"}}, True),
    (
        "aws",
        {
            "gpu": "H100-80GB",
            "gpus_per_node": 8,
            "capacity": {"mode": "capacity-block", "name": "cr-0a1b2c3d4e5f60718"},
        },
        True,
    ),
    ("aws", {"gpu": "L4"}, False),
)


@pytest.mark.parametrize(("cloud", "pool", "late"), LATE, ids=["flex-start", "capacity block", "on demand"])
def test_no_update_waits_for_nodes_that_may_come_in_weeks(
    cloud: str, pool: Mapping[str, Any], late: bool, plan: Planner
) -> None:
    job = one(plan(cloud, {"a": {"nodes": {"max": 2}, **pool}}, smoke_test=True), "Job")

    assert job.await_ready is not late
    assert ("activeDeadlineSeconds" in job.manifest["spec"]) is not late


@pytest.mark.parametrize("cloud", clouds())
def test_a_smoke_test_outlasts_the_start_of_a_node_and_its_driver(cloud: str, plan: Planner) -> None:
    made = plan(cloud, {"a": {"gpu": "T4", "nodes": {"max": 2}, "software": "device-plugin"}}, smoke_test=True)
    job = one(made, "Job")

    assert (job.manifest["spec"]["activeDeadlineSeconds"], job.timeout_s) == (1800, 1800)


def test_a_smoke_test_of_queued_nodes_is_refused(plan: Planner) -> None:
    queued = {"instance_type": "a3-highgpu-8g", "nodes": {"max": 2}, "capacity": {"mode": "queued"}}

    plan("gcp", {"a": queued})
    with pytest.raises(
        Rejected, match=r"smoke_test: the Job of pool a would stay pending, since pods do not scale it up"
    ):
        plan("gcp", {"a": queued, "b": {"gpu": "L4", "nodes": {"max": 2}}}, smoke_test=True)


def workloads(made: RuntimePlan) -> dict[str, Mapping[str, Any]]:
    return {
        each.name: each.manifest["spec"]["template"]
        for each in made.objects
        if each.kind in ("DaemonSet", "Deployment", "Job")
    }


@EVERY
def test_no_workload_of_ours_has_a_token_or_a_right_without_a_reason(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools, smoke_test=True)
    found = workloads(made)
    spaces = {each.manifest["metadata"]["name"]: each.manifest for each in made.objects if each.kind == "Namespace"}

    assert found
    rights = {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    assert {each.name.partition("/")[0] for each in made.objects if each.kind in rights} <= {"startup-gate"}
    for name, template in found.items():
        pod = template["spec"]
        note = template["metadata"]["annotations"]["gpupools/security"]
        assert pod.get("automountServiceAccountToken") is False or "It has a token" in note, name
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            context = {**pod.get("securityContext", {}), **container["securityContext"]}
            if context.get("privileged"):
                assert f"{container['name']} is privileged" in note
                continue
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
            assert context.get("runAsNonRoot") or "It runs as root" in note
            assert context.get("readOnlyRootFilesystem") or "root file system is writable" in note
    for manifest in spaces.values():
        labels = manifest["metadata"]["labels"]
        levels = {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")}
        (level,) = levels
        note = manifest["metadata"].get("annotations", {}).get("gpupools/security", "restricted:")
        assert note.startswith(f"{level}:")


def test_only_a_smoke_test_under_mps_runs_as_root(plan: Planner) -> None:
    roots = {}
    for mode in ("time-slicing", "mps"):
        sharing = {"mode": mode, "replicas": 4}
        made = plan("aws", {"a": {"gpu": "T4", "sharing": sharing, "trust": {"team": "x"}}}, smoke_test=True)
        (template,) = workloads(made).values()
        (space,) = (each.manifest for each in made.objects if each.name == f"namespace/{SMOKE_NAMESPACE}")
        level = space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        roots[mode] = (template["spec"]["securityContext"].get("runAsUser", 0), level)

    assert roots == {"time-slicing": (65534, "restricted"), "mps": (0, "baseline")}


ON_GKE = ("cloud-managed", "device-plugin", "gpu-operator", "dra-driver")


@pytest.mark.parametrize("software", ON_GKE)
def test_pods_mount_googles_driver_themselves_where_nobody_does_it_for_them(software: str, plan: Planner) -> None:
    nodes = {"min": 1, "max": 2}
    made = plan("gcp", {"a": {"gpu": "T4", "software": software, "nodes": nodes}}, smoke_test=True)
    plugin = next((each.values for each in made.releases if each.chart == "nvidia-device-plugin"), {})
    (space,) = (each.manifest for each in made.objects if each.name == "namespace/gpupools-smoke-test")
    (job,) = (each.manifest for each in made.objects if each.kind == "Job")
    test = job["spec"]["template"]["spec"]
    keys = ("nvidiaDriverRoot", "nvidiaDevRoot", "compatWithCPUManager")

    alone = software == "device-plugin"
    level = "privileged" if alone else "restricted"
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level
    assert [plugin.get(key) for key in keys] == (
        ["/home/kubernetes/bin/nvidia", "/", True] if alone else [None, None, None]
    )
    for spec in (made.pods["a"], test):
        volumes, (container,) = spec.get("volumes", []), spec["containers"]
        mounted = {each["name"]: (each["mountPath"], each["readOnly"]) for each in container.get("volumeMounts", ())}
        paths = {each["name"]: each["hostPath"]["path"] for each in volumes}
        assert mounted == ({"nvidia-driver": ("/usr/local/nvidia", True)} if alone else {})
        assert paths == ({"nvidia-driver": "/home/kubernetes/bin/nvidia"} if alone else {})
        assert container.get("env", []) == (
            [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}] if alone else []
        )


@pytest.mark.parametrize(
    ("cloud", "pool"),
    [
        pytest.param("aws", {"gpu": "L4", **TIME_SLICING}, id="EKS, by tags"),
        pytest.param("gcp", {"gpu": "L4", **TIME_SLICING}, id="GKE's own sharing"),
        pytest.param("azure", {"gpu": "T4"}, id="whole GPUs"),
    ],
)
def test_an_autoscaler_that_knows_is_not_mentioned(cloud: str, pool: dict[str, Any], plan: Planner) -> None:
    assert not any("empty" in note for note in plan(cloud, {"a": pool}).notes)


@pytest.mark.parametrize(
    ("cloud", "pool", "way"),
    [
        ("azure", {"gpu": "T4", **RENAMED_BY_PLUGIN}, "set nodes.fixed, or remove rename"),
        (
            "azure",
            {"gpu": "A100-80GB", "sharing": {"mode": "mig", "profile": "1g.10gb", "strategy": "mixed"}},
            "set nodes.fixed, or sharing.strategy: single",
        ),
        ("gcp", {"gpu": "L4", **RENAMED_BY_PLUGIN}, "set nodes.fixed, or remove rename"),
        ("azure", {"gpu": "T4", "nodes": {"fixed": 2}, **RENAMED_BY_PLUGIN}, None),
        ("azure", {"gpu": "T4", "software": "device-plugin", **TIME_SLICING}, None),
        ("aws", {"gpu": "L4", **RENAMED_BY_PLUGIN}, None),
        ("azure", {"gpu": "T4", "software": "dra-driver"}, "set nodes.fixed"),
        ("azure", {"gpu": "T4", "software": "dra-driver", "nodes": {"fixed": 2}}, None),
        ("gcp", {"gpu": "L4", "software": "dra-driver"}, None),
        ("aws", {"gpu": "L4", "software": "dra-driver"}, None),
    ],
    ids=[
        *("AKS", "AKS, slices", "GKE", "fixed", "same name", "EKS, without the label"),
        *("AKS, claims", "fixed, claims", "GKE, claims, by a label", "EKS, claims, without the label"),
    ],
)
def test_an_autoscaler_that_waits_for_a_name_no_node_offers_is_said(
    cloud: str, pool: dict[str, Any], way: str | None, plan: Planner
) -> None:
    made = plan(cloud, {"a": {"nodes": {"min": 1, "max": 2}, **pool}})
    said = [note for note in made.notes if "treats its nodes as not ready" in note]

    start = "pool a: the autoscaler treats its nodes as not ready, because they do not offer nvidia.com/gpu: "
    start += "it removes busy nodes, and may stop scaling the whole cluster"
    assert said == ([f"{start}; {way}"] if way else [])


def replicated(replicas: int) -> dict[str, Any]:
    sharing = {"mode": "time-slicing", "replicas": replicas}
    return {"software": "device-plugin", "sharing": sharing, "trust": {"team": "x"}}


@pytest.mark.parametrize(
    ("cloud", "pool", "start"),
    [
        ("gcp", {"gpu": "A100-80GB", "software": "gpu-operator", **MIG, "startup_taint": False},
         "the first pod on a new node may get a whole GPU"),
        ("aws", {"gpu": "L4", **RENAMED_BY_PLUGIN}, "the autoscaler may start one node too many"),
        ("gcp", {"gpu": "L4", "software": "device-plugin", "nodes": {"fixed": 1}, "network": {"max_pods": 8},
                 "sharing": {"mode": "time-slicing", "replicas": 8}, "trust": {"team": "x"}},
         "a node offers 8 units and runs at most 8 pods"),
        ("aws", {"instance_type": "g4dn.xlarge", "nodes": {"fixed": 1}, **replicated(28)},
         "a node offers 28 units and runs at most 29 pods, of which 2 are daemons of gpupools"),
        ("aws", {"instance_type": "g4dn.xlarge", "nodes": {"fixed": 1}, **replicated(27)}, ""),
        ("aws", {"instance_type": "g4dn.xlarge", "nodes": {"fixed": 1}, "network": {"max_pods": 30}, **replicated(28)},
         ""),
        ("aws", {"instance_type": "g7.2xlarge", "nodes": {"fixed": 1}, **replicated(112)},  # the interfaces allow 254
         "a node offers 112 units and runs at most 110 pods"),
        ("gcp", {"gpu": "A100-80GB", "software": "gpu-operator", **MIG, "nodes": {"fixed": 1}}, ""),
        ("gcp", {"gpu": "L4", "software": "device-plugin", "nodes": {"fixed": 1},
                 "sharing": {"mode": "time-slicing", "replicas": 8}, "trust": {"team": "x"}}, ""),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_a_first_or_full_node_is_said(
    cloud: str, pool: dict[str, Any], start: str, plan: Planner
) -> None:
    made = plan(cloud, {"a": {"nodes": {"max": 2}, **pool}})
    words = ("whole GPU, because", "one node too many", "runs at most")
    found = [note for note in made.notes if any(each in note for each in words)]

    assert len(found) == bool(start)
    assert all(each.startswith(f"pool a: {start}") for each in found)
    assert all(each.endswith("with prefix delegation on") for each in found if cloud == "aws" and "at most" in each)


def autoscaled(**autoscaler: Any) -> dict[str, Any]:
    return {"existing": {"cluster_autoscaler": {"name": "kube-system/cluster-autoscaler", **autoscaler}}}


def test_an_autoscaler_that_ignores_claims_is_refused_or_noted(plan: Planner) -> None:
    pools = {"a": {"gpu": "L4", "software": "dra-driver", "nodes": {"min": 1, "max": 2}}}
    counts = autoscaled(dynamic_resource_allocation=True)

    with pytest.raises(Rejected, match="ignores claims, so it never scales a"):
        plan("aws", pools, kubernetes="1.34.2", **autoscaled())
    assert any("before 1.35.2 ignores claims" in note for note in plan("aws", pools, **autoscaled()).notes)
    assert any("before 1.35.2" in note for note in plan("aws", pools, kubernetes="1.35", **autoscaled()).notes)
    for made in (
        plan("aws", pools, kubernetes="1.35.2", **autoscaled()),
        plan("aws", pools, kubernetes="1.34", **counts),
    ):
        assert not any("ignores claims" in note for note in made.notes)


def test_replicas_of_another_name_are_asked_for_by_it(plan: Planner) -> None:
    trust = {"trust": {"namespaces": ["vision"], "quota": 3}}
    made = plan("aws", {"a": {"gpu": "L4", **RENAMED_BY_PLUGIN, **trust}}, smoke_test=True)
    (job,) = (each.manifest for each in made.objects if each.kind == "Job")
    quotas = [each.manifest["spec"]["hard"] for each in made.objects if each.kind == "ResourceQuota"]
    tests, pod = job["spec"]["template"]["spec"], made.pods["a"]

    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu.shared": 1}
    assert tests["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu.shared": "1"}
    assert quotas == [{"requests.nvidia.com/gpu.shared": "3"}]
    # ExtendedResourceToleration would tolerate a taint nvidia.com/gpu.shared, which no node has.
    assert {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]


def test_without_being_asked_nothing_is_run_measured_twice_or_guarded(plan: Planner) -> None:
    made = plan("aws", {"a": {**PLUGIN, **TIME_SLICING}})
    kinds = {each.kind for each in made.objects}

    assert kinds == {"Namespace", "ConfigMap", "RuntimeClass"}
    assert any("trust_policy: true to enforce it" in note for note in made.notes)


@pytest.mark.parametrize(
    ("metrics", "charts"),
    [
        (None, {"nvidia-device-plugin", "dcgm-exporter"}),
        (True, {"nvidia-device-plugin", "dcgm-exporter"}),
        (False, {"nvidia-device-plugin"}),
    ],
)
def test_metrics_can_be_left_out(metrics: bool | None, charts: set[str], plan: Planner) -> None:
    runtime = {} if metrics is None else {"metrics": metrics}

    assert {each.chart for each in plan("aws", {"a": PLUGIN}, **runtime).releases} == charts


def test_the_exporters_read_our_list_of_metrics(plan: Planner) -> None:
    pools = {name: {"gpu": "T4", "software": name} for name in ("device-plugin", "gpu-operator")}
    made = plan("aws", pools)
    chart, operator = (
        next(each for each in made.releases if each.chart == name) for name in ("dcgm-exporter", "gpu-operator")
    )
    (own,) = (each.manifest for each in made.objects if each.name == "config/gpu-operator/metrics")

    assert at(operator.values, "dcgmExporter.config.name") == own["metadata"]["name"]
    # Which the chart mounts for its own arguments; with -m the exporter would ask an API server it has no token for.
    assert at(chart.values, "customMetrics") == own["data"]["dcgm-metrics.csv"]
    assert "arguments" not in chart.values


def test_metrics_reach_the_nodes_of_the_image_when_asked(plan: Planner) -> None:
    made = plan("aws", {"a": {"gpu": "L4"}}, metrics=True)

    assert [(each.chart, each.pools) for each in made.releases] == [("dcgm-exporter", ("a",))]


# --- trust ------------------------------------------------------------------------------------------------------------


def shared(trust: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    sharing = {"mode": "time-slicing", "replicas": 4}
    return {"gpu": "L4", "sharing": sharing, **({"trust": trust} if trust is not None else {}), **more}


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        ("one team: owns it, all of it.", "one-team-owns-it-all-of-it"),
        ("x" * 62 + " and more", "x" * 62),
        ("тут все свои люди", "given"),
    ],
)
def test_a_reason_becomes_a_label_as_far_as_it_can(reason: str, value: str) -> None:
    (pool,) = pools_of("aws", {"a": shared({"waiver": reason})})

    assert pool.labels["gpupools/trust-waiver"] == value


def policies(made: RuntimePlan) -> dict[str, Mapping[str, Any]]:
    return {each.name: each.manifest for each in made.objects if each.kind.startswith("ValidatingAdmissionPolicy")}


def test_the_admission_policy_denies_the_tolerations_to_outsiders_before_the_pool_is_there(plan: Planner) -> None:
    made = plan("aws", {"a": shared({"team": "vision"}), "b": shared({"namespaces": ["n1", "n2"]})}, trust_policy=True)
    found = policies(made)
    team, listed = (
        found[name]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        for name in ("trust/vision", "trust/pool.b")
    )
    not_ours = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*SYSTEM_NAMESPACES, "n1", "n2"]}

    assert sorted(found) == [
        f"trust/{mark}{part}" for mark in ("pool.b", "vision") for part in ("", "/binding", "/nodes", "/nodes/binding")
    ]
    assert {"key": "gpupools/trust", "operator": "NotIn", "values": ["vision"]} in team
    assert listed == [not_ours]
    assert sorted(made.depends["pool/a"]) == sorted(name for name in found if name.startswith("trust/vision"))
    assert before_pools(made) == frozenset(found)
    for name, manifest in found.items():
        if name.endswith("/binding"):
            spec = dict(manifest["spec"])
            nodes = spec.pop("paramRef", None)
            assert spec == {
                "policyName": found[name.removesuffix("/binding")]["metadata"]["name"],
                "validationActions": ["Deny", "Audit"],
            }
            assert (nodes is not None) == ("/nodes" in name)
            # Labels of the pools' own nodes.
            assert nodes is None or nodes["selector"]["matchLabels"] == {"gpupools/trust": name.split("/")[1]}
        else:
            assert manifest["spec"]["failurePolicy"] == "Fail"
            assert manifest["spec"]["matchConstraints"]["resourceRules"][0]["operations"] == ["CREATE", "UPDATE"]


def test_software_of_ours_passes_the_admission_policy(plan: Planner) -> None:
    made = plan("aws", {"a": shared({"team": "vision"}, software="device-plugin")}, trust_policy=True, smoke_test=True)
    policy = policies(made)["trust/vision"]
    own, _ = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]

    assert set(own["values"]) == {*SYSTEM_NAMESPACES, "nvidia-device-plugin", "dcgm-exporter", SMOKE_NAMESPACE}


@pytest.mark.parametrize(("name", "space"), [("monitoring/dcgm", {"monitoring"}), ("eksctl", set())])
def test_software_of_the_teams_own_passes_where_its_namespace_is_said(
    name: str, space: set[str], plan: Planner
) -> None:
    pools = {"a": shared({"team": "vision"}, software="device-plugin")}
    made = plan("aws", pools, trust_policy=True, existing={"dcgm_exporter": name})
    own, _ = policies(made)["trust/vision"]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]

    assert set(own["values"]) == {*SYSTEM_NAMESPACES, "nvidia-device-plugin", *space}


@pytest.mark.parametrize(
    ("runtime", "more"), [({"system_namespaces": ["datadog"]}, ("datadog",)), ({"calico": True}, CALICO_NAMESPACES)]
)
def test_namespaces_that_the_stack_file_names_pass(runtime: Any, more: tuple[str, ...], plan: Planner) -> None:
    made = plan("aws", {"a": shared({"team": "vision"})}, trust_policy=True, **runtime)

    for name in ("trust/vision", "trust/vision/nodes"):
        own, _ = policies(made)[name]["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert set(own["values"]) == {*SYSTEM_NAMESPACES, *more}


def test_a_quota_limits_each_trusted_namespace(plan: Planner) -> None:
    made = plan("aws", {"a": shared({"namespaces": ["n1", "n2"], "quota": 3})})
    quotas = [each.manifest for each in made.objects if each.kind == "ResourceQuota"]

    assert [each["metadata"]["namespace"] for each in quotas] == ["n1", "n2"]
    assert [each["spec"] for each in quotas] == [{"hard": {"requests.nvidia.com/gpu": "3"}}] * 2


SLICES: Mapping[str, Any] = {"software": "device-plugin", "sharing": {"mode": "time-slicing", "replicas": 4}}


def limited(quota: int | None, *namespaces: str, **more: Any) -> dict[str, Any]:
    return {"gpu": "T4", **SLICES, "trust": {"namespaces": list(namespaces), "quota": quota}, **more}


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        pytest.param(
            {"x": limited(2, "vision"), "y": limited(16, "vision")},
            {
                "pools.y.trust.quota": (
                    "x 2, y 16 all count requests.nvidia.com/gpu in vision, regardless of the pool, so 2"
                )
            },
            id="one namespace",
        ),
        pytest.param(
            {"x": limited(4, "vision"), "y": limited(4, "vision", "speech"), "z": limited(5, "speech")},
            {
                "pools.y.trust.quota": "x 4, y 4 all count requests.nvidia.com/gpu in vision, regardless of the pool",
                "pools.z.trust.quota": "y 4, z 5 all count requests.nvidia.com/gpu in speech, regardless of the pool",
            },
            id="overlapping namespaces",
        ),
        pytest.param(
            {"x": limited(1, "vision", "speech"), "y": limited(2, "speech", "vision")},
            {"pools.y.trust.quota": "x 1, y 2 all count requests.nvidia.com/gpu in vision and speech"},
            id="two namespaces",
        ),
        pytest.param({"x": limited(2, "vision"), "y": limited(2, "speech")}, {}, id="namespaces of their own"),
        pytest.param({"x": limited(2, "vision"), "y": limited(None, "vision")}, {}, id="one quota"),
        pytest.param(
            {
                "x": limited(2, "vision"),
                "y": limited(3, "vision", sharing={"mode": "time-slicing", "replicas": 4, "rename": True}),
            },
            {},
            id="another name",
        ),
        pytest.param(
            {"x": limited(2, "vision"), "y": {**DRA, "gpu": "T4", "trust": {"namespaces": ["vision"], "quota": 1}}},
            {},
            id="claims",
        ),
    ],
)
def test_quotas_of_two_pools_that_bind_one_namespace_together_are_said(
    pools: Mapping[str, Mapping[str, Any]], said: Mapping[str, str], plan: Planner
) -> None:
    made = plan("azure", pools)

    assert {problem.key: said.get(problem.key, "") in problem.what for problem in made.warnings} == dict.fromkeys(
        said, True
    )
    assert [str(problem) for problem in made.warnings] == [note for note in made.notes if "trust.quota" in note]


def outsider(pool: PoolPlan, tolerations: list[dict[str, str]]) -> bool:
    """Say whether a pod with these tolerations could land on the pool."""
    return not untolerated(tolerations, pool.taints)


def test_a_pod_that_only_asks_for_a_gpu_does_not_land_on_a_trusted_pool() -> None:
    (pool,) = pools_of("aws", {"a": shared({"team": "vision"})})
    added = {"key": "nvidia.com/gpu", "operator": "Exists"}  # what ExtendedResourceToleration adds

    assert outsider(pool, [added]) is False
    assert outsider(pool, pool.pod()["tolerations"]) is True


def test_a_cluster_new_enough_is_taken(plan: Planner) -> None:
    pools = {"a": shared({"team": "vision"}), "b": {"gpu": "L4", "software": "gpu-operator"}}

    assert plan("aws", pools, kubernetes="1.34", trust_policy=True).releases != ()
    assert plan("aws", {"a": DRA}, kubernetes="1.34").releases != ()
    assert plan("aws", {"a": DRA}, kubernetes="1.35.0").releases != ()


@pytest.mark.parametrize(("version", "count"), [("1.36", 0), ("1.37.3", 0), ("1.38", 1), ("1.40.1", 1)])
def test_a_version_newer_than_the_data_is_noted(version: str, count: int, plan: Planner) -> None:
    notes = plan("aws", {"a": {"gpu": "L4", "software": "gpu-operator"}}, kubernetes=version).notes

    assert sum(f"kubernetes {version} is newer than 1.37, the newest" in each for each in notes) == count


JOINS_TAINTED = "a3ViZWxldCAtLXJlZ2lzdGVyLXdpdGgtdGFpbnRzPW52aWRpYS5jb20vZ3B1PXByZXNlbnQ6Tm9TY2hlZHVsZQo="
"""`kubelet --register-with-taints=nvidia.com/gpu=present:NoSchedule`"""
BARE: Mapping[str, Any] = {
    "gpu": "L4",
    "software": "gpu-operator",
    "image": {"family": "custom", "id": "ami-0a1b2c3d4e5f60718"},
    "overrides": {
        "aws": {"LaunchTemplate": {"userData": JOINS_TAINTED, "blockDeviceMappings": [{"deviceName": "/dev/sda1"}]}}
    },
}


@pytest.mark.parametrize("software", ["cloud-managed", "device-plugin", "gpu-operator", "dra-driver"])
def test_efa_interfaces_come_with_their_own_plugin(software: str, plan: Planner) -> None:
    network = {"rdma": True, "security_group_ids": ["sg-0a1b2c3d4e5f60718"]}
    taints = ["team=x:NoSchedule", "example.com/maintenance=true:NoExecute", "soft=a:PreferNoSchedule"]
    nodes = {"software": software, "nodes": {"min": 1, "max": 4}}
    pools = {"a": {**A100, **nodes, "network": network, "taints": taints}, "b": {"gpu": "L4", **nodes}}
    made = plan("aws", pools)
    (efa,) = (each for each in made.releases if each.chart == "aws-efa-k8s-device-plugin")
    (with_efa, _) = pools_of("aws", pools)

    assert efa.pools == ("a",)
    assert untolerated(efa.values["tolerations"], with_efa.taints) == []
    assert at(efa.values, "supportedInstanceLabels.values") == [with_efa.instance.name]


def test_a_bare_image_gets_its_driver_from_the_operator(plan: Planner) -> None:
    made = plan("aws", {"a": BARE})
    owners = {piece.value: owner for piece, owner in made.owners[0].owners.items()}

    assert (owners["driver"], owners["container toolkit"]) == ("chart gpu-operator", "chart gpu-operator")


def test_one_operator_cannot_both_build_the_driver_and_leave_it_to_the_image(refused: Callable[..., list[str]]) -> None:
    (problem,) = refused("aws", {"a": {"gpu": "L4", "software": "gpu-operator"}, "b": BARE})

    assert problem.startswith("pools.b.software: needs different pieces from pool a (container toolkit, driver), but a")


OPERATED: Mapping[str, Any] = {"gpu": "L4", "software": "gpu-operator"}
CONFLICTS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]], str]] = {
    "GKE, two images": (
        "gcp",
        {"cos": OPERATED, "ubuntu": {**OPERATED, "image": {"family": "ubuntu"}}},
        "needs different pieces from pool",
    ),
    "GKE, two images of three pools": (
        "gcp",
        {"cos": OPERATED, "ubuntu": {**OPERATED, "image": {"family": "ubuntu"}}, "other": OPERATED},
        "needs different pieces from pool",
    ),
    "EKS, an image of one's own": ("aws", {"al": OPERATED, "own": BARE, "more": OPERATED}, "different pieces"),
    "two MIG strategies": (
        "aws",
        {
            "one": {**A100, "software": "gpu-operator", **MIG},
            "two": {**A100, "software": "gpu-operator", **MIG_SIZES},
            "three": {**A100, "software": "gpu-operator", **MIG_SIZES},
        },
        "a GPU Operator has one strategy for all its nodes",
    ),
}


@pytest.mark.parametrize(("cloud", "pools", "said"), CONFLICTS.values(), ids=CONFLICTS)
def test_one_cause_is_one_problem_in_whatever_order_the_pools_stand(
    cloud: str, pools: Mapping[str, Mapping[str, Any]], said: str, refused: Callable[..., list[str]]
) -> None:
    for order in permutations(pools):
        problems = refused(cloud, {name: pools[name] for name in order})

        assert [said in problem for problem in problems] == [True], (order, problems)


READER = {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]}


@pytest.mark.parametrize(
    ("software", "space", "labels"),
    [
        ("device-plugin", "dcgm-exporter", {"app.kubernetes.io/name": "dcgm-exporter"}),
        ("gpu-operator", "gpu-operator", {"app": "nvidia-dcgm-exporter"}),
    ],
)
def test_an_exporters_port_is_open_to_the_monitoring_namespace_only(
    software: str, space: str, labels: Mapping[str, str], plan: Planner
) -> None:
    made = plan("azure", {"a": {"gpu": "T4", "software": software}}, monitoring_namespace="monitoring")
    policy = one(made, "NetworkPolicy")

    assert policy.name in made.depends[{"device-plugin": "dcgm-exporter"}.get(software, software)]
    assert policy.manifest["metadata"]["namespace"] == space
    assert policy.manifest["spec"] == {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [{**READER, "ports": [{"port": 9400, "protocol": "TCP"}]}],
    }


def test_trusted_namespaces_reach_everything_but_the_instance_metadata_service(plan: Planner) -> None:
    pools = {"a": shared({"namespaces": ["n2", "n1"]}, gpu="T4"), "b": shared({"namespaces": ["n1"]}, gpu="T4")}
    made = plan("azure", pools, block_instance_metadata=True)
    policies = [each.manifest for each in made.objects if each.kind == "NetworkPolicy"]

    assert [each["metadata"]["namespace"] for each in policies] == ["n1", "n2"]
    for each in policies:
        (rule,) = each["spec"]["egress"]
        assert rule["to"][0] == {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}
        assert (each["spec"]["podSelector"], each["spec"]["policyTypes"]) == ({}, ["Egress"])
