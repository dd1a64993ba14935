"""Serves the policy pack; `pulumi preview --policy-pack policies` runs this folder by path."""

import sys
from pathlib import Path

# Run by path, only this folder is importable, and `pulumi install` installs the lock but not the project.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import EnforcementLevel, PolicyPack

from policies.pack import NAME, judge_once, policies

judge_once()
# Serves until the engine ends the process: nothing after this line runs.
PolicyPack(name=NAME, policies=policies(), enforcement_level=EnforcementLevel.MANDATORY)
