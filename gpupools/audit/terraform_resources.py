"""One resource of Terraform, of a plan or a state, in Pulumi's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupools.audit import kubernetes
from gpupools.audit.document import Resource
from gpupools.audit.terraform_names import Names, terraform_names
from gpupools.audit.terraform_sources import Sources
from gpupools.common.bounded_yaml import MAX_DEPTH, Value, parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN


@dataclass(frozen=True)
class TerraformResource:
    """One resource instance of a plan or a state."""

    type: str
    name: str
    address: str
    module: str
    """Address of the module instance, empty for the root."""
    index: Any
    """Its key under `count` or `for_each`."""
    id: str
    values: JsonObject


def resources_of(
    source: TerraformResource, values: JsonObject, refers: Mapping[str, tuple[str, ...]], text: Text | None
) -> Iterator[Resource]:
    """Convert one resource instance; nothing for a type that holds no pools.

    Args:
        source: The instance.
        values: Its values in Terraform's shape, with `UNKNOWN`.
        refers: Addresses it refers to, by Terraform's names.
        text: The file; None for a resource of Pulumi that bridges Terraform's.
    """
    line = text.line_of(source.address) if text is not None else None
    names = terraform_names().get(source.type)
    if names is not None:
        inputs = names.wire(_with_effective_taints(values) if source.type.startswith("google_container") else values)
        if source.type == "azurerm_kubernetes_cluster":
            _add_critical_addons_taint(inputs)
        yield Resource(
            address=source.address,
            type=names.type,
            inputs=inputs,
            line=line,
            id=source.id,
            refers={_wire_path(names, key): addresses for key, addresses in refers.items()},
            spelled=names.says,
            takes_no_taints=source.type == "azurerm_kubernetes_cluster",
        )
    elif source.type in ("azapi_resource", "azapi_update_resource") or _sends_resource(source.type, values):
        yield from _azapi(source, values, line)
    elif source.type in _OBJECTS:
        yield from _manifests(source, values, line)
    elif source.type.removesuffix("_v1") in _TEXTS:
        kind, names_ = _TEXTS[source.type.removesuffix("_v1")]
        inputs = {theirs: values.get(ours) for ours, theirs in names_.items()}
        yield Resource(address=source.address, type=f"kubernetes:v1:{kind}", inputs={"kind": kind, **inputs}, line=line)
    elif path := writes_pools(source.type, values):
        why = f"it writes to {path}"
        yield Resource(
            address=source.address,
            type=f"terraform:{source.type}",
            inputs=values,
            line=line,
            id=source.id,
            opaque=why,
        )
    elif source.type == "helm_release":
        yield Resource(
            address=source.address, type="kubernetes:helm.sh/v3:Release", inputs=_helm_release(values), line=line
        )
    elif source.type in _TEMPLATES:
        token, renamed = _TEMPLATES[source.type]
        inputs = {theirs: _camel(values.get(ours), own=True) for ours, theirs in renamed.items()}
        yield Resource(address=source.address, type=token, inputs=inputs, line=line, id=source.id)
    elif source.type in AWSCC:
        yield Resource(
            address=source.address,
            type=AWSCC[source.type],
            inputs=_camel(values),
            line=line,
            id=source.id,
            refers={_camel_word(key): addresses for key, addresses in refers.items()},
        )
    else:
        yield Resource(address=source.address, type=f"terraform:{source.type}", inputs=values, line=line, id=source.id)


_TEXTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "kubernetes_config_map": ("ConfigMap", {"data": "data", "binary_data": "binaryData"}),
    "kubernetes_secret": ("Secret", {"data": "stringData", "binary_data": "data", "type": "type"}),
}
"""Kind and fields of what holds objects as text: the provider encodes what it calls data.

https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/secret_v1
"""

_STACK = {
    "name": "name",
    "stack_set_name": "stackSetName",
    "template_body": "templateBody",
    "template_url": "templateUrl",
}
_DEPLOYMENT = "azure:core/{0}TemplateDeployment:{1}TemplateDeployment"
_TEMPLATES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "aws_cloudformation_stack": ("aws:cloudformation/stack:Stack", _STACK),
    "aws_cloudformation_stack_set": ("aws:cloudformation/stackSet:StackSet", _STACK),
    "awscc_cloudformation_stack": ("aws-native:cloudformation:Stack", _STACK),
    "awscc_cloudformation_stack_set": ("aws-native:cloudformation:StackSet", _STACK),
    "aws_cloudcontrolapi_resource": (
        "aws:cloudcontrol/resource:Resource",
        {"type_name": "typeName", "desired_state": "desiredState"},
    ),
    "azurerm_template_deployment": (
        _DEPLOYMENT.format("", ""),
        {"template_body": "templateBody"},
    ),
    **{
        f"azurerm_{scope}_template_deployment": (
            _DEPLOYMENT.format(word[:1].lower() + word[1:], word),
            {"template_content": "templateContent"},
        )
        for scope, word in (
            *(("resource_group", "ResourceGroup"), ("subscription", "Subscription")),
            *(("management_group", "ManagementGroup"), ("tenant", "Tenant")),
        )
    },
}
"""Pulumi's type and inputs of what holds a whole template, or a resource as text."""

AWSCC: Mapping[str, str] = {
    "awscc_eks_nodegroup": "aws-native:eks:Nodegroup",
    "awscc_ec2_launch_template": "aws-native:ec2:LaunchTemplate",
    "awscc_ec2_instance": "aws-native:ec2:Instance",
    "awscc_ec2_ec2_fleet": "aws-native:ec2:Ec2Fleet",
    "awscc_ec2_spot_fleet": "aws-native:ec2:SpotFleet",
    "awscc_autoscaling_launch_configuration": "aws-native:autoscaling:LaunchConfiguration",
    "awscc_autoscaling_auto_scaling_group": "aws-native:autoscaling:AutoScalingGroup",
}
"""Pulumi's type of the Cloud Control provider's resources, which are CloudFormation's in small letters.

https://registry.terraform.io/providers/hashicorp/awscc/latest/docs
"""


def _camel_word(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _camel(value: Any, own: bool = False) -> Any:
    """Write names as Pulumi does; `own` for a map whose keys are their author's."""
    if isinstance(value, dict):
        return {
            key if own else _camel_word(key): _camel(item, key in ("labels", "tags") and isinstance(item, dict))
            for key, item in value.items()
        }
    return [_camel(item) for item in value] if isinstance(value, list) else value


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
        return [_with_effective_taints(each) for each in value]
    if not isinstance(value, dict):
        return value
    inside = {key: _with_effective_taints(each) for key, each in value.items()}
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


def writes_pools(kind: str, values: JsonObject) -> str:
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


def _azapi(source: TerraformResource, values: JsonObject, line: int | None) -> Iterator[Resource]:
    """Read a resource in ARM's own JSON: https://registry.terraform.io/providers/Azure/azapi/latest/docs."""
    token = _AZAPI.get(str(values.get("type", "")).partition("@")[0].lower())
    properties, secret = _properties(values.get("body")), _properties(values.get("sensitive_body"))
    if secret is UNKNOWN:  # it may say what the body leaves out
        properties = {**_NOT_KNOWN, **properties} if isinstance(properties, dict) else UNKNOWN
    elif isinstance(secret, dict) and properties is not UNKNOWN:
        merged: JsonDict = {}
        for part_ in (properties, secret):
            _merge(merged, part_)
        properties = merged
    part = (
        source.type == "azapi_update_resource" or values.get("action") or str(values.get("method")).upper() == "PATCH"
    )
    sent = source.type != "azapi_resource_action" or isinstance(properties, dict)
    if token is not None and (part or not sent):
        why = "it changes part of a resource that is defined elsewhere" if sent else "its body is not known yet"
        yield Resource(address=source.address, type=f"terraform:{source.type}", inputs=values, line=line, opaque=why)
    elif token is None:
        kind = values.get("type")
        named = f"arm:{kind.partition('@')[0]}" if isinstance(kind, str) else f"terraform:{source.type}"
        why = "" if isinstance(kind, str) else "its type is not known yet"
        yield Resource(address=source.address, type=named, inputs=values, line=line, id=source.id, opaque=why)
    else:
        inputs = properties if isinstance(properties, dict) else {}
        if properties is UNKNOWN:
            inputs = dict(_NOT_KNOWN)
        if token == _AZAPI["microsoft.resources/deployments"]:
            inputs = {"properties": inputs}
        yield Resource(address=source.address, type=token, inputs=inputs, line=line, id=source.id)


_NOT_KNOWN = {"vmSize": UNKNOWN, "nodeTaints": UNKNOWN, "agentPoolProfiles": UNKNOWN, "template": UNKNOWN}


def _properties(body: Any) -> Any:
    """Return the properties in a body of azapi's; version 1 takes text."""
    if isinstance(body, str):
        try:
            parsed = parse_yaml(body)
        except Rejected:
            return UNKNOWN
        body = parsed[0].data if parsed else None
    return body if body is UNKNOWN else as_map(body).get("properties")


_OBJECTS = {"kubernetes_manifest": "manifest", "kubectl_manifest": "yaml_body", "kustomization_resource": "manifest"}
"""Attribute with the object that a resource applies, as a value or as text; `kubectl_manifest` of any maker."""


def _manifests(source: TerraformResource, values: JsonObject, line: int | None) -> Iterator[Resource]:
    """Read the objects that a resource applies."""
    key = _OBJECTS[source.type]
    body = values.get(key)
    try:
        documents = parse_yaml(body, unique=True) if isinstance(body, str) else (Value(body),)
    except Rejected as rejected:
        documents, why = (), f"{key}: {rejected.problems[0].what}"
    else:
        why = f"{key} is not known yet" if body is UNKNOWN else f"{key} is not a Kubernetes object"
    if any(str(path).startswith("spec") for key in _IGNORED_FIELDS for path in as_list(values.get(key))):
        documents = tuple(replace(one, data={**as_map(one.data), "spec": UNKNOWN}) for one in documents)
    objects = [read for value in documents for read in kubernetes.objects(value)]
    for read in objects:
        yield Resource(address=source.address, type=read.type, inputs=read.inputs, line=line, spelled=read.spelled)
    if not objects:
        ignored = {key: values[key] for key in _IGNORED_FIELDS if key in values}
        yield Resource(source.address, f"terraform:{source.type}", ignored, line=line, opaque=why)


def with_constants(resource: Resource, sources: Sources) -> Iterator[Resource]:
    """Read an object that is not known yet as the configuration beside the plan has it, with what is not constant."""
    kind = resource.type.removeprefix("terraform:")
    key = _OBJECTS.get(kind, "")
    late = bool(key) and resource.opaque == f"{key} is not known yet"
    body = sources.object_of(resource.address, key) if late else UNKNOWN
    if body is UNKNOWN:
        yield resource
    else:
        instance = TerraformResource(kind, "", resource.address, "", None, resource.id, {})
        yield from _manifests(instance, {**resource.inputs, key: body}, resource.line)


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
    for setting in (one for each in settings for one in as_list(each)):
        for name, value in _helm_settings(as_map(setting)):
            # Escaped dots switch no GPU software.
            steps = _SET_STEP.findall(name) if _SET.fullmatch(name) else []
            if 0 < len(steps) <= MAX_DEPTH:
                _set_value(merged, steps, value)
            else:
                merged.setdefault(name, value)  # it may be an object that the chart only passes on
    given = {key: values[key] for key in ("chart", "version", "devel", "name", "namespace") if values.get(key)}
    given |= {"postrender": values["postrender"]} if values.get("postrender") else {}
    return {
        **given,
        "values": UNKNOWN if unread else merged,
        **({"repositoryOpts": {"repo": values["repository"]}} if values.get("repository") else {}),
    }


# https://helm.sh/docs/intro/using_helm/#the-format-and-limitations-of---set
_SET = re.compile(r"[^.\[\]\\{]+(?:\[\d{1,3}\])*(?:\.[^.\[\]\\{]+(?:\[\d{1,3}\])*)*")
_SET_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


_COMMA = re.compile(r"(?<!\\),")


def _helm_settings(setting: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield what one setting sets: `{a,b}` is a list, and after a comma another one follows, as on the command line."""
    name, value = setting.get("name"), setting.get("value")
    if not isinstance(name, str):
        return
    if not isinstance(value, str) or setting.get("type") == "literal":
        yield name, value
    elif value.startswith("{") and value.endswith("}"):
        yield name, [_unescaped(one) for one in _COMMA.split(value[1:-1])]
    else:
        for place, one in enumerate(_COMMA.split(value)):
            other, equals, rest = ("", "", one) if place == 0 else one.partition("=")
            if equals or place == 0:
                plain = _unescaped(rest)
                yield other.strip() or name, {"true": True, "false": False}.get(plain, plain)


def _unescaped(value: str) -> str:
    return value.replace("\\,", ",")


def _set_value(held: Any, steps: list[str], value: Any) -> Any:
    """Set one value as `--set` does, in an existing structure or a new one, and return it."""
    if not steps:
        return value
    step, *rest = steps
    if not step.startswith("["):
        below = held if isinstance(held, dict) else {}
        below[step] = _set_value(below.get(step), rest, value)
        return below
    place, listed = int(step[1:-1]), held if isinstance(held, list) else []
    listed += [None] * (place + 1 - len(listed))
    listed[place] = _set_value(listed[place], rest, value)
    return listed


def _merge(into: JsonDict, other: Any) -> None:
    for key, value in as_map(other).items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def as_map(value: Any) -> JsonObject:
    """Return a value that is a map; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


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
    return sorted({*terraform_names(), *_TEMPLATES, *AWSCC, *_OBJECTS, *own})
