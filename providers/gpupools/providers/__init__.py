"""The clouds, one folder each: every one of them is an entry of `_CLOUDS`."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from gpupools.plan.cloud import Cloud

_CLOUDS = ("aws", "azure", "gcp")


class Clouds(Mapping[str, Cloud]):
    """Every cloud by its name; the pure part of a folder is imported when the cloud is first asked for."""

    def __getitem__(self, name: str) -> Cloud:
        if name not in _CLOUDS:
            raise KeyError(name)
        cloud: Cloud = import_module(f"{__name__}.{name}").CLOUD
        return cloud

    def __contains__(self, name: object) -> bool:
        return name in _CLOUDS

    def __iter__(self) -> Iterator[str]:
        return iter(_CLOUDS)

    def __len__(self) -> int:
        return len(_CLOUDS)


@cache
def clouds() -> Mapping[str, Cloud]:
    """Return every cloud by name. Never imports an SDK."""
    return Clouds()
