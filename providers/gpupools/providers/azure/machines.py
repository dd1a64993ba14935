"""The sizes of Azure's virtual machines, by their names."""

from functools import cached_property
from pathlib import Path

from gpupools.catalog.instance_types import Catalogue, InstanceType


class AzureCatalogue(Catalogue):
    """The sizes, which Azure takes in any case."""

    def find(self, name: str) -> InstanceType | None:
        """Look a size up, in any case."""
        return self.get(name) or self._folded.get(name.casefold())

    @cached_property
    def _folded(self) -> dict[str, InstanceType]:
        return {name.casefold(): row for name, row in self.items()}


INSTANCE_TYPES = AzureCatalogue(Path(__file__).parent)

GRID_MODELS = frozenset({"A10", "RTX-PRO-6000"})
"""GPUs that Azure hands to a machine by SR-IOV, so that only NVIDIA's GRID driver drives them; any other fails to
install (Azure/AgentBaker pkg/agent/datamodel/gpu_components.go)."""
