"""Literal values of CloudFormation templates are read; what a function returns is not known."""

import json
from typing import Any

import pytest

from gpupools.audit.cloudformation_template import READER, to_pulumi_names, unread_resource
from gpupools.audit.held_resources import HELD
from gpupools.common.json_types import JsonDict
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
    assert to_pulumi_names(given, {}) == made


TAINT = {"Key": "nvidia.com/gpu", "Effect": "NO_SCHEDULE"}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"InstanceTypes": ["g6.xlarge"]}, HELD),
        ({"InstanceTypes": {"Ref": "Types"}}, HELD),
        ({"LaunchTemplate": {"Id": {"Ref": "Lt"}, "Version": "1"}}, HELD),
        ({"Fn::If": ["Prod", {}, {}]}, "its properties are not literal values"),
        ({"InstanceTypes": ["g6.xlarge"], "Taints": [TAINT]}, ""),
        ({"InstanceTypes": ["m5.large"]}, ""),
    ],
    ids=str,
)
def test_a_pool_inside_a_stack_needs_a_look_unless_it_shows_otherwise(properties: Any, said: str) -> None:
    group = {"Resources": {"G": {"Type": "AWS::EKS::Nodegroup", "Condition": "Never", "Properties": properties}}}
    inner = {"Type": "AWS::CloudFormation::StackSet", "Properties": {"TemplateBody": json.dumps(group)}}
    at = "templateBody.Resources."

    assert READER.unread(STACK, {"templateBody": group}) == (said and f"{at}G: {said}")
    assert READER.unread(STACK, {"templateBody": {"Resources": {"S": inner}}}) == (said and f"{at}S: {at}G: {said}")


JOINS = {"config": {"commands": {"join": {"command": "/etc/eks/bootstrap.sh prod"}}}}
DESKTOP: JsonDict = {"config": {"packages": {"yum": {"blender": []}}}}


@pytest.mark.parametrize("kind", ["AWS::EC2::Instance", "AWS::AutoScaling::LaunchConfiguration"])
@pytest.mark.parametrize(
    ("init", "runs", "levels"),
    [
        (JOINS, "Gpu", ["unverified"]),
        (JOINS, "Other", ["unverified"]),
        (DESKTOP, "Gpu", []),
    ],
    ids=["its own", "of another resource", "a desktop"],
)
def test_what_cfn_init_does_is_read_where_user_data_runs_it(
    judge: Any, kind: str, init: Any, runs: str, levels: list[str]
) -> None:
    script = f"#!/bin/bash\n/opt/aws/bin/cfn-init -s prod -r {runs}"
    machine = {"InstanceType": "g5.xlarge", "UserData": {"Fn::Base64": script}}
    more = {"Metadata": {"AWS::CloudFormation::Init": init}}
    resources: dict[str, Any] = {"Gpu": {"Type": kind, "Properties": machine}}
    resources.setdefault(runs, {"Type": "AWS::IAM::Role"}).update(more)
    report = judge({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})

    assert [each.level.value for each in report.found if each.rule.name == "gpu-pool-tainted"] == levels


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
