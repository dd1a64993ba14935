"""Tables that are CSV files with a line of titles."""

import csv
from pathlib import Path


def read_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file in its order, each by the titles of the first line."""
    with file.open(newline="", encoding="utf-8") as text:
        titles, *rows = csv.reader(text)
    return [dict(zip(titles, row, strict=True)) for row in rows]
