"""Serves the policy pack; `pulumi preview --policy-pack policies` runs this folder by path."""

import sys
from pathlib import Path

# `pulumi install` installs the lock but not the project, so the source roots are named here too.
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in (".", "components", "policies", "preview", "providers", "stacks")]

from gpupools.policies.serve import serve

serve()
