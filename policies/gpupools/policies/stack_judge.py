"""Judges the resources of one stack by the configured rules: each resource alone, then all together. Pure.

The policy pack answers the engine with it, and the offline preview and the report judge with it what they declare.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from gpupools.common.json_types import JsonObject
from gpupools.policies.classify import classify
from gpupools.policies.components import FindingKey, finding_key, judge_resource
from gpupools.policies.declared_software import read_software
from gpupools.policies.declared_stack import Declared, DeclaredStack, shows_gpus
from gpupools.policies.finding import Context, Finding, Level, Policy, Rule, format_finding
from gpupools.policies.kinds import read_pools, read_template
from gpupools.policies.policy_config import ADVISORY_ONLY, Config
from gpupools.policies.rules import RESOURCE_RULES, RULE_NAMES, STACK_RULES, node_pools_understood
from gpupools.policies.waivers import Waivers

import_module("gpupools.audit")  # registers its readers

UNVERIFIED, UNVERIFIED_IN_STACK, WAIVED = ADVISORY_ONLY
"""The advisory policies: for findings that rules on resources, or on the stack, cannot verify at preview and are
configured not to enforce, and for findings that waivers suppress."""

ON_RESOURCES: Sequence[Policy] = (
    *RESOURCE_RULES,
    Policy(
        name=UNVERIFIED,
        level=Level.ADVISORY,
        why="A rule cannot verify this at preview, and its configuration leaves it to the update.",
        severity="medium",
        fix="Set the named inputs to plain values instead of outputs of other resources.",
    ),
)
"""The policies that the engine asks about each resource."""
POLICIES: Sequence[Policy] = (
    *ON_RESOURCES,
    *(rule for rule in STACK_RULES if rule not in RESOURCE_RULES),
    Policy(
        name=UNVERIFIED_IN_STACK,
        level=Level.ADVISORY,
        why="Advice of rules on the whole stack, and findings that they are configured not to enforce.",
        severity="medium",
        fix="Declare what the rule requires in this stack, or make sure that it exists elsewhere.",
    ),
    Policy(
        name=WAIVED,
        level=Level.ADVISORY,
        why="A waiver suppresses this finding.",
        severity="low",
        fix="Fix the finding before the waiver expires, and remove the waiver.",
    ),
)
"""All policies, in the order in which the engine lists them."""


@dataclass(frozen=True)
class Said:
    """What one policy says about a resource, or about the stack."""

    policy: str
    message: str
    urn: str
    """Empty for the stack."""


def read_resource(urn: str, type_: str, name: str, inputs: JsonObject, parent: str = "") -> Declared:
    """Return a resource with the pools and the software in its inputs, which the rules on resources judge."""
    pools, software = read_pools(type_, inputs, name), read_software(type_, inputs)
    return Declared(urn=urn, type=type_, name=name, inputs=inputs, pools=pools, software=software, parent=parent)


def in_stack(
    resource: Declared,
    *,
    opaque: str = "",
    component: bool = False,
    provider: str = "",
    depends: Sequence[str] = (),
    by_property: Mapping[str, Sequence[str]],
) -> Declared:
    """Return a resource as the rules on stacks read it.

    Args:
        resource: What `read_resource` returns.
        opaque: Why its contents cannot be read, where the form of the file knows.
        component: Whether it is a component, whose children are resources of their own.
        provider: URN of its provider.
        depends: URNs of its dependencies besides those of inputs.
        by_property: URNs of the dependencies of each input.
    """
    type_, inputs = resource.type, resource.inputs
    named = {key: tuple(urns) for key, urns in by_property.items() if urns}
    return replace(
        resource,
        template=read_template(type_, inputs),
        unread=classify(type_, inputs, opaque=opaque, component=component, software=resource.software is not None),
        provider=provider,
        depends=(*depends, *(urn for urns in named.values() for urn in urns)),
        by_property=named,
    )


class StackJudge:
    """The configured rules during one run; asked about each resource, parents first, and then about the stack."""

    def __init__(self, config: Config, stack: str) -> None:
        self.levels = {policy.name: config.levels.get(policy.name, policy.level.value) for policy in POLICIES}
        """Level of each policy, in Pulumi's words."""
        self._waivers = Waivers(config.limits, config.waivers, checks_them=True)
        self._context = Context(config=config.options, stack=stack, waivers=self._waivers)
        self._on_components: dict[str, set[FindingKey]] = {}
        """Findings on each component whose own inputs show GPUs, by URN."""

    def judge_resource(self, resource: Declared, *, protect: bool) -> Iterator[Said]:
        """Judge one resource by the rules that one resource decides."""
        if not resource.pools and resource.software is None:
            return
        context = replace(self._context, protect=protect)
        component = self._on_components.get(resource.parent)
        found = list(judge_resource(resource.pools, resource.software, context, component))
        if shows_gpus(resource.pools):
            # Before waivers apply: a waiver on a component also covers its children.
            self._on_components[resource.urn] = {finding_key(rule.name, finding) for rule, finding in found}
        self._waivers.read(resource.urn, resource.type, resource.inputs, RULE_NAMES)
        about = {resource.urn: resource}
        yield from self._said(((rule, resource.urn, finding) for rule, finding in found), about, UNVERIFIED)

    def judge_stack(self, resources: Iterable[Declared]) -> Iterator[Said]:
        """Judge the whole stack."""
        stack = DeclaredStack(resources)
        for resource in stack.resources:
            self._waivers.read(resource.urn, resource.type, resource.inputs, RULE_NAMES)
        for rule in STACK_RULES:
            assert rule.stack is not None
            found = [(rule, *pair) for pair in rule.stack(stack, self._context)]
            yield from self._said(found, stack.by_urn, UNVERIFIED_IN_STACK)
            if rule is node_pools_understood.RULE and found:
                judged, no_pool, unread = stack.answers.values()
                total = len(stack.resources)
                counted = f"of {total} resources {judged} judged, {no_pool} no node pool, {unread} not understood"
                yield from self._enabled(UNVERIFIED_IN_STACK, f"{counted} ({rule.name})", "")
        for waiver, what in self._waivers.used.items():
            yield from self._enabled(WAIVED, f"{what}; {waiver} ({waiver.rule})", waiver.resource)

    def _said(
        self, found: Iterable[tuple[Rule, str, Finding]], about: Mapping[str, Declared], advisory: str
    ) -> Iterator[Said]:
        """Yield findings that no waiver covers, those that must not fail the run under the name `advisory`."""
        for rule, urn, finding in found:
            resource = about.get(urn)
            if self._waivers.use(rule.name, urn, finding.pool, finding.what) is not None:
                continue
            message = format_finding(finding, resource.inputs if resource else {}, rule)
            message = f"{resource.name}: {message}" if resource else message
            if rule.is_advice(finding, self._context):
                yield from self._enabled(advisory, f"{message} ({rule.name})", urn, of=rule.name)
            else:
                yield from self._enabled(rule.name, message, urn)

    def _enabled(self, policy: str, message: str, urn: str, *, of: str = "") -> Iterator[Said]:
        """Yield a message of a policy, unless it or the policy that it is `of` is disabled."""
        if "disabled" not in (self.levels[policy], self.levels[of or policy]):
            yield Said(policy, message, urn)
