"""A plan that deletes or recreates a GPU pool says how many nodes and GPUs go."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._table import described


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    ends = {old.urn: how for old, how in stack.ending}
    # As they are: with the launch templates that they refer to, of which the plan may end some too.
    before = [old for old, _ in stack.ending] + [resource for resource in stack.resources if resource.urn not in ends]
    for declared, pool in DeclaredStack(before).pools if ends else ():
        if declared.urn in ends and pool.has_gpus and not pool.component:
            what = f"the plan {ends[declared.urn]} this GPU pool, which ends all pods on it: {_size(pool)}"
            fix = "drain the pool first, or keep the inputs whose change ends it"
            yield declared.urn, Finding(what=what, fix=fix, pool=pool.pool)


def _size(pool: PoolFacts) -> str:
    nodes = pool.most_nodes
    if nodes is None:
        return "an unknown number of nodes"
    words = f"up to {nodes} node{'' if nodes == 1 else 's'}"
    gpus = None if pool.gpus_per_node is None else nodes * pool.gpus_per_node
    return words if gpus is None else f"{words} with {gpus} GPU{'' if gpus == 1 else 's'}"


RULE = Rule(
    **described(__name__),
    stack=_findings,
)
