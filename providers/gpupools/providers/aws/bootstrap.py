"""Writes user data of nodes: Bottlerocket's settings, or MIME parts for Amazon Linux 2023. Pure.

EKS merges either into its own user data, as long as the launch template names no image:
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud_tables import read_key_inputs
from gpupools.spec.models import SharingMode
from gpupools.spec.overrides import KeyInput, read_keys, without_none, write_keys
from gpupools.spec.pool_options import KubeletSettings


def _form(resource: str, *above: str) -> tuple[KeyInput, ...]:
    """Return how a document has the fields of `KubeletSettings`, by the rows of `inputs.csv`."""
    return tuple(
        key_input._replace(field=key_input.key.rpartition(".")[2], path=(*above, *key_input.path))
        for key_input in read_key_inputs(Path(__file__).parent, resource)
    )


BOTTLEROCKET_KEYS = _form("Bottlerocket")
NODEADM_KEYS = _form("KubeletConfiguration", "spec", "kubelet", "config")

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
LOCAL_NVME = {"bootstrap-commands": {"local-nvme": {**_COMMANDS, "essential": True, "mode": "always"}}}
"""Bottlerocket's settings for one array of the machine's own disks."""
# The library puts each item of an array on a line of its own; the nodes there are boot from one line, and other bytes
# of the same meaning would renew them.
_COMMANDS_ON_ONE_LINE = f"commands = {json.dumps(_COMMANDS['commands'])}\n"


NO_SETTINGS = KubeletSettings()


def bottlerocket_settings(
    gpu_model: str, sharing: SharingMode, kubelet: KubeletSettings = NO_SETTINGS, *, local_nvme: bool = False
) -> str:
    """Write Bottlerocket's settings as TOML; empty when there is nothing to set.

    Keys that need quotes stay below a bare table header: EKS's merge of user data rejects quoted keys inside a header.
    What is set here replaces EKS's own number of pods.
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
    """
    plugin = _device_plugin(gpu_model, sharing)
    shared = {"settings": {"kubelet-device-plugins": {"nvidia": plugin}}} if plugin else {}
    document = write_keys(BOTTLEROCKET_KEYS, vars(kubelet), shared)
    if local_nvme:
        document["settings"] = {**document.get("settings", {}), **LOCAL_NVME}
    if not document:
        return ""
    import tomli_w  # only for Bottlerocket with settings

    return tomli_w.dumps(document).replace(tomli_w.dumps(_COMMANDS), _COMMANDS_ON_ONE_LINE)


def _device_plugin(gpu_model: str, sharing: SharingMode) -> JsonDict:
    """Return the settings of the built-in device plugin.

    The resource keeps its name unless the pool says `rename`; Bottlerocket's own default renames it, for time-slicing
    and MPS alike (https://github.com/bottlerocket-os/bottlerocket/issues/4250).
    """
    mig, clients = sharing.mig, sharing.clients
    plugin: JsonDict = {
        "device-partitioning-strategy": "mig" if mig else None,
        "device-sharing-strategy": clients.mode if clients else None,
        "mig": {"profile": {BOTTLEROCKET_MIG[gpu_model][0]: mig.profile}} if mig else None,
    }
    if clients is not None:
        replicas = {"replicas": clients.replicas, "rename-by-default": clients.rename}
        plugin[clients.mode] = {**replicas, **BOTTLEROCKET_SHARING[clients.mode]}
    return dict(without_none(plugin))


_NODE_CONFIG = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}


def al2023_user_data(kubelet: KubeletSettings = NO_SETTINGS, *, local_nvme: bool = False) -> str:
    """Write user data for Amazon Linux 2023 as MIME parts; empty when there is nothing to set.

    `NodeConfig` is nodeadm's (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/); RAID0 puts containerd, the
    kubelet and the pods' logs on one array of the machine's own disks.
    """
    parts = ""
    if local_nvme:
        storage = {**_NODE_CONFIG, "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}}}
        parts += f"--BOUNDARY\nContent-Type: application/node.eks.aws\n\n{_json(storage)}\n"
    if kubelet != NO_SETTINGS:
        parts += f"--BOUNDARY\nContent-Type: text/cloud-config\n\n#cloud-config\n{_json(_drop_in(kubelet))}\n"
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BOUNDARY"\n\n'
    return f"{head}{parts}--BOUNDARY--\n" if parts else ""


def _drop_in(kubelet: KubeletSettings) -> JsonDict:
    """Return the cloud-config that writes a NodeConfig with the kubelet's settings.

    EKS appends a NodeConfig of its own, and the last one wins; a file in nodeadm.d wins over both.
    https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/#overriding-configuration-with-drop-in-files
    """
    content = _json(write_keys(NODEADM_KEYS, vars(kubelet), _NODE_CONFIG))
    return {"write_files": [{"path": "/etc/eks/nodeadm.d/50-max-pods.json", "content": content}]}


def is_own_drop_in(body: str) -> bool:
    """Return whether `al2023_user_data` writes this cloud-config for the settings that are in it.

    Raises:
        ValueError, TypeError, LookupError, RecursionError: It is of another form.
    """
    document = json.loads(body.removeprefix("#cloud-config"))
    config = json.loads(document["write_files"][0]["content"])
    kubelet = KubeletSettings(**read_keys(NODEADM_KEYS, config))
    return kubelet != NO_SETTINGS and document == _drop_in(kubelet)


def _json(document: JsonDict) -> str:
    """Write JSON, which is YAML too."""
    return json.dumps(document, indent=2) + "\n"
