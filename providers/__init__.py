"""The clouds, one folder each, found on disk: a new folder is a new cloud and nothing else has to change."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from gpupools.cloud import Cloud


@cache
def clouds() -> Mapping[str, Cloud]:
    """Return every cloud by name. Imports the pure part of each folder, never an SDK."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))
    return MappingProxyType({name: import_module(f"providers.{name}").CLOUD for name in folders})
