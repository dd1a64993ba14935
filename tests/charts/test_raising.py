"""The command that tries a chart in another version, with packages that differ from the pinned one in one thing."""

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.charts.rendering import archive

pytestmark = pytest.mark.charts

ROOT = Path(__file__).resolve().parents[2]
CHART = "aws-efa-k8s-device-plugin"
OF_IT = ("--", "-k", "EFA or pinned or aws-efa")
"""The tests of the tier that have to do with it; the whole takes minutes."""


class Tried(NamedTuple):
    """A run of the command in a copy of this checkout."""

    code: int
    output: str
    data: Path

    def rows(self, table: str) -> list[str]:
        return (self.data / f"{table}.csv").read_text(encoding="utf-8").splitlines()


def doctored(folder: Path, version: str, chart: str = CHART, **changes: tuple[str, str]) -> Path:
    """Package a pinned chart under another version, with one text for another in some of its files."""
    target = folder / f"{chart}-{version}.tgz"
    with tarfile.open(archive(chart)) as pinned, tarfile.open(target, "w:gz") as made:
        for member in pinned.getmembers():
            opened = pinned.extractfile(member)
            text = opened.read().decode() if opened else ""
            key = Path(member.name).stem.replace("-", "_")
            if member.name == f"{chart}/Chart.yaml":
                text = re.sub(r"(?m)^version: .*$", f"version: {version}", text)
                text = re.sub(r"(?m)^appVersion: .*$", f"appVersion: {version}", text) if chart != CHART else text
            if key in changes:
                assert changes[key][0] in text
                text = text.replace(*changes[key])
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))
    return target


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy this checkout, so that what the command writes is written there."""
    tree = tmp_path_factory.mktemp("raising") / "checkout"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    return tree


def tried(checkout: Path, package: Path, *arguments: str, judges: tuple[str, ...] = OF_IT) -> Tried:
    command = [sys.executable, "tooling/raise_chart.py", str(package), *arguments, *judges]
    roots = os.pathsep.join(str(checkout / each) for each in ("", "components", "policies", "preview", "providers"))
    environment = {**os.environ, "PYTHONPATH": roots}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    return Tried(done.returncode, done.stdout + done.stderr, checkout / "gpupools" / "data")


def test_a_version_with_which_everything_holds_is_shown_and_written(checkout: Path, tmp_path: Path) -> None:
    package = doctored(tmp_path, "v0.5.99", daemonset=("system-node-critical", "system-cluster-critical"))
    run = tried(checkout, package, "--write")

    assert run.code == 0, run.output
    changed = 'spec.template.spec.priorityClassName "system-node-critical" → "system-cluster-critical" (in '
    assert f"DaemonSet aws-efa-k8s-device-plugin: {changed}" in run.output
    assert "to pods that run:\n  daemons: the EFA device plugin restarts" in run.output
    assert "v0.5.99: all checks pass; written" in run.output
    assert [row for row in run.rows("charts") if row.startswith(f"{CHART},v0.5.99,")]
    assert [row for row in run.rows("chart_versions") if row.startswith(f"{CHART},v0.5.30,")]


def test_a_version_that_no_longer_reads_a_value_of_ours_is_refused(checkout: Path, tmp_path: Path) -> None:
    package = doctored(tmp_path, "v0.5.98", daemonset=(".Values.tolerations", ".Values.podTolerations"))
    before = {each.name: each.read_bytes() for each in (checkout / "gpupools" / "data").glob("*.csv")}
    run = tried(checkout, package, "--write")

    assert run.code == 1, run.output
    assert "goes (in " in run.output
    assert "test_every_pod_lands_on_the_pools_its_release_is_for_and_on_no_other" in run.output
    assert "test_every_value_sent_changes_what_is_rendered[aws-efa-k8s-device-plugin]" in run.output
    assert "v0.5.98: a check fails; nothing was written" in run.output
    assert {each.name: each.read_bytes() for each in (checkout / "gpupools" / "data").glob("*.csv")} == before


def test_a_version_whose_values_have_no_such_path_is_refused(checkout: Path, tmp_path: Path) -> None:
    package = doctored(tmp_path, "v0.5.97", values=("supportedInstanceLabels:", "supportedLabels:"))
    run = tried(checkout, package)

    assert run.code == 1, run.output
    assert "chart aws-efa-k8s-device-plugin v0.5.97 reads no supportedInstanceLabels.values" in run.output


def test_the_images_of_another_version_are_known_with_it(checkout: Path, tmp_path: Path) -> None:
    package = doctored(tmp_path, "0.20.99", "nvidia-device-plugin")
    judges = ("--", "-k", "listed_images and Arm or a_version or images_of_another")
    found = tried(checkout, package, "--write", judges=judges)
    (row,) = (line for line in found.rows("chart_images") if line.startswith("nvidia-device-plugin,"))

    assert found.code == 0, found.output
    assert ",nvcr.io/nvidia/k8s-device-plugin,,v0.20.99," in row
    assert "tag v0.20.99" in row
