"""A Terraform or OpenTofu plan as JSON: https://developer.hashicorp.com/terraform/internals/json-format.

Judges what will be there after the plan was applied, in every module. A value the plan does not know is `UNKNOWN`
where the configuration gives it, and absent where only the provider computes it, as in a Pulumi program's inputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

from gpupools.base.bounded_yaml import Value, parse_yaml
from gpupools.base.errors import Problem, Rejected, shown
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.declared_stack import Gap
from gpupools.policies.documents import kubernetes
from gpupools.policies.documents.document import Document, Resource, bounded
from gpupools.policies.documents.terraform_names import Names, terraform_names
from gpupools.policies.documents.terraform_sources import Sources
from gpupools.policies.documents.text import Text, all_maps, damaged, one_map

FORM = "Terraform plan"

_NEVER_COMPUTED = frozenset({"taint", "node_taints"})
"""No provider computes these, so one that is unknown was written in a dynamic block, which plans do not show."""


_PLANNED = ("planned_values", "root_module")


def recognises(data: Any) -> bool:
    """Say whether this is a plan."""
    return (
        isinstance(data, dict) and "format_version" in data and ("resource_changes" in data or "planned_values" in data)
    )


def read(text: Text) -> Document:
    """Read every managed resource that the plan leaves in place.

    Raises:
        Rejected: The format is newer than this reader, planning failed half-way, or the file is damaged.
    """
    data = text.values[0].data
    check_version(data)
    if data.get("errored") is True:
        what = "is a plan that ended with an error, so resources are missing"
        raise Rejected([Problem((), what, "cure that and plan again")])
    changes = all_maps(data.get("resource_changes"), ("resource_changes",))
    deferred = all_maps(data.get("deferred_changes"), ("deferred_changes",))
    planned = one_map(one_map(data.get("planned_values"), _PLANNED[:1]).get("root_module"), _PLANNED)
    if not changes and any(planned.get(key) for key in ("resources", "child_modules")):
        raise damaged(("resource_changes",), data.get("resource_changes"))
    plan = _Plan(text, _modules(_map(data.get("configuration")).get("root_module"), ()))
    put_off = [
        (
            ("deferred_changes", index, "resource_change"),
            one_map(each.get("resource_change"), ("deferred_changes", index)),
        )
        for index, each in enumerate(deferred)
    ]
    for at, change in [*((("resource_changes", index), each) for index, each in enumerate(changes)), *put_off]:
        for key in ("mode", "type"):
            if not isinstance(change.get(key), str):
                raise damaged((*at, key), change.get(key))
        outcome = one_map(change.get("change"), (*at, "change"))
        actions = outcome.get("actions")
        if not isinstance(actions, list) or not actions:
            raise damaged((*at, "change", "actions"), actions)
        if change["mode"] == "managed" and actions not in (["delete"], ["forget"], ["read"]):
            if not isinstance(outcome.get("after"), dict):
                raise damaged((*at, "change", "after"), outcome.get("after"))
            plan.found.append(
                Found(
                    type=change["type"],
                    name=str(change.get("name")),
                    address=str(change.get("address", "")),
                    module=str(change.get("module_address", "")),
                    index=change.get("index"),
                    id=str(_map(outcome.get("before")).get("id") or "") if "create" not in actions else "",
                    values=outcome["after"],
                )
            )
            plan.unknown.append(outcome.get("after_unknown"))
    others = (*_actions(data, text), *plan.data_sources(data), *_untainted(changes, text))
    resources, beyond = bounded(chain(plan.resources(), others), len(plan.found) + len(others))
    sources = {
        (*calls, name): str(_map(call).get("source", ""))
        for calls, module in plan.modules.items()
        for name, call in _map(module.get("module_calls")).items()
    }
    told = {str(each.get("address")) for each in (*changes, *(each for _, each in put_off))}
    return Document(FORM, resources, (*_gaps(data, len(deferred), told), *beyond), sources)


def _gaps(data: Mapping[str, Any], deferred: int, told: Collection[str]) -> Iterator[Gap]:
    """Say so where the plan does not hold everything that is there or that the configuration asks for.

    A whole plan tells of each resource, of those that stay as they are too. One with -refresh-only says that it is
    complete and tells of none; OpenTofu's does not say whether it is.
    """
    again = "apply it and plan again, or plan without -target, -exclude and -refresh-only"
    if deferred:
        what = (
            f"{deferred} change{'s are' if deferred > 1 else ' is'} put off to a later plan, which cannot be verified"
        )
        yield Gap("deferred-changes", what, again)
    elif data.get("complete") is False:
        yield Gap("incomplete-plan", "the plan says it is not complete, so what is missing cannot be verified", again)
    elif left_out := len({*_managed(data.get("prior_state"), "values"), *_managed(data, "planned_values")} - {*told}):
        what = (
            f"{left_out} resource{'s' if left_out > 1 else ''} of the state {'are' if left_out > 1 else 'is'} left out "
            "of the plan's changes, which cannot be verified"
        )
        yield Gap("incomplete-plan", what, again)


def _managed(data: Any, key: str) -> Iterator[str]:
    """Yield the addresses of the managed resources in the values of a state or of what is planned."""
    modules = [_map(_map(_map(data).get(key)).get("root_module"))]
    while modules:
        module = modules.pop()
        modules += map(_map, _list(module.get("child_modules")))
        given = map(_map, _list(module.get("resources")))
        yield from (str(one.get("address")) for one in given if one.get("mode") == "managed")


def _actions(data: Mapping[str, Any], text: Text) -> Iterator[Resource]:
    """Read what Terraform 1.14 runs beside its changes.

    https://developer.hashicorp.com/terraform/language/block/action; its form in a plan is in hashicorp/terraform
    internal/command/jsonplan/action_invocations.go.
    """
    invoked = [_map(one) for one in _list(data.get("action_invocations"))]
    put_off = [_map(_map(one).get("action_invocation")) for one in _list(data.get("deferred_action_invocations"))]
    for one in (*invoked, *put_off):
        values = _as_run(_known(one.get("config_values"), one.get("config_unknown"), None))
        if isinstance(one.get("type"), str):
            found = Found(one["type"], str(one.get("name")), str(one.get("address", "")), "", None, "", values)
            yield from resources_of(found, values, {}, text)


def _untainted(changes: list[Mapping[str, Any]], text: Text) -> Iterator[Resource]:
    """Read where the plan takes taints off nodes, of which no resource is left.

    https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/node_taint
    """
    for one in changes:
        change = _map(one.get("change"))
        if one["type"] == "kubernetes_node_taint" and change.get("actions") != ["forget"]:
            before, after = (_list(_map(change.get(key)).get("taint")) for key in ("before", "after"))
            if any(taint not in after for taint in before):
                address = f"{one.get('address')} (as it is)"
                why = "the plan takes a taint off nodes"
                yield Resource(
                    address, f"terraform:{one['type']}", {}, line=text.line_of(str(one.get("address"))), opaque=why
                )


_READ = ("data", "ephemeral")
_RUN_BY_READING = frozenset({"aws_lambda_invocation", "azapi_resource_action", "external", "http", "local_command"})
_RUN_BY_READING |= {"shell_script", "terracurl_request"}
"""Data sources that run or send something while they are read; what all others return counts where it is used."""


def _as_run(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write a program and its arguments as one command.

    https://registry.terraform.io/providers/hashicorp/external/latest/docs/data-sources/external,
    https://registry.terraform.io/providers/hashicorp/local/latest/docs/actions/command.
    """
    command, arguments = values.get("command"), values.get("arguments")
    program = values.get("program", [command, *_list(arguments)] if isinstance(command, str) else command)
    if isinstance(program, list) and program:
        return {**values, "program": {"command": program}}
    return values if program is None else {**values, "program": UNKNOWN}


def check_version(data: Mapping[str, Any]) -> None:
    """Refuse a major version of the format that is newer: minor ones only add.

    Raises:
        Rejected: It is newer.
    """
    version = data.get("format_version")
    if not isinstance(version, str) or version.partition(".")[0] not in ("0", "1"):
        what = f"has Terraform's JSON format {shown(version)}; 1 is the newest known here"
        raise Rejected([Problem((), what, "write it with the Terraform this project was tested with, 1.x")])


@dataclass(frozen=True)
class Found:
    """One resource instance of a plan or a state."""

    type: str
    name: str
    address: str
    module: str
    """Address of the module instance, empty for the root."""
    index: Any
    """Its key under `count` or `for_each`."""
    id: str
    values: Mapping[str, Any]


def resources_of(
    found: Found, values: Mapping[str, Any], refers: Mapping[str, tuple[str, ...]], text: Text
) -> Iterator[Resource]:
    """Convert one resource instance; nothing for a type that holds no pools.

    Args:
        found: The instance.
        values: Its values in Terraform's shape, with `UNKNOWN`.
        refers: Addresses it refers to, by Terraform's names.
        text: The file.
    """
    line = text.line_of(found.address)
    names = terraform_names().get(found.type)
    if names is not None:
        inputs = names.wire(values)
        if found.type == "azurerm_kubernetes_cluster":
            _add_critical_addons_taint(inputs)
        yield Resource(
            address=found.address,
            type=names.type,
            inputs=inputs,
            line=line,
            id=found.id,
            refers={_wire_path(names, key): addresses for key, addresses in refers.items()},
            spelled=names.says,
            takes_no_taints=found.type == "azurerm_kubernetes_cluster",
        )
    elif found.type in ("azapi_resource", "azapi_update_resource") or _puts(found.type, values):
        yield from _azapi(found, values, line)
    elif found.type in _OBJECTS:
        yield from _manifests(found, values, line)
    elif found.type.removesuffix("_v1") in _TEXTS:
        kind, names_ = _TEXTS[found.type.removesuffix("_v1")]
        inputs = {theirs: values.get(ours) for ours, theirs in names_.items()}
        yield Resource(address=found.address, type=f"kubernetes:v1:{kind}", inputs={"kind": kind, **inputs}, line=line)
    elif path := _writes_pools(found.type, values):
        why = f"it writes to {path}"
        yield Resource(
            address=found.address, type=f"terraform:{found.type}", inputs=values, line=line, id=found.id, opaque=why
        )
    elif found.type == "helm_release":
        yield Resource(address=found.address, type="kubernetes:helm.sh/v3:Release", inputs=_release(values), line=line)
    elif found.type in _TEMPLATES:
        token, renamed = _TEMPLATES[found.type]
        inputs = {theirs: _camel(values.get(ours), own=True) for ours, theirs in renamed.items()}
        yield Resource(address=found.address, type=token, inputs=inputs, line=line, id=found.id)
    elif found.type in AWSCC:
        yield Resource(
            address=found.address,
            type=AWSCC[found.type],
            inputs=_camel(values),
            line=line,
            id=found.id,
            refers={_camel_word(key): addresses for key, addresses in refers.items()},
        )
    else:
        yield Resource(address=found.address, type=f"terraform:{found.type}", inputs=values, line=line, id=found.id)


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
    "stack_instances_group": "stackInstancesGroup",
    "template_body": "templateBody",
    "template_url": "templateUrl",
    "parameters": "parameters",
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
        {"template_body": "templateBody", "parameters_body": "parametersBody", "parameters": "parameters"},
    ),
    **{
        f"azurerm_{scope}_template_deployment": (
            _DEPLOYMENT.format(word[:1].lower() + word[1:], word),
            {"template_content": "templateContent", "parameters_content": "parametersContent"},
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


def _add_critical_addons_taint(inputs: Mapping[str, Any]) -> None:
    """Add what `only_critical_addons_enabled` does, the only taint azurerm lets the default pool have.

    https://registry.terraform.io/providers/hashicorp/azurerm/latest/docs/resources/kubernetes_cluster#only_critical_addons_enabled-1
    """
    for pool in _list(inputs.get("agentPoolProfiles")):
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


def _writes_pools(kind: str, values: Mapping[str, Any]) -> str:
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


def _puts(kind: str, values: Mapping[str, Any]) -> bool:
    """Say whether an action sends a whole resource, or a part of one.

    https://registry.terraform.io/providers/Azure/azapi/latest/docs/resources/resource_action
    """
    method = values.get("method")
    return kind == "azapi_resource_action" and (method is UNKNOWN or str(method).upper() in ("PUT", "PATCH"))


def _azapi(found: Found, values: Mapping[str, Any], line: int | None) -> Iterator[Resource]:
    """Read a resource in ARM's own JSON: https://registry.terraform.io/providers/Azure/azapi/latest/docs."""
    token = _AZAPI.get(str(values.get("type", "")).partition("@")[0].lower())
    properties, secret = _properties(values.get("body")), _properties(values.get("sensitive_body"))
    if secret is UNKNOWN:  # it may say what the body leaves out
        properties = {**_NOT_KNOWN, **properties} if isinstance(properties, dict) else UNKNOWN
    elif isinstance(secret, dict) and properties is not UNKNOWN:
        merged: dict[str, Any] = {}
        for part_ in (properties, secret):
            _merge(merged, part_)
        properties = merged
    part = found.type == "azapi_update_resource" or values.get("action") or str(values.get("method")).upper() == "PATCH"
    sent = found.type != "azapi_resource_action" or isinstance(properties, dict)
    if token is not None and (part or not sent):
        why = "it changes part of a resource that is not in this resource" if sent else "its body is not known yet"
        yield Resource(address=found.address, type=f"terraform:{found.type}", inputs=values, line=line, opaque=why)
    elif token is None:
        kind = values.get("type")
        named = f"arm:{kind.partition('@')[0]}" if isinstance(kind, str) else f"terraform:{found.type}"
        why = "" if isinstance(kind, str) else "its type is not known yet"
        yield Resource(address=found.address, type=named, inputs=values, line=line, id=found.id, opaque=why)
    else:
        inputs = properties if isinstance(properties, dict) else {}
        if properties is UNKNOWN:
            inputs = dict(_NOT_KNOWN)
        if token == _AZAPI["microsoft.resources/deployments"]:
            inputs = {"properties": inputs}
        yield Resource(address=found.address, type=token, inputs=inputs, line=line, id=found.id)


_NOT_KNOWN = {"vmSize": UNKNOWN, "nodeTaints": UNKNOWN, "agentPoolProfiles": UNKNOWN, "template": UNKNOWN}


def _properties(body: Any) -> Any:
    """Return the properties in a body of azapi's; version 1 takes text."""
    if isinstance(body, str):
        try:
            parsed = parse_yaml(body)
        except Rejected:
            return UNKNOWN
        body = parsed[0].data if parsed else None
    return body if body is UNKNOWN else _map(body).get("properties")


_OBJECTS = {"kubernetes_manifest": "manifest", "kubectl_manifest": "yaml_body", "kustomization_resource": "manifest"}
"""Attribute with the object that a resource applies, as a value or as text; `kubectl_manifest` of any maker."""


def _manifests(found: Found, values: Mapping[str, Any], line: int | None) -> Iterator[Resource]:
    """Read the objects that a resource applies."""
    key = _OBJECTS[found.type]
    body = values.get(key)
    try:
        documents = parse_yaml(body, unique=True) if isinstance(body, str) else (Value(body),)
    except Rejected as rejected:
        documents, why = (), f"{key}: {rejected.problems[0].what}"
    else:
        why = f"{key} is not known yet" if body is UNKNOWN else f"{key} is no Kubernetes object"
    left_open = [path for key in _LEFT_OPEN for path in _list(values.get(key)) if isinstance(path, str)]
    documents = tuple(replace(one, data=_left_open(one.data, left_open)) for one in documents)
    objects = [read for value in documents for read in kubernetes.objects(value)]
    for read in objects:
        yield Resource(address=found.address, type=read.type, inputs=read.inputs, line=line, spelled=read.spelled)
    if not objects:
        yield Resource(address=found.address, type=f"terraform:{found.type}", inputs={}, line=line, opaque=why)


_LEFT_OPEN = ("ignore_fields", "computed_fields")
"""Paths of an object's fields whose changes a provider does not send, or that something in the cluster writes.

https://registry.terraform.io/providers/alekc/kubectl/latest/docs/resources/kubectl_manifest,
https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/manifest#computed-fields
"""


def _left_open(value: Any, paths: list[str]) -> Any:
    """Return an object in which the fields at some paths are not known, where they say anything of pools."""
    for path in paths:
        steps = re.findall(r"[^.\[\]\"]+", path)
        if steps[:1] == ["spec"]:
            value = _opened(value, steps)
    return value


def _opened(value: Any, steps: list[str]) -> Any:
    if not steps:
        return UNKNOWN
    if isinstance(value, list):
        return UNKNOWN
    return {**value, steps[0]: _opened(value[steps[0]], steps[1:])} if steps[0] in _map(value) else value


def _release(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a Helm release: https://registry.terraform.io/providers/hashicorp/helm/latest/docs/resources/release."""
    merged: dict[str, Any] = {}
    written = values.get("values")
    settings = [values.get(key) for key in ("set", "set_sensitive", "set_list", "set_wo")]
    unread = UNKNOWN in (written, *settings, *_list(written))
    for text in _list(written):
        try:
            parsed = parse_yaml(text) if isinstance(text, str) else ()
        except Rejected:
            parsed, unread = (), True
        _merge(merged, parsed[0].data if parsed else {})
    for setting in (one for each in settings for one in _list(each)):
        for name, value in _assigned(_map(setting)):
            # Escaped dots and what lies deep down switch no GPU software.
            steps = _SET_STEP.findall(name) if _SET.fullmatch(name) else []
            if 0 < len(steps) <= _MAX_STEPS:
                _put(merged, steps, value)
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


def _assigned(setting: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what one setting sets: `{a,b}` is a list, and after a comma another one follows, as on the command line."""
    name, value = setting.get("name"), setting.get("value")
    if not isinstance(name, str):
        return
    if not isinstance(value, str) or setting.get("type") == "literal":
        yield name, value
    elif value.startswith("{") and value.endswith("}"):
        yield name, [_plain(one) for one in _COMMA.split(value[1:-1])]
    else:
        for place, one in enumerate(_COMMA.split(value)):
            other, equals, rest = ("", "", one) if place == 0 else one.partition("=")
            if equals or place == 0:
                plain = _plain(rest)
                yield other.strip() or name, {"true": True, "false": False}.get(plain, plain)


def _plain(value: str) -> str:
    return value.replace("\\,", ",")


def _put(held: Any, steps: list[str], value: Any) -> Any:
    """Set one value as `--set` does, in what is there or anew, and return it."""
    if not steps:
        return value
    step, *rest = steps
    if not step.startswith("["):
        below = held if isinstance(held, dict) else {}
        below[step] = _put(below.get(step), rest, value)
        return below
    place, listed = int(step[1:-1]), held if isinstance(held, list) else []
    listed += [None] * (place + 1 - len(listed))
    listed[place] = _put(listed[place], rest, value)
    return listed


def _merge(into: dict[str, Any], other: Any) -> None:
    for key, value in _map(other).items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


_Name = tuple[tuple[str, ...], str, str]
"""Calls, type and name of a resource in the configuration."""


@dataclass
class _Plan:
    text: Text
    modules: Mapping[tuple[str, ...], Mapping[str, Any]]
    """Configuration of each module by the names of its calls."""
    found: list[Found] = field(default_factory=list)
    unknown: list[Any] = field(default_factory=list)

    def resources(self) -> Iterator[Resource]:
        for found, unknown in zip(self.found, self.unknown, strict=True):
            name = (_calls(found.module), found.type, found.name)
            given = self._block(name)
            values = _known(found.values, unknown, given)
            for key in _WRITE_ONLY.get(found.type, ()):
                if given is not None and values.get(key) is None and key in given.given:
                    values[key] = _written(given.given[key])
            if given is not None and found.type in _HASHED and _HASH.fullmatch(str(values.get("user_data"))):
                values["user_data"] = _written(given.given.get("user_data"))
            made = resources_of(found, values, self._refers(found, name, values), self.text)
            if unknown is True:
                made = (replace(one, opaque="nothing of it is known yet") for one in made)
            provisioners = tuple(_provisioners(self._configured.get(name, {})))
            yield from _provisioned(found, made, provisioners) if any(provisioners) else made

    @cached_property
    def _configured(self) -> Mapping[_Name, Mapping[str, Any]]:
        """What the configuration says of each resource, by calls, type and name."""
        return {
            (calls, str(resource.get("type")), str(resource.get("name"))): resource
            for calls, module in self.modules.items()
            for resource in _list(module.get("resources"))
            if isinstance(resource, dict) and resource.get("mode") not in _READ
        }

    def data_sources(self, data: Mapping[str, Any]) -> Iterator[Resource]:
        """Read the data sources that run something: as they were read, as they will be, or as they are written."""
        known: dict[_Name, list[tuple[str, Mapping[str, Any]]]] = {}
        for module, one, values in _data_read(data):
            name = (_calls(module), str(one["type"]), str(one.get("name")))
            known.setdefault(name, []).append((str(one.get("address", "")), values))
        for calls, module_ in self.modules.items():
            for given in map(_map, _list(module_.get("resources"))):
                if given.get("mode") in _READ and given.get("type") in _RUN_BY_READING:
                    name = (calls, str(given["type"]), str(given.get("name")))
                    address = ".".join((*(f"module.{call}" for call in calls), str(given.get("address", ""))))
                    values = {key: _written(each) for key, each in _map(given.get("expressions")).items()}
                    known.setdefault(name, [(address, values)])
        for (_, kind, _), instances in known.items():
            for address, values in instances:
                written = _writes_pools(kind, values)
                yield Resource(
                    address=address,
                    type=f"terraform:{kind}",
                    inputs=_as_run(values),
                    line=self.text.line_of(address),
                    opaque=f"it writes to {written}" if written else "",
                )

    def _block(self, name: _Name) -> _Block | None:
        """Return the expressions of a resource, the same for all its instances."""
        if name not in self._blocks:
            resource = self._configured.get(name)
            self._blocks[name] = None if resource is None else _Block(_map(resource.get("expressions")))
        return self._blocks[name]

    @cached_property
    def _blocks(self) -> dict[_Name, _Block | None]:
        return {}

    @cached_property
    def _instances(self) -> Mapping[_Name, _Alike]:
        instances: dict[_Name, _Alike] = {}
        for found in self.found:
            name = (_calls(found.module), found.type, found.name)
            instances.setdefault(name, _Alike(found.type)).add(found)
        return instances

    @cached_property
    def _neighbours(self) -> Mapping[str, Mapping[str, _Alike]]:
        """What stands in each module instance and can be referred to, by type."""
        neighbours: dict[str, dict[str, _Alike]] = {}
        for found in self.found:
            if found.type in terraform_names():
                module = neighbours.setdefault(found.module, {})
                module.setdefault(found.type, _Alike(found.type)).add(found)
        return neighbours

    def _refers(self, found: Found, name: _Name, values: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
        """Return, for each input, the resources it was made from, where that is certain."""
        resource = self._configured.get(name)
        if resource is None:
            return {}
        result: dict[str, tuple[str, ...]] = {}
        for key, value in values.items():
            names = self._names(name, resource, key)
            if names is not None:
                alike = [self._instances[one] for one in names if one in self._instances]
            elif not _holds_unknown(value):
                continue
            else:
                # Made from a local or in a dynamic block, which plans do not show, so the neighbours count.
                alike = [each for each in self._neighbours.get(found.module, {}).values() if each.type != found.type]
            certain = tuple(_made_together(found, alike)) or (tuple(_one_of(alike)) if names is not None else ())
            if certain:
                result[key] = certain
        if found.type in _OF_SEVERAL:
            for path, words in _blocks_in(_map(resource.get("expressions")), ""):
                names = self._said(words, resource, name[0])
                certain = tuple(
                    _made_together(found, [self._instances[one] for one in names if one in self._instances])
                )
                if certain:
                    result[path] = certain
        return result

    def _names(self, name: _Name, resource: Mapping[str, Any], key: str) -> tuple[_Name, ...] | None:
        """Return the resources that an input's expression names; None where the plan does not show them."""
        asked = (name, key)
        if asked not in self._named:
            given = _map(resource.get("expressions"))
            words = list(_references(given.get(key)))
            if key in given and not any(word.startswith("local.") for word in words):
                self._named[asked] = self._said(words, resource, name[0])
            else:
                self._named[asked] = None
        return self._named[asked]

    @cached_property
    def _named(self) -> dict[tuple[_Name, str], tuple[_Name, ...] | None]:
        return {}

    def _said(self, words: list[str], resource: Mapping[str, Any], calls: tuple[str, ...]) -> tuple[_Name, ...]:
        """Return the resources that the references of an expression lead to."""
        each = list(_references(resource.get("for_each_expression"))) if any(map(_EACH.match, words)) else []
        said = dict.fromkeys(other for word in words for other in (each if _EACH.match(word) else [word]))
        names = dict.fromkeys(one for word in said for one in self._resolved(word, calls, 0))
        return tuple(names) if len(names) <= _MAX_NAMES else ()

    def _resolved(self, said: str, calls: tuple[str, ...], depth: int) -> tuple[_Name, ...]:
        """Follow a reference through variables and outputs of modules to resources: (calls, type, name)."""
        parts = [part.partition("[")[0] for part in said.split(".", 3)[:3]]
        if depth > _MAX_STEPS or len(parts) < 2:
            return ()
        asked = (calls, *parts)
        if asked not in self._resolved_before:
            self._resolved_before[asked] = ()  # references that lead round in a circle end here
            names = dict.fromkeys(islice(self._followed(parts, calls, depth), _MAX_NAMES + 1))
            self._resolved_before[asked] = tuple(names)
        return self._resolved_before[asked]

    @cached_property
    def _resolved_before(self) -> dict[tuple[Any, ...], tuple[_Name, ...]]:
        return {}

    def _followed(self, parts: list[str], calls: tuple[str, ...], depth: int) -> Iterator[_Name]:
        first, second = parts[0], parts[1]
        if first == "var":
            if calls:
                call = _map(_map(_map(self.modules.get(calls[:-1])).get("module_calls")).get(calls[-1]))
                for other in dict.fromkeys(_references(_map(call.get("expressions")).get(second))):
                    yield from self._resolved(other, calls[:-1], depth + 1)
        elif first == "module":
            if len(parts) > 2:
                output = _map(_map(_map(self.modules.get((*calls, second))).get("outputs")).get(parts[2]))
                for other in dict.fromkeys(_references(output.get("expression"))):
                    yield from self._resolved(other, (*calls, second), depth + 1)
        elif first not in _NO_RESOURCES:
            yield calls, first, second


def _data_read(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the data sources that run something, each with its module and its values as they were read or will be."""
    modules = [_map(_map(_map(data.get("prior_state")).get("values")).get("root_module"))]
    while modules:
        module = modules.pop()
        modules += [_map(each) for each in _list(module.get("child_modules"))]
        for one in map(_map, _list(module.get("resources"))):
            if one.get("mode") == "data" and one.get("type") in _RUN_BY_READING:
                yield str(module.get("address", "")), one, _map(one.get("values"))
    for one in map(_map, _list(data.get("resource_changes"))):
        if one.get("mode") == "data" and one.get("type") in _RUN_BY_READING:
            change = _map(one.get("change"))
            yield (
                str(one.get("module_address", "")),
                one,
                _known(change.get("after"), change.get("after_unknown"), None),
            )


_SENT = ("sensitive_body",)
_WRITE_ONLY: Mapping[str, tuple[str, ...]] = {
    "azapi_data_plane_resource": _SENT,
    "azapi_resource": _SENT,
    "azapi_resource_action": _SENT,
    "azapi_update_resource": _SENT,
    "helm_release": ("set_wo",),
}
"""Arguments that no plan shows, so that only the configuration tells that they are there.

https://developer.hashicorp.com/terraform/language/manage-sensitive-data/write-only
"""


_HASHED = frozenset({"aws_instance", "aws_launch_configuration", "aws_spot_instance_request"})
"""Resources of which the provider kept a hash in place of `user_data` before its version 6.

https://github.com/hashicorp/terraform-provider-aws, internal/service/ec2/ec2_instance.go at v5, `userDataHashSum`.
"""
_HASH = re.compile(r"[0-9a-f]{40}")


def _written(expression: Any) -> Any:
    """Return what an expression of the configuration says: a constant, blocks of such, or `UNKNOWN`."""
    if isinstance(expression, list):
        return [{key: _written(each) for key, each in _map(block).items()} for block in expression]
    given = _map(expression)
    if "constant_value" in given:
        return given["constant_value"]
    return UNKNOWN if "references" in given else {key: _written(each) for key, each in given.items()} or None


def _provisioners(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what each provisioner runs; plans show only what is written without references, and those."""
    for each in _list(resource.get("provisioners")):
        expressions = _map(_map(each).get("expressions"))
        given: Mapping[str, Any] = {key: _written(expressions[key]) for key in _RUN if key in expressions}
        if given:
            beside = (_written(expressions.get(key)) for key in ("interpreter", "environment"))
            typed = _as_typed(given, *beside)
            known = UNKNOWN not in given.values() and UNKNOWN not in _list(typed.get("command"))
            made_from = {str(resource.get("type")): None, **dict.fromkeys(_references(expressions))}
            given = typed if known else {**typed, "made_from": list(made_from)}
        yield given


def with_sources(resource: Resource, sources: Sources) -> Resource:
    """Add to what provisioners run what the configuration beside the plan says of it."""
    listed = resource.inputs.get("provisioner")
    if not resource.type.startswith("terraform:") or not isinstance(listed, list):
        return resource
    made: list[Mapping[str, Any]] = []
    for place, one in enumerate(listed):
        filled = dict(one)
        for key in (key for key in _RUN if key in one):
            if one[key] is not UNKNOWN:
                each = [sources.with_scripts(word) if isinstance(word, str) else word for word in _list(one[key])]
                filled[key] = sources.with_scripts(one[key]) if isinstance(one[key], str) else each
            elif said := sources.provisioner(resource.address, place, key):
                words = sources.provisioner(resource.address, place, "interpreter").splitlines()
                filled[key] = [*words, said] if words and key == "command" else said
        made.append(filled)
    return replace(resource, inputs={**resource.inputs, "provisioner": made})


def _as_typed(run: Mapping[str, Any], interpreter: Any, environment: Any) -> Mapping[str, Any]:
    """Put before a command what runs it, and the variables that it may be made of."""
    command = run.get("command")
    if not isinstance(command, str):
        return run
    given = [f"{key}='{value}'\n" for key, value in _map(environment).items() if isinstance(value, str)]
    words = [interpreter] if interpreter is UNKNOWN else [word for word in _list(interpreter) if isinstance(word, str)]
    return {**run, "command": [*words, command] if words else "".join((*given, command))}


_RUN = ("command", "inline", "content", "script", "scripts")
"""https://developer.hashicorp.com/terraform/language/provisioners, of local-exec, remote-exec and file."""


def _provisioned(
    found: Found, made: Iterator[Resource], provisioners: tuple[Mapping[str, Any], ...]
) -> Iterator[Resource]:
    """Add what provisioners run to a resource that holds no pools itself, or as one of its own beside it."""
    for resource in made:
        if resource.type == f"terraform:{found.type}":
            yield replace(resource, inputs={**resource.inputs, "provisioner": list(provisioners)})
        else:
            yield resource
            inputs = {"provisioner": list(provisioners)}
            address = f"{resource.address}.provisioner"
            yield Resource(address=address, type="terraform:terraform_data", inputs=inputs, line=resource.line)


_OF_SEVERAL = frozenset({"aws_autoscaling_group", "aws_ec2_fleet", "aws_spot_fleet_request"})
"""Types that may name a launch template in each of several blocks."""


def _blocks_in(expressions: Mapping[str, Any], at: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every block inside the expressions of a resource, with its path and the references in it."""
    for key, value in expressions.items():
        for index, block in enumerate(_list(value)):
            if isinstance(block, dict):
                path = f"{at}.{key}[{index}]" if at else f"{key}[{index}]"
                yield path, list(_references(block))
                yield from _blocks_in(block, path)


_MAX_STEPS = 20
_MAX_NAMES = 100
"""Resources that one input may be made from; of more, none is certain."""
_EACH = re.compile(r"each\.")
_NO_RESOURCES = frozenset({"local", "each", "count", "path", "self", "terraform", "data"})


@dataclass
class _Alike:
    """Instances of one type: how many there are and one of them, by what they may share with another resource."""

    type: str
    whole: dict[tuple[Any, ...], tuple[int, str]] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        for key in _nearness(found):
            self.whole[key] = (self.whole.get(key, (0, ""))[0] + 1, found.address)


def _nearness(found: Found) -> tuple[tuple[Any, ...], ...]:
    index = found.index if isinstance(found.index, str | int | None) else str(found.index)
    return (found.module, index), (found.module,), ("", "", index), ()


def _made_together(found: Found, others: list[_Alike]) -> Iterator[str]:
    """Yield of each type the one instance that belongs to a resource: same module instance, then same key, or alone."""
    by_type: dict[str, list[_Alike]] = {}
    for other in others:
        by_type.setdefault(other.type, []).append(other)
    for alike in by_type.values():
        for key in _nearness(found):
            near = [count for each in alike if (count := each.whole.get(key)) is not None]
            if near:
                if len(near) == 1 and near[0][0] == 1:
                    yield near[0][1]
                break


def _one_of(others: list[_Alike]) -> Iterator[str]:
    """Yield the launch templates of which one is meant, where each has one instance."""
    if all(each.type in ("aws_launch_template", "aws_launch_configuration") for each in others):
        counted = [each.whole.get((), (0, "")) for each in others]
        if all(count == 1 for count, _ in counted):
            yield from (address for _, address in counted)


@dataclass
class _Block:
    """The expressions of a block; a block inside it is put together once."""

    given: Mapping[str, Any]
    inside: dict[str, _Block | None] = field(default_factory=dict)

    def block(self, key: str) -> _Block | None:
        """Return the keys a block gives in any of its occurrences, for a set has no order; None for an attribute."""
        if key not in self.inside:
            expressions = self.given.get(key)
            blocks: list[Any] = expressions if isinstance(expressions, list) else [expressions]
            if all(isinstance(one, dict) and not one.keys() & {"references", "constant_value"} for one in blocks):
                self.inside[key] = _Block({name: value for block in blocks for name, value in block.items()})
            else:
                self.inside[key] = None
        return self.inside[key]


def _known(after: Any, unknown: Any, given: _Block | None) -> dict[str, Any]:
    """Put values and unknown marks of one block together.

    Args:
        after: The block's values; a key whose value is not known is missing.
        unknown: True for each value that is not known, in the same shape.
        given: The block's expressions; None when the plan does not show them.
    """
    values, marks = _map(after), _map(unknown)
    result: dict[str, Any] = {}
    for key in {**values, **marks}:
        mark = marks.get(key)
        if mark is True and given is not None and key not in given.given and key not in _NEVER_COMPUTED:
            continue
        result[key] = _value(values.get(key), mark, given.block(key) if given is not None else None)
    return result


def _value(after: Any, mark: Any, given: _Block | None) -> Any:
    if mark is True:
        return UNKNOWN
    if isinstance(mark, list):
        items, marks = _list(after), [*mark, *([None] * len(_list(after)))]
        length = max(len(items), len(mark))
        return [_value(items[i] if i < len(items) else None, marks[i], given) for i in range(length)]
    if isinstance(mark, dict) or isinstance(after, dict):
        return _known(after, mark, given)
    if isinstance(after, list):
        return [_value(item, None, given) for item in after]
    return after


def _holds_unknown(value: Any) -> bool:
    """Say whether something inside a block is not known, at any depth."""
    if isinstance(value, dict):
        return any(item is UNKNOWN or _holds_unknown(item) for item in value.values())
    return isinstance(value, list) and any(_holds_unknown(item) for item in value)


def _references(expression: Any) -> Iterator[str]:
    """Yield every reference in an expression, at any depth of blocks."""
    inside = [expression]
    while inside:
        value = inside.pop()
        if isinstance(value, dict):
            yield from (said for said in _list(value.get("references")) if isinstance(said, str))
            inside += [item for key, item in value.items() if key not in ("references", "constant_value")]
        elif isinstance(value, list):
            inside += value


def _modules(module: Any, calls: tuple[str, ...]) -> dict[tuple[str, ...], Mapping[str, Any]]:
    found = {calls: _map(module)}
    for name, call in _map(_map(module).get("module_calls")).items():
        found |= _modules(_map(call).get("module"), (*calls, name))
    return found


_CALL = re.compile(r'module\.([\w-]+)(?:\[(?:"(?:[^"\\]|\\.)*"|\d+)\])?(?:\.|$)')


def _calls(module: str) -> tuple[str, ...]:
    """Return the names in a module's address: `module.a["x"].module.b` is (a, b)."""
    return tuple(_CALL.findall(module))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
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
