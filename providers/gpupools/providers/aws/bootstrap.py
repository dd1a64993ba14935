"""Writes user data of nodes: Bottlerocket's settings, or MIME parts for Amazon Linux 2023. Pure.

EKS merges either into its own user data, as long as the launch template names no image:
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.models import SharingMode, WholeGpu

_BOTTLEROCKET, _NODEADM = "Bottlerocket", "KubeletConfiguration"
_ROWS = [row for row in csv_rows(Path(__file__).parent / "inputs.csv") if row["resource"] in (_BOTTLEROCKET, _NODEADM)]
KUBELET_KEYS = tuple(dict.fromkeys(row["key"] for row in _ROWS))
"""Keys of the stack file that become settings of the kubelet."""
_DOCUMENTS = {_BOTTLEROCKET: "", _NODEADM: "spec.kubelet.config."}
KUBELET_SETTINGS = tuple(f"{_DOCUMENTS[row['resource']]}{row['input'].partition(':')[0]}" for row in _ROWS)
"""The path of each in a document of user data."""


def _kubelet_names(form: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the last part of each key of the stack file, its name in a document, and whether that wants text."""
    for row in _ROWS:
        path, _, kind = row["input"].partition(":")
        if row["resource"] == form:
            yield row["key"].rpartition(".")[2], path.rpartition(".")[2], kind == "str"


BOTTLEROCKET_MIG: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "A100-40GB": ("a100.40gb", ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "7g.40gb")),
        "A100-80GB": ("a100.80gb", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb")),
        "H100-80GB": ("h100.80gb", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb")),
        "H200-141GB": ("h200.141gb", ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "7g.141gb")),
        "B200": ("b200.180gb", ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "7g.180gb")),
        "B300": ("b300.269gb", ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb")),
        "RTX-PRO-6000": ("rtxpro6000.96gb", ("1g.24gb", "2g.48gb", "4g.96gb")),
    }
)
"""How Bottlerocket's MIG manager calls a GPU model, and the profiles it cuts.

It takes any other profile of these models, such as 4g.20gb, without complaint and leaves the GPU in one piece.
https://github.com/bottlerocket-os/bottlerocket-kernel-kit, sources/nvidia-migmanager/src/mig_profile.rs; B200 came with
pull request 136, RTX PRO 6000 with 300 (kit 4.5.0), B300 with 323 (kit 4.6.0 of December 2025).
"""


MOST_USER_DATA = 16384
"""Bytes of user data that EC2 takes, before base64 (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html)."""


BOTTLEROCKET_SHARING: Mapping[str, Mapping[str, bool]] = MappingProxyType(
    {
        # A second replica may be on the same GPU, so asking for two gains nothing.
        "time-slicing": {"fail-requests-greater-than-one": True},
        "mps": {},
    }
)
"""The ways in which Bottlerocket's device plugin shares a GPU, and what its settings say of each beside the replicas.

https://bottlerocket.dev/en/os/1.57.x/api/settings/kubelet-device-plugins/
"""
RENAMED_BY_DEFAULT = frozenset({"time-slicing"})
"""Those whose GPUs go by another name where the settings do not say."""


# The commands and folders are Karpenter's for the same purpose: https://github.com/aws/karpenter-provider-aws,
# pkg/providers/amifamily/bootstrap/bottlerocket.go. `init` makes one array of all disks, `bind` puts it below the
# folders, at every boot; `essential` keeps a node without its array out of the cluster.
_FOLDERS = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_COMMANDS = {
    "commands": [
        ["apiclient", "ephemeral-storage", "init"],
        ["apiclient", "ephemeral-storage", "bind", "--dirs", *_FOLDERS],
    ]
}
# The library puts each item of an array on a line of its own; the nodes there are boot from one line, and other bytes
# of the same meaning would renew them.
_COMMANDS_ON_ONE_LINE = f"commands = {json.dumps(_COMMANDS['commands'])}\n"


def bottlerocket_settings(gpu_model: str, sharing: SharingMode, *, local_nvme: bool = False, **kubelet: object) -> str:
    """Write Bottlerocket's settings as TOML; empty when there is nothing to set. `kubelet`: see `KUBELET_KEYS`.

    Keys that need quotes stay below a bare table header: EKS's merge of user data rejects quoted keys inside a header
    (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    choices: JsonDict = {}
    plugin = _device_plugin(gpu_model, sharing)
    if plugin:
        choices["kubelet-device-plugins"] = {"nvidia": plugin}
    # What is set here replaces EKS's own number of pods:
    # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
    if kubernetes := _kubelet(_BOTTLEROCKET, kubelet):
        choices["kubernetes"] = kubernetes
    if local_nvme:
        choices["bootstrap-commands"] = {"local-nvme": {**_COMMANDS, "essential": True, "mode": "always"}}
    if not choices:
        return ""
    import tomli_w  # only for Bottlerocket with settings

    return tomli_w.dumps({"settings": choices}).replace(tomli_w.dumps(_COMMANDS), _COMMANDS_ON_ONE_LINE)


def _device_plugin(gpu_model: str, sharing: SharingMode) -> JsonDict:
    """Return the settings of the built-in device plugin.

    The resource keeps its name unless the pool says `rename`; Bottlerocket's own default renames it, for time-slicing
    and MPS alike (https://github.com/bottlerocket-os/bottlerocket/issues/4250).
    """
    mig, clients = sharing.mig, sharing.clients
    plugin: JsonDict = {}
    if mig is not None:
        plugin["device-partitioning-strategy"] = "mig"
    if clients is not None:
        plugin["device-sharing-strategy"] = clients.mode
    if mig is not None:
        plugin["mig"] = {"profile": {BOTTLEROCKET_MIG[gpu_model][0]: mig.profile}}
    if clients is not None:
        replicas = {"replicas": clients.replicas, "rename-by-default": clients.rename}
        plugin[clients.mode] = {**replicas, **BOTTLEROCKET_SHARING[clients.mode]}
    return plugin


def _kubelet(form: str, values: Mapping[str, object]) -> JsonDict:
    """Return the kubelet's settings as a document has them, from values by the last part of their keys."""
    return {
        name: str(values[key]) if is_text else values[key]
        for key, name, is_text in _kubelet_names(form)
        if values.get(key) is not None
    }


def _kubelet_values(form: str, document: object) -> JsonDict:
    """Return the values that `_kubelet` writes so."""
    found = document if isinstance(document, Mapping) else {}
    return {key: found.get(name) for key, name, _ in _kubelet_names(form)}


def al2023_user_data(*, local_nvme: bool = False, **kubelet: object) -> str:
    """Write user data for Amazon Linux 2023 as MIME parts; empty when there is nothing to set.

    `NodeConfig` is nodeadm's (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/); RAID0 puts containerd, the
    kubelet and the pods' logs on one array of the machine's own disks.
    """
    parts = _al2023_parts(local_nvme, kubelet)
    if not parts:
        return ""
    from email.message import Message  # slow to load, and few pools set what goes there

    # `Message` has the headers it is given and no others; the MIME classes below it order theirs otherwise, which would
    # change the launch template of every pool there is.
    whole = Message()
    whole["MIME-Version"] = "1.0"
    whole.add_header("Content-Type", "multipart/mixed", boundary="BOUNDARY")
    for content_type, text in parts.items():
        part = Message()
        part["Content-Type"] = content_type
        part.set_payload(text)
        whole.attach(part)
    return whole.as_string()


def _al2023_parts(local_nvme: bool, kubelet: Mapping[str, object]) -> dict[str, str]:
    """Return the text of each MIME part by its type."""
    parts: dict[str, str] = {}
    if local_nvme:
        parts["application/node.eks.aws"] = _node_config({"instance": {"localStorage": {"strategy": "RAID0"}}})
    if config := _kubelet(_NODEADM, kubelet):
        # EKS appends a NodeConfig of its own, and the last one wins; a file in nodeadm.d wins over both.
        # https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/#overriding-configuration-with-drop-in-files
        content = _node_config({"kubelet": {"config": config}})
        file = {"path": "/etc/eks/nodeadm.d/50-max-pods.json", "content": content}
        parts["text/cloud-config"] = "#cloud-config\n" + json.dumps({"write_files": [file]}, indent=2) + "\n"
    return parts


def own_settings(settings: JsonObject) -> JsonObject:
    """Return what Bottlerocket's settings would be if `bottlerocket_settings` had written them with the same values.

    The device plugin's are left out: whatever they say, they neither run a program nor open a node.
    """
    values = _kubelet_values(_BOTTLEROCKET, settings.get("kubernetes"))
    text = bottlerocket_settings("", WholeGpu(), local_nvme="bootstrap-commands" in settings, **values)
    written: JsonObject = tomllib.loads(text).get("settings", {})
    return written


def is_own_part(body: str) -> bool:
    """Return whether `al2023_user_data` writes this text as a MIME part for the values that are in it.

    Raises:
        ValueError, TypeError, LookupError, RecursionError: It is of another form.
    """
    document = json.loads(body.removeprefix("#cloud-config"))
    kubelet = None
    if "write_files" in document:
        kubelet = json.loads(document["write_files"][0]["content"])["spec"]["kubelet"]["config"]
    written = _al2023_parts("spec" in document, _kubelet_values(_NODEADM, kubelet))
    return document in [json.loads(text.removeprefix("#cloud-config")) for text in written.values()]


def _node_config(spec: Mapping[str, object]) -> str:
    """Write a `NodeConfig` as JSON, which is YAML too."""
    return json.dumps({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}, indent=2) + "\n"
