"""Read tables that are CSV files with a header line."""

import csv
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def csv_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file in order, each as a map from column name to value."""
    with file.open(newline="", encoding="utf-8") as opened:
        names, *rows = csv.reader(opened)
    return [dict(zip(names, row, strict=True)) for row in rows]


def data_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in `gpupools/data`."""
    return csv_rows(DATA / name)
