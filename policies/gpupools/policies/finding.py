"""Rules and findings as data, and the message of a finding."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.policies.declared_software import DeclaredSoftware
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.waivers import KEY, SCHEMA, Waivers
from gpupools.readback.inputs import steps as steps

DOCS = "docs/reference/policies.md"
"""The page with a section for every rule, by the rule's name."""
DOCS_URL = "GPUPOOLS_DOCS_URL"
"""Environment variable with the address of the published documentation, such as https://example.com/gpupools."""

UNKNOWN_AT_PREVIEW = "unknownAtPreview"
"""Configuration key of rules whose findings can be unverified at preview: `violation` or `advisory`."""


WAIVERS_CURRENT = "gpu-waiver-current"
"""The rule on waivers, which itself cannot be waived."""


class Level(StrEnum):
    """How a rule is enforced; the values are Pulumi's."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class FindingLevel(StrEnum):
    """What a finding means, in the words of every report."""

    VIOLATION = "violation"
    """A mandatory rule is broken."""
    UNVERIFIED = "unverified"
    """A mandatory rule may be broken: what was read proves neither that nor the opposite."""
    ADVICE = "advice"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem that a rule found on one pool, one chart or workload, or the stack."""

    what: str
    """What is wrong, with the input that says so."""
    property: str = ""
    """Path of the input to change, e.g. `nodeConfig.taints`; its declared value is shown to the reader."""
    fix: str
    pool: str = ""
    """Name of the pool inside its resource; empty when the resource is the pool."""
    found: str | None = None
    """The declared value as text; None to look it up at `property`."""
    source: str = ""
    """Public source of the finding, if it differs from that of the rule."""
    unverified: bool = False
    """True when the inputs known at preview prove neither a violation nor safety."""
    needs_fix: bool = False
    """True for an unverified finding that the complete document of a tool, such as a plan, does not settle either."""
    lacks_cpu_pool: bool = False
    """True for an unverified finding that a pool for pods without GPUs, in another file of the run, settles."""
    advice: bool = False
    """True for advice of a rule whose other findings are violations."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What rules may use besides the inputs."""

    config: Mapping[str, JsonObject] = field(default_factory=dict)
    """The configuration of each rule, by its name; missing keys have the defaults of `Rule.config`."""
    stack: str = ""
    """Name of the Pulumi stack."""
    protect: bool = False
    """The resource option of that name."""
    waivers: Waivers = field(default_factory=Waivers)
    """For the rule on waivers: those of the run."""
    options: dict[tuple[str, str], Any] = field(default_factory=dict, compare=False, repr=False)
    """Configuration values already looked up, by rule and key."""


@dataclass(frozen=True)
class Framework:
    """The public guidance that a rule enforces."""

    name: str
    version: str
    reference: str
    """Number or name of the item."""
    specification: str
    """What the item requires, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy of the pack."""

    name: str
    level: Level
    """Without configuration."""
    severity: str
    """`low`, `medium`, `high` or `critical`."""
    why: str
    """Why it exists, one sentence."""
    fix: str
    """How to fix a violation, on any cloud."""


@dataclass(frozen=True, kw_only=True)
class Rule(Policy):
    """One rule; `pool` or `software` judges each resource, and `stack` judges all together."""

    order: int
    """Position in reports and on the documentation page."""
    url: str
    """Public page about the requirement."""
    framework: Framework
    config: Mapping[str, JsonObject] = field(default_factory=dict)
    """JSON schema of each configuration key, with its default."""
    advice_outside_stacks: bool = False
    """Whether its findings are advice on resources of other tools, unless the configuration names its level."""
    pool: Callable[[PoolFacts, Context], Iterable[Finding]] | None = None
    """Judges one pool by its own resource."""
    software: Callable[["DeclaredSoftware", Context], Iterable[Finding]] | None = None
    """Judges one chart or workload with GPU software."""
    stack: Callable[["DeclaredStack", Context], Iterable[tuple[str, Finding]]] | None = None
    """Judges the whole stack; findings with the URN of the resource at fault, empty for the stack itself."""

    @property
    def keys(self) -> Mapping[str, JsonObject]:
        """Return the schema of each configuration key, including waivers except for the rule on waivers."""
        return self.config if self.name == WAIVERS_CURRENT else {**self.config, KEY: SCHEMA}

    @property
    def docs(self) -> str:
        """The section of the documentation page: its address where `DOCS_URL` is set, else its path."""
        site = os.environ.get(DOCS_URL, "").rstrip("/")
        return f"{site}/reference/policies/#{self.name}" if site else f"{DOCS}#{self.name}"

    def option(self, context: Context, key: str) -> Any:
        """Return a configuration value, or its default if it is missing or has a wrong type."""
        known = (self.name, key)
        if known not in context.options:
            schema = self.config[key]
            given = context.config.get(self.name, {}).get(key, schema.get("default"))
            context.options[known] = given if not correction(given, schema) else schema.get("default")
        return context.options[known]

    def is_advice(self, finding: Finding, context: Context) -> bool:
        """Say whether a finding is advice though the rule is mandatory: by itself, or as the configuration wants."""
        late = finding.unverified and UNKNOWN_AT_PREVIEW in self.config
        return finding.advice or (late and self.option(context, UNKNOWN_AT_PREVIEW) == "advisory")


def correction(given: object, schema: JsonObject) -> str:
    """Return how to correct a configuration value; empty if it is valid."""
    if "enum" in schema:
        return "" if given in schema["enum"] else f"use one of: {', '.join(schema['enum'])}"
    match schema["type"]:
        case "integer":  # numbers come over the wire as floats
            least = schema["minimum"]
            number = given if isinstance(given, int | float) and not isinstance(given, bool) else least - 1
            return "" if number >= least and number % 1 == 0 else f"use a whole number of {least} or more"
        case "object":
            right = isinstance(given, Mapping) and all(isinstance(why, str) and why.strip() for why in given.values())
            return "" if right else "use an object of <pool>/<kind> to a reason"
    if schema["items"]["type"] == "object":
        return "use a list of waivers, each an object"
    return "" if isinstance(given, list) and all(isinstance(item, str) for item in given) else "use a list of text"


def choice(default: str, *others: str, of: str) -> JsonObject:
    """Return the schema of a configuration key with several words."""
    return {"type": "string", "enum": [default, *others], "default": default, "description": of}


def whole_number(of: str, minimum: int = 0) -> JsonObject:
    """Return the schema of a configuration key that limits a number."""
    return {"type": "integer", "minimum": minimum, "description": f"{of} If not set, the rule does not check it."}


def texts(of: str, default: Sequence[str] = ()) -> JsonObject:
    """Return the schema of a configuration key with a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "default": [*default], "description": of}


def reasons(of: str) -> JsonObject:
    """Return the schema of a configuration key with what to accept, and why."""
    why = {"type": "string", "pattern": r"\S"}
    return {"type": "object", "additionalProperties": why, "default": {}, "description": of}


def unknown_at_preview(default: str = "violation") -> Mapping[str, JsonObject]:
    """Return the schema of the configuration key for findings that unknown values leave unverified."""
    other = "advisory" if default == "violation" else "violation"
    of = "Level of findings that cannot be verified because values are unknown at preview."
    return {UNKNOWN_AT_PREVIEW: choice(default, other, of=of)}


def format_finding(finding: Finding, props: JsonObject, rule: Rule | None = None) -> str:
    """Return the message of a finding: problem, value found, fix and links.

    The documentation is linked only with a rule. Values of taints are left out, because they may be secret.
    """
    text = f"pool {shown(finding.pool)}: {finding.what}" if finding.pool else finding.what
    if finding.property:
        found = _format_value(_value_at(props, finding.property)) if finding.found is None else finding.found
        text += f"; found {finding.property}: {found}"
    text += f"; {finding.fix}"
    see = [place for place in (finding.source, rule.docs if rule else "") if place]
    return f"{text} (see {', '.join(see)})" if see else text


def _value_at(value: Any, path: str) -> Any:
    for step in steps(path):
        if isinstance(step, int):
            if not isinstance(value, list):
                return value
            value = value[step] if step < len(value) else None
        elif value is UNKNOWN or not isinstance(value, Mapping):
            return value
        else:
            value = value.get(step)
    return value


def _format_value(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, list):
        most = 3
        listed = ", ".join(_format_value(item) for item in value[:most])
        return f"{listed} and {len(value) - most} more" if len(value) > most else listed
    if isinstance(value, Mapping) and not value.keys() & {"key", "effect"}:
        named = [str(key) for key in value][:3]  # the values may be secret
        return f"{{{', '.join(shown(key)[1:-1] for key in named)}{', …' if len(value) > len(named) else ''}}}"
    if isinstance(value, Mapping):
        return ":".join(_format_scalar(value.get(part)) for part in ("key", "effect"))
    return _format_scalar(re.sub(r"=[^:]*", "", value, count=1) if isinstance(value, str) else value)


def _format_scalar(value: Any) -> str:
    if value is UNKNOWN:
        return repr(value)
    if isinstance(value, str):
        told = shown(value)
        return (told if told.startswith("a text of ") else told[1:-1]) if value else "<empty>"
    return "<missing>" if value is None else f"<{type(value).__name__}>"
