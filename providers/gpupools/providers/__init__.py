"""The clouds, one folder each, found on disk: a new folder is a new cloud and nothing else has to change."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from gpupools.planned.cloud import Cloud


class Clouds(Mapping[str, Cloud]):
    """Every cloud by its folder's name; the pure part of a folder is imported when the cloud is first asked for."""

    def __init__(self) -> None:
        self._names = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py")))

    def __getitem__(self, name: str) -> Cloud:
        if name not in self._names:
            raise KeyError(name)
        cloud: Cloud = import_module(f"gpupools.providers.{name}").CLOUD
        return cloud

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def clouds() -> Mapping[str, Cloud]:
    """Return every cloud by name. Never imports an SDK."""
    return Clouds()
