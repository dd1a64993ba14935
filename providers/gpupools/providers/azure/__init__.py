"""Azure: GPU node pools on Azure Kubernetes Service (AKS). Pure; the SDK is only in `resources.py`."""

from pathlib import Path
from typing import TYPE_CHECKING

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud, NodePools, Readback, ResourceFactory, UntypedResourceLookup
from gpupools.providers.azure.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from gpupools.providers.azure.cluster import AksCluster, node_pattern
from gpupools.providers.azure.constraints import check_pool, check_settings
from gpupools.providers.azure.machines import INSTANCE_TYPES, find_instance_type
from gpupools.providers.azure.node_software import node_runtime
from gpupools.providers.azure.pool_plan import build_provider_plan
from gpupools.providers.azure.pool_settings import OVERRIDABLE, SETTINGS
from gpupools.providers.azure.reserved import LABELS, TAINTS

if TYPE_CHECKING:
    from gpupools.plan.discovery import Discovery
    from gpupools.plan.edit_tables import EditTables
    from gpupools.plan.existing_pools import ExistingPools
    from gpupools.spec.cluster_access import ExecPlugin

_ENVIRONMENT = "set {} where Pulumi runs"

# https://www.pulumi.com/registry/packages/azure-native/installation-configuration/
_PROVIDER_SETTINGS = {
    "subscriptionId": "write the cluster's subscription_id",
    "location": "take it out: a pool is where its cluster is",
    "tenantId": "write the cluster's tenant_id",
    "clientId": _ENVIRONMENT.format("ARM_CLIENT_ID"),
    "clientSecret": _ENVIRONMENT.format("ARM_CLIENT_SECRET"),
    "environment": _ENVIRONMENT.format("ARM_ENVIRONMENT"),
    "useOidc": _ENVIRONMENT.format("ARM_USE_OIDC"),
    "useMsi": _ENVIRONMENT.format("ARM_USE_MSI"),
}


def _access(cluster: JsonObject) -> "ExecPlugin":
    from gpupools.providers.azure.access import exec_plugin

    return exec_plugin(cluster)


def _discovery() -> "Discovery":
    from gpupools.providers.azure.discovery import DISCOVERY

    return DISCOVERY


def _edit_tables() -> "EditTables":
    from gpupools.providers.azure.edit_effects import edit_tables

    return edit_tables()


def _readback() -> Readback:
    from gpupools.providers.azure.readback import READBACK

    return READBACK


def _resources() -> ResourceFactory:
    from gpupools.providers.azure.resources import RESOURCES

    return RESOURCES


def _untyped_resource(type_token: str) -> UntypedResourceLookup | None:
    from gpupools.providers.azure.arm import untyped_resource

    return untyped_resource(type_token)


def _existing_pools() -> "ExistingPools":
    from gpupools.providers.azure.existing_pools import EXISTING_POOLS

    return EXISTING_POOLS


CLOUD = Cloud(
    name="azure",
    service="AKS",
    instance_types=INSTANCE_TYPES,
    quotas_file=Path(__file__).parent / "quotas.csv",
    launch_errors_file=Path(__file__).parent / "launch_errors.csv",
    prices_file=Path(__file__).parent / "prices.csv",
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
    provider_settings=dict.fromkeys(("azure-native", "azure"), _PROVIDER_SETTINGS),
    node_runtime=node_runtime,
    supports_dra_from_zero=False,
    find_instance_type=find_instance_type,
    # https://learn.microsoft.com/azure/aks/imds-restriction
    open_metadata_address="169.254.169.254/32",
    access=_access,
    discover=_discovery,
    node_pattern=node_pattern,
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
    node_pools=NodePools(
        settings=SETTINGS,
        overridable=OVERRIDABLE,
        edits=_edit_tables,
        resources=_resources,
        existing_pools=_existing_pools,
    ),
    readback=_readback,
    untyped_resource=_untyped_resource,
)
"""Everything the domain must know about AKS."""
