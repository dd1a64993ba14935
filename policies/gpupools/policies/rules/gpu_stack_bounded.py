"""All GPU pools of a stack together stay within its limits."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Framework, Level, Rule, unknown_at_preview
from gpupools.policies.rules._pools import in_zones


def _judge(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    nodes_cap = RULE.option(context, "maxNodes")
    gpus_cap = RULE.option(context, "maxGpus")
    if nodes_cap is None and gpus_cap is None:
        return
    sizes = [(each, pool, pool.most_nodes or 0) for each, pool in stack.gpu_pools]
    nodes = sum(most for _, _, most in sizes)
    gpus = sum(most * (pool.gpus_per_node or 1) for _, pool, most in sizes)
    # Counted with one zone where it is not known yet how many a pool has.
    known = [(pool.max_nodes or 0 if pool.zones_unknown else most, pool) for _, pool, most in sizes]
    sure = {"nodes": sum(most for most, _ in known), "GPUs": sum(most * (p.gpus_per_node or 1) for most, p in known)}
    largest = ", ".join(
        f"{each.name} {most}{in_zones(pool)}"
        for each, pool, most in sorted(sizes, key=lambda size: size[2], reverse=True)[:3]
    )
    for total, cap, word in ((nodes, nodes_cap, "nodes"), (gpus, gpus_cap, "GPUs")):
        if cap is not None and total > cap:
            shown = int(total) if total == int(total) else float(total)
            what = f"the GPU pools of this stack can grow to {shown} {word} together, and the limit is {int(cap)}"
            fix = "lower the maximum of some pools"
            what += f"; largest pools, in nodes: {largest}"
            yield "", Finding(what=what, fix=fix, unverified=sure[word] <= cap)
    for each, pool, _ in sizes:
        if pool.max_nodes is None:
            what = "has no maximum size that gpupools can read, so the stack has none"
            fix = "set a maximum number of nodes"
            yield each.urn, Finding(what=what, fix=fix, pool=pool.pool, unverified=UNKNOWN in each.inputs.values())


RULE = Rule(
    name="gpu-stack-bounded",
    order=210,
    level=Level.MANDATORY,
    severity="medium",
    why="All GPU pools of a stack can scale to their maximum sizes, and then cost that much every hour.",
    fix="Lower the maximum of some pools, or raise the limit of the environment.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=Framework(
        "AWS Well-Architected Framework", "2026", "Cost optimization", "limit the cost of scarce resources"
    ),
    config={
        **unknown_at_preview(),
        "maxNodes": {
            "type": "integer",
            "minimum": 0,
            "description": "Maximum number of GPU nodes of a stack. If not set, nodes are not counted.",
        },
        "maxGpus": {
            "type": "integer",
            "minimum": 0,
            "description": "Maximum number of GPUs of a stack. If not set, GPUs are not counted.",
        },
    },
    stack=_judge,
)
