"""Reads the tables that are kept as CSV files."""

import csv
from pathlib import Path


def csv_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table, each by its column names."""
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))
