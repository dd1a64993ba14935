"""The capability matrix of AKS: what each way of installing the GPU software does for each way of sharing."""

from pathlib import Path

from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_software

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)
CAPABILITIES = read_capabilities(_HERE)
DEFAULT_SOFTWARE = read_default_software(_HERE)
"""AKS's driver is there unless it is switched off, and its MIG profiles work only with it."""
