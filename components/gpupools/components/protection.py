"""Protect a stack from a partial `pulumi destroy`: one protected resource that the engine would delete first."""

from collections.abc import Iterable

import pulumi


class Protection(pulumi.ComponentResource):
    """Depends on every component of a stack, so that the engine deletes it first; protected while any pool is.

    The engine deletes dependents before their dependencies and rejects a protected resource only when it reaches it;
    others may be gone by then (https://github.com/pulumi/pulumi, pkg/resource/deploy/step.go, `DeleteStep.Apply`).
    `--exclude-protected` keeps the dependencies of a protected resource, and `--target` requires the dependents too.
    """

    def __init__(self, everything: Iterable[pulumi.Resource], *, protect: bool) -> None:
        """Declare it in every stack, since an update cannot delete what the state still marks as protected."""
        opts = pulumi.ResourceOptions(depends_on=list(everything), protect=protect)
        super().__init__("gpupools:index:Protection", "protection", {}, opts)
        self.register_outputs({})
