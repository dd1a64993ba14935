"""Connects the rules to the Pulumi engine: converts inputs of the policy SDK to plain data and findings to violations.

`providers.clouds()` reads the pools, `policies.rules` judges them.
"""

import copy
import functools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib import import_module
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pulumi
import pulumi_policy.policy as sdk
from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyComplianceFramework,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.deserialize import serialize_properties
from pulumi_policy.proxy import UnknownValueError
from pulumi_policy.secret import Secret

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.policies import waivers
from gpupools.policies.classify import classify
from gpupools.policies.components import FindingKey, finding_key, is_reported_on_component
from gpupools.policies.declared_software import DeclaredSoftware, is_software, read_software
from gpupools.policies.declared_stack import Declared, DeclaredStack, shows_gpus
from gpupools.policies.finding import UNKNOWN_AT_PREVIEW, WAIVERS_CURRENT, Context, Finding, Rule, format_finding, steps
from gpupools.policies.rules import (
    ALL_RULES,
    RESOURCE_RULES,
    RULE_NAMES,
    STACK_RULES,
    gpu_pool_tainted,
    node_pools_understood,
)
from gpupools.policies.rules.gpu_pool_tainted import taint_can_be_added
from gpupools.policies.waivers import Waiver
from gpupools.policies.wire import SECRET, SIGNATURE, decoded
from gpupools.policies.wire import plain as plain_wire
from gpupools.providers import clouds
from gpupools.readback.inputs import with_name, with_taint
from gpupools.readback.kubernetes_pools import read_kubernetes_pools, read_template
from gpupools.readback.registry import type_readers

NAME = "gpupools"
"""The pack's name, as the engine shows it."""

UNVERIFIED = "unverified-at-preview"
"""The advisory policy for findings that rules cannot verify at preview and are configured not to enforce."""

UNVERIFIED_IN_STACK = "unverified-in-stack"
"""The same for the rules that see the whole stack."""

WAIVED = "waived"
"""The advisory policy that lists findings that waivers suppress."""

import_module("gpupools.audit")  # registers its readers


def plain(value: Any) -> Any:
    """Turn a resource's inputs into plain data: dict, list, str, float, bool, None, and `UNKNOWN`.

    Takes the policy SDK's proxies as well as the wire form, and looks through secrets. An asset or archive, which
    no input of a pool can be, becomes an empty dict: neither absent nor a value that could satisfy a rule.
    """
    return plain_wire(_unwrapped(value))


def _unwrapped(value: Any) -> Any:
    """Unwrap the types of the policy SDK and return other values unchanged."""
    if isinstance(value, Secret):
        return _unwrapped(value.value)
    if isinstance(value, Mapping):
        return {key: _unwrapped_item(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_unwrapped_item(value, index) for index in range(len(value))]
    return value


def _unwrapped_item(container: Any, key: Any) -> Any:
    try:
        return _unwrapped(container[key])
    except UnknownValueError:  # raised on access, before there is a value to compare
        return UNKNOWN


def read_pools(resource_type: str, inputs: JsonObject) -> tuple[PoolFacts, ...]:
    """Read the pools that a resource of any cloud declares in plain data, Kubernetes objects included."""
    known = clouds()
    readers = [
        *(cloud.readback().read_pools for cloud in known.values()),
        *(each.read_pools for each in type_readers()),
    ]
    pools = (pool for read in readers for pool in read(resource_type, inputs))
    return tuple(with_name(pool, inputs) for pool in (*pools, *read_kubernetes_pools(resource_type, inputs, known)))


def finding_messages(resource_type: str, props: JsonObject) -> list[str]:
    """Return the messages of all findings on one resource, including unverified findings and advice.

    The inputs may be a proxy of the policy SDK, the wire form, or plain data.
    """
    inputs = Inputs(plain(props))
    return [
        format_finding(finding, inputs.plain(), rule)
        for rule in RESOURCE_RULES
        for finding in _findings_on(rule, resource_type, inputs, Context())
    ]


def policies() -> list[Policy]:
    """Return one policy per rule, and the advisory policies for unverified and waived findings."""
    unverified, unverified_in_stack = _UnverifiedMessages(), _UnverifiedMessages()
    return [
        *(_resource_policy(rule, unverified) for rule in RESOURCE_RULES),
        _unverified(unverified),
        *(_stack_policy(rule, unverified_in_stack) for rule in STACK_RULES),
        _unverified_in_stack(unverified_in_stack),
        _waived_in_stack(),
    ]


# The SDK's server has several threads; each entry is the same whoever writes it.
_HOLDS_POOLS: dict[str, bool] = {}
_MAX_TYPES = 10_000


class Inputs(JsonObject):
    """Inputs of a resource, decoded on first access, with the pools and software read from them."""

    def __init__(self, given: struct_pb2.Struct | JsonDict) -> None:
        self.given = given
        self._plain = given if isinstance(given, dict) else None
        self._pools: tuple[PoolFacts, ...] | None = None
        self._software: tuple[DeclaredSoftware | None] | None = None

    def plain(self) -> JsonDict:
        """Return plain data."""
        if self._plain is None:
            assert isinstance(self.given, struct_pb2.Struct)
            self._plain = decoded(self.given)
        return self._plain

    def pools(self, resource_type: str) -> tuple[PoolFacts, ...]:
        """Return the pools of the resource; types that hold none are not decoded."""
        if self._pools is None:
            # Readers look at the type before they look inside, so a type is known by whether this was decoded.
            inside = _HOLDS_POOLS.get(resource_type)
            self._pools = () if inside is False else read_pools(resource_type, self.plain() if inside else self)
            if inside is None and len(_HOLDS_POOLS) < _MAX_TYPES:
                _HOLDS_POOLS[resource_type] = self._plain is not None
        return self._pools

    def software(self, resource_type: str) -> DeclaredSoftware | None:
        """Return the GPU software in there."""
        if self._software is None:
            self._software = (read_software(resource_type, self.plain()) if is_software(resource_type) else None,)
        return self._software[0]

    def __getitem__(self, key: str) -> Any:
        return self.plain()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self.plain())


class _Call(threading.local):
    """State of one call of the engine; the SDK's server answers each call on one thread."""

    def __init__(self) -> None:
        self.running = False
        self.inputs: dict[int, Inputs] = {}
        self.findings: dict[str, tuple[tuple[str, Finding], ...]] = {}
        """URN and finding by the rule's name; only rules that found something."""
        self.stack: DeclaredStack | None = None

    def reset(self, *, running: bool) -> None:
        self.running, self.inputs, self.findings, self.stack = running, {}, {}, None

    def has_unverified(self) -> bool:
        """Say whether a finding is unverified or advice."""
        return any(finding.unverified or finding.advice for found in self.findings.values() for _, finding in found)

    def decode(self, message: struct_pb2.Struct) -> Inputs:
        found = self.inputs.get(id(message))
        if found is None:
            found = self.inputs[id(message)] = Inputs(message)  # keeps the message, so that its id stays its own
        return found


_call = _Call()

_SDK: Any = sdk

SDK_INTERNALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": ("json_format", "deserialize_properties", "unknown_checking_proxy"),
        "_PolicyAnalyzerServicer": (
            *("Analyze", "AnalyzeStack", "Configure"),
            *("_configure_runtime_settings", "_get_enforcement_level", "_get_policy_config"),
        ),
    }
)
"""The internals of `pulumi_policy.policy` that `judge_once` uses: those of the module, and those of its server."""


def missing_sdk_names() -> list[str]:
    """Return the names that `judge_once` uses and the installed SDK lacks."""
    owners = {owner: getattr(_SDK, owner, None) if owner else _SDK for owner in SDK_INTERNALS}
    return [
        f"pulumi_policy.policy.{owner}{'.' if owner else ''}{name}"
        for owner, names in SDK_INTERNALS.items()
        for name in names
        if not hasattr(owners[owner], name)
    ]


def judge_once() -> None:
    """Make the SDK's server decode a resource once, if its type can hold pools, and run only policies with findings.

    The SDK decodes the properties for every policy (`_PolicyAnalyzerServicer.Analyze` in `pulumi_policy/policy.py`),
    which for this many policies takes longer than everything else a pack does. What a policy reports stays what its
    `validate` reports. If a later SDK has other names, nothing is patched: results are the same, but slower.
    """
    if missing_sdk_names():
        return
    servicer: Any = _SDK._PolicyAnalyzerServicer
    if isinstance(_SDK.json_format, SimpleNamespace):
        return  # done before
    to_dict, deserialize, proxy = (
        _SDK.json_format.MessageToDict,
        _SDK.deserialize_properties,
        _SDK.unknown_checking_proxy,
    )

    def message_to_dict(message: Any, *args: Any, **kwargs: Any) -> Any:
        asked = _call.running and isinstance(message, struct_pb2.Struct)
        return _call.decode(message) if asked else to_dict(message, *args, **kwargs)

    _SDK.json_format = SimpleNamespace(MessageToDict=message_to_dict)
    _SDK.deserialize_properties = lambda props, *rest: props if isinstance(props, Inputs) else deserialize(props, *rest)
    _SDK.unknown_checking_proxy = lambda props: props if isinstance(props, Inputs) else proxy(props)
    servicer.Configure = _reset_on_configure(servicer.Configure)
    servicer.Analyze = _judge_before(servicer.Analyze, _judge_resource)
    servicer.AnalyzeStack = _judge_before(servicer.AnalyzeStack, _judge_stack)
    servicer._get_enforcement_level = _disable_silent_policies(servicer._get_enforcement_level)


def _judge_before(method: Any, judge: Callable[[Any, Any], None]) -> Any:
    @functools.wraps(method)
    def call(self: Any, request: Any, context: Any) -> Any:
        _call.reset(running=True)
        try:
            judge(self, request)
            speaks = _call.findings or (_call.stack and _used_waivers)
            return method(_with_active_policies(self), request, context) if speaks else analyzer_pb2.AnalyzeResponse()
        finally:
            _call.reset(running=False)

    return call


_POLICIES = "_PolicyAnalyzerServicer__policies"


def _with_active_policies(servicer: Any) -> Any:
    """Return a copy of the servicer with only the policies that have something to report."""
    every = getattr(servicer, _POLICIES, None)
    if every is None:
        return servicer
    few = copy.copy(servicer)
    setattr(few, _POLICIES, [policy for policy in every if not _is_silent(policy)])
    return few


_RULE_NAMES = frozenset(rule.name for rule in ALL_RULES)


def _is_silent(policy: Policy) -> bool:
    """Say whether a policy has nothing to report in the running call."""
    if policy.name in _RULE_NAMES:
        return policy.name not in _call.findings
    if policy.name == WAIVED:
        return not (_call.stack and _used_waivers)
    return policy.name in (UNVERIFIED, UNVERIFIED_IN_STACK) and not _call.has_unverified()


def _disable_silent_policies(method: Any) -> Any:
    @functools.wraps(method)
    def level(self: Any, policy: Policy) -> EnforcementLevel:
        if _call.running and _is_silent(policy):
            return EnforcementLevel.DISABLED
        found: EnforcementLevel = method(self, policy)
        return found

    return level


def _judge_resource(servicer: Any, request: Any) -> None:
    inputs = _call.decode(request.properties)
    pools, software = _named_pools(inputs, request.type, request.name), inputs.software(request.type)
    if not pools and software is None:
        return
    _readings[request.urn] = (request.type, request.properties, pools, software)
    protect = request.options.protect or _is_destroy_allowed(request.options.parent)
    contexts = _contexts(servicer, bool(protect))
    _call.findings |= _pool_findings(request, pools, contexts)
    if shows_gpus(pools):
        # Before waivers apply: a waiver on a component also covers its children.
        _component_findings[request.urn] = {
            finding_key(name, each) for name, found in _call.findings.items() for _, each in found
        }
    for rule in _SOFTWARE_RULES if software is not None else ():
        assert rule.software is not None
        assert software is not None
        found = [(request.urn, finding) for finding in rule.software(software, contexts[rule.name])]
        if found:
            _call.findings[rule.name] = tuple(found)
    _apply_waivers(contexts, {request.urn: (request.type, inputs)})


def _pool_findings(
    request: Any, pools: Sequence[PoolFacts], contexts: Mapping[str, Context]
) -> dict[str, tuple[tuple[str, Finding], ...]]:
    """Return the findings of pool rules by rule name, without those already reported on the component."""
    component = _component_findings.get(request.options.parent)
    every = {}
    for rule in _POOL_RULES if pools else ():
        assert rule.pool is not None
        # Children of a component may get their taint from a launch template, which only stack rules see.
        in_stack = component is not None and rule is gpu_pool_tainted.RULE
        here = [pool for pool in pools if not pool.elsewhere] if in_stack else pools
        found = [(request.urn, finding) for pool in here for finding in rule.pool(pool, contexts[rule.name])]
        if component is not None:
            found = [each for each in found if not is_reported_on_component(rule.name, each[1], component)]
        if found:
            every[rule.name] = tuple(found)
    return every


def _apply_waivers(contexts: Mapping[str, Context], judged: Mapping[str, tuple[str, JsonObject]]) -> None:
    """Remove waived findings from this call; `judged` has type and inputs by URN."""
    for name, found in [*_call.findings.items()]:
        kept = tuple(each for each in found if not _is_waived(name, contexts[name].config, each, judged))
        _call.findings[name] = kept
        if not kept:
            del _call.findings[name]


def _is_waived(
    rule: str,
    config: JsonObject,
    found: tuple[str, Finding],
    judged: Mapping[str, tuple[str, JsonObject]],
) -> bool:
    urn, finding = found
    given = waivers.configured(rule, config)
    if urn in judged:
        given += waivers.annotated(urn, *judged[urn], RULE_NAMES)[0]
    waiver = next((each for each in given if each.rule == rule and each.covers(urn, finding.pool, _today())), None)
    if waiver is not None:
        _used_waivers.setdefault(waiver, finding.what)
    return waiver is not None


def _today() -> date:
    return datetime.now(tz=UTC).date()


# Waived findings since the engine configured the pack, by waiver.
_used_waivers: dict[Waiver, str] = {}


_POOL_RULES = tuple(rule for rule in RESOURCE_RULES if rule.pool is not None)
_SOFTWARE_RULES = tuple(rule for rule in RESOURCE_RULES if rule.software is not None)

# Pools and software of each resource by URN, with the inputs they were read from.
_readings: dict[str, tuple[str, struct_pb2.Struct, tuple[PoolFacts, ...], DeclaredSoftware | None]] = {}

# Findings on each component whose own inputs show GPUs, by URN.
_component_findings: dict[str, set[FindingKey]] = {}


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


# Contexts of the rules by the resource option protect, until the engine configures the pack again.
_configured: dict[bool, dict[str, Context]] = {}


def _contexts(servicer: Any, protect: bool) -> dict[str, Context]:
    found = _configured.get(protect)
    if found is None:
        servicer._configure_runtime_settings()
        stack = pulumi.get_stack()
        found = _configured[protect] = {
            rule.name: Context(config=servicer._get_policy_config(rule.name) or {}, stack=stack, protect=protect)
            for rule in ALL_RULES
        }
        given = tuple(each for rule in ALL_RULES for each in waivers.configured(rule.name, found[rule.name].config))
        current = found[WAIVERS_CURRENT]
        found[WAIVERS_CURRENT] = replace(current, waivers=given, waived=_used_waivers.keys(), today=_today())
    return found


def _reset_on_configure(method: Any) -> Any:
    @functools.wraps(method)
    def configure(self: Any, request: Any, context: Any) -> Any:
        answer = method(self, request, context)
        _configured.clear()
        _used_waivers.clear()
        return answer

    return configure


def _judge_stack(servicer: Any, request: Any) -> None:
    contexts = _contexts(servicer, False)
    _call.stack = DeclaredStack(_declared(_WireResource(each)) for each in request.resources)
    judged = {urn: (each.type, each.inputs) for urn, each in _call.stack.by_urn.items()}
    for rule in STACK_RULES:
        assert rule.stack is not None
        findings = tuple(rule.stack(_call.stack, contexts[rule.name]))
        if findings:
            _call.findings[rule.name] = findings
            _apply_waivers(contexts, judged)


def _earlier_reading(wire: Any) -> tuple[tuple[PoolFacts, ...], DeclaredSoftware | None] | None:
    """Return the earlier reading of a resource if its outputs contain its inputs unchanged."""
    before = _readings.get(wire.urn)
    if before is None or before[0] != wire.type:
        return None
    inputs, outputs = before[1].fields, wire.properties.fields
    if all(key in outputs and outputs[key] == value for key, value in inputs.items()):
        return before[2], before[3]
    return None


class _WireResource:
    """A resource of an AnalyzeStack call, with the names that the SDK's `PolicyResource` has."""

    def __init__(self, wire: Any) -> None:
        self.urn, self.resource_type, self.name = wire.urn, wire.type, wire.name
        self.props = _call.decode(wire.properties)
        self.parent_urn = wire.parent
        self.provider_urn = wire.provider.urn if wire.HasField("provider") else ""
        self.depends = tuple(wire.dependencies)
        self.by_property = {key: tuple(found.urns) for key, found in wire.propertyDependencies.items() if found.urns}
        self.before = _earlier_reading(wire)


def _inputs(props: Any) -> Inputs:
    return props if isinstance(props, Inputs) else Inputs(plain(props))


def _named_pools(inputs: Inputs, resource_type: str, name: str) -> tuple[PoolFacts, ...]:
    """Return the pools of a resource; unnamed ones get the name of the resource."""
    return tuple(with_name(pool, inputs, name) for pool in inputs.pools(resource_type))


def _findings_on(rule: Rule, resource_type: str, inputs: Inputs, context: Context, name: str = "") -> Iterable[Finding]:
    if rule.pool is not None:
        for pool in _named_pools(inputs, resource_type, name):
            yield from rule.pool(pool, context)
    elif rule.software is not None:
        software = inputs.software(resource_type)
        if software is not None:
            yield from rule.software(software, context)


class _UnverifiedMessages(threading.local):
    """Unverified messages on the resource or stack that a thread judges.

    The SDK reports every violation of a policy at the policy's one level, so an advisory needs a second policy,
    which cannot see the first one's configuration. One Analyze call asks all policies in their order on one
    thread (pulumi/pulumi-policy `sdk/python/lib/pulumi_policy/policy.py`), so they can pass the messages on here.
    """

    def __init__(self) -> None:
        self._about = ""
        self._messages: tuple[tuple[str, str], ...] = ()

    def add(self, about: str, urn: str, message: str) -> None:
        self._messages = (*(self._messages if about == self._about else ()), (urn, message))
        self._about = about

    def take(self, about: str) -> tuple[tuple[str, str], ...]:
        messages = self._messages if about == self._about else ()
        self._messages = ()
        return messages


def _advisory(rule: Rule, context: Context) -> bool:
    # The engine fills in defaults; a pack that is called directly gets no configuration.
    return UNKNOWN_AT_PREVIEW in rule.config and rule.option(context, UNKNOWN_AT_PREVIEW) == "advisory"


def _resource_policy(rule: Rule, unverified: _UnverifiedMessages) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
        inputs = _inputs(args.props)
        context = Context(
            config=args.get_config(),
            stack=pulumi.get_stack(),
            protect=bool(args.opts and (args.opts.protect or _is_destroy_allowed(args.opts.parent or ""))),
        )
        if _call.running:
            findings: Iterable[Finding] = [finding for _, finding in _call.findings.get(rule.name, ())]
        else:
            read = _findings_on(rule, args.resource_type, inputs, context, args.name)
            judged = {args.urn: (args.resource_type, inputs)}
            findings = [each for each in read if not _is_waived(rule.name, context.config, (args.urn, each), judged)]
        for finding in findings:
            message = f"{args.name}: {format_finding(finding, inputs.plain(), rule)}"
            if finding.unverified and _advisory(rule, context):
                unverified.add(args.urn, args.urn, f"{message} ({rule.name})")
            else:
                report_violation(message, args.urn)

    remediate: JsonDict = {"remediate": add_missing_taint} if rule is gpu_pool_tainted.RULE else {}
    return ResourceValidationPolicy(validate=validate, **remediate, **_policy_metadata(rule))


def _stack_policy(rule: Rule, unverified: _UnverifiedMessages) -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report_violation: ReportViolation) -> None:
        stack = _stack(args.resources)
        context = Context(
            config=args.get_config(), stack=pulumi.get_stack(), today=_today(), waived=_used_waivers.keys()
        )
        assert rule.stack is not None
        if _call.running:
            findings: Iterable[tuple[str, Finding]] = _call.findings.get(rule.name, ())
        else:
            about = {each.urn: (each.type, each.inputs) for each in stack.resources}
            read = rule.stack(stack, context)
            findings = [each for each in read if not _is_waived(rule.name, context.config, each, about)]
        for urn, finding in findings:
            resource = stack.by_urn.get(urn)
            message = format_finding(finding, resource.inputs if resource else {}, rule)
            message = f"{resource.name}: {message}" if resource else message
            if finding.advice or (finding.unverified and _advisory(rule, context)):
                unverified.add("", urn, f"{message} ({rule.name})")
            else:
                report_violation(message, urn or None)
        if rule is node_pools_understood.RULE and findings:
            judged, no_pool, unread = stack.answers.values()
            total = len(stack.resources)
            counted = f"of {total} resources {judged} judged, {no_pool} no node pool, {unread} not understood"
            unverified.add("", "", f"{counted} ({rule.name})")

    return StackValidationPolicy(validate=validate, **_policy_metadata(rule))


def _policy_metadata(rule: Rule) -> JsonDict:
    frame = rule.framework
    return {
        "name": rule.name,
        "description": rule.why,
        "enforcement_level": EnforcementLevel(rule.level.value),
        "config_schema": PolicyConfigSchema(properties={key: dict(schema) for key, schema in rule.keys.items()})
        if rule.keys
        else None,
        "severity": Severity(rule.severity),
        "framework": PolicyComplianceFramework(frame.name, frame.version, frame.reference, frame.specification),
        "tags": ["gpu", "kubernetes"],
        "remediation_steps": rule.fix,
        "url": rule.url,
    }


def _unverified(unverified: _UnverifiedMessages) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
        for urn, message in unverified.take(args.urn):
            report_violation(message, urn)

    what = "A rule cannot verify this at preview, and its configuration leaves it to the update."
    fix = "Set the named inputs to plain values instead of outputs of other resources."
    return ResourceValidationPolicy(
        UNVERIFIED, what, validate, EnforcementLevel.ADVISORY, severity=Severity.MEDIUM, remediation_steps=fix
    )


def _unverified_in_stack(unverified: _UnverifiedMessages) -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report_violation: ReportViolation) -> None:
        for urn, message in unverified.take(""):
            report_violation(message, urn or None)

    what = "Advice of rules on the whole stack, and findings that they are configured not to enforce."
    fix = "Declare what the rule requires in this stack, or make sure that it exists elsewhere."
    return StackValidationPolicy(
        UNVERIFIED_IN_STACK, what, validate, EnforcementLevel.ADVISORY, severity=Severity.MEDIUM, remediation_steps=fix
    )


def _waived_in_stack() -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report_violation: ReportViolation) -> None:
        for waiver, what in _used_waivers.items():
            report_violation(f"{what}; {waiver} ({waiver.rule})", waiver.resource)

    what = "A waiver suppresses this finding."
    fix = "Fix the finding before the waiver expires, and remove the waiver."
    return StackValidationPolicy(
        WAIVED, what, validate, EnforcementLevel.ADVISORY, severity=Severity.LOW, remediation_steps=fix
    )


def _stack(resources: Iterable[PolicyResource]) -> DeclaredStack:
    return _call.stack or DeclaredStack(_declared(_SdkResource(each)) for each in resources)


class _SdkResource:
    """A resource that the SDK passes to a stack policy, with the URNs that rules use."""

    def __init__(self, resource: PolicyResource) -> None:
        self.urn, self.resource_type, self.name = resource.urn, resource.resource_type, resource.name
        self.props = _inputs(resource.props)
        self.parent_urn = resource.parent.urn if resource.parent else ""
        self.provider_urn = resource.provider.urn if resource.provider else ""
        self.depends = tuple(each.urn for each in resource.dependencies)
        self.by_property = {
            key: tuple(each.urn for each in others) for key, others in resource.property_dependencies.items() if others
        }
        self.before: tuple[tuple[PoolFacts, ...], DeclaredSoftware | None] | None = None


def _declared(resource: _WireResource | _SdkResource) -> Declared:
    inputs, type_ = resource.props, resource.resource_type
    pools, software = resource.before or (_named_pools(inputs, type_, resource.name), inputs.software(type_))
    templates = [cloud.readback().read_template(type_, inputs) for cloud in clouds().values()]
    templates.append(read_template(type_, inputs, clouds()))
    return Declared(
        urn=resource.urn,
        type=type_,
        name=resource.name,
        inputs=inputs,
        pools=pools,
        template=next((found for found in templates if found is not None), None),
        software=software,
        unread=classify(type_, inputs, component=not resource.provider_urn, software=software is not None),
        parent=resource.parent_urn,
        provider=resource.provider_urn,
        depends=(*resource.depends, *(urn for urns in resource.by_property.values() for urn in urns)),
        by_property=resource.by_property,
    )


def add_missing_taint(args: ResourceValidationArgs) -> JsonObject | None:
    """Return the resource's inputs with the missing taint of its GPU pools; None if nothing can or must change.

    The engine calls this only if the level of the policy is `remediate`, and shows the change. Cases that would need a
    guess (a taint in user data, an unknown list) stay violations.
    """
    wire = serialize_properties(args.props)
    changed: JsonObject = wire
    for pool in read_pools(args.resource_type, plain_wire(wire)):
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
