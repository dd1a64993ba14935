"""What `pulumi up` runs: every pool of `Pulumi.<stack>.yaml` on every cluster it names."""

import gc
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pulumi

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.components.clusters import addresses, provider, told_apart
from gpupools.components.gpu_node_pool import DecidedPool, GpuNodePool, PoolArgs
from gpupools.components.gpu_runtime import DecidedRuntime, GpuRuntime, Resources
from gpupools.components.kubernetes_access import create_kubernetes_provider
from gpupools.components.protection import Protection
from gpupools.components.stack_config import StackConfig, decrypted, read_stack_config
from gpupools.diff.guard import Earlier, Judged, judge, read_earlier
from gpupools.diff.pool_diff import in_recorded_order, record
from gpupools.diff.software_diff import protected_steps, record_software
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.providers.previous_state import last_update
from gpupools.providers.sdk_aliases import make_no_urns_of_aliases
from gpupools.spec.cluster_access import ACCESS_KEYS
from gpupools.stackfile.check import file_access_problems
from gpupools.stackfile.stack import StackPlan, parse_stack, plan_config
from gpupools.stacks.debug_messages import send_debug_messages_beside

SHOWN = 32
"""Exit code after which Pulumi's language host prints nothing more: the reader has been told
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""


def _earlier_state() -> JsonObject | None:
    """Return what this stack's last update left, None when nobody knows."""
    try:
        return last_update()
    except pulumi.RunError:
        raise
    except Exception as error:  # the SDK raises nothing narrower
        pulumi.log.warn(f"what this update replaces or deletes is left to Pulumi's own protect: {error}")
        return None


def _check_whose(state: Iterable[str]) -> None:
    """Refuse a state that is another stack's: the engine would delete whatever is in it under another URN.

    Raises:
        Rejected: It holds resources of another stack or project.
    """
    own = f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::"
    others = sorted(
        {" of ".join(urn.removeprefix("urn:pulumi:").split("::")[:2]) for urn in state if not urn.startswith(own)}
    )
    if others:
        what = f"this stack's state holds resources of the stack {' and '.join(others)}, which this update would delete"
        raise Rejected([Problem((), what, "import the stack's own last state, as docs/how-to/recover.md says")])


def run(folder: Path) -> None:
    """Declare every pool of the running stack on every cluster it names, and what they need in Kubernetes.

    Args:
        folder: The program's own, in the checkout out of which no kubeconfig may come.

    Raises:
        SystemExit: The stack is refused; the reader has been told.
    """
    # The engine interrupts the program when a mandatory policy fails; a traceback of that would help nobody.
    signal.signal(signal.SIGINT, lambda *_: os._exit(SHOWN))
    send_debug_messages_beside()
    make_no_urns_of_aliases()
    # Nearly all that a program makes lives until it ends. Looking it through for garbage again and again took half of
    # the program's time with a hundred pools (benchmarks/engine_cost.py).
    gc.disable()
    try:
        config = read_stack_config()
        # Everything is decided before the first resource is declared, and once: what is encrypted is late to the plan.
        plan = plan_config(config.marked, clouds(), config.others, file_access_problems(folder))
        if config.encrypted:
            plan = plan._replace(stack=decrypted(parse_stack, config.values, clouds()))
        state = _earlier_state()
        _check_whose(state or {})
        earlier = read_earlier(state or {})
        judged = Judged() if state is None else judge(earlier, plan, clouds())
        if judged.forbidden or judged.unknown:
            raise Rejected([*judged.unknown, *(refusal.problem for refusal in judged.forbidden.values())])
    except Rejected as rejected:
        pulumi.log.error(f"nothing was declared:\n{rejected}")
        sys.exit(SHOWN)  # pulumi.RunError would add a line about an unhandled error

    for warning in judged.warnings:
        pulumi.log.warn(warning)
    _declare(config, plan, earlier)


def _declare(config: StackConfig, plan: StackPlan, earlier: Earlier) -> None:
    stack = plan.stack
    recorded = {
        f"{each.cluster}/{each.name}": earlier.of(each.cluster, each.name, stack.pools[each.name].renamed_from)
        for each in plan.pools
    }
    planned = {
        key: in_recorded_order(each, recorded[key]) for each in plan.pools for key in [f"{each.cluster}/{each.name}"]
    }

    def kept(made: JsonObject) -> pulumi.Input[JsonObject]:
        """Keep a record secret where the configuration holds secrets, which may be among what it says."""
        return pulumi.Output.secret(made) if config.encrypted else made

    records = {key: kept(record(each, stack).as_json()) for key, each in planned.items()}
    references: dict[str, pulumi.StackReference] = {}
    located = told_apart(
        stack.clusters,
        {
            each.cluster: addresses(stack.clusters[each.cluster], references, secret="clusters" in config.encrypted)
            for each in plan.runtimes
        },
    )
    pools: JsonDict = {}
    owners: JsonDict = {}
    everything: list[pulumi.Resource] = []

    def as_written(key: str, name: str) -> PoolArgs:
        """Return what a component's inputs show of a pool, for readers of the state: nothing is decided by it.

        It is the pool's own text, and `protect` where the stack decides otherwise.
        """
        written = {k: value for k, value in config.values["pools"][name].items() if k != "clusters"}
        protect = stack.protects(key, name)
        return cast("PoolArgs", written | ({"protect": protect} if protect != stack.pools[name].protect else {}))

    def declare(runtime: RuntimePlan) -> None:
        """Declare a cluster's pools, and what they need in Kubernetes in the plan's order."""
        key, cloud = runtime.cluster, runtime.cloud
        where = located[key]
        own = provider(key, cloud, where)
        # How the API is reached, perhaps a secret, is the providers' business alone.
        not_theirs = {"cloud", *ACCESS_KEYS, *stack.clusters[key].identity}
        cluster = {k: v for k, v in where.items() if k not in not_theirs}
        written = config.values["clusters"][key]
        if "runtime" in written:
            cluster["runtime"] = written["runtime"]
        mine = {each.name: as_written(key, each.name) for each in plan.pools if each.cluster == key}

        def declare_pool(name: str, after: Resources) -> Resources:
            made = GpuNodePool(
                f"{key}-{name}",
                {"cloud": cloud, "cluster": cluster, "pool": mine[name], "pool_name": name},
                pulumi.ResourceOptions(providers=[own], depends_on=list(after)),
                DecidedPool(planned[f"{key}/{name}"], records[f"{key}/{name}"]),
            )
            everything.append(made)
            shown = {"name": made.node_pool_name, "capacity": made.capacity, "pod": made.pod}
            claim = {"claim_template": made.claim_template} if name in runtime.claim_templates else {}
            needed = {"namespace_objects": made.namespace_objects} if name in runtime.namespace_objects else {}
            whole = {"node_pod": made.node_pod} if name in runtime.node_pods else {}
            pools[f"{key}/{name}"] = {**shown, **claim, **whole, **needed}
            return [made]

        if runtime.needs_kubernetes:
            software = GpuRuntime(
                f"{key}-runtime",
                {"cloud": cloud, "cluster": cluster, "pools": mine},
                pulumi.ResourceOptions(providers=[create_kubernetes_provider(f"{key}-kubernetes", cloud, where)]),
                DecidedRuntime(
                    runtime,
                    declare_pool,
                    kept(record_software(runtime, stack).as_json()),
                    protected_steps(runtime, stack),
                ),
            )
            everything.append(software)
            owners[key] = software.owners
        else:
            for name in mine:
                declare_pool(name, [])
            owners[key] = runtime.as_json()["owners"]

    for runtime in plan.runtimes:
        declare(runtime)
    Protection(everything, protect=any(stack.protects(each.cluster, each.name) for each in plan.pools))
    pulumi.export("pools", pools)
    pulumi.export("owners", owners)
