"""Keys by which other tools know what a stack file says in its own words, as data: `data/other_keys.csv`."""

from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import close


class OtherKey(NamedTuple):
    """One row."""

    key: str
    """Of the other tool, in the spelling of Terraform; `machineType` and `machine-type` mean the same.

    With `=value`, the row is for this value only, before rows without one.
    """
    in_place: str
    """The key that a map has which takes `write`; of the same word another map may make something else."""
    write: str
    used_by: str
    """A product, or `common` for a word that has no one source."""
    source: str
    checked: str
    """ISO date on which the row was compared with its source; empty without one."""


@cache
def other_keys() -> tuple[OtherKey, ...]:
    """Return the rows in the file's order."""
    return tuple(OtherKey(**row) for row in data_rows("other_keys.csv"))


def meant(key: object, known: Collection[str]) -> str | None:
    """Say which key of a map somebody meant; None where none, or more than one, comes near.

    Args:
        key: As written.
        known: The keys that its map takes.
    """
    plain = _normalized_key(str(key))
    spelt = next((other_key for other_key in known if _normalized_key(other_key) == plain), None)
    if spelt is not None:
        return spelt
    row = _row(plain, known)
    if row is not None:
        return row.in_place
    near = close(key, known)
    return near[0] if len(near) == 1 else None


def known_elsewhere(key: str, known: Collection[str], value: object = None) -> str:
    """Say what to write for a key of another tool, or of another spelling; empty when nothing is known of it.

    Args:
        key: As written.
        known: The keys that its map takes.
        value: What is written under it.
    """
    plain = _normalized_key(key)
    row = _row(_normalized_key(f"{key}={value}"), known) if isinstance(value, str) else None
    spelt = next((other_key for other_key in known if row is None and _normalized_key(other_key) == plain), None)
    if spelt is not None:
        return "" if spelt == key else f"write {spelt}"
    row = row or _row(plain, known)
    return f"write {row.write}" if row is not None else ""


def _row(plain: str, known: Collection[str]) -> OtherKey | None:
    return next((row for row in other_keys() if row.in_place in known and _normalized_key(row.key) == plain), None)


def _normalized_key(key: str) -> str:
    return key[:60].replace("_", "").replace("-", "").casefold()
