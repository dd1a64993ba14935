"""Reads the AKS pools inside templates of Azure Resource Manager, which Bicep compiles to. Pure.

Literal values are read. What an expression returns is `UNKNOWN`, and of a copy loop one resource is read. The output of
`az deployment group what-if` holds the evaluated values.
https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax and, for Bicep's symbolic names,
https://learn.microsoft.com/azure/azure-resource-manager/templates/resource-declaration.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupools.common.bounded_yaml import MAX_DEPTH, is_deep
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.providers.azure.arm import GENERIC, aks_kind
from gpupools.readback.inputs import at, flag, is_list, mapping, relocated, text

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

_HOLDERS = ("microsoft.resources/deployments", "microsoft.resources/deploymentstacks")
_BODY_IN = {
    **dict.fromkeys(_HOLDERS, "properties.template"),
    # A version of a template spec is a template for later deployments, and so is what a policy deploys:
    # https://learn.microsoft.com/azure/azure-resource-manager/templates/template-specs,
    # https://learn.microsoft.com/azure/governance/policy/concepts/effect-deploy-if-not-exists.
    "microsoft.resources/templatespecs/versions": "properties.mainTemplate",
    **{
        f"microsoft.authorization/{kind}": "properties.policyRule.then.details.deployment.properties.template"
        for kind in ("policydefinitions", "policydefinitions/versions")
    },
}
"""Where those have a template inside."""
_BODIES = (
    "properties.template",
    "templateContent",
    "templateBody",
    "template",
    "mainTemplate",
    "properties.mainTemplate",
)


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


Read = Callable[[str, JsonObject], tuple[PoolFacts, ...]]


def read_pools(properties: JsonObject, read: Read) -> tuple[PoolFacts, ...]:
    """Read the pools inside a deployment.

    Args:
        properties: Its inputs in wire form.
        read: Reads the pools of a resource of a type of its own.
    """
    path, template = _template(properties)
    found: list[PoolFacts] = []
    for part in parts(template, path):
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


def unread(type_token: str, properties: JsonObject) -> str:
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
    closed = ((part.path, why) for part in parts(template, path) if (why := closed_part(part)))
    return next((f"{where}: {why}" for where, why in closed), "")


def nested_types(type_token: str, properties: JsonObject) -> Iterator[str]:
    """Yield the types of the resources of a deployment that are not read as pools, and that of a generic resource."""
    if GENERIC.fullmatch(type_token) and aks_kind(properties) is None:
        yield f"arm:{_generic_type(properties)}"
    path, template = _template(properties) if DEPLOYMENT.fullmatch(type_token) else ("", None)
    yield from (f"arm:{part.type}" for part in parts(template, path) if part.type.casefold() not in POOLS)


def _generic_type(properties: JsonObject) -> str:
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


def _template(properties: JsonObject) -> tuple[str, Any]:
    """Return the path of a deployment's template and what stands there."""
    for path in _BODIES:
        body = at(properties, path)
        if body is UNKNOWN:
            return path, UNKNOWN
        if isinstance(body, str) and body:
            try:
                parsed = json.loads(body)
            except (ValueError, RecursionError):
                return path, None
            return path, None if is_deep(parsed) else parsed
        if body:
            return path, body
    return _BODIES[0], None


def known(value: Any, depth: int = 0) -> Any:
    """Return a value of a template with `UNKNOWN` for what its expressions return.

    Args:
        value: As it is written.
        depth: How many maps and lists are around it.
    """
    if depth > MAX_DEPTH or is_expression(value):
        return UNKNOWN
    if isinstance(value, str):
        return value.removeprefix("[") if value.startswith("[[") else value
    if isinstance(value, Mapping):
        copied: Any = value.get("copy")
        loops = copied if is_list(copied) else ()
        made = {key: known(item, depth + 1) for key, item in value.items() if key != "copy" or not loops}
        # https://learn.microsoft.com/azure/azure-resource-manager/templates/copy-properties
        return {**made, **{text(at(loop, "name")): UNKNOWN for loop in loops}}
    return [known(item, depth + 1) for item in value] if is_list(value) else value


def is_expression(value: Any) -> bool:
    """Say whether a text is one, and not a text in brackets.

    https://learn.microsoft.com/azure/azure-resource-manager/templates/template-expressions
    """
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def parts(template: Any, path: str = "") -> Iterator[Part]:
    """Yield the resources of a template, those of nested templates and those inside others too.

    Args:
        template: Its parsed body.
        path: Where it stands.
    """
    where = f"{path}.resources" if path else "resources"
    yield from _resources(mapping(template).get("resources"), where, "", 0)


def _resources(given: Any, path: str, above: str, depth: int) -> Iterator[Part]:
    if is_expression(given) or given is UNKNOWN or depth > MAX_DEPTH:
        yield Part(path, path, _NOT_KNOWN, UNKNOWN)
    elif isinstance(given, Mapping):  # Bicep's symbolic names
        for name, one in given.items():
            yield from _resource(one, f"{path}.{name}", above, depth)
    else:
        for place, one in enumerate(given if is_list(given) else ()):
            yield from _resource(one, f"{path}[{place}]", above, depth)


def _resource(one: Any, where: str, above: str, depth: int) -> Iterator[Part]:
    kind = known(at(one, "type"))
    kind = _NOT_KNOWN if kind is UNKNOWN else text(kind)
    if not kind or at(one, "condition") is False or flag(at(one, "existing")) is True:
        return
    kind = f"{above}/{kind}" if above and "." not in kind.partition("/")[0] else kind
    name = text(known(at(one, "name"))).rpartition("/")[2] or where.rpartition(".")[2]
    properties = at(one, "properties")
    place = _BODY_IN.get(kind.casefold(), "")
    inner = at(one, place) if place else None
    if place == "properties.template" and isinstance(properties, Mapping):
        made: Any = {key: item if key == "template" else known(item) for key, item in properties.items()}
    else:
        made = known(properties)
    yield Part(where, name, kind, made, known(at(one, "sku")))
    if inner is not None:
        yield from _resources(at(inner, "resources"), f"{where}.{place}.resources", "", depth + 1)
    yield from _resources(at(one, "resources"), f"{where}.resources", kind, depth + 1)


_NOT_KNOWN = "(not known yet)"
"""Type of what may be anything."""
