"""The capability matrix of EKS: who installs the GPU software, and what each way of sharing gets from it.

EKS itself has no field for sharing. What decides is the node image: Bottlerocket carries the device plugin and a MIG
manager as host services that read their settings from the launch template's user data; Amazon Linux 2023 carries
driver and container toolkit only.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gpupools.plan.capability import Capability
from gpupools.plan.cloud_tables import read_capabilities, read_software
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)

DEFAULT_SOFTWARE: Mapping[str, str] = MappingProxyType(
    {
        "none": "cloud-managed",
        "time-slicing": "cloud-managed",
        "mps": "cloud-managed",
        "fractions": "device-plugin",
        "mig-single": "cloud-managed",
        "mig-mixed": "gpu-operator",
        "mig-single+time-slicing": "gpu-operator",
        "mig-mixed+time-slicing": "gpu-operator",
        "mig-single+mps": "gpu-operator",
        "mig-mixed+mps": "gpu-operator",
    }
)
"""The way that needs nothing in the cluster where there is one, else the one that can do it at all.

Time-sliced MIG stays with the GPU Operator, for which NVIDIA documents it; of Bottlerocket its makers and AWS's page
say different things (`capabilities.csv`).
"""

_CAPABILITIES = read_capabilities(_HERE)

CAPABILITIES: Mapping[tuple[str, str], Capability] = MappingProxyType(
    {
        **_CAPABILITIES,
        **dra_capabilities(_CAPABILITIES[DRA_DRIVER, "none"], _CAPABILITIES),
        **hami_capabilities(_CAPABILITIES[HAMI, "none"], _CAPABILITIES),
    }
)
