"""The program `pulumi up` runs: every pool of `Pulumi.<stack>.yaml` on every cluster it names."""

import os
import signal
import sys
from pathlib import Path
from typing import cast

# Pulumi runs this folder by path; its parent holds the packages, installed or (after `pulumi install`) not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pulumi

from components.clusters import addresses, provider
from components.gpu_node_pool import GpuNodePool, PoolArgs
from gpupools.errors import Rejected
from gpupools.stack import KEYS, plan_config
from providers import clouds

# The engine interrupts the program when a mandatory policy fails; 32 is the exit code with which Pulumi's language
# host prints nothing more (sdk/python/cmd/pulumi-language-python/main.go), instead of a KeyboardInterrupt's traceback.
signal.signal(signal.SIGINT, lambda *_: os._exit(32))

config = pulumi.Config("gpupools")
given = {key: value for key in KEYS if (value := config.get_object(key)) is not None}
try:
    stack, _ = plan_config(given, clouds())  # every pool, before the first resource is declared
except Rejected as rejected:
    raise pulumi.RunError(f"nothing was declared:\n{rejected}") from None

references: dict[str, pulumi.StackReference] = {}
pools = {}
for key, cluster in stack.clusters.items():
    where = addresses(cluster, references)
    own = provider(key, cluster.cloud, where)
    for name, pool in stack.pools.items():
        if key in pool.clusters:
            made = GpuNodePool(
                f"{key}-{name}",
                {
                    "cloud": cluster.cloud,
                    "cluster": {k: v for k, v in where.items() if k != "cloud"},
                    "pool": cast("PoolArgs", {k: v for k, v in given["pools"][name].items() if k != "clusters"}),
                    "pool_name": name,
                },
                pulumi.ResourceOptions(providers=[own]),
            )
            pools[f"{key}/{name}"] = {"name": made.node_pool_name, "capacity": made.capacity, "pod": made.pod}
pulumi.export("pools", pools)
