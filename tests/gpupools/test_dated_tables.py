"""The tool that reads the tables of places, prices and quotas again from their sources."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GCP = ROOT / "providers" / "gpupools" / "providers" / "gcp"
SOURCE = "cloudpilot-ai/karpenter-provider-gcp/pkg/providers/pricing/initial-prices.json"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a folder with the source of Google Cloud's prices, made of the table."""
    listed: dict[str, dict[str, dict[str, float]]] = {}
    with (GCP / "places.csv").open(encoding="utf-8", newline="") as opened:
        regions = next(row["places"] for row in csv.DictReader(opened) if row["instance_type"] == "*")
    for region in regions.split():
        listed[region] = {"on_demand": {"n2-standard-2": 0.1, "a3-highgpu-8g": 0.0}, "spot": {}}
    with (GCP / "prices.csv").open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            for pair in row["usd_per_hour"].split():
                region, _, price = pair.partition("=")
                listed[region][row["capacity"].replace("-", "_")][row["instance_type"]] = float(price)
    file = tmp_path / SOURCE
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"prices": listed}))
    return tmp_path


def run(sources: Path) -> tuple[int, list[str]]:
    """Return exit code and lines of the tool."""
    tool = [sys.executable, str(ROOT / "tooling" / "check_tables.py"), str(sources)]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_a_table_that_is_like_its_source_has_no_differences(sources: Path) -> None:
    """Sources that are missing are named, and do not fail the run; no source at all does."""
    code, lines = run(sources)

    assert code == 0
    assert "gcp/prices.csv: 0 differences" in lines
    assert "gcp/places.csv, regions: 0 differences" in lines
    assert any(line.startswith("aws/prices.csv of 2026: not compared") for line in lines)
    assert run(sources / "nothing")[0] == 2


def test_what_a_source_adds_changes_or_drops_is_printed(sources: Path) -> None:
    """One line per fact, with both sides."""
    file = sources / SOURCE
    listed = json.loads(file.read_text())
    prices = listed["prices"]
    prices["us-central1"]["on_demand"]["a2-highgpu-1g"] = 4.0
    del prices["us-central1"]["spot"]["a2-highgpu-1g"]
    prices["moon-north1"] = {"on_demand": {}, "spot": {}}
    file.write_text(json.dumps(listed))
    code, lines = run(sources)

    assert code == 1
    assert "gcp/prices.csv: a2-highgpu-1g on-demand us-central1: 3.67339, the source has 4.0" in lines
    assert "gcp/prices.csv: a2-highgpu-1g spot us-central1: 1.92802, the source has nothing" in lines
    assert "gcp/places.csv, regions: 1 differences" in lines
