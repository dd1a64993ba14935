"""What somebody set by hand that runs on Nimbus nodes. Pure, and never raises."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.planned.pool_facts import Customisation
from gpupools.read.customised import InputRow, customisations

_ROWS = (
    InputRow("startupScript", "start-up-script", "it runs on every node, as root", "https://example.com/start-up"),
)


def overridden(resource: str, inputs: Mapping[str, Any]) -> Iterator[Customisation]:
    """Yield what is set by hand in a node pool."""
    return customisations(inputs, _ROWS)
