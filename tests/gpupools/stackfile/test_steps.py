"""Pools with several steps: one pool for each, one part for pods that use any of them, and every bad list."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.diff.comparison import compare_files
from gpupools.preview.command import preview_file
from gpupools.providers import clouds
from gpupools.report.comment import comment
from gpupools.report.facts import StackReport
from gpupools.report.page import page
from gpupools.software.monitoring import rule_groups
from gpupools.software.team_shares import team_shares
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.stack import StackPlan, plan_config, prices_of
from gpupools.stackfile.stack_validation import parse_pool
from tests.changes import diff
from tests.gpupools.software.test_teams import team
from tests.rows import listed

CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "aws": {
        "cloud": "aws",
        "region": "us-east-1",
        "name": "train",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    "azure": {"cloud": "azure", "name": "serve", "resource_group": "ml"},
    "gcp": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-dev",
        "location": "europe-west4",
        "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
}
BIG: Mapping[str, Any] = {
    "clusters": ["aws"],
    "instance_type": ["p5.48xlarge", "p4de.24xlarge"],
    "nodes": {"max": 4},
    "capacity": [{"mode": "spot"}, {"mode": "on-demand"}],
}
TEAM = {"research": team("research", guarantee={"big": 40})}


def plan(pools: Mapping[str, Any], *, runtime: Mapping[str, Any] | None = None, **more: Any) -> StackPlan:
    used = [key for pool in pools.values() for key in pool["clusters"]]
    here: dict[str, Any] = {key: {**CLUSTERS[key], "kubeconfig": {"path": "/etc/kube"}} for key in used}
    for key in used:
        reads = {} if key == "gcp" else {"cluster_autoscaler": {"name": "kube-system/ca", "expander": "priority"}}
        existing = {**reads, **(runtime or {}).get("existing", {})}
        here[key]["runtime"] = {**(runtime or {}), "existing": existing}
    return plan_config({"clusters": here, "pools": pools, **more}, clouds())


def refused(pools: Mapping[str, Any], **more: Any) -> list[str]:
    with pytest.raises(Rejected) as rejected:
        plan(pools, **more)
    return [str(problem) for problem in rejected.value.problems]


def test_all_types_of_a_capacity_come_before_the_next_capacity() -> None:
    made = plan({"big": BIG})

    specs = made.stack.pools
    assert [(pool.name, specs[pool.name].capacity.mode, pool.instance.name) for pool in made.pools] == [
        ("big-1", "spot", "p5.48xlarge"),
        ("big-2", "spot", "p4de.24xlarge"),
        ("big-3", "on-demand", "p5.48xlarge"),
        ("big-4", "on-demand", "p4de.24xlarge"),
    ]
    assert {(pool.max_nodes, pool.group, pool.labels["gpupools/group"]) for pool in made.pools} == {(4, "big", "big")}
    assert made.groups == {"aws": {"big": list(made.pools)}}


@pytest.mark.parametrize(
    "one", [{"capacity": [{"mode": "spot"}]}, {"instance_type": ["p5.48xlarge"], "capacity": [{"mode": "spot"}]}]
)
def test_a_list_of_one_is_the_same_as_its_only_step(one: Mapping[str, Any]) -> None:
    plain = {**BIG, "instance_type": "p5.48xlarge", "capacity": {"mode": "spot"}}

    assert plan({"big": {**plain, **one}}).pools == plan({"big": plain}).pools


def test_pods_of_a_pool_select_its_group_and_tolerate_every_step() -> None:
    capacity = [{"mode": "on-demand"}, {"mode": "spot"}]
    (runtime,) = plan(
        {"big": {**BIG, "clusters": ["azure"], "instance_type": "Standard_NC24ads_A100_v4", "capacity": capacity}}
    ).runtimes

    assert runtime.groups["big"]["pod"]["nodeSelector"] == {"gpupools/group": "big"}
    tolerated = [each["key"] for each in runtime.groups["big"]["pod"]["tolerations"]]
    assert tolerated == ["nvidia.com/gpu", "kubernetes.azure.com/scalesetpriority"]
    assert runtime.pods["big-1"]["nodeSelector"] == {"gpupools/pool": "big-1"}
    assert len(runtime.pods["big-1"]["tolerations"]) == 1


def test_claims_of_a_pool_name_templates_of_its_group() -> None:
    pool = {**BIG, "software": "dra-driver", "nodes": {"min": 1, "max": 4}}
    autoscaler = {"name": "kube-system/ca", "expander": "priority", "dynamic_resource_allocation": True}
    own = {"kubernetes": "1.34", "existing": {"cluster_autoscaler": autoscaler}}
    (runtime,) = plan({"big": pool}, runtime=own).runtimes

    whole = runtime.groups["big"]
    assert whole["pod"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "gpupools-big"}]
    assert whole["claim_template"]["metadata"] == {"name": "gpupools-big"}


def test_with_mixed_pods_ask_for_what_every_step_has() -> None:
    pool = {**BIG, "network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d4e5f60718"]}, "mixed": True}
    own = {"existing": {"rdma_plugin": "kube-system/efa"}}
    (runtime,) = plan({"big": pool}, runtime=own).runtimes

    assert runtime.groups["big"]["pod"]["containers"] == [
        {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    ]
    assert "node_pod" not in runtime.groups["big"]
    assert "vpc.amazonaws.com/efa" in runtime.pods["big-1"]["containers"][0]["resources"]["limits"]


def test_a_guarantee_of_a_pool_is_one_of_its_steps_in_their_order() -> None:
    made = plan({"big": BIG}, teams=TEAM, runtime={"scheduler": "kueue"})
    objects = made.runtimes[0].team_objects

    flavors = [each["spec"]["nodeLabels"] for each in objects if each["kind"] == "ResourceFlavor"]
    assert flavors == [{"gpupools/pool": f"big-{number}"} for number in range(1, 5)]
    affinity = made.runtimes[0].groups["big"]["pod"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    steps = ["big-1", "big-2", "big-3", "big-4"]
    assert term["matchExpressions"] == [{"key": "gpupools/pool", "operator": "In", "values": steps}]
    (queue,) = (each["spec"] for each in objects if each["kind"] == "ClusterQueue")
    ((covered,),) = ([group["flavors"] for group in queue["resourceGroups"]],)
    assert [each["name"] for each in covered] == steps
    lent = [each["resources"][0]["nominalQuota"] for each in covered]
    assert lent == [32, 32, 32, 32]  # the guarantee, and all that nobody has a guarantee of
    shares = plan(
        {"big": BIG}, teams={"a": team("a", guarantee={"big": 40}, limit={"big": 48})}, runtime={"scheduler": "kueue"}
    )
    (queue,) = (each["spec"] for each in shares.runtimes[0].team_objects if each["kind"] == "ClusterQueue")
    quotas = [each["resources"][0] for each in queue["resourceGroups"][0]["flavors"]]
    assert [each["nominalQuota"] + each["borrowingLimit"] for each in quotas] == [32, 16, 0, 0]


def test_volcano_has_one_queue_for_all_steps() -> None:
    made = plan({"big": BIG}, teams=TEAM, runtime={"scheduler": "volcano"})

    (queue,) = (each for each in made.runtimes[0].team_objects if each["kind"] == "Queue")
    affinity = queue["spec"]["affinity"]["nodeGroupAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (queue["metadata"]["name"], affinity, queue["spec"]["capability"]) == (
        "research.big",
        ["big"],
        {"nvidia.com/gpu": 128},
    )
    assert {pool.labels["volcano.sh/nodegroup-name"] for pool in made.pools} == {"big"}
    annotations = {"scheduling.volcano.sh/queue-name": "research.big"}
    assert made.runtimes[0].groups["big"]["pod_metadata"] == {"annotations": annotations}
    assert set(made.runtimes[0].depends["queue/research.big"]) >= {"pool/big-1", "pool/big-4"}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [str(change) for change in diff(plan(old), plan(new), clouds())]


STEPS: list[dict[str, Any]] = [
    {"mode": "on-demand"},
    {"mode": "spot"},
    {"mode": "reservation", "name": "cr-0a1b2c3d4e5f60718"},
]
ONE = {**BIG, "instance_type": "p5.48xlarge"}


def test_a_step_at_the_end_is_created_and_changes_no_other() -> None:
    found = changes({"big": {**ONE, "capacity": STEPS[:2]}}, {"big": {**ONE, "capacity": STEPS}})

    assert found[-1] == "train/big-3: creates up to 4 nodes × 8 GPUs".replace("train", "aws")
    assert [each.partition(": ")[2] for each in found[:2]] == ["no change for the nodes"] * 2


def test_a_step_in_front_replaces_all_later_ones() -> None:
    found = changes({"big": {**ONE, "capacity": STEPS[1:]}}, {"big": {**ONE, "capacity": STEPS}})

    ends = "ends pods on up to 4 nodes at once; replaces up to 4 nodes × 8 GPUs; creates the new pool before it deletes"
    assert [each.startswith(f"aws/big-{number}: {ends}") for number, each in enumerate(found, 1)] == [True, True, False]
    assert found[2] == "aws/big-3: creates up to 4 nodes × 8 GPUs"


def test_a_removed_step_ends_its_pods_and_those_of_all_later_ones() -> None:
    found = changes({"big": {**ONE, "capacity": STEPS}}, {"big": {**ONE, "capacity": STEPS[1:]}})

    assert [each.split("; ")[0] for each in found] == [
        f"aws/big-{number}: ends pods on up to 4 nodes at once" for number in (1, 2, 3)
    ]
    assert found[2].endswith("deletes up to 4 nodes × 8 GPUs")


def test_steps_keep_their_nodes_when_their_pool_is_renamed() -> None:
    found = changes({"old": BIG}, {"big": {**BIG, "renamed_from": "old"}})

    assert found == [
        f"aws/big-{number}: renamed from old-{number}; no change for the nodes but their label"
        for number in range(1, 5)
    ]


def test_a_step_keeps_the_nodes_of_the_single_pool_that_it_was() -> None:
    single = {**ONE, "capacity": {"mode": "on-demand"}}
    steps = {**ONE, "capacity": [{"mode": "spot"}, {"mode": "on-demand"}]}

    assert changes({"big": single}, {"big": {**steps, "renamed_from": [None, "big"]}}) == [
        "aws/big-1: creates up to 4 nodes × 8 GPUs",
        "aws/big-2: renamed from big; no change for the nodes but their label",
    ]
    hint = "if this is big renamed, set renamed_from: [null, big] to keep the nodes"
    assert hint in changes({"big": single}, {"big": steps})[1]


@listed(__file__)
def test_what_is_wrong_with_steps(pools: Mapping[str, Any], found: list[str]) -> None:
    assert refused({name: {**BIG, **pool} for name, pool in pools.items()}) == found


@pytest.mark.parametrize(("scheduler", "part"), [("kai", "guarantee"), ("kai", "limit"), ("volcano", "limit")])
def test_a_queue_is_of_all_steps(scheduler: str, part: str) -> None:
    share = {"research": {"namespaces": ["research"], part: {"big-2": 8}}}
    (problem,) = refused({"big": BIG}, teams=share, runtime={"scheduler": scheduler})

    what = f"a queue of {scheduler.replace('kai', 'KAI').replace('v', 'V')} counts what all steps of big have"
    assert problem.startswith(f"teams.research.{part}.big-2: {what}, and this is only big-2; name big (see ")


@pytest.mark.parametrize("scheduler", ["kai", "volcano"])
def test_a_guarantee_that_is_not_lent_is_one_of_all_steps(scheduler: str) -> None:
    teams = {"research": team("research", guarantee={"big": 8}, lends_to=[])}
    most = {"namespaces": ["other"], "limit": {"big": 4 * 4 * 8 - 8}}

    assert plan({"big": BIG}, teams={**teams, "other": most}, runtime={"scheduler": scheduler}).runtimes
    most = {"namespaces": ["other"], "limit": {"big": 4 * 4 * 8 - 7}}
    (problem,) = refused({"big": BIG}, teams={**teams, "other": most}, runtime={"scheduler": scheduler})
    assert problem.startswith("teams.research.lends_to: the other teams could use 121 of big together, but only 120")


def test_an_unknown_pool_of_a_team_may_be_one_with_steps() -> None:
    found = refused(
        {"big": BIG}, teams={"research": team("research", guarantee={"bog": 8})}, runtime={"scheduler": "kueue"}
    )

    assert found[0] == "teams.research.guarantee.bog: unknown pool 'bog'; did you mean 'big'?"


def test_a_pod_that_selects_a_shared_pool_cannot_pass_as_one_for_another() -> None:
    small = {"clusters": ["aws"], "instance_type": "g6.xlarge", "nodes": {"max": 4}}
    teams = {**TEAM, "other": team("other", guarantee={"small": 1})}
    made = plan({"big": BIG, "small": small}, teams=teams, runtime={"scheduler": "kueue", "trust_policy": True})

    (policy,) = (each for each in made.runtimes[0].objects if each.name == "team-pods")
    variables = {each["name"]: each["expression"] for each in policy.manifest["spec"]["variables"]}
    groups = {pool: labels["gpupools/group"] for pool, labels in json.loads(variables["labels"]).items()}
    assert groups == {"big-1": "big", "big-2": "big", "big-3": "big", "big-4": "big", "small": ""}


@pytest.mark.parametrize(
    ("scheduler", "by"),
    [("volcano", 'queue_name="research.big"'), ("kai", 'kube_pod_nodeselectors{nodeselector_gpupools_group="big"}')],
)
def test_what_waits_for_a_pool_waits_for_each_step(scheduler: str, by: str) -> None:
    made = plan({"big": BIG}, teams=TEAM, runtime={"scheduler": scheduler})
    shares, _ = team_shares(made.pools, made.stack.teams, "aws")

    waiting = [
        each["expr"]
        for group in rule_groups(made.pools, made.stack.teams, shares, scheduler, [])
        for each in group["rules"]
        if each.get("record") == "gpupools:waiting:team"
    ]
    assert len(waiting) == 4
    assert all(by in each for each in waiting)


def test_quotas_of_steps_are_one_quota() -> None:
    trust = {"trust": {"namespaces": ["research"], "quota": 8}}
    (runtime,) = plan({"big": {**BIG, **trust}}, runtime={"trust_policy": True}).runtimes

    assert not [warning for warning in runtime.warnings if "quota" in warning.path]


def test_the_label_of_a_group_is_not_set_by_hand() -> None:
    overrides = {"aws": {"NodeGroup": {"labels": {"gpupools/group": "x"}}}}
    found = refused({"big": {**BIG, "overrides": overrides}})

    what = "gpupools/group is set to the key of a pool with several steps; leave it out"
    assert found == [f"pools.big.overrides.aws.NodeGroup.labels.gpupools/group: {what}"]
    with pytest.raises(Rejected, match=r"pool\.labels\.gpupools/group: .* is for the steps of a pool in a stack file"):
        parse_pool(("pool",), {"gpu": "L4", "nodes": {"max": 1}, "labels": {"gpupools/group": "x"}})


ORDERED = Path(__file__).parents[3] / "examples" / "stacks" / "Pulumi.ordered.yaml"


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = ORDERED.read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "Pulumi.ordered.yaml"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return file


def test_problems_of_a_step_have_its_line(tmp_path: Path) -> None:
    file = edited(tmp_path, "{mode: flex-start}", "{mode: flex}")
    with pytest.raises(Rejected) as rejected:
        check_stack_file(file, clouds())

    (found,) = locate(file, rejected.value)
    assert found.source.strip() == "- {mode: flex}"
    assert found.problem.key == "pools.huge.capacity[2].mode"


def test_an_edit_of_one_step_is_reported_by_its_key_in_the_file(tmp_path: Path) -> None:
    new = check_stack_file(edited(tmp_path, "{mode: flex-start}", "{mode: on-demand}"), clouds())
    found = compare_files(check_stack_file(ORDERED, clouds()), new, clouds())

    entry, order = found.entries()
    assert order.headline == "lab: running pods keep their GPUs; changes ComputeClass gpupools-huge"
    assert entry.headline.startswith("lab/huge-3: ends pods on up to 2 nodes at once")
    assert entry.lines == ["pools.huge.capacity[2].mode flex-start → on-demand"]


def test_preview_and_report_show_the_sums_of_all_steps() -> None:
    checked = check_stack_file(ORDERED, clouds())
    line = "lab/huge: huge-1, then huge-2, then huge-3; 0 to 6 nodes together; all of them ≥ $136.42/h"
    preview = preview_file(checked)

    assert preview.exit_code == 0
    assert f"\n  {line}" in preview.as_text()
    whole = preview.as_json()["groups"][2]
    assert (whole["name"], whole["steps"], whole["nodes"]) == (
        "huge",
        ["huge-1", "huge-2", "huge-3"],
        {"min": 0, "max": 6},
    )
    assert preview.preview.outputs["pools"]["lab/huge"] == {
        "steps": ["lab/huge-1", "lab/huge-2", "lab/huge-3"],
        "pod": whole["pod"],
    }
    report = StackReport("f", "ordered", checked.plan, prices=prices_of(checked.plan, clouds()))
    assert line in page([report])
    assert line in comment([report])
