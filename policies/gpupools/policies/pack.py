"""Connects the rules to the Pulumi engine: converts inputs of the policy SDK to plain data and findings to violations.

`providers.clouds()` reads the pools, `policies.rules` judges them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any

import pulumi
import pulumi_policy.policy as sdk
from google.protobuf import struct_pb2
from grpc import StatusCode
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyComplianceFramework,
    PolicyConfigSchema,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationPolicy,
)
from pulumi_policy.deserialize import serialize_properties

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies import waivers
from gpupools.policies.classify import classify
from gpupools.policies.components import FindingKey, finding_key, judge_resource
from gpupools.policies.declared_software import DeclaredSoftware, read_software
from gpupools.policies.declared_stack import Declared, DeclaredStack, shows_gpus
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, Rule, format_finding, steps
from gpupools.policies.kinds import read_pools, read_template
from gpupools.policies.rules import (
    ALL_RULES,
    RESOURCE_RULES,
    RULE_NAMES,
    STACK_RULES,
    gpu_pool_tainted,
    node_pools_understood,
)
from gpupools.policies.rules.gpu_pool_tainted import taint_can_be_added
from gpupools.policies.rules.gpu_waiver_current import waiver_limits
from gpupools.policies.waivers import RENAMED, Waivers
from gpupools.policies.wire import SECRET, SIGNATURE, decoded, plain
from gpupools.readback.inputs import with_taint

NAME = "gpupools"
"""The pack's name, as the engine shows it."""

UNVERIFIED = "unverified-at-preview"
"""The advisory policy for findings that rules cannot verify at preview and are configured not to enforce."""

UNVERIFIED_IN_STACK = "unverified-in-stack"
"""The same for the rules that see the whole stack."""

WAIVED = "waived"
"""The advisory policy that lists findings that waivers suppress."""

import_module("gpupools.audit")  # registers its readers


def _serve_by_analyzer(*_: Any) -> None:
    """Stand where the policy SDK wants a function per policy; `Analyzer` judges."""
    raise RuntimeError("the policy SDK's own server cannot run this pack; start it with `python -m gpupools.policies`")


def _policy(rule: Rule) -> Policy:
    frame = rule.framework
    of_stack = rule not in RESOURCE_RULES
    remediate: JsonDict = {"remediate": add_missing_taint} if rule is gpu_pool_tainted.RULE else {}
    schema = PolicyConfigSchema(properties={key: dict(schema) for key, schema in rule.keys.items()})
    kind: Any = StackValidationPolicy if of_stack else ResourceValidationPolicy
    policy: Policy = kind(
        name=rule.name,
        description=rule.why,
        validate=_serve_by_analyzer,
        **remediate,
        enforcement_level=EnforcementLevel(rule.level.value),
        config_schema=schema if rule.keys else None,
        severity=Severity(rule.severity),
        framework=PolicyComplianceFramework(frame.name, frame.version, frame.reference, frame.specification),
        tags=["gpu", "kubernetes"],
        remediation_steps=rule.fix,
        url=rule.url,
    )
    return policy


def _advisory(name: str, what: str, severity: Severity, fix: str) -> Policy:
    kind: Any = ResourceValidationPolicy if name == UNVERIFIED else StackValidationPolicy
    level = EnforcementLevel.ADVISORY
    policy: Policy = kind(name, what, _serve_by_analyzer, level, severity=severity, remediation_steps=fix)
    return policy


def _policies() -> Iterator[Policy]:
    yield from map(_policy, RESOURCE_RULES)
    yield _advisory(
        UNVERIFIED,
        "A rule cannot verify this at preview, and its configuration leaves it to the update.",
        Severity.MEDIUM,
        "Set the named inputs to plain values instead of outputs of other resources.",
    )
    yield from (_policy(rule) for rule in STACK_RULES if rule not in RESOURCE_RULES)
    yield _advisory(
        UNVERIFIED_IN_STACK,
        "Advice of rules on the whole stack, and findings that they are configured not to enforce.",
        Severity.MEDIUM,
        "Declare what the rule requires in this stack, or make sure that it exists elsewhere.",
    )
    yield _advisory(
        WAIVED,
        "A waiver suppresses this finding.",
        Severity.LOW,
        "Fix the finding before the waiver expires, and remove the waiver.",
    )


class Inputs(JsonObject):
    """Inputs of a resource, decoded on first access: readers look at the type first."""

    def __init__(self, given: struct_pb2.Struct) -> None:
        self.given = given

    @cached_property
    def plain(self) -> JsonDict:
        """Plain data."""
        return decoded(self.given)

    def __getitem__(self, key: str) -> Any:
        return self.plain[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)


SDK_INTERNALS = (
    "_configure_runtime_settings",
    "_create_report_violation",
    "_get_enforcement_level",
    "_get_policy_config",
)
"""What `Analyzer` uses of the SDK's server, beside the calls of the engine."""


def missing_sdk_names() -> list[str]:
    """Return the names that `Analyzer` uses and the installed SDK lacks."""
    return [f"pulumi_policy.policy.{_SERVER}.{name}" for name in SDK_INTERNALS if not hasattr(_SdkServer, name)]


_SERVER = "_PolicyAnalyzerServicer"
_SdkServer: Any = getattr(sdk, _SERVER, object)


_Reading = tuple[tuple[PoolFacts, ...], DeclaredSoftware | None]


class Analyzer(_SdkServer):  # type: ignore[misc]
    """Answers the engine's calls: each resource is decoded and read once, and every rule reports under its one name.

    The SDK's own server decodes all resources for every policy, gives a policy either one resource or the stack, and
    reports all findings of a policy at one level (`sdk/python/lib/pulumi_policy/policy.py` of pulumi/pulumi-policy).
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._contexts: dict[bool, dict[str, Context]] = {}
        """Contexts of the rules by the resource option protect."""
        self._readings: dict[str, tuple[str, struct_pb2.Struct, _Reading]] = {}
        """Type, inputs, pools and software of each resource by URN."""
        self._on_components: dict[str, set[FindingKey]] = {}
        """Findings on each component whose own inputs show GPUs, by URN."""

    def Configure(self, request: Any, context: Any) -> Any:
        """Take the configuration of a run; a former name in it would set no limit."""
        if old := next((name for name in request.policyConfig if name in RENAMED), ""):
            what = f"policy configuration: {old} is now part of {RENAMED[old]}; move its keys there"
            context.abort(StatusCode.INVALID_ARGUMENT, what)
        self._contexts.clear()
        return super().Configure(request, context)

    def Analyze(self, request: Any, _context: Any) -> Any:
        """Judge one resource by the rules that one resource decides."""
        answer = analyzer_pb2.AnalyzeResponse()
        inputs = Inputs(request.properties)
        pools = read_pools(request.type, inputs, request.name)
        software = read_software(request.type, inputs)
        if not pools and software is None:
            return answer
        self._readings[request.urn] = (request.type, request.properties, (pools, software))
        contexts = self._contexts_of(bool(request.options.protect or _is_destroy_allowed(request.options.parent)))
        component = self._on_components.get(request.options.parent)
        found = list(judge_resource(pools, software, contexts, component))
        if shows_gpus(pools):
            # Before waivers apply: a waiver on a component also covers its children.
            self._on_components[request.urn] = {finding_key(rule.name, each) for rule, each in found}
        self._contexts_of(False)[WAIVERS_CURRENT].waivers.read(request.urn, request.type, inputs, RULE_NAMES)
        about = {request.urn: Declared(urn=request.urn, type=request.type, name=request.name, inputs=inputs)}
        self._report(answer, [(rule, request.urn, each) for rule, each in found], contexts, about, UNVERIFIED)
        return answer

    def AnalyzeStack(self, request: Any, _context: Any) -> Any:
        """Judge the whole stack."""
        answer = analyzer_pb2.AnalyzeResponse()
        contexts = self._contexts_of(False)
        stack = DeclaredStack(map(self._declared, request.resources))
        given = contexts[WAIVERS_CURRENT].waivers
        for each in stack.resources:
            given.read(each.urn, each.type, each.inputs, RULE_NAMES)
        for rule in STACK_RULES:
            assert rule.stack is not None
            found = [(rule, *each) for each in rule.stack(stack, contexts[rule.name])]
            self._report(answer, found, contexts, stack.by_urn, UNVERIFIED_IN_STACK)
            if rule is node_pools_understood.RULE and found:
                judged, no_pool, unread = stack.answers.values()
                total = len(stack.resources)
                counted = f"of {total} resources {judged} judged, {no_pool} no node pool, {unread} not understood"
                self._say(answer, UNVERIFIED_IN_STACK, f"{counted} ({rule.name})", "")
        for waiver, what in given.used.items():
            self._say(answer, WAIVED, f"{what}; {waiver} ({waiver.rule})", waiver.resource)
        return answer

    def _report(
        self,
        answer: Any,
        found: Iterable[tuple[Rule, str, Finding]],
        contexts: Mapping[str, Context],
        about: Mapping[str, Declared],
        advisory: str,
    ) -> None:
        """Report findings that no waiver covers, those that must not fail the run under the name `advisory`."""
        given = self._contexts_of(False)[WAIVERS_CURRENT].waivers
        for rule, urn, finding in found:
            context, resource = contexts[rule.name], about.get(urn)
            if given.use(rule.name, urn, finding.pool, finding.what) is not None:
                continue
            message = format_finding(finding, resource.inputs if resource else {}, rule)
            message = f"{resource.name}: {message}" if resource else message
            if rule.is_advice(finding, context):
                self._say(answer, advisory, f"{message} ({rule.name})", urn, of=rule.name)
            else:
                self._say(answer, rule.name, message, urn)

    def _say(self, answer: Any, name: str, message: str, urn: str, *, of: str = "") -> None:
        """Add a message of a policy, unless it or the policy that it is `of` is disabled."""
        policy = POLICIES[name]
        levels = [self._get_enforcement_level(POLICIES[each]) for each in (name, of or name)]
        if EnforcementLevel.DISABLED not in levels:
            # What remediation has left is a violation.
            level = EnforcementLevel.MANDATORY if levels[0] is EnforcementLevel.REMEDIATE else levels[0]
            report = self._create_report_violation(answer, name, policy.description, level, policy.severity)
            report(message, urn or None)

    def _contexts_of(self, protect: bool) -> dict[str, Context]:
        found = self._contexts.get(protect)
        if found is None:
            self._configure_runtime_settings()
            stack = pulumi.get_stack()
            found = self._contexts[protect] = {
                rule.name: Context(config=self._get_policy_config(rule.name) or {}, stack=stack, protect=protect)
                for rule in ALL_RULES
            }
            given = tuple(each for rule in ALL_RULES for each in waivers.configured(rule.name, found[rule.name].config))
            current = found[WAIVERS_CURRENT]
            low = (EnforcementLevel.ADVISORY, EnforcementLevel.DISABLED)
            high = (each.name for each in ALL_RULES if self._get_enforcement_level(POLICIES[each.name]) not in low)
            limits = waiver_limits(current.config, high, datetime.now(tz=UTC).date())
            found[WAIVERS_CURRENT] = replace(current, waivers=Waivers(limits, given, checks_them=True))
        return found

    def _declared(self, wire: Any) -> Declared:
        inputs, type_ = Inputs(wire.properties), wire.type
        read = self._earlier_reading(wire) or (read_pools(type_, inputs, wire.name), read_software(type_, inputs))
        provider = wire.provider.urn if wire.HasField("provider") else ""
        by_property = {key: tuple(found.urns) for key, found in wire.propertyDependencies.items() if found.urns}
        return Declared(
            urn=wire.urn,
            type=type_,
            name=wire.name,
            inputs=inputs,
            pools=read[0],
            template=read_template(type_, inputs),
            software=read[1],
            unread=classify(type_, inputs, component=not provider, software=read[1] is not None),
            parent=wire.parent,
            provider=provider,
            depends=(*wire.dependencies, *(urn for urns in by_property.values() for urn in urns)),
            by_property=by_property,
        )

    def _earlier_reading(self, wire: Any) -> _Reading | None:
        """Return the earlier reading of a resource if its outputs contain its inputs unchanged."""
        before = self._readings.get(wire.urn)
        if before is None or before[0] != wire.type:
            return None
        inputs, outputs = before[1].fields, wire.properties.fields
        same = all(key in outputs and outputs[key] == value for key, value in inputs.items())
        return before[2] if same else None


def _is_destroy_allowed(parent: str) -> bool:
    """Say whether the stack file allows deleting the pool that is a resource's parent.

    The engine passes the stack's configuration to the pack; programs without this key cannot allow it.
    """
    kind, _, name = parent.rpartition("::")
    if not kind.endswith("gpupools:index:GpuNodePool"):
        return False
    try:
        named = json.loads(pulumi.Config("gpupools").get("allow_destroy") or "[]")
    except ValueError:
        return False
    return isinstance(named, list) and name in {str(each).replace("/", "-") for each in named}


def add_missing_taint(args: ResourceValidationArgs) -> JsonObject | None:
    """Return the resource's inputs with the missing taint of its GPU pools; None if nothing can or must change.

    The engine calls this only if the level of the policy is `remediate`, and shows the change. Cases that would need a
    guess (a taint in user data, an unknown list) stay violations.
    """
    wire = serialize_properties(args.props)
    changed: JsonObject = wire
    for pool in read_pools(args.resource_type, plain(wire)):
        if taint_can_be_added(pool):
            changed = _with_taint(changed, pool) or changed
    return None if changed is wire else changed


def _with_taint(wire: JsonObject, pool: PoolFacts) -> JsonObject | None:
    """Add the taint, also inside secrets, which stay secret."""
    value: Any = wire
    path = steps(pool.where)
    for depth, step in enumerate(path):
        value = value[step] if isinstance(step, int) else value.get(step)
        if isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET:
            rest = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path[depth + 1 :])
            inner = _with_taint({"value": value.get("value")}, replace(pool, where=f"value{rest}"))
            return None if inner is None else _replaced(wire, path[: depth + 1], {**value, **inner})
        if value is None or (depth + 1 < len(path) and not isinstance(value, Mapping | list)):
            break
    return with_taint(wire, pool)


def _replaced(value: Any, path: Sequence[str | int], inner: Any) -> Any:
    if not path:
        return inner
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return [*value[:step], _replaced(value[step], rest, inner), *value[step + 1 :]]
    return {**value, step: _replaced(value[step], rest, inner)}


POLICIES: Mapping[str, Policy] = MappingProxyType({each.name: each for each in _policies()})
"""The policies by name: one per rule and the advisory ones, in the order in which the engine lists them."""
