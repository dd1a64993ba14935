"""The charts tier: what the pinned charts become with our values, rendered by the real Helm."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.charts.clusters import CASES, mirrored, planned
from tests.charts.rendering import FOLDER, INSTALLABLE, archive, missing, rendered


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs Helm or a chart that is not there, in one line: one of its tests says so for all."""
    tier = [item for item in items if item.get_closest_marker("charts")]
    lacks = missing()
    if tier and not lacks:
        absent = {name for name in INSTALLABLE if not archive(name).is_file()}
        tier = [item for item in tier if absent & charts_of(item)]
        lacks = f"{FOLDER} has no {', '.join(archive(name).name for name in sorted(absent))}"
    if not tier:
        return
    first, *others = tier
    first.add_marker(pytest.mark.skip(reason=f"charts tier: {lacks}, so {len(tier)} tests of them are left out"))
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


def charts_of(item: pytest.Item) -> set[str]:
    """Return the charts that a test renders, by its parameters."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    releases = [given["release"]] if "release" in given else []
    if "case" in given:
        releases += [release for each in planned(given["case"]) for release in each.runtime.releases]
    return {release.chart for release in releases} | ({given["chart"]} if "chart" in given else set())


@pytest.fixture(scope="session", autouse=True)
def _rendered_ahead(request: pytest.FixtureRequest) -> None:
    """Render every release that is asked for side by side; the tests then find it done."""
    items = [item for item in request.session.items if hasattr(item, "callspec") and "case" in item.callspec.params]
    asked = {item.callspec.params["case"] for item in items}
    closed = {item.callspec.params["case"] for item in items if item.path.name == "test_mirror.py"}
    clusters = [each for case in CASES if case in asked for each in planned(case)]
    clusters += [each for case in CASES if case in closed for each in mirrored(case)]
    releases = [each for cluster in clusters for each in cluster.runtime.releases if archive(each.chart).is_file()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(rendered, releases))
