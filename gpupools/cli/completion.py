"""`gpupools completion SHELL`: print a script that completes commands, options and values."""

import argparse
from collections.abc import Iterator
from importlib import import_module

import shtab

from gpupools.cli.help_texts import examples
from gpupools.console.output import tell_lines

SHELLS = ("bash", "fish", "zsh", "tcsh")
_FILES, _FOLDERS = frozenset({"FILE", "OUT", "PATH"}), frozenset({"DIR"})
"""Names of arguments that a shell completes with files and folders."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools completion bash > gpupools.bash") + (
        "\nbash, tcsh: source the file in ~/.bashrc or ~/.tcshrc.\n"
        "fish: save the file as ~/.config/fish/completions/gpupools.fish.\n"
        "zsh: save the file as _gpupools in a folder of $fpath.\n"
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=lambda given: show(given.shell))


def show(shell: str) -> int:
    """Print the script for a shell."""
    cli = import_module("gpupools.cli.main")  # imports the commands
    parser = cli.parser(cli.COMMANDS)
    for argument in _arguments(parser):
        if argument.metavar in _FILES | _FOLDERS:
            argument.complete = shtab.FILE if argument.metavar in _FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
    tell_lines(shtab.complete(parser, shell=shell))
    return 0


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for argument in parser._actions:
        yield argument
        if isinstance(argument, argparse._SubParsersAction):
            for command in argument.choices.values():
                yield from _arguments(command)
