"""`gpupools preview [FILE]`: show what a stack file would create, offline."""

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from gpupools.cli.help_texts import examples

DEV_STACK = Path("stacks/Pulumi.dev.yaml")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools preview stacks/Pulumi.dev.yaml")
    parser.add_argument("file", nargs="?", type=Path, default=DEV_STACK, metavar="FILE", help=f"default: {DEV_STACK}")
    parser.add_argument("--json", action="store_true", help="pools, resources and policy verdicts as JSON")
    parser.add_argument(
        "--policy-config", type=Path, metavar="FILE", help="configuration of the policies, as pulumi up takes it"
    )
    parser.set_defaults(run=lambda given: _run(given.file, given.json, given.policy_config))


def _run(file: Path, as_json: bool, policy_config: Path | None) -> int:
    # Imported by name and only here: the domain imports no Pulumi, and the other commands start fast without it.
    run: Callable[[Path, bool, Path | None], int] = import_module("gpupools.preview.command").run
    return run(file, as_json, policy_config)
