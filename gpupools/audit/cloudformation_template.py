"""A CloudFormation template, JSON or YAML, by hand or from `cdk synth`, as a file or inside a resource.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html. Literal values are read; what an
intrinsic function returns is `UNKNOWN`. `Ref` and `Fn::GetAtt` join resources. A change set holds the evaluated values.
A stack holds a whole template, Cloud Control one resource as JSON, aws-native's extension resource one as a map.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gpupools.audit import kubernetes
from gpupools.audit.document import Document, Resource
from gpupools.audit.held_resources import reader_of_held
from gpupools.common.bounded_yaml import MAX_DEPTH, Value, parse_yaml
from gpupools.common.errors import Path, Rejected, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.structured_text import Text, parsed_json
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import is_list, mapping, text

FORM = "CloudFormation template"

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

_HOLDERS = {
    "AWS::CloudFormation::Stack": "aws-native:cloudformation:Stack",
    "AWS::CloudFormation::StackSet": "aws-native:cloudformation:StackSet",
}
"""The same of the resources that hold a template."""
_PULUMI_TYPES = TYPES | _HOLDERS


def recognises(data: Any) -> bool:
    """Return whether this is a CloudFormation template."""
    if not isinstance(data, dict) or "apiVersion" in data:
        return False
    found = data.get("Resources")
    typed = isinstance(found, dict) and any(
        "Type" in mapping(resource) or str(name).startswith(_LOOP) for name, resource in found.items()
    )
    return typed or "AWSTemplateFormatVersion" in data


def read(text: Text) -> Document:
    """Read every resource.

    Raises:
        Rejected: It is no YAML.
    """
    value = text.values[0] if text.is_json else parse_yaml(text.text, tagged=_long_form, unique=True)[0]
    return Document(FORM, tuple(resources(value, text)))


def resources(value: Value, text: Text | None = None) -> Iterator[Resource]:
    """Yield the resources of a template; `text` is the file, where it is one."""
    for macro in _macros(value.data):
        yield Resource(
            f"Transform {macro}", "cloudformation:Transform", {}, opaque=f"the macro {shown(macro)} generates it"
        )
    lines, named = _lines(value.lines), mapping(mapping(value.data).get("Resources"))
    scripts = {name: json.dumps(init) for name, one in named.items() if (init := _init_of(one)) is not None}
    for name, one in named.items():
        line = value.lines.get(("Resources", name)) or (text.line_of(name) if text else None)
        kind = mapping(one).get("Type")
        opaque = unread_resource(name, one)
        if opaque or not isinstance(kind, str):
            yield Resource(name, f"cloudformation:{kind or 'Resource'}", {}, line=line, opaque=opaque)
            continue
        properties = mapping(one).get("Properties")
        if kind in _MANIFESTS:
            yield from _manifests(name, kind, mapping(properties), line)
            continue
        made = to_pulumi_names({} if properties is None else properties, scripts)
        is_open = made is UNKNOWN and kind in _PULUMI_TYPES
        yield Resource(
            address=name,
            type=_PULUMI_TYPES.get(kind) or f"cloudformation:{kind}",
            inputs=made if isinstance(made, dict) else {},
            line=line,
            lines=lines.get(name, {}),
            refers=dict(_places(properties, "")) if text is not None else {},
            depends=tuple(_list_of_names(mapping(one).get("DependsOn"))),
            spelled=_in_cloudformation_case,
            opaque="its properties are not literal values" if is_open else "",
        )


# --- values -----------------------------------------------------------------------------------------------------------

_OWN_KEYS = ("Labels", "Tags")
"""Maps with user-defined keys."""


def _init_of(resource: Any) -> Any:
    """Return what `cfn-init` does on the machine: the metadata that user data names by its resource.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-init.html
    """
    return mapping(mapping(resource).get("Metadata")).get(_INIT)


_INIT = "AWS::CloudFormation::Init"


def to_pulumi_names(value: Any, scripts: Mapping[str, str], own: bool = False, depth: int = 0) -> Any:
    """Return properties with Pulumi's names and `UNKNOWN` for values of functions.

    Args:
        value: The properties as the template has them.
        scripts: What `cfn-init` does, by the name of the resource that has it in its metadata.
        own: Whether the keys of this map are user-defined and stay.
        depth: How many maps and lists are around the value.
    """
    if isinstance(value, Mapping):
        if depth > MAX_DEPTH or _is_function(value):
            return _user_data(value.get("Fn::Base64"), scripts)
        return {
            key if own else _lower_first(key): item
            if key == "TemplateBody" and "Resources" in mapping(item)
            else to_pulumi_names(item, scripts, key in _OWN_KEYS and isinstance(item, Mapping), depth + 1)
            for key, item in value.items()
            if isinstance(key, str)
        }
    if is_list(value):
        return UNKNOWN if depth > MAX_DEPTH else [to_pulumi_names(item, scripts, depth=depth + 1) for item in value]
    return value


def _user_data(given: Any, scripts: Mapping[str, str]) -> Any:
    """Return user data with `${…}` for what functions insert; `UNKNOWN` unless it is literal, or a script.

    A script that runs `cfn-init` has what that does behind it.
    """
    inserted = _joined(given)
    inserted = mapping(given).get("Fn::Sub") if inserted is given else inserted
    script = text(inserted[0] if is_list(inserted) and inserted else inserted)
    literal = text(given) or (script if script.startswith("#!") else "")
    if "cfn-init" not in literal:
        return literal or UNKNOWN
    meant = [
        f"cfn-init {_INIT} {does}" for name, does in scripts.items() if name in literal and literal.startswith("#!")
    ]
    return "\n".join((literal, *meant)) if meant else UNKNOWN


def _joined(given: Any) -> Any:
    """Return the text that `Fn::Join` makes of literals and references, here placeholders; anything else as it is."""
    joined: Any = mapping(given).get("Fn::Join")
    if is_list(joined) and len(joined) == 2 and is_list(joined[1]):
        return str(joined[0]).join(one if isinstance(one, str) else "${part}" for one in joined[1])
    return given


def _is_function(value: Any) -> bool:
    """Return whether a function returns all or part of the map: `Fn::Transform` changes the map around it.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
    """
    keys = mapping(value).keys()
    return keys in ({"Ref"}, {"Condition"}) or any(text(key).startswith("Fn::") for key in keys)


def _long_form(tag: str, value: Any) -> Any:
    """Return the long form of a function that is written as a YAML tag: `!Ref x` is `{Ref: x}`."""
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


# --- what is not written out ------------------------------------------------------------------------------------------

# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/transform-reference.html.
_INCLUDE = "AWS::Include"


def _macros(template: Any) -> Iterator[str]:
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


def unread_resource(name: str, resource: Any) -> str:
    """Return why a resource of a template cannot be read; empty where it can.

    Args:
        name: Its key in `Resources`.
        resource: Its value.
    """
    kind = text(mapping(resource).get("Type"))
    if name.startswith(_LOOP):
        return "a loop (Fn::ForEach) is not evaluated"
    if not kind or _is_function(resource):
        return "a macro generates it"
    return "a module, whose resources are not in this template" if kind.endswith(_MODULE) else ""


# --- references and places --------------------------------------------------------------------------------------------

_OF_SEVERAL = ("MixedInstancesPolicy", "LaunchTemplateConfigs", "SpotFleetRequestConfigData")
"""Properties that may refer to a launch template in several places."""


def _places(value: Any, at: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of each property with the names that it refers to, also inside properties of `_OF_SEVERAL`."""
    for key, item in mapping(value).items():
        path = f"{at}.{_lower_first(key)}" if at else _lower_first(key)
        yield path, tuple(_referenced_names(item))
        if at or key in _OF_SEVERAL:
            yield from _places(item, path)
            for index, one in enumerate(item if is_list(item) else ()):
                yield from _places(one, f"{path}[{index}]")


def _referenced_names(value: Any) -> Iterator[str]:
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


def _list_of_names(value: Any) -> list[str]:
    return [one for one in (value if is_list(value) else [value]) if isinstance(one, str)]


def _lower_first(key: str) -> str:
    return key[:1].lower() + key[1:]


def _lines(lines: Mapping[Path, int]) -> dict[str, dict[Path, int]]:
    """Return the lines of each resource's properties by Pulumi's names, by the resource's name."""
    found: dict[str, dict[Path, int]] = {}
    for path, line in lines.items():
        if len(path) > 2 and path[0] == "Resources" and path[2] == "Properties":
            steps = tuple(_lower_first(step) if isinstance(step, str) else step for step in path[3:])
            found.setdefault(str(path[1]), {})[steps] = line
    return found


_NAMES = re.compile(r"(^|[.])([a-z])")


def _in_cloudformation_case(sentence: str) -> str:
    """Return a sentence whose paths have CloudFormation's capital letters."""
    known = "|".join(sorted(_FIRST, key=len, reverse=True))
    return re.sub(
        rf"(?<![\w./:-])((?:{known})(?:\[\d+\]|\.[A-Za-z]\w*)*)(?=[:;)\s,]|$)",
        lambda match: _NAMES.sub(lambda step: step[1] + step[2].upper(), match[1]) if _is_path(match) else match[1],
        sentence,
    )


_FIRST = (
    *("amiType", "capacityType", "iamInstanceProfile", "instanceType", "instanceTypes", "launchTemplate", "nodeRole"),
    *("launchTemplateConfigs", "launchTemplateData", "mixedInstancesPolicy", "remoteAccess", "scalingConfig", "taints"),
    *("releaseVersion", "spotFleetRequestConfigData", "templateBody", "userData"),
)


def _is_path(match: re.Match[str]) -> bool:
    """Return whether a match is a path: `taints` is also an ordinary word."""
    before = match.string[: match.start()]
    return match[1] != "taints" or before.endswith((" to ", "found ", " in ", "verified: ")) or "[" in match[1]


# --- CDK's manifests and charts ---------------------------------------------------------------------------------------

_MANIFESTS = ("Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart")
"""Resources that CDK creates for `addManifest` and `addHelmChart`.

https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.aws_eks-readme.html
"""
_CHART = {"Chart": "chart", "Version": "version", "Release": "name", "Namespace": "namespace"}


def _manifests(name: str, kind: str, properties: JsonObject, line: int | None) -> Iterator[Resource]:
    key = "Manifest" if kind == _MANIFESTS[0] else "Values"
    given = _joined(properties.get(key, "{}"))
    try:
        body = json.loads(given) if isinstance(given, str) else UNKNOWN
    except (ValueError, RecursionError):
        body = UNKNOWN
    if kind == _MANIFESTS[1]:
        chart = {small: properties[big] for big, small in _CHART.items() if isinstance(properties.get(big), str)}
        source = {"repositoryOpts": {"repo": properties["Repository"]}} if properties.get("Repository") else {}
        inputs = {**chart, **source, "values": body}
        yield Resource(name, "kubernetes:helm.sh/v3:Release", inputs, line=line)
    elif body is UNKNOWN:
        yield Resource(name, f"cloudformation:{kind}", {}, line=line, opaque="a function returns its Manifest")
    else:
        for load in body if isinstance(body, list) else [body]:
            for found in kubernetes.objects(Value(load, line)):
                yield Resource(f"{name}/{found.address}", found.type, found.inputs, line=line)


# --- templates and resources inside a resource ------------------------------------------------------------------------

_CLOUD_CONTROL = "aws:cloudcontrol/resource:Resource"
_EXTENSION = "aws-native:index:ExtensionResource"
_STACKS = tuple(
    f"{package}{name}"
    for name in ("Stack", "StackSet")
    for package in (f"aws:cloudformation/{name[:1].lower()}{name[1:]}:", "aws-native:cloudformation:")
)
_TOKENS = (_CLOUD_CONTROL, _EXTENSION, *_STACKS)


def _held(type_token: str, properties: JsonObject) -> Iterator[Resource]:
    if type_token in _TOKENS:
        why, path, template = (_stack if type_token in _STACKS else _one)(type_token, properties)
        if why:
            yield Resource("", "", {}, opaque=why)
        for resource in () if why else resources(Value(template)):
            yield replace(resource, address=f"{path}{resource.address}")


def _stack(_: str, properties: JsonObject) -> tuple[str, str, Any]:
    """Return why the template of a stack cannot be read, or else its path and the template."""
    body = properties.get("templateBody")
    if body is UNKNOWN or properties.get("templateUrl") is UNKNOWN:
        return "its template is not known yet", "", None
    template = mapping(body) or _parsed(text(body))
    why = "" if isinstance(template, Mapping) else "its template is neither JSON nor YAML"
    return "its template is not available" if body is None else why, "templateBody.Resources.", template


def _one(type_token: str, properties: JsonObject) -> tuple[str, str, Any]:
    """Return the same for a single resource, as a template of it alone."""
    name, path = ("type", "properties") if type_token == _EXTENSION else ("typeName", "desiredState")
    kind, given = properties.get(name), properties.get(path)
    if type_token == _CLOUD_CONTROL and given is not UNKNOWN:
        given = _parsed(text(given))
        if not isinstance(given, Mapping):
            return "desiredState is not JSON", "", None
    made = {"Fn::Late": ""} if given is UNKNOWN else given
    why = f"{name} is not known yet" if kind is UNKNOWN else ""
    return why, "", {"Resources": {path: {"Type": kind, "Properties": made}}}


@lru_cache(maxsize=16)  # the same body is asked for by each of the readers
def _parsed(body: str) -> Any:
    """Parse JSON, or YAML with CloudFormation's tags; return None where it is neither, or nested too deeply."""
    if (parsed := parsed_json(body)) is not None:
        return parsed
    try:
        documents = parse_yaml(body, tagged=_long_form)
    except Rejected:
        return None
    return documents[0].data if documents else None


READER = reader_of_held("aws", tuple(sorted(_TOKENS)), _held)
