"""GPU nodes and the launch templates of GPU pools meet the mandatory part of the hardening baseline."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, unknown_at_preview
from gpupools.policies.rules._pools import hardening_findings
from gpupools.policies.rules._table import described


def _hardening_findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return (each for each in _findings(pool) if not _is_set_by_cluster(pool, each)) if pool.has_gpus else iter(())


def _findings(pool: PoolFacts) -> Iterator[Finding]:
    return hardening_findings(pool, mandatory=True)


def _is_set_by_cluster(pool: PoolFacts, finding: Finding) -> bool:
    """Say whether the cluster may set what the pool leaves out: with workload identity, new pools get GKE_METADATA.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity#enable-existing-cluster
    """
    return pool.cloud == "gcp" and finding.what.startswith("metadata-service") and finding.found == "unset"


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report launch templates and node classes that GPU pools use, and what only the cluster of a pool decides."""
    for resource in stack.resources:
        for pool in resource.pools:
            if pool.has_gpus and not stack.has_workload_identity(resource):
                yield from ((resource.urn, finding) for finding in _findings(pool) if _is_set_by_cluster(pool, finding))
    templates = {other.urn: template for _, _, other, template in stack.templates_of_gpu_pools()}
    for urn, template in templates.items():
        first: dict[str, Finding] = {}
        for finding in _findings(template):
            first.setdefault(finding.property, finding)
        yield from ((urn, finding) for finding in first.values())


RULE = Rule(
    **described(__name__),
    config=unknown_at_preview("advisory"),
    advice_outside_stacks=True,
    pool=_hardening_findings,
    stack=_judge_stack,
)
