"""Judge the declared resources of one stack by the rules, as the policy pack does in an update. Imports no Pulumi."""

from collections.abc import Iterable
from datetime import UTC, datetime

from gpupools.common.json_types import JsonObject
from gpupools.policies.declared_stack import Declared
from gpupools.policies.policy_config import levels_and_options
from gpupools.policies.stack_judge import POLICIES, Reading, Said, StackJudge
from gpupools.preview.format_preview import PolicyVerdict, Violation


def judge(resources: Iterable[tuple[Declared, bool]], config: JsonObject, stack: str) -> list[PolicyVerdict]:
    """Return the verdict of every policy on the resources of a stack, in the order of the pack.

    Args:
        resources: Each with its option `protect`, parents first.
        config: A valid policy configuration.
        stack: The name of the stack.
    """
    named, options = levels_and_options(config)
    levels = {policy.name: named.get(policy.name, policy.level) for policy in POLICIES}
    rules = StackJudge(levels, options, stack, datetime.now(tz=UTC).date())
    whole: list[Declared] = []
    saids: list[Said] = []
    for each, protect in resources:
        whole.append(each)
        reading = Reading(each.pools, each.software)
        saids += rules.judge_resource(
            each.urn, each.type, each.name, each.inputs, reading, parent=each.parent, protect=protect
        )
    saids += rules.judge_stack(whole)
    violations: dict[str, list[Violation]] = {policy.name: [] for policy in POLICIES}
    about = {policy.name: policy.description for policy in POLICIES}
    for said in saids:  # each message starts with the policy's description, as the engine shows it
        violations[said.policy].append(Violation(said.urn, f"{about[said.policy]}\n{said.message}"))
    return [PolicyVerdict(name, levels[name], what, tuple(violations[name])) for name, what in about.items()]
