"""Tables for people: as wide as they are in a pipe, no wider than it is on a terminal."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from gpupools.console.output import tell_lines
from gpupools.console.terminal import columns

_WORD = 24
"""Characters of a word that is not broken; longer ones are addresses, digests and URLs."""

_BESIDE_TITLE = 2
"""Blanks that tabulate keeps beside every title."""


def tell_table(
    rows: Iterable[Sequence[object]], headers: Sequence[str], *, widths: Sequence[int | None] | None = None
) -> None:
    """Print rows as a table that fits what it is printed to."""
    tell_lines(table_text(rows, headers, widths=widths, fit=columns(sys.stdout)))


def table_text(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str],
    *,
    widths: Sequence[int | None] | None = None,
    fit: int | None = None,
) -> str:
    """Lay rows out in columns.

    Args:
        rows: Cells, which may have several lines.
        headers: One for each column.
        widths: The most characters of each column; longer cells are wrapped, and rows ruled off.
        fit: The most characters of a line. Cells are wrapped for it too, and where the columns do not fit at all each
            row becomes a list of its cells. None: any width.
    """
    # Imported here: it costs more than all the rest of `gpupools check`, which prints no table.
    from tabulate import tabulate

    cells = [[str(cell) for cell in row] for row in rows]
    ruled, fitted = widths is not None, None
    if fit is not None:
        fitted = _fitted([list(headers), *cells], widths or [None] * len(headers), _room(fit, len(headers), ruled))
        if fitted is None:
            return "\n\n".join("\n".join(_listed(row, headers, fit)) for row in cells)
        widths = [*fitted]
    return tabulate(
        cells,
        headers=list(headers),
        tablefmt="simple_grid" if ruled else "simple",
        maxcolwidths=list(widths) if widths else None,
        maxheadercolwidths=[each - _BESIDE_TITLE for each in fitted] if fitted else None,
        disable_numparse=True,
    )


def _room(fit: int, count: int, ruled: bool) -> int:
    """Return what a line has left for cells."""
    return fit - (3 * count + 1 if ruled else 2 * (count - 1))


def _fitted(rows: list[list[str]], widths: Sequence[int | None], room: int) -> list[int] | None:
    """Return the widths of columns that fit; None where words would have to be broken for it."""
    found, least = [], []
    for column, most in zip(zip(*rows, strict=True), widths, strict=True):
        lines = [line for cell in column for line in cell.split("\n")]
        words = [word for line in lines for word in line.split()]
        widest = max(map(len, lines))
        title = len(column[0]) + _BESIDE_TITLE
        word = max(map(len, column[0].split()), default=0) + _BESIDE_TITLE
        found.append(max(min(widest, most or widest), title))
        least.append(max(min(found[-1], max(map(len, words), default=1), _WORD), word))
    if sum(least) > room:
        return None
    while sum(found) > room:
        widest = max((each for each in range(len(found)) if found[each] > least[each]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _listed(row: Sequence[str], headers: Sequence[str], fit: int) -> Iterator[str]:
    """Write a row as a list, a line or more for each of its cells."""
    named = max(map(len, headers))
    for header, cell in zip(headers, row, strict=True):
        beside = max(fit - named - 2, 8)
        lines = [part for line in cell.split("\n") for part in wrap(line, beside, break_on_hyphens=False)]
        for index, line in enumerate(lines):
            yield f"{header if index == 0 else '':<{named}}  {line}"
