"""What becomes of teams in Volcano: queues, and the scheduler's configuration."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from gpupools.common.json_types import JsonDict
from gpupools.software.volcano import scheduler_configuration
from gpupools.spec.software_spec import VOLCANO_WORDS
from gpupools.stackfile.stack import StackPlan
from tests.changes import diff_software
from tests.gpupools.software.test_teams import POOLS, TEAMS, plan, refused, team

RUNTIME: JsonDict = {"scheduler": "volcano"}
GPU = "nvidia.com/gpu"
TOPOLOGY: JsonDict = {
    "instance_type": "a3-megagpu-8g",
    "nodes": {"fixed": 4},
    "zones": ["europe-west4-a"],
    "network": {"placement": "compact"},
}


def queues(made: StackPlan) -> dict[str, Mapping[str, Any]]:
    return {each["metadata"]["name"]: each["spec"] for each in made.runtimes[0].team_objects if each["kind"] == "Queue"}


def plugins(configuration: Mapping[str, Any]) -> list[list[str]]:
    return [[plugin["name"] for plugin in tier["plugins"]] for tier in configuration["tiers"]]


def test_each_team_has_a_queue_for_each_pool_it_may_use() -> None:
    other = {"namespaces": ["other"], "guarantee": {"slices": 1}, "weight": 2}
    made = queues(plan({**TEAMS, "other": other}, runtime=RUNTIME))

    assert {name: (each["deserved"], each["capability"], each["weight"]) for name, each in made.items()} == {
        "research.big": ({GPU: 32}, {GPU: 32}, 2),  # its guarantee, and all that nobody has a guarantee of
        "other.slices": ({GPU: 5}, {GPU: 14}, 2),  # two of three parts of 6 free slices
        "serving.slices": ({GPU: 9}, {GPU: 14}, 1),
        "serving.small": ({GPU: 8}, {GPU: 8}, 1),
    }
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big"]}}
    assert made["research.big"]["affinity"] == affinity
    assert {(each["parent"], each["reclaimable"], "guarantee" in each) for each in made.values()} == {
        ("root", True, False)
    }


def test_free_units_that_a_limit_leaves_go_to_the_other_teams() -> None:
    teams = {"a": team("a", weight=3, limit={"big": 12}), "b": team("b"), "c": team("c", limit={"big": 8})}
    made = queues(plan(teams, runtime=RUNTIME))

    assert {name: each["deserved"][GPU] for name, each in made.items()} == {"a.big": 12, "b.big": 12, "c.big": 8}


def test_nodes_are_of_the_group_that_the_queues_name() -> None:
    (big, _, _) = plan(TEAMS, runtime=RUNTIME).pools
    assert big.labels["volcano.sh/nodegroup-name"] == "big"
    assert "volcano.sh/nodegroup-name" not in plan(TEAMS).pools[0].labels


def test_a_guarantee_that_is_not_lent_is_reserved_if_the_limits_of_others_leave_it() -> None:
    kept = team("a", lends_to=[])
    made = queues(plan({"a": kept, "b": team("b", limit={"big": 24})}, runtime=RUNTIME))

    assert made["a.big"]["guarantee"] == {"resource": {GPU: 8}}
    (reason,) = refused({"a": kept, "b": team("b"), "c": team("c", limit={"big": 10})}, runtime=RUNTIME)
    assert reason.startswith(
        "teams.a.lends_to: the other teams could use 42 of big together, but only 24 are not kept for this team, and"
        " Volcano lends what is idle; set limit.big of the others, or remove lends_to (see https://"
    )


def test_the_scheduler_is_installed_before_the_queues_with_its_configuration() -> None:
    runtime = plan(TEAMS, {**POOLS, "near": TOPOLOGY}, RUNTIME).runtimes[0]
    (release,) = runtime.releases
    found = yaml.safe_load(release.values["custom"]["scheduler_config_override"])

    assert (release.chart, release.version, release.namespace) == ("volcano", "1.15.1", "volcano-system")
    assert found["actions"] == "allocate, backfill, reclaim, preempt"
    assert plugins(found) == [
        ["priority", "gang", "conformance", "sla", "capacity"],
        ["drf", "predicates", "nodegroup", "nodeorder", "binpack", "network-topology-aware"],
    ]
    (source,) = yaml.safe_load(release.values["custom"]["controller_config_override"])["networkTopologyDiscovery"]
    (levels,) = source["config"]["networkTopologyTypes"].values()
    assert levels[-1] == {"nodeLabel": "kubernetes.io/hostname"}
    assert all("volcano" in runtime.depends[f"queue/{name}"] for name in queues(plan(TEAMS, runtime=RUNTIME)))
    assert "quota/volcano-system" in runtime.depends["volcano"]  # GKE rejects system-critical pods without it
    assert "docker.io/volcanosh/vc-scheduler:v1.15.1" in {each.image for each in runtime.images}


OFF = {
    "gang": "gang",
    "priority": "priority",
    "drf": "drf",
    "bin-pack": "binpack",
    "network-topology": "network-topology-aware",
    "reservation": "sla",
    "preempt": "preempt",
    "reclaim": "reclaim",
    "backfill": "backfill",
}


@pytest.mark.parametrize("word", VOLCANO_WORDS)
def test_each_word_turns_its_action_or_plugin_on(word: str) -> None:
    pools = plan(TEAMS).pools
    every = yaml.safe_load(scheduler_configuration(VOLCANO_WORDS, pools))
    without = yaml.safe_load(scheduler_configuration([each for each in VOLCANO_WORDS if each != word], pools))

    def parts(found: Mapping[str, Any]) -> set[str]:
        return {*found["actions"].split(", "), *(name for tier in plugins(found) for name in tier)}

    assert parts(every) - parts(without) == {OFF[word]}


def test_bin_packing_counts_what_the_pools_offer() -> None:
    found = yaml.safe_load(scheduler_configuration(["bin-pack"], plan(TEAMS).pools))
    (packing,) = (each for tier in found["tiers"] for each in tier["plugins"] if each["name"] == "binpack")

    assert packing["arguments"] == {"binpack.resources": GPU, f"binpack.resources.{GPU}": 10}


def test_a_volcano_of_the_teams_own_gets_the_objects_only() -> None:
    made = plan(TEAMS, runtime={**RUNTIME, "existing": {"scheduler": "volcano-system/volcano"}}).runtimes[0]

    assert not made.releases
    assert [each.kind for each in made.objects].count("Queue") == 3
    assert any("the action reclaim and the plugins capacity" in note for note in made.notes)


def test_all_images_come_from_a_mirror_with_one_login() -> None:
    runtime = {**RUNTIME, "registry": "mirror.example.com/gpu", "pull_secrets": ["login"]}
    made = plan(TEAMS, runtime=runtime).runtimes[0]

    assert made.releases[0].values["basic"] == {
        "image_registry": "mirror.example.com/gpu",
        "image_pull_secret": "login",
    }
    assert {each.pulled for each in made.images} >= {"mirror.example.com/gpu/volcanosh/vc-scheduler:v1.15.1"}


def test_a_smaller_share_says_what_happens_to_running_pods() -> None:
    lower = plan({**TEAMS, "research": {**TEAMS["research"], "limit": {"big": 24}}}, runtime=RUNTIME)
    found = {each.step: str(each) for each in diff_software(plan(TEAMS, runtime=RUNTIME), lower, ())}

    assert "spec.deserved.nvidia.com/gpu 32 → 24" in found["queue/research.big"]
    assert "can be reclaimed by other teams" in found["queue/research.big"]
