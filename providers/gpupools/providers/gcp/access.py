"""How a token for the API of a GKE cluster is got. Pure."""

from gpupools.common.json_types import JsonObject
from gpupools.spec.cluster_access import ExecPlugin


def exec_plugin(cluster: JsonObject) -> ExecPlugin:
    """Return Google's plugin, which takes the login of gcloud, and the service account that the provider acts as.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
    https://github.com/kubernetes/cloud-provider-gcp, cmd/gke-gcloud-auth-plugin/cred.go
    """
    account = cluster.get("impersonate_service_account")
    return ExecPlugin(
        command="gke-gcloud-auth-plugin",
        args=("--impersonate_service_account", account) if account else (),
        install_hint="Install it: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
        provide_cluster_info=True,
    )
