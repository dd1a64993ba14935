"""The Kubernetes provider of a cluster: from its kubeconfig, or with the cloud's exec plugin.

It calls no cloud: looking up endpoint and certificate authority would need credentials in every preview.
"""

import json
import os
from collections.abc import Mapping
from types import MappingProxyType

import pulumi

from gpupools.common.json_types import JsonObject
from gpupools.providers import clouds
from gpupools.providers.registration import register_provider
from gpupools.spec.cluster_access import KubeconfigFile, api_url, provider_kubeconfig

_FROM_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
        "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
        "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
        "enableServerSideApply": "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY",
        "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
        "suppressDeprecationWarnings": "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS",
        "suppressHelmHookWarnings": "PULUMI_K8S_SUPPRESS_HELM_HOOK_WARNINGS",
        "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    }
)
"""Switches of the provider that the SDK's class reads from the environment."""


def create_kubernetes_provider(
    name: str,
    cloud: str,
    cluster: JsonObject,
    opts: pulumi.ResourceOptions | None = None,
    identifier: pulumi.Input[str] | None = None,
) -> pulumi.ProviderResource:
    """Declare the Kubernetes provider of a cluster whose keys have resolved values.

    If two updates give another `identifier`, the provider counts as that of another cluster.
    """
    kubeconfig, context = kubeconfig_of(cloud, cluster)
    inputs = {
        "kubeconfig": kubeconfig,
        "context": context,
        "clusterIdentifier": identifier,
        # Update a ConfigMap in place while its name is the same; by default the provider deletes it first.
        "enableConfigMapMutable": True,
        **{key: _switch(os.getenv(variable)) for key, variable in _FROM_ENVIRONMENT.items()},
    }
    return register_provider("kubernetes", name, inputs, opts or pulumi.ResourceOptions())


def _switch(text: str | None) -> bool | None:
    """Return what a variable says, as Go's strconv.ParseBool reads it; None for anything else."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None


def kubeconfig_of(cloud: str, cluster: JsonObject) -> tuple[pulumi.Input[str], str | None]:
    """Return the path of a kubeconfig or its text, and its context; None for its current one.

    A given kubeconfig always becomes a secret in Pulumi's state. One that is built from endpoint and certificate
    authority contains no credentials, only the command that gets a token.
    """
    plugin_of, source = clouds()[cloud].cluster.exec_plugin, cluster.get("kubeconfig")
    content, context = provider_kubeconfig(cluster, plugin_of, lambda at: pulumi.Output.from_input(at).apply(api_url))
    if source is None:
        return pulumi.Output.json_dumps(content), context
    if isinstance(source, KubeconfigFile):
        return content, context
    secret = pulumi.Output.secret(content)
    return secret.apply(lambda given: given if isinstance(given, str) else json.dumps(given)), context
