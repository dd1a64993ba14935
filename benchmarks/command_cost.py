"""CPU that `gpupools` commands need, side by side with an interpreter that does nothing and with importing pydantic.

Prints the median CPU seconds of each command and its ratio to the empty interpreter, measured in turn in one run, so
that a slow or busy machine changes all figures alike.

    python benchmarks/command_cost.py [RUNS]
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import one_pool

ONE_POOL = {"EKS": one_pool.EKS, "AKS": one_pool.AKS, "GKE": one_pool.GKE}


def cpu_seconds(command: list[str]) -> float:
    """Run a command to its end and return the CPU time the operating system charged it with."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    python = [sys.executable]
    gpupools = [str(Path(sys.executable).with_name("gpupools"))]
    with tempfile.TemporaryDirectory() as folder:
        files = {service: Path(folder) / f"Pulumi.{service.lower()}.yaml" for service in ONE_POOL}
        for service, file in files.items():
            file.write_text(ONE_POOL[service], encoding="utf-8")
        commands = {
            "an empty interpreter": [*python, "-c", "pass"],
            "import pydantic.main": [*python, "-c", "import pydantic.main"],
            **{f"gpupools check ({service})": [*gpupools, "check", str(file)] for service, file in files.items()},
            "gpupools catalog --json": [*gpupools, "catalog", "--json"],
            "gpupools mig fit": [*gpupools, "mig", "fit", "--gpu", "A100-40GB", "3g.20gb", "2g.10gb", "1g.5gb"],
            "gpupools mig pack": [
                *gpupools,
                "mig",
                "pack",
                "--gpu",
                "A100-40GB",
                "1g.5gb=31",
                "2g.10gb=17",
                "3g.20gb=9",
            ],
        }
        for command in commands.values():
            cpu_seconds(command)
        figures: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                figures[name].append(cpu_seconds(command))
    floor = statistics.median(figures["an empty interpreter"])
    for name, seconds in figures.items():
        median = statistics.median(seconds)
        print(
            f"{name:28} {median:6.3f} s CPU (lowest {min(seconds):.3f})  {median / floor:5.1f} × an empty interpreter"
        )


if __name__ == "__main__":
    main()
