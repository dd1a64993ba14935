"""Properties of an output stream: width and color of a terminal, or plain text for a pipe."""

import os
from typing import TextIO

from gpupools.common.numbers import whole_number

DEFAULT_COLUMNS = 80
"""Columns of a terminal that does not report its width."""
PIPE_COLUMNS = 120
"""Columns of sentences in a pipe, such as the log of a CI job."""


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal; a closed stream is not."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def columns(stream: TextIO) -> int | None:
    """Return the width of the stream's terminal; None if it is not a terminal."""
    if not is_terminal(stream):
        return None
    return columns_from_environment() or _columns_of(stream) or DEFAULT_COLUMNS


def columns_from_environment() -> int | None:
    """Return the value of `COLUMNS`; None if it is not a valid width."""
    text = os.environ.get("COLUMNS", "")
    return whole_number(text, digits=5) or None


def _columns_of(stream: TextIO) -> int | None:
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def shows_colour(stream: TextIO) -> bool:
    """Return whether to print colors: on a color terminal, unless `NO_COLOR` is set and not empty.

    https://no-color.org
    """
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
