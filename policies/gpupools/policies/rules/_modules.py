"""The modules of this package that define a rule."""

from pathlib import Path
from pkgutil import iter_modules

from gpupools.policies.finding import WAIVERS_CURRENT

MODULES = tuple(sorted(name for _, name, _ in iter_modules([str(Path(__file__).parent)]) if not name.startswith("_")))
"""Names of the modules; each is the name of its rule with underscores."""

RULE_NAMES = frozenset(name.replace("_", "-") for name in MODULES) - {WAIVERS_CURRENT}
"""Names of the rules that can be waived."""
