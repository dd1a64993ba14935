"""What a cluster must have beside its GPU pools: said before, refused where it is known to be wrong."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.software.charts import at
from tests.gpupools.software.conftest import Planner

OPERATOR: Mapping[str, Any] = {"a": {"gpu": "T4", "software": "gpu-operator"}}
PLUGIN: Mapping[str, Any] = {"a": {"gpu": "T4", "software": "device-plugin"}}
MANAGED: Mapping[str, Any] = {"a": {"gpu": "T4", "software": "cloud-managed"}}
AGENT = "kube-system/eks-node-monitoring-agent"
SYSTEM = "CriticalAddonsOnly=true:NoSchedule"


def about(notes: tuple[str, ...], word: str) -> list[str]:
    return [note for note in notes if word in note]


# --- nodes without GPUs ---


@pytest.mark.parametrize("pools", [PLUGIN, MANAGED])
def test_daemons_alone_need_no_other_node(pools: Mapping[str, Any], plan: Planner) -> None:
    assert about(plan("aws", pools).notes, "without GPUs") == []


def test_taints_of_other_nodes_are_tolerated_beside_what_the_chart_tolerates(plan: Planner) -> None:
    made = plan("azure", OPERATOR, cpu_taints=[SYSTEM, "example.com/infra:NoExecute"])
    (release,) = (each for each in made.releases if each.chart == "gpu-operator")
    more = [
        {"key": "CriticalAddonsOnly", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
        {"key": "example.com/infra", "operator": "Exists", "effect": "NoExecute"},
    ]
    own = {"key": "node-role.kubernetes.io/control-plane", "operator": "Equal", "value": "", "effect": "NoSchedule"}

    assert at(release.values, "operator.tolerations") == [own, *more]
    assert at(release.values, "node-feature-discovery.master.tolerations") == [own, *more]
    assert at(release.values, "node-feature-discovery.gc.tolerations") == more
    assert about(made.notes, "without GPUs") == []


@pytest.mark.parametrize("fact", [{"kubernetes": "1.35"}, {"cpu_taints": [SYSTEM]}], ids=["version", "taints"])
@pytest.mark.parametrize("pools", [PLUGIN, MANAGED], ids=["plugin", "managed"])
def test_facts_of_the_cluster_may_stand_where_nothing_depends_on_them(
    fact: dict[str, Any], pools: Mapping[str, Any], plan: Planner
) -> None:
    made, without = plan("aws", pools, **fact), plan("aws", pools)

    assert (made.releases, made.objects, made.notes) == (without.releases, without.objects, without.notes)


# --- who starts nodes ---


@pytest.mark.parametrize("cloud", ["azure", "gcp"])
def test_where_the_service_starts_nodes_no_autoscaler_is_asked_for(cloud: str, plan: Planner) -> None:
    assert about(plan(cloud, PLUGIN).notes, "cluster-autoscaler") == []


# --- who calls nodes broken ---


@pytest.mark.parametrize(
    ("pool", "runtime"),
    [
        ({}, {"metrics": False}),
        ({"auto_repair": False}, {}),
        ({}, {"existing": {"node_monitoring_agent": {"name": AGENT, "node_selector": {"team": "web"}}}}),
    ],
    ids=["no exporter", "no repair", "an agent elsewhere"],
)
def test_each_cure_is_taken(pool: Mapping[str, Any], runtime: Mapping[str, Any], plan: Planner) -> None:
    asked = {"existing": {"node_monitoring_agent": AGENT}, **runtime}

    plan("aws", {"a": {**PLUGIN["a"], **pool}}, **asked)


def test_the_agents_own_dcgm_must_tolerate_the_pools_taints(plan: Planner) -> None:
    taints = {"a": {**PLUGIN["a"], "taints": ["team=vision:NoSchedule"]}}
    made = plan("aws", taints, metrics=False, existing={"node_monitoring_agent": AGENT})
    (note,) = about(made.notes, "dcgmAgent.tolerations")

    assert f"pool a: {AGENT} must tolerate nvidia.com/gpu=present:NoSchedule, team=vision:NoSchedule" in note


def test_the_agent_is_spoken_of_where_it_would_do_harm_alone(plan: Planner) -> None:
    def spoken_of(pool: Mapping[str, Any], **runtime: Any) -> bool:
        return bool(about(plan("aws", {"a": {**PLUGIN["a"], **pool}}, **runtime).notes, "eks-node-monitoring-agent"))

    assert spoken_of({})
    assert not spoken_of({"auto_repair": False})
    assert not spoken_of({}, metrics=False)
    assert about(plan("gcp", PLUGIN).notes, "monitoring") == []


# --- what is named for nothing ---


FIXED: Mapping[str, Any] = {"a": {**PLUGIN["a"], "nodes": {"fixed": 2}}}


@pytest.mark.parametrize(
    ("key", "pools", "said"),
    [
        (
            "rdma_plugin",
            FIXED,
            "serves no pool: no pool with RDMA interfaces is on nodes that it selects, so pods use",
        ),
        ("node_feature_discovery", FIXED, "is only used by a GPU Operator, and the cluster has none; leave it out"),
        ("cluster_autoscaler", FIXED, "has nothing to do, since no pool of the cluster autoscales; leave it out"),
    ],
)
def test_software_that_no_pool_needs_is_a_warning(key: str, pools: Mapping[str, Any], said: str, plan: Planner) -> None:
    (warning,) = plan("aws", pools, existing={key: "ours/it"}).warnings

    assert str(warning).startswith(f"clusters.c.runtime.existing.{key}: ours/it {said}")


@pytest.mark.parametrize(
    ("key", "pools", "runtime"),
    [
        ("node_feature_discovery", OPERATOR, {}),
        ("node_feature_discovery", FIXED, {"existing": {"gpu_operator": "ours/operator"}}),
        ("node_feature_discovery", PLUGIN, {"management": "external", "existing": {"device_plugin": "ours/plugin"}}),
        ("cluster_autoscaler", PLUGIN, {}),
        ("node_feature_discovery", {"a": {**FIXED["a"], "trust": {"team": "vision"}}}, {"trust_policy": True}),
    ],
    ids=["operator", "operator of theirs", "whatever others install", "growing", "let through by a policy"],
)
def test_software_that_something_needs_is_none(
    key: str, pools: Mapping[str, Any], runtime: Mapping[str, Any], plan: Planner
) -> None:
    existing = {key: "ours/it", **runtime.get("existing", {})}

    assert plan("aws", pools, **{**runtime, "existing": existing}).warnings == ()


# --- whom a trust policy lets through ---


TRUSTED: Mapping[str, Any] = {
    "a": {
        "gpu": "T4",
        "software": "device-plugin",
        "sharing": {"mode": "time-slicing", "replicas": 4},
        "trust": {"team": "vision"},
    }
}


@pytest.mark.parametrize("key", ["device_plugin", "dcgm_exporter", "node_feature_discovery", "node_monitoring_agent"])
def test_a_policy_that_would_keep_a_pools_own_software_off_it_is_refused(
    key: str, refused: Callable[..., list[str]]
) -> None:
    said = refused("aws", TRUSTED, trust_policy=True, metrics=False, existing={key: "our plugin"})

    assert [each for each in said if each.startswith(f"clusters.c.runtime.existing.{key}: got 'our plugin', and trust")]
    assert "its pods would be rejected on a, so no pod would get a GPU there; write <namespace>/<name>" in "".join(said)


def test_where_a_policy_fences_no_pool_nothing_is_said_to_be_kept_off(refused: Callable[..., list[str]]) -> None:
    said = refused("aws", PLUGIN, trust_policy=True, existing={"dcgm_exporter": "exporter"})

    assert about(tuple(said), "kept off") == []
    assert about(tuple(said), "no pool of the cluster sets trust")


@pytest.mark.parametrize(
    ("pools", "runtime"),
    [
        (TRUSTED, {"existing": {"dcgm_exporter": "monitoring/exporter"}, "trust_policy": True}),
        (TRUSTED, {"existing": {"dcgm_exporter": "exporter"}}),
        (TRUSTED, {"existing": {"cluster_autoscaler": "autoscaler"}, "trust_policy": True}),
    ],
    ids=["with a namespace", "no policy", "on no GPU node"],
)
def test_software_that_no_policy_keeps_off_is_taken(
    pools: Mapping[str, Any], runtime: Mapping[str, Any], plan: Planner
) -> None:
    plan("aws", pools, **runtime)
