"""The program that `pulumi up` runs: declare every pool of Pulumi.<stack>.yaml on its clusters."""

from pathlib import Path

from gpupools.stacks.program import run

run(Path(__file__).parent)
