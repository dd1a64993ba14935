"""Serve the components to Pulumi programs in any language; the engine runs this folder by path."""

import sys
from pathlib import Path

# `pulumi install` installs the lock but not the project, so add the source roots here.
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / each) for each in (".", "components", "policies", "preview", "providers", "stacks")]

from gpupools.components.serve import serve

serve()
