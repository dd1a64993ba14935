"""Reads the AKS pools inside templates of Azure Resource Manager, which Bicep compiles to. Pure.

Literal values and defaults of parameters are read. What else an expression returns is `UNKNOWN`, and of a copy loop
one resource is read. The output of `az deployment group what-if` holds the evaluated values.
https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax and, for Bicep's symbolic names,
https://learn.microsoft.com/azure/azure-resource-manager/templates/resource-declaration.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupools.audit.cloudformation_resources import HELD
from gpupools.common.bounded_yaml import MAX_DEPTH, is_deep
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.azure.arm import DEPLOYMENTS
from gpupools.readback.inputs import at, flag, is_list, mapping, text
from gpupools.readback.registry import TypeReader

DEPLOYMENT = re.compile(
    r"azure-native(?:_resources_v\w+)?:resources(?:/v\w+)?:(?:Deployment(?:At\w+Scope|StackAt\w+)?|TemplateSpecVersion)"
    r"|azure:core/\w*[tT]emplateDeployment:\w*TemplateDeployment"
)
"""Type tokens of resources that contain a whole template."""

POOLS = {
    "microsoft.containerservice/managedclusters/agentpools": "azure-native:containerservice:AgentPool",
    "microsoft.containerservice/managedclusters": "azure-native:containerservice:ManagedCluster",
}
"""Pulumi type by Azure type in lower case, of the resources that contain node pools."""

_BODY_IN = {
    **dict.fromkeys(DEPLOYMENTS, "properties.template"),
    # A version of a template spec is a template for later deployments, and so is what a policy deploys:
    # https://learn.microsoft.com/azure/azure-resource-manager/templates/template-specs,
    # https://learn.microsoft.com/azure/governance/policy/concepts/effect-deploy-if-not-exists.
    "microsoft.resources/templatespecs/versions": "properties.mainTemplate",
    **{
        f"microsoft.authorization/{kind}": "properties.policyRule.then.details.deployment.properties.template"
        for kind in ("policydefinitions", "policydefinitions/versions")
    },
}
"""Path of the template inside such a resource."""
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
    """As written; a child's type starts with its parent's."""
    properties: Any
    """With `UNKNOWN` for values of expressions."""
    sku: Any = None
    """Machine size of a scale set, which is not among its properties."""


def _unread(type_token: str, properties: JsonObject) -> str:
    if not DEPLOYMENT.fullmatch(type_token):
        return ""
    path, template = _template(properties)
    if template is UNKNOWN:
        return f"{path} is not known yet"
    if not mapping(template):
        return f"its template is not available, or {path} is none"
    closed = ((part.path, why) for part in parts(template, path) if (why := closed_part(part) or _held_pool(part)))
    return next((f"{where}: {why}" for where, why in closed), "")


def _held_pool(part: Part) -> str:
    """Return why a pool inside a template needs a look; empty where a taint keeps others off, or it has no GPUs."""
    token = POOLS.get(part.type.casefold(), "")
    pools = clouds()["azure"].readback().read_pools(token, mapping(part.properties))
    is_late = bool(token) and part.properties is UNKNOWN
    return HELD if is_late or any(pool.lacks_taint for pool in pools) else ""


def _held_types(type_token: str, properties: JsonObject) -> Iterator[str]:
    if DEPLOYMENT.fullmatch(type_token):
        path, template = _template(properties)
        yield from (f"arm:{part.type}" for part in parts(template, path) if part.type.casefold() not in POOLS)


def closed_part(part: Part) -> str:
    """Return why a resource of a template cannot be read; empty where it can."""
    if part.type == _NOT_KNOWN:
        return "its type is not known yet"
    # A deployment, or a stack of them.
    lies_elsewhere = part.type.casefold() in DEPLOYMENTS and not mapping(at(part.properties, "template"))
    return "its template is not included" if lies_elsewhere else ""


def _template(properties: JsonObject) -> tuple[str, Any]:
    """Return the path of a deployment's template and the value there."""
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
    """Return a value of a template with `UNKNOWN` for its expressions.

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


_PARAMETER = re.compile(r"\[parameters\('(\w+)'\)\]")


def with_defaults(template: Any) -> Any:
    """Return a template whose resources have the literal defaults of its parameters; nested templates have their own.

    https://learn.microsoft.com/azure/azure-resource-manager/templates/parameters
    """
    given = mapping(mapping(template).get("parameters"))
    defaults = {name: value for name, one in given.items() if known(value := at(one, "defaultValue")) is not UNKNOWN}
    defaults = {name: value for name, value in defaults.items() if value is not None}

    def filled(value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            match = _PARAMETER.fullmatch(value)
            return defaults.get(match[1], value) if match else value
        if depth > MAX_DEPTH or "$schema" in mapping(value):
            return value
        if isinstance(value, Mapping):
            return {key: filled(item, depth + 1) for key, item in value.items()}
        return [filled(item, depth + 1) for item in value] if is_list(value) else value

    return {**template, "resources": filled(template.get("resources"))} if defaults else template


def is_expression(value: Any) -> bool:
    """Return whether a text is an expression, not a literal in brackets.

    https://learn.microsoft.com/azure/azure-resource-manager/templates/template-expressions
    """
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def parts(template: Any, path: str = "") -> Iterator[Part]:
    """Yield the resources of a template, including nested templates and child resources.

    Args:
        template: Its parsed body.
        path: Its path.
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
"""Type of a resource that may be anything."""

READER = TypeReader(
    cloud="azure",
    types=(
        "azure-native:resources:Deployment",
        "azure-native:resources:DeploymentStackAtResourceGroup",
        "azure:core/resourceGroupTemplateDeployment:ResourceGroupTemplateDeployment",
        "azure:core/subscriptionTemplateDeployment:SubscriptionTemplateDeployment",
    ),
    unread=_unread,
    nested_types=_held_types,
)
