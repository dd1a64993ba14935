"""How an AKS cluster is described: by `az aks show` or `az rest`, or by outputs of the module Azure/aks.

https://learn.microsoft.com/rest/api/aks/managed-clusters/get, which nests values under `properties`, and
https://registry.terraform.io/modules/Azure/aks/azurerm/latest?tab=outputs, whose `host` and `cluster_ca_certificate`
belong to a client certificate, which a stack file does not hold.
"""

from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.discovery import Discovery

DISCOVERY = Discovery(
    commands=("az aks show --resource-group GROUP --name NAME",),
    rows=csv_rows(Path(__file__).with_name("discovery.csv")),
    # The N family: https://learn.microsoft.com/azure/virtual-machines/sizes/overview.
    has_gpu=lambda pool: str(pool.get("vmSize")).casefold().startswith("standard_n"),
    which=("name", "resource_group", "subscription_id"),
)
