"""Literal values of CloudFormation templates are read; what a function returns is not known."""

import json
from typing import Any

import pytest

from gpupools.audit.cloudformation_resources import READER, to_pulumi_names, unread_resource
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from tests.rows import each_row

STACK = "aws:cloudformation/stack:Stack"
GROUP = "aws:eks/nodeGroup:NodeGroup"


def pools(resources: Any) -> dict[str, PoolFacts]:
    found = READER.read_pools(STACK, {"templateBody": {"Resources": resources}})
    return {pool.pool: pool for pool in found}


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


def test_a_group_is_read_whatever_its_condition() -> None:
    group = {"Type": "AWS::EKS::Nodegroup", "Condition": "Never", "Properties": {"InstanceTypes": ["g6.xlarge"]}}

    assert pools({"G": group})["G"].gpus_per_node == 1


@pytest.mark.parametrize(
    ("function", "is_joined"),
    [
        ({"Ref": "Lt"}, True),
        ({"Fn::GetAtt": ["Lt", "LaunchTemplateId"]}, True),
        ({"Fn::GetAtt": "Lt.LaunchTemplateId"}, True),
        ({"Fn::If": ["Prod", {"Ref": "Lt"}, {"Ref": "Other"}]}, True),
        ({"Fn::GetAtt": []}, False),
        ({"Fn::ImportValue": "Lt"}, False),
    ],
    ids=str,
)
def test_a_reference_joins_a_group_and_its_launch_template(function: Any, is_joined: bool) -> None:
    template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"InstanceType": "g5.xlarge"}}}
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"LaunchTemplate": {"Id": function, "Version": "1"}}}

    assert (pools({"Lt": template, "G": group})["G"].gpus_per_node == 1) is is_joined


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


def test_a_literal_template_inside_a_template_is_read() -> None:
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"InstanceTypes": ["g6.xlarge"]}}
    body = json.dumps({"Resources": {"G": group}})
    inner = {"Type": "AWS::CloudFormation::StackSet", "Properties": {"TemplateBody": body}}

    assert pools({"S": inner})["S G"].gpus_per_node == 1


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
