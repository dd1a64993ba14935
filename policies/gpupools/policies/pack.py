"""Connects the rules to the Pulumi engine: converts inputs of the policy SDK to plain data and findings to violations.

`providers.clouds()` reads the pools, `policies.rules` judges them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import pulumi
import pulumi_policy.policy as sdk
from google.protobuf import struct_pb2
from grpc import StatusCode
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import (
    EnforcementLevel,
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
from gpupools.policies import stack_judge
from gpupools.policies.declared_stack import Declared
from gpupools.policies.finding import Policy, Rule, steps
from gpupools.policies.kinds import read_pools
from gpupools.policies.policy_config import Config
from gpupools.policies.rules import ALL_RULES, gpu_pool_tainted
from gpupools.policies.rules.gpu_pool_tainted import taint_can_be_added
from gpupools.policies.stack_judge import ON_RESOURCES, Said, StackJudge, in_stack, read_resource
from gpupools.policies.waivers import RENAMED
from gpupools.policies.wire import SECRET, SIGNATURE, decoded, plain
from gpupools.readback.inputs import with_taint

NAME = "gpupools"
"""The pack's name, as the engine shows it."""


def _serve_by_analyzer(*_: Any) -> None:
    """Stand where the policy SDK wants a function per policy; `Analyzer` judges."""
    raise RuntimeError("the policy SDK's own server cannot run this pack; start it with `python -m gpupools.policies`")


def _policy(policy: Policy) -> sdk.Policy:
    """Return a policy as the policy SDK declares it to the engine."""
    kind: Any = ResourceValidationPolicy if policy in ON_RESOURCES else StackValidationPolicy
    declared = partial(
        kind,
        name=policy.name,
        description=policy.why,
        validate=_serve_by_analyzer,
        enforcement_level=EnforcementLevel(policy.level),
        severity=Severity(policy.severity),
        remediation_steps=policy.fix,
    )
    if not isinstance(policy, Rule):
        advisory: sdk.Policy = declared()
        return advisory
    frame = policy.framework
    remediate: JsonDict = {"remediate": add_missing_taint} if policy is gpu_pool_tainted.RULE else {}
    schema = PolicyConfigSchema(properties={key: dict(schema) for key, schema in policy.keys.items()})
    of_rule: sdk.Policy = declared(
        **remediate,
        config_schema=schema if policy.keys else None,
        framework=PolicyComplianceFramework(frame.name, frame.version, frame.reference, frame.specification),
        tags=["gpu", "kubernetes"],
        url=policy.url,
    )
    return of_rule


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


class Analyzer(_SdkServer):  # type: ignore[misc]
    """Answers the engine's calls: each resource is decoded and read once, and every rule reports under its one name.

    The SDK's own server decodes all resources for every policy, gives a policy either one resource or the stack, and
    reports all findings of a policy at one level (`sdk/python/lib/pulumi_policy/policy.py` of pulumi/pulumi-policy).
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._judge: StackJudge | None = None
        self._read: dict[str, tuple[struct_pb2.Struct, Declared]] = {}
        """The inputs of each resource, and what was read of them, by URN."""

    def Configure(self, request: Any, context: Any) -> Any:
        """Take the configuration of a run; a former name in it would set no limit."""
        if old := next((name for name in request.policyConfig if name in RENAMED), ""):
            what = f"policy configuration: {old} is now part of {RENAMED[old]}; move its keys there"
            context.abort(StatusCode.INVALID_ARGUMENT, what)
        self._judge = None
        return super().Configure(request, context)

    def Analyze(self, request: Any, _context: Any) -> Any:
        """Judge one resource by the rules that one resource decides."""
        parent = request.options.parent
        resource = read_resource(request.urn, request.type, request.name, Inputs(request.properties), parent)
        if resource.pools or resource.software is not None:
            self._read[request.urn] = (request.properties, resource)
        protect = bool(request.options.protect or _is_destroy_allowed(parent))
        return self._answer(self._configured_judge().judge_resource(resource, protect=protect))

    def AnalyzeStack(self, request: Any, _context: Any) -> Any:
        """Judge the whole stack."""
        return self._answer(self._configured_judge().judge_stack(map(self._declared, request.resources)))

    def _answer(self, said: Iterable[Said]) -> Any:
        answer = analyzer_pb2.AnalyzeResponse()
        for finding in said:
            policy = POLICIES[finding.policy]
            level = self._get_enforcement_level(policy)
            # What remediation has left is a violation.
            level = EnforcementLevel.MANDATORY if level is EnforcementLevel.REMEDIATE else level
            report = self._create_report_violation(answer, policy.name, policy.description, level, policy.severity)
            report(finding.message, finding.urn or None)
        return answer

    def _configured_judge(self) -> StackJudge:
        """Return the rules of this run, which the engine configures before it asks."""
        if self._judge is None:
            self._configure_runtime_settings()
            levels = {name: self._get_enforcement_level(policy).value for name, policy in POLICIES.items()}
            options = {rule.name: self._get_policy_config(rule.name) or {} for rule in ALL_RULES}
            config = Config(levels, options, datetime.now(tz=UTC).date())
            self._judge = StackJudge(config, pulumi.get_stack())
        return self._judge

    def _declared(self, wire: Any) -> Declared:
        inputs = Inputs(wire.properties)
        earlier = self._read_earlier(wire)
        resource = replace(earlier, inputs=inputs, parent=wire.parent) if earlier is not None else None
        provider = wire.provider.urn if wire.HasField("provider") else ""
        return in_stack(
            resource or read_resource(wire.urn, wire.type, wire.name, inputs, wire.parent),
            component=not provider,
            provider=provider,
            depends=wire.dependencies,
            by_property={key: found.urns for key, found in wire.propertyDependencies.items()},
        )

    def _read_earlier(self, wire: Any) -> Declared | None:
        """Return what was read of a resource before if its outputs contain its inputs unchanged."""
        before = self._read.get(wire.urn)
        if before is None or before[1].type != wire.type:
            return None
        inputs, outputs = before[0].fields, wire.properties.fields
        same = all(key in outputs and outputs[key] == value for key, value in inputs.items())
        return before[1] if same else None


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
    return isinstance(named, list) and name in {str(load).replace("/", "-") for load in named}


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
            rest = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[depth + 1 :])
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


POLICIES: Mapping[str, sdk.Policy] = MappingProxyType({policy.name: _policy(policy) for policy in stack_judge.POLICIES})
"""The policies by name: one per rule and the advisory ones, in the order in which the engine lists them."""
