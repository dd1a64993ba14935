"""What runs on nodes, opens them or decides whom they run as because somebody set it by hand. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gpupools.planned.pool_facts import UNKNOWN, Customisation
from gpupools.read.inputs import at


class InputRow(NamedTuple):
    """An input that counts as customised wherever it has a value."""

    path: str
    kind: str
    """One of `gpupools.planned.pool_facts.CUSTOMISATIONS`."""
    why: str
    source: str


def customisations(inputs: Mapping[str, Any], rows: Iterable[InputRow], prefix: str = "") -> Iterator[Customisation]:
    """Yield the rows whose input has a value.

    Args:
        inputs: By wire name.
        rows: A cloud's table.
        prefix: Where the inputs are in their resource.
    """
    for row in rows:
        value = at(inputs, row.path)
        if value not in (None, "", [], {}):
            yield Customisation(row.kind, f"{prefix}{row.path}", row.why, row.source, value is UNKNOWN)
