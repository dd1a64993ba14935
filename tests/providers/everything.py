"""The stack files in which every setting of a cloud occurs, each previewed once for all tests."""

from functools import cache
from pathlib import Path

from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import Preview, preview_program
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile, check_stack_file

STACKS = Path(__file__).resolve().parents[1] / "stacks"


@cache
def checked(cloud: str) -> CheckedFile:
    return check_stack_file(STACKS / f"Pulumi.everything-{cloud}.yaml", clouds())


@cache
def everything(cloud: str) -> Preview:
    """Preview the stack file under the strict monitor."""
    file = checked(cloud).file
    return preview_program(
        PROGRAM, file.stack, "gpupools", {f"gpupools:{key}": each for key, each in file.config.items()}
    )
