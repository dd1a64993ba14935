"""The inputs of what is declared in Kubernetes, by wire name: every decision is in the plan. Pure."""

from gpupools.common.json_types import JsonDict
from gpupools.plan.software_plan import KubernetesObject, Release, json_value

RELEASE = "kubernetes:helm.sh/v3:Release"

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation that makes the provider skip waiting for readiness.

https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/#pulumi-kubernetes-annotations
"""

_KEPT_REVISIONS = 10
"""Helm's own default; the provider's default is to keep every revision, each a Secret in the cluster
(https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/helm_release.go, helmUpdate)."""


def release_inputs(release: Release) -> JsonDict:
    """Return the inputs of a Helm release: the pinned chart and its values."""
    return {
        "name": release.name,
        "namespace": release.namespace,
        "createNamespace": False,
        "chart": release.repository if release.is_oci else release.chart,
        "version": release.version,
        **({} if release.is_oci else {"repositoryOpts": {"repo": release.repository}}),
        "values": json_value(release.values),
        "atomic": False,
        "cleanupOnFail": release.cleanup_on_fail,
        "skipCrds": release.skip_crds,
        "skipAwait": release.skip_await,
        "timeout": release.timeout_s,
        "maxHistory": _KEPT_REVISIONS,
        "compat": "true",  # added by the SDK's class
    }


def object_inputs(planned: KubernetesObject) -> tuple[str, JsonDict]:
    """Return type token and inputs of an object."""
    manifest = json_value(planned.manifest)
    if not planned.await_ready:
        metadata = manifest["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), SKIP_AWAIT: "true"}
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}", manifest


def is_custom_kind(token: str) -> bool:
    """Return whether a type token is a kind that a CRD defines: of a group outside Kubernetes' own."""
    package, _, kind = token.partition(":")
    group = kind.partition("/")[0]
    return package == "kubernetes" and "." in group and not group.endswith(".k8s.io")
