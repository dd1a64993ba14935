"""`gpupools completion SHELL`: a script that completes commands, options and their words."""

import argparse
from importlib import import_module

from gpupools.base.output import tell, tell_lines
from gpupools.commands.words import examples

SHELLS = ("bash", "zsh", "tcsh")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools completion bash > gpupools.bash") + (
        "\nbash, tcsh: source the file in ~/.bashrc or ~/.tcshrc;\nzsh: write it as _gpupools in a folder of $fpath\n"
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=lambda given: show(given.shell))


def show(shell: str) -> int:
    """Print the script."""
    cli = import_module("gpupools.commands.cli")  # which imports the commands
    try:
        complete = import_module("shtab").complete
    except ModuleNotFoundError:  # an environment of before it was needed
        tell("gpupools completion needs shtab: install gpupools anew", error=True)
        return 2
    tell_lines(complete(cli.parser(cli.COMMANDS), shell=shell))
    return 0
