"""What somebody set by hand that runs on Nimbus nodes. Pure, and never raises."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.plan.pool_facts import NodeCustomization
from gpupools.readback.node_customization import InputRow, customizations_in

_ROWS = (
    InputRow("startupScript", "start-up-script", "it runs on every node, as root", "https://example.com/start-up"),
)


def customizations(resource: str, inputs: Mapping[str, Any]) -> Iterator[NodeCustomization]:
    """Yield what is set by hand in a node pool."""
    return customizations_in(inputs, _ROWS)
