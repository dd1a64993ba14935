"""Intrinsic functions of CloudFormation have the value that the template makes of them."""

import time
from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.aws.cloudformation import in_pulumis_names, known_of, unrolled

TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "Stage": {"Type": "String", "Default": "dev"},
        "Number": {"Type": "Number", "Default": 2},
        "Types": {"Type": "CommaDelimitedList", "Default": "m5.large, m5.xlarge"},
        "None": {"Type": "String"},
    },
    "Mappings": {"Machines": {"dev": {"type": "m5.large", "all": ["c5.large"]}, "2": {"type": "t3.large"}}},
    "Conditions": {
        "Dev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]},
        "Two": {"Fn::Equals": [{"Ref": "Number"}, "2"]},
        "Prod": {"Fn::Not": [{"Condition": "Dev"}]},
        "Yes": {"Fn::Equals": [True, "true"]},
        "No": {"Fn::Equals": [False, "False"]},
        "Late": {"Fn::Equals": [{"Ref": "None"}, "dev"]},
        "Round": {"Fn::And": [{"Condition": "Round"}, {"Condition": "Round"}]},
    },
}


def chosen(condition: str) -> dict[str, Any]:
    return {"Fn::If": [condition, "a", "b"]}


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ({"Fn::FindInMap": ["Machines", {"Ref": "Stage"}, "type"]}, "m5.large"),
        ({"Fn::FindInMap": ["Machines", {"Ref": "Number"}, "type"]}, "t3.large"),
        ({"Fn::FindInMap": ["Machines", "dev", "all"]}, ["c5.large"]),
        ({"Fn::FindInMap": ["Machines", {"Ref": "AWS::Region"}, "type"]}, UNKNOWN),
        ({"Fn::FindInMap": ["Machines", "prod", "type"]}, UNKNOWN),
        (chosen("Dev"), "a"),
        (chosen("Two"), "a"),
        (chosen("Prod"), "b"),
        (chosen("Yes"), "a"),
        (chosen("No"), "b"),
        (chosen("Late"), UNKNOWN),
        (chosen("Round"), UNKNOWN),
        (chosen("Nothing"), UNKNOWN),
        ({"Fn::If": ["Prod", "a", {"Ref": "AWS::NoValue"}]}, None),
        (["x", {"Fn::If": ["Prod", "a", {"Ref": "AWS::NoValue"}]}], ["x"]),
        ({"Fn::Select": [1, {"Ref": "Types"}]}, "m5.xlarge"),
        ({"Fn::Select": [2, {"Ref": "Types"}]}, UNKNOWN),
        ({"Fn::Select": [0, {"Fn::Split": ["/", "a/b"]}]}, "a"),
        ({"Fn::Join": [".", ["g6", "xlarge"]]}, "g6.xlarge"),
        ({"Fn::Join": ["", ["g6.", {"Ref": "None"}]]}, UNKNOWN),
        ({"Fn::Sub": "${Stage}-${Number}"}, "dev-2"),
        ({"Fn::Sub": ["${A}.${Stage}", {"A": {"Ref": "Number"}}]}, "2.dev"),
        ({"Fn::Sub": ["${A}", {"A": {"Ref": "None"}}]}, UNKNOWN),
        ({"Fn::Sub": "${AWS::Region}"}, UNKNOWN),
        ({"Fn::ImportValue": "x"}, UNKNOWN),
        ({"Fn::Sub": {}}, UNKNOWN),
        ({"Fn::Join": {"a": 1, "b": 2}}, UNKNOWN),
        ({"Fn::FindInMap": ["Machines", "dev"]}, UNKNOWN),
        ({"Fn::Other": ["Machines", "dev", "type"]}, UNKNOWN),
        ({"Fn::Other": ["/", "a/b"]}, UNKNOWN),
        ({"Fn::Other": [0, ["a", "b"]]}, UNKNOWN),
        ({"Fn::If": "x"}, UNKNOWN),
        ({"Fn::If": ["Dev", "a"]}, UNKNOWN),
        ({"Fn::If": ["Dev", "a", "b", "c"]}, UNKNOWN),
    ],
    ids=str,
)
def test_a_function_has_its_value(function: Any, value: Any) -> None:
    found = in_pulumis_names(function, known_of(TEMPLATE))

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("condition", "parameters", "pools"),
    [
        ({"Fn::Equals": ["a", "b"]}, None, 1),
        ("Dev", None, 1),
        ("Prod", None, 0),
        ("Prod", {"Stage": "prod"}, 1),
        ("Late", None, 1),
        ("Dev", UNKNOWN, 1),
    ],
)
def test_a_group_whose_condition_does_not_hold_is_not_made(condition: Any, parameters: Any, pools: int) -> None:
    group = {"Type": "AWS::EKS::Nodegroup", "Condition": condition, "Properties": {"InstanceTypes": ["g6.xlarge"]}}
    stack = {"templateBody": {**TEMPLATE, "Resources": {"G": group}}, "parameters": parameters}

    assert len(clouds()["aws"].reading().read_pools("aws:cloudformation/stack:Stack", stack)) == pools


LONG: dict[str, Any] = {
    "Conditions": {f"C{n}": {"Fn::And": [{"Condition": f"C{n + 1}"}, {"Condition": f"C{n + 1}"}]} for n in range(40)},
    "Parameters": {"A": {"Type": "String", "Default": "a" * 200_000}, "L": {"Type": "CommaDelimitedList"}},
}


@pytest.mark.parametrize(
    "function",
    [
        {"Fn::Sub": "${A}" * 100_000},
        {"Fn::Join": [{"Ref": "A"}, {"Fn::Split": [",", "," * 100_000]}]},
        [{"Fn::If": ["C0", "a", "b"]} for _ in range(40)],
    ],
    ids=["filled", "joined", "conditions"],
)
def test_functions_end(function: Any) -> None:
    before = time.process_time()

    assert in_pulumis_names(function, known_of(LONG)) in (UNKNOWN, [UNKNOWN] * 40)
    assert time.process_time() - before < 1.5


def test_user_data_keeps_its_parts_inside_each_other() -> None:
    inner = {"Fn::Join": ["-", ["b", {"Ref": "None"}]]}
    given = {"UserData": {"Fn::Join": ["", ["a ", inner, " ", {"Fn::Base64": "c"}]]}}

    assert in_pulumis_names(given, known_of(TEMPLATE)) == {"userData": "a b-${…} c"}


@pytest.mark.parametrize(
    ("written", "script"),
    [
        ("run ${Stage}", "run dev"),
        (["run ${Stage}"], "run dev"),
        (["run ${A} ${B}", {"A": "x", "B": {"Ref": "None"}}], "run x ${B}"),
    ],
)
def test_user_data_keeps_what_is_filled_in_later(written: Any, script: str) -> None:
    made = {"Fn::If": ["Prod", "never", {"Fn::Base64": {"Fn::Sub": written}}]}
    given = {"UserData": made}

    assert in_pulumis_names(given, known_of(TEMPLATE)) == {"userData": script}


@pytest.mark.parametrize(
    "function", [{"Fn::GetAtt": []}, {"Fn::Sub": []}, {"Fn::GetAtt": "Lt.Id"}, {"Fn::Sub": ["${Lt}", {}]}]
)
def test_whatever_a_function_refers_to_a_group_is_read(function: Any) -> None:
    template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"InstanceType": "g5.xlarge"}}}
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"LaunchTemplate": {"Id": function, "Version": "1"}}}
    stack = {"templateBody": {"Resources": {"Lt": template, "G": group}}}
    pools = {pool.pool: pool for pool in clouds()["aws"].reading().read_pools("aws:cloudformation/stack:Stack", stack)}

    named = function != {"Fn::GetAtt": []} and function != {"Fn::Sub": []}
    assert (pools["G"].gpus_per_node == 1) is named


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (["a", "b"], ["Ga", "Gb"]),
        ({"Ref": "Types"}, ["Gm5.large", "Gm5.xlarge"]),
        (["a", {"Ref": "None"}], ["Fn::ForEach::Each"]),
        ([{"Fn::Join": ["", ["a", {"Ref": "None"}]]}], ["Fn::ForEach::Each"]),
    ],
    ids=["written", "a parameter", "not known", "partly known"],
)
def test_a_loop_has_the_turns_that_the_template_decides(listed: Any, names: list[str]) -> None:
    resources = {"Fn::ForEach::Each": ["X", listed, {"G${X}": {"Type": "AWS::EKS::Nodegroup"}}]}

    assert [name for name, _ in unrolled(resources, known_of(TEMPLATE))] == names
