"""Pools with accelerators that are no GPUs have a taint."""

from collections.abc import Iterator

from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule
from gpupools.policies.rules._frameworks import DEDICATED


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.accelerator == "other" and pool.in_cluster is not False and not repels_cpu_pods(pool.taints):
        yield Finding(
            what=f"has an accelerator that is not a GPU ({pool.other_accelerator or ', '.join(pool.instance_types)}), "
            "and no permanent taint keeps other pods off",
            property=pool.where,
            fix="add a taint with effect NoSchedule, with the resource that its pods request as the key",
            pool=pool.pool,
        )


RULE = Rule(
    name="other-accelerator-tainted",
    order=30,
    level=Level.ADVISORY,
    severity="low",
    why="Nodes with Neuron devices, Gaudi cards or TPUs are as scarce as nodes with GPUs.",
    fix="Add a taint with effect NoSchedule to the pool.",
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
    framework=DEDICATED,
    pool=_judge,
)
