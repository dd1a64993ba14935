"""Reads pools that are written in CloudFormation's form, inside resources that take any type of resource. Pure.

Cloud Control takes one resource as JSON, aws-native's extension resource as a map, a stack a whole template. Property
names begin with a capital letter there; what an intrinsic function makes is not known.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpupools.planned.pool_facts import UNKNOWN, MissingTaint, PoolFacts
from gpupools.read.inputs import is_list, mapping, relocated, text

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
"""Pulumi's type by CloudFormation's, of those that can bring nodes."""

_HOLDERS = {
    "AWS::CloudFormation::Stack": "aws-native:cloudformation:Stack",
    "AWS::CloudFormation::StackSet": "aws-native:cloudformation:StackSet",
}

# A template has at most 1 MB (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html).
_MOST_CHARACTERS = 1_000_000
_MOST_VALUES = 50_000
_OWN_KEYS = ("Labels", "Tags")
"""Maps whose keys are their author's."""

Read = Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]]


def token(kind: str) -> str | None:
    """Return Pulumi's type for one of CloudFormation's that can bring nodes."""
    return TYPES.get(kind) or _HOLDERS.get(kind)


def in_pulumis_names(properties: Any) -> Any:
    """Write a resource's properties in Pulumi's names; `UNKNOWN` for what functions make."""
    return _Inputs().of(properties)


def unread(type_token: str, properties: Mapping[str, Any]) -> str:
    """Say why a resource of one of `TOKENS` cannot be read; empty where it can, and for any other."""
    if type_token not in TOKENS:
        return ""
    if type_token in STACKS:
        body = properties.get("templateBody")
        if body is UNKNOWN or properties.get("templateUrl") is UNKNOWN:
            return "its template is not known yet"
        if body is None:
            return "its template is not at hand"
        readable = isinstance(mapping(body) or _parsed(text(body)), Mapping)
        return "" if readable else "its template is neither JSON nor YAML"
    name = "type" if type_token == EXTENSION else "typeName"
    if properties.get(name) is UNKNOWN:
        return f"{name} is not known yet"
    state = properties.get("desiredState")
    if type_token == CLOUD_CONTROL and state is not UNKNOWN and not isinstance(_parsed(text(state)), Mapping):
        return "desiredState is no JSON"
    return ""


def held_types(type_token: str, properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of what a resource of one of `TOKENS` holds and `read_pools` does not read."""
    for _, _, kind, _ in _resources(type_token, properties) if type_token in TOKENS else ():
        if kind not in TYPES:
            yield f"cloudformation:{kind}"


def read_pools(type_token: str, properties: Mapping[str, Any], read: Read) -> tuple[PoolFacts, ...]:
    """Read the pools inside a resource of one of `TOKENS`.

    Args:
        type_token: Pulumi type of the resource.
        properties: Its inputs in wire form.
        read: Reads the pools of a resource of a type of its own.
    """
    found: list[PoolFacts] = []
    for path, name, kind, given in _resources(type_token, properties):
        token = TYPES.get(kind)
        if token is None:
            continue
        if given is UNKNOWN:
            found.append(PoolFacts("aws", (), None, (), unknown=(path,), where=path, pool=name))
            continue
        inputs = _Inputs().of(given)
        found += [replace(_moved(pool, path), pool=name) for pool in read(token, mapping(inputs))]
    return tuple(found)


def _resources(type_token: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield path, name, type and properties of each resource."""
    if type_token == EXTENSION:
        yield "properties", "", text(properties.get("type")), properties.get("properties")
    elif type_token == CLOUD_CONTROL:
        state = properties.get("desiredState")
        yield "desiredState", "", text(properties.get("typeName")), state if state is UNKNOWN else _parsed(text(state))
    else:
        body = properties.get("templateBody")
        template = mapping(body) or mapping(_parsed(text(body)))
        for name, one in mapping(template.get("Resources")).items():
            path = f"templateBody.Resources.{name}.Properties"
            yield path, str(name), text(mapping(one).get("Type")), mapping(one).get("Properties")


def _parsed(body: str) -> Any:
    """Parse JSON, or YAML with CloudFormation's tags; nothing where it is neither."""
    if len(body) > _MOST_CHARACTERS:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        pass
    import yaml  # only here: Cloud Control's states are JSON

    class Loader(yaml.SafeLoader):
        """Takes what a tag such as `!Ref` makes for not known."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: UNKNOWN)
    try:
        return yaml.load(body, Loader)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError):
        return None


class _Inputs:
    """Writes CloudFormation's properties in Pulumi's names."""

    def __init__(self) -> None:
        self.left = _MOST_VALUES

    def of(self, value: Any, own: bool = False) -> Any:
        """Return a value in Pulumi's names; `own` for a map whose keys stay."""
        self.left -= 1
        if self.left < 0:
            return UNKNOWN
        if isinstance(value, Mapping):
            if len(value) == 1 and re.match(r"Ref$|Condition$|Fn::", text(next(iter(value)))):
                return UNKNOWN
            return {
                key if own else key[:1].lower() + key[1:]: self.of(item, key in _OWN_KEYS and isinstance(item, Mapping))
                for key, item in value.items()
                if isinstance(key, str)
            }
        return [self.of(item) for item in value] if is_list(value) else value


def _moved(pool: PoolFacts, path: str) -> PoolFacts:
    """Tell a pool's paths as the resource that holds it has them."""

    def place(name: str) -> str:
        return f"{path}.{re.sub(r'(^|[.])([a-z])', lambda match: match[1] + match[2].upper(), name)}"

    def sentence(words: str) -> str:
        first, blank, rest = words.partition(" ")
        return f"{place(first)}{blank}{rest}"

    taint = re.sub(r"(?<=[{ ])(key|value|effect)(?=:)", lambda match: match[0].capitalize(), pool.missing_taint.text)
    return replace(relocated(pool, place, sentence), missing_taint=MissingTaint(taint))
