"""Finds inputs that open AKS nodes or change their kernel settings. Pure, and never raises."""

from collections.abc import Iterator

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import NodeCustomization
from gpupools.readback.node_customization import InputRow, customizations_in

_PORTS = "https://learn.microsoft.com/azure/aks/use-node-public-ips#allow-host-port-connections-and-add-node-pools-to-application-security-groups"
_KERNEL = "https://learn.microsoft.com/azure/aks/custom-node-configuration"
_OPENS = "AKS opens these ports of every node to whoever reaches it"
_TUNES = "kernel settings act on every pod of the node"
_UNSAFE = "pods may change kernel settings that reach beyond them"

_ROWS = (
    InputRow("networkProfile.allowedHostPorts", "host-ports", _OPENS, _PORTS),
    InputRow("linuxOSConfig.sysctls", "sysctls", _TUNES, _KERNEL),
    InputRow("kubeletConfig.allowedUnsafeSysctls", "sysctls", _UNSAFE, _KERNEL),
    # The classic provider's names: hashicorp/terraform-provider-azurerm docs of kubernetes_cluster_node_pool.
    InputRow("nodeNetworkProfile.allowedHostPorts", "host-ports", _OPENS, _PORTS),
    InputRow("linuxOsConfig.sysctlConfig", "sysctls", _TUNES, _KERNEL),
    InputRow("kubeletConfig.allowedUnsafeSysctl", "sysctls", _UNSAFE, _KERNEL),
)

# Azure/karpenter-provider-azure pkg/apis/v1beta1/aksnodeclass.go
_NODE_CLASS = InputRow("kubelet.allowedUnsafeSysctls", "sysctls", _UNSAFE, _KERNEL)


def node_customizations(inputs: JsonObject, prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield the customizations in an agent pool.

    Args:
        inputs: By wire name; those of `overrides`, or all that are declared.
        prefix: Where they are in their resource.
    """
    return customizations_in(inputs, _ROWS, prefix)


def customizations(resource: str, inputs: JsonObject) -> Iterator[NodeCustomization]:
    """Yield what `overrides` set, or the specification of an AKSNodeClass."""
    if resource == "AKSNodeClass":
        return customizations_in(inputs, (_NODE_CLASS,), "spec.")
    return node_customizations(inputs)
