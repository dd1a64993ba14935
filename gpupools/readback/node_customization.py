"""What runs on nodes, opens them or decides whom they run as because somebody set it by hand. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, NodeCustomization
from gpupools.readback.inputs import at


class InputRow(NamedTuple):
    """An input that counts as customised wherever it has a value."""

    path: str
    kind: str
    """One of `gpupools.plan.pool_facts.CUSTOMISATIONS`."""
    why: str
    source: str


def customizations_in(inputs: JsonObject, rows: Iterable[InputRow], prefix: str = "") -> Iterator[NodeCustomization]:
    """Yield the rows whose input has a value.

    Args:
        inputs: By wire name.
        rows: A cloud's table.
        prefix: Where the inputs are in their resource.
    """
    for row in rows:
        value = at(inputs, row.path)
        if value not in (None, "", [], {}):
            yield NodeCustomization(row.kind, f"{prefix}{row.path}", row.why, row.source, value is UNKNOWN)
