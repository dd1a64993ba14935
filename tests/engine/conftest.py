"""The engine tier: the real CLI against providers that stand in for the clouds' own."""

import shutil

import pytest

from tests.engine.cli import Engine


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the CLI, skip the whole tier in one line: one of its tests says so for all, the others are left out."""
    tier = [item for item in items if item.get_closest_marker("engine")]
    if not tier or shutil.which("pulumi") is not None:
        return
    first, *others = tier
    reason = f"engine tier: `pulumi` is not on PATH, so {len(tier)} tests against the real engine are left out"
    first.add_marker(pytest.mark.skip(reason=reason))
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Lay out a home, a backend and a copy of the repository; one for each module, so that nothing is shared."""
    found = Engine(tmp_path_factory.mktemp("engine"))
    found.lay_out()
    return found
