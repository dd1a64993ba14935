"""A CloudFormation template, JSON or YAML, by hand or from `cdk synth`.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html. What an intrinsic function makes
is known where the template decides it; what it refers to joins resources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.base.bounded_yaml import Value, parse_yaml
from gpupools.base.errors import Path, shown
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents import kubernetes
from gpupools.policies.documents.document import Document, Resource, bounded
from gpupools.policies.documents.text import Text
from gpupools.providers.aws import cloudformation
from gpupools.read.inputs import is_list, mapping

FORM = "CloudFormation template"


def recognises(data: Any) -> bool:
    """Say whether this is such a template."""
    if not isinstance(data, dict) or "apiVersion" in data:
        return False
    resources = data.get("Resources")
    typed = isinstance(resources, dict) and any("Type" in mapping(one) for one in resources.values())
    return typed or cloudformation.is_loop(resources) or "AWSTemplateFormatVersion" in data


def read(text: Text) -> Document:
    """Read every resource.

    Raises:
        Rejected: It is no YAML.
    """
    value = text.values[0] if text.is_json else parse_yaml(text.text, tagged=_function, unique=True)[0]
    total = len(mapping(mapping(value.data).get("Resources")))
    return Document(FORM, *bounded(_resources(value, text), total))


def _function(tag: str, value: Any) -> Any:
    """Write the short form of a function as its long one: `!Ref x` is `{Ref: x}`."""
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


def _resources(value: Value, text: Text) -> Iterator[Resource]:
    for macro in cloudformation.macros(value.data):
        yield Resource(
            f"Transform {macro}", "cloudformation:Transform", {}, opaque=f"the macro {shown(macro)} writes it anew"
        )
    resources = mapping(value.data).get("Resources")
    known = cloudformation.known_of(value.data)
    for name, one in cloudformation.unrolled(resources, known):
        kind = mapping(one).get("Type")
        line = value.lines.get(("Resources", name)) or text.line_of(name)
        if not isinstance(kind, str):
            yield Resource(name, "cloudformation:Resource", {}, line=line, opaque="a macro writes it")
            continue
        properties = mapping(one).get("Properties")
        if kind in _MANIFESTS:
            yield from _manifests(name, kind, mapping(properties), line)
            continue
        token = cloudformation.token(kind)
        given = properties if properties is not None else {}
        made = cloudformation.in_pulumis_names(given, known, texts=token is None)
        yield Resource(
            address=name,
            type=token or f"cloudformation:{kind}",
            inputs=made if isinstance(made, dict) else {},
            line=line,
            lines=_lines(value.lines, name),
            refers=dict(_places(properties, "")),
            depends=tuple(_listed(mapping(one).get("DependsOn"))),
            spelled=_spelled,
            opaque="a macro writes it"
            if cloudformation.is_made(one)
            else "a module, whose resources are not in this template"
            if kind.endswith(cloudformation.MODULE)
            else "its properties are what a function makes"
            if made is UNKNOWN
            else "",
        )


_OF_SEVERAL = ("MixedInstancesPolicy", "LaunchTemplateConfigs", "SpotFleetRequestConfigData")
"""Properties that may name a launch template in each of several places."""


def _places(value: Any, at: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what each property refers to, by its path, and what each place inside refers to that may have its own."""
    for key, item in mapping(value).items():
        path = f"{at}.{_small(key)}" if at else _small(key)
        yield path, tuple(_refers(item))
        if at or key in _OF_SEVERAL:
            yield from _places(item, path)
            for index, one in enumerate(item if is_list(item) else ()):
                yield from _places(one, f"{path}[{index}]")


def _listed(value: Any) -> list[str]:
    return [one for one in (value if is_list(value) else [value]) if isinstance(one, str)]


def _small(key: str) -> str:
    return key[:1].lower() + key[1:]


def _lines(lines: Mapping[Path, int], name: str) -> dict[Path, int]:
    """Return the lines of a resource's properties by Pulumi's names."""
    return {
        tuple(_small(step) if isinstance(step, str) else step for step in path[3:]): line
        for path, line in lines.items()
        if path[:3] == ("Resources", name, "Properties")
    }


_NAMES = re.compile(r"(^|[.])([a-z])")


def _spelled(sentence: str) -> str:
    """Write paths with CloudFormation's capital letters."""
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
    """Say whether a word is one of the path it looks like: `taints` is also a word."""
    before = match.string[: match.start()]
    return match[1] != "taints" or before.endswith((" to ", "found ", " in ", "verified: ")) or "[" in match[1]


def _refers(value: Any) -> Iterator[str]:
    """Yield the logical names that a property is made from."""
    inside = [value]
    while inside:
        one = inside.pop()
        if isinstance(one, Mapping):
            for key, item in one.items():
                if key == "Ref" and isinstance(item, str):
                    yield item
                elif key == "Fn::GetAtt":
                    first = item if isinstance(item, str) else item[0] if is_list(item) and item else ""
                    yield str(first).partition(".")[0]
                elif key == "Fn::Sub":
                    sentence = item if isinstance(item, str) else item[0] if is_list(item) and item else ""
                    yield from re.findall(r"\$\{([A-Za-z0-9]+)", str(sentence))
                inside.append(item)
        elif is_list(one):
            inside += one


_MANIFESTS = ("Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart")
"""What CDK makes of `addManifest` and `addHelmChart`.

https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.aws_eks-readme.html
"""


def _manifests(name: str, kind: str, properties: Mapping[str, Any], line: int | None) -> Iterator[Resource]:
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
        yield Resource(name, f"cloudformation:{kind}", {}, line=line, opaque="its Manifest is what a function makes")
    else:
        for one in body if isinstance(body, list) else [body]:
            for found in kubernetes.objects(Value(one, line)):
                yield Resource(f"{name}/{found.address}", found.type, found.inputs, line=line)


def _text_of(given: Any) -> Any:
    """Return a text that functions put together, with a placeholder for each part that is not here."""
    if not isinstance(given, Mapping) or len(given) != 1:
        return given
    [(function, value)] = given.items()
    if function == "Fn::Sub":
        return value[0] if is_list(value) and value else value
    if function == "Fn::Join" and is_list(value) and len(value) == 2 and is_list(value[1]):
        return str(value[0]).join(one if isinstance(one, str) else "${part}" for one in value[1])
    return given


_CHART = {"Chart": "chart", "Version": "version", "Release": "name", "Namespace": "namespace"}
