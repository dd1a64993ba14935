"""Declare the Kubernetes objects and Helm releases of a plan."""

import pulumi

from gpupools.plan.software_plan import KubernetesObject, Release
from gpupools.providers.registration import register
from gpupools.software.kubernetes_inputs import RELEASE, is_custom_kind, object_inputs, release_inputs


def declare_release(name: str, release: Release, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Declare a Helm release: the pinned chart and its values."""
    timeout = f"{release.timeout_s}s"
    limits = pulumi.CustomTimeouts(create=timeout, update=timeout, delete=timeout)
    opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(custom_timeouts=limits))
    return register(RELEASE, name, release_inputs(release), opts)


def declare_object(name: str, planned: KubernetesObject, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Declare one object as it is.

    The SDK's classes also give aliases of the kind in older versions of its API, which gpupools has never declared.
    """
    if planned.timeout_s is not None:
        timeout = f"{planned.timeout_s}s"
        own = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout))
        opts = pulumi.ResourceOptions.merge(opts, own)
    token, inputs = object_inputs(planned)
    if is_custom_kind(token):  # of no version of the SDK
        return pulumi.CustomResource(token, name, inputs, opts)
    return register(token, name, inputs, opts)
