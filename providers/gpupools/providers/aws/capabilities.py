"""The capability matrix of EKS: who installs the GPU software, and what each way of sharing gets from it.

EKS itself has no field for sharing. What decides is the node image: Bottlerocket carries the device plugin and a MIG
manager as host services that read their settings from the launch template's user data; Amazon Linux 2023 carries
driver and container toolkit only.
"""

from pathlib import Path

from gpupools.plan.cloud_tables import read_capabilities, read_default_software, read_software

_HERE = Path(__file__).parent
SOFTWARE = read_software(_HERE)
CAPABILITIES = read_capabilities(_HERE)
DEFAULT_SOFTWARE = read_default_software(_HERE)
"""The way that needs nothing in the cluster where there is one, else the one that can do it at all.

Time-sliced MIG stays with the GPU Operator, for which NVIDIA documents it; of Bottlerocket its makers and AWS's page
say different things (`capabilities.csv`).
"""
