"""Judge the declared resources of one stack by the rules, as the policy pack does in an update. Imports no Pulumi."""

from collections.abc import Iterable

from gpupools.policies.declared_stack import Declared
from gpupools.policies.policy_config import Config
from gpupools.policies.stack_judge import POLICIES, StackJudge
from gpupools.preview.format_preview import PolicyVerdict, Violation


def judge(resources: Iterable[tuple[Declared, bool]], config: Config, stack: str) -> list[PolicyVerdict]:
    """Return the verdict of every policy on the resources of a stack, in the order of the pack.

    Args:
        resources: Each with its option `protect`, parents first.
        config: The policy configuration.
        stack: The name of the stack.
    """
    rules, given = StackJudge(config, stack), list(resources)
    saids = [said for resource, protect in given for said in rules.judge_resource(resource, protect=protect)]
    saids += rules.judge_stack(resource for resource, _ in given)
    violations: dict[str, list[Violation]] = {policy.name: [] for policy in POLICIES}
    about = {policy.name: policy.why for policy in POLICIES}
    for said in saids:  # each message starts with the policy's description, as the engine shows it
        violations[said.policy].append(Violation(said.urn, f"{about[said.policy]}\n{said.message}"))
    return [PolicyVerdict(name, rules.levels[name], what, tuple(violations[name])) for name, what in about.items()]
