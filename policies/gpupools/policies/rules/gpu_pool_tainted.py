"""GPU pools keep pods without GPU work off their nodes."""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, choice, unknown_at_preview
from gpupools.policies.rules._table import described
from gpupools.policies.rules._taints import deciding_references, find_missing_taint, overlaps


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    """Report a GPU pool whose nodes accept pods that request no GPUs.

    The fix names the GPU taint, but any permanent taint with a key and a hard effect satisfies the rule.

    Values that are unknown at preview: a known taint that keeps pods off is enough, and so is a known absence of GPUs.
    Known GPUs and a known absence of such a taint are a violation. Otherwise the finding is `unverified`, which is a
    violation unless the configuration sets `unknownAtPreview: advisory`. If another resource, such as a launch
    template, holds the instance type or the taints, `_judge_stack` judges the pool.
    """
    if not deciding_references(pool) and (finding := find_missing_taint(pool)) is not None:
        advice = bool(pool.cloud_taint) and not finding.unverified and RULE.option(context, _BY_CLOUD) == "advisory"
        yield replace(finding, advice=advice)


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report pools whose machines or taints are in another resource, joined with it."""
    at_fault: set[str] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            within = stack.component(resource) if pool.elsewhere else None
            if pool.elsewhere and (within or deciding_references(pool)) and find_missing_taint(pool) is not None:
                whole = stack.joined(resource, pool)
                if whole.in_cluster is None and not (whole.gpus_per_node or whole.evidence):
                    continue  # neither GPUs nor nodes are known
                finding = find_missing_taint(whole)
                if finding is not None and not pool.evidence and stack.is_reported_on_reference(resource, pool):
                    continue  # reported on the template
                reported = within is not None and (
                    within.urn in at_fault or any(read_pool.lacks_taint for read_pool in within.pools)
                )
                if finding is not None and not reported and not (within and finding.unverified):
                    at_fault.add(resource.urn)
                    yield resource.urn, finding


_BY_CLOUD = "taintByCloud"


def taint_can_be_added(pool: PoolFacts) -> bool:
    """Say whether remediation can safely add the missing taint.

    It can if the pool certainly has GPUs and lacks the taint. It can also if only another resource may add taints, such
    as the launch template of an EKS group with an EKS image: nodes register with the pool's own list, so a taint there
    is correct in any case.
    """
    finding = find_missing_taint(pool)
    if finding is None or pool.no_taint_field:
        return False
    if not finding.unverified:
        return True
    others = {reference.property for reference in pool.elsewhere if not reference.decides & {"machine", "image"}}
    own = [name for name in pool.unknown if overlaps(name, pool.where)]
    return pool.has_gpus and not own and set(pool.unresolved_taints) <= others


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview(),
        _BY_CLOUD: choice(
            "violation",
            "advisory",
            of="Level of findings on GKE pools without a declared taint. GKE adds one only while the cluster has a "
            "pool without GPUs.",
        ),
    },
    pool=_findings,
    stack=_judge_stack,
)
