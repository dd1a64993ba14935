"""`gpupools preview [FILE]`: show offline what a stack file would create."""

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
    parser.add_argument("--json", action="store_true", help="print pools, resources and policy verdicts as JSON")
    parser.add_argument("--policy-config", type=Path, metavar="FILE", help="policy configuration, as for pulumi up")
    parser.set_defaults(run=lambda given: _exit_status(given.file, given.json, given.policy_config))


def _exit_status(file: Path, as_json: bool, policy_config: Path | None) -> int:
    # Imported by name: this package imports no Pulumi, and other commands start fast without it.
    run: Callable[[Path, bool, Path | None], int] = import_module("gpupools.preview.command").run
    return run(file, as_json, policy_config)
