"""Loads a policy configuration file into the level and options of each rule, and its waivers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path as FilePath

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.policies import configuration, waivers
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, FindingLevel, Level, Rule
from gpupools.policies.rules import ALL_RULES
from gpupools.policies.rules.gpu_waiver_current import waiver_limits
from gpupools.policies.waivers import Waiver, WaiverLimits

_LOW = ("advisory", "disabled")
_LEVEL = "enforcementLevel"


@dataclass(frozen=True)
class Config:
    """A policy configuration file, in the form that `pulumi preview --policy-pack-config` takes."""

    levels: Mapping[str, str] = field(default_factory=dict)
    """Level of each rule that has one, in Pulumi's words."""
    options: Mapping[str, JsonObject] = field(default_factory=dict)
    """Options of each rule."""
    waivers: tuple[Waiver, ...] = ()
    today: date = date.min
    """The day on which waivers hold or have ended."""
    path: FilePath = FilePath()
    """Its file."""
    files: tuple[FilePath, ...] = ()
    """All files of the run, which may refer to each other."""

    @property
    def limits(self) -> WaiverLimits:
        """Return what the configuration allows of waivers."""
        mandatory = (rule.name for rule in ALL_RULES if self.levels.get(rule.name, rule.level) not in _LOW)
        return waiver_limits(self.options.get(WAIVERS_CURRENT, {}), mandatory, self.today)

    def level(self, rule: Rule, finding: Finding, address: str) -> FindingLevel | None:
        """Return the level of a finding on a resource; None where its rule is disabled."""
        given = self.levels.get(rule.name, rule.level.value)
        if given == "disabled":
            return None
        context = Context(config=self.options.get(rule.name, {}))
        is_foreign = rule.name not in self.levels and not address.startswith("urn:pulumi:")
        if given == Level.ADVISORY or rule.is_advice(finding, context) or (is_foreign and rule.advice_outside_stacks):
            return FindingLevel.ADVICE
        return FindingLevel.UNVERIFIED if finding.unverified else FindingLevel.VIOLATION


def read_config(path: FilePath, today: date) -> Config:
    """Read a policy configuration for the day `today`.

    Raises:
        Rejected: It is not such a file, names rules or options that do not exist, or weakens a mandatory rule.
    """
    document, problems = configuration.read_config(path)
    if problems or not isinstance(document, Mapping):
        raise Rejected(problems)
    levels, options = levels_and_options(document)
    listed = tuple(waiver for name, own in options.items() for waiver in waivers.configured(name, own))
    return Config(levels, options, listed, today, path)


def levels_and_options(document: JsonObject) -> tuple[dict[str, str], dict[str, JsonObject]]:
    """Return the levels that a valid configuration sets, and the options of every policy, by its name."""
    given = {name: value if isinstance(value, Mapping) else {_LEVEL: value} for name, value in document.items()}
    of_all = given.get("all", {}).get(_LEVEL)
    options = {name: given.get(name, {}) for name in (*(rule.name for rule in ALL_RULES), *configuration.ADVISORY_ONLY)}
    return {name: level for name, option in options.items() if (level := option.get(_LEVEL, of_all))}, options
