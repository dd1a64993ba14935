"""A template of Azure Resource Manager as JSON, by hand or from `bicep build`, as a file or inside a resource.

Literal values and defaults of parameters are read. What else an expression returns is `UNKNOWN`, and of a copy loop
one resource is read. The output of `az deployment group what-if` holds the evaluated values.
https://learn.microsoft.com/azure/azure-resource-manager/templates/syntax and, for Bicep's symbolic names,
https://learn.microsoft.com/azure/azure-resource-manager/templates/resource-declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.audit.document import Document, Resource
from gpupools.audit.held_resources import reader_of_held
from gpupools.common.bounded_yaml import MAX_DEPTH
from gpupools.common.json_types import JsonObject
from gpupools.common.structured_text import Text, parsed_json
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers.azure.arm import DEPLOYMENTS
from gpupools.readback.inputs import at, flag, is_list, mapping, text

FORM = "ARM template"

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


def recognises(data: Any) -> bool:
    """Return whether this is an ARM template, of any scope."""
    schema = data.get("$schema") if isinstance(data, dict) else None
    return isinstance(schema, str) and "deploymenttemplate.json" in schema.casefold() and "resources" in data


def read(text: Text) -> Document:
    """Read every resource, including those of nested templates."""
    return Document(FORM, tuple(resources(with_defaults(text.values[0].data), text)))


# --- values -----------------------------------------------------------------------------------------------------------


def known(value: Any, depth: int = 0) -> Any:
    """Return a value of a template with `UNKNOWN` for its expressions.

    Args:
        value: As it is written.
        depth: How many maps and lists are around it.
    """
    if depth > MAX_DEPTH or _is_expression(value):
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


def _is_expression(value: Any) -> bool:
    """Return whether a text is an expression, not a literal in brackets.

    https://learn.microsoft.com/azure/azure-resource-manager/templates/template-expressions
    """
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


# --- resources --------------------------------------------------------------------------------------------------------


def resources(template: Any, file: Text | None = None, path: str = "") -> Iterator[Resource]:
    """Yield the resources of a template, including nested templates and child resources.

    Args:
        template: Its parsed body.
        file: The file, for lines; None for a template inside a resource.
        path: Its path.
    """
    where = f"{path}.resources" if path else "resources"
    yield from _template_resources(mapping(template).get("resources"), where, "", 0, file)


def _template_resources(given: Any, path: str, above: str, depth: int, file: Text | None) -> Iterator[Resource]:
    if _is_expression(given) or given is UNKNOWN or depth > MAX_DEPTH:
        yield Resource(path, "arm:Resource", {}, opaque=_OF_ANY_TYPE)
    elif isinstance(given, Mapping):  # Bicep's symbolic names
        for name, value in given.items():
            yield from _resource(value, f"{path}.{name}", above, depth, file)
    else:
        for place, one in enumerate(given if is_list(given) else ()):
            yield from _resource(one, f"{path}[{place}]", above, depth, file)


_OF_ANY_TYPE = "its type is not known yet"


def _resource(one: Any, where: str, above: str, depth: int, file: Text | None) -> Iterator[Resource]:
    kind = known(at(one, "type"))
    if kind is UNKNOWN:
        yield Resource(where, "arm:Resource", {}, opaque=_OF_ANY_TYPE)
    if not text(kind) or at(one, "condition") is False or flag(at(one, "existing")) is True:
        return
    kind = f"{above}/{kind}" if above and "." not in kind.partition("/")[0] else kind
    yield _made(kind, one, where, file)
    place = _BODY_IN.get(kind.casefold(), "")
    if place and (inner := at(one, place)) is not None:
        yield from _template_resources(at(inner, "resources"), f"{where}.{place}.resources", "", depth + 1, file)
    yield from _template_resources(at(one, "resources"), f"{where}.resources", kind, depth + 1, file)


# https://learn.microsoft.com/azure/azure-resource-manager/bicep/bicep-kubernetes-extension
_EXTENDED = re.compile(r"(?P<group>[\w.-]+)/(?P<kind>\w+)@(?P<version>\w+)")


def _made(kind: str, one: Any, where: str, file: Text | None) -> Resource:
    name = text(known(at(one, "name"))).rpartition("/")[2] or where.rpartition(".")[2]
    properties, line = known(at(one, "properties")), file.line_of(name) if file is not None else None
    if extended := _EXTENDED.fullmatch(kind):  # a Kubernetes object
        group, version = extended["group"], extended["version"]
        version = version if group == "core" else f"{group}/{version}"
        body = {"apiVersion": version, "kind": extended["kind"], **mapping(properties)}
        body = body if properties is not UNKNOWN else {**body, "spec": UNKNOWN}
        return Resource(where, f"kubernetes:{version}:{extended['kind']}", body, line=line)
    token, sku = POOLS.get(kind.casefold()), known(at(one, "sku"))
    lies_elsewhere = kind.casefold() in DEPLOYMENTS and not mapping(at(one, "properties.template"))
    opaque = "its template is not included" if lies_elsewhere else ""
    if token is not None and not isinstance(properties, dict):
        opaque = "properties is not literal"
    # Machine size of a scale set, which is not among its properties.
    more = {"sku": sku} if sku and token is None else {}
    return Resource(
        address=where,
        type=token or f"arm:{kind}",
        inputs={"name": name, **more, **mapping(properties)},
        line=line,
        opaque=opaque,
    )


# --- templates inside a resource --------------------------------------------------------------------------------------

_DEPLOYMENT = re.compile(
    r"azure-native(?:_resources_v\w+)?:resources(?:/v\w+)?:(?:Deployment(?:At\w+Scope|StackAt\w+)?|TemplateSpecVersion)"
    r"|azure:core/\w*[tT]emplateDeployment:\w*TemplateDeployment"
)
"""Type tokens of resources that contain a whole template."""
_BODIES = (
    *("properties.template", "templateContent", "templateBody", "template", "mainTemplate"),
    "properties.mainTemplate",
)


def _held(type_token: str, properties: JsonObject) -> Iterator[Resource]:
    if not _DEPLOYMENT.fullmatch(type_token):
        return
    path, template = _template(properties)
    if template is UNKNOWN:
        yield Resource("", "", {}, opaque=f"{path} is not known yet")
    elif not mapping(template):
        yield Resource("", "", {}, opaque=f"its template is not available, or {path} is none")
    yield from resources(template, path=path)


def _template(properties: JsonObject) -> tuple[str, Any]:
    """Return the path of a deployment's template and the value there."""
    for path in _BODIES:
        body = at(properties, path)
        if isinstance(body, str) and body:
            return path, parsed_json(body)
        if body or body is UNKNOWN:
            return path, body
    return _BODIES[0], None


READER = reader_of_held(
    "azure",
    (
        "azure-native:resources:Deployment",
        "azure-native:resources:DeploymentStackAtResourceGroup",
        "azure:core/resourceGroupTemplateDeployment:ResourceGroupTemplateDeployment",
        "azure:core/subscriptionTemplateDeployment:SubscriptionTemplateDeployment",
    ),
    _held,
)
