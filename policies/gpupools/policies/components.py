"""Avoids duplicate findings on a component and its children. Pure.

Components of pulumi-eks send their inputs to the engine, and so do the node groups and launch templates that they
create (pulumi/pulumi-eks nodejs/eks/nodes/nodegroup.ts). The engine passes the component to policies first
(pulumi/pulumi pkg/resource/deploy/step_generator.go, `analyzeAll`), and its inputs are what the program can change.
So findings are reported on the component, and on its children only if they add something: a transform may change a
child, and with PULUMI_NODEJS_SKIP_COMPONENT_INPUTS a component has no inputs.
"""

from collections.abc import Collection, Iterator, Sequence

from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.declared_software import DeclaredSoftware
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules import RESOURCE_RULES
from gpupools.policies.rules.gpu_pool_tainted import RULE as TAINTED

FindingKey = tuple[str, str]
"""Name of the rule, and the control if the rule has several."""


def finding_key(rule: str, finding: Finding) -> FindingKey:
    """Return the key by which findings on a component and its children are compared."""
    control, colon, _ = finding.what.partition(": ")
    return rule, control if colon and control.replace("-", "").isalpha() and control.islower() else ""


def is_reported_on_component(rule: str, finding: Finding, component: Collection[FindingKey]) -> bool:
    """Say whether a finding on a child adds nothing to the findings on its component.

    A transform can change taints and hardening of a child. Size, owner, sharing and user data that is unknown at
    preview are those of the component.
    """
    about = finding_key(rule, finding)
    if about in component:
        return True
    return finding.unverified or (not about[1] and rule != TAINTED.name)


def judge_resource(
    pools: Sequence[PoolFacts],
    software: DeclaredSoftware | None,
    context: Context,
    component: Collection[FindingKey] | None = None,
) -> Iterator[tuple[Rule, Finding]]:
    """Judge one resource by every rule that one resource decides.

    Args:
        pools: Its pools.
        software: The GPU software in it.
        context: What the rules may use besides.
        component: Findings on the component that created it; None without one.
    """
    for rule in RESOURCE_RULES:
        for pool in pools if rule.pool is not None else ():
            if component is not None and rule is TAINTED and pool.elsewhere:
                continue  # its taint may be in a launch template, which only the judgement of the stack sees
            for finding in rule.pool(pool, context) if rule.pool else ():
                if component is None or not is_reported_on_component(rule.name, finding, component):
                    yield rule, finding
        if rule.software is not None and software is not None:
            yield from ((rule, finding) for finding in rule.software(software, context))
