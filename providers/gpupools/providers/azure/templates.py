"""Reads the AKS pools inside templates of Azure Resource Manager, which Bicep compiles to. Pure.

What an expression makes is known where the template decides it; a parameter has the value that the deployment gives it,
or else its default. Where a deployment gives the parameters, what its conditions leave out is left out.
https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax and, for Bicep's symbolic names,
https://learn.microsoft.com/azure/azure-resource-manager/templates/resource-declaration.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupools.planned.pool_facts import UNKNOWN, PoolFacts
from gpupools.providers.azure.arm import GENERIC, aks_kind
from gpupools.providers.azure.expressions import Loop, Scope, is_expression
from gpupools.read.inputs import at, flag, is_list, mapping, relocated, text

DEPLOYMENT = re.compile(
    r"azure-native(?:_resources_v\w+)?:resources(?:/v\w+)?:(?:Deployment(?:At\w+Scope|StackAt\w+)?|TemplateSpecVersion)"
    r"|azure:core/\w*[tT]emplateDeployment:\w*TemplateDeployment"
)
"""Type tokens of resources that hold a whole template."""

POOLS = {
    "microsoft.containerservice/managedclusters/agentpools": "azure-native:containerservice:AgentPool",
    "microsoft.containerservice/managedclusters": "azure-native:containerservice:ManagedCluster",
}
"""Pulumi's type by Azure's in small letters, of those that hold pools."""

_DEPLOYMENTS = "microsoft.resources/deployments"
_STACKS = "microsoft.resources/deploymentstacks"
_SPECS = "microsoft.resources/templatespecs/versions"
_HOLDERS = (_DEPLOYMENTS, _STACKS)
_BODY_IN = {
    _STACKS: "properties.template",
    # A version of a template spec is a template for later deployments, and so is what a policy deploys:
    # https://learn.microsoft.com/azure/azure-resource-manager/templates/template-specs,
    # https://learn.microsoft.com/azure/governance/policy/concepts/effect-deploy-if-not-exists.
    _SPECS: "properties.mainTemplate",
    **{
        f"microsoft.authorization/{kind}": "properties.policyRule.then.details.deployment.properties.template"
        for kind in ("policydefinitions", "policydefinitions/versions")
    },
}
"""Where those have a template that is not of this deployment."""
_BODIES = (
    "properties.template",
    "templateContent",
    "templateBody",
    "template",
    "mainTemplate",
    "properties.mainTemplate",
)
# A template has at most 4 MB: https://learn.microsoft.com/azure/azure-resource-manager/templates/best-practices.
_MOST_CHARACTERS = 4_000_000
_MOST_STEPS = 10


@dataclass(frozen=True)
class Part:
    """One resource of a template."""

    path: str
    name: str
    type: str
    """As it is written, that of a child with its parent's before it."""
    properties: Any
    """With `UNKNOWN` for what expressions make."""
    sku: Any = None
    """What names the machine of a scale set, beside its properties."""


Read = Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]]


def read_pools(properties: Mapping[str, Any], read: Read) -> tuple[PoolFacts, ...]:
    """Read the pools inside a deployment.

    Args:
        properties: Its inputs in wire form.
        read: Reads the pools of a resource of a type of its own.
    """
    path, template = _template(properties)
    found: list[PoolFacts] = []
    for part in parts(template, path, _given(properties)):
        token = POOLS.get(part.type.casefold())
        if token is None:
            continue
        inner = f"{part.path}.properties"
        if part.properties is UNKNOWN:
            found.append(PoolFacts("azure", (), None, (), unknown=(inner,), where=inner, pool=part.name))
            continue
        for pool in read(token, mapping(part.properties)):
            moved = relocated(pool, _under(inner), _under(inner))
            found.append(replace(moved, pool=" ".join(filter(None, (part.name, pool.pool)))))
    return tuple(found)


def _under(path: str) -> Callable[[str], str]:
    return lambda inner: f"{path}.{inner}"


def unread(type_token: str, properties: Mapping[str, Any]) -> str:
    """Say why a deployment cannot be read; empty where it can, and for any other resource."""
    if GENERIC.fullmatch(type_token):
        if properties.get("resourceType") is UNKNOWN:
            return "resourceType is not known yet"
        return "its template is not read in this form" if _generic_type(properties).casefold() in _HOLDERS else ""
    if not DEPLOYMENT.fullmatch(type_token):
        return ""
    path, template = _template(properties)
    if template is UNKNOWN:
        return f"{path} is not known yet"
    if not mapping(template):
        return f"its template is not at hand, or {path} is none"
    closed = ((part.path, why) for part in parts(template, path, _given(properties)) if (why := closed_part(part)))
    return next((f"{where}: {why}" for where, why in closed), "")


def held_types(type_token: str, properties: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of the resources of a deployment that are not read as pools, and that of a generic resource."""
    if GENERIC.fullmatch(type_token) and aks_kind(properties) is None:
        yield f"arm:{_generic_type(properties)}"
    path, template = _template(properties) if DEPLOYMENT.fullmatch(type_token) else ("", None)
    yield from (
        f"arm:{part.type}" for part in parts(template, path, _given(properties)) if part.type.casefold() not in POOLS
    )


def _generic_type(properties: Mapping[str, Any]) -> str:
    """Return Azure's type of a generic resource.

    https://www.pulumi.com/registry/packages/azure-native/api-docs/resources/resource/
    """
    space, above, own = (
        text(properties.get(key)).strip("/")
        for key in ("resourceProviderNamespace", "parentResourcePath", "resourceType")
    )
    return "/".join(filter(None, (space, *above.split("/")[::2], own)))


def closed_part(part: Part) -> str:
    """Say why a resource of a template cannot be read; empty where it can."""
    if part.type == _NOT_KNOWN:
        return "its type is not known yet"
    # A deployment, or a stack of them.
    lies_elsewhere = part.type.casefold() in _HOLDERS and not mapping(at(part.properties, "template"))
    return "its template lies elsewhere" if lies_elsewhere else ""


def _template(properties: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the path of a deployment's template and what stands there."""
    for path in _BODIES:
        body = at(properties, path)
        if body is UNKNOWN:
            return path, UNKNOWN
        if isinstance(body, str) and body:
            try:
                return path, json.loads(body) if len(body) <= _MOST_CHARACTERS else None
            except (ValueError, RecursionError):
                return path, None
        if body:
            return path, body
    return _BODIES[0], None


_PARAMETERS = ("properties.parameters", "parametersContent", "parametersBody", "parameters")


def _given(properties: Mapping[str, Any]) -> Any:
    """Return the parameters that a deployment gives its template; `UNKNOWN` where they are not known."""
    given = next((one for path in _PARAMETERS if (one := at(properties, path)) is not None), None)
    if not isinstance(given, str):
        return _given_by(properties if given is None else {}, given)
    try:
        body = json.loads(given) if 0 < len(given) <= _MOST_CHARACTERS else {}
    except (ValueError, RecursionError):
        return UNKNOWN
    return at(body, "parameters") or body  # a file of parameters, or its inside


def _given_by(deployment: Any, parameters: Any) -> Any:
    """Return the parameters of a deployment: none where it has none, unless they lie elsewhere."""
    link = at(deployment, "parametersLink") or at(deployment, "properties.parametersLink")
    return UNKNOWN if link else {} if parameters is None else parameters


def parts(template: Any, path: str = "", given: Any = None) -> Iterator[Part]:
    """Yield the resources of a template, those of nested templates and those inside others too.

    Args:
        template: Its parsed body.
        path: Where it stands.
        given: The parameters of its deployment, by name.
    """
    yield from _parts(template, path, _scope(template, given, Scope(certain=given is not None)), 0)


def _parts(template: Any, path: str, scope: Scope, depth: int) -> Iterator[Part]:
    if depth <= _MOST_STEPS:
        where = f"{path}.resources" if path else "resources"
        yield from _resources(mapping(template).get("resources"), where, "", scope, depth)


def _resources(given: Any, path: str, above: str, scope: Scope, depth: int) -> Iterator[Part]:
    given = scope(given) if is_expression(given) else given
    if given is UNKNOWN:
        yield Part(path, path, _NOT_KNOWN, UNKNOWN)
    elif isinstance(given, Mapping):  # Bicep's symbolic names
        for name, one in given.items():
            yield from _turns(one, f"{path}.{name}", above, scope, depth)
    else:
        for place, one in enumerate(given if is_list(given) else ()):
            yield from _turns(one, f"{path}[{place}]", above, scope, depth)


def _turns(one: Any, where: str, above: str, scope: Scope, depth: int) -> Iterator[Part]:
    """Yield a resource once for each turn of its loop."""
    loop = at(one, "copy")
    turns = scope.of(loop) if isinstance(loop, Mapping) else [scope]
    if turns is None:
        turns = [scope.turn(text(at(loop, "name")).casefold(), UNKNOWN)]
    for turn in turns:
        yield from _resource(one, where, above, turn, depth)
        if scope.left.values < 0:
            break  # none of the others would be known any more


def _resource(one: Any, where: str, above: str, scope: Scope, depth: int) -> Iterator[Part]:
    kind = at(one, "type")
    kind = scope(kind) if is_expression(kind) else kind
    kind = _NOT_KNOWN if kind is UNKNOWN else text(kind)
    condition = at(one, "condition")
    left_out = condition is False or (scope.certain and scope(condition) is False)
    if not kind or left_out or flag(at(one, "existing")) is True:
        return
    kind = f"{above}/{kind}" if above and "." not in kind.partition("/")[0] else kind
    name = text(scope(at(one, "name"))).rpartition("/")[2] or where.rpartition(".")[2]
    properties = at(one, "properties")
    if kind.casefold() in _HOLDERS and isinstance(properties, Mapping):
        made = {key: item if key == "template" else scope(item) for key, item in properties.items()}
    else:
        made = scope(properties)
    yield Part(where, name, kind, made, scope(at(one, "sku")))
    if kind.casefold() == _DEPLOYMENTS:
        inner, of = at(one, "properties.template"), at(one, "properties.expressionEvaluationOptions.scope")
        # Expressions of a nested template mean the outer one's parameters and variables unless it says otherwise.
        # https://learn.microsoft.com/azure/azure-resource-manager/templates/linked-templates#expression-evaluation-scope-in-nested-templates
        own = text(of).casefold() == "inner"
        within = _scope(inner, _given_by(properties, scope(at(one, "properties.parameters"))), scope) if own else scope
        yield from _parts(inner, f"{where}.properties.template", within, depth + 1)
    elif kind.casefold() in _BODY_IN:
        # Its parameters are given later, and which template the expressions inside a stack mean is not documented.
        place = _BODY_IN[kind.casefold()]
        inner = at(one, place)
        within = Scope(left=scope.left) if kind.casefold() == _STACKS else _scope(inner, None, Scope(left=scope.left))
        yield from _parts(inner, f"{where}.{place}", within, depth + 1)
    if depth <= _MOST_STEPS:
        yield from _resources(at(one, "resources"), f"{where}.resources", kind, scope, depth + 1)


_NOT_KNOWN = "(not known yet)"
"""Type of what may be anything."""


def _scope(template: Any, given: Any, outer: Scope) -> Scope:
    """Return what the expressions of a template mean: each parameter by its value, which is known by then."""
    variables: dict[str, Any] = {}
    for name, value in mapping(mapping(template).get("variables")).items():
        if name == "copy" and is_list(value):
            variables |= {text(loop.get("name")).casefold(): Loop(loop) for loop in map(mapping, value)}
        else:
            variables[name.casefold()] = value
    parameters: dict[str, Any] = {}
    for name, one in mapping(mapping(template).get("parameters")).items():
        own = next((each for key, each in mapping(given).items() if key.casefold() == name.casefold()), None)
        if given is UNKNOWN or own is UNKNOWN:
            continue
        default = mapping(one).get("defaultValue")
        value = default if own is None else own if isinstance(own, str) else mapping(own).get("value", UNKNOWN)
        if value is not None or mapping(one).get("nullable") is True:
            parameters[name.casefold()] = value
    return Scope(variables, parameters, certain=outer.certain, left=outer.left)
