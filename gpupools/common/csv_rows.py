"""Read tables that are CSV files with a header line."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


@cache
def csv_rows(file: Path) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a CSV file in order, each as a map from column name to value; every file is read once."""
    with file.open(newline="", encoding="utf-8") as opened:
        names, *rows = csv.reader(opened)
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def data_rows(name: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a table in `gpupools/data`."""
    return csv_rows(DATA / name)


def has_text(text: str, pattern: str) -> bool:
    """Return whether a text has the parts of a pattern, with any text at `…`, in upper or lower case."""
    rest = text.casefold()
    for part in pattern.casefold().split("…"):
        if part not in rest:
            return False
        rest = rest[rest.index(part) + len(part) :]
    return True
