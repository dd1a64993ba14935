"""Finds inputs that open AKS nodes or change their kernel settings. Pure, and never raises."""

from collections.abc import Iterator
from pathlib import Path

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import NodeCustomization
from gpupools.readback.node_customization import customizations_in, input_rows

# The classic provider's names: hashicorp/terraform-provider-azurerm docs of kubernetes_cluster_node_pool. Those of
# Karpenter: Azure/karpenter-provider-azure pkg/apis/v1beta1/aksnodeclass.go.
_POOL, _NODE_CLASS = (input_rows(Path(__file__).parent, resource) for resource in ("AgentPool", "AKSNodeClass"))


def node_customizations(inputs: JsonObject, prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield the customizations in an agent pool.

    Args:
        inputs: By wire name; those of `overrides`, or all that are declared.
        prefix: Where they are in their resource.
    """
    return customizations_in(inputs, _POOL, prefix)


def customizations(resource: str, inputs: JsonObject) -> Iterator[NodeCustomization]:
    """Yield what `overrides` set, or the specification of an AKSNodeClass."""
    if resource == "AKSNodeClass":
        return customizations_in(inputs, _NODE_CLASS, "spec.")
    return node_customizations(inputs)
