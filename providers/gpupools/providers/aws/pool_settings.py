"""The settings of a pool that EKS supports, what each becomes, and the inputs that overrides may set. Pure."""

from pathlib import Path

from gpupools.plan.cloud_tables import read_overridable, read_settings

_HERE = Path(__file__).parent
SETTINGS = read_settings(
    _HERE, {"KubeletConfiguration": "user data: {} for nodeadm on AL2023", "Bottlerocket": "{} on Bottlerocket"}
)

VOLUME_TYPES = ("gp2", "gp3", "io1", "io2")
"""The EBS types that can hold an operating system: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html."""

OUR_TAGS = ("gpupools:cluster", "gpupools:pool")

GROUP_PREFIX = "NodeGroup."
"""Prefix of the inputs of the node group in the edit tables and in `adopt.keep`."""

FORBIDDEN = "EKS rejects it in the launch template of a node group"

OVERRIDABLE = read_overridable(_HERE, {"NodeGroup": ("labels",)})
NODE_GROUP, LAUNCH_TEMPLATE, PLACEMENT_GROUP = OVERRIDABLE.values()
