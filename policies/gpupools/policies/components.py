"""Reports a pool once that a component and its children both declare. Pure.

pulumi-eks' components send their inputs to the engine, and so do the node group, launch template or configuration they
make of them (pulumi/pulumi-eks nodejs/eks/nodes/nodegroup.ts). The engine asks policies about the component first
(pulumi/pulumi pkg/resource/deploy/step_generator.go, `analyzeAll`), and its inputs are what the program can change.
So the component is reported, and of its children only what it does not show: a child may be changed by a transform,
and with PULUMI_NODEJS_SKIP_COMPONENT_INPUTS a component has no inputs at all.
"""

from collections.abc import Collection

from gpupools.policies.finding import Finding

FindingKey = tuple[str, str]
"""A rule's name, and the control where one rule has several."""


def finding_key(rule: str, finding: Finding) -> FindingKey:
    """Return what a finding is about."""
    control, colon, _ = finding.what.partition(": ")
    return rule, control if colon and control.replace("-", "").isalpha() and control.islower() else ""


def is_reported_on_component(rule: str, finding: Finding, component: Collection[FindingKey]) -> bool:
    """Say whether a finding on a child adds nothing to what was found on its component, which shows the GPUs.

    Whether the child is tainted and hardened may differ from what the component says, where a transform changed it.
    User data that is not known at preview differs in nothing, and size, owner and sharing are the component's.

    Args:
        rule: Its name.
        finding: On the child.
        component: What was found on the component.
    """
    about = finding_key(rule, finding)
    if about in component:
        return True
    return finding.unverified or (not about[1] and not rule.startswith("gpu-pool-tainted"))
