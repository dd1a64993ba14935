"""What words mean that this project and NVIDIA use, and which way of sharing suits which need, as data."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows

_DATA = Path(__file__).parents[1] / "data"


class Word(NamedTuple):
    """One row of `data/words.csv`."""

    word: str
    also: str
    """Other words for it and of its kind, as somebody would ask."""
    what: str
    source: str
    page: str
    """Where this project's documentation has more."""


class Need(NamedTuple):
    """One row of `data/sharing_needs.csv`: what each way of sharing does about a need."""

    need: str
    none: str
    time_slicing: str
    mps: str
    fractions: str
    mig: str
    source: str


NEEDS_HEADERS = ("need", "none", "time-slicing", "mps", "fractions", "mig")


@cache
def words() -> tuple[Word, ...]:
    """Return the glossary in the file's order."""
    return tuple(Word(**row) for row in csv_rows(_DATA / "words.csv"))


@cache
def sharing_needs() -> tuple[Need, ...]:
    """Return the decision table in the file's order."""
    return tuple(Need(**row) for row in csv_rows(_DATA / "sharing_needs.csv"))
