"""The sizes of Azure's virtual machines, by their names."""

from pathlib import Path

from gpupools.catalog.instance_types import Catalogue, InstanceType

INSTANCE_TYPES = Catalogue(Path(__file__).parent)


def find_instance_type(catalogue: Catalogue, name: str) -> InstanceType | None:
    """Look a size up; Azure takes its sizes in any case."""
    return catalogue.get(name) or catalogue.folded.get(name.casefold())


GRID_MODELS = frozenset({"A10", "RTX-PRO-6000"})
"""GPUs that Azure hands to a machine by SR-IOV, so that only NVIDIA's GRID driver drives them; any other fails to
install (Azure/AgentBaker pkg/agent/datamodel/gpu_components.go)."""
