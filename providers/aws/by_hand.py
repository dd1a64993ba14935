"""What somebody set by hand that runs on EKS nodes, opens them or decides whom they run as. Pure, and never raises."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpupools.customised import InputRow, customisations
from gpupools.pool_facts import UNKNOWN, Customisation
from gpupools.reading import text
from gpupools.spec import WholeGpu
from providers.aws.boot import bottlerocket_settings
from providers.aws.user_data import decoded, parts

_TEMPLATES = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_SSH = "https://docs.aws.amazon.com/eks/latest/APIReference/API_RemoteAccessConfig.html"
_ROLE = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"

_MACHINE = (
    InputRow("kernelId", "boot-image", "nodes start another kernel than their image's", _TEMPLATES),
    InputRow("ramDiskId", "boot-image", "nodes start another RAM disk than their image's", _TEMPLATES),
)
_OURS = {
    # Of what is declared anywhere gpu-node-hardened tells keys, and the policy's `identities` judges roles.
    "LaunchTemplate": InputRow("keyName", "ssh-keys", "whoever has the key logs in to every node", _SSH),
    "NodeGroup": InputRow("nodeRoleArn", "node-identity", "nodes run as another role than the cluster's others", _ROLE),
}
_RUNS = "it runs on every node, as root, before anything of the cluster does"

_PLAIN = (
    # The node's part of joining a cluster, sizes and shared GPUs: what can neither run a program nor open a node.
    *("settings.kubernetes.api-server", "settings.kubernetes.cluster-certificate", "settings.kubernetes.cluster-name"),
    *("settings.kubernetes.cluster-dns-ip", "settings.kubernetes.max-pods", "settings.kubernetes.node-labels.*"),
    *("settings.kubernetes.node-taints.*", "settings.kubelet-device-plugins.nvidia.*"),
    *("spec.cluster.*", "spec.instance.localStorage.strategy", "spec.kubelet.config.maxPods"),
    *("spec.kubelet.config.registerWithTaints", "apiVersion", "kind"),
)
_OUR_COMMAND = tomllib.loads(bottlerocket_settings("", WholeGpu(), local_nvme=True))["settings"]["bootstrap-commands"]
_OUR_FILE = "/etc/eks/nodeadm.d/50-max-pods.json"
_MOST_BYTES = 16384  # of EC2; what is larger starts no node


def customised(inputs: Mapping[str, Any], prefix: str = "") -> Iterator[Customisation]:
    """Yield what is set by hand in a description of a machine, such as a launch template.

    Args:
        inputs: By wire name; those of `overrides`, or all that are declared.
        prefix: Where they are in their resource.
    """
    yield from customisations(inputs, _MACHINE, prefix)
    for key in ("userData", "userDataBase64"):
        given = inputs.get(key)
        if given is UNKNOWN:
            yield Customisation("user-data", f"{prefix}{key}", "what it runs is not known yet", _TEMPLATES, True)
        elif text(given) and not is_plain(text(given)):
            yield Customisation("user-data", f"{prefix}{key}", _RUNS, _TEMPLATES)


def overridden(resource: str, inputs: Mapping[str, Any]) -> Iterator[Customisation]:
    """Yield what `overrides` set: the same, keys, and a role that is not the cluster's."""
    if resource == "LaunchTemplate":
        yield from customised(inputs)
    if resource in _OURS:
        yield from customisations(inputs, (_OURS[resource],))


def is_plain(given: str) -> bool:
    """Say whether user data only joins, sizes and shares: nothing in it runs a program or opens the node."""
    content = decoded(given)
    return len(content) <= _MOST_BYTES and all(_is_plain(kind, body) for kind, body in parts(content))


def _is_plain(kind: str, body: str) -> bool:
    try:
        if kind == "toml":
            settings = tomllib.loads(body)
            commands = settings.get("settings", {}).pop("bootstrap-commands", _OUR_COMMAND)
            return commands == _OUR_COMMAND and _only_plain(settings)
        if kind == "nodeadm":
            return _only_plain(json.loads(body))  # a NodeConfig in YAML is read by people
        written = json.loads(body.removeprefix("#cloud-config"))
        (file,) = written.pop("write_files")
        content = json.loads(file.pop("content"))
        return written == {} and file == {"path": _OUR_FILE} and _only_plain(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


def _only_plain(document: Any) -> bool:
    return isinstance(document, Mapping) and all(
        any(fnmatchcase(path, pattern) for pattern in _PLAIN) for path in _paths(document)
    )


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path
