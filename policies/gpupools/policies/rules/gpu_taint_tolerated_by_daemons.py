"""GPU daemons tolerate the taint of GPU pools."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule
from gpupools.policies.rules._frameworks import DEDICATED


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.gpus_per_node != 0 and pool.accelerator != "other" and pool.only_no_execute:
        yield Finding(
            what="only a NoExecute taint keeps other pods off, and GPU daemons do not tolerate it by default",
            property=pool.where,
            fix=f"add {pool.missing_taint.text} to {pool.where}, or add the toleration to every GPU chart",
            pool=pool.pool,
        )


RULE = Rule(
    name="gpu-taint-tolerated-by-daemons",
    order=20,
    level=Level.ADVISORY,
    severity="low",
    why="By default, GPU daemons such as the device plugin tolerate only the effect NoSchedule.",
    fix="Use the effect NoSchedule, alone or beside NoExecute.",
    url="https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml",
    framework=DEDICATED,
    pool=_judge,
)
