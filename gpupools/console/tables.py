"""Tables: at full width in a pipe, fitted to the width of a terminal."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from gpupools.console.output import tell_lines
from gpupools.console.terminal import columns

_WORD = 25
"""Maximum length of a word that is never broken; longer ones are addresses, digests and URLs."""

_BESIDE_TITLE = 2
"""Spaces that tabulate keeps beside each title."""


def tell_table(
    rows: Iterable[Sequence[object]], headers: Sequence[str], *, widths: Sequence[int | None] | None = None
) -> None:
    """Print rows as a table that fits the terminal."""
    tell_lines(table_text(rows, headers, widths=widths, fit=columns(sys.stdout)))


def table_text(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str],
    *,
    widths: Sequence[int | None] | None = None,
    fit: int | None = None,
) -> str:
    """Return rows as a table.

    Args:
        rows: Cells, which may have several lines.
        headers: Titles of the columns.
        widths: Maximum width of each column; longer cells are wrapped, and rows separated by lines.
        fit: Maximum width of a line, to which cells are wrapped. If the columns do not fit, each row becomes a list.
            None: no limit.
    """
    # Slower to import than everything that `gpupools check` needs, which prints no table.
    from tabulate import tabulate

    cells = [[str(cell) for cell in row] for row in rows]
    ruled, fitted = widths is not None, None
    if fit is not None:
        room = fit - (3 * len(headers) + 1 if ruled else 2 * (len(headers) - 1))
        fitted = _column_widths([list(headers), *cells], widths or [None] * len(headers), room)
        if fitted is None:
            return "\n\n".join("\n".join(_list_lines(row, headers, fit)) for row in cells)
        widths = [*fitted]
    return tabulate(
        cells,
        headers=list(headers),
        tablefmt="simple_grid" if ruled else "simple",
        maxcolwidths=list(widths) if widths else None,
        maxheadercolwidths=[width - _BESIDE_TITLE for width in fitted] if fitted else None,
        disable_numparse=True,
    )


def _column_widths(rows: list[list[str]], widths: Sequence[int | None], room: int) -> list[int] | None:
    """Return column widths that fit; None if words would have to be broken."""
    found, least, shortest = [], [], []
    for column, most in zip(zip(*rows, strict=True), widths, strict=True):
        lines = [line for cell in column for line in cell.split("\n")]
        words = [word for line in lines for word in line.split()]
        widest = max(map(len, lines))
        title = len(column[0]) + _BESIDE_TITLE
        word = max(map(len, column[0].split()), default=0) + _BESIDE_TITLE
        found.append(max(min(widest, most or widest), title))
        longest = min(found[-1], max(map(len, words), default=1))
        least.append(max(longest, word))
        shortest.append(max(min(longest, _WORD), word))
    if sum(least) > room:
        least = shortest
    if sum(least) > room:
        return None
    while sum(found) > room:
        widest = max((place for place in range(len(found)) if found[place] > least[place]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _list_lines(row: Sequence[str], headers: Sequence[str], fit: int) -> Iterator[str]:
    """Yield a row as a list with one or more lines per cell."""
    named = max(map(len, headers))
    for header, cell in zip(headers, row, strict=True):
        beside = max(fit - named - 2, 8)
        lines = [part for line in cell.split("\n") for part in wrap(line, beside, break_on_hyphens=False)]
        for index, line in enumerate(lines):
            yield f"{header if index == 0 else '':<{named}}  {line}"
