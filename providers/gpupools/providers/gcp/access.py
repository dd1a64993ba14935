"""How a token for the API of a GKE cluster is got. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.asked.access import ExecPlugin


def exec_plugin(cluster: Mapping[str, Any]) -> ExecPlugin:
    """Return Google's plugin, which takes the login of gcloud or the application default credentials.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
    """
    return ExecPlugin(
        command="gke-gcloud-auth-plugin",
        args=(),
        install_hint="Install it: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
        provide_cluster_info=True,
    )
