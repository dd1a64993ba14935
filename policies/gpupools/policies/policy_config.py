"""Policy configuration of an environment, `policy-config.<env>.json`: its problems, levels, options and waivers.

The form is the one `pulumi preview --policy-pack-config` takes: policy name to a level, or to an object with
`enforcementLevel` and the policy's own keys; `all` sets the level of the policies that are not named.
https://www.pulumi.com/docs/iac/crossguard/configuration/. `gpupools policy --check-config` is the check that CI runs.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from gpupools.common.errors import Problem, Rejected, nearest, shown
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.policies import waivers
from gpupools.policies.finding import Context, Finding, FindingLevel, Level, Rule, correction
from gpupools.policies.rules import ALL_RULES
from gpupools.policies.rules.gpu_waiver_current import RULE as WAIVER_RULE
from gpupools.policies.waivers import IN_FILES, LONGEST, Waiver, WaiverLimits

ADVISORY_ONLY = ("unverified-at-preview", "unverified-in-stack", "waived")
"""Policies besides the rules: they report findings that are not enforced or that waivers suppress."""

_ADVISORY_DESCRIPTIONS = {
    **dict.fromkeys(ADVISORY_ONLY, "Reports findings that rules are configured not to enforce."),
    "waived": "Lists the findings that waivers suppress.",
}
_RANK = {"disabled": 0, "advisory": 1, "mandatory": 2, "remediate": 2}
_LOW = ("advisory", "disabled")
_LEVEL = "enforcementLevel"
_RULES = {rule.name: rule for rule in ALL_RULES}


def schema() -> JsonDict:
    """Return the JSON schema of a configuration file, as in `policy-config.schema.json`."""
    level = {"$ref": "#/$defs/level"}
    shared = {waivers.KEY: {"$ref": f"#/$defs/{waivers.KEY}"}}
    properties: JsonDict = {"all": {"description": "The level of every policy that is not named.", **level}}
    for name in (*_RULES, *ADVISORY_ONLY):
        rule = _RULES.get(name)
        own = {key: shared.get(key, value) for key, value in rule.keys.items()} if rule else {}
        form = {"$ref": "#/$defs/rule"} if own == shared else _level_or(level, own)
        properties[name] = {"description": rule.why if rule else _ADVISORY_DESCRIPTIONS[name], **form}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of the gpupools policy pack",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": {
            "level": {"type": "string", "enum": list(_RANK)},
            waivers.KEY: dict(waivers.SCHEMA),
            "rule": _level_or(level, shared),
        },
    }


def _level_or(level: JsonDict, own: JsonDict) -> JsonDict:
    properties = {_LEVEL: level, **own}
    return {"anyOf": [level, {"type": "object", "properties": properties, "additionalProperties": False}]}


def config_problems(document: object) -> list[Problem]:
    """Return the problems of a configuration: unknown names, wrong values, and mandatory rules that it weakens."""
    if not isinstance(document, Mapping):
        return [Problem((), f"got {shown(document)}", "write an object: policy name to level or to an object")]
    return [problem for key, value in document.items() for problem in _policy_problems(str(key), value, document)]


def _policy_problems(name: str, value: object, document: Mapping[Any, Any]) -> Iterator[Problem]:
    if name == "all":
        yield from _all_problems(value, document)
        return
    if new := waivers.RENAMED.get(name):
        yield Problem((name,), f"is now part of {new}", f"move its keys and waivers to {new}")
        return
    if name not in _RULES and name not in ADVISORY_ONLY:
        fix = "write it below the rule that it waives" if name == waivers.KEY else ""
        fix = fix or nearest(name, ("all", *_RULES, *ADVISORY_ONLY))
        yield Problem((name,), "is not a policy of this pack", fix)
        return
    if isinstance(value, str):
        yield from _level_problems((name,), name, value)
    elif isinstance(value, Mapping):
        for key, given in value.items():
            yield from _key_problems(name, str(key), given)
    else:
        yield Problem((name,), f"got {shown(value)}", f"write a level ({', '.join(_RANK)}) or an object")


def _all_problems(value: object, document: Mapping[Any, Any]) -> Iterator[Problem]:
    level = value.get(_LEVEL) if isinstance(value, Mapping) else value
    if isinstance(value, Mapping):
        for key in value:
            if key != _LEVEL:
                yield Problem(("all", str(key)), "all takes a level only", "set it on the policy that has it")
    if not isinstance(level, str) or level not in _RANK:
        yield Problem(("all",), f"got {shown(level)}", f"use one of: {', '.join(_RANK)}")
        return
    lowered = [
        name
        for name, rule in _RULES.items()
        if rule.level is Level.MANDATORY and _RANK[level] < _RANK["mandatory"] and not _names_level(document.get(name))
    ]
    if lowered:
        what = f"{level} lowers mandatory rules: {', '.join(lowered)}"
        yield Problem(("all",), what, "set the level of each advisory policy by its name instead")
    hidden = [name for name in ADVISORY_ONLY if not _names_level(document.get(name))]
    if level == "disabled" and hidden:
        what = f"disabled hides findings: {', '.join(hidden)}"
        yield Problem(("all",), what, "set the level of each advisory policy by its name instead")


def _names_level(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and _LEVEL in value)


def _key_problems(name: str, key: str, given: object) -> Iterator[Problem]:
    path = (name, key)
    if key == _LEVEL:
        yield from _level_problems(path, name, given)
        return
    own = _RULES[name].keys if name in _RULES else {}
    if key not in own:
        yield Problem(path, f"{name} has no such key", nearest(key, (_LEVEL, *own)))
        return
    if key == waivers.KEY and isinstance(given, list):
        for index, item in enumerate(given):
            if fault := waivers.waiver_problem(item):
                yield Problem((*path, index), "is not a valid waiver", fault)
        return
    if wanted := correction(given, own[key]):
        yield Problem(path, f"got {shown(given)}", wanted)


def _level_problems(path: tuple[str, ...], name: str, given: object) -> Iterator[Problem]:
    if not isinstance(given, str) or given not in _RANK:
        yield Problem(path, f"got {shown(given)}", f"use one of: {', '.join(_RANK)}")
        return
    rule = _RULES.get(name)
    if rule is not None and rule.level is Level.MANDATORY and _RANK[given] < _RANK["mandatory"]:
        verb = "disables" if given == "disabled" else "lowers"
        yield Problem(path, f"{verb} a mandatory rule", "leave the level out, or make it mandatory")
    if name in ADVISORY_ONLY and given == "disabled":
        yield Problem(
            path, f"hides findings: {_ADVISORY_DESCRIPTIONS[name]}", "leave the level out, or make it advisory"
        )


_MAX_BYTES = 1_048_576


def parse_config(path: Path) -> tuple[object, list[Problem]]:
    """Return the parsed JSON of a configuration file, or None, and its problems."""
    twice: dict[str, None] = {}

    def noting_twice(pairs: Sequence[tuple[str, object]]) -> JsonDict:
        twice.update((key, None) for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        document = json.loads(read_bytes(path, _MAX_BYTES).decode("utf-8"), object_pairs_hook=noting_twice)
    except OSError as error:
        return None, [Problem((), f"cannot be read: {error.strerror}", "name a policy configuration")]
    except (ValueError, RecursionError) as error:
        return None, [Problem((), f"is not JSON: {error}", "correct it; JSON allows no comments or trailing commas")]
    more = [Problem((), f"has the key {shown(name)} twice, and only the last one counts", "keep one") for name in twice]
    return document, more + config_problems(document)


@dataclass(frozen=True)
class Config:
    """A policy configuration file, in the form that `pulumi preview --policy-pack-config` takes."""

    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of each policy that has one, in Pulumi's words."""
    options: Mapping[str, JsonObject] = field(default_factory=dict)
    """Options of each rule."""
    today: date = date.min
    """The day on which waivers hold or have ended."""
    path: Path = Path()
    """Its file."""
    files: tuple[Path, ...] = ()
    """All files of the run, which may refer to each other."""

    @cached_property
    def waivers(self) -> tuple[Waiver, ...]:
        """Return the waivers of all rules."""
        return tuple(waiver for name, own in self.options.items() for waiver in waivers.configured(name, own))

    @property
    def limits(self) -> WaiverLimits:
        """Return what the configuration allows of waivers."""
        mandatory = frozenset(rule.name for rule in ALL_RULES if self.levels.get(rule.name, rule.level) not in _LOW)
        days = WAIVER_RULE.option(self._context, LONGEST)
        return WaiverLimits(self.today, WAIVER_RULE.option(self._context, IN_FILES), days and int(days), mandatory)

    @cached_property
    def _context(self) -> Context:
        return Context(config=self.options)

    def level(self, rule: Rule, finding: Finding, address: str) -> FindingLevel | None:
        """Return the level of a finding on a resource; None where its rule is disabled."""
        given = self.levels.get(rule.name, rule.level.value)
        if given == "disabled":
            return None
        is_foreign = rule.name not in self.levels and not address.startswith("urn:pulumi:")
        is_advice = given == Level.ADVISORY or rule.is_advice(finding, self._context)
        if is_advice or (is_foreign and rule.advice_outside_stacks):
            return FindingLevel.ADVICE
        return FindingLevel.UNVERIFIED if finding.unverified else FindingLevel.VIOLATION


def read_config(path: Path | None, today: date | None = None) -> Config:
    """Read a policy configuration; None stands for one that changes nothing.

    Args:
        path: Its file.
        today: The day for which waivers are judged; None for that of the clock.

    Raises:
        Rejected: It is not such a file, names rules or options that do not exist, or weakens a mandatory rule.
    """
    document, problems = parse_config(path) if path is not None else ({}, [])
    if problems or not isinstance(document, Mapping):
        raise Rejected(problems)
    return config_of(document, today or datetime.now(tz=UTC).date(), path or Path())


def config_of(document: JsonObject, today: date, path: Path = Path()) -> Config:
    """Return the levels and the options that a valid configuration sets."""
    given = {name: value if isinstance(value, Mapping) else {_LEVEL: value} for name, value in document.items()}
    of_all = given.get("all", {}).get(_LEVEL)
    options = {name: given.get(name, {}) for name in (*_RULES, *ADVISORY_ONLY)}
    levels = {name: level for name, option in options.items() if (level := option.get(_LEVEL, of_all))}
    return Config(levels, options, today, path)
