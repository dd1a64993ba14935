"""Reads the AKS pools inside templates of Azure Resource Manager, which Bicep compiles to. Pure.

What an expression makes is not known, but for a variable that is written out and for a parameter: it has the value that
the deployment gives it, or else its default.
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
from gpupools.read.inputs import at, flag, is_list, mapping, relocated, text

DEPLOYMENT = re.compile(
    r"azure-native(?:_resources_v\w+)?:resources(?:/v\w+)?:Deployment(?:At\w+Scope|StackAt\w+)?"
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
_HOLDERS = (_DEPLOYMENTS, _STACKS)
_BODIES = ("properties.template", "templateContent", "templateBody", "template")
# A template has at most 4 MB: https://learn.microsoft.com/azure/azure-resource-manager/templates/best-practices.
_MOST_CHARACTERS = 4_000_000
_MOST_VALUES = 100_000
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
    away = next((part for part in parts(template, path, _given(properties)) if is_elsewhere(part)), None)
    return f"the template of {away.path} lies elsewhere" if away else ""


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


def is_elsewhere(part: Part) -> bool:
    """Say whether a resource is a deployment, or a stack of them, whose template is not written out in it."""
    return part.type.casefold() in _HOLDERS and not mapping(at(part.properties, "template"))


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
        return given
    try:
        body = json.loads(given) if 0 < len(given) <= _MOST_CHARACTERS else {}
    except (ValueError, RecursionError):
        return UNKNOWN
    return at(body, "parameters") or body  # a file of parameters, or its inside


def parts(template: Any, path: str = "", given: Any = None) -> Iterator[Part]:
    """Yield the resources of a template, those of nested templates and those inside others too.

    Args:
        template: Its parsed body.
        path: Where it stands.
        given: The parameters of its deployment, by name.
    """
    yield from _parts(template, path, _Resolved(template, given), 0)


def _parts(template: Any, path: str, resolve: "_Resolved", depth: int) -> Iterator[Part]:
    if depth <= _MOST_STEPS:
        where = f"{path}.resources" if path else "resources"
        yield from _resources(mapping(template).get("resources"), where, "", resolve, depth)


def _resources(given: Any, path: str, above: str, resolve: "_Resolved", depth: int) -> Iterator[Part]:
    if isinstance(given, Mapping):  # Bicep's symbolic names
        listed = [(f"{path}.{name}", one) for name, one in given.items()]
    else:
        listed = [(f"{path}[{place}]", one) for place, one in enumerate(given if is_list(given) else ())]
    for where, one in listed:
        kind = text(at(one, "type"))
        if not kind or flag(at(one, "existing")) is True:
            continue
        kind = f"{above}/{kind}" if above and "." not in kind.partition("/")[0] else kind
        name = text(resolve(at(one, "name"))).rpartition("/")[2] or where.rpartition(".")[2]
        yield Part(where, name, kind, resolve(at(one, "properties")), resolve(at(one, "sku")))
        if kind.casefold() == _DEPLOYMENTS:
            inner, scope = at(one, "properties.template"), at(one, "properties.expressionEvaluationOptions.scope")
            # Expressions of a nested template mean the outer one's parameters and variables unless it says otherwise.
            # https://learn.microsoft.com/azure/azure-resource-manager/templates/linked-templates#expression-evaluation-scope-in-nested-templates
            own = text(scope).casefold() == "inner"
            within = _Resolved(inner, resolve(at(one, "properties.parameters"))) if own else resolve
            yield from _parts(inner, f"{where}.properties.template", within, depth + 1)
        elif kind.casefold() == _STACKS:
            # Which template the expressions inside mean is not documented, so none of them is known.
            nothing = _Resolved(None, None)
            yield from _parts(at(one, "properties.template"), f"{where}.properties.template", nothing, depth + 1)
        if depth <= _MOST_STEPS:
            yield from _resources(at(one, "resources"), f"{where}.resources", kind, resolve, depth + 1)


_NAMED = re.compile(r"\[(variables|parameters)\('([^']+)'\)\]")


class _Resolved:
    """Writes the values of a template with `UNKNOWN` for what expressions make."""

    def __init__(self, template: Any, given: Any) -> None:
        self.known: dict[tuple[str, str], Any] = {}
        for name, value in mapping(mapping(template).get("variables")).items():
            self.known["variables", name.casefold()] = value
        for name, one in mapping(mapping(template).get("parameters")).items():
            own = next((each for key, each in mapping(given).items() if key.casefold() == name.casefold()), None)
            if given is UNKNOWN or own is UNKNOWN:
                continue
            value = mapping(one).get("defaultValue") if own is None else mapping(own).get("value", UNKNOWN)
            if value is not None:
                self.known["parameters", name.casefold()] = value
        self.left = _MOST_VALUES

    def __call__(self, value: Any, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0 or depth > 200:
            return UNKNOWN
        if isinstance(value, str):
            if value.startswith("[["):
                return value[1:]
            if not (value.startswith("[") and value.endswith("]")):
                return value
            match = _NAMED.fullmatch(value)
            return self(self.known.get((match[1], match[2].casefold()), UNKNOWN), depth + 50) if match else UNKNOWN
        if isinstance(value, Mapping):
            if "copy" in value:  # a loop over properties makes what is not written out
                return UNKNOWN
            return {key: self(item, depth + 1) for key, item in value.items()}
        return [self(item, depth + 1) for item in value] if is_list(value) else value
