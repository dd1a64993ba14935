"""One resource of Terraform, of a plan or a state, in Pulumi's names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from gpupools.audit import kubernetes
from gpupools.audit.document import Resource
from gpupools.audit.terraform_names import Names, terraform_names
from gpupools.audit.terraform_sources import Sources
from gpupools.common.bounded_yaml import MAX_DEPTH, Value, parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.common.naming import camel
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN


@dataclass
class TerraformResource:
    """One resource instance of a plan or a state."""

    type: str
    address: str
    values: JsonObject
    """In Terraform's shape, with `UNKNOWN`."""
    id: str = ""
    name: str = ""
    module: str = ""
    """Address of the module instance, empty for the root."""
    index: Any = None
    """Its key under `count` or `for_each`."""


def instance_of(given: JsonObject, values: JsonObject, module: Any = None) -> TerraformResource:
    """Return a resource as a plan or a state writes it, or an action.

    Args:
        given: What names it.
        values: Its values.
        module: Address of its module instance.
    """
    return TerraformResource(
        type=given["type"],
        address=str(given.get("address", "")),
        values=values,
        id=str(values.get("id") or ""),
        name=str(given.get("name")),
        module=str(module or ""),
        index=given.get("index"),
    )


def resources_of(
    source: TerraformResource, text: Text | None, refers: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> Iterator[Resource]:
    """Convert one resource instance.

    Args:
        source: The instance.
        text: The file; None for a resource of Pulumi that bridges Terraform's.
        refers: Addresses it refers to, by Terraform's names.
    """
    kind, values = source.type, source.values
    line = text.line_of(source.address) if text is not None else None
    made = partial(Resource, source.address, line=line, id=source.id)
    names = terraform_names().get(kind)
    if names is not None:
        inputs = names.wire(_with_effective_taints(values) if kind.startswith("google_container") else values)
        if kind == "azurerm_kubernetes_cluster":
            _add_critical_addons_taint(inputs)
        yield made(
            names.type,
            inputs,
            refers={_wire_path(names, key): addresses for key, addresses in refers.items()},
            spelled=names.says,
            takes_no_taints=kind == "azurerm_kubernetes_cluster",
        )
    elif kind in ("azapi_resource", "azapi_update_resource") or _sends_resource(kind, values):
        yield _azapi(source, made)
    elif kind in _OBJECTS:
        yield from _manifests(kind, values, made)
    elif kind.removesuffix("_v1") in _TEXTS:
        what, fields = _TEXTS[kind.removesuffix("_v1")]
        inputs = {"kind": what, **{theirs: values.get(ours) for ours, theirs in fields.items()}}
        yield made(f"kubernetes:v1:{what}", inputs)
    elif path := _writes_pools(kind, values):
        yield made(f"terraform:{kind}", values, opaque=f"it writes to {path}")
    elif kind == "helm_release":
        yield made("kubernetes:helm.sh/v3:Release", _helm_release(values))
    elif kind in _TEMPLATES:
        yield made(_TEMPLATES[kind], {camel(key): value for key, value in values.items()})
    else:
        yield made(f"terraform:{kind}", values)


_TEXTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "kubernetes_config_map": ("ConfigMap", {"data": "data", "binary_data": "binaryData"}),
    "kubernetes_secret": ("Secret", {"data": "stringData", "binary_data": "data", "type": "type"}),
}
"""Kind and fields of what holds objects as text: the provider encodes what it calls data.

https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/secret_v1
"""

_SCOPES = {"resource_group": "resourceGroup", "management_group": "managementGroup"}
_SCOPES |= {"subscription": "subscription", "tenant": "tenant"}
_TEMPLATES: Mapping[str, str] = {
    "aws_cloudformation_stack": "aws:cloudformation/stack:Stack",
    "aws_cloudformation_stack_set": "aws:cloudformation/stackSet:StackSet",
    "aws_cloudcontrolapi_resource": "aws:cloudcontrol/resource:Resource",
    "azurerm_template_deployment": "azure:core/templateDeployment:TemplateDeployment",
    **{
        f"azurerm_{scope}_template_deployment": (
            f"azure:core/{word}TemplateDeployment:{word[:1].upper()}{word[1:]}TemplateDeployment"
        )
        for scope, word in _SCOPES.items()
    },
}
"""Pulumi's type of what holds a whole template, or a resource as text."""


def _wire_path(names: Names, path: str) -> str:
    """Write a path of Terraform's, with an index for each block in it, as the wire form has it."""
    at, written = "", []
    for step in path.split("."):
        name, bracket, index = step.partition("[")
        target = next(iter(names.wire({name: "x"}, at)), name)
        at = f"{at}.{target}" if at else target
        written.append(target if at in names.objects else f"{target}{bracket}{index}")
    return ".".join(written)


def _with_effective_taints(value: Any) -> Any:
    """Return values of GKE pools with the taints that their nodes have, which include those that GKE added.

    https://registry.terraform.io/providers/hashicorp/google/latest/docs/resources/container_cluster
    """
    if isinstance(value, list):
        return [_with_effective_taints(item) for item in value]
    if not isinstance(value, dict):
        return value
    inside = {key: _with_effective_taints(item) for key, item in value.items()}
    if (effective := as_list(value.get("effective_taints"))) and value.get("taint") is not UNKNOWN:
        inside["taint"] = [*(one for one in as_list(value.get("taint")) if one not in effective), *effective]
    return inside


def _add_critical_addons_taint(inputs: JsonObject) -> None:
    """Add what `only_critical_addons_enabled` does, the only taint azurerm lets the default pool have.

    https://registry.terraform.io/providers/hashicorp/azurerm/latest/docs/resources/kubernetes_cluster#only_critical_addons_enabled-1
    """
    for pool in as_list(inputs.get("agentPoolProfiles")):
        only = pool.pop("onlyCriticalAddonsEnabled", False) if isinstance(pool, dict) else False
        if only is UNKNOWN:
            pool["nodeTaints"] = UNKNOWN
        elif only is True:
            taints = pool.get("nodeTaints")
            pool["nodeTaints"] = [*(taints if isinstance(taints, list) else []), "CriticalAddonsOnly=true:NoSchedule"]


_AZAPI = {
    "microsoft.containerservice/managedclusters": "azure-native:containerservice:ManagedCluster",
    "microsoft.containerservice/managedclusters/agentpools": "azure-native:containerservice:AgentPool",
    "microsoft.resources/deployments": "azure-native:resources:Deployment",
    "microsoft.resources/deploymentstacks": "azure-native:resources:DeploymentStackAtSubscription",
    "microsoft.resources/templatespecs/versions": "azure-native:resources:TemplateSpecVersion",
}


_CLIENTS = ("http", "restapi", "restful", "terracurl")
_OF_POOLS = re.compile(r"/(?:nodePools|agentPools|node-groups)(?:/[^/?\s]+)?/?(?:\?|$)")


def _writes_pools(kind: str, values: JsonObject) -> str:
    """Return the address of a cloud's node pools that a client of any API writes to; empty for anything else.

    https://registry.terraform.io/providers/Mastercard/restapi/latest/docs/resources/object,
    https://registry.terraform.io/providers/magodo/restful/latest/docs/resources/resource,
    https://registry.terraform.io/providers/devops-rob/terracurl/latest/docs/resources/request
    """
    method = values.get("method") or ("GET" if kind == "http" else "PUT")  # what is not known yet may write
    if kind.partition("_")[0] not in _CLIENTS or str(method).upper() in ("GET", "HEAD"):
        return ""
    given = (values.get(key) for key in ("path", "url", "create_path", "uri"))
    return next((one for one in given if isinstance(one, str) and _OF_POOLS.search(one)), "")


def _sends_resource(kind: str, values: JsonObject) -> bool:
    """Say whether an action sends a whole resource, or a part of one.

    https://registry.terraform.io/providers/Azure/azapi/latest/docs/resources/resource_action
    """
    method = values.get("method")
    return kind == "azapi_resource_action" and (method is UNKNOWN or str(method).upper() in ("PUT", "PATCH"))


def _azapi(source: TerraformResource, made: Callable[..., Resource]) -> Resource:
    """Read a resource in ARM's own JSON: https://registry.terraform.io/providers/Azure/azapi/latest/docs."""
    values = source.values
    kind = values.get("type")
    if not isinstance(kind, str):
        return made(f"terraform:{source.type}", values, opaque="its type is not known yet")
    token = _AZAPI.get(kind.partition("@")[0].lower())
    if token is None:
        return made(f"arm:{kind.partition('@')[0]}", values)
    properties = _properties(values.get("body"))
    if source.type == "azapi_resource_action" and not isinstance(properties, dict):
        return made(f"terraform:{source.type}", values, opaque="its body is not known yet")
    patched = str(values.get("method")).upper() == "PATCH" or values.get("action")
    if source.type == "azapi_update_resource" or patched:
        why = "it changes part of a resource that is defined elsewhere"
        return made(f"terraform:{source.type}", values, opaque=why)
    inputs = _NOT_KNOWN if properties is UNKNOWN else mapping(properties)
    if values.get("sensitive_body") is not None:  # no plan shows it, and it may say what the body leaves out
        inputs = {**_NOT_KNOWN, **inputs}
    return made(token, {"properties": inputs} if kind.partition("@")[0].lower() in _DEPLOYMENTS else inputs)


_DEPLOYMENTS = ("microsoft.resources/deployments",)
_NOT_KNOWN = {"vmSize": UNKNOWN, "nodeTaints": UNKNOWN, "agentPoolProfiles": UNKNOWN, "template": UNKNOWN}


def _properties(body: Any) -> Any:
    """Return the properties in a body of azapi's; version 1 takes text."""
    if isinstance(body, str):
        try:
            parsed = parse_yaml(body)
        except Rejected:
            return UNKNOWN
        body = parsed[0].data if parsed else None
    return body if body is UNKNOWN else mapping(body).get("properties")


_OBJECTS = {"kubernetes_manifest": "manifest", "kubectl_manifest": "yaml_body", "kustomization_resource": "manifest"}
"""Attribute with the object that a resource applies, as a value or as text; `kubectl_manifest` of any maker."""


def _manifests(kind: str, values: JsonObject, made: Callable[..., Resource]) -> Iterator[Resource]:
    """Read the objects that a resource applies."""
    key = _OBJECTS[kind]
    body = values.get(key)
    try:
        documents = parse_yaml(body, unique=True) if isinstance(body, str) else (Value(body),)
    except Rejected as rejected:
        documents, why = (), f"{key}: {rejected.problems[0].what}"
    else:
        why = f"{key} is not known yet" if body is UNKNOWN else f"{key} is not a Kubernetes object"
    if any(str(path).startswith("spec") for key in _IGNORED_FIELDS for path in as_list(values.get(key))):
        documents = tuple(replace(document, data={**mapping(document.data), "spec": UNKNOWN}) for document in documents)
    objects = [read for value in documents for read in kubernetes.objects(value)]
    for read in objects:
        yield made(read.type, read.inputs, spelled=read.spelled)
    if not objects:
        ignored = {key: values[key] for key in _IGNORED_FIELDS if key in values}
        yield made(f"terraform:{kind}", ignored, opaque=why)


def with_constants(resource: Resource, sources: Sources) -> Iterator[Resource]:
    """Read an object that is not known yet as the configuration beside the plan has it, with what is not constant."""
    kind = resource.type.removeprefix("terraform:")
    key = _OBJECTS.get(kind, "")
    late = bool(key) and resource.opaque == f"{key} is not known yet"
    body = sources.object_of(resource.address, key) if late else UNKNOWN
    if body is UNKNOWN:
        yield resource
    else:
        made = partial(Resource, resource.address, line=resource.line, id=resource.id)
        yield from _manifests(kind, {**resource.inputs, key: body}, made)


_IGNORED_FIELDS = ("ignore_fields", "computed_fields")
"""Paths of an object's fields whose changes a provider does not send, or that something in the cluster writes.

https://registry.terraform.io/providers/alekc/kubectl/latest/docs/resources/kubectl_manifest,
https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/manifest#computed-fields
"""


def _helm_release(values: JsonObject) -> JsonDict:
    """Convert a Helm release: https://registry.terraform.io/providers/hashicorp/helm/latest/docs/resources/release."""
    merged: JsonDict = {}
    written = values.get("values")
    settings = [values.get(key) for key in ("set", "set_sensitive", "set_list", "set_wo")]
    unread = UNKNOWN in (written, *settings, *as_list(written))
    for text in as_list(written):
        try:
            parsed = parse_yaml(text) if isinstance(text, str) else ()
        except Rejected:
            parsed, unread = (), True
        _merge(merged, parsed[0].data if parsed else {})
    for setting in (mapping(one) for item in settings for one in as_list(item)):
        name, value = setting.get("name"), setting.get("value")
        if isinstance(value, str) and setting.get("type") != "literal":
            unread = unread or ("," in value and "=" in value)  # another setting follows, as on the command line
            value = {"true": True, "false": False}.get(value, UNKNOWN if _LIST.search(value) else value)
        if not isinstance(name, str):
            unread = True
        elif "\\" in name or name.count(".") >= MAX_DEPTH:
            merged.setdefault(name, value)  # escaped dots switch no GPU software
        else:
            above, bracket, _ = name.partition("[")
            *parents, last = above.split(".")
            into = merged
            for parent in parents:
                below = into.get(parent)
                into[parent] = below if isinstance(below, dict) else {}
                into = into[parent]
            into[last] = UNKNOWN if bracket else value
    given = {key: values[key] for key in ("chart", "version", "devel", "name", "namespace") if values.get(key)}
    given |= {"postrender": values["postrender"]} if values.get("postrender") else {}
    return {
        **given,
        "values": UNKNOWN if unread else merged,
        **({"repositoryOpts": {"repo": values["repository"]}} if values.get("repository") else {}),
    }


# https://helm.sh/docs/intro/using_helm/#the-format-and-limitations-of---set
_LIST = re.compile(r"^\{|,")


def _merge(into: JsonDict, other: Any) -> None:
    for key, value in mapping(other).items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def as_list(value: Any) -> list[Any]:
    """Return a value that is a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def types_read() -> list[str]:
    """Return every Terraform type that is read, for people."""
    own = (
        "azapi_resource",
        "azapi_resource_action",
        "azapi_update_resource",
        "helm_release",
        *_TEXTS,
        *(f"{name}_v1" for name in _TEXTS),
    )
    return sorted({*terraform_names(), *_TEMPLATES, *_OBJECTS, *own})
