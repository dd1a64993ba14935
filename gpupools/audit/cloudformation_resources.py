"""Reads resources in CloudFormation's form, and finds pools inside those that take any type of resource. Pure.

Cloud Control takes one resource as JSON, aws-native's extension resource as a map, a stack a whole template. What an
intrinsic function returns is `UNKNOWN`. A change set holds the evaluated values.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from gpupools.common.bounded_yaml import MAX_DEPTH, is_deep, parse_yaml
from gpupools.common.errors import Rejected, shown
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.readback.inputs import is_list, mapping, text
from gpupools.readback.registry import TypeReader

CLOUD_CONTROL = "aws:cloudcontrol/resource:Resource"
EXTENSION = "aws-native:index:ExtensionResource"
STACKS = (
    "aws:cloudformation/stack:Stack",
    "aws-native:cloudformation:Stack",
    "aws:cloudformation/stackSet:StackSet",
    "aws-native:cloudformation:StackSet",
)
TOKENS = frozenset({CLOUD_CONTROL, EXTENSION, *STACKS})

TYPES = {
    "AWS::EKS::Nodegroup": "aws-native:eks:Nodegroup",
    "AWS::EC2::LaunchTemplate": "aws-native:ec2:LaunchTemplate",
    "AWS::EC2::Instance": "aws-native:ec2:Instance",
    "AWS::EC2::EC2Fleet": "aws-native:ec2:Ec2Fleet",
    "AWS::EC2::SpotFleet": "aws-native:ec2:SpotFleet",
    "AWS::AutoScaling::LaunchConfiguration": "aws-native:autoscaling:LaunchConfiguration",
    "AWS::AutoScaling::AutoScalingGroup": "aws-native:autoscaling:AutoScalingGroup",
}
"""Pulumi type by CloudFormation type, of the resources that can create nodes."""

HOLDERS = {
    "AWS::CloudFormation::Stack": "aws-native:cloudformation:Stack",
    "AWS::CloudFormation::StackSet": "aws-native:cloudformation:StackSet",
}
"""The same of the resources that hold a template."""
HELD = "a pool inside a template is not read here; check the template as a file of its own"
_OWN_KEYS = ("Labels", "Tags")
"""Maps with user-defined keys."""


def pulumi_type(kind: str) -> str | None:
    """Return the Pulumi type of a CloudFormation type that can create nodes; None for any other."""
    return TYPES.get(kind) or HOLDERS.get(kind)


def to_pulumi_names(value: Any, own: bool = False, depth: int = 0) -> Any:
    """Return properties with Pulumi's names and `UNKNOWN` for values of functions.

    Args:
        value: The properties as the template has them.
        own: Whether the keys of this map are user-defined and stay.
        depth: How many maps and lists are around the value.
    """
    if isinstance(value, Mapping):
        if depth > MAX_DEPTH or is_function(value):
            literal = _user_data(value.get("Fn::Base64"))
            return literal if literal and "cfn-init" not in literal else UNKNOWN  # it runs what stands elsewhere
        return {
            key if own else key[:1].lower() + key[1:]: item
            if key == "TemplateBody" and "Resources" in mapping(item)
            else to_pulumi_names(item, key in _OWN_KEYS and isinstance(item, Mapping), depth + 1)
            for key, item in value.items()
            if isinstance(key, str)
        }
    if is_list(value):
        return UNKNOWN if depth > MAX_DEPTH else [to_pulumi_names(item, depth=depth + 1) for item in value]
    return value


def _user_data(given: Any) -> str:
    """Return user data with `${…}` for what functions insert; empty unless it is literal, or a script."""
    inserted: Any = mapping(given).get("Fn::Sub")
    joined: Any = mapping(given).get("Fn::Join")
    if is_list(joined) and len(joined) == 2 and is_list(joined[1]):
        inserted = str(joined[0]).join(one if isinstance(one, str) else "${part}" for one in joined[1])
    script = text(inserted[0] if is_list(inserted) and inserted else inserted)
    return text(given) or (script if script.startswith("#!") else "")


def is_function(value: Any) -> bool:
    """Return whether a function returns all or part of the map: `Fn::Transform` changes the map around it.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
    """
    keys = mapping(value).keys()
    return keys in ({"Ref"}, {"Condition"}) or any(text(key).startswith("Fn::") for key in keys)


def long_form(tag: str, value: Any) -> Any:
    """Return the long form of a function that is written as a YAML tag: `!Ref x` is `{Ref: x}`."""
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/transform-reference.html.
_INCLUDE = "AWS::Include"


def macros(template: Any) -> Iterator[str]:
    """Yield the macros of a template that may add resources; AWS's own macros create no nodes."""
    given = mapping(template).get("Transform")
    listed: Any = given if is_list(given) else [given]
    for one in listed:
        name = one if isinstance(one, str) else str(mapping(one).get("Name", ""))
        if name and (not name.startswith("AWS::") or name == _INCLUDE):
            yield name


_LOOP = "Fn::ForEach::"
"""Prefix of the name of a loop.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-foreach.html
"""
_MODULE = "::MODULE"
"""Suffix of the type of a module: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/modules.html."""


def is_loop(name: str) -> bool:
    """Return whether a key of `Resources` is a loop over resources."""
    return name.startswith(_LOOP)


def unread_resource(name: str, resource: Any) -> str:
    """Return why a resource of a template cannot be read; empty where it can.

    Args:
        name: Its key in `Resources`.
        resource: Its value.
    """
    kind = text(mapping(resource).get("Type"))
    if is_loop(name):
        return "a loop (Fn::ForEach) is not evaluated"
    if not kind or is_function(resource):
        return "a macro generates it"
    return "a module, whose resources are not in this template" if kind.endswith(_MODULE) else ""


def unread(type_token: str, properties: JsonObject) -> str:
    """Return why a resource of one of `TOKENS` cannot be read; empty where it can, and for any other."""
    if type_token not in TOKENS:
        return ""
    if why := _unread(type_token, properties):
        return why
    aws = clouds()["aws"].readback()
    for path, _, kind, given in _resources(type_token, properties):
        made = to_pulumi_names(given) if kind in TYPES else {}
        if made is UNKNOWN or any(pool.lacks_taint for pool in aws.read_pools(TYPES.get(kind, ""), mapping(made))):
            return f"{path}: {HELD}"
    held = ((path, unread(inner, inputs)) for path, _, inner, inputs in _stacks(type_token, properties))
    return next((f"{path}: {closed}" for path, closed in held if closed), "")


def _unread(type_token: str, properties: JsonObject) -> str:
    if type_token in STACKS:
        body = properties.get("templateBody")
        if body is UNKNOWN or properties.get("templateUrl") is UNKNOWN:
            return "its template is not known yet"
        if body is None:
            return "its template is not available"
        if not isinstance(mapping(body) or _parsed(text(body)), Mapping):
            return "its template is neither JSON nor YAML"
        return next(_unread_parts(_template(properties)), "")
    name = "type" if type_token == EXTENSION else "typeName"
    if properties.get(name) is UNKNOWN:
        return f"{name} is not known yet"
    state = properties.get("desiredState")
    if type_token == CLOUD_CONTROL and state is not UNKNOWN and not isinstance(_parsed(text(state)), Mapping):
        return "desiredState is not JSON"
    return ""


def _unread_parts(template: JsonObject) -> Iterator[str]:
    yield from (f"the macro {shown(macro)} transforms its template" for macro in macros(template))
    for name, one in mapping(template.get("Resources")).items():
        if why := unread_resource(str(name), one):
            yield f"{shown(str(name))} of its template: {why}"


def nested_types(type_token: str, properties: JsonObject) -> Iterator[str]:
    """Yield the types inside a resource of one of `TOKENS` that make no node by themselves."""
    if type_token in TOKENS:
        yield from (
            f"cloudformation:{kind}" for _, _, kind, _ in _resources(type_token, properties) if kind not in TYPES
        )
        for _, _, inner, inputs in _stacks(type_token, properties):
            yield from nested_types(inner, inputs)


def _stacks(type_token: str, properties: JsonObject) -> Iterator[tuple[str, str, str, JsonObject]]:
    """Yield path, name, Pulumi's type and inputs of each stack that a resource holds."""
    for path, name, kind, given in _resources(type_token, properties):
        if kind in HOLDERS:
            made = to_pulumi_names(given)
            yield path, name, HOLDERS[kind], {"templateBody": UNKNOWN} if made is UNKNOWN else mapping(made)


def referenced_names(value: Any) -> Iterator[str]:
    """Yield the names of the resources that `Ref` and `Fn::GetAtt` inside a value refer to."""
    inside = [value]
    while inside:
        one = inside.pop()
        for key, inner in mapping(one).items():
            if key == "Ref":
                yield text(inner)
            elif key == "Fn::GetAtt":
                yield text(inner[0]) if is_list(inner) and inner else text(inner).partition(".")[0]
        inside += one if is_list(one) else mapping(one).values()


def _resources(type_token: str, properties: JsonObject) -> Iterator[tuple[str, str, str, Any]]:
    """Yield path, name, type and properties of each resource."""
    if type_token == EXTENSION:
        yield "properties", "", text(properties.get("type")), properties.get("properties")
    elif type_token == CLOUD_CONTROL:
        state = properties.get("desiredState")
        yield "desiredState", "", text(properties.get("typeName")), state if state is UNKNOWN else _parsed(text(state))
    else:
        for name, one in mapping(_template(properties).get("Resources")).items():
            path = f"templateBody.Resources.{name}.Properties"
            yield path, str(name), text(mapping(one).get("Type")), mapping(one).get("Properties")


def _template(properties: JsonObject) -> JsonObject:
    body = properties.get("templateBody")
    return mapping(body) or mapping(_parsed(text(body)))


@lru_cache(maxsize=16)  # the same body is asked for by each of the readers
def _parsed(body: str) -> Any:
    """Parse JSON, or YAML with CloudFormation's tags; return None where it is neither, or nested too deeply."""
    try:
        parsed = json.loads(body)
        return None if is_deep(parsed) else parsed
    except RecursionError:
        return None
    except ValueError:
        pass
    try:
        documents = parse_yaml(body, tagged=long_form)
    except Rejected:
        return None
    return documents[0].data if documents else None


READER = TypeReader(cloud="aws", types=tuple(sorted(TOKENS)), unread=unread, nested_types=nested_types)
