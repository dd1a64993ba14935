"""`gpupools check FILE...`: validate stack files without Pulumi and without a cloud."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gpupools.check import check_stack_file, locate
from gpupools.errors import Rejected
from providers import clouds


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the command."""
    parser = commands.add_parser("check", help="validate stack files, without Pulumi and without a cloud")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.set_defaults(run=lambda given: check_files(given.files))


def check_files(files: Sequence[Path]) -> int:
    """Print every problem of every file as `file:line: key: what; cure`; return 1 when there is one."""
    failed = False
    for path in files:
        try:
            checked = check_stack_file(path, clouds())
        except Rejected as rejected:
            failed = True
            for located in locate(path, rejected):
                print(located, file=sys.stderr)
        else:
            count = len(checked.plans)
            print(f"{path}: ok, {count} {'pool' if count == 1 else 'pools'}")
    return 1 if failed else 0
