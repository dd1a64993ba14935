"""Serve the components to Pulumi programs in any language."""

import sys

from pulumi.provider import main, server

from gpupools.components import declared_components
from gpupools.components.host import Components, Servicer


def serve() -> None:
    """Serve until the engine ends the process."""
    declared_components.hosted = True
    vars(server)["ProviderServicer"] = Servicer  # main() has no parameter for it
    main(Components(), sys.argv[1:])
