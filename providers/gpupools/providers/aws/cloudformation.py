"""Reads pools that are written in CloudFormation's form, inside resources that take any type of resource. Pure.

Cloud Control takes one resource as JSON, aws-native's extension resource as a map, a stack a whole template. Property
names begin with a capital letter there; what an intrinsic function makes is not known, but for a parameter: it has the
value that the stack gives it, or else its default.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gpupools.base.errors import shown
from gpupools.planned.pool_facts import UNKNOWN, MissingTaint, PoolFacts, Reference
from gpupools.read.inputs import is_list, joined, mapping, relocated, text

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
_MOST_STEPS = 10
"""Stacks inside each other."""
_OWN_KEYS = ("Labels", "Tags")
"""Maps whose keys are their author's."""

Read = Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]]
ReadTemplate = Callable[[str, Mapping[str, Any]], PoolFacts | None]


def token(kind: str) -> str | None:
    """Return Pulumi's type for one of CloudFormation's that can bring nodes."""
    return TYPES.get(kind) or _HOLDERS.get(kind)


def in_pulumis_names(properties: Any, known: Mapping[str, Any]) -> Any:
    """Write a resource's properties in Pulumi's names; `UNKNOWN` for what functions make.

    Args:
        properties: As the template has them.
        known: What `parameters` returned.
    """
    return _Inputs(known).of(properties)


def parameters(template: Any, given: Any = None) -> dict[str, Any]:
    """Return the values of a template's parameters: those that are given, and the defaults of the others.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html

    Args:
        template: Its parsed body.
        given: By name, or a list of `parameterKey` and `parameterValue`.
    """
    if is_list(given):
        given = {text(mapping(one).get("parameterKey")): mapping(one).get("parameterValue") for one in given}
    found: dict[str, Any] = {}
    for name, one in mapping(mapping(template).get("Parameters")).items():
        kind = text(mapping(one).get("Type"))
        value = UNKNOWN if given is UNKNOWN else mapping(given).get(name, mapping(one).get("Default"))
        if value is None or kind.startswith("AWS::SSM::"):
            continue  # given at deployment, or the name of what lies in another store
        lists = kind == "CommaDelimitedList" or kind.startswith("List<")
        found[name] = [part.strip() for part in value.split(",")] if lists and isinstance(value, str) else value
    return found


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/transform-reference.html.
_INCLUDE = "AWS::Include"


def macros(template: Any) -> Iterator[str]:
    """Yield the macros of a whole template that may write any resource; those of AWS itself make no nodes."""
    given = mapping(template).get("Transform")
    listed: Any = given if is_list(given) else [given]
    for one in listed:
        name = one if isinstance(one, str) else str(mapping(one).get("Name", ""))
        if name and (not name.startswith("AWS::") or name == _INCLUDE):
            yield name


def is_made(value: Any) -> bool:
    """Say whether a function writes a map, or what stands beside it: `Fn::Transform` changes all of a map.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-transform.html
    """
    return any(text(key).startswith("Fn::") for key in mapping(value))


def unread(type_token: str, properties: Mapping[str, Any]) -> str:
    """Say why a resource of one of `TOKENS` cannot be read; empty where it can, and for any other."""
    return _unread(type_token, properties, 0)


def _unread(type_token: str, properties: Mapping[str, Any], depth: int) -> str:
    if type_token not in TOKENS:
        return ""
    why = _closed(type_token, properties)
    if why or depth > _MOST_STEPS:
        return why or "it holds more stacks inside each other than are looked through"
    held = ((path, _unread(token, inputs, depth + 1)) for path, _, token, inputs in _stacks(type_token, properties))
    return next((f"{path}: {closed}" for path, closed in held if closed), "")


def _closed(type_token: str, properties: Mapping[str, Any]) -> str:
    if type_token in STACKS:
        body = properties.get("templateBody")
        if body is UNKNOWN or properties.get("templateUrl") is UNKNOWN:
            return "its template is not known yet"
        if body is None:
            return "its template is not at hand"
        readable = isinstance(mapping(body) or _parsed(text(body)), Mapping)
        return next(_made(_template(properties)), "") if readable else "its template is neither JSON nor YAML"
    name = "type" if type_token == EXTENSION else "typeName"
    if properties.get(name) is UNKNOWN:
        return f"{name} is not known yet"
    state = properties.get("desiredState")
    if type_token == CLOUD_CONTROL and state is not UNKNOWN and not isinstance(_parsed(text(state)), Mapping):
        return "desiredState is no JSON"
    return ""


def _made(template: Mapping[str, Any]) -> Iterator[str]:
    """Yield what macros write of a template."""
    yield from (f"the macro {shown(macro)} writes its template anew" for macro in macros(template))
    for name, one in mapping(template.get("Resources")).items():
        if is_made(one) or not text(mapping(one).get("Type")):
            yield f"a macro writes {shown(str(name))} of its template"


def held_types(type_token: str, properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of what a resource of one of `TOKENS` holds and `read_pools` does not read."""
    return _held_types(type_token, properties, 0)


def _held_types(type_token: str, properties: Mapping[str, Any], depth: int) -> Iterator[str]:
    if type_token in TOKENS and depth <= _MOST_STEPS:
        for _, _, kind, _ in _resources(type_token, properties):
            if kind not in TYPES:
                yield f"cloudformation:{kind}"
        for _, _, token, inputs in _stacks(type_token, properties):
            yield from _held_types(token, inputs, depth + 1)


def _stacks(type_token: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield path, name, Pulumi's type and inputs of each stack that a resource holds."""
    known: Mapping[str, Any] | None = None
    for path, name, kind, given in _resources(type_token, properties):
        if kind in _HOLDERS:
            if known is None:
                known = _known(type_token, properties)
            made = given if given is UNKNOWN else in_pulumis_names(given, known)
            yield path, name, _HOLDERS[kind], {"templateBody": UNKNOWN} if made is UNKNOWN else mapping(made)


def _known(type_token: str, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return parameters(_template(properties), properties.get("parameters")) if type_token in STACKS else {}


def read_pools(
    type_token: str, properties: Mapping[str, Any], read: Read, template_of: ReadTemplate
) -> tuple[PoolFacts, ...]:
    """Read the pools inside a resource of one of `TOKENS`, and inside the stacks that it holds.

    Args:
        type_token: Pulumi type of the resource.
        properties: Its inputs in wire form.
        read: Reads the pools of a resource of a type of its own.
        template_of: Reads what such a resource says of the pools that refer to it.
    """
    return tuple(_pools(type_token, properties, read, template_of, 0))


def _pools(
    type_token: str, properties: Mapping[str, Any], read: Read, template_of: ReadTemplate, depth: int
) -> Iterator[PoolFacts]:
    yield from _own_pools(type_token, properties, read, template_of)
    for path, name, token, inputs in _stacks(type_token, properties) if depth <= _MOST_STEPS else ():
        for pool in _pools(token, inputs, read, template_of, depth + 1):
            yield replace(_moved(pool, path), pool=" ".join(filter(None, (name, pool.pool))))


def _own_pools(
    type_token: str, properties: Mapping[str, Any], read: Read, template_of: ReadTemplate
) -> tuple[PoolFacts, ...]:
    found: list[PoolFacts] = []
    known = _known(type_token, properties)
    resources = {}
    for path, name, kind, given in _resources(type_token, properties):
        if (token := TYPES.get(kind)) is not None:
            made = given if given is UNKNOWN else in_pulumis_names(given, known)
            resources[name] = _Resource(path, token, UNKNOWN if made is UNKNOWN else given, mapping(made))
    names = {
        own: name
        for name, each in reversed(resources.items())
        if (own := text(each.inputs.get("launchTemplateName")) or text(each.inputs.get("launchConfigurationName")))
    }
    used: set[str] = set()
    told: set[str] = set()
    for name, each in resources.items():
        if each.given is UNKNOWN:
            found.append(PoolFacts("aws", (), None, (), unknown=(each.path,), where=each.path, pool=name))
            continue
        for pool in read(each.token, each.inputs):
            its: dict[str, PoolFacts] = {}
            for reference in pool.elsewhere:
                named = _named(reference, each.given, resources, names)
                template = template_of(resources[named].token, resources[named].inputs) if named else None
                if named and template is not None:
                    used.add(named)
                    its[named] = _moved(template, resources[named].path)
                    pool = joined(pool, replace(template, weaknesses=(), customised=()), reference.property)
            if pool.in_cluster is not None or pool.evidence or pool.elsewhere:
                once = [template for named, template in its.items() if pool.has_gpus and named not in told]
                told |= its.keys() if pool.has_gpus else set()
                pool = replace(_moved(pool, each.path), pool=name)
                weak = (*pool.weaknesses, *(one for template in once for one in template.weaknesses))
                custom = (*pool.customised, *(one for template in once for one in template.customised))
                found.append(replace(pool, weaknesses=weak, customised=custom))
    # A template of the stack's own groups is judged with each of them; how it is hardened is told with the first.
    return tuple(pool for pool in found if pool.pool not in used)


@dataclass(frozen=True)
class _Resource:
    """A resource of a stack or of Cloud Control."""

    path: str
    token: str
    """Pulumi's type."""
    given: Any
    """Its properties as they were written."""
    inputs: Mapping[str, Any]
    """The same in Pulumi's names."""


def _named(
    reference: Reference, given: Any, resources: Mapping[str, _Resource], names: Mapping[str, str]
) -> str | None:
    """Return the resource of the same stack that a reference means, by what it names or by the name it gives."""
    value = given
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", reference.property):
        if index:
            value = value[int(index)] if is_list(value) else None
        else:
            value = mapping(value).get(key[:1].upper() + key[1:])
    for name in (*_words(value), names.get(reference.id, "")):
        if name in resources and resources[name].token in reference.types:
            return name
    return None


def _words(value: Any) -> Iterator[str]:
    """Yield what the functions inside a value refer to: `Ref`, `Fn::GetAtt` in both forms, and `Fn::Sub`."""
    if is_list(value):
        for one in value:
            yield from _words(one)
    for key, inner in mapping(value).items():
        if key == "Ref":
            yield text(inner)
        elif key == "Fn::GetAtt":
            yield text(inner[0]) if is_list(inner) and inner else text(inner).partition(".")[0]
        elif key == "Fn::Sub":
            body = inner[0] if is_list(inner) and inner else inner
            yield from (name.partition(".")[0] for name in re.findall(r"\$\{([^!}]+)\}", text(body)))
        else:
            yield from _words(inner)


def _resources(type_token: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
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


def _template(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    body = properties.get("templateBody")
    return mapping(body) or mapping(_parsed(text(body)))


@lru_cache(maxsize=16)  # the same body is asked for by each of the readers
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
        """Takes `!Ref x` for `{Ref: x}`, as CloudFormation does."""

    def function(loader: Any, suffix: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            inner: Any = loader.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            inner = loader.construct_sequence(node, deep=True)
        else:
            inner = loader.construct_mapping(node, deep=True)
        return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": inner}

    Loader.add_multi_constructor("!", function)
    try:
        return yaml.load(body, Loader)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError):
        return None


class _Inputs:
    """Writes CloudFormation's properties in Pulumi's names."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known
        self.left = _MOST_VALUES

    def of(self, value: Any, own: bool = False) -> Any:
        """Return a value in Pulumi's names; `own` for a map whose keys stay."""
        self.left -= 1
        if self.left < 0:
            return UNKNOWN
        if isinstance(value, Mapping):
            if is_made(value) or (len(value) == 1 and next(iter(value)) in ("Ref", "Condition")):
                return self.made(value) if len(value) == 1 else UNKNOWN
            return {
                key if own else key[:1].lower() + key[1:]: self.script(item)
                if key == "UserData"
                else item
                if key == "TemplateBody" and "Resources" in mapping(item)
                else self.of(item, key in _OWN_KEYS and isinstance(item, Mapping))
                for key, item in value.items()
                if isinstance(key, str)
            }
        return [self.of(item) for item in value] if is_list(value) else value

    def made(self, function: Mapping[str, Any]) -> Any:
        """Return what a function makes, where parameters decide it."""
        ((key, inner),) = function.items()
        if key == "Ref":
            return self.known.get(text(inner), UNKNOWN)
        if key == "Fn::Sub" and isinstance(inner, str):
            filled = self.filled(inner)
            return UNKNOWN if "${" in filled else filled
        return UNKNOWN

    def filled(self, sentence: str) -> str:
        """Write the values of parameters into a text; what else is to be filled in stays."""

        def value(match: re.Match[str]) -> str:
            known = self.known.get(match[1])
            return str(known) if isinstance(known, str | int) else match[0]

        return re.sub(r"\$\{(\w+)\}", value, sentence)

    def script(self, value: Any) -> Any:
        """Return user data as the template has it, with `${…}` where another resource fills in; else `UNKNOWN`."""
        if isinstance(value, str) or value is None:
            return value
        if not isinstance(value, Mapping) or len(value) != 1:
            return UNKNOWN
        ((key, inner),) = value.items()
        if key == "Fn::Base64":
            return self.script(inner)
        if key == "Fn::Sub":
            body = inner[0] if is_list(inner) and inner else inner
            return self.filled(body) if isinstance(body, str) else self.script(body)
        if key == "Fn::Join" and is_list(inner) and len(inner) == 2 and is_list(inner[1]):
            parts = [one if isinstance(one, str) else self.of(one) for one in inner[1]]
            return text(inner[0]).join(one if isinstance(one, str) else "${…}" for one in parts)
        return self.known.get(text(inner), UNKNOWN) if key == "Ref" else UNKNOWN


def _moved(pool: PoolFacts, path: str) -> PoolFacts:
    """Tell a pool's paths as the resource that holds it has them."""

    def place(name: str) -> str:
        return f"{path}.{re.sub(r'(^|[.])([a-z])', lambda match: match[1] + match[2].upper(), name)}"

    def sentence(words: str) -> str:
        first, blank, rest = words.partition(" ")
        return f"{place(first)}{blank}{rest}"

    taint = re.sub(r"(?<=[{ ])(key|value|effect)(?=:)", lambda match: match[0].capitalize(), pool.missing_taint.text)
    return replace(relocated(pool, place, sentence), missing_taint=MissingTaint(taint))
