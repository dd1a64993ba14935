"""Karpenter pools for other work exclude instance types with GPUs."""

from collections.abc import Iterator

from gpupools.common.taints import repels_cpu_pods
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    for resource in stack.resources:
        for pool in resource.pools:
            open_ = pool.open_to_gpus
            # Its node class, a resource of its own, may taint GPU nodes.
            if open_ is None or repels_cpu_pods(stack.joined(resource, pool).taints):
                continue
            which = f", such as {open_.machine}" if open_.machine else ""
            cure = f"add {open_.cure}" if open_.cure else "add a requirement that excludes instance types with GPUs"
            finding = Finding(
                what=f"may create nodes with NVIDIA GPUs{which}: no requirement or limit excludes them, and no "
                "permanent taint keeps other pods off them",
                property=open_.property,
                found=open_.found,
                fix=f"{cure}, or the limit nvidia.com/gpu: 0; for a pool that is meant for GPUs, add "
                f"{pool.missing_taint.text} to {pool.where}",
                pool=pool.pool,
            )
            yield resource.urn, finding


RULE = Rule(
    **described(__name__),
    stack=_findings,
)
