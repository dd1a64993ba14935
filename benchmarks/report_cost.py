"""Measure CPU time and size of `gpupools report` for 1,000 pools, compared with `gpupools check` of the same file.

Prints the median CPU seconds of each and its ratio to the check, measured in turn in one run, so that a slow or busy
machine changes all figures alike. With the policies are the offline preview and the policy pack's process.

    python benchmarks/report_cost.py [RUNS]
"""

import statistics
import sys
import tempfile
from pathlib import Path

from command_cost import cpu_seconds

from tests import one_pool

AKS = one_pool.AKS.splitlines(keepends=True)[2]
CLUSTERS = one_pool.EKS.partition("  gpupools:pools:\n")[0] + AKS + "  gpupools:pools:\n"
KINDS = (
    "clusters: [train], gpu: L4, sharing: {{mode: time-slicing, replicas: 4}}, trust: {{team: t{0}}}",
    "clusters: [train], gpu: A100-40GB, gpus_per_node: 8",
    "clusters: [serve], gpu: A100-80GB, sharing: {{mode: mig, profile: 1g.10gb}}",
)
POOLS = 1000


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
        figures: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                figures[name].append(cpu_seconds(command))
        size = page.stat().st_size
    floor = statistics.median(figures["gpupools check"])
    for name, seconds in figures.items():
        median = statistics.median(seconds)
        print(f"{name:28} {median:6.3f} s CPU (lowest {min(seconds):.3f})  {median / floor:5.2f} × the check")
    print(f"{'the page':28} {size / 1e6:6.3f} MB for {POOLS} pools")


if __name__ == "__main__":
    main()
