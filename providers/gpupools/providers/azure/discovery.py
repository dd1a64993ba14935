"""Reads an AKS cluster from the output of the Azure CLI, or of the module Azure/aks."""

from typing import Any

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.discovery import Described, Discovery, inner, maps, minor_version, texts

_ACCESS = "access to the API is not in it: run az aks get-credentials, and add --kubeconfig PATH"


def _read_cluster(told: JsonObject) -> Described | None:
    """Read `az aks show`, or the same from `az rest`: https://learn.microsoft.com/rest/api/aks/managed-clusters/get."""
    place = _place(told.get("id"))
    if place is None:
        return None
    told = {**told, **(inner(told, "properties") or {})}
    pools = maps(told.get("agentPoolProfiles"))
    subnets = list(dict.fromkeys(filter(None, (_either(pool, "vnetSubnetId", "vnetSubnetID") for pool in pools))))
    found: JsonDict = {
        **place,
        "name": told.get("name"),
        "location": _plain(told.get("location")),
        "tenant_id": inner(told, "aadProfile", "tenantId") or inner(told, "aadProfile", "tenantID"),
        "subnet_id": subnets[0] if len(subnets) == 1 else None,
        "encryption_at_host": bool(pools) and all(pool.get("enableEncryptionAtHost") is True for pool in pools),
        "ssh_access": "Disabled"
        if pools and all(inner(pool, "securityProfile", "sshAccess") == "Disabled" for pool in pools)
        else None,
        "kubernetes": minor_version(told.get("currentKubernetesVersion") or told.get("kubernetesVersion")),
        "karpenter": "AKS node auto-provisioning" if inner(told, "nodeProvisioningProfile", "mode") == "Auto" else None,
    }
    cpu = [pool for pool in pools if not _has_gpu(pool)]
    taints = [[each for each in pool.get("nodeTaints") or () if isinstance(each, str)] for pool in cpu]
    several = f"its pools are in {len(subnets)} subnets: --set subnet_id=… selects the one of the GPU nodes"
    left = {"kubeconfig": _ACCESS} | ({"subnet_id": several} if len(subnets) > 1 else {})
    return Described(texts(found) | ({"cpu_taints": taints} if taints else {}), left)


def _read_outputs(outputs: JsonObject) -> Described | None:
    """Read outputs of the module: https://registry.terraform.io/modules/Azure/aks/azurerm/latest?tab=outputs.

    Its `host` and `cluster_ca_certificate` belong to a client certificate, which a stack file does not hold.
    """
    place = _place(outputs.get("aks_id"))
    if place is None:
        return None
    found = {
        **place,
        "name": outputs.get("aks_name") or place["name"],
        "location": _plain(outputs.get("location")),
        "subnet_id": outputs.get("vnet_subnet_id") or outputs.get("subnet_id"),
        "kubernetes": minor_version(outputs.get("kubernetes_version")),
    }
    subnet = "the subnet of the nodes is not among the outputs: --set subnet_id=…, unless AKS made the network"
    taints = "taints of its CPU nodes are not among the outputs: add --describe with az aks show"
    return Described(texts(found), {"kubeconfig": _ACCESS, "cpu_taints": taints, "subnet_id": subnet})


def _place(identifier: Any) -> JsonDict | None:
    """Return name, resource group and subscription of a cluster's ARM id; None if it is not one."""
    parts = str(identifier or "").split("/")
    # /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.ContainerService/managedClusters/<name>
    if len(parts) != 9 or parts[7].casefold() != "managedclusters":
        return None
    return {"resource_group": parts[4], "subscription_id": parts[2], "name": parts[8]}


def _plain(location: Any) -> str:
    """Return `westeurope` of `West Europe`, as an older CLI shows it."""
    return location.replace(" ", "").casefold() if isinstance(location, str) else ""


def _either(found: JsonObject, *names: str) -> Any:
    """Return the value under the CLI's or the REST API's name."""
    return next((found[name] for name in names if found.get(name)), None)


def _has_gpu(pool: JsonObject) -> bool:
    """Return whether a pool has GPUs, by the N family: https://learn.microsoft.com/azure/virtual-machines/sizes/overview."""
    return str(pool.get("vmSize", "")).casefold().startswith("standard_n")


DISCOVERY = Discovery(
    commands=("az aks show --resource-group GROUP --name NAME",),
    read=_read_cluster,
    outputs=_read_outputs,
    which=("name", "resource_group", "subscription_id"),
)
