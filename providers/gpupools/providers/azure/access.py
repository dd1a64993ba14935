"""How a token for the API of an AKS cluster is got. Pure."""

from gpupools.common.json_types import JsonObject
from gpupools.spec.cluster_access import ExecPlugin

_AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""The application that every AKS cluster with Entra ID sign-in is (https://azure.github.io/kubelogin/concepts/aks.html)."""


def exec_plugin(cluster: JsonObject) -> ExecPlugin:
    """Return kubelogin with the login of the Azure CLI, for a cluster with Entra ID sign-in.

    The environment variable AAD_LOGIN_METHOD (`workloadidentity`, `spn`, `msi` in a pipeline) wins over the argument
    (https://github.com/Azure/kubelogin, pkg/internal/token/options.go, UpdateFromEnv). A cluster with local accounts
    only takes a kubeconfig instead. So does AZURE_TENANT_ID over the cluster's tenant.
    """
    tenant = cluster.get("tenant_id")
    return ExecPlugin(
        command="kubelogin",
        args=(
            *("get-token", "--login", "azurecli", "--server-id", _AKS_SERVER),
            *(("--tenant-id", tenant) if tenant else ()),
        ),
        install_hint="Install it with az aks install-cli, or from https://azure.github.io/kubelogin/install.html",
    )
