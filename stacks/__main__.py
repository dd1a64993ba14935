"""The program `pulumi up` runs: every pool of `Pulumi.<stack>.yaml` on every cluster it names."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

# Pulumi runs this folder by path; its parent holds the packages, installed or (after `pulumi install`) not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pulumi

from components.clusters import addresses, provider, told_apart
from components.gpu_node_pool import GpuNodePool, PoolArgs
from components.gpu_runtime import GpuRuntime, Resources
from components.kubernetes_access import create_kubernetes_provider
from components.stack_config import decrypted, read_stack_config
from gpupools.access import ACCESS_KEYS, check_kubeconfig_paths, check_secrets
from gpupools.commands.diff import effects_of_inputs
from gpupools.diff import Planned, in_recorded_order, record
from gpupools.errors import Rejected
from gpupools.guard import Judged, judge, read_earlier
from gpupools.runtime.plan import RuntimePlan
from gpupools.stack import plan_config, plan_software
from gpupools.stackfile import is_in_checkout
from providers import clouds
from providers.last_update import last_update

SHOWN = 32
"""Exit code after which Pulumi's language host prints nothing more: the reader has been told
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""

# The engine interrupts the program when a mandatory policy fails; a KeyboardInterrupt's traceback would help nobody.
signal.signal(signal.SIGINT, lambda *_: os._exit(SHOWN))


def earlier_state() -> Mapping[str, Any] | None:
    """Return what this stack's last update left, None when nobody knows."""
    try:
        return last_update()
    except pulumi.RunError:
        raise
    except Exception as error:  # the SDK raises nothing narrower
        pulumi.log.warn(f"what this update replaces or deletes is left to Pulumi's own protect: {error}")
        return None


try:
    config = read_stack_config()
    given, encrypted = config.values, "clusters" in config.encrypted
    # Everything is decided before the first resource is declared.
    stack, plans = plan_config(config.marked, clouds(), config.others)
    check_secrets(stack.clusters)
    if config.encrypted:
        stack, plans = decrypted(plan_config, given, clouds(), config.others)
    runtimes = plan_software(stack, plans, clouds())
    check_kubeconfig_paths(stack.clusters, lambda path: is_in_checkout(path, Path(__file__).parent))
    state = earlier_state()
    earlier = read_earlier(state or {})
    judged = Judged() if state is None else judge(earlier, Planned(stack, plans), effects_of_inputs())
    if judged.refusals:
        raise Rejected(refusal.problem for refusal in judged.refusals.values())
except Rejected as rejected:
    pulumi.log.error(f"nothing was declared:\n{rejected}")
    sys.exit(SHOWN)  # pulumi.RunError would add a line about an unhandled error

for warning in judged.warnings:
    pulumi.log.warn(warning)
before = {
    f"{plan.cluster}/{plan.name}": earlier.of(plan.cluster, plan.name, stack.pools[plan.name].renamed_from)
    for plan in plans
}
records: dict[str, Any] = {
    key: record(in_recorded_order(plan, before[key]), stack).as_json()
    for plan in plans
    for key in [f"{plan.cluster}/{plan.name}"]
}
if config.encrypted:
    records = {key: pulumi.Output.secret(each) for key, each in records.items()}
references: dict[str, pulumi.StackReference] = {}
pools: dict[str, Any] = {}
owners: dict[str, Any] = {}


def protection(key: str, name: str) -> dict[str, bool]:
    """Return the key `protect` where the stack decides otherwise than the pool's own text."""
    protect = stack.protects(key, name)
    return {"protect": protect} if protect != stack.pools[name].protect else {}


def declare(key: str, runtime: RuntimePlan) -> None:
    """Declare a cluster's pools, and what they need in Kubernetes in the plan's order."""
    cloud, where = stack.clusters[key].cloud, located[key]
    own = provider(key, cloud, where)
    # How the API is reached, perhaps a secret, is the providers' business alone.
    cluster = {k: v for k, v in where.items() if k not in ("cloud", *ACCESS_KEYS)}
    if "runtime" in given["clusters"][key]:
        cluster["runtime"] = given["clusters"][key]["runtime"]
    mine = {
        name: cast(
            "PoolArgs", {k: v for k, v in given["pools"][name].items() if k != "clusters"} | protection(key, name)
        )
        for name, pool in stack.pools.items()
        if key in pool.clusters
    }

    def declare_pool(name: str, after: Resources) -> Resources:
        made = GpuNodePool(
            f"{key}-{name}",
            {"cloud": cloud, "cluster": cluster, "pool": mine[name], "pool_name": name},
            pulumi.ResourceOptions(providers=[own], depends_on=list(after)),
            records[f"{key}/{name}"],
            before[f"{key}/{name}"],
        )
        shown = {"name": made.node_pool_name, "capacity": made.capacity, "pod": made.pod}
        claim = {"claim_template": made.claim_template} if name in runtime.claim_templates else {}
        pools[f"{key}/{name}"] = {**shown, **claim}
        return [made]

    if runtime.needs_kubernetes:
        software = GpuRuntime(
            f"{key}-runtime",
            {"cloud": cloud, "cluster": cluster, "pools": mine},
            pulumi.ResourceOptions(providers=[create_kubernetes_provider(f"{key}-kubernetes", cloud, where)]),
            declare_pool,
        )
        owners[key] = software.owners
    else:
        for name in mine:
            declare_pool(name, [])
        owners[key] = runtime.as_json()["owners"]


located = told_apart(
    stack.clusters,
    {each.cluster: addresses(stack.clusters[each.cluster], references, secret=encrypted) for each in runtimes},
)
for planned in runtimes:
    declare(planned.cluster, planned)
pulumi.export("pools", pools)
pulumi.export("owners", owners)
