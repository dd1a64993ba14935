"""What is declared for EKS, held against AWS's own description of its APIs (botocore's service models)."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader  # type: ignore[import-untyped]
from botocore.model import (  # type: ignore[import-untyped]
    ListShape,
    MapShape,
    OperationModel,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)
from botocore.validate import ParamValidator  # type: ignore[import-untyped]

from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers.aws import CLOUD
from tests.providers import aws_pools
from tests.providers.everything import everything

Wire = Mapping[str, Any]


@cache
def operation(service: str, name: str) -> OperationModel:
    return ServiceModel(Loader().load_service_model(service, "service-2"), service).operation_model(name)


def problems(params: Wire, model: OperationModel) -> list[str]:
    """List what AWS would refuse by its model: unknown, missing and mistyped members, and values outside an enum."""
    shape = model.input_shape
    assert shape is not None
    report = ParamValidator().validate(params, shape)
    return [*([report.generate_report()] if report.has_errors() else []), *_outside_enums(params, shape, "")]


def _outside_enums(value: Any, shape: Shape, path: str) -> Iterator[str]:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        for key, inner in value.items():
            if key in shape.members:
                yield from _outside_enums(inner, shape.members[key], f"{path}.{key}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _outside_enums(inner, shape.member, f"{path}[{index}]")
    elif isinstance(shape, MapShape) and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _outside_enums(inner, shape.value, f"{path}[{key!r}]")
    elif isinstance(shape, StringShape) and shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is none of {', '.join(shape.enum)}"


def known(value: Any, path: str = "") -> Any:
    """Put a name where the engine knows a value only after something was created."""
    if value == UNKNOWN:
        return f"known-later-{path}"
    if isinstance(value, Mapping):
        return {key: known(inner, key) for key, inner in value.items()}
    return [known(inner, path) for inner in value] if isinstance(value, list) else value


# The provider's own translations: https://github.com/hashicorp/terraform-provider-aws,
# internal/service/eks/node_group.go and internal/service/ec2/ec2_launch_template.go.


def create_node_group(inputs: Wire) -> Wire:
    renamed = {"subnetIds": "subnets", "nodeRoleArn": "nodeRole"}
    return {
        "nodegroupName": "train-a",
        **{renamed.get(key, key): value for key, value in inputs.items() if key != "region"},
    }


_MEMBERS = {"VpcSecurityGroupIds": "SecurityGroupIds", "SecurityGroups": "Groups"}
_TRUTH = {"true": True, "false": False}


def _pascal(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {}
        for key, inner in value.items():
            name = key[0].upper() + key[1:]
            # Maps of tags are lists of pairs in this API.
            found[_MEMBERS.get(name, name)] = _tags(inner) if name == "Tags" else _pascal(inner)
        return found
    if isinstance(value, list):
        return [_pascal(inner) for inner in value]
    return _TRUTH.get(value, value) if isinstance(value, str) else value


def _tags(tags: Wire) -> list[dict[str, Any]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def create_launch_template(inputs: Wire) -> Wire:
    data = {key: value for key, value in inputs.items() if key not in ("description", "region", "tags")}
    return {
        "LaunchTemplateName": "train-a",
        "VersionDescription": inputs["description"],
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": _tags(inputs["tags"])}],
        "LaunchTemplateData": _pascal(data),
    }


def create_placement_group(inputs: Wire) -> Wire:
    specification = {"ResourceType": "placement-group", "Tags": _tags(inputs["tags"])}
    name = inputs.get("name", "train-a")
    return {"GroupName": name, "Strategy": inputs["strategy"], "TagSpecifications": [specification]}


def create_or_update_tags(inputs: Wire) -> Wire:
    tag = {"ResourceId": inputs["autoscalingGroupName"], "ResourceType": "auto-scaling-group", **_pascal(inputs["tag"])}
    tag["Value"] = inputs["tag"]["value"]
    return {"Tags": [tag]}


CALLS: list[tuple[str, str, str, Callable[[Wire], Wire]]] = [
    (aws_pools.NODE_GROUP, "eks", "CreateNodegroup", create_node_group),
    (aws_pools.TEMPLATE, "ec2", "CreateLaunchTemplate", create_launch_template),
    (aws_pools.PLACEMENT_GROUP, "ec2", "CreatePlacementGroup", create_placement_group),
    (aws_pools.TAG, "autoscaling", "CreateOrUpdateTags", create_or_update_tags),
]


@pytest.mark.parametrize(("token", "service", "name", "request_of"), CALLS, ids=[call[2] for call in CALLS])
def test_every_request_fits_the_model_of_aws(
    token: str, service: str, name: str, request_of: Callable[[Wire], Wire]
) -> None:
    model = operation(service, name)
    declared = [resource for resource in everything("aws").resources if resource.type == token]

    found = [problem for each in declared for problem in problems(request_of(known(each.inputs)), model)]

    assert declared
    assert found == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capacityType": "CAPACITY_BLOCKS"}, ".capacityType: 'CAPACITY_BLOCKS' is none of"),
        ({"scalingConfig": {"minSize": "1"}}, "Invalid type for parameter scalingConfig.minSize"),
        ({"nodeRepairConfig": {"enable": True}}, 'Unknown parameter in nodeRepairConfig: "enable"'),
        ({"subnetIds": None}, "Invalid type for parameter subnets"),
    ],
    ids=["enum", "type", "name", "missing"],
)
def test_the_check_finds_what_aws_would_refuse(change: dict[str, Any], said: str) -> None:
    inputs = next(each.inputs for each in everything("aws").resources if each.type == aws_pools.NODE_GROUP)

    found = problems(create_node_group({**known(inputs), **change}), operation("eks", "CreateNodegroup"))

    assert any(said in problem for problem in found), found


def test_an_auto_scaling_group_has_room_for_every_tag() -> None:
    resources = everything("aws").resources
    groups = {each.parent for each in resources if each.type == aws_pools.TAG}

    counts = [sum(each.parent == group for each in resources if each.type == aws_pools.TAG) for group in groups]

    assert max(counts) <= 45


def test_a_machine_that_ec2_does_not_name_says_so_in_its_row() -> None:
    known = set(Loader().load_service_model("ec2", "service-2")["shapes"]["InstanceType"]["enum"])
    unknown = {name: row for name, row in CLOUD.instance_types.items() if name not in known and row.vcpus is None}
    sold = {name for name, row in CLOUD.instance_types.items() if row.lifecycle != "retired"}

    assert sold - known == set(unknown) == {"p6e-gb300.36xlarge"}
    assert all("not in EC2's API model" in row.kubernetes for row in unknown.values())
