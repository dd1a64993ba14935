"""Kubernetes objects of other tools that create nodes on Nimbus."""

from gpupools.audit.cloud_kinds import CloudKinds, MachineKind
from gpupools.audit.cluster_api import INFRASTRUCTURE

KINDS = CloudKinds(
    cloud="nimbus",
    machines={(INFRASTRUCTURE, "NimbusMachinePool"): MachineKind("nimbus", ("machine",), taints="taints")},
    node_labels={"nimbus.example.com/gpu": "nvidia"},
)
