"""Pools whose pods ask KAI for fractions of GPUs: what is refused, and what becomes of the rest."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.plan.capability import Verdict
from gpupools.providers import clouds
from gpupools.spec.models import Fractions
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.changes import diff_software
from tests.gpupools.software.test_teams import POOLS, plan

KAI: JsonDict = {"scheduler": "kai"}
HALVES: JsonDict = {
    "gpu": "L4",
    "nodes": {"max": 2},
    "sharing": {"mode": "fractions", "memory": "trust"},
    "trust": {"namespaces": ["research"]},
}
LIMITED: JsonDict = {**HALVES, "sharing": {"mode": "fractions", "memory": "hami"}}
ISOLATOR: JsonDict = {"kai_resource_isolator": "kai-resource-isolator/kai-resource-isolator"}
BIG: JsonDict = {"research": {"namespaces": ["research"], "guarantee": {"big": 8}}}
TEAMS: JsonDict = {"research": {"namespaces": ["research"], "guarantee": {"halves": 2}}}


def names(made: StackPlan) -> set[str]:
    return {each.image.rpartition("/")[2].partition(":")[0] for each in made.runtimes[0].images}


def values(made: StackPlan) -> Mapping[str, Any]:
    (found,) = (each.values for each in made.runtimes[0].releases if each.chart == "kai-scheduler")
    return found


def test_nodes_offer_whole_gpus_and_pods_ask_for_none_of_them() -> None:
    made = plan(TEAMS, {"halves": HALVES}, KAI)
    (pool,), (runtime,) = made.pools, made.runtimes

    assert pool.node_resources == {"nvidia.com/gpu": 1}
    assert pool.labels["gpupools/sharing"] == "fractions"
    assert "nvidia.com/device-plugin.config" not in pool.labels
    assert runtime.pods["halves"]["schedulerName"] == "kai-scheduler"
    assert runtime.pods["halves"]["containers"] == [{"name": "main", "resources": {}}]
    assert {each["key"] for each in runtime.pods["halves"]["tolerations"]} == {"nvidia.com/gpu", "gpupools/trust"}
    assert runtime.as_json()["pod_metadata"] == {
        "halves": {
            "labels": {"gpupools/pool": "halves", "kai.scheduler/queue": "research.halves"},
            "annotations": {"gpu-fraction": "0.5"},
        }
    }


def test_the_queue_is_the_one_of_the_first_team_where_several_have_one() -> None:
    other = {"serving": {"namespaces": ["serving"], "limit": {"halves": 1}}}
    pools = {"halves": {**HALVES, "trust": {"namespaces": ["research", "serving"]}}}

    labels = plan(TEAMS | other, pools, KAI).runtimes[0].pod_metadata["halves"]["labels"]

    assert labels == {"gpupools/pool": "halves", "kai.scheduler/queue": "research.halves"}


def test_a_smoke_test_asks_for_a_whole_gpu() -> None:
    runtime = {**KAI, "smoke_test": True}
    (job,) = (
        each.manifest["spec"]["template"]["spec"]
        for each in plan(TEAMS, {"halves": HALVES}, runtime).runtimes[0].objects
        if each.kind == "Job"
    )

    assert job["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "schedulerName" not in job


def test_the_chart_divides_gpus_only_where_a_pool_has_fractions() -> None:
    whole = values(plan(BIG, {"big": POOLS["big"]}, KAI))
    made = plan(TEAMS, {"halves": HALVES, "big": POOLS["big"]}, KAI)

    assert not {"gpuSharing", "clusterAutoscaling"} & whole["global"].keys()
    assert {"binder", "admission"}.isdisjoint(whole)
    assert (values(made)["global"]["gpuSharing"], values(made)["global"]["clusterAutoscaling"]) == (True, True)
    assert values(made)["binder"] == {"runtimeClassName": "nvidia"}
    assert values(made)["admission"] == {"gpuFractionRuntimeClassName": "nvidia"}


def test_pods_that_start_nodes_are_only_there_where_an_autoscaler_is() -> None:
    fixed = names(plan(TEAMS, {"halves": {**HALVES, "nodes": {"fixed": 2}}}, KAI))

    assert names(plan(TEAMS, {"halves": HALVES}, KAI)) - fixed == {"nodescaleadjuster", "scalingpod"}
    assert "resourcereservation" in fixed
    assert "resourcereservation" not in names(plan(BIG, {"big": POOLS["big"]}, KAI))


def test_hami_core_is_enabled_for_the_limits_it_computes() -> None:
    made = plan(TEAMS, {"halves": LIMITED}, {**KAI, "existing": ISOLATOR})

    assert values(made)["binder"]["plugins"] == {"hamicore": {"enabled": True}}
    assert not any("limits the memory" in each for each in made.runtimes[0].notes)


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_aks_nodes_with_nvidias_runtime_as_default_need_no_class(software: str) -> None:
    cluster = {**clouds()["azure"].example_cluster, "kubeconfig": {"path": "~/.kube/train"}, "runtime": KAI}
    pools = {"halves": {**HALVES, "gpu": "T4", "clusters": ["train"], "software": software}}
    made = plan_config({"clusters": {"train": cluster}, "pools": pools, "teams": TEAMS}, clouds())
    named = {"admission": {"gpuFractionRuntimeClassName": "nvidia"}, "binder": {"runtimeClassName": "nvidia"}}
    default = {"admission": {"gpuFractionRuntimeClassName": ""}}

    wanted = default if software == "device-plugin" else named
    assert {key: each for key, each in values(made).items() if key in named} == wanted


def test_reservation_pods_pass_the_trust_policy_and_find_the_login_of_the_registry() -> None:
    runtime = {**KAI, "trust_policy": True, "registry": "mirror.example.com", "pull_secrets": ["login"]}
    made = plan(TEAMS, {"halves": HALVES}, runtime).runtimes[0]
    (policy,) = (each.manifest for each in made.objects if each.name == "trust/pool.halves/nodes")
    (space,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]

    assert {"kai-resource-reservation", "kai-scale-adjust"} <= set(space["values"])
    assert any("Secret login must exist in" in each and "kai-resource-reservation" in each for each in made.notes)


def test_the_preview_says_that_nothing_limits_memory() -> None:
    notes = plan(TEAMS, {"halves": HALVES}, KAI).runtimes[0].notes

    assert "pool halves: nothing limits the memory of a fraction: each pod can use the memory of the whole GPU" in notes


def test_the_preview_says_that_a_pool_has_no_queue() -> None:
    notes = plan(BIG, {"halves": HALVES, "big": POOLS["big"]}, KAI).runtimes[0].notes

    assert any(each.startswith("pool halves: no team has a share of it, so no queue starts pods") for each in notes)


@pytest.mark.parametrize("runtime", [{"existing": {"scheduler": "kai/kai"}}, {"management": "external"}])
def test_a_kai_of_the_teams_is_told_its_values(runtime: JsonDict) -> None:
    existing = {"existing": {"gpu_operator": "gpu-operator/gpu-operator"}} if "management" in runtime else {}
    notes = plan(TEAMS, {"halves": HALVES}, {**KAI, **existing, **runtime}).runtimes[0].notes

    wanted = "KAI needs global.gpuSharing: true, global.clusterAutoscaling: true,"
    wanted += ' admission.gpuFractionRuntimeClassName: "nvidia", binder.runtimeClassName: "nvidia" in its values'
    assert any(each.startswith(wanted) for each in notes)


def test_an_isolator_that_limits_nothing_is_a_warning() -> None:
    warnings = plan(TEAMS, {"halves": HALVES}, {**KAI, "existing": ISOLATOR}).runtimes[0].warnings

    assert any(
        "kai_resource_isolator" in str(each) and "limits the memory of no pool" in str(each) for each in warnings
    )


def test_another_limit_changes_no_node() -> None:
    before = plan(TEAMS, {"halves": HALVES}, KAI)
    after = plan(TEAMS, {"halves": LIMITED}, {**KAI, "existing": ISOLATOR})
    changed = {each.step for each in diff_software(before, after, ())}

    assert before.pools[0].labels == after.pools[0].labels
    assert changed == {"kai-scheduler"}


def test_the_matrix_has_fractions_where_pods_find_nvidias_runtime() -> None:
    found = {
        (name, software)
        for name, cloud in clouds().items()
        for (software, kind), cell in cloud.capabilities.items()
        if kind == "fractions" and cell.verdict is not Verdict.REFUSED
    }

    assert found == {
        ("aws", "device-plugin"),
        ("aws", "gpu-operator"),
        ("azure", "device-plugin"),
        ("azure", "gpu-operator"),
        ("gcp", "gpu-operator"),
    }


def test_limits_need_the_label_that_the_gpu_operator_sets() -> None:
    cluster = {**clouds()["aws"].example_cluster, "kubeconfig": {"path": "~/.kube/train"}}
    config = {
        "clusters": {"train": {**cluster, "runtime": {**KAI, "existing": ISOLATOR}}},
        "pools": {"halves": {**LIMITED, "clusters": ["train"]}},
        "teams": TEAMS,
    }
    with pytest.raises(Exception, match=r"without the label nvidia.com/gpu.memory, which only the GPU Operator sets"):
        plan_config(config, clouds())


def test_the_only_key_beside_the_mode_is_memory() -> None:
    assert set(Fractions.model_fields) == {"mode", "memory"}
