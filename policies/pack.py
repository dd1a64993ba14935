"""Brings the rules to the Pulumi engine: plain data out of the policy SDK's proxies, findings into violations.

Owns nothing about GPUs or clouds: `providers.clouds()` reads the pools, `policies.rules` judges them.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
)
from pulumi_policy.proxy import (
    UNKNOWN_ARCHIVE_VALUE,
    UNKNOWN_ARRAY_VALUE,
    UNKNOWN_ASSET_VALUE,
    UNKNOWN_BOOLEAN_VALUE,
    UNKNOWN_NUMBER_VALUE,
    UNKNOWN_OBJECT_VALUE,
    UNKNOWN_STRING_VALUE,
    UnknownValueError,
)
from pulumi_policy.secret import Secret

from gpupools.cloud import UNKNOWN
from policies.rules import RULES, Finding, Rule, told
from providers import clouds

NAME = "gpupools"
"""The pack's name, as the engine shows it."""

UNVERIFIED = "unverified-at-preview"
"""The advisory policy that reports what a rule was configured to leave open at preview."""

UNKNOWN_AT_PREVIEW = "unknownAtPreview"
"""Configuration of every rule: `violation` (the default) or `advisory`."""

_UNKNOWN_VALUES = frozenset(
    {
        UNKNOWN_ARCHIVE_VALUE,
        UNKNOWN_ARRAY_VALUE,
        UNKNOWN_ASSET_VALUE,
        UNKNOWN_BOOLEAN_VALUE,
        UNKNOWN_NUMBER_VALUE,
        UNKNOWN_OBJECT_VALUE,
        UNKNOWN_STRING_VALUE,
    }
)

# Envelopes of the wire form: pulumi/pulumi `sdk/go/common/resource/sig/sig.go`.
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


def plain(value: Any) -> Any:
    """Turn a resource's inputs into plain data: dict, list, str, float, bool, None, and `UNKNOWN`.

    Takes the policy SDK's proxies as well as the wire form, and looks through secrets. An asset or archive, which
    no input of a pool can be, becomes an empty dict: neither absent nor a value that could satisfy a rule.
    """
    if isinstance(value, str):
        return UNKNOWN if value in _UNKNOWN_VALUES else value
    if value is None or value is UNKNOWN or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, Mapping):
        items = {key: _item(value, key) for key in value}
        match items.get(_SIGNATURE):
            case None:
                return items
            case signature if signature in (_SECRET, _OUTPUT_VALUE):
                return items.get("value", UNKNOWN)
            case _:
                return {}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_item(value, index) for index in range(len(value))]
    return {}


def _item(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:  # raised by the very look at it, before there is a value to compare
        return UNKNOWN


def complaints(resource_type: str, props: Mapping[str, Any]) -> list[str]:
    """Say what every rule has against one resource, unverified findings included.

    Args:
        resource_type: Type token, e.g. `aws:eks/nodeGroup:NodeGroup`.
        props: Its inputs, camelCase: a proxy of the policy SDK, the wire form, or plain data.
    """
    inputs = plain(props)
    return [told(finding, inputs) for rule in RULES for finding in _findings(rule, resource_type, inputs)]


def policies() -> list[Policy]:
    """Make one policy per rule, and last the one that reports what they leave open."""
    left_open = _LeftOpen()
    return [*(_policy(rule, left_open) for rule in RULES), _unverified(left_open)]


def _findings(rule: Rule, resource_type: str, inputs: Mapping[str, Any]) -> Iterator[Finding]:
    for cloud in clouds().values():
        pool = cloud.read_pool(resource_type, inputs)
        finding = None if pool is None else rule.check(pool)
        if finding is not None:
            yield finding


class _LeftOpen(threading.local):
    """What the rules left open for the resource a thread is at.

    The SDK reports every violation of a policy at the policy's one level, so an advisory needs a second policy,
    which cannot see the first one's configuration. One Analyze call asks all policies in their order on one
    thread (pulumi/pulumi-policy `sdk/python/lib/pulumi_policy/policy.py`), so they can pass it on here.
    """

    def __init__(self) -> None:
        self._urn = ""
        self._messages: tuple[str, ...] = ()

    def add(self, urn: str, message: str) -> None:
        self._messages = (*(self._messages if urn == self._urn else ()), message)
        self._urn = urn

    def take(self, urn: str) -> tuple[str, ...]:
        messages = self._messages if urn == self._urn else ()
        self._messages = ()
        return messages


def _policy(rule: Rule, left_open: _LeftOpen) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
        # The engine fills the schema's default in; a pack that is driven directly gets no configuration at all.
        advisory = args.get_config().get(UNKNOWN_AT_PREVIEW, "violation") == "advisory"
        inputs = plain(args.props)
        for finding in _findings(rule, args.resource_type, inputs):
            message = f"{args.name}: {told(finding, inputs)}"
            if finding.unverified and advisory:
                left_open.add(args.urn, f"{message} ({rule.name})")
            else:
                report_violation(message, args.urn)

    return ResourceValidationPolicy(
        name=rule.name,
        description=rule.why,
        validate=validate,
        enforcement_level=EnforcementLevel(rule.level.value),
        config_schema=PolicyConfigSchema(
            properties={
                UNKNOWN_AT_PREVIEW: {
                    "type": "string",
                    "enum": ["violation", "advisory"],
                    "default": "violation",
                    "description": "What it is when values not known at preview keep the rule from deciding.",
                }
            }
        ),
        severity=Severity(rule.severity),
        remediation_steps=rule.fix,
        url=rule.url,
    )


def _unverified(left_open: _LeftOpen) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report_violation: ReportViolation) -> None:
        for message in left_open.take(args.urn):
            report_violation(message, args.urn)

    return ResourceValidationPolicy(
        name=UNVERIFIED,
        description="A rule could not decide at preview and was configured to leave it to the update.",
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
        severity=Severity.MEDIUM,
        remediation_steps="Write the named inputs as plain values instead of outputs of other resources.",
    )
