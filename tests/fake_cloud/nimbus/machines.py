"""The machines of Nimbus with NVIDIA GPUs."""

from pathlib import Path

from gpupools.catalog.instance_types import Catalogue

INSTANCE_TYPES = Catalogue(Path(__file__).parent)
