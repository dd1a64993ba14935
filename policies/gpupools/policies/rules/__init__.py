"""The policy rules, one module per rule.

Each module defines `RULE`: the metadata of the rule and the function that judges. Its examples are in the `.yaml` file
of the same name. To add a rule, add both files; nothing else lists the rules.
"""

from importlib import import_module

from gpupools.policies.finding import Rule
from gpupools.policies.rules._modules import MODULES, RULE_NAMES

__all__ = ["ALL_RULES", "RESOURCE_RULES", "RULE_NAMES", "STACK_RULES"]

_RULES: list[Rule] = [import_module(f"{__name__}.{module}").RULE for module in MODULES]

ALL_RULES = tuple(sorted(_RULES, key=lambda rule: rule.order))
"""Every rule of the pack, in the order of reports."""

RESOURCE_RULES = tuple(rule for rule in ALL_RULES if rule.pool or rule.software)
"""Rules that judge one resource; some of them also judge a stack."""

STACK_RULES = tuple(rule for rule in ALL_RULES if rule.stack is not None)
"""Rules that need all resources of a stack."""
