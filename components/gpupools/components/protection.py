"""Protect a stack from `pulumi destroy`, whole or partial: its first and its last resource."""

from collections.abc import Iterable, Iterator

import pulumi
from pulumi.output import contains_unknowns

PROTECTION_TYPE = "gpupools:index:Protection"

HOOK = "gpupools protects this stack, see docs/how-to/production.md"
"""Name of a hook; the engine prints it when it refuses `pulumi destroy`."""


def hold_destroy(*, protect: bool) -> pulumi.ResourceOptions:
    """Return options for the providers of a stack, which the engine declares before anything that uses them.

    A first update that fails declares no `Protection`. While the state has a delete hook, the engine deletes nothing
    without running the program (https://github.com/pulumi/pulumi, pkg/engine/destroy.go, `newDestroySource`). The hook
    itself allows everything. Every update registers it, since the engine requires that when an update deletes a
    provider that has it.
    """
    hook = pulumi.ResourceHook(HOOK, lambda _: None)
    return pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_delete=[hook]) if protect else None)


class Protection(pulumi.ComponentResource):
    """Depends on every component of a stack, so that the engine deletes it first; protected while any pool is.

    The engine deletes dependents before their dependencies and rejects a protected resource only when it reaches it;
    others may be gone by then (https://github.com/pulumi/pulumi, pkg/resource/deploy/step.go, `DeleteStep.Apply`).
    `--exclude-protected` keeps the dependencies of a protected resource, and `--target` requires the dependents too.
    """

    def __init__(self, everything: Iterable[pulumi.Resource], *, protect: bool) -> None:
        """Declare it in every stack, since an update cannot delete what the state still marks as protected."""
        opts = pulumi.ResourceOptions(depends_on=list(everything), protect=protect)
        super().__init__(PROTECTION_TYPE, "protection", {}, opts)
        self.register_outputs({})


def reject_incomplete(everything: Iterable[pulumi.Resource]) -> None:
    """End the program if the engine has created or found no id for a resource, except in a preview.

    `pulumi destroy --run-program` creates nothing, so it deletes what a failed first update made, once the program has
    ended (https://github.com/pulumi/pulumi, pkg/resource/deploy/step_generator.go, `destroyMode`).
    """

    def reject_unknown(ids: object) -> None:
        if contains_unknowns(ids):
            fix = "run pulumi up, or see docs/how-to/production.md"
            raise pulumi.RunError(f"the stack has protected pools, and its first update has not ended; {fix}")

    if not pulumi.runtime.is_dry_run():
        ids = [custom_resource.id for resource in everything for custom_resource in _custom_resources(resource)]
        pulumi.Output.all(*ids).apply(reject_unknown, run_with_unknowns=True)


def _custom_resources(resource: pulumi.Resource) -> Iterator[pulumi.CustomResource]:
    if isinstance(resource, pulumi.CustomResource):
        yield resource
    for child in resource._childResources:
        yield from _custom_resources(child)
