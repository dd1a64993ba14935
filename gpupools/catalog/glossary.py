"""What words mean that this project and NVIDIA use, and which way of sharing suits which need, as data."""

from functools import cache
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows


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
    return tuple(Word(**row) for row in data_rows("words.csv"))


@cache
def sharing_needs() -> tuple[Need, ...]:
    """Return the decision table in the file's order."""
    return tuple(Need(**row) for row in data_rows("sharing_needs.csv"))
