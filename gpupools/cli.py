"""The command `gpupools`.

This module and `commands/` are the only ones here that know the folders around the domain.
Exit codes: 0 all is well, 1 the configuration or a policy refuses, 2 the command was called wrongly.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from gpupools.commands import catalog, check, matrix, mig, preview

COMMANDS = (check, preview, catalog, mig, matrix)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="gpupools", description="GPU node pools as code on EKS, AKS and GKE.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    given = parser.parse_args(arguments)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`gpupools … | head`); Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code
