"""Loads a policy configuration file into the level and options of each rule, and its waivers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path as FilePath

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.policies import configuration, waivers
from gpupools.policies.finding import Context, Finding, FindingLevel, Level, Rule
from gpupools.policies.rules import ALL_RULES
from gpupools.policies.rules.gpu_waiver_current import RULE as WAIVER_RULE
from gpupools.policies.waivers import IN_FILES, LONGEST, Waiver, WaiverLimits

_LOW = ("advisory", "disabled")
_LEVEL = "enforcementLevel"


@dataclass(frozen=True)
class Config:
    """A policy configuration file, in the form that `pulumi preview --policy-pack-config` takes."""

    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of each policy that has one, in Pulumi's words."""
    options: Mapping[str, JsonObject] = field(default_factory=dict)
    """Options of each rule."""
    today: date = date.min
    """The day on which waivers hold or have ended."""
    path: FilePath = FilePath()
    """Its file."""
    files: tuple[FilePath, ...] = ()
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


def read_config(path: FilePath | None, today: date | None = None) -> Config:
    """Read a policy configuration; None stands for one that changes nothing.

    Args:
        path: Its file.
        today: The day for which waivers are judged; None for that of the clock.

    Raises:
        Rejected: It is not such a file, names rules or options that do not exist, or weakens a mandatory rule.
    """
    document, problems = configuration.read_config(path) if path is not None else ({}, [])
    if problems or not isinstance(document, Mapping):
        raise Rejected(problems)
    return config_of(document, today or datetime.now(tz=UTC).date(), path or FilePath())


def config_of(document: JsonObject, today: date, path: FilePath = FilePath()) -> Config:
    """Return the levels and the options that a valid configuration sets."""
    given = {name: value if isinstance(value, Mapping) else {_LEVEL: value} for name, value in document.items()}
    of_all = given.get("all", {}).get(_LEVEL)
    options = {name: given.get(name, {}) for name in (*(rule.name for rule in ALL_RULES), *configuration.ADVISORY_ONLY)}
    levels = {name: level for name, option in options.items() if (level := option.get(_LEVEL, of_all))}
    return Config(levels, options, today, path)
