"""Declare the Kubernetes objects and Helm releases of a plan."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gpupools.plan.software_plan import KubernetesObject, Release
from gpupools.providers.registration import register

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation that makes the provider skip waiting for readiness.

https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/#pulumi-kubernetes-annotations
"""

_KEPT_REVISIONS = 10
"""Helm's own default; the provider's default is to keep every revision, each a Secret in the cluster
(https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/helm_release.go, helmUpdate)."""


def declare_release(name: str, release: Release, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Declare a Helm release: the pinned chart and its values."""
    timeout = f"{release.timeout_s}s"
    inputs = {
        "compat": "true",  # as the SDK's class does it
        "name": release.name,
        "namespace": release.namespace,
        "createNamespace": False,
        "chart": release.repository if release.is_oci else release.chart,
        "version": release.version,
        "repositoryOpts": None if release.is_oci else {"repo": release.repository},
        "values": _mutable(release.values),
        "atomic": False,
        "cleanupOnFail": release.cleanup_on_fail,
        "skipCrds": release.skip_crds,
        "skipAwait": release.skip_await,
        "timeout": release.timeout_s,
        "maxHistory": _KEPT_REVISIONS,
    }
    limits = pulumi.CustomTimeouts(create=timeout, update=timeout, delete=timeout)
    opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(custom_timeouts=limits))
    return register("kubernetes:helm.sh/v3:Release", name, inputs, opts)


def declare_object(name: str, planned: KubernetesObject, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Declare one object as it is.

    The SDK's classes also give aliases of the kind in older versions of its API, which gpupools has never declared.
    """
    manifest = _mutable(planned.manifest)
    if not planned.await_ready:
        metadata = manifest["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), SKIP_AWAIT: "true"}
    if planned.timeout_s is not None:
        timeout = f"{planned.timeout_s}s"
        own = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout))
        opts = pulumi.ResourceOptions.merge(opts, own)
    group, _, version = manifest["apiVersion"].rpartition("/")
    token = f"kubernetes:{group or 'core'}/{version}:{manifest['kind']}"
    if "." in group and not group.endswith(".k8s.io"):  # a kind that a CRD defines is of no version of the SDK
        return pulumi.CustomResource(token, name, manifest, opts)
    return register(token, name, manifest, opts)


def _mutable(value: Any) -> Any:
    """Return dicts and lists: Pulumi accepts no other mappings, and a plan's are read-only."""
    if isinstance(value, Mapping):
        return {key: _mutable(item) for key, item in value.items()}
    return [_mutable(item) for item in value] if isinstance(value, list | tuple) else value
