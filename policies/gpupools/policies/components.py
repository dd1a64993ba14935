"""Avoids duplicate findings on a component and its children. Pure.

Components of pulumi-eks send their inputs to the engine, and so do the node groups and launch templates that they
create (pulumi/pulumi-eks nodejs/eks/nodes/nodegroup.ts). The engine passes the component to policies first
(pulumi/pulumi pkg/resource/deploy/step_generator.go, `analyzeAll`), and its inputs are what the program can change.
So findings are reported on the component, and on its children only if they add something: a transform may change a
child, and with PULUMI_NODEJS_SKIP_COMPONENT_INPUTS a component has no inputs.
"""

from collections.abc import Collection

from gpupools.policies.finding import Finding

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
    return finding.unverified or (not about[1] and not rule.startswith("gpu-pool-tainted"))
