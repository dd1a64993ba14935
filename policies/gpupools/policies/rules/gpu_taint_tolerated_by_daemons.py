"""GPU daemons tolerate the taint of GPU pools."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Level, Rule
from gpupools.policies.rules._frameworks import DEDICATED


def _judge(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.gpus_per_node != 0 and pool.accelerator != "other" and pool.only_no_execute:
        yield Finding(
            what="only a NoExecute taint keeps other pods off, which the GPU daemons do not tolerate by default",
            property=pool.where,
            fix=f"add {pool.missing_taint.text} to {pool.where}, or give every GPU chart the toleration",
            pool=pool.pool,
        )


RULE = Rule(
    name="gpu-taint-tolerated-by-daemons",
    order=20,
    level=Level.ADVISORY,
    severity="low",
    why="The daemons that make GPUs usable tolerate the effect NoSchedule only, unless told otherwise.",
    fix="Use the effect NoSchedule, alone or beside NoExecute.",
    url="https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml",
    framework=DEDICATED,
    pool=_judge,
)
