"""The program `pulumi up` runs: every pool of `Pulumi.<stack>.yaml` on every cluster it names."""

import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

# Pulumi runs this folder by path; its parent holds the packages, installed or (after `pulumi install`) not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pulumi
from pulumi.runtime.config import is_config_secret

from components.clusters import addresses, provider
from components.gpu_node_pool import GpuNodePool, PoolArgs
from components.gpu_runtime import GpuRuntime, Resources
from components.kubernetes_access import create_kubernetes_provider
from gpupools.access import ACCESS_KEYS, check_secrets
from gpupools.errors import Rejected
from gpupools.runtime.plan import RuntimePlan
from gpupools.stack import KEYS, plan_config, plan_software
from providers import clouds

SHOWN = 32
"""Exit code after which Pulumi's language host prints nothing more: the reader has been told
(https://github.com/pulumi/pulumi, sdk/python/cmd/pulumi-language-python/main.go)."""

# The engine interrupts the program when a mandatory policy fails; a KeyboardInterrupt's traceback would help nobody.
signal.signal(signal.SIGINT, lambda *_: os._exit(SHOWN))

config = pulumi.Config("gpupools")
given = {key: value for key in KEYS if (value := config.get_object(key)) is not None}
try:
    # Everything is decided before the first resource is declared.
    stack, plans = plan_config(given, clouds())
    runtimes = plan_software(stack, plans, clouds())
    check_secrets(stack.clusters, is_config_secret("gpupools:clusters"))
except Rejected as rejected:
    pulumi.log.error(f"nothing was declared:\n{rejected}")
    sys.exit(SHOWN)  # pulumi.RunError would add a line about an unhandled error

references: dict[str, pulumi.StackReference] = {}
pools: dict[str, Any] = {}
owners: dict[str, Any] = {}


def declare(key: str, runtime: RuntimePlan) -> None:
    """Declare a cluster's pools, and what they need in Kubernetes in the plan's order."""
    cloud, where = stack.clusters[key].cloud, addresses(stack.clusters[key], references)
    own = provider(key, cloud, where)
    # How the API is reached, perhaps a secret, is the providers' business alone.
    cluster = {k: v for k, v in where.items() if k not in ("cloud", *ACCESS_KEYS)}
    if "runtime" in given["clusters"][key]:
        cluster["runtime"] = given["clusters"][key]["runtime"]
    mine = {
        name: cast("PoolArgs", {k: v for k, v in given["pools"][name].items() if k != "clusters"})
        for name, pool in stack.pools.items()
        if key in pool.clusters
    }

    def declare_pool(name: str, after: Resources) -> Resources:
        made = GpuNodePool(
            f"{key}-{name}",
            {"cloud": cloud, "cluster": cluster, "pool": mine[name], "pool_name": name},
            pulumi.ResourceOptions(providers=[own], depends_on=list(after)),
        )
        pools[f"{key}/{name}"] = {"name": made.node_pool_name, "capacity": made.capacity, "pod": made.pod}
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


for planned in runtimes:
    declare(planned.cluster, planned)
pulumi.export("pools", pools)
pulumi.export("owners", owners)
