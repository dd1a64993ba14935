"""GPU pools name their owner."""

from collections.abc import Iterator

from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.pool_facts import PoolFacts
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.policies.finding import Context, Finding, Rule, texts
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    keys = RULE.option(context, "labels")
    if not pool.has_gpus or not keys:
        return
    wanted = {key.casefold() for key in keys}
    if not any(
        key.casefold() in wanted and value for named in (pool.labels, pool.tags) for key, value in named.items()
    ):
        yield Finding(
            what="no label or tag names the owner of these GPUs",
            fix=f"add one of the labels or tags {', '.join(keys)}",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    config={
        "labels": texts(
            "Labels or tags of which a GPU pool needs at least one; [] requires none.",
            # gpupools sets POOL_LABEL on its pools; the history of the stack file shows their authors.
            default=("owner", "team", "cost-center", TRUST_LABEL, POOL_LABEL),
        )
    },
    pool=_findings,
)
