"""Writes what a node reads when it boots: Bottlerocket's settings, or user data for Amazon Linux 2023. Pure.

EKS merges either into its own user data, as long as the launch template names no image:
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from gpupools.spec import Mig, Mps, TimeSlicing, WholeGpu

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


def bottlerocket_settings(
    gpu_model: str,
    sharing: WholeGpu | TimeSlicing | Mps | Mig,
    *,
    max_pods: int | None = None,
    local_nvme: bool = False,
) -> str:
    """Write Bottlerocket's settings as TOML; empty when there is nothing to set.

    Keys that need quotes stay below a bare table header: EKS's merge of user data rejects quoted keys inside a header
    (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    tables = list(_device_plugin(gpu_model, sharing))
    if max_pods is not None:
        # What is set here replaces EKS's own number:
        # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
        tables.append(["[settings.kubernetes]", f"max-pods = {max_pods}"])
    if local_nvme:
        # The commands and folders are Karpenter's for the same purpose: https://github.com/aws/karpenter-provider-aws,
        # pkg/providers/amifamily/bootstrap/bottlerocket.go. `init` makes one array of all disks, `bind` puts it below
        # the folders, at every boot; `essential` keeps a node without its array out of the cluster.
        folders = ["/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]
        commands = [["apiclient", "ephemeral-storage", "init"]]
        commands.append(["apiclient", "ephemeral-storage", "bind", "--dirs", *folders])
        tables.append(
            [
                "[settings.bootstrap-commands.local-nvme]",
                f"commands = {json.dumps(commands)}",
                "essential = true",
                'mode = "always"',
            ]
        )
    return "\n\n".join("\n".join(table) for table in tables) + "\n" if tables else ""


def _device_plugin(gpu_model: str, sharing: WholeGpu | TimeSlicing | Mps | Mig) -> Iterator[list[str]]:
    """Write the tables of the built-in device plugin.

    https://bottlerocket.dev/en/os/1.57.x/api/settings/kubelet-device-plugins/

    The resource keeps its name unless the pool says `rename`; Bottlerocket's own default renames it, for time-slicing
    and MPS alike (https://github.com/bottlerocket-os/bottlerocket/issues/4250).
    """
    table = "settings.kubelet-device-plugins.nvidia"
    shared = sharing.share if isinstance(sharing, Mig) else sharing
    strategies = ['device-partitioning-strategy = "mig"'] if isinstance(sharing, Mig) else []
    if isinstance(shared, TimeSlicing | Mps):
        strategies.append(f'device-sharing-strategy = "{shared.mode}"')
    if strategies:
        yield [f"[{table}]", *strategies]
    if isinstance(sharing, Mig):
        yield [f"[{table}.mig.profile]", f'"{BOTTLEROCKET_MIG[gpu_model][0]}" = "{sharing.profile}"']
    if isinstance(shared, TimeSlicing | Mps):
        given = [f"replicas = {shared.replicas}", f"rename-by-default = {_toml(shared.rename)}"]
        if isinstance(shared, TimeSlicing):
            # A second replica may be on the same GPU, so asking for two gains nothing.
            given.append("fail-requests-greater-than-one = true")
        yield [f"[{table}.{shared.mode}]", *given]


def _toml(value: bool) -> str:
    return "true" if value else "false"


def al2023_user_data(*, max_pods: int | None = None, local_nvme: bool = False) -> str:
    """Write user data for Amazon Linux 2023 as MIME parts; empty when there is nothing to set.

    `NodeConfig` is nodeadm's (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/); RAID0 puts containerd, the
    kubelet and the pods' logs on one array of the machine's own disks.
    """
    parts = []
    if local_nvme:
        node_config = _node_config({"instance": {"localStorage": {"strategy": "RAID0"}}})
        parts.append(("application/node.eks.aws", node_config))
    if max_pods is not None:
        # EKS appends a NodeConfig with its own maxPods, and the last one wins; a file in nodeadm.d wins over both.
        # https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/#overriding-configuration-with-drop-in-files
        content = _node_config({"kubelet": {"config": {"maxPods": max_pods}}})
        file = {"path": "/etc/eks/nodeadm.d/50-max-pods.json", "content": content}
        parts.append(("text/cloud-config", "#cloud-config\n" + json.dumps({"write_files": [file]}, indent=2) + "\n"))
    if not parts:
        return ""
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="BOUNDARY"', ""]
    for content_type, text in parts:
        lines += ["--BOUNDARY", f"Content-Type: {content_type}", "", text]
    return "\n".join([*lines, "--BOUNDARY--", ""])


def _node_config(spec: Mapping[str, object]) -> str:
    """Write a `NodeConfig` as JSON, which is YAML too."""
    return json.dumps({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}, indent=2) + "\n"
