"""The Kubernetes provider of a cluster: from its kubeconfig, or with the cloud's exec plugin.

It calls no cloud: looking up endpoint and certificate authority would need credentials in every preview.
"""

import json
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from gpupools.common.json_types import JsonObject
from gpupools.providers import clouds
from gpupools.spec.cluster_access import KubeconfigFile, KubeconfigSecret, api_url, built_kubeconfig


def create_kubernetes_provider(
    name: str,
    cloud: str,
    cluster: JsonObject,
    opts: pulumi.ResourceOptions | None = None,
    identifier: pulumi.Input[str] | None = None,
) -> kubernetes.Provider:
    """Declare the Kubernetes provider of a cluster whose keys have resolved values.

    If two updates give another `identifier`, the provider counts as that of another cluster.
    """
    kubeconfig, context = kubeconfig_of(cloud, cluster)
    # Update a ConfigMap in place while its name is the same; by default the provider deletes it first.
    return kubernetes.Provider(
        name,
        kubeconfig=kubeconfig,
        context=context,
        cluster_identifier=identifier,
        enable_config_map_mutable=True,
        opts=opts,
    )


def kubeconfig_of(cloud: str, cluster: JsonObject) -> tuple[pulumi.Input[str], str | None]:
    """Return the path of a kubeconfig or its text, and its context; None for its current one.

    A given kubeconfig always becomes a secret in Pulumi's state. One that is built from endpoint and certificate
    authority contains no credentials, only the command that gets a token.
    """
    source, context = cluster.get("kubeconfig"), None
    kubeconfig: pulumi.Input[str]
    if isinstance(source, KubeconfigFile):
        kubeconfig, context = source.path, source.context
    elif isinstance(source, KubeconfigSecret):
        kubeconfig, context = pulumi.Output.secret(source.secret), source.context
    elif source is not None:
        kubeconfig = pulumi.Output.secret(source).apply(_text)
    else:
        server = pulumi.Output.from_input(cluster["endpoint"]).apply(api_url)
        plugin = clouds()[cloud].access(cluster)
        built = built_kubeconfig(cluster["name"], server, cluster["certificate_authority"], plugin)
        kubeconfig = pulumi.Output.json_dumps(built)
    return kubeconfig, context


def _text(kubeconfig: Any) -> str:
    return kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
