"""Azure: GPU node pools on Azure Kubernetes Service (AKS). Pure; the SDK is only in `resources.py`."""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules, kubelet_labels
from gpupools.plan.cloud import Cloud, NodePools, PodLimits, PoolOrder, RegisteredResource, call_later, get_later
from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_provider_settings, read_software
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.azure.constraints import check_pool, check_settings
from gpupools.providers.azure.machines import INSTANCE_TYPES
from gpupools.providers.azure.node_software import node_runtime
from gpupools.providers.azure.pool_plan import build_provider_plan
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SETTINGS

_HERE = Path(__file__).parent

CLOUD = Cloud(
    name="azure",
    service="AKS",
    instance_types=INSTANCE_TYPES,
    folder=_HERE,
    cluster=AksCluster,
    example_cluster={
        "cloud": "azure",
        "name": "serve-dev",
        "resource_group": "ml-dev",
        "subnet_id": (
            "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml-dev/providers/"
            "Microsoft.Network/virtualNetworks/ml-dev/subnets/gpu"
        ),
    },
    # AKS's driver is there unless it is switched off, and its MIG profiles work only with it.
    software=read_software(_HERE),
    default_software=read_default_software(_HERE),
    capabilities=read_capabilities(_HERE),
    decide=build_provider_plan,
    check_pool=check_pool,
    check_settings=check_settings,
    # https://www.pulumi.com/registry/packages/azure-native/installation-configuration/
    provider_settings=read_provider_settings(_HERE, "azure-native", "azure"),
    node_runtime=node_runtime,
    supports_dra_from_zero=False,
    # https://learn.microsoft.com/azure/aks/imds-restriction
    open_metadata_address="169.254.169.254/32",
    karpenter_excludes_autoscaling="https://learn.microsoft.com/dotnet/api/azure.resourcemanager.containerservice.models.nodeprovisioningmode.auto",
    pool_command="az aks nodepool list --resource-group {resource_group} --cluster-name {name} --output table",
    # Labels of node-role.kubernetes.io were refused until 2024 at least (https://github.com/Azure/AKS/issues/4613).
    pod_limits=PodLimits(10, 250, "https://learn.microsoft.com/azure/aks/concepts-network-ip-address-planning"),
    reserved_labels=(
        *key_rules(_HERE / "reserved.csv", "label"),
        *kubelet_labels("AKS", "https://github.com/Azure/AKS/issues/2866"),
        *OPERATOR_LABELS,
    ),
    reserved_taints=(*CONDITION_TAINTS, *key_rules(_HERE / "reserved.csv", "taint")),
    node_pools=NodePools(
        settings=SETTINGS,
        overridable=OVERRIDABLE,
        edits=call_later(f"{__name__}.edit_effects", "edit_tables"),
        resources=get_later(f"{__name__}.resources", "RESOURCES"),
        declared_inputs=call_later(f"{__name__}.declared_inputs", "declared_inputs"),
        # https://learn.microsoft.com/azure/aks/cluster-autoscaler-overview
        order=PoolOrder(
            names=call_later(f"{__name__}.declared_inputs", "name_expressions"),
            group_id="^aks-{}-[0-9]+-vmss$",
            enable="az aks update --resource-group {resource_group} --name {name}"
            " --cluster-autoscaler-profile expander=priority",
        ),
        registered={"AgentPool": RegisteredResource("pool", untyped="azure-native:resources:Resource")},
        existing_pools=get_later(f"{__name__}.existing_pools", "EXISTING_POOLS"),
        autoscaler_id="aks-{name}-[0-9]+-vmss",
    ),
    readback=get_later(f"{__name__}.readback", "READBACK"),
    untyped_resource=call_later(f"{__name__}.arm", "untyped_resource"),
)
"""Everything the domain must know about AKS."""
