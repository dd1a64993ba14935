"""The machines of Compute Engine: the catalogue, and N1 machines, whose GPUs are chosen apart from the machine.

`instance_types.csv` names the source of each machine. What its column `kubernetes` says of GKE versions is from
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus for G4, from GKE's release notes for A3 High, and from
https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute for A3 Ultra, A4 and A4X.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from gpupools.catalog.instance_types import Catalogue, InstanceType

# GiB per vCPU and sizes of the predefined N1 machines,
# https://docs.cloud.google.com/compute/docs/general-purpose-machines#n1_machines.
_N1_FAMILIES = {
    "standard": (3.75, (1, 2, 4, 8, 16, 32, 64, 96)),
    "highmem": (6.5, (2, 4, 8, 16, 32, 64, 96)),
    "highcpu": (0.9, (2, 4, 8, 16, 32, 64, 96)),
}
N1_MACHINES: Mapping[str, tuple[int, float]] = MappingProxyType(
    {
        f"n1-{family}-{vcpus}": (vcpus, round(vcpus * ratio, 2))
        for family, (ratio, sizes) in _N1_FAMILIES.items()
        for vcpus in sizes
    }
)
"""vCPUs and memory (GiB) of the predefined N1 machines."""

N1_MOST_VCPUS: Mapping[str, Mapping[int, int]] = MappingProxyType(
    {
        "nvidia-tesla-p4": {1: 24, 2: 48, 4: 96},
        "nvidia-tesla-p100": {1: 16, 2: 32, 4: 96},  # 64 in us-east1-c, europe-west1-b and europe-west1-d
        "nvidia-tesla-v100": {1: 12, 2: 24, 4: 48, 8: 96},
        "nvidia-tesla-t4": {1: 48, 2: 48, 4: 96},
    }
)
"""Most vCPUs of an N1 machine by accelerator type and count; https://docs.cloud.google.com/compute/docs/gpus#n1-gpus.

The page's memory limits follow: no predefined machine within the vCPU limit is above them.
"""

_COMPOSED = r"(?P<machine>n1-[a-z]+-\d+)\+(?P<accelerators>[a-z0-9-]+:\d+)"


class GceCatalogue(Catalogue):
    """The machines of Compute Engine; those without their series' Local SSD have to be named.

    GKE treats them the same way: its cluster autoscaler takes them on explicit request only
    (Go module k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/machinetypes).
    """

    def with_gpus(self, model: str, gpus: Fraction) -> tuple[InstanceType, ...]:
        """Return the machines with this many GPUs of this model, smallest first, without the `-nolssd` types."""
        return tuple(row for row in super().with_gpus(model, gpus) if not row.name.endswith("-nolssd"))

    def find(self, name: str) -> InstanceType | None:
        """Look up a machine type, `n1+<accelerator type>:<count>`, or `<N1 machine>+<accelerator type>:<count>`.

        The last form gives the row of the accelerators with that machine's vCPUs and memory.
        """
        row = self.get(name)
        match = re.fullmatch(_COMPOSED, name)
        if row is not None or match is None:
            return row
        row, machine = self.get(f"n1+{match['accelerators']}"), match["machine"]
        if row is None or machine not in N1_MACHINES:
            return None
        if row.extra["machine_type"] == machine:
            return row
        vcpus, memory_gib = N1_MACHINES[machine]
        extra = MappingProxyType({**row.extra, "machine_type": machine})
        return row._replace(name=name, vcpus=vcpus, memory_gib=memory_gib, extra=extra)


INSTANCE_TYPES = GceCatalogue(Path(__file__).parent)
"""Every machine type with NVIDIA GPUs that can back a GKE node."""


def n1_most_vcpus(instance: InstanceType) -> int | None:
    """Return the most vCPUs that the accelerators of an N1 machine allow; None for any other machine."""
    if not instance.extra["machine_type"].startswith("n1-"):
        return None
    return N1_MOST_VCPUS.get(instance.extra["accelerator_type"], {}).get(instance.devices)


_BOOT_DISKS = {  # by the beginning of the machine type
    ("a3-ultragpu-", "a4-", "a4x-", "g4-"): ("hyperdisk-balanced",),
    ("a3-",): ("pd-balanced", "pd-ssd", "hyperdisk-balanced"),
    ("g2-",): ("pd-balanced", "pd-ssd"),
    ("a2-", "n1-"): ("pd-balanced", "pd-ssd", "pd-standard"),
}
"""https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines and
https://docs.cloud.google.com/compute/docs/disks/persistent-disks; the first row counts."""


def boot_disk_types(machine: str) -> tuple[str, ...]:
    """Return the disk types a machine type can boot from, the usual one first."""
    return next(kinds for names, kinds in _BOOT_DISKS.items() if machine.startswith(names))
