"""Teams that share pools: what is refused, and what becomes of the rest in Kueue."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.providers import clouds
from gpupools.software.kueue import PRIORITIES
from gpupools.software.team_shares import slices_of, team_rows, team_shares
from gpupools.spec.teams import Team
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.changes import diff_software

CLUSTER: JsonDict = {
    **clouds()["gcp"].example_cluster,
    "places": "trust",
    "node_locations": ["europe-west4-a"],
    "kubeconfig": {"path": "~/.kube/train"},
    "runtime": {"scheduler": "kueue"},
}
POOLS: JsonDict = {
    "big": {"gpu": "A100-40GB", "gpus_per_node": 8, "nodes": {"max": 4}, "labels": {"tier": "gold"}},
    "small": {"gpu": "A100-40GB", "gpus_per_node": 8, "nodes": {"max": 1}, "labels": {"tier": "gold"}},
    "slices": {"gpu": "A100-40GB", "nodes": {"max": 2}, "sharing": {"mode": "mig", "profile": "1g.5gb"}},
}
RESEARCH: JsonDict = {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 32}, "weight": 2}
SERVING: JsonDict = {"namespaces": ["serving"], "guarantee": {"slices": 7}, "limit": {"small": 8}}
TEAMS: JsonDict = {"research": RESEARCH, "serving": SERVING}


def config(
    teams: Mapping[str, Any], pools: Mapping[str, Any] = POOLS, runtime: Mapping[str, Any] | None = None
) -> JsonDict:
    cluster = CLUSTER if runtime is None else {**CLUSTER, "runtime": dict(runtime)}
    named = {name: {"clusters": ["train"], **pool} for name, pool in pools.items()}
    return {"clusters": {"train": cluster}, "pools": named, "teams": dict(teams)}


def plan(
    teams: Mapping[str, Any], pools: Mapping[str, Any] = POOLS, runtime: Mapping[str, Any] | None = None
) -> StackPlan:
    return plan_config(config(teams, pools, runtime), clouds())


def refused(
    teams: Mapping[str, Any], pools: Mapping[str, Any] = POOLS, runtime: Mapping[str, Any] | None = None
) -> list[str]:
    with pytest.raises(Rejected) as rejected:
        plan(teams, pools, runtime)
    return [str(problem) for problem in rejected.value.problems]


def objects(made: StackPlan) -> dict[tuple[str, str], Mapping[str, Any]]:
    found = {}
    for each in made.runtimes[0].team_objects:
        metadata = each["metadata"]
        found[each["kind"], metadata.get("namespace") or metadata["name"]] = each
    return found


def quotas(queue: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {
        (flavor["name"], each["name"]): {key: value for key, value in each.items() if key != "name"}
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }


GPU = "nvidia.com/gpu"


def test_preview_and_report_say_what_each_team_may_use() -> None:
    made = plan(TEAMS)

    assert [tuple(each) for each in team_rows(made.pools, made.stack.teams)] == [
        ("research", "train/big", GPU, 16, 32, 2, 32),
        ("serving", "train/slices", GPU, 7, 14, 1, 14),
        ("serving", "train/small", GPU, 0, 8, 1, 8),
    ]
    assert team_rows(made.pools, {}) == []


def test_guarantees_limits_and_the_rest_become_quotas_of_the_pools() -> None:
    made = objects(plan(TEAMS))

    assert quotas(made["ClusterQueue", "research"]) == {
        ("big", GPU): {"nominalQuota": 32, "borrowingLimit": 0},
    }
    assert quotas(made["ClusterQueue", "serving"]) == {
        ("small", GPU): {"nominalQuota": 8, "borrowingLimit": 0},
        ("slices", GPU): {"nominalQuota": 14},
    }
    # Whole GPUs before parts of GPUs.
    assert [name for name, _ in quotas(made["ClusterQueue", "serving"])] == ["small", "slices"]
    assert {each["nominalQuota"] for each in quotas(made["Cohort", "gpupools"]).values()} == {0}
    spec = made["ClusterQueue", "research"]["spec"]
    assert spec["fairSharing"] == {"weight": 2}
    assert spec["flavorFungibility"] == {"whenCanBorrow": "TryNextFlavor"}
    assert spec["preemption"] == {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    (expression,) = spec["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["research"]
    assert made["LocalQueue", "serving"]["spec"] == {"clusterQueue": "serving"}
    assert {name: made["WorkloadPriorityClass", name]["value"] for name in PRIORITIES} == {
        "interactive": 1000,
        "training": 100,
    }


def test_flavors_follow_the_pools_with_labels_and_taints() -> None:
    pools = {"big": {**POOLS["big"], "taints": ["team=vision:NoSchedule", "soft=yes:PreferNoSchedule"]}}
    flavor = objects(plan({"research": RESEARCH}, pools))["ResourceFlavor", "big"]["spec"]

    assert flavor["nodeLabels"] == {"gpupools/pool": "big"}
    assert {each["key"] for each in flavor["nodeTaints"]} == {"nvidia.com/gpu", "team", "soft"}
    assert {each["key"] for each in flavor["tolerations"]} == {"nvidia.com/gpu", "team"}


def test_a_label_stands_for_its_pools_and_leaves_single_pools_what_they_need() -> None:
    teams = {
        "wide": {"namespaces": ["wide"], "guarantee": {"tier=gold": 32}, "limit": {"tier=gold": 36}},
        "narrow": {"namespaces": ["narrow"], "guarantee": {"big": 8}},
    }
    made = objects(plan(teams))

    assert quotas(made["ClusterQueue", "wide"]) == {
        ("big", GPU): {"nominalQuota": 24, "borrowingLimit": 4},
        ("small", GPU): {"nominalQuota": 8, "borrowingLimit": 0},
    }
    assert quotas(made["ClusterQueue", "narrow"])["big", GPU] == {"nominalQuota": 8}


def test_slices_of_a_profile_and_pools_with_common_resources_share_a_group() -> None:
    mixed = {"gpu": "A100-40GB", "gpus_per_node": 8, "nodes": {"max": 1}, "software": "gpu-operator"}
    layout = {"mode": "mig", "layout": {"0": ["3g.20gb", "3g.20gb"], "1": ["1g.5gb"] * 7}}
    pools = {"big": POOLS["big"], "mixed": {**mixed, "sharing": layout}}
    made = objects(plan({"a": {"namespaces": ["a"], "guarantee": {"mixed": {"1g.5gb": 7}, "big": 8}}}, pools))
    (group, other) = made["ClusterQueue", "a"]["spec"]["resourceGroups"]

    assert [(each["coveredResources"], [one["name"] for one in each["flavors"]]) for each in (group, other)] == [
        ([GPU], ["big"]),
        (["nvidia.com/mig-1g.5gb"], ["mixed"]),
    ]
    assert refused({"a": {"namespaces": ["a"], "guarantee": {"mixed": 7}}}, pools) == [
        (
            "teams.a.guarantee.mixed: mixed has several kinds of units: nvidia.com/gpu, nvidia.com/mig-1g.5gb,"
            " nvidia.com/mig-3g.20gb; write a count for each MIG profile, such as {1g.10gb: 7}, or name single pools"
        )
    ]


def test_queued_pools_are_admitted_through_provisioning_requests() -> None:
    pools = {"big": {**POOLS["big"], "capacity": {"mode": "queued"}}}
    made = objects(plan({"research": RESEARCH}, pools))

    config = made["ProvisioningRequestConfig", "big"]["spec"]
    assert config == {"provisioningClassName": "queued-provisioning.gke.io", "managedResources": [GPU]}
    assert made["AdmissionCheck", "big"]["spec"]["parameters"]["name"] == "big"
    checks = made["ClusterQueue", "research"]["spec"]["admissionChecksStrategy"]["admissionChecks"]
    assert checks == [{"name": "big", "onFlavors": ["big"]}]


@pytest.mark.parametrize(("nodes", "has_topology"), [({"fixed": 4}, True), ({"max": 4}, False)])
def test_only_nodes_that_are_always_there_have_a_topology(nodes: JsonDict, has_topology: bool) -> None:
    where = {"zones": ["europe-west4-a"], "network": {"placement": "compact"}}
    pool = {"instance_type": "a3-megagpu-8g", "nodes": nodes, **where}
    made = objects(plan({"a": {"namespaces": ["a"], "guarantee": {"big": 8}}}, {"big": pool}))

    assert (("Topology", "big") in made) is has_topology
    assert ("topologyName" in made["ResourceFlavor", "big"]["spec"]) is has_topology


def test_kueue_is_installed_once_before_its_objects_and_configured_for_the_teams() -> None:
    runtime = plan(TEAMS).runtimes[0]
    (release,) = runtime.releases

    assert (release.chart, release.version, release.namespace) == ("kueue", "0.19.2", "kueue-system")
    kinds = {each.name: each.manifest["apiVersion"] for each in runtime.objects}
    ours = [name for name, api in kinds.items() if api.startswith("kueue.x-k8s.io/")]
    assert len(ours) == len(runtime.team_objects) > 0
    assert all("kueue" in runtime.depends[name] for name in ours)
    found = yaml.safe_load(release.values["managerConfig"]["controllerManagerConfigYaml"])
    assert found["managedJobsNamespaceSelector"]["matchExpressions"][0]["values"] == ["research", "serving"]
    assert found["manageJobsWithoutQueueName"] is True
    assert found["resources"] == {"quotaCheckStrategy": "IgnoreUndeclared"}
    assert {"batch/job", "pod"} < set(found["integrations"]["frameworks"])
    assert [each.image for each in runtime.images] == ["registry.k8s.io/kueue/kueue:v0.19.2"]
    assert "deletes them with all queues" in release.decisions[0]


def test_with_a_scheduler_of_the_teams_own_only_the_objects_are_declared() -> None:
    runtime = plan(TEAMS, runtime={"scheduler": "kueue", "existing": {"scheduler": "kueue-system/kueue"}}).runtimes[0]

    assert not runtime.releases
    assert {each.kind for each in runtime.objects} >= {"ClusterQueue", "ResourceFlavor"}
    assert any("quotaCheckStrategy: IgnoreUndeclared" in note for note in runtime.notes)
    (reason,) = refused(TEAMS, runtime={"existing": {"scheduler": "kueue"}})[-1:]
    assert "existing.scheduler: requires scheduler" in reason


def test_the_version_of_the_chart_may_be_written() -> None:
    made = plan(TEAMS, runtime={"scheduler": "kueue", "versions": {"kueue": "0.19.2"}})

    assert made.runtimes[0].releases[0].version == "0.19.2"


def test_external_management_declares_nothing_and_renders_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = {"scheduler": "kueue", "management": "external"}
    made = plan(TEAMS, runtime=runtime).runtimes[0]
    file = tmp_path / "Pulumi.t.yaml"
    keys = {f"gpupools:{key}": value for key, value in config(TEAMS, runtime=runtime).items()}
    file.write_text(yaml.safe_dump({"config": keys}, sort_keys=False), encoding="utf-8")

    assert not made.releases
    assert not made.objects
    assert main(["render", str(file), "--only", "teams"]) == 0
    queues = list(yaml.safe_load_all(capsys.readouterr().out))
    assert queues == made.json_team_objects()
    assert main(["render", str(file), "--only", "monitoring"]) == 0
    watched = list(yaml.safe_load_all(capsys.readouterr().out))
    assert main(["render", str(file)]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [*queues, *watched]
    assert main(["render", str(file), "--only", "teams", "--cluster", "trian"]) == 1
    assert "cluster 'trian' has no scheduler; did you mean 'train'?" in capsys.readouterr().err


def test_without_a_scheduler_teams_are_refused_and_nothing_is_rendered() -> None:
    reasons = refused({"research": RESEARCH}, runtime={})

    assert reasons == [
        f"teams.research.{part}.big: no cluster of big has a scheduler, so nothing would enforce it; set"
        " clusters.train.runtime.scheduler: kueue"
        for part in ("guarantee", "limit")
    ]


def test_a_cluster_without_a_scheduler_says_that_nothing_enforces_the_shares() -> None:
    two = config({"research": RESEARCH})
    two["clusters"] = {**two["clusters"], "other": {**CLUSTER, "name": "other", "runtime": {}}}
    two["pools"]["big"]["clusters"] = ["train", "other"]
    shared, bare = plan_config(two, clouds()).runtimes

    assert shared.team_objects
    assert not bare.team_objects
    said = "clusters.other.runtime.scheduler: is not set, so nothing enforces the shares of research here; set it"
    assert said in [*map(str, bare.warnings)]


def team(name: str, **keys: Any) -> JsonDict:
    return {"namespaces": [name], "guarantee": {"big": 8}, **keys}


def configuration(made: StackPlan) -> Mapping[str, Any]:
    release = next(each for each in made.runtimes[0].releases if each.chart == "kueue")
    found: Mapping[str, Any] = yaml.safe_load(release.values["managerConfig"]["controllerManagerConfigYaml"])
    return found


def test_kueue_counts_the_gpus_that_pods_claim() -> None:
    made = plan({"a": team("a")}, {"big": {**POOLS["big"], "software": "dra-driver"}})

    assert quotas(objects(made)["ClusterQueue", "a"]) == {("big", "gpu.nvidia.com"): {"nominalQuota": 32}}


RDMA = {
    "gpu": "H200",
    "gpus_per_node": 8,
    "nodes": {"max": 8},
    "zones": ["europe-west4-a"],
    "capacity": {"mode": "reservation", "name": "h200-2026"},
    "network": {"rdma": True},
}
RACK = {
    "instance_type": "a4x-highgpu-4g",
    "nodes": {"max": 18},
    "zones": ["europe-west4-a"],
    "capacity": {"mode": "reservation", "name": "gb200"},
    "network": {"rdma": True, "compute_domains": True},
}
CLAIMING = {"dra": {**POOLS["big"], "software": "dra-driver"}, "rdma": RDMA, "rack": RACK}


@pytest.mark.parametrize("name", CLAIMING)
def test_every_device_class_of_a_pod_is_mapped(name: str) -> None:
    made = plan({"a": team("a", guarantee={name: 8})}, {name: CLAIMING[name]})
    (pool,) = made.pools
    listed = configuration(made)["resources"]["deviceClassMappings"]
    mapped = {each for mapping in listed for each in mapping["deviceClassNames"]}
    templates = [
        each
        for each in (*pool.namespace_objects, pool.claim_template)
        if each and each["kind"] == "ResourceClaimTemplate"
    ]
    asked = {
        one["exactly"]["deviceClassName"] for each in templates for one in each["spec"]["spec"]["devices"]["requests"]
    }

    assert asked
    assert asked <= mapped
    assert ("compute-domain-default-channel.nvidia.com" in mapped) is (name == "rack")


def test_a_flavor_does_not_hand_out_the_taint_of_trust() -> None:
    pool = {**POOLS["slices"], "sharing": {"mode": "time-slicing", "replicas": 2}, "trust": {"namespaces": ["a"]}}
    made = plan({"a": team("a", guarantee={"halves": 2})}, {"halves": pool})
    flavor = objects(made)["ResourceFlavor", "halves"]["spec"]

    assert "gpupools/trust" in {each["key"] for each in flavor["nodeTaints"]}
    assert "gpupools/trust" not in {each["key"] for each in flavor["tolerations"]}
    assert "gpupools/trust" in {each["key"] for each in made.pools[0].pod()["tolerations"]}


def test_kueue_without_a_team_on_the_cluster_is_refused() -> None:
    reason = (
        "clusters.train.runtime.scheduler: Kueue's webhooks would have to admit pods of nearly every namespace, but no"
        " team has a share here; add gpupools:teams, or leave it out"
    )
    without = {key: value for key, value in config({}).items() if key != "teams"}
    with pytest.raises(Rejected) as rejected:
        plan_config(without, clouds())
    assert list(map(str, rejected.value.problems)) == [reason]
    theirs = {"scheduler": "kueue", "existing": {"scheduler": "kueue-system/kueue"}}
    assert plan_config({**without, "clusters": {"train": {**CLUSTER, "runtime": theirs}}}, clouds()).runtimes


def test_kueue_survives_the_loss_of_a_node() -> None:
    manager = plan(TEAMS).runtimes[0].releases[0].values["controllerManager"]

    assert (manager["replicas"], manager["podDisruptionBudget"]["enabled"]) == (2, True)
    assert manager["manager"]["priorityClassName"] == "system-cluster-critical"


NOTED: Mapping[str, tuple[JsonDict, JsonDict, str]] = {
    "a limit above the pool": (
        {"a": team("a", limit={"big": 40})},
        POOLS,
        "teams.a.limit.big: 40 is more than the 32 that train has with all nodes; lower it, or raise nodes.max",
    ),
    "a guarantee that no pod of a node divides": (
        {"a": team("a", guarantee={"rdma": 12})},
        {"rdma": RDMA},
        (
            "teams.a.guarantee: 12 on rdma is no multiple of a node's 8, so pods that take a whole node (node_pod) get"
            " 8 of it; guarantee a multiple of 8"
        ),
    ),
    "pools of different kind": (
        {"a": team("a", guarantee={"big": 8, "slices": 7})},
        POOLS,
        (
            "teams.a: has whole GPUs and parts of GPUs: a job gets what is free first, whole GPUs before parts; set"
            " nodeSelector gpupools/pool in jobs that want parts"
        ),
    ),
    "weights without a common unit": (
        {"a": team("a", weight=3), "b": team("b", guarantee={"slices": 7})},
        POOLS,
        (
            "teams.a.weight: has no effect on train: no other team has units of the same pool and kind there; leave it"
            " out, or give teams shares of the same pools"
        ),
    ),
    "no policy": (
        {"a": team("a")},
        POOLS,
        (
            "clusters.train.runtime.trust_policy: is not set, so pods of other namespaces use the teams' GPUs without a"
            " share; set it to true"
        ),
    ),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_is_other_than_it_looks_is_said_by_check_and_preview(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teams, pools, said = NOTED[case]
    file = tmp_path / "Pulumi.teams.yaml"
    file.write_text(yaml.safe_dump({"config": {f"gpupools:{k}": v for k, v in config(teams, pools).items()}}))

    assert main(["check", str(file)]) == 0
    assert f"warning: {said}" in capsys.readouterr().err
    assert said in plan(teams, pools).runtimes[0].notes


def test_teams_with_a_policy_and_weights_of_common_units_have_no_warning() -> None:
    runtime = {"scheduler": "kueue", "trust_policy": True}

    assert plan({"a": team("a", weight=3), "b": team("b")}, runtime=runtime).runtimes[0].warnings == ()


def test_lending_to_nobody() -> None:
    teams = {"a": team("a"), "b": team("b"), "c": team("c", limit={"big": 8}, lends_to=[])}
    made = objects(plan(teams))

    assert quotas(made["ClusterQueue", "c"])["big", GPU] == {
        "nominalQuota": 8,
        "borrowingLimit": 0,
        "lendingLimit": 0,
    }
    assert quotas(made["ClusterQueue", "a"])["big", GPU] == {"nominalQuota": 12}  # half of what nobody has


def test_an_edit_says_what_becomes_of_queues_and_flavors() -> None:
    lower = {**RESEARCH, "limit": {"big": 24}}
    before, after = plan(TEAMS), plan({"research": lower, "serving": SERVING})
    found = {each.step: str(each) for each in diff_software(before, after, ())}

    assert "spec.resourceGroups.big nvidia.com/gpu.nominalQuota 32 → 24" in found["cluster-queue/research"]
    assert "counts as borrowed, and other teams can reclaim it" in found["cluster-queue/research"]
    gone = plan({"research": RESEARCH}, {"big": POOLS["big"]})
    removed = {each.step: str(each) for each in diff_software(before, gone, ())}
    assert "train: removes ResourceFlavor slices" in removed["flavor/slices"]
    assert "train: removes ClusterQueue serving" in removed["cluster-queue/serving"]


MIXES: st.SearchStrategy[JsonDict] = st.fixed_dictionaries(
    {
        "guarantee": st.dictionaries(st.sampled_from(["big", "small", "slices", "tier=gold"]), st.integers(1, 30)),
        "limit": st.dictionaries(st.sampled_from(["big", "slices"]), st.integers(1, 40), max_size=2),
        "lends_to": st.none() | st.just([]),
    }
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MIXES, min_size=1, max_size=4))
def test_whatever_is_accepted_the_guarantees_fit(mixes: list[JsonDict]) -> None:
    teams = {f"t{index}": {"namespaces": [f"n{index}"], **mix} for index, mix in enumerate(mixes)}
    try:
        made = plan(teams)
    except Rejected:
        return
    capacity = {("big", GPU): 32, ("small", GPU): 8, ("slices", GPU): 14}
    given: dict[tuple[str, str], int] = {}
    for name, mix in teams.items():
        own = quotas(objects(made)["ClusterQueue", name])
        assert sum(each["nominalQuota"] for each in own.values()) >= sum(mix["guarantee"].values())
        for unit, quota in own.items():
            given[unit] = given.get(unit, 0) + quota["nominalQuota"]
            limit = mix["limit"].get(unit[0])
            if limit is not None:
                assert quota["nominalQuota"] + quota["borrowingLimit"] <= limit
    free = quotas(objects(made)["Cohort", "gpupools"])
    assert all(given[unit] <= capacity[unit] for unit in given)
    assert all(given[unit] + free[unit]["nominalQuota"] == capacity[unit] for unit in given)


def test_a_profile_is_found_by_its_name_under_both_strategies() -> None:
    single = plan(TEAMS).pools[-1]

    assert (slices_of(single, "1g.5gb"), slices_of(single, "2g.10gb")) == (GPU, "")


def test_shares_of_a_cluster_without_teams_are_empty() -> None:
    shares, problems = team_shares(plan(TEAMS).pools, {}, "train")

    assert not shares.shares
    assert not problems
    assert not shares.free()
    assert Team.model_validate(RESEARCH).weight == 2


def test_teams_are_judged_beside_an_invalid_team_and_an_invalid_cluster(tmp_path: Path) -> None:
    """What depends on neither is reported with them."""
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text(
        "config:\n  gpupools:clusters:\n"
        "    train: {cloud: gcp, name: t, project: ml-prod, location: europe-west4, kubeconfig: {path: /k},"
        " service_account: gpu-nodes@ml-prod.iam.gserviceaccount.com, runtime: {scheduler: slurm}}\n"
        "  gpupools:pools:\n    big: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 2}}\n"
        "  gpupools:teams:\n    a: {namespaces: [x], guarantee: {bgi: 8}}\n"
        "    b: {namespaces: [x], guarantee: {big: 8}}\n    c: {namespaces: [c], weight: 0}\n"
    )
    with pytest.raises(Rejected) as refused:
        check_stack_file(file, clouds())
    found = [".".join(map(str, each.path)) for each in refused.value.problems]

    assert sorted(found) == [
        "clusters.train.runtime.scheduler",
        "teams.a.guarantee.bgi",
        "teams.b.namespaces.0",
        "teams.c.weight",
    ]
