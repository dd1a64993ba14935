"""Find customized inputs that run code on nodes, expose them or change their identity. Pure."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, NodeCustomization
from gpupools.readback.inputs import at


class InputRow(NamedTuple):
    """An input that counts as a node customization when it has a value."""

    path: str
    kind: str
    """One of `gpupools.plan.pool_facts.CUSTOMISATIONS`."""
    why: str
    source: str


def input_rows(folder: Path, resource: str) -> tuple[InputRow, ...]:
    """Return the rows of a cloud's `node_customization.csv` for a resource."""
    rows = csv_rows(folder / "node_customization.csv")
    return tuple(InputRow(*list(row.values())[1:]) for row in rows if row["resource"] == resource)


def customizations_in(inputs: JsonObject, rows: Iterable[InputRow], prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield a customization for each row of a cloud's table whose input, below the path `prefix`, has a value."""
    for row in rows:
        value = at(inputs, row.path)
        if value not in (None, "", [], {}):
            yield NodeCustomization(row.kind, f"{prefix}{row.path}", row.why, row.source, value is UNKNOWN)
