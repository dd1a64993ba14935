"""Measure CPU time, memory and size of `gpupools report` for 1,000 pools, compared with `gpupools check` of the file.

Prints the median CPU seconds of each, its ratio to the check and the most memory, measured in turn in one run, so that
a slow or busy machine changes all figures alike. With the `gpupools` of another checkout, also that one's report.

    python benchmarks/report_cost.py [RUNS] [OTHER_GPUPOOLS]
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import one_pool

AKS = one_pool.AKS.splitlines(keepends=True)[2]
CLUSTERS = one_pool.EKS.partition("  gpupools:pools:\n")[0] + AKS + "  gpupools:pools:\n"
KINDS = (
    "clusters: [train], gpu: L4, sharing: {{mode: time-slicing, replicas: 4}}, trust: {{team: t{0}}}",
    "clusters: [train], gpu: A100-40GB, gpus_per_node: 8",
    "clusters: [serve], gpu: A100-80GB, sharing: {{mode: mig, profile: 1g.10gb}}",
)
POOLS = 1000


def spent(command: list[str]) -> tuple[float, float]:
    """Run a command; return its CPU seconds with all processes it started, and the most memory of it in MB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    gpupools = str(Path(sys.executable).with_name("gpupools"))
    with tempfile.TemporaryDirectory() as folder:
        file, page = Path(folder) / "Pulumi.big.yaml", Path(folder) / "plan.html"
        pools = (
            f"    p{each}: {{{KINDS[each % len(KINDS)].format(each)}, nodes: {{max: 4}}}}\n" for each in range(POOLS)
        )
        file.write_text(CLUSTERS + "".join(pools), encoding="utf-8")
        judged = [gpupools, "report", str(file)]
        report = [*judged, "--no-policies"]
        commands = {
            "gpupools check": [gpupools, "check", str(file)],
            "gpupools report": [*report, "--force", "-o", str(page)],
            "gpupools report --markdown": [*report, "--markdown"],
            "with the policies": [*judged, "--force", "-o", str(page)],
        }
        for other in sys.argv[2:3]:
            commands["the same, other"] = [other, *judged[1:], "--force", "-o", str(page)]
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                figures[name].append(spent(command))
        size = page.stat().st_size
    floor = statistics.median(seconds for seconds, _ in figures["gpupools check"])
    for name, measured in figures.items():
        median = statistics.median(seconds for seconds, _ in measured)
        memory = max(megabytes for _, megabytes in measured)
        print(f"{name:28} {median:6.3f} s CPU, {memory:4.0f} MB  {median / floor:5.2f} × the check")
    print(f"{'the page':28} {size / 1e6:6.3f} MB for {POOLS} pools")


if __name__ == "__main__":
    main()
