"""GPU pools and their launch templates have no unexplained user data, identities or node settings."""

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from gpupools.plan.pool_facts import CUSTOMISATIONS, NodeCustomization, PoolFacts
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, reasons, texts, unknown_at_preview
from gpupools.policies.rules._table import described


def _pool_findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return _findings(pool, context) if pool.has_gpus else iter(())


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report launch templates and node classes that GPU pools use."""
    reported: set[tuple[str, str]] = set()
    whole: set[str] = set()
    """Templates whose findings are all reported."""
    for resource, pool, other, own in stack.templates_of_gpu_pools():
        made_by = stack.component(resource)
        if other.urn in whole or (made_by is not None and other.parent == made_by.urn):
            continue  # reported before, or on the component from its own inputs
        # A template has no labels; those of its pool hold the pool's name, which reasons refer to.
        template = replace(own, labels={**own.labels, **pool.labels})
        found = list(_findings(template, context))
        if len(found) == len(template.node_customizations):
            whole.add(other.urn)
        for finding in found:
            if (other.urn, finding.property) not in reported:
                reported.add((other.urn, finding.property))
                yield other.urn, finding


_POOL_TAG = "gpupools:pool"


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    """Report custom node settings of a pool or template for which the configuration has no reason.

    Findings never show values, because user data and metadata may hold secrets.
    """
    accepted = RULE.option(context, "reasons")
    named = [pool.labels.get(POOL_LABEL), pool.tags.get(_POOL_TAG), pool.pool, pool.name]
    names = [name for name in named if name] or [""]
    found = [*pool.node_customizations]
    allowed = RULE.option(context, "identities")
    if allowed and pool.identity is not None:
        path, identity = pool.identity
        late = not isinstance(identity, str)
        if late or not any(fnmatchcase(identity, pattern) for pattern in allowed):
            found.append(
                NodeCustomization(
                    "node-identity", path, "nodes run with an identity that is not in identities", RULE.url, late
                )
            )
    for customization in found:
        if not any(fnmatchcase(f"{name}/{customization.kind}", pattern) for name in names for pattern in accepted):
            yield Finding(
                what=f"{customization.kind} by hand: {customization.why}",
                property=customization.property,
                found="not known at preview" if customization.unverified else "set",
                fix=f"remove it, or state the reason in the policy configuration: {{reasons: "
                f"{{'{names[0] or '*'}/{customization.kind}': …}}}}",
                source=customization.source,
                pool=pool.pool,
                unverified=customization.unverified,
            )


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview("advisory"),
        "reasons": reasons(
            "Settings to accept, with the reason: `<pool>/<kind>` as a pattern with * and ? to a sentence. "
            f"Kinds: {', '.join(CUSTOMISATIONS)}."
        ),
        "identities": texts(
            "Roles and service accounts that nodes may run as, as patterns with * and ?; [] allows any."
        ),
    },
    pool=_pool_findings,
    stack=_judge_stack,
)
