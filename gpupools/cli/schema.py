"""`gpupools schema`: print the JSON schema of stack files for editors."""

import argparse
import json
from functools import cache
from pathlib import Path

from gpupools.cli.help_texts import examples
from gpupools.common.json_types import JsonObject
from gpupools.console.output import tell_json

SCHEMA = Path(__file__).parents[1] / "data" / "stack-file.schema.json"
"""Written by `tooling/write_schema.py`."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments (none)."""
    parser.epilog = examples("gpupools schema > stack-file.schema.json")
    parser.set_defaults(run=lambda _: print_schema())


def print_schema() -> int:
    """Print the schema."""
    tell_json(stack_schema())
    return 0


@cache
def stack_schema() -> JsonObject:
    """Return the JSON schema of stack files."""
    found: JsonObject = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found
