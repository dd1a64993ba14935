"""The capability matrix of AKS: what each way of installing the GPU software does for each way of sharing."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.plan.capability import Capability
from gpupools.plan.cloud_tables import read_capabilities, read_software
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities
from gpupools.spec.models import SHARING_KINDS

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)

# AKS's driver is there unless it is switched off, and its MIG profiles work only with it.
DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(dict.fromkeys(SHARING_KINDS, "device-plugin"))

_CAPABILITIES = read_capabilities(_HERE)

CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        **_CAPABILITIES,
        **dra_capabilities(_CAPABILITIES[DRA_DRIVER, "none"], _CAPABILITIES),
        **hami_capabilities(_CAPABILITIES[HAMI, "none"], _CAPABILITIES),
    }
)
