"""Tables for people."""

from collections.abc import Iterable, Sequence


def table_text(
    rows: Iterable[Sequence[object]], headers: Sequence[str], *, widths: Sequence[int | None] | None = None
) -> str:
    """Lay rows out in columns; with `widths`, long cells are wrapped and rows ruled off."""
    # Imported here: it costs more than all the rest of `gpupools check`, which prints no table.
    from tabulate import tabulate

    return tabulate(
        [list(row) for row in rows],
        headers=list(headers),
        tablefmt="simple_grid" if widths else "simple",
        maxcolwidths=list(widths) if widths else None,
        disable_numparse=True,
    )
