"""Reads the types of inputs that a Pulumi package declares, as data: `tooling/write_inputs.py` writes them."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

Fields = Mapping[str, str]
"""Inputs of a resource or of an object inside → the type of each; the name of a required one ends with `!`.

A type is the name of another, a constant in quotes, or `str`, `bool`, `int`, `float`, `any`, `Asset`, `Archive` or
`Resource`; alternatives are separated by |. A list has `[]` before the type of its items, a map with any keys `*`, and
alternatives after those are in parentheses.
"""


class InputTypes(NamedTuple):
    """What the SDK of one Pulumi package declares."""

    resources: Mapping[str, str]
    """Type token → name of the type of its inputs."""
    outputs: Mapping[str, Collection[str]]
    """Type token → wire names of what it has beside its inputs."""
    types: Mapping[str, Fields | Sequence[Any]]
    """Name → inputs by wire name, or the values of an enum. In a name, what stands before `:` only tells it apart."""


@cache
def read_input_types(file: Path) -> InputTypes:
    """Return the types in a file."""
    return InputTypes(**json.loads(file.read_text(encoding="utf-8")))
