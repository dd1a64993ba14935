"""What a piece of software in the cluster needs beside it, as data: `data/requirements.csv`, and what a cloud needs."""

from functools import cache
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows

NEWEST_KUBERNETES = "1.37"
"""The newest release when `data/requirements.csv` was last compared with its sources (2026-11-26):
https://kubernetes.io/blog/2026/08/26/kubernetes-v1-37-release/"""


class Requirement(NamedTuple):
    """One row."""

    of: str
    """A chart, a kind of Kubernetes, or the support of a cloud."""
    needs: str
    """`kubernetes` or `driver`."""
    at_least: str
    """Version of Kubernetes, or branch of the driver."""
    what: str
    """Of what, for people."""
    source: str
    checked: str
    """ISO date on which the row was compared with its source."""

    def fails(self, version: str) -> bool:
        """Say whether a version is too old; one without the last number counts as the newest of its kind."""
        here, least = ([int(part) for part in text.split(".")] for text in (version, self.at_least))
        return here < least[: len(here)]


def is_newer_than_known(kubernetes: str) -> bool:
    """Return whether a version of Kubernetes is newer than all that the data covers."""
    here, newest = ([int(part) for part in text.split(".")[:2]] for text in (kubernetes, NEWEST_KUBERNETES))
    return here > newest


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return the rows in the file's order."""
    return tuple(Requirement(**row) for row in data_rows("requirements.csv"))


def requirement(of: str, needs: str) -> Requirement:
    """Return the row of these two.

    Raises:
        StopIteration: The data has no such row.
    """
    return next(row for row in requirements() if (row.of, row.needs) == (of, needs))
