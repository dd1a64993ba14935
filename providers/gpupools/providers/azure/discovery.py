"""What the Azure CLI says of an AKS cluster."""

from gpupools.common.json_types import JsonObject
from gpupools.plan.discovery import Discovery, texts


def _read_cluster(told: JsonObject) -> JsonObject | None:
    """Read `az aks show`: https://learn.microsoft.com/rest/api/aks/managed-clusters/get."""
    parts = str(told.get("id", "")).split("/")
    # /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.ContainerService/managedClusters/<name>
    if len(parts) != 9 or parts[7].casefold() != "managedclusters":
        return None
    return texts({"name": told.get("name"), "resource_group": parts[4], "subscription_id": parts[2]})


DISCOVERY = Discovery(
    commands=("az aks show --resource-group GROUP --name NAME",),
    read=_read_cluster,
    which=("name", "resource_group", "subscription_id"),
)
