"""The program that `pulumi up` runs: declare every pool of `Pulumi.<stack>.yaml` on its clusters."""

import gc
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pulumi

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.components.clusters import addresses, kubernetes_identifier, provider, wait_for_distinct_clusters
from gpupools.components.gpu_node_pool import GpuNodePool, PlannedPool, PoolArgs
from gpupools.components.gpu_runtime import GpuRuntime, PlannedRuntime, Resources
from gpupools.components.kubernetes_access import create_kubernetes_provider
from gpupools.components.protection import PROTECTION_TYPE, Protection, hold_destroy, reject_incomplete
from gpupools.components.stack_config import StackConfig, hiding_values, read_stack_config
from gpupools.diff.guard import (
    POOL_TYPE,
    Earlier,
    GuardReport,
    drift,
    judge,
    pools_of,
    read_earlier,
    refused_inputs,
)
from gpupools.diff.input_diff import known_inputs
from gpupools.diff.records import hide_addresses, in_recorded_order, record
from gpupools.diff.software_diff import moved_clusters, protected_steps, record_software
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.providers.previous_state import engine_outputs, last_update
from gpupools.spec.cluster_access import ACCESS_KEYS
from gpupools.spec.models import Cluster
from gpupools.stackfile.check import file_access_problems
from gpupools.stackfile.price_list import read_price_list
from gpupools.stackfile.stack import StackPlan, places_against_lists, plan_config
from gpupools.stackfile.stack_validation import parse_stack
from gpupools.stackfile.steps import read_steps
from gpupools.stacks.debug_messages import send_debug_messages_in_background

ERROR_SHOWN = 32
"""Exit code after which Pulumi's language host prints no further error
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""


def _earlier_state() -> JsonObject | None:
    """Return the state of this stack's last update; None if it is unavailable."""
    try:
        return last_update()
    except pulumi.RunError:
        raise
    except Exception as error:  # the SDK raises nothing narrower
        pulumi.log.warn(
            f"gpupools cannot read the stack's state, so only Pulumi's protect guards against deletion: {error}"
        )
        return None


def _check_state_owner(state: Iterable[str]) -> None:
    """Raise `Rejected` if the state has resources of another stack or project: the engine would delete them."""
    own = f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::"
    others = sorted(
        {" of ".join(urn.removeprefix("urn:pulumi:").split("::")[:2]) for urn in state if not urn.startswith(own)}
    )
    if others:
        names = " and ".join(others)
        what = f"this stack's state contains resources of the stack {names}, which this update would delete"
        raise Rejected([Problem((), what, "import this stack's own last export, see docs/how-to/recover.md")])


def _other_stacks(earlier: Earlier, plan: StackPlan) -> dict[str, JsonObject]:
    """Return the outputs that stacks have now whose outputs the last update and this one use."""
    used = {str(cluster.stack) for cluster in plan.stack.clusters.values()} & earlier.references.keys()
    return {stack: engine_outputs("readStackOutputs", {"name": stack}, "outputs") or {} for stack in used}


def _warn_of_drift(earlier: Earlier, plan: StackPlan) -> None:
    """Warn after every resource is registered: with `--refresh`, the state from before is outdated."""
    nodes = {f"{pool.cluster}-{pool.name}-{end}" for pool in plan.pools for end in ("nodes", "pool")}
    urns = (urn for urn in earlier.resources if urn.rpartition("::")[2] in nodes)
    resources = {urn: engine_outputs("getResource", {"urn": urn}, "state") or {} for urn in urns}
    for warning in drift(resources, plan, clouds()):
        pulumi.log.warn(warning)


def _judge_inputs(pool: str, judged: GuardReport, plan: StackPlan) -> pulumi.ResourceTransformation:
    """Return a transformation that rejects updates of a pool's resources by their inputs, also in a preview.

    A program cannot read inputs of the state before it declares something. The engine passes them to a hook, which ends
    the update if it raises. The engine itself rejects the replacement and the deletion of what is protected.
    """

    async def inputs(given: Mapping[str, Any]) -> JsonObject:
        # The SDK makes a secret of a whole input that has a secret in it; its other parts count too.
        secret = {
            k: await value.future(with_unknowns=True) for k, value in given.items() if isinstance(value, pulumi.Output)
        }
        return {**known_inputs(given), **hide_addresses(known_inputs(secret), is_address=True)}

    async def reject(args: pulumi.ResourceHookArgs) -> None:
        both = await inputs(args.old_inputs or {}), await inputs(args.new_inputs or {})
        refusal = refused_inputs(judged, pool, args.urn, both, plan, clouds())
        if refusal is not None:
            raise pulumi.RunError(str(refusal.problem))

    hook = pulumi.ResourceHook(f"gpupools judges {pool}", reject, pulumi.ResourceHookOptions(on_dry_run=True))
    guard = pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[hook]))

    def with_guard(child: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        opts = pulumi.ResourceOptions.merge(child.opts, guard) if child.type_ != POOL_TYPE else child.opts
        return pulumi.ResourceTransformationResult(props=child.props, opts=opts)

    return with_guard


def run(folder: Path) -> None:
    """Declare every pool of the running stack on its clusters, and the GPU software in Kubernetes.

    No kubeconfig may be inside the checkout of the program's folder. A rejected stack exits after logging the errors.
    """
    # The engine interrupts the program when a mandatory policy fails; do not print a traceback then.
    signal.signal(signal.SIGINT, lambda *_: os._exit(ERROR_SHOWN))
    send_debug_messages_in_background()
    # Nearly all objects live until the program ends. Garbage collection took half of its time with a hundred pools
    # (benchmarks/engine_cost.py).
    gc.disable()
    try:
        config = read_stack_config()
        # Plan everything once, before the first resource is declared; encrypted values are unknown to the plan.
        prices = partial(read_price_list, folder=config.folder)
        checks = file_access_problems(folder)
        state = _earlier_state()
        running = pools_of(state or {})
        plan = plan_config(config.marked, clouds(), config.others, checks, price_list=prices, running=running)
        clusters = plan.stack.clusters
        if config.encrypted and config.is_decrypted:
            clusters = hiding_values(parse_stack, config.values, clouds()).clusters
        _check_state_owner(state or {})
        for place in places_against_lists(plan):
            pulumi.log.warn(str(place))
        earlier = read_earlier(state or {})
        judged = GuardReport() if state is None else judge(earlier, plan, clouds(), _other_stacks(earlier, plan))
        if judged.forbidden or judged.unknown:
            raise Rejected([*judged.unknown, *(refusal.problem for refusal in judged.forbidden.values())])
    except Rejected as rejected:
        pulumi.log.error(f"the stack was rejected, nothing was declared:\n{rejected}")
        sys.exit(ERROR_SHOWN)  # pulumi.RunError would add a line about an unhandled error

    allowed = (f"{key}: this update would {value.does}; {value}" for key, value in judged.allowed.items())
    for warning in (*judged.warnings, *allowed):
        pulumi.log.warn(warning)
    _declare(config, plan, clusters, earlier, state, judged)


def _declare(
    config: StackConfig,
    plan: StackPlan,
    clusters: Mapping[str, Cluster],
    earlier: Earlier,
    state: JsonObject | None,
    judged: GuardReport,
) -> None:
    """Declare everything.

    `clusters` have the decrypted addresses, of which the plan and its records know nothing.
    """
    stack = plan.stack
    recorded = {
        f"{pool.cluster}/{pool.name}": earlier.of(pool.cluster, pool.name, stack.pools[pool.name].renamed_from)
        for pool in plan.pools
    }
    planned = {
        key: in_recorded_order(pool, recorded[key]) for pool in plan.pools for key in [f"{pool.cluster}/{pool.name}"]
    }

    records = {key: record(value, stack).as_json() for key, value in planned.items()}
    references: dict[str, pulumi.StackReference] = {}
    is_secret, keys = "clusters" in config.encrypted, [runtime.cluster for runtime in plan.runtimes]
    where = {key: addresses(clusters[key], references, secret=is_secret) for key in keys}
    located = wait_for_distinct_clusters(clusters, where)
    pools: JsonDict = {}
    owners: JsonDict = {}
    everything: list[pulumi.Resource] = []
    protect = any(stack.protects(pool.cluster, pool.name) for pool in plan.pools)
    # Hooks start a server, which an offline preview does not need.
    held = hold_destroy(protect=protect) if state is not None else None
    moved = moved_clusters(judged.software)
    steps = read_steps(config.values["pools"]).pools
    guarded = {change.key for change in judged.changes if change.production and change.change != "created"}

    def pool_inputs(key: str, name: str) -> PoolArgs:
        """Return the pool as the component's inputs record it in the state; the plan does not use it.

        It is the pool as written in the stack file, with the stack's `protect` if that differs.
        """
        written = {k: value for k, value in steps[name].items() if k not in ("clusters", "mixed")}
        protect = stack.protects(key, name)
        return cast("PoolArgs", written | ({"protect": protect} if protect != stack.pools[name].protect else {}))

    def declare(runtime: RuntimePlan) -> None:
        """Declare a cluster's pools and GPU software in the plan's order."""
        key, cloud = runtime.cluster, runtime.cloud
        where = located[key]
        own = provider(key, cloud, where, held)
        # Access to the API, which may be a secret, is only for the providers.
        provider_keys = {"cloud", *ACCESS_KEYS, *stack.clusters[key].identity}
        cluster = {k: v for k, v in where.items() if k not in provider_keys}
        written = config.values["clusters"][key]
        if "runtime" in written:
            cluster["runtime"] = written["runtime"]
        mine = {pool.name: pool_inputs(key, pool.name) for pool in plan.pools if pool.cluster == key}

        def declare_pool(name: str, after: Resources) -> Resources:
            guards = [_judge_inputs(f"{key}-{name}", judged, plan)] if f"{key}/{name}" in guarded else []
            made = GpuNodePool(
                f"{key}-{name}",
                {"cloud": cloud, "cluster": cluster, "pool": mine[name], "pool_name": name},
                pulumi.ResourceOptions(providers=[own], depends_on=list(after), transformations=guards),
                PlannedPool(planned[f"{key}/{name}"], records[f"{key}/{name}"]),
            )
            everything.append(made)
            shown = {"name": made.node_pool_name, "capacity": made.capacity, "pod": made.pod}
            asks = {"pod_metadata": runtime.pod_metadata[name]} if name in runtime.pod_metadata else {}
            claim = {"claim_template": made.claim_template} if name in runtime.claim_templates else {}
            needed = {"namespace_objects": made.namespace_objects} if name in runtime.namespace_objects else {}
            whole = {"node_pod": made.node_pod} if name in runtime.node_pods else {}
            pools[f"{key}/{name}"] = {**shown, **asks, **claim, **whole, **needed}
            return [made]

        for group, own_steps in plan.groups[key].items():
            names = [f"{key}/{step.name}" for step in own_steps]
            pools[f"{key}/{group}"] = {"steps": names, **runtime.groups[group]}

        if runtime.needs_kubernetes:
            identifier = kubernetes_identifier(where)
            access = create_kubernetes_provider(f"{key}-kubernetes", cloud, where, held, identifier)
            software = GpuRuntime(
                f"{key}-runtime",
                {"cloud": cloud, "cluster": cluster, "pools": mine},
                pulumi.ResourceOptions(providers=[access]),
                PlannedRuntime(
                    runtime,
                    declare_pool,
                    record_software(runtime, stack).as_json(),
                    protected_steps(runtime, stack),
                    key in moved,
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
    last = Protection(everything, protect=protect)
    if earlier.resources:
        last.urn.apply(lambda _: _warn_of_drift(earlier, plan))
    for runtime_plan in plan.runtimes:
        key = runtime_plan.cluster
        if stack.clusters[key].runtime.wait_ready is not None:
            from gpupools.components.readiness import Readiness  # only this needs to read clusters

            plain = [records[f"{pool.cluster}/{pool.name}"] for pool in planned.values() if pool.cluster == key]
            plain.append(record_software(runtime_plan, stack).as_json())
            # After all clusters, since the engine starts nothing more once a wait has failed.
            opts = pulumi.ResourceOptions(depends_on=everything)
            Readiness(plan, key, located[key], last, {"records": plain}, opts)
    types = {item.get("type") for item in (state or {}).values()}
    if protect and POOL_TYPE in types and PROTECTION_TYPE not in types:
        reject_incomplete(everything)
    pulumi.export("pools", pools)
    pulumi.export("owners", owners)
