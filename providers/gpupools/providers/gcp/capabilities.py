"""What a GKE node pool can do for each way of installing the software and each way of sharing."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.plan.capability import Capability
from gpupools.plan.cloud_tables import read_capabilities, read_software
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)

INSTALLER_OWNER = "Google's driver installer DaemonSet"

DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(
    {
        "none": "cloud-managed",
        "time-slicing": "cloud-managed",
        "mps": "cloud-managed",
        "fractions": "gpu-operator",
        "mig-single": "cloud-managed",
        "mig-mixed": "gpu-operator",
        "mig-single+time-slicing": "cloud-managed",
        "mig-mixed+time-slicing": "gpu-operator",
        "mig-single+mps": "cloud-managed",
        "mig-mixed+mps": "cloud-managed",
    }
)
"""The software for each kind of sharing when the pool names none: GKE's own wherever it can do it."""

_CAPABILITIES = read_capabilities(_HERE)

CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        **_CAPABILITIES,
        **dra_capabilities(_CAPABILITIES[DRA_DRIVER, "none"], _CAPABILITIES),
        **hami_capabilities(_CAPABILITIES[HAMI, "none"], _CAPABILITIES),
    }
)
