"""What a stream goes to: a terminal of some width that shows colour, or a pipe, which gets plain text."""

import os
from typing import TextIO

from gpupools.common.numbers import whole_number

USUAL = 80
"""Columns of a terminal that does not say how many it has."""


def is_terminal(stream: TextIO) -> bool:
    """Say whether somebody looks at what is written; a stream that is closed has no reader."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal a stream goes to; None where it goes to none."""
    if not is_terminal(stream):
        return None
    return columns_asked() or _columns_of(stream) or USUAL


def columns_asked() -> int | None:
    """Return what `COLUMNS` asks for; None where it asks for nothing that is a width."""
    text = os.environ.get("COLUMNS", "")
    return whole_number(text, digits=5) or None


def _columns_of(stream: TextIO) -> int | None:
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def shows_colour(stream: TextIO) -> bool:
    """Say whether colours are wanted: by a terminal that has them, of somebody who did not set `NO_COLOR`.

    https://no-color.org: any value but an empty one.
    """
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
