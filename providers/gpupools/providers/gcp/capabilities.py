"""What a GKE node pool can do for each way of installing the software and each way of sharing."""

from pathlib import Path

from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_software

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)
CAPABILITIES = read_capabilities(_HERE)
DEFAULT_SOFTWARE = read_default_software(_HERE)
"""The software for each kind of sharing when the pool names none: GKE's own wherever it can do it."""
