"""The oldest version of each piece of GPU software that has every published security fix, as data.

A new bulletin is a new row in `data/version_floors.csv`. The rows are NVIDIA's own "updated version" columns; bulletin
5857 lists DCGM Exporter 4.8.2 as affected and as fixed, so its row is the next release.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows

NEWEST_BULLETIN = "5861 of 2026-09-30"
"""The newest bulletin when `data/version_floors.csv` was last compared with the list (2026-11-26):
https://github.com/NVIDIA/product-security/blob/main/2026/README.md"""


class Floor(NamedTuple):
    """One row: the first fixed version of a component, or of one branch of it."""

    component: str
    branch: str
    """First number of the versions it is for, e.g. `580` of a driver; empty for every version."""
    floor: str
    bulletin: str
    """Number of the bulletin at https://github.com/NVIDIA/product-security."""
    cves: str
    """Separated by spaces."""
    source: str
    checked: str
    """ISO date on which the row was compared with its source."""


@cache
def version_floors() -> Mapping[str, tuple[Floor, ...]]:
    """Return the rows by component, in the file's order."""
    found: dict[str, list[Floor]] = {}
    for row in data_rows("version_floors.csv"):
        found.setdefault(row["component"], []).append(Floor(**row))
    return MappingProxyType({component: tuple(rows) for component, rows in found.items()})


_VERSION = re.compile(r"v?(?P<numbers>\d{1,9}(?:\.\d{1,9}){0,3})(?P<rest>[-+.].*)?", re.DOTALL)
_UNFINISHED = r"(?i)[-.](?:alpha|beta|dev|pre|rc)"


def numbers(version: str) -> tuple[int, ...] | None:
    """Read the leading numbers of a version or image tag: `v1.20.0-ubuntu22.04` is (1, 20, 0); None without any."""
    match = _VERSION.fullmatch(version)
    return None if match is None else tuple(int(part) for part in match["numbers"].split("."))


def _exporter_part(version: str) -> str:
    # Tags of DCGM Exporter start with the version of DCGM: 4.6.0-4.8.3-distroless.
    match = re.match(r"v?\d+(?:\.\d+)+-(\d+(?:\.\d+)+.*)", version, re.DOTALL)
    return match[1] if match else version


def below_floor(component: str, version: str) -> Floor | None:
    """Return the row that a version is too old for; None when it is new enough or says no version (a digest).

    A branch older than every fixed one gets no fix, so the newest branch's row is returned for it; so does a branch
    between two fixed ones. A pre-release of the floor itself counts as older.

    Args:
        component: A component of the data, e.g. `container-toolkit`; one that has no row is never too old.
        version: As a chart or an image tag writes it, with or without `v` and suffixes.
    """
    written = _exporter_part(version) if component == "dcgm-exporter" else version
    rows, found = version_floors().get(component, ()), numbers(written)
    if found is None or not rows:
        return None
    branches = {row.branch: row for row in rows}
    row = branches.get("") or branches.get(str(found[0]))
    if row is None:
        newest = max(rows, key=lambda candidate: int(candidate.branch))
        return newest if found[0] < int(newest.branch) else None
    floor = numbers(row.floor) or ()
    width = max(len(found), len(floor))
    here, least = (part + (0,) * (width - len(part)) for part in (found, floor))
    return row if here < least or (here == least and re.search(_UNFINISHED, written)) else None
