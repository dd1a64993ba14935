"""Azure: GPU node pools on Azure Kubernetes Service (AKS). Pure; the SDK is only in `resources.py`."""

from pathlib import Path

from gpupools.plan.cloud import Cloud, NodePools, PoolOrder, RegisteredResource, call_later, get_later
from gpupools.plan.cloud_tables import read_provider_settings
from gpupools.providers.azure.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from gpupools.providers.azure.cluster import AksCluster, node_pattern
from gpupools.providers.azure.constraints import check_pool, check_settings
from gpupools.providers.azure.machines import INSTANCE_TYPES, find_instance_type
from gpupools.providers.azure.node_software import node_runtime
from gpupools.providers.azure.pool_plan import build_provider_plan
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SETTINGS
from gpupools.providers.azure.reserved import LABELS, TAINTS

CLOUD = Cloud(
    name="azure",
    service="AKS",
    instance_types=INSTANCE_TYPES,
    quotas_file=Path(__file__).parent / "quotas.csv",
    launch_errors_file=Path(__file__).parent / "launch_errors.csv",
    prices_file=Path(__file__).parent / "prices.csv",
    input_types_file=Path(__file__).parent / "input_types.json",
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
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    decide=build_provider_plan,
    check_pool=check_pool,
    check_settings=check_settings,
    # https://www.pulumi.com/registry/packages/azure-native/installation-configuration/
    provider_settings=read_provider_settings(Path(__file__).parent, "azure-native", "azure"),
    node_runtime=node_runtime,
    supports_dra_from_zero=False,
    find_instance_type=find_instance_type,
    # https://learn.microsoft.com/azure/aks/imds-restriction
    open_metadata_address="169.254.169.254/32",
    access=call_later(f"{__name__}.access", "exec_plugin"),
    karpenter_excludes_autoscaling="https://learn.microsoft.com/dotnet/api/azure.resourcemanager.containerservice.models.nodeprovisioningmode.auto",
    discovery_file=Path(__file__).parent / "discovery.csv",
    node_pattern=node_pattern,
    pool_command="az aks nodepool list --resource-group {resource_group} --cluster-name {name} --output table",
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
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
    ),
    readback=get_later(f"{__name__}.readback", "READBACK"),
    untyped_resource=call_later(f"{__name__}.arm", "untyped_resource"),
)
"""Everything the domain must know about AKS."""
