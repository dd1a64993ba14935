"""The keys that a stack file gives for an AKS cluster."""

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import ClassVar, Literal

from gpupools.common.json_types import JsonObject
from gpupools.spec.cluster_access import ReachableCluster
from gpupools.spec.identifiers import CERTIFICATE, Form, pattern, pattern_of
from gpupools.spec.models import Address, ExecPlugin

_ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAMES = "https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules"

_AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""The application that every AKS cluster with Entra ID sign-in is (https://azure.github.io/kubelogin/concepts/aks.html)."""


def _resource(kind: str) -> Form:
    """Return the form of a resource's ARM id, whose words Azure compares without case."""
    within = re.sub("<[a-z]+>", "[^/]+", re.escape(kind))
    own = f"(?i)/subscriptions/{_ID}/resourceGroups/[^/]+/providers/{within}"
    return pattern(own, f"write /subscriptions/<id>/resourceGroups/<group>/providers/{kind}", _NAMES)


class AksCluster(ReachableCluster):
    """An existing AKS cluster."""

    cloud: Literal["azure"]
    """Always `azure`."""
    name: Address
    """Name of the cluster."""
    resource_group: Address
    """Resource group of the cluster itself, not the `MC_…` group of its nodes."""
    subscription_id: Address | None = None
    """Subscription of the cluster; left out: the one the Azure credentials point at."""
    tenant_id: str | None = None
    """Entra ID tenant that the credentials must be of; left out: the one they are of."""
    subnet_id: Address | None = None
    """ARM id of the subnet for the nodes; left out: the one AKS gives the cluster."""
    proximity_placement_group_id: Address | None = None
    """ARM id of the group for pools with `network.placement: compact`; the cluster's identity must be a contributor."""
    location: str | None = None
    """Azure region of the cluster, e.g. `westeurope`, to check that it exists."""
    encryption_at_host: bool = False
    """Encrypt temporary disks and disk caches on the host too (managed disks always are encrypted at rest).

    Off unless asked for: creation fails in a subscription that has not registered the feature
    `Microsoft.Compute/EncryptionAtHost`, and not every size and region has it
    (https://learn.microsoft.com/azure/aks/enable-host-encryption).
    """
    ssh_access: Literal["LocalUser", "Disabled"] = "LocalUser"
    """`Disabled` turns the SSH service of the nodes off; `kubectl debug node` keeps working.

    Not the default: it is a preview that needs the subscription feature `DisableSSHPreview`
    (https://learn.microsoft.com/azure/aks/manage-ssh-node-access). Nodes have no public address either way.
    """

    identity: ClassVar[tuple[str, ...]] = ("tenant_id",)
    region_key: ClassVar[str] = "location"
    account_key: ClassVar[str] = "subscription_id"
    places_file: ClassVar[FilePath | None] = FilePath(__file__).parent / "places.csv"
    api_hosts: ClassVar[str] = (
        r"([a-z0-9-]+\.)+(azmk8s\.io|azk8s\.cn|azmk8s\.us|azure\.us)"  # https://learn.microsoft.com/azure/aks/private-clusters
    )
    forms: ClassVar[Mapping[str, Form]] = {
        "name": pattern(
            "[0-9A-Za-z](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?",
            "write the name of an AKS cluster: letters, digits, - and _",
            _NAMES,
        ),
        "resource_group": pattern(
            r"(?![mM][cC]_)[-\w.()]{0,89}[-\w()]",
            "write the resource group of the cluster itself, not the MC_… group of its nodes",
            "https://learn.microsoft.com/azure/aks/faq#why-are-two-resource-groups-created-with-aks",
        ),
        "subscription_id": pattern(
            _ID, "write the id of the subscription, not its name: 32 hexadecimal digits with hyphens", _NAMES
        ),
        "tenant_id": pattern(_ID, "write the tenant's id: 32 hexadecimal digits with hyphens", _NAMES),
        "subnet_id": _resource("Microsoft.Network/virtualNetworks/<network>/subnets/<subnet>"),
        "proximity_placement_group_id": _resource("Microsoft.Compute/proximityPlacementGroups/<group>"),
        "certificate_authority": CERTIFICATE,
    }
    not_pool_inputs: ClassVar[frozenset[str]] = ReachableCluster.not_pool_inputs | {"location", *identity}

    def pool_id(self, name: str) -> str:
        """Return the ARM id of the agent pool."""
        group = f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
        return f"{group}/providers/Microsoft.ContainerService/managedClusters/{self.name}/agentPools/{name}"

    @classmethod
    def place_of(cls, given: JsonObject) -> JsonObject:
        """Return subscription, resource group and name, which Azure compares without case.

        https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
        """
        keys = ("subscription_id", "resource_group", "name")
        found = {key: given.get(key) for key in keys}
        return {key: value.casefold() if isinstance(value, str) else value for key, value in found.items()}

    @classmethod
    def exec_plugin(cls, given: JsonObject) -> ExecPlugin:
        """Return kubelogin with the login of the Azure CLI, for a cluster with Entra ID sign-in.

        The environment variable AAD_LOGIN_METHOD (`workloadidentity`, `spn`, `msi` in a pipeline) wins over the
        argument (https://github.com/Azure/kubelogin, pkg/internal/token/options.go, UpdateFromEnv). A cluster with
        local accounts only takes a kubeconfig instead. So does AZURE_TENANT_ID over the cluster's tenant.
        """
        tenant = given.get("tenant_id")
        return ExecPlugin(
            command="kubelogin",
            args=(
                *("get-token", "--login", "azurecli", "--server-id", _AKS_SERVER),
                *(("--tenant-id", tenant) if tenant else ()),
            ),
            install_hint="Install it with az aks install-cli, or from https://azure.github.io/kubelogin/install.html",
        )

    def node_pattern(self) -> str:
        """Return a pattern of a node's provider id with the resource group of the nodes.

        AKS names the group MC_<group>_<cluster>_<location>, unless somebody did: https://learn.microsoft.com/azure/aks/faq
        """
        own, name = self.resource_group, self.name
        is_known = isinstance(own, str) and isinstance(name, str)
        known = rf"(?P<named>{pattern_of(f'mc_{own}_{name}_', 80)}[a-z0-9]*)(?=[/ ])"
        groups = f"{known if is_known else 'mc_'}|(?!mc_)"
        return f"azure:///subscriptions/{pattern_of(self.subscription_id)}/resourcegroups/({groups})"
