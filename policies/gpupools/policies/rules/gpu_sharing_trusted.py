"""Pools that share GPUs without isolation name the team that uses them."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpupools.plan.node_labels import TRUST_LABEL, WAIVER_LABEL
from gpupools.plan.pool_facts import PoolFacts
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.policies.finding import Context, Finding, Rule, choice, texts
from gpupools.policies.rules._pools import describe_sharing
from gpupools.policies.rules._table import described
from gpupools.spec.models import shared_mode


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    sharing = pool.sharing
    mode = shared_mode(sharing.kind) if sharing is not None else None
    if sharing is None or mode is None or not mode.facts.needs_trust:
        return
    if pool.labels.get(TRUST_LABEL) or pool.labels.get(WAIVER_LABEL):
        return
    if RULE.option(context, "tenants") == "one":
        return
    named = [name for name in (pool.labels.get(POOL_LABEL), pool.pool, pool.name) if name]
    if any(fnmatchcase(name, pattern) for name in named for pattern in RULE.option(context, "waived")):
        return
    yield Finding(
        what=f"pods share a GPU by {sharing.kind}, which isolates neither faults nor all memory, and no team is named "
        "who may use it",
        property=sharing.property,
        found=describe_sharing(sharing),
        fix=f"set the node label {TRUST_LABEL} to the team that uses the pool, use MIG instead, or set tenants: one in "
        "the policy configuration if a single team uses the cluster",
        pool=pool.pool,
    )


RULE = Rule(
    **described(__name__),
    config={
        "tenants": choice(
            "several", "one", of="Whether teams that do not trust each other use the clusters of this environment."
        ),
        "waived": texts(f"Pools that anyone may share, by name or label {POOL_LABEL}, as patterns with * and ?."),
    },
    pool=_findings,
)
