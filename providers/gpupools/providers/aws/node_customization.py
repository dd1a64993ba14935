"""Finds inputs that run code on EKS nodes, open them or set their identity. Pure, and never raises."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, NodeCustomization
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_KEYS, LOCAL_NVME, NODEADM_KEYS, is_own_drop_in
from gpupools.providers.aws.user_data import decode_user_data, mime_parts, part_format
from gpupools.readback.inputs import at, is_list, items, text
from gpupools.readback.node_customization import customizations_in, input_rows

_TEMPLATES = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
# Of what is declared anywhere gpu-node-hardened tells keys, and the policy's `identities` judges roles.
_OVERRIDES = ("LaunchTemplate", "NodeGroup")
_HERE = Path(__file__).parent
_RUNS = "it runs on every node, as root, before anything of the cluster does"

_ALLOWED_KEYS = (
    # The node's part of joining a cluster, sizes and shared GPUs: what can neither run a program nor open a node.
    *("settings.kubernetes.api-server", "settings.kubernetes.cluster-certificate", "settings.kubernetes.cluster-name"),
    *("settings.kubernetes.cluster-dns-ip", "settings.kubernetes.node-labels.*", "settings.kubernetes.node-taints.*"),
    *("settings.kubelet-device-plugins.nvidia.*", "spec.cluster.*", "spec.instance.localStorage.strategy"),
    *("spec.kubelet.config.registerWithTaints", "spec.kubelet.config.clusterDNS", "apiVersion", "kind"),
    *(".".join(key_input.path) for key_input in (*BOTTLEROCKET_KEYS, *NODEADM_KEYS)),
)
_FLAGS = "spec.kubelet.flags"
_ALLOWED_FLAGS = re.compile(
    r"(?:\s*--(?:(?:node-labels|register-with-taints)(?:=|\s+)[\w./:=,-]++|max-pods(?:=|\s+)\d+"
    r"|use-max-pods(?:=|\s+)(?:true|false)|dns-cluster-ip(?:=|\s+)[\d.]+))*\s*"
)
"""Arguments of the kubelet and of `bootstrap.sh` that say the same; nothing in them is for a shell to expand."""
_MOST_VALUES = 10_000
_KARPENTER = "https://karpenter.sh/docs/concepts/nodeclasses/"
_PULUMI_EKS = "https://www.pulumi.com/registry/packages/eks/api-docs/nodegroupv2/"


def node_customizations(inputs: JsonObject, prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield the customizations in a description of a machine, such as a launch template.

    Args:
        inputs: By wire name; those of `overrides`, or all that are declared.
        prefix: Where they are in their resource.
    """
    yield from customizations_in(inputs, input_rows(_HERE, "machine"), prefix)
    for key in ("userData", "userDataBase64"):
        given = inputs.get(key)
        if given is UNKNOWN:
            yield NodeCustomization("user-data", f"{prefix}{key}", "what it runs is not known yet", _TEMPLATES, True)
        elif text(given) and not only_configures_node(text(given)):
            yield NodeCustomization("user-data", f"{prefix}{key}", _RUNS, _TEMPLATES)


def group_customizations(data: JsonObject, prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield the customizations in a node group of pulumi-eks, which makes a script or settings of it.

    Args:
        data: By wire name, all that are declared.
        prefix: Where they are in their resource.
    """
    late: list[str] = []
    extra = items(data.get("nodeadmExtraOptions"), "nodeadmExtraOptions", late)
    found: list[tuple[str, Any, Callable[[Any], object]]] = [
        *((key, data.get(key), only_configures_node) for key in ("nodeUserData", "nodeUserDataOverride", "userData")),
        *((key, data.get(key), _ALLOWED_FLAGS.fullmatch) for key in ("kubeletExtraArgs", "bootstrapExtraArgs")),
        ("bottlerocketSettings", data.get("bottlerocketSettings"), _has_allowed_keys_only),
        *((where, at(one, "content"), only_configures_node) for where, one in extra),
    ]
    for key, given, is_plain in (*found, *((path, UNKNOWN, bool) for path in late)):
        checked = given if key == "bottlerocketSettings" else text(given)
        if given is UNKNOWN or (checked and not is_plain(checked)):
            why = "what it runs is not known yet" if given is UNKNOWN else _RUNS
            yield NodeCustomization("user-data", f"{prefix}{key}", why, _PULUMI_EKS, given is UNKNOWN)


def customizations(resource: str, inputs: JsonObject) -> Iterator[NodeCustomization]:
    """Yield what `overrides` set: the same, keys, and a role that is not the cluster's; or an EC2NodeClass."""
    if resource == "LaunchTemplate":
        yield from node_customizations(inputs)
    if resource == "EC2NodeClass":
        for customization in node_customizations({"userData": inputs.get("userData")}, "spec."):
            yield replace(customization, source=_KARPENTER)
    if resource in _OVERRIDES:
        yield from customizations_in(inputs, input_rows(_HERE, resource))


def only_configures_node(given: str) -> bool:
    """Return whether user data only joins a cluster, sizes and shares: it runs no program and opens no node."""
    content = decode_user_data(given)
    return content is not None and all(_is_harmless(part_format(*part), part[1]) for part in mime_parts(content))


def _is_harmless(form: str, body: str) -> bool:
    from gpupools.common.bounded_yaml import parse_yaml  # only here: most user data is no YAML

    try:
        if form == "Bottlerocket":
            document = tomllib.loads(body)
            settings = document.pop("settings")
            others = {key: value for key, value in settings.items() if LOCAL_NVME.get(key) != value}
            return document == {} and _has_allowed_keys_only({"settings": others})
        if form == "NodeConfig":
            return all(_has_allowed_keys_only(value.data) for value in parse_yaml(body, _MOST_VALUES))
        return form == "cloud-config" and is_own_drop_in(body)
    except (Rejected, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def _has_allowed_keys_only(document: Any) -> bool:
    return isinstance(document, Mapping) and all(_is_allowed(path, value) for path, value in _leaves(document))


def _is_allowed(path: str, value: Any) -> bool:
    if path == _FLAGS:
        return is_list(value) and all(_ALLOWED_FLAGS.fullmatch(text(flag)) for flag in value)
    return any(fnmatchcase(path, pattern) for pattern in _ALLOWED_KEYS)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
