"""The modules of this package that define a rule."""

from pathlib import Path

from gpupools.policies.finding import WAIVERS_CURRENT

MODULES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))
"""Names of the modules; each is the name of its rule with underscores."""

RULE_NAMES = frozenset(name.replace("_", "-") for name in MODULES) - {WAIVERS_CURRENT}
"""Names of the rules that can be waived."""
