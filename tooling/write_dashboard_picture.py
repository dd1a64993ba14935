"""Draw the fleet dashboard of docs/how-to/watch-pools.md from what a real Prometheus answers to its queries.

    python tooling/write_dashboard_picture.py       writes docs/dashboard.svg

Needs `prometheus` and `promtool` on PATH (Debian's package `prometheus`). The series are made up: two pools, and a job
that ends after four hours. Prometheus listens on loopback and ends with the program.
"""

import json
import math
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import yaml

from gpupools.software import monitoring
from gpupools.software.team_shares import team_shares
from tests.gpupools.software.test_monitoring import POOLS, TEAMS
from tests.gpupools.software.test_teams import plan

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "dashboard.svg"
_HOURS, _STEP_S, _START = 6, 60, 1_790_000_000
_NODES = {"big-0": ("big", 8), "big-1": ("big", 8), "slices-0": ("slices", 1)}
_COLOURS = ("#3b7dd8", "#d8783b", "#3aa655", "#9b59b6", "#c0392b", "#16a085", "#7f8c8d", "#b7950b")


def series() -> Iterator[str]:
    """Yield made-up metrics of kube-state-metrics and the DCGM exporter in OpenMetrics."""
    found: dict[str, list[str]] = {}
    for minute in range(_HOURS * 60):
        at = _START + minute * _STEP_S
        for node, (pool, gpus) in _NODES.items():
            resource, units = ("nvidia_com_gpu", gpus) if pool == "big" else ("nvidia_com_mig_1g_5gb", 7)
            runs = node != "big-1" or minute < 240
            used = (units if node != "slices-0" else 4) if runs else 0
            pod = f'namespace="research",pod="{node}-job",node="{node}"'
            samples = {
                "kube_node_labels": (f'node="{node}",label_gpupools_pool="{pool}"', 1),
                "kube_node_status_allocatable": (f'node="{node}",resource="{resource}"', units),
                "kube_pod_container_resource_requests": (f'{pod},resource="{resource}"', used),
                "kube_pod_status_phase": (f'namespace="research",pod="{node}-job",phase="Running"', int(used > 0)),
            }
            for name, (labels, value) in samples.items():
                found.setdefault(name, []).append(f"{name}{{{labels}}} {value} {at}")
            for gpu in range(gpus):
                busy = (0.8 + 0.15 * math.sin((minute + 17 * gpu) / 23)) * (1 if pool == "big" else 0.5) * runs
                held = f',exported_namespace="research",exported_pod="{node}-job"' if runs else ""
                labels = f'Hostname="{node}",gpu="{gpu}"'
                for name, measured in {
                    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy,
                    "DCGM_FI_DEV_GPU_TEMP": 35 + 40 * busy + gpu % 3,
                    "DCGM_FI_DEV_POWER_USAGE": 60 + 320 * busy,
                    "DCGM_FI_DEV_XID_ERRORS": 79 if (node, gpu) == ("big-1", 3) and 200 < minute < 230 else 0,
                }.items():
                    found.setdefault(name, []).append(f"{name}{{{labels}{held}}} {measured:.3f} {at}")
    for name, lines in found.items():
        yield f"# TYPE {name} gauge"
        yield from lines
    yield "# EOF"


def answers(folder: Path) -> list[tuple[str, str, list[Any]]]:
    """Return title, unit and series of each panel, from Prometheus."""
    planned = plan(TEAMS, POOLS)
    shares, _ = team_shares(planned.pools, planned.stack.teams, "train")
    groups = monitoring.rule_groups(planned.pools, planned.stack.teams, shares)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups[:1]}), encoding="utf-8")
    (folder / "series.txt").write_text("\n".join(series()) + "\n", encoding="utf-8")
    (folder / "prometheus.yaml").write_text("{}", encoding="utf-8")
    end = _START + _HOURS * 3600 - _STEP_S
    _run_command(folder, "tsdb", "create-blocks-from", "openmetrics", "series.txt", "data")
    for _ in range(4):  # each turn adds the records that read those of the turn before
        with _prometheus(folder) as url:
            words = ("tsdb", "create-blocks-from", "rules", f"--start={_START}", f"--end={end}", f"--url={url}")
            _run_command(folder, *words, "--eval-interval=60s", "--output-dir=data", "rules.yaml")
    with _prometheus(folder) as url:
        board = monitoring.dashboards(planned.pools, TEAMS)["gpupools-fleet"]
        found = []
        for panel in board["panels"]:
            rows: list[Any] = []
            for target in panel["targets"]:
                asked = urllib.parse.urlencode({"query": target["expr"], "start": _START, "end": end, "step": 120})
                with urllib.request.urlopen(f"{url}/api/v1/query_range?{asked}", timeout=60) as answer:
                    for each in json.load(answer)["data"]["result"]:
                        legend = target["legendFormat"]
                        for key, value in each["metric"].items():
                            legend = legend.replace(f"{{{{{key}}}}}", value)
                        rows.append((legend, [(float(at), float(value)) for at, value in each["values"]]))
            found.append((panel["title"], panel["fieldConfig"]["defaults"]["unit"], rows))
    return found


def _run_command(folder: Path, *words: str) -> None:
    subprocess.run(["promtool", *words], cwd=folder, check=True, capture_output=True)


class _prometheus:  # noqa: N801 - used as a function
    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = ["prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y"]
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def __enter__(self) -> str:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                    return self.url
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("Prometheus did not start")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


def drawn(panels: list[tuple[str, str, list[Any]]]) -> str:
    """Return the panels as SVG, two beside each other."""
    wide, high = 470, 220
    rows = (len(panels) + 1) // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * wide} {rows * high}" font-family="sans-serif">',
        f'<rect width="{2 * wide}" height="{rows * high}" fill="#fff"/>',
    ]
    for number, (title, unit, found) in enumerate(panels):
        left, top = wide * (number % 2) + 50, high * (number // 2) + 30
        most = max((value for _, points in found for _, value in points), default=1) or 1
        parts.append(f'<text x="{left}" y="{top - 10}" font-size="13" font-weight="bold">{escape(title)}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="400" height="130" fill="none" stroke="#ccc"/>')
        parts.append(f'<text x="{left - 6}" y="{top + 8}" font-size="10" text-anchor="end">{_label(most, unit)}</text>')
        parts.append(f'<text x="{left - 6}" y="{top + 130}" font-size="10" text-anchor="end">0</text>')
        for index, (legend, points) in enumerate(found[:8]):
            colour = _COLOURS[index % len(_COLOURS)]
            path = " ".join(
                f"{left + 400 * (at - _START) / (_HOURS * 3600):.1f},{top + 130 - 130 * value / most:.1f}"
                for at, value in points
            )
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            x, y = left + 200 * (index % 2), top + 145 + 12 * (index // 2)
            parts.append(f'<text x="{x}" y="{y}" font-size="10" fill="{colour}">{escape(legend)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _label(value: float, unit: str) -> str:
    return f"{100 * value:.0f} %" if unit == "percentunit" else f"{value:.0f}"


def main() -> int:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        PICTURE.write_text(drawn(answers(Path(name))), encoding="utf-8")
    print(f"{PICTURE.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
