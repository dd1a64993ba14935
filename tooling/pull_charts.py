"""Download the pinned charts for `tests/charts` from their publishers.

Usage: make charts INTO=FOLDER, or python tooling/pull_charts.py FOLDER

Helm pulls each chart into the folder under the name that the tests expect; existing files are kept. Packages with a
published digest (`gpupools/data/digests.csv`) are verified. Then run the tests with GPUPOOLS_CHARTS=FOLDER.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from gpupools.software.charts import Chart, charts
from gpupools.software.images import digest_of

INSIDE = "node-feature-discovery"
"""In the package of the operator's chart, and never installed by itself."""


def main() -> int:
    """Pull what is missing; return 1 when a chart could not be had or is not what its publisher says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    wrong = [problem for chart in charts().values() if chart.chart != INSIDE and (problem := pull(chart, folder))]
    for problem in wrong:
        print(problem, file=sys.stderr)
    if not wrong:
        print(f"export GPUPOOLS_CHARTS={folder.resolve()}")
    return bool(wrong)


def pull(chart: Chart, folder: Path) -> str:
    """Pull one chart unless it is there; return what is wrong with it, empty for nothing."""
    file = folder / f"{chart.chart}-{chart.version}.tgz"
    if file.is_file():
        return ""
    is_oci = chart.repository.startswith("oci://")
    source = [chart.repository] if is_oci else [chart.chart, "--repo", chart.repository]
    command = ["helm", "pull", *source, "--version", chart.version, "--destination", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"{file.name}: helm is not on PATH"
    if done.returncode or not file.is_file():
        return f"{file.name}: {(done.stderr or done.stdout).strip()}"
    stated = digest_of(f"chart {chart.chart} {chart.version}")
    # Of an oci:// chart the publisher states the manifest's digest, which Helm itself compares.
    if stated is None or is_oci or stated.digest == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}":
        return ""
    file.unlink()
    return f"{file.name}: it is not {stated.digest}, as {stated.source} says"


if __name__ == "__main__":
    sys.exit(main())
