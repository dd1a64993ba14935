"""Judges the resources of one stack by the configured rules: each resource alone, then all together. Pure.

The policy pack answers the engine with it, and the offline preview and the report judge with it what they declare.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib import import_module

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies import waivers
from gpupools.policies.classify import classify
from gpupools.policies.components import FindingKey, finding_key, judge_resource
from gpupools.policies.declared_software import DeclaredSoftware, read_software
from gpupools.policies.declared_stack import Declared, DeclaredStack, shows_gpus
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, Level, Rule, format_finding
from gpupools.policies.kinds import read_pools, read_template
from gpupools.policies.rules import ALL_RULES, RESOURCE_RULES, RULE_NAMES, STACK_RULES, node_pools_understood
from gpupools.policies.rules.gpu_waiver_current import waiver_limits
from gpupools.policies.waivers import Waivers

import_module("gpupools.audit")  # registers its readers

UNVERIFIED = "unverified-at-preview"
"""The advisory policy for findings that rules cannot verify at preview and are configured not to enforce."""

UNVERIFIED_IN_STACK = "unverified-in-stack"
"""The same for the rules that see the whole stack."""

WAIVED = "waived"
"""The advisory policy that lists findings that waivers suppress."""

_LOW = (Level.ADVISORY, "disabled")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy of the pack: a rule, or one that only advises."""

    name: str
    level: str
    """Without configuration: `advisory` or `mandatory`."""
    description: str
    severity: str
    fix: str
    of_stack: bool
    """Whether the engine asks it about the whole stack, not about each resource."""
    rule: Rule | None = None


def _of_rule(rule: Rule) -> Policy:
    return Policy(
        name=rule.name,
        level=rule.level.value,
        description=rule.why,
        severity=rule.severity,
        fix=rule.fix,
        of_stack=rule not in RESOURCE_RULES,
        rule=rule,
    )


POLICIES: Sequence[Policy] = (
    *map(_of_rule, RESOURCE_RULES),
    Policy(
        name=UNVERIFIED,
        level=Level.ADVISORY,
        description="A rule cannot verify this at preview, and its configuration leaves it to the update.",
        severity="medium",
        fix="Set the named inputs to plain values instead of outputs of other resources.",
        of_stack=False,
    ),
    *(_of_rule(rule) for rule in STACK_RULES if rule not in RESOURCE_RULES),
    Policy(
        name=UNVERIFIED_IN_STACK,
        level=Level.ADVISORY,
        description="Advice of rules on the whole stack, and findings that they are configured not to enforce.",
        severity="medium",
        fix="Declare what the rule requires in this stack, or make sure that it exists elsewhere.",
        of_stack=True,
    ),
    Policy(
        name=WAIVED,
        level=Level.ADVISORY,
        description="A waiver suppresses this finding.",
        severity="low",
        fix="Fix the finding before the waiver expires, and remove the waiver.",
        of_stack=True,
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


@dataclass(frozen=True)
class Reading:
    """What of a resource the rules judge."""

    pools: tuple[PoolFacts, ...]
    software: DeclaredSoftware | None


def read_resource(type_: str, inputs: JsonObject, name: str) -> Reading:
    """Return the pools and the software in the inputs of a resource."""
    return Reading(read_pools(type_, inputs, name), read_software(type_, inputs))


def declared(
    urn: str,
    type_: str,
    name: str,
    inputs: JsonObject,
    reading: Reading,
    *,
    parent: str = "",
    provider: str = "",
    depends: Sequence[str] = (),
    by_property: Mapping[str, Sequence[str]],
) -> Declared:
    """Return a resource of a Pulumi stack as the rules on stacks read it."""
    named = {key: tuple(urns) for key, urns in by_property.items() if urns}
    return Declared(
        urn=urn,
        type=type_,
        name=name,
        inputs=inputs,
        pools=reading.pools,
        template=read_template(type_, inputs),
        software=reading.software,
        unread=classify(type_, inputs, component=not provider, software=reading.software is not None),
        parent=parent,
        provider=provider,
        depends=(*depends, *(urn for urns in named.values() for urn in urns)),
        by_property=named,
    )


class StackJudge:
    """The configured rules during one run; asked about each resource, parents first, and then about the stack."""

    def __init__(self, levels: Mapping[str, str], options: Mapping[str, JsonObject], stack: str, today: date) -> None:
        self._levels, self._options, self._stack = levels, options, stack
        self._contexts = cache(self._contexts_of)
        given = tuple(waiver for rule in ALL_RULES for waiver in waivers.configured(rule.name, options[rule.name]))
        high = (rule.name for rule in ALL_RULES if levels[rule.name] not in _LOW)
        limits = waiver_limits(options[WAIVERS_CURRENT], high, today)
        self._waivers = Waivers(limits, given, checks_them=True)
        self._on_components: dict[str, set[FindingKey]] = {}
        """Findings on each component whose own inputs show GPUs, by URN."""

    def judge_resource(
        self, urn: str, type_: str, name: str, inputs: JsonObject, reading: Reading, *, parent: str, protect: bool
    ) -> Iterator[Said]:
        """Judge one resource by the rules that one resource decides."""
        if not reading.pools and reading.software is None:
            return
        component = self._on_components.get(parent)
        found = list(judge_resource(reading.pools, reading.software, self._contexts(protect), component))
        if shows_gpus(reading.pools):
            # Before waivers apply: a waiver on a component also covers its children.
            self._on_components[urn] = {finding_key(rule.name, finding) for rule, finding in found}
        self._waivers.read(urn, type_, inputs, RULE_NAMES)
        about = {urn: Declared(urn=urn, type=type_, name=name, inputs=inputs)}
        yield from self._said(((rule, urn, finding) for rule, finding in found), about, UNVERIFIED)

    def judge_stack(self, resources: Iterable[Declared]) -> Iterator[Said]:
        """Judge the whole stack."""
        stack = DeclaredStack(resources)
        for resource in stack.resources:
            self._waivers.read(resource.urn, resource.type, resource.inputs, RULE_NAMES)
        for rule in STACK_RULES:
            assert rule.stack is not None
            found = [(rule, *each) for each in rule.stack(stack, self._contexts(False)[rule.name])]
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
            if rule.is_advice(finding, self._contexts(False)[rule.name]):
                yield from self._enabled(advisory, f"{message} ({rule.name})", urn, of=rule.name)
            else:
                yield from self._enabled(rule.name, message, urn)

    def _enabled(self, policy: str, message: str, urn: str, *, of: str = "") -> Iterator[Said]:
        """Yield a message of a policy, unless it or the policy that it is `of` is disabled."""
        if "disabled" not in (self._levels[policy], self._levels[of or policy]):
            yield Said(policy, message, urn)

    def _contexts_of(self, protect: bool) -> Mapping[str, Context]:
        """Return the context of each rule for resources with this option `protect`."""
        found = {
            rule.name: Context(config=self._options[rule.name], stack=self._stack, protect=protect)
            for rule in ALL_RULES
        }
        return {**found, WAIVERS_CURRENT: replace(found[WAIVERS_CURRENT], waivers=self._waivers)}
