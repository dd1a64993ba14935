"""A resource that waits until the pools of a cluster are ready, as `gpupools ready` judges them."""

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pulumi

from gpupools.common.json_types import JsonObject
from gpupools.components.kubernetes_access import kubeconfig_of
from gpupools.console.output import line
from gpupools.providers import clouds
from gpupools.ready.live_cluster import program_access
from gpupools.ready.promises import promises
from gpupools.ready.watch import Watch
from gpupools.stackfile.stack import StackPlan


class Readiness(pulumi.ComponentResource):
    """Waits before it is created, and before an update when the records of the cluster's pools or software change.

    The engine runs hooks in the program, and not in previews. If one fails, the state keeps the resource as it was, so
    that the next update waits again (https://github.com/pulumi/pulumi, pkg/resource/deploy/deployment.go, `RunHooks`).
    """

    def __init__(
        self,
        plan: StackPlan,
        key: str,
        where: Mapping[str, pulumi.Input[Any]],
        last: pulumi.Resource,
        records: pulumi.Input[JsonObject],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Wait after `last`, for the pools of the cluster `key`, whose keys have resolved values in `where`."""
        hooks = None
        if not pulumi.runtime.is_dry_run():
            source, context = kubeconfig_of(plan.stack.clusters[key].cloud, where)
            kubeconfig = pulumi.Output.all(source, last.urn)

            async def wait(_: pulumi.ResourceHookArgs) -> None:
                # Not among the inputs, so that no state has it.
                given, __ = await kubeconfig.future() or ("", "")
                await asyncio.to_thread(wait_until_ready, plan, key, given, context)

            hook = pulumi.ResourceHook(f"wait until the pools of {key} are ready", wait)
            hooks = pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(hooks=hooks))
        promised = pulumi.Output.from_input(records).apply(_digest)
        super().__init__("gpupools:index:Readiness", f"{key}-ready", {"promised": promised}, opts)
        self.register_outputs({})


def _digest(records: Any) -> str:
    return sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()


def wait_until_ready(plan: StackPlan, key: str, kubeconfig: str, context: str | None) -> None:
    """Return when the pools of a cluster are ready; raise `pulumi.RunError` with the causes if the time is over."""
    wanted = [promise for promise in promises(plan) if promise.pool.cluster == key]
    stack_file = f"Pulumi.{pulumi.get_stack()}.yaml"
    watch = Watch(wanted, plan.stack.clusters, clouds(), lambda _: program_access(kubeconfig, context), stack_file)
    seconds = plan.stack.clusters[key].runtime.wait_ready or 0
    for _ in watch.looks(seconds):
        pass
    if not watch.is_ready:
        lines = [text for status in watch.found if not status.is_ready for text in status.lines(watch.now)]
        lines += map(str, watch.problems.values())
        what = f"the pools of {key} are not ready, with runtime.wait_ready: {seconds}; nothing is undone"
        raise pulumi.RunError("\n".join([f"{what}, and the next pulumi up waits again", *map(line, lines)]))
