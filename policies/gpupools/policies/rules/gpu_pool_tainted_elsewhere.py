"""GPU pools whose machines or taints are in another resource have a taint."""

from collections.abc import Iterator

from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Level, Rule, unknown_at_preview
from gpupools.policies.rules._frameworks import DEDICATED
from gpupools.policies.rules._taints import deciding_references, find_missing_taint


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
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
                    within.urn in at_fault or any(each.lacks_taint for each in within.pools)
                )
                if finding is not None and not reported and not (within and finding.unverified):
                    at_fault.add(resource.urn)
                    yield resource.urn, finding


RULE = Rule(
    name="gpu-pool-tainted-elsewhere",
    order=140,
    level=Level.MANDATORY,
    severity="high",
    why="A launch template can hide the GPUs of nodes that accept ordinary pods.",
    fix="Add a NoSchedule or NoExecute taint to the pool's own inputs, as a plain value.",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    framework=DEDICATED,
    config=unknown_at_preview(),
    stack=_judge,
)
