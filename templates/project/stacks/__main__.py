"""The program `pulumi up` runs: every pool of Pulumi.<stack>.yaml on every cluster it names."""

from pathlib import Path

from gpupools.stacks.program import run

run(Path(__file__).parent)
