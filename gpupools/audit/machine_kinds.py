"""The Kubernetes objects of Cluster API that describe machines of one cloud: `machine_kinds.csv`.

Sources, as repository and path: kubernetes-sigs/cluster-api-provider-aws, -azure and -gcp, api and exp/api;
kubernetes-sigs/cluster-api api/core/v1beta2.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect


class MachineKind(NamedTuple):
    """Paths of the fields of a kind, below `spec` and, if set, `below`; alternatives are separated by |."""

    kind: str
    cloud: str
    machine: str
    below: str
    taints: str
    """Empty where the bootstrap configuration has them."""
    effect: str
    """How the provider spells NoSchedule, if not as Kubernetes."""
    labels: str
    least: str
    most: str
    accelerators: str
    """List of `{type, count}` beside the machine type, as Google Cloud has it."""
    several: str
    """Path of a list whose items name machines, and the path in an item."""
    image: str
    image_pattern: str
    """Images for machines with GPUs."""
    open: str
    """Key that opens nodes, for the control `remote-access` or `public-address`."""
    control: str
    source: str

    @property
    def effects(self) -> Mapping[str, Effect]:
        """Kubernetes' effects by their names in this API."""
        return _DASHED if self.effect else KUBERNETES_EFFECTS


# kubernetes-sigs/cluster-api-provider-aws exp/api/v1beta2/types.go, `TaintEffect`
_DASHED: Mapping[str, Effect] = {
    "no-schedule": Effect.NO_SCHEDULE,
    "no-execute": Effect.NO_EXECUTE,
    "prefer-no-schedule": Effect.PREFER_NO_SCHEDULE,
}


@lru_cache
def machine_kinds() -> Mapping[str, MachineKind]:
    """Return the table by kind."""
    rows = csv_rows(Path(__file__).with_name("machine_kinds.csv"))
    return {row["kind"]: MachineKind(*row.values()) for row in rows}
