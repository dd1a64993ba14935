"""Declare the Kubernetes objects and Helm releases of a plan with the SDK's typed classes."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from gpupools.plan.software_plan import KubernetesObject, Release

SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation that makes the provider skip waiting for readiness.

https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/#pulumi-kubernetes-annotations
"""

_KEPT_REVISIONS = 10
"""Helm's own default; the provider's default is to keep every revision, each a Secret in the cluster
(https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/helm_release.go, helmUpdate)."""


def declare_release(name: str, release: Release, opts: pulumi.ResourceOptions) -> kubernetes.helm.v3.Release:
    """Declare a Helm release: the pinned chart and its values."""
    timeout = f"{release.timeout_s}s"
    return kubernetes.helm.v3.Release(
        name,
        name=release.name,
        namespace=release.namespace,
        create_namespace=False,
        chart=release.repository if release.is_oci else release.chart,
        version=release.version,
        repository_opts=None if release.is_oci else kubernetes.helm.v3.RepositoryOptsArgs(repo=release.repository),
        values=_mutable(release.values),
        atomic=False,
        cleanup_on_fail=release.cleanup_on_fail,
        skip_crds=release.skip_crds,
        skip_await=release.skip_await,
        timeout=release.timeout_s,
        max_history=_KEPT_REVISIONS,
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout, delete=timeout)
            ),
        ),
    )


def declare_object(name: str, planned: KubernetesObject, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Declare one object with the SDK's class for its kind, or as it is for other kinds.

    The SDK's own `CustomResource` takes no keys beside `spec`, which some kinds have.
    """
    manifest = _mutable(planned.manifest)
    api_version, kind = manifest.pop("apiVersion"), manifest.pop("kind")
    if not planned.await_ready:
        metadata = manifest["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), SKIP_AWAIT: "true"}
    if planned.timeout_s is not None:
        timeout = f"{planned.timeout_s}s"
        own = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout))
        opts = pulumi.ResourceOptions.merge(opts, own)
    built_in = _class_of(api_version, kind)
    if built_in is not None:
        return built_in(name, opts=opts, **{_snake(key): value for key, value in manifest.items()})
    body = {"apiVersion": api_version, "kind": kind, **manifest}
    return pulumi.CustomResource(f"kubernetes:{api_version}:{kind}", name, body, opts)


def _class_of(api_version: str, kind: str) -> Callable[..., pulumi.Resource] | None:
    """Return the SDK's class; None for a kind that is not built into Kubernetes."""
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    try:
        module = import_module(f"pulumi_kubernetes.{group.partition('.')[0] or 'core'}.{version}")
    except ModuleNotFoundError:
        return None
    found: Callable[..., pulumi.Resource] | None = getattr(module, kind, None)
    return found


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", key)


def _mutable(value: Any) -> Any:
    """Return dicts and lists: Pulumi accepts no other mappings, and a plan's are read-only."""
    if isinstance(value, Mapping):
        return {key: _mutable(item) for key, item in value.items()}
    return [_mutable(item) for item in value] if isinstance(value, list | tuple) else value
