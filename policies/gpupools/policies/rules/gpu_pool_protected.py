"""GPU pools of production stacks are protected against deletion."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.finding import Context, Finding, Rule, texts
from gpupools.policies.rules._table import described


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    patterns = RULE.option(context, "stacks")
    if not pool.has_gpus or context.protect or pool.deletion_protected:
        return
    pattern = next((glob for glob in patterns if fnmatchcase(context.stack, glob)), None)
    if pattern is not None:
        yield Finding(
            what=f"GPU capacity of the production stack {context.stack} can be deleted by one edit",
            property="protect",
            found="false",
            fix="set protect: true in the resource options, or enable the cloud's deletion protection",
            pool=pool.pool,
        )


RULE = Rule(
    **described(__name__),
    config={
        "stacks": texts("Names of production stacks, as patterns with * and ?, e.g. [prod, '*-prod']."),
    },
    pool=_findings,
)
