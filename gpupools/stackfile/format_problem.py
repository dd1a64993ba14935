"""Prints a problem of a file."""

import sys

from gpupools.console.output import Style, tell_parts
from gpupools.console.terminal import columns
from gpupools.stackfile.check import Located


def tell_located(located: Located, *, warning: bool = False) -> None:
    """Print a problem of a file; on a terminal also its line, with a mark below the value."""
    width = columns(sys.stderr)
    place = located.place
    if width is not None and located.span is not None and located.problem.path:
        place += f":{located.span.column}"
    said: list[tuple[object, Style | None]] = [("warning", Style.WARNING), (": ", None)] if warning else []
    tell_parts((place, Style.PLACE), (": ", None), *said, (located.problem, None), error=True)
    if width is None or located.span is None or not located.source:
        return
    number = f"{located.span.line} | "
    room = max(width - len(number) - 1, 1)
    # A line that is wider than the terminal is cut around the value.
    first = max(0, min(located.span.column - 1 - room // 3, len(located.source) - room))
    shown = located.source[first : first + room].replace("\t", " ")
    mark = "^" * max(min(located.span.end, first + room + 1) - located.span.column, 1)
    tell_parts((number, Style.FAINT), (shown, None), error=True)
    below = " " * (len(number) - 2) + "| " + " " * (located.span.column - 1 - first)
    tell_parts((below, Style.FAINT), (mark, Style.WARNING if warning else Style.BAD), error=True)
