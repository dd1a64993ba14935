"""The command that fetches the pinned charts, with the real Helm and a repository on this machine."""

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfile

import pytest

from gpupools.software.charts import Chart, charts
from gpupools.software.images import Digest
from tests.charts.rendering import archive
from tooling import pull_charts

pytestmark = pytest.mark.charts

CHART = charts()["nvidia-device-plugin"]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a repository of one packaged chart."""
    folder = tmp_path_factory.mktemp("repository")
    copyfile(archive(CHART.chart), folder / archive(CHART.chart).name)
    subprocess.run(["helm", "repo", "index", str(folder)], check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def chart(repository: str) -> Chart:
    return CHART._replace(repository=repository)


def stated(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    monkeypatch.setattr(pull_charts, "digest_of", lambda _: Digest(f"sha256:{digest}", "https://example.com"))


def test_a_pinned_chart_is_pulled_under_the_name_that_the_tier_looks_for(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated(monkeypatch, hashlib.sha256(archive(chart.chart).read_bytes()).hexdigest())

    assert pull_charts.pull(chart, tmp_path) == ""
    assert [each.name for each in tmp_path.iterdir()] == [archive(chart.chart).name]
    assert pull_charts.pull(chart._replace(repository="http://127.0.0.1:9"), tmp_path) == ""  # it is there


def test_a_package_that_is_not_what_its_publisher_states_is_thrown_away(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated(monkeypatch, "0a" * 32)

    assert "it is not sha256:0a0a" in pull_charts.pull(chart, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_chart_that_is_not_to_be_had_is_said_with_helms_reason(chart: Chart, tmp_path: Path) -> None:
    assert '"nvidia-device-plugin" version "9.9.9" not found' in pull_charts.pull(
        chart._replace(version="9.9.9"), tmp_path
    )
