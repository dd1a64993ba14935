"""User data byte for byte: a changed byte is a new launch template, which renews every node of every pool."""

import email
import json
import tomllib
from itertools import product

import pytest

from gpupools.providers.aws.bootstrap import BOTTLEROCKET_MIG, al2023_user_data, bottlerocket_settings
from gpupools.spec.models import Mig, Mps, SharedMode, SharingMode, TimeSlicing, WholeGpu
from gpupools.spec.pool_options import KubeletSettings

BOTTLEROCKET = """\
[settings.kubelet-device-plugins.nvidia]
device-partitioning-strategy = "mig"
device-sharing-strategy = "time-slicing"

[settings.kubelet-device-plugins.nvidia.mig.profile]
"a100.40gb" = "1g.5gb"

[settings.kubelet-device-plugins.nvidia.time-slicing]
replicas = 4
rename-by-default = false
fail-requests-greater-than-one = true

[settings.kubernetes]
max-pods = 110

[settings.bootstrap-commands.local-nvme]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", \
"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]]
essential = true
mode = "always"
"""

AL2023 = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

{
  "apiVersion": "node.eks.aws/v1alpha1",
  "kind": "NodeConfig",
  "spec": {
    "instance": {
      "localStorage": {
        "strategy": "RAID0"
      }
    }
  }
}

--BOUNDARY
Content-Type: text/cloud-config

#cloud-config
{
  "write_files": [
    {
      "path": "/etc/eks/nodeadm.d/50-max-pods.json",
      "content": "{\\n  \\"apiVersion\\": \\"node.eks.aws/v1alpha1\\",\\n  \\"kind\\": \\"NodeConfig\\",\
\\n  \\"spec\\": {\\n    \\"kubelet\\": {\\n      \\"config\\": {\\n        \\"maxPods\\": \
110\\n      }\\n    }\\n  }\\n}\\n"
    }
  ]
}

--BOUNDARY--
"""

MPS = """\
[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "mps"

[settings.kubelet-device-plugins.nvidia.mps]
replicas = 3
rename-by-default = true
"""

SHARES: tuple[SharedMode | None, ...] = (
    None,
    TimeSlicing(mode="time-slicing", replicas=4),
    Mps(mode="mps", replicas=3, rename=True),
)


def test_bottlerocket_settings_are_written_as_they_always_were() -> None:
    sharing = Mig(mode="mig", profile="1g.5gb", share=TimeSlicing(mode="time-slicing", replicas=4))

    assert bottlerocket_settings("A100-40GB", sharing, KubeletSettings(max_pods=110), local_nvme=True) == BOTTLEROCKET
    assert bottlerocket_settings("L4", Mps(mode="mps", replicas=3, rename=True)) == MPS
    assert bottlerocket_settings("L4", WholeGpu()) == ""


def test_user_data_of_amazon_linux_is_written_as_it_always_was() -> None:
    assert al2023_user_data(KubeletSettings(max_pods=110), local_nvme=True) == AL2023
    assert al2023_user_data() == ""


@pytest.mark.parametrize("share", SHARES, ids=["whole", "time-slicing", "mps"])
def test_every_setting_is_in_the_document_a_reader_gets(share: SharedMode | None) -> None:
    for model, (board, profiles) in BOTTLEROCKET_MIG.items():
        ways: list[SharingMode] = [Mig(mode="mig", profile=name, share=share) for name in profiles]
        for way, pods, nvme in product([*ways, share or WholeGpu()], (None, 58), (False, True)):
            text = bottlerocket_settings(model, way, KubeletSettings(max_pods=pods), local_nvme=nvme)
            found = tomllib.loads(text).get("settings", {})
            plugin = found.get("kubelet-device-plugins", {}).get("nvidia", {})

            assert plugin.get("mig") == ({"profile": {board: way.mig.profile}} if way.mig else None)
            assert plugin.get("device-sharing-strategy") == (share.mode if share else None)
            assert (plugin[share.mode]["replicas"] if share else None) == (share.replicas if share else None)
            assert found.get("kubernetes") == ({"max-pods": pods} if pods else None)
            assert ("local-nvme" in found.get("bootstrap-commands", {})) is nvme


def test_the_parts_for_amazon_linux_are_what_a_mail_reader_finds() -> None:
    whole = email.message_from_string(al2023_user_data(KubeletSettings(max_pods=58), local_nvme=True))
    config, cloud = (part for part in whole.walk() if not part.is_multipart())

    assert config.get_content_type() == "application/node.eks.aws"
    assert cloud.get_content_type() == "text/cloud-config"
    assert json.loads(str(config.get_payload()))["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
