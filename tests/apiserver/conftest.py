"""The API server tier: Kubernetes' own validation, admission and scheduling of what a plan declares."""

import shutil
from collections.abc import Iterator

import pytest

from tests.apiserver.control_plane import PROGRAMS, ControlPlane
from tests.apiserver.team_cluster import CHARTS, Cluster, lacks, started


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the programs, skip the whole tier in one line: one of its tests says so for all."""
    tier = [item for item in items if item.get_closest_marker("apiserver")]
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not tier or not missing:
        return
    first, *others = tier
    reason = f"API server tier: {', '.join(missing)} not on PATH, so {len(tier)} tests against it are left out"
    first.add_marker(pytest.mark.skip(reason=reason))
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane for all tests of the tier."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session", params=tuple(CHARTS))
def scheduled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a control plane with a scheduler of teams; each test makes it the cluster of a plan."""
    if reason := lacks(request.param):
        pytest.skip(reason)
    with started(tmp_path_factory.mktemp(request.param), request.param) as made:
        yield made
        made.judge()


def only(*schedulers: str) -> pytest.MarkDecorator:
    """Run a test with these schedulers only."""
    return pytest.mark.parametrize("scheduled", schedulers, indirect=True, scope="session")
