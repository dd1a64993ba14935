"""The clouds, one folder each: every one of them is an entry of `_CLOUDS`."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from gpupools.plan.cloud import Cloud


def _aws() -> Cloud:
    from gpupools.providers.aws import CLOUD

    return CLOUD


def _azure() -> Cloud:
    from gpupools.providers.azure import CLOUD

    return CLOUD


def _gcp() -> Cloud:
    from gpupools.providers.gcp import CLOUD

    return CLOUD


_CLOUDS: Mapping[str, Callable[[], Cloud]] = {"aws": _aws, "azure": _azure, "gcp": _gcp}


class Clouds(Mapping[str, Cloud]):
    """Every cloud by its name; the pure part of a folder is imported when the cloud is first asked for."""

    def __getitem__(self, name: str) -> Cloud:
        return _CLOUDS[name]()

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
