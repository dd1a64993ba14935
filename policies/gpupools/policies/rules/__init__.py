"""The policy rules, one module per rule.

Each module defines `RULE`, with the function that judges; what people read of the rule is its row in `rules.csv`. Its
examples are in the `.yaml` file of the same name. To add a rule, add both files and the row.
"""

from importlib import import_module
from pathlib import Path

from gpupools.policies.finding import WAIVERS_CURRENT, Rule

_FILES = sorted(Path(__file__).parent.glob("[!_]*.py"))
_RULES: list[Rule] = [import_module(f"{__name__}.{file.stem}").RULE for file in _FILES]

ALL_RULES = tuple(sorted(_RULES, key=lambda rule: rule.order))
"""Every rule of the pack, in the order of reports."""

RULE_NAMES = frozenset(rule.name for rule in ALL_RULES) - {WAIVERS_CURRENT}
"""Names of the rules that can be waived."""

RESOURCE_RULES = tuple(rule for rule in ALL_RULES if rule.pool or rule.software)
"""Rules that judge one resource; some of them also judge a stack."""

STACK_RULES = tuple(rule for rule in ALL_RULES if rule.stack is not None)
"""Rules that need all resources of a stack."""
