"""Reads pools that are written in CloudFormation's form, inside resources that take any type of resource. Pure.

Cloud Control takes one resource as JSON, aws-native's extension resource as a map, a stack a whole template. Property
names begin with a capital letter there; what an intrinsic function makes is known where the template decides it. A
parameter has the value that the stack gives it, or else its default.
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
from gpupools.read.inputs import is_list, joined, mapping, number, relocated, text

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
_MOST_CONDITIONS = 50
"""That lead to each other."""
_CHARACTERS_PER_VALUE = 100
"""Characters that are put together while one value is looked at."""
_DEEPEST = 100
"""Of values inside each other, which are read by recursion."""
_MOST_STEPS = 10
"""Stacks inside each other."""
_OWN_KEYS = ("Labels", "Tags")
"""Maps whose keys are their author's."""

Read = Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]]
ReadTemplate = Callable[[str, Mapping[str, Any]], PoolFacts | None]


def token(kind: str) -> str | None:
    """Return Pulumi's type for one of CloudFormation's that can bring nodes."""
    return TYPES.get(kind) or _HOLDERS.get(kind)


@dataclass(frozen=True)
class Known:
    """What a template decides by itself, by name."""

    parameters: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]


NOTHING_KNOWN = Known({}, {}, {})


def known_of(template: Any, given: Any = None) -> Known:
    """Return what a template decides by itself.

    Args:
        template: Its parsed body.
        given: Values of its parameters, by name, or a list of `parameterKey` and `parameterValue`.
    """
    sections = (mapping(mapping(template).get(key)) for key in ("Mappings", "Conditions"))
    return Known(_parameters(template, given), *sections)


def in_pulumis_names(properties: Any, known: Known, *, texts: bool = False) -> Any:
    """Write a resource's properties in Pulumi's names; `UNKNOWN` for what functions make that nobody knows yet.

    Args:
        properties: As the template has them.
        known: Of its template.
        texts: Whether a text that is put together is wanted with `${…}` for what is not known of it.
    """
    return _Inputs(known, texts).of(properties)


def _parameters(template: Any, given: Any) -> dict[str, Any]:
    """Return the values of a template's parameters: those that are given, and the defaults of the others.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
    """
    given = _by_name(given)
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


_EACH = "Fn::ForEach::"
_MOST_TURNS = 1_000


def unrolled(resources: Any, known: Known) -> Iterator[tuple[str, Any]]:
    """Yield the resources of a template by name, those of a loop once for each turn that the template decides.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-foreach.html
    """
    for name, one in mapping(resources).items():
        turns = _turns(one, known) if str(name).startswith(_EACH) else None
        if turns is None:
            yield name, one
        for turn in turns or ():
            yield from unrolled(turn, known)


def is_loop(resources: Any) -> bool:
    """Say whether one of the resources of a template is a loop."""
    return any(str(name).startswith(_EACH) for name in mapping(resources))


def _turns(loop: Any, known: Known) -> list[Any] | None:
    if not is_list(loop) or len(loop) != 3 or not isinstance(loop[0], str):
        return None
    listed = _Inputs(known).of(loop[1])
    if not is_list(listed) or len(listed) > _MOST_TURNS or not all(isinstance(one, str) for one in listed):
        return None
    return [_turned(loop[2], loop[0], one) for one in listed]


def _turned(value: Any, name: str, one: str) -> Any:
    """Write the value of a loop's variable where it is meant."""
    if isinstance(value, str):
        return value.replace(f"${{{name}}}", one).replace(f"&{{{name}}}", one)
    if isinstance(value, Mapping):
        if value == {"Ref": name}:
            return one
        return {_turned(key, name, one): _turned(item, name, one) for key, item in value.items()}
    return [_turned(item, name, one) for item in value] if is_list(value) else value


MODULE = "::MODULE"
"""How the type of a module ends: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/modules.html."""


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
        return (
            next(_made(_template(properties), _known(type_token, properties)), "")
            if readable
            else "its template is neither JSON nor YAML"
        )
    name = "type" if type_token == EXTENSION else "typeName"
    if properties.get(name) is UNKNOWN:
        return f"{name} is not known yet"
    state = properties.get("desiredState")
    if type_token == CLOUD_CONTROL and state is not UNKNOWN and not isinstance(_parsed(text(state)), Mapping):
        return "desiredState is no JSON"
    return ""


def _made(template: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Yield what macros write of a template."""
    yield from (f"the macro {shown(macro)} writes its template anew" for macro in macros(template))
    for name, one in unrolled(template.get("Resources"), known):
        kind = text(mapping(one).get("Type"))
        if is_made(one) or not kind:
            yield f"a macro writes {shown(str(name))} of its template"
        elif kind.endswith(MODULE):
            yield f"{shown(str(name))} of its template is a module, whose resources lie elsewhere"


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
    known: Known | None = None
    for path, name, kind, given in _resources(type_token, properties):
        if kind in _HOLDERS:
            if known is None:
                known = _known(type_token, properties)
            made = given if given is UNKNOWN else in_pulumis_names(given, known)
            yield path, name, _HOLDERS[kind], {"templateBody": UNKNOWN} if made is UNKNOWN else mapping(made)


def _known(type_token: str, properties: Mapping[str, Any]) -> Known:
    if type_token not in STACKS:
        return NOTHING_KNOWN
    return known_of(_template(properties), _overridden(properties))


def _overridden(properties: Mapping[str, Any]) -> Any:
    """Return the parameters of a stack; what the groups of a StackSet's instances give in different ways is not known.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-cloudformation-stackset-stackinstances.html
    """
    given, groups = properties.get("parameters"), properties.get("stackInstancesGroup")
    listed: Any = groups if is_list(groups) else ()
    each = [_by_name(mapping(one).get("parameterOverrides")) for one in listed]
    if groups is UNKNOWN or UNKNOWN in each or given is UNKNOWN:
        return UNKNOWN
    made = dict(_by_name(given))
    for name in dict.fromkeys(name for one in each for name in one):
        values = [one.get(name, made.get(name, UNKNOWN)) for one in each]
        made[name] = values[0] if all(value == values[0] for value in values) else UNKNOWN
    return made


def _by_name(parameters: Any) -> Any:
    """Return parameters by name, however they are written."""
    if is_list(parameters):
        return {text(mapping(one).get("parameterKey")): mapping(one).get("parameterValue") for one in parameters}
    return parameters if parameters is UNKNOWN else mapping(parameters)


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
        known = _known(type_token, properties)
        left_out = _Inputs(known).left_out
        for name, one in unrolled(_template(properties).get("Resources"), known):
            if left_out(mapping(one).get("Condition")):
                continue
            path = f"templateBody.Resources.{name}.Properties"
            given = mapping(one).get("Properties")
            yield path, str(name), text(mapping(one).get("Type")), given


def _template(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    body = properties.get("templateBody")
    return mapping(body) or mapping(_parsed(text(body)))


@lru_cache(maxsize=16)  # the same body is asked for by each of the readers
def _parsed(body: str) -> Any:
    """Parse JSON, or YAML with CloudFormation's tags; nothing where it is neither, or nested too deeply to be read."""
    if len(body) > _MOST_CHARACTERS:
        return None
    parsed = _loaded(body)
    return None if _is_deep(parsed) else parsed


def _is_deep(value: Any) -> bool:
    """Say whether values are nested beyond the limit; what several aliases bring in is looked at once a level."""
    level = {id(value): value}
    for _ in range(_DEEPEST):
        inside = (one.values() if isinstance(one, Mapping) else one if is_list(one) else () for one in level.values())
        level = {id(item): item for items in inside for item in items if isinstance(item, Mapping) or is_list(item)}
        if not level:
            return False
    return True


def _loaded(body: str) -> Any:
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

    def __init__(self, known: Known, texts: bool = False) -> None:
        self.known, self.texts = known, texts
        self.left = _MOST_VALUES
        self.held: dict[str, bool | None] = {}

    def of(self, value: Any, own: bool = False) -> Any:
        """Return a value in Pulumi's names; `own` for a map whose keys stay."""
        self.left -= 1
        if self.left < 0:
            return UNKNOWN
        if isinstance(value, Mapping):
            if self.texts and not value.keys().isdisjoint(_OF_TEXTS):
                return self.script(value)
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
        if not is_list(value):
            return value
        made = ((item, self.of(item)) for item in value)
        return [one for item, one in made if one is not None or item is None]  # without what `AWS::NoValue` stands for

    def made(self, function: Mapping[str, Any]) -> Any:
        """Return what a function makes, where the template decides it.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
        """
        ((key, inner),) = function.items()
        if key == "Ref":
            return None if inner == "AWS::NoValue" else self.known.parameters.get(text(inner), UNKNOWN)
        if key == "Fn::Sub":
            filled = self.filled(inner)
            return UNKNOWN if "${" in filled or not filled else filled
        if key == "Fn::If" and is_list(inner) and len(inner) == 3:
            holds = self.holds(inner[0])
            return UNKNOWN if holds is None else self.of(inner[1 if holds else 2])
        given = [self.of(one) for one in inner] if is_list(inner) else []
        if key == "Fn::FindInMap" and len(given) >= 3:
            row = mapping(mapping(self.known.mappings.get(text(given[0]))).get(str(given[1])))
            return row.get(text(given[2]), UNKNOWN)
        if key == "Fn::Join" and len(given) == 2 and is_list(given[1]):
            return self.joined(text(given[0]), given[1])
        if key == "Fn::Split" and len(given) == 2 and text(given[0]) and isinstance(given[1], str):
            return given[1].split(given[0])
        if key == "Fn::Select" and len(given) == 2 and is_list(given[1]):
            place = number(given[0])
            return given[1][place] if place is not None and 0 <= place < len(given[1]) else UNKNOWN
        return UNKNOWN

    def joined(self, sign: str, listed: Any) -> Any:
        """Return the parts of a text put together."""
        if not all(isinstance(one, str) for one in listed):
            return UNKNOWN
        length = sum(map(len, listed)) + len(sign) * len(listed)
        self.left -= length // _CHARACTERS_PER_VALUE
        return sign.join(listed) if self.left >= 0 else UNKNOWN

    def holds(self, condition: Any, depth: int = 0) -> bool | None:
        """Say whether a condition holds, by its name or as a function; None where that is not known yet."""
        self.left -= 1
        if self.left < 0 or depth > _MOST_CONDITIONS:
            return None
        if isinstance(condition, str):
            if condition not in self.held:
                self.held[condition] = None  # those that lead round in a circle end here
                self.held[condition] = self.holds(self.known.conditions.get(condition), depth + 1)
            return self.held[condition]
        if not isinstance(condition, Mapping) or len(condition) != 1:
            return None
        ((key, inner),) = condition.items()
        if key == "Condition":
            return self.holds(text(inner), depth + 1)
        listed = inner if is_list(inner) else []
        if key == "Fn::Equals" and len(listed) == 2:
            one, other = map(self.of, listed)
            return None if UNKNOWN in (one, other) else _same(one) == _same(other)
        said = [self.holds(one, depth + 1) for one in listed] if key in ("Fn::And", "Fn::Or", "Fn::Not") else [None]
        if key == "Fn::Not":
            return None if said[:1] in ([], [None]) else not said[0]
        decides = key == "Fn::Or"
        return decides if decides in said else None if None in said else not decides

    def left_out(self, condition: Any) -> bool:
        """Say whether a resource with this condition is surely not made."""
        return isinstance(condition, str) and self.holds(condition) is False

    def filled(self, given: Any) -> str:
        """Write values of parameters, and of what stands beside it, into a text; what else is to be filled in stays."""
        sentence, beside = (given[0], mapping(given[1])) if is_list(given) and len(given) == 2 else (given, {})

        def value(match: re.Match[str]) -> str:
            known = self.of(beside[match[1]]) if match[1] in beside else self.known.parameters.get(match[1])
            filled = str(known) if isinstance(known, str | int) and self.left >= 0 else match[0]
            self.left -= len(filled) // _CHARACTERS_PER_VALUE
            return filled

        return re.sub(r"\$\{(\w+)\}", value, text(sentence))

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
            beside = is_list(inner) and len(inner) == 2
            return self.filled(inner if beside else body) if isinstance(body, str) else self.script(body)
        if key == "Fn::If" and is_list(inner) and len(inner) == 3 and (holds := self.holds(inner[0])) is not None:
            return self.script(inner[1 if holds else 2])
        if key == "Fn::Join" and is_list(inner) and len(inner) == 2 and is_list(inner[1]):
            parts = [self.script(one) if _is_text(one) else self.of(one) for one in inner[1]]
            return text(inner[0]).join(one if isinstance(one, str) else "${…}" for one in parts)
        return self.known.parameters.get(text(inner), UNKNOWN) if key == "Ref" else UNKNOWN


_OF_TEXTS = frozenset({"Fn::Base64", "Fn::Join", "Fn::Sub"})


def _is_text(value: Any) -> bool:
    return isinstance(value, Mapping) and not value.keys().isdisjoint({*_OF_TEXTS, "Fn::If"})


def _same(value: Any) -> Any:
    """Return a value as conditions compare it: what a parameter has is text."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def _moved(pool: PoolFacts, path: str) -> PoolFacts:
    """Tell a pool's paths as the resource that holds it has them."""

    def place(name: str) -> str:
        return f"{path}.{re.sub(r'(^|[.])([a-z])', lambda match: match[1] + match[2].upper(), name)}"

    def sentence(words: str) -> str:
        first, blank, rest = words.partition(" ")
        return f"{place(first)}{blank}{rest}"

    taint = re.sub(r"(?<=[{ ])(key|value|effect)(?=:)", lambda match: match[0].capitalize(), pool.missing_taint.text)
    return replace(relocated(pool, place, sentence), missing_taint=MissingTaint(taint))
