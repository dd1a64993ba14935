"""The Kubernetes provider of a cluster in a stack file: from its kubeconfig, or from the cloud's own login.

Asks no cloud: a look-up of endpoint and certificate authority would need credentials at every preview.
"""

import json
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from gpupools.common.json_types import JsonObject
from gpupools.providers import clouds
from gpupools.spec.cluster_access import ExecPlugin, KubeconfigFile, KubeconfigSecret, api_url

_EXEC_API = "client.authentication.k8s.io/v1beta1"
"""The version all three clouds' plugins write; `v1` would need a newer `gke-gcloud-auth-plugin`.

https://kubernetes.io/docs/reference/config-api/client-authentication.v1beta1/
"""


def create_kubernetes_provider(
    name: str, cloud: str, cluster: JsonObject, opts: pulumi.ResourceOptions | None = None
) -> kubernetes.Provider:
    """Declare the provider for what runs inside a cluster.

    A kubeconfig is a secret in Pulumi's state, whatever it was where it came from; one built from endpoint and
    certificate authority holds no credentials, only the command that gets a token.

    Args:
        name: Logical name.
        cloud: Folder under providers/.
        cluster: The keys of the cloud's cluster with real values; it has `kubeconfig`, or `endpoint` and
            `certificate_authority`.
        opts: Options of the provider.
    """
    given, context = cluster.get("kubeconfig"), None
    kubeconfig: pulumi.Input[str]
    if isinstance(given, KubeconfigFile):
        kubeconfig, context = given.path, given.context
    elif isinstance(given, KubeconfigSecret):
        kubeconfig, context = pulumi.Output.secret(given.secret), given.context
    elif given is not None:
        kubeconfig = pulumi.Output.secret(given).apply(_text)
    else:
        kubeconfig = _kubeconfig(cluster, clouds()[cloud].access(cluster))
    # A ConfigMap that keeps its name is changed where it is: the provider would else delete it first.
    return kubernetes.Provider(name, kubeconfig=kubeconfig, context=context, enable_config_map_mutable=True, opts=opts)


def _text(kubeconfig: Any) -> str:
    return kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)


def _kubeconfig(cluster: JsonObject, plugin: ExecPlugin) -> pulumi.Output[str]:
    name = cluster["name"]
    execution = {
        "apiVersion": _EXEC_API,
        "command": plugin.command,
        "args": list(plugin.args),
        "installHint": plugin.install_hint,
        "provideClusterInfo": plugin.provide_cluster_info,
        "interactiveMode": "IfAvailable",
    }
    where = {
        "server": pulumi.Output.from_input(cluster["endpoint"]).apply(api_url),
        "certificate-authority-data": cluster["certificate_authority"],
    }
    return pulumi.Output.json_dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": where}],
            "users": [{"name": name, "user": {"exec": execution}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )
