"""A CloudFormation template, JSON or YAML, by hand or from `cdk synth`.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html. Literal values are read; what an
intrinsic function returns is not known. `Ref` and `Fn::GetAtt` join resources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.audit import cloudformation_resources, kubernetes
from gpupools.audit.document import Document, Resource
from gpupools.common.bounded_yaml import Value, parse_yaml
from gpupools.common.errors import Path, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import is_list, mapping

FORM = "CloudFormation template"


def recognises(data: Any) -> bool:
    """Return whether this is a CloudFormation template."""
    if not isinstance(data, dict) or "apiVersion" in data:
        return False
    resources = data.get("Resources")
    typed = isinstance(resources, dict) and any(
        "Type" in mapping(one) or cloudformation_resources.is_loop(str(name)) for name, one in resources.items()
    )
    return typed or "AWSTemplateFormatVersion" in data


def read(text: Text) -> Document:
    """Read every resource.

    Raises:
        Rejected: It is no YAML.
    """
    value = (
        text.values[0]
        if text.is_json
        else parse_yaml(text.text, tagged=cloudformation_resources.long_form, unique=True)[0]
    )
    return Document(FORM, tuple(resources(value, text)))


def resources(value: Value, text: Text) -> Iterator[Resource]:
    """Yield the resources of a template."""
    for macro in cloudformation_resources.macros(value.data):
        yield Resource(
            f"Transform {macro}", "cloudformation:Transform", {}, opaque=f"the macro {shown(macro)} generates it"
        )
    lines = _lines(value.lines)
    for name, one in mapping(mapping(value.data).get("Resources")).items():
        line = value.lines.get(("Resources", name)) or text.line_of(name)
        kind = mapping(one).get("Type")
        opaque = cloudformation_resources.unread_resource(name, one)
        if opaque or not isinstance(kind, str):
            yield Resource(name, f"cloudformation:{kind or 'Resource'}", {}, line=line, opaque=opaque)
            continue
        properties = mapping(one).get("Properties")
        if kind in _MANIFESTS:
            yield from _manifests(name, kind, mapping(properties), line)
            continue
        made = cloudformation_resources.to_pulumi_names(properties if properties is not None else {})
        yield Resource(
            address=name,
            type=cloudformation_resources.pulumi_type(kind) or f"cloudformation:{kind}",
            inputs=made if isinstance(made, dict) else {},
            line=line,
            lines=lines.get(name, {}),
            refers=dict(_places(properties, "")),
            depends=tuple(_list_of_names(mapping(one).get("DependsOn"))),
            spelled=_in_cloudformation_case,
            opaque="its properties are not literal values" if made is UNKNOWN else "",
        )


_OF_SEVERAL = ("MixedInstancesPolicy", "LaunchTemplateConfigs", "SpotFleetRequestConfigData")
"""Properties that may refer to a launch template in several places."""


def _places(value: Any, at: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of each property with the names that it refers to, also inside properties of `_OF_SEVERAL`."""
    for key, item in mapping(value).items():
        path = f"{at}.{_lower_first(key)}" if at else _lower_first(key)
        yield path, tuple(cloudformation_resources.referenced_names(item))
        if at or key in _OF_SEVERAL:
            yield from _places(item, path)
            for index, one in enumerate(item if is_list(item) else ()):
                yield from _places(one, f"{path}[{index}]")


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


_MANIFESTS = ("Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart")
"""Resources that CDK creates for `addManifest` and `addHelmChart`.

https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.aws_eks-readme.html
"""


def _manifests(name: str, kind: str, properties: JsonObject, line: int | None) -> Iterator[Resource]:
    key = "Manifest" if kind == _MANIFESTS[0] else "Values"
    given = _text_of(properties.get(key, "{}"))
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
        for one in body if isinstance(body, list) else [body]:
            for found in kubernetes.objects(Value(one, line)):
                yield Resource(f"{name}/{found.address}", found.type, found.inputs, line=line)


def _text_of(given: Any) -> Any:
    """Return the text of a manifest; CDK joins it with `Fn::Join` from literals and references, here placeholders."""
    joined: Any = mapping(given).get("Fn::Join")
    if is_list(joined) and len(joined) == 2 and is_list(joined[1]):
        return str(joined[0]).join(one if isinstance(one, str) else "${part}" for one in joined[1])
    return given


_CHART = {"Chart": "chart", "Version": "version", "Release": "name", "Namespace": "namespace"}
