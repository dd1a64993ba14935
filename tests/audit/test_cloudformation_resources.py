"""Literal values of CloudFormation templates are read; what a function returns is not known."""

import json
from typing import Any

import pytest

from gpupools.audit.cloudformation_resources import READER, to_pulumi_names, unread_resource
from gpupools.plan.pool_facts import UNKNOWN
from tests.rows import each_row

STACK = "aws:cloudformation/stack:Stack"
GROUP = "aws:eks/nodeGroup:NodeGroup"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"InstanceTypes": ["g5.xlarge"]}, {"instanceTypes": ["g5.xlarge"]}),
        ({"Labels": {"Team": "a"}}, {"labels": {"Team": "a"}}),
        ({"InstanceTypes": {"Ref": "Types"}}, {"instanceTypes": UNKNOWN}),
        ({"InstanceTypes": [{"Fn::If": ["Prod", "a", "b"]}]}, {"instanceTypes": [UNKNOWN]}),
        ({"UserData": {"Fn::Base64": "#!/bin/sh"}}, {"userData": "#!/bin/sh"}),
        ({"UserData": {"Fn::Base64": "cfn-init -r Gpu"}}, {"userData": UNKNOWN}),
        ({"UserData": {"Fn::Base64": {"Fn::Sub": "#cloud-config"}}}, {"userData": UNKNOWN}),
        ({"A": {"B": 1, "Fn::Transform": {}}}, {"a": UNKNOWN}),
        ({"A": {"Ref": "x", "B": 1}}, {"a": {"ref": "x", "b": 1}}),
        ({"Fn::If": ["Prod", {}, {}]}, UNKNOWN),
    ],
    ids=str,
)
def test_literals_are_read_and_functions_are_not_evaluated(given: Any, made: Any) -> None:
    assert to_pulumi_names(given) == made


TAINT = {"Key": "nvidia.com/gpu", "Effect": "NO_SCHEDULE"}


@pytest.mark.parametrize(
    ("properties", "needs_a_look"),
    [
        ({"InstanceTypes": ["g6.xlarge"]}, True),
        ({"InstanceTypes": {"Ref": "Types"}}, True),
        ({"LaunchTemplate": {"Id": {"Ref": "Lt"}, "Version": "1"}}, True),
        ({"Fn::If": ["Prod", {}, {}]}, True),
        ({"InstanceTypes": ["g6.xlarge"], "Taints": [TAINT]}, False),
        ({"InstanceTypes": ["m5.large"]}, False),
    ],
    ids=str,
)
def test_a_pool_inside_a_stack_needs_a_look_unless_it_shows_otherwise(properties: Any, needs_a_look: bool) -> None:
    group = {"Resources": {"G": {"Type": "AWS::EKS::Nodegroup", "Condition": "Never", "Properties": properties}}}
    inner = {"Type": "AWS::CloudFormation::StackSet", "Properties": {"TemplateBody": json.dumps(group)}}
    why = READER.unread(STACK, {"templateBody": {"Resources": {"S": inner}}})

    assert bool(READER.unread(STACK, {"templateBody": group})) is needs_a_look
    assert why.endswith("check the template as a file of its own") is needs_a_look


@pytest.mark.parametrize(
    ("name", "resource", "why"),
    [
        ("G", {"Type": "AWS::EKS::Nodegroup"}, ""),
        ("Fn::ForEach::Each", ["X", ["a"], {"G${X}": {}}], "a loop (Fn::ForEach) is not evaluated"),
        ("G", {"Fn::Transform": {"Name": "M"}}, "a macro generates it"),
        ("G", {"Type": "A::B::C::MODULE"}, "a module, whose resources are not in this template"),
    ],
)
def test_what_is_not_written_out_says_so(name: str, resource: Any, why: str) -> None:
    assert unread_resource(name, resource) == why


def test_a_body_nested_too_deeply_cannot_be_read() -> None:
    deep = '{"Resources": ' + "[" * 5_000 + "]" * 5_000 + "}"

    assert READER.unread(STACK, {"templateBody": deep}) == "its template is neither JSON nor YAML"


STATE = '{"InstanceTypes": ["g5.xlarge"]}'


@each_row(
    ("token", "inputs", "why"),
    [
        ("aws:cloudformation/stack:Stack", {"templateBody": UNKNOWN}, "its template is not known yet"),
        ("aws:cloudformation/stack:Stack", {"templateUrl": UNKNOWN}, "its template is not known yet"),
        ("aws:cloudformation/stackSet:StackSet", {"templateUrl": "https://a"}, "its template is not available"),
        ("aws-native:cloudformation:Stack", {"templateBody": "a"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:Stack", {"templateBody": "[]"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:Stack", {"templateBody": "{"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:StackSet", {"templateBody": "Resources: {}"}, ""),
        ("aws:cloudformation/stack:Stack", {"templateBody": {"Resources": {}}}, ""),
        (
            "aws:cloudcontrol/resource:Resource",
            {"typeName": UNKNOWN, "desiredState": STATE},
            "typeName is not known yet",
        ),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket", "desiredState": STATE}, ""),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket", "desiredState": UNKNOWN}, ""),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket"}, "desiredState is not JSON"),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "a", "desiredState": "[]"}, "desiredState is not JSON"),
        ("aws-native:index:ExtensionResource", {"type": UNKNOWN}, "type is not known yet"),
        ("aws-native:index:ExtensionResource", {"type": "AWS::S3::Bucket"}, ""),
        (GROUP, {"templateBody": UNKNOWN}, ""),
    ],
)
def test_what_holds_resources_says_why_it_cannot_be_read(token: str, inputs: dict[str, Any], why: str) -> None:
    assert READER.unread(token, inputs) == why


def test_what_is_held_and_not_read_is_named() -> None:
    types = {"A": {"Type": "AWS::EKS::Nodegroup"}, "B": {"Type": "AWS::S3::Bucket"}, "C": {"Type": "AWS::ECS::Cluster"}}
    held = READER.nested_types

    assert [*held("aws:cloudformation/stack:Stack", {"templateBody": {"Resources": types}})] == [
        "cloudformation:AWS::S3::Bucket",
        "cloudformation:AWS::ECS::Cluster",
    ]
    assert [*held(GROUP, {"templateBody": {"Resources": types}})] == []
