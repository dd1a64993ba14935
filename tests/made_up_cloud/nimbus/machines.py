"""The machines of Nimbus with NVIDIA GPUs."""

from pathlib import Path

from gpupools.known.catalogue import Catalogue

INSTANCE_TYPES = Catalogue(Path(__file__).parent)
