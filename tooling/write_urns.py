"""Write `tests/urns.txt`: the URN of every resource that the committed stack files declare.

If a URN changes, Pulumi deletes the resource and creates another, so every change of that file needs an alias in the
code (https://www.pulumi.com/docs/iac/concepts/resources/options/aliases/). Needs no network.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import Preview, preview_program
from gpupools.stackfile.reader import NAMESPACE, read_stack_file

ROOT = Path(__file__).resolve().parent.parent
URNS = ROOT / "tests" / "urns.txt"
STACK_FILES = (*sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), *sorted((ROOT / "tests" / "stacks").glob("*.yaml")))


def declared(file: Path) -> Preview:
    """Return what the stack program declares for a stack file.

    Raises:
        ValueError: The program has a problem with it.
    """
    read = read_stack_file(file)
    config = {f"{NAMESPACE}:{key}": value for key, value in read.config.items()}
    preview = preview_program(PROGRAM, read.stack, NAMESPACE, config)
    if preview.problems:
        raise ValueError(f"{file}: {'; '.join(map(str, preview.problems))}")
    return preview


def urns(previews: Iterable[Preview]) -> str:
    """Return the text of the file: a URN a line, in alphabetical order."""
    return "".join(f"{urn}\n" for urn in sorted(resource.urn for preview in previews for resource in preview.resources))


def main() -> int:
    """Write the file."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    URNS.write_text(urns(map(declared, STACK_FILES)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
