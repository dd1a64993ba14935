"""Inputs set by hand: how they are merged, and what they may not touch."""

import datetime
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.spec.models import LATE
from gpupools.spec.overrides import (
    Overridable,
    apply_overrides,
    flattened,
    idle_overrides,
    override_problems,
    tellable,
    without_hidden,
)
from gpupools.stackfile.stack_validation import parse_stack

RESOURCES = {
    "NodePool": Overridable(
        inputs=frozenset({"cluster", "nodeConfig", "version"}),
        kept={
            ("nodeConfig", "taints"): "write taints in the pool",
            ("cluster",): "write it in the cluster",
        },
    )
}
DECLARED = {"cluster": "lab", "nodeConfig": {"machineType": "g2-standard-4", "taints": [{"key": "nvidia.com/gpu"}]}}


def problems(inputs: dict[str, Any], resource: str = "NodePool") -> list[str]:
    found = override_problems(("pools", "train"), {resource: inputs}, "gcp", RESOURCES)
    return [str(problem) for problem in found]


@pytest.mark.parametrize(
    ("overrides", "merged"),
    [
        ({}, {"a": 1, "b": {"c": [1, 2], "d": 3}}),
        ({"a": 2}, {"a": 2, "b": {"c": [1, 2], "d": 3}}),
        ({"b": {"d": 4}}, {"a": 1, "b": {"c": [1, 2], "d": 4}}),
        ({"b": {"c": [9]}}, {"a": 1, "b": {"c": [9], "d": 3}}),
        ({"a": None}, {"b": {"c": [1, 2], "d": 3}}),
        ({"b": {"c": None}}, {"a": 1, "b": {"d": 3}}),
        ({"e": {"f": True}}, {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": {"f": True}}),
        ({"a": {"f": True}}, {"a": {"f": True}, "b": {"c": [1, 2], "d": 3}}),
        ({"e": {"f": None}}, {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": {}}),
    ],
    ids=[
        "nothing",
        "value",
        "inside-a-map",
        "list",
        "taken-away",
        "taken-away-inside",
        "added",
        "map-for-a-value",
        "nothing-to-take-away",
    ],
)
def test_maps_are_merged_and_everything_else_takes_the_place(overrides: dict[str, Any], merged: dict[str, Any]) -> None:
    before = {"a": 1, "b": {"c": [1, 2], "d": 3}}

    assert apply_overrides(before, overrides) == merged
    assert before == {"a": 1, "b": {"c": [1, 2], "d": 3}}


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("NodeGroup.version", "1.33", "1.33"),
        ("NodePool.nodeConfig.fastSocket.enabled", True, True),
        ("AgentPool.vnetSubnetID", None, None),
        ("LaunchTemplate.userData", None, None),
        ("LaunchTemplate.userData", "aHVudGVyMg==", "(a text of 12 characters, not shown)"),
        ("NodePool.nodeConfig.metadata.serial-port-enable", "true", "true"),
        ("NodePool.nodeConfig.metadata.kube-env", "hunter2", "(a text of 7 characters, not shown)"),
        ("AgentPool.messageOfTheDay", "x" * 80, "x" * 80),
        ("AgentPool.messageOfTheDay", "x" * 81, "(a text of 81 characters, not shown)"),
        ("NodePool.tags", ["a", "b"], ["a", "b"]),
        ("NodePool.hosts", [{"name": "a", "clientSecret": "x"}], "(a list of 36 characters, not shown)"),
        ("NodeGroup.tags", {}, {}),
    ],
)
def test_what_is_long_or_may_be_secret_is_told_by_its_size(path: str, value: Any, told: Any) -> None:
    assert tellable(path, value) == told


def test_inputs_that_hold_what_was_set_by_hand_are_told_in_the_same_way() -> None:
    by_hand = {"LaunchTemplate.userData": "aGk=", "LaunchTemplate.keyName": "ops"}
    told = "(a text of 4 characters, not shown)"
    inside = {"pool": {"overrides": {"aws": {"LaunchTemplate": {"userData": "aGk=", "keyName": "ops"}}}}}

    assert without_hidden({"userData": "aGk=", "keyName": "ops"}, by_hand) == {"userData": told, "keyName": "ops"}
    assert without_hidden({"properties": {"userData": "aGk="}}, by_hand) == {"properties": {"userData": told}}
    assert without_hidden(inside, by_hand)["pool"]["overrides"]["aws"]["LaunchTemplate"]["userData"] == told
    assert without_hidden({"userData": "aGk", "name": "aGk="}, by_hand) == {"userData": "aGk", "name": "aGk="}


def test_a_secret_among_them_is_refused_in_words() -> None:
    assert problems({"version": LATE, "nodeConfig": {"a": [LATE]}}) == [
        f"pools.train.overrides.gcp.NodePool{at}: is a secret; "
        "write it as plain text; only addresses in clusters may be secrets"
        for at in (".version", ".nodeConfig.a[0]")
    ]


def test_merging_twice_changes_nothing_more() -> None:
    overrides = {"nodeConfig": {"machineType": None, "fastSocket": {"enabled": True}}, "version": "1.34"}
    once = apply_overrides(DECLARED, overrides)

    assert apply_overrides(once, overrides) == once


KEPT = "cannot be overridden; write taints in the pool"
ABOVE = (
    "would remove nodeConfig.taints, which cannot be overridden; write a map with the inputs to change; write taints"
)
NO_INPUT = "NodePool has no input 'node_config'; use the wire name; did you mean 'nodeConfig'?"
A_DATE = "got a date, which is not a valid input; write text, a number, true or false, a list or a map"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param({"nodeConfig": {"taints": []}}, f".nodeConfig.taints: {KEPT}", id="taints"),
        pytest.param({"nodeConfig": {"taints": None}}, f".nodeConfig.taints: {KEPT}", id="taints-null"),
        pytest.param({"nodeConfig": None}, f".nodeConfig: {ABOVE} in the pool", id="above-null"),
        pytest.param({"nodeConfig": ["taints"]}, f".nodeConfig: {ABOVE} in the pool", id="above-list"),
        pytest.param({"cluster": "other"}, ".cluster: cannot be overridden; write it in the cluster", id="cluster"),
        pytest.param({"node_config": {"taints": []}}, f".node_config: {NO_INPUT}", id="snake-case"),
        pytest.param({"version": datetime.date(2026, 11, 1)}, f".version: {A_DATE}", id="date"),
        pytest.param(
            {"version": [float("inf")]},
            ".version[0]: got inf, which is not a valid input; write a finite number",
            id="infinity",
        ),
        pytest.param(
            {"nodeConfig": {1: "a"}},
            ".nodeConfig: has the key 1, which is not text; write '1' in quotes",
            id="number-key",
        ),
    ],
)
def test_what_cannot_be_set_by_hand_is_refused(inputs: dict[str, Any], message: str) -> None:
    assert problems(inputs) == [f"pools.train.overrides.gcp.NodePool{message}"]


def test_everything_wrong_is_told_at_once() -> None:
    assert len(problems({"cluster": "other", "nodeConfig": {"taints": []}, "verzion": "1.34"})) == 3


def test_a_resource_that_is_not_declared_is_answered_with_the_nearest() -> None:
    assert problems({}, "Nodepool") == [
        "pools.train.overrides.gcp.Nodepool: a pool on gcp has no resource 'Nodepool'; did you mean 'NodePool'?"
    ]


@pytest.mark.parametrize(
    "inputs",
    [{}, {"nodeConfig": {}}, {"nodeConfig": {"fastSocket": {"enabled": True}}}, {"version": None}],
    ids=["nothing", "empty-map", "beside-the-taints", "taken-away"],
)
def test_what_leaves_the_taints_alone_is_taken(inputs: dict[str, Any]) -> None:
    assert problems(inputs) == []
    assert apply_overrides(DECLARED, inputs)["nodeConfig"]["taints"] == [{"key": "nvidia.com/gpu"}]


def test_the_plan_shows_each_input_by_its_path() -> None:
    assert flattened(
        {"NodePool": {"nodeConfig": {"fastSocket": {"enabled": True}, "labels": {}}, "version": None}}
    ) == {
        "NodePool.nodeConfig.fastSocket.enabled": True,
        "NodePool.nodeConfig.labels": {},
        "NodePool.version": None,
    }


def test_overrides_that_would_do_nothing_are_told() -> None:
    overrides: dict[str, Any] = {"gcp": {}, "aws": {}, "gpc": {}}
    found = idle_overrides(("pools", "train"), overrides, ["aws", "azure", "gcp"], {"gcp"})

    assert [str(problem) for problem in found] == [
        "pools.train.overrides.aws: none of the pool's clusters is on aws; remove it",
        "pools.train.overrides.gpc: unknown cloud 'gpc'; did you mean 'gcp'?",
    ]


def test_a_stack_file_is_told_of_overrides_that_would_do_nothing() -> None:
    cluster = dict(clouds()["gcp"].example_cluster)
    pool = {"clusters": ["lab"], "gpu": "L4", "nodes": {"max": 1}, "overrides": {"aws": {"NodeGroup": {}}}}

    with pytest.raises(Rejected) as rejected:
        parse_stack({"clusters": {"lab": cluster}, "pools": {"train": pool}}, clouds())
    assert [problem.key for problem in rejected.value.problems] == ["pools.train.overrides.aws"]
